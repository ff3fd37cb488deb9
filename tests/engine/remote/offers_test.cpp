// Models and traces that a server offers, and what it does not.
#include "engine/base/error.h"
#include "engine/record/trace/trace_store.h"
#include "engine/remote/engine_server.h"
#include "engine/remote/offered_files.h"
#include "engine/remote/remote_engine.h"
#include "tests/engine/record/random_recording.h"
#include "tests/engine/remote/fake_engine.h"
#include "tests/engine/remote/proxy.h"
#include "tests/support/seed.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <filesystem>
#include <fstream>
#include <thread>

namespace offers_test {

namespace fs = std::filesystem;
using namespace refreshlab;
using namespace refreshlab::remote;
using namespace refreshlab::test;
using Catch::Matchers::ContainsSubstring;

namespace {

/// A folder with a trace that still grows, and beside it what nobody may see.
struct Place {
    Place()
        : grower(seed(41))
        , live(grower.start())
        , store((fs::create_directories(traces()), TraceStore::create(traces() / "run.rlt"))) {
        std::ofstream(folder / "secret.rlt") << "SQLite format 3, or not: nobody may know";
        fs::create_symlink("../secret.rlt", traces() / "link.rlt");
        fs::create_symlink(folder / "secret.rlt", traces() / "absolute.rlt");
        fs::create_directories(traces() / "inner.rlt");
        std::ofstream(traces() / "notes.txt") << "not offered";
        std::ofstream(traces() / ".hidden.rlt") << "not offered";
        fs::create_directories(folder / "models" / "one");
        std::ofstream(folder / "models" / "one" / "config.json") << "{}";
        store->attach(live);
        grow(30);
    }
    [[nodiscard]] fs::path traces() const { return folder / "traces"; }
    void grow(int steps) {
        grower.grow(*live, steps);
        store->notify();
        store->flush();
    }
    [[nodiscard]] EngineServer::Options options() const {
        EngineServer::Options options;
        options.listen = parse_endpoint("127.0.0.1:0", "--listen");
        options.files = traces();
        options.models = [models = folder / "models"] { return models_in(models); };
        return options;
    }
    TemporaryFolder folder;
    Grower grower;
    std::shared_ptr<Recording> live;
    std::unique_ptr<TraceStore> store;
};

RemoteEngine::Options to(const Endpoint& server) {
    RemoteEngine::Options options;
    options.server = server;
    options.name = "ada";
    return options;
}

const auto goes_on = [](double) { return true; };

} // namespace

TEST_CASE("a server offers its models and traces, and a trace that grows is fetched as it is", "[remote]") {
    Place place;
    FakeEngine engine;
    EngineServer server(engine, place.options());
    RemoteEngine link(to(server.endpoint()));
    const LinkOffers offers = link.offers();
    CHECK(offers.problem.empty());
    CHECK(offers.models == std::vector{LinkOffers::Model{"one", (place.folder / "models" / "one").string()}});
    REQUIRE(offers.files.size() == 1);
    CHECK(offers.files[0].name == "run.rlt");
    CHECK(offers.files[0].bytes > 0);
    const fs::path here = place.folder / "here.rlt";
    double share = -1;
    link.fetch_file("run.rlt", here, [&](double now) {
        CHECK(now >= share);
        share = now;
        return true;
    });
    const auto runs = load_trace(here);
    REQUIRE(runs.size() == 1);
    CHECK(!first_difference(*runs[0], *place.live));
    place.grow(20);
    link.fetch_file("run.rlt", here, goes_on); // over the one before
    CHECK(!first_difference(*load_trace(here).at(0), *place.live));
    CHECK(!fs::exists(here.string() + ".part"));
    for (const auto& entry : fs::directory_iterator(place.traces())) // no copy stays
        CHECK(!entry.path().filename().string().starts_with(".sent"));
}

TEST_CASE("a client reads no file that a server has not offered", "[remote]") {
    Place place;
    FakeEngine engine;
    EngineServer server(engine, place.options());
    RemoteEngine link(to(server.endpoint()));
    const fs::path here = place.folder / "stolen";
    for (const std::string& name :
         {std::string("../secret.rlt"), (place.folder / "secret.rlt").string(), std::string("link.rlt"),
          std::string("absolute.rlt"), std::string("inner.rlt"), std::string("inner.rlt/../run.rlt"),
          std::string("./run.rlt"), std::string("notes.txt"), std::string(".hidden.rlt"), std::string(),
          std::string("."), std::string(".."), std::string("run.rlt\0x.rlt", 13), std::string("/etc/passwd"),
          std::string("none.rlt")}) {
        CAPTURE(name);
        try {
            link.fetch_file(name, here, goes_on);
            FAIL("it was sent");
        } catch (const Error& e) {
            CHECK_THAT(e.problem(), ContainsSubstring("offers no file of that name"));
        }
        CHECK(!fs::exists(here));
        CHECK(!fs::exists(here.string() + ".part"));
    }
    EngineServer nothing(engine, [&] {
        auto options = place.options();
        options.files.clear();
        options.models = {};
        return options;
    }());
    RemoteEngine other(to(nothing.endpoint()));
    CHECK(other.offers().models.empty());
    CHECK(other.offers().files.empty());
    CHECK_THROWS_AS(other.fetch_file("run.rlt", here, goes_on), Error);
    CHECK_THROWS_AS(engine.fetch_file("run.rlt", here, goes_on), Error); // an engine of this process
}

TEST_CASE("a file that is no trace, a fetch that is left and a connection that is lost leave nothing",
          "[remote]") {
    Place place;
    place.grow(400);
    std::ofstream(place.traces() / "broken.rlt") << std::string(5000, 'x');
    FakeEngine engine;
    EngineServer server(engine, place.options());
    SlowLink slow(server.endpoint(), {.bytes_per_s = 100'000});
    RemoteEngine link(to(slow.endpoint()));
    const fs::path here = place.folder / "here.rlt";
    CHECK_THROWS_AS(link.fetch_file("broken.rlt", here, goes_on), Error);
    link.fetch_file("run.rlt", here, [](double share) { return share <= 0; });
    CHECK(!fs::exists(here));
    slow.cut_after(20'000);
    CHECK_THROWS_AS(link.fetch_file("run.rlt", here, goes_on), Error);
    CHECK(!fs::exists(here));
    CHECK(!fs::exists(here.string() + ".part"));
    // A folder that is not there any more.
    CHECK_THROWS_AS(link.fetch_file("run.rlt", "/nowhere/at/all", goes_on), Error);
}

TEST_CASE("the rows of a run come while a file comes", "[remote]") {
    Place place;
    place.grow(60);
    FakeEngine engine;
    engine.show(place.live);
    EngineServer server(engine, place.options());
    SlowLink slow(server.endpoint(), {.bytes_per_s = 200'000});
    RemoteEngine link(to(slow.endpoint()));
    LinkWatcher watch(link);
    REQUIRE(watch.until_has(*place.live));
    int64_t seen = 0, before = link.recording()->steps();
    link.fetch_file("run.rlt", place.folder / "here.rlt", [&](double share) {
        if (share > 0 && share < 0.8) {
            seen += link.recording()->steps() > before ? 1 : 0;
            before = link.recording()->steps();
            place.grower.grow(*place.live, 1);
            engine.tell();
        }
        return true;
    });
    CHECK(seen >= 2);
}

} // namespace offers_test
