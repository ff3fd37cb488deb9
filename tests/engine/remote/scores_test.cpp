#include "engine/remote/engine_server.h"
#include "engine/remote/remote_engine.h"
#include "engine/remote/score_sender.h"
#include "engine/remote/wire.h"
#include "tests/engine/record/random_recording.h"
#include "tests/engine/remote/fake_engine.h"
#include "tests/engine/remote/proxy.h"
#include "tests/support/seed.h"

#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>

#include <numeric>

namespace scores_test {

using namespace refreshlab;
using namespace refreshlab::remote;
using namespace refreshlab::test;
using nlohmann::json;

namespace {

/// What a policy would tell: a score of each entry in some planes.
void choose(Recording& run, int64_t step) {
    std::vector<int64_t> positions(static_cast<size_t>(run.prompt_length() + step));
    std::iota(positions.begin(), positions.end(), 0);
    const int64_t planes = run.info().layers * run.info().kv_heads;
    for (int64_t plane = 0; plane < planes; plane += 2) { // in the others it does not choose
        std::vector<float> scores;
        for (const int64_t position : positions)
            scores.push_back(static_cast<float>(position) + 0.25F * static_cast<float>(plane) +
                             100 * static_cast<float>(step));
        run.entry_scores().set(plane, step, positions, scores);
    }
}

bool same_scores(const Recording& a, const Recording& b, int64_t position) {
    const auto x = a.entry_scores().column(position), y = b.entry_scores().column(position);
    return std::ranges::equal(x, y, [](const auto& p, const auto& q) {
        return p.step == q.step && (p.step < 0 || p.value == q.value);
    });
}

} // namespace

TEST_CASE("scores of a position come first, then those beside it, then only what has changed", "[remote]") {
    Grower grower(seed(1));
    const auto there = grower.start();
    grower.grow(*there, 60);
    choose(*there, 60);
    Recording here(there->info(), there->token_table());
    here.entry_scores().come_on_demand();
    ScoreSender sender;
    const auto take = [&](const json& message) {
        if (message.is_null()) return size_t{0};
        take_scores(from_bytes(to_bytes(message)), here);
        return message.at("columns").size();
    };
    CHECK(take(sender.next()) == 0); // nobody looks
    CHECK(!there->entry_scores().asked());
    sender.look(there, 40);
    CHECK(there->entry_scores().asked());
    CHECK(take(sender.next()) == 1);
    CHECK(here.entry_scores().here(40));
    CHECK(!here.entry_scores().here(41));
    CHECK(same_scores(*there, here, 40));
    CHECK(take(sender.next()) == 0);
    CHECK(take(sender.next_beside(1)) == 1);
    CHECK(here.entry_scores().here(41)); // the nearest
    CHECK(take(sender.next_beside(1 << 20)) > 10);
    CHECK(take(sender.next_beside(1 << 20)) == 0);
    CHECK(here.entry_scores().here(40 - ScoreSender::beside));
    grower.grow(*there, 1);
    choose(*there, 61);
    CHECK(take(sender.next()) == 1);
    CHECK(same_scores(*there, here, 40));
    CHECK(here.entry_scores().at(0, 40)->step == 61);
    CHECK(here.entry_scores().at(0, 41)->step == 60); // not told again yet

    json wrong = {{"run", "x"}, {"columns", {{3, json::binary({1, 2}), json::binary({})}}}};
    CHECK_THROWS_AS(take_scores(wrong, here), ProtocolError);
    sender.look(nullptr, -1);
    CHECK(take(sender.next_beside(1 << 20)) == 0);
}

TEST_CASE("a window gets the scores that it looks at, also after a cut and of a run that was left",
          "[remote]") {
    FakeEngine engine;
    Grower grower(seed(2));
    auto live = grower.start();
    grower.grow(*live, 30);
    choose(*live, 30);
    engine.show(live);
    EngineServer::Options options;
    options.listen = parse_endpoint("127.0.0.1:0", "--listen");
    EngineServer server(engine, options);
    SlowLink slow(server.endpoint(), {});
    RemoteEngine::Options to;
    to.server = slow.endpoint();
    to.name = "ada";
    RemoteEngine link(to);
    LinkWatcher watch(link);
    REQUIRE(watch.until_has(*live));
    const auto here = link.recording();
    CHECK(here->entry_scores().on_demand());
    CHECK(!here->entry_scores().here(5));
    const auto comes = [&](const Recording& run, const Recording& of, int64_t position) {
        run.entry_scores().want(position);
        link.look_at(run, 3); // as each frame of a window
        return watch.until([&](const EngineStatus&) {
            return run.entry_scores().here(position) && same_scores(of, run, position);
        });
    };
    CHECK(comes(*here, *live, 5));
    CHECK(live->entry_scores().asked());
    slow.cut_after(0);
    REQUIRE(watch.until([](const EngineStatus& s) { return !s.link->connected; }));
    grower.grow(*live, 1);
    choose(*live, 31);
    engine.tell();
    REQUIRE(watch.until_has(*live));
    CHECK(comes(*here, *live, 5)); // told anew without being asked again

    auto branch = live->fork(20, "branch");
    choose(*branch, 20);
    engine.show(branch);
    REQUIRE(watch.until_has(*branch));
    const auto twig = link.recording();
    CHECK(twig->entry_scores().on_demand());
    CHECK(!twig->entry_scores().here(5));
    CHECK(comes(*twig, *branch, 7));
    CHECK(comes(*here, *live, 9));
}

} // namespace scores_test
