// Models and traces that a server offers, and what it does not.
#include "engine/base/error.h"
#include "engine/record/trace/trace_store.h"
#include "engine/remote/engine_server.h"
#include "engine/remote/offered_files.h"
#include "engine/remote/offered_parts.h"
#include "engine/remote/remote_engine.h"
#include "tests/engine/record/random_recording.h"
#include "tests/engine/remote/fake_engine.h"
#include "tests/engine/remote/proxy.h"
#include "tests/support/seed.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <filesystem>
#include <fstream>
#include <iterator>
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

TEST_CASE("almanacs, gates and saved caches are offered by what they are, not by their names", "[remote]") {
    TemporaryFolder folder;
    const auto put = [&](const char* name, const std::string& text) {
        std::ofstream(folder / name, std::ios::binary) << text;
    };
    const auto safetensors = [](const std::string& header, uint64_t length) {
        std::string bytes;
        for (int i = 0; i < 8; ++i)
            bytes += static_cast<char>(length >> (8 * i) & 0xFF);
        return bytes + header;
    };
    const auto of_format = [&](const std::string& format) {
        const std::string header = R"({"__metadata__": {"format": ")" + format + R"("}})";
        return safetensors(header, header.size());
    };
    put("gate.safetensors", of_format("refreshlab gate"));
    put("cache.safetensors", of_format("refreshlab prompt cache"));
    put("model.safetensors", of_format("pt"));
    put("plain.safetensors", safetensors("{}", 2));
    put("cut.safetensors", safetensors("{}", 200));
    put("huge.safetensors", safetensors("{}", uint64_t{1} << 60));
    put("short.safetensors", "abc");
    put("list.safetensors", safetensors("[1]", 3));
    put("facts.json", R"({"Ashute": {"home": "farm", "colour": "wooden", "animal": "bear"}})");
    put("other.json", R"({"Ashute": 1})");
    put("broken.json", "{");
    put("gate.txt", of_format("refreshlab gate"));
    fs::create_directories(folder / "folder.json");
    const auto parts = parts_in(folder.path());
    REQUIRE(parts.size() == 3);
    using Part = LinkOffers::Part;
    CHECK(parts[0] ==
          Part{Part::Kind::prompt_cache, "cache.safetensors", (folder / "cache.safetensors").string()});
    CHECK(parts[1] == Part{Part::Kind::almanac, "facts.json", (folder / "facts.json").string()});
    CHECK(parts[2] == Part{Part::Kind::gate, "gate.safetensors", (folder / "gate.safetensors").string()});
    CHECK(parts_in(folder / "nowhere").empty());
    for (const Part& part : parts)
        CHECK(part_kind(part_name(part.kind)) == part.kind);
    CHECK_THROWS_AS(part_kind("a spoon"), Error);

    const fs::path assets =
        fs::path(RL_SOURCE_DIR) / "assets"; // the kinds are named as those who write these files name them
    const fs::path gates = assets / "models" / "llama-tales-student" / "gates";
    const auto offered = parts_in(gates);
    CHECK(std::ssize(offered) == std::distance(fs::directory_iterator(gates), fs::directory_iterator()));
    for (const Part& part : offered)
        CHECK(part.kind == Part::Kind::gate);
    CHECK(parts_in(assets / "prompts").size() == 1);

    FakeEngine engine;
    EngineServer::Options options;
    options.listen = parse_endpoint("127.0.0.1:0", "--listen");
    options.parts = [&] { return parts_in(folder.path()); };
    EngineServer server(engine, options);
    RemoteEngine link(to(server.endpoint()));
    CHECK(link.offers().parts == parts);
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

TEST_CASE("a file that is no trace and a fetch that is left leave nothing", "[remote]") {
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
    CHECK(!fs::exists(here.string() + ".part"));
    // A folder that is not there any more.
    CHECK_THROWS_AS(link.fetch_file("run.rlt", "/nowhere/at/all", goes_on), Error);
}

TEST_CASE("a fetch that was interrupted goes on with the bytes that are missing", "[remote]") {
    Place place;
    place.grow(400);
    FakeEngine engine;
    EngineServer server(engine, place.options());
    SlowLink slow(server.endpoint(), {.bytes_per_s = 6'000'000});
    RemoteEngine link(to(slow.endpoint()));
    const fs::path here = place.folder / "here.rlt", part = here.string() + ".part";
    const auto fetched = [&] {
        const uint64_t before = slow.bytes_from_server();
        link.fetch_file("run.rlt", here, goes_on);
        CHECK(!fs::exists(part));
        return slow.bytes_from_server() - before;
    };
    const auto bytes_of = [](const fs::path& path) {
        std::ifstream file(path, std::ios::binary);
        return std::string{std::istreambuf_iterator<char>(file), {}};
    };
    const uint64_t all = fetched();
    const std::string whole = bytes_of(here);
    REQUIRE(whole.size() > 100'000);
    // The connection is lost in the middle, and the run goes on meanwhile: the rest is that of the same moment.
    slow.cut_after(all / 2);
    bool grown = false;
    const uint64_t before = slow.bytes_from_server();
    link.fetch_file("run.rlt", here, [&](double share) {
        if (share > 0.2 && !std::exchange(grown, true)) place.grow(50);
        return true;
    });
    CHECK(slow.bytes_from_server() - before < all * 5 / 4);
    CHECK(bytes_of(here) == whole);
    // What a window has left that was closed on the way.
    REQUIRE(fetched() > all);
    const std::string longer = bytes_of(here);
    CHECK(!first_difference(*load_trace(here).at(0), *place.live));
    std::ofstream(part, std::ios::binary) << longer.substr(0, longer.size() * 3 / 4);
    CHECK(fetched() < all / 2);
    CHECK(bytes_of(here) == longer);
    std::ofstream(part, std::ios::binary) << longer; // all of it was there
    CHECK(fetched() < all / 8);
    CHECK(bytes_of(here) == longer);
    std::ofstream(part, std::ios::binary) << std::string(longer.size() / 2, 'x'); // of something else
    fetched();
    CHECK(bytes_of(here) == longer);
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
