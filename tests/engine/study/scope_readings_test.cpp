// Where refreshes pay: against sessions with that scope, bit for bit, and against caches that are changed by hand.
#include "engine/base/error.h"
#include "engine/cache/kv_cache.h"
#include "engine/control/parameters.h"
#include "engine/session/driver/run_driver.h"
#include "engine/session/pair/run_text.h"
#include "engine/session/readings/scope_readings.h"
#include "engine/study/studies/scope_tables.h"
#include "tests/engine/session/tiny_pair.h"
#include "tests/support/forward.h"
#include "tests/support/refused.h"
#include "tests/support/seed.h"

#include <ATen/ATen.h>
#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <random>

namespace scope_readings_test {

using namespace refreshlab;
using namespace refreshlab::test;
using Catch::Approx;
using Catch::Matchers::ContainsSubstring;
using Kind = ScopePart::Kind;

namespace {

struct Text {
    std::shared_ptr<const ModelPair> pair;
    ScopeMapRequest request;
};

Text some_text(uint32_t salt, int64_t tokens, std::vector<int64_t> boundaries, int64_t horizon,
               const TinyShape& shape = {}) {
    std::mt19937 random(seed(salt));
    Text text{tiny_pair(random(), random(), shape, shape), {}};
    const auto ids = [&](int64_t n) {
        std::vector<int32_t> some;
        for (int64_t i = 0; i < n; ++i)
            some.push_back(static_cast<int32_t>(random() % 4096));
        return some;
    };
    text.request.prompt_ids = ids(11);
    text.request.tokens = ids(tokens);
    text.request.boundaries = std::move(boundaries);
    text.request.horizon = horizon;
    return text;
}

Execution one_thread() {
    return std::make_shared<const kernels::ExecutionContext>(1);
}

/// What a part takes, number by number.
bool takes(const ScopePart& part, bool without, int64_t layer, int64_t head, int64_t i, int64_t delta,
           int64_t blocks, bool key) {
    const bool in_part =
        (part.layer < 0 || part.layer == layer) && (part.kv_head < 0 || part.kv_head == head) &&
        (part.block < 0 || (i >= part.block * delta / blocks && i < (part.block + 1) * delta / blocks)) &&
        (part.parts == ScopeParts::both || (part.parts == ScopeParts::keys) == key);
    return in_part != without;
}

/// Loss over the tokens behind the last boundary, with the caches of a plain loop. \param taken  of the last refresh; those before are whole
double by_hand(const Text& text, const std::vector<int64_t>& boundaries,
               const std::function<bool(int64_t layer, int64_t head, int64_t i, bool key)>& taken) {
    const LlamaModel &teacher = *text.pair->teacher, &student = *text.pair->student;
    const ScopeMapRequest& r = text.request;
    const int64_t prompt = std::ssize(r.prompt_ids);
    std::vector<int32_t> all = r.prompt_ids;
    all.insert(all.end(), r.tokens.begin(), r.tokens.end());
    const auto teachers = teacher.make_cache(std::ssize(all)), own = student.make_cache(std::ssize(all));
    static_cast<void>(extend(teacher, *teachers, all, Rows::none, Origin::teacher_prefill));
    own->adopt_prefix(*teachers, prompt);
    double loss = 0;
    int64_t spliced = 0;
    const int64_t last = boundaries.back();
    for (int64_t t = 1; t <= last + r.horizon; ++t) {
        const at::Tensor row =
            step(student, *own, all[static_cast<size_t>(prompt + t - 1)], Origin::student).row;
        if (t > last)
            loss -=
                at::log_softmax(row.to(at::kDouble), -1)[all[static_cast<size_t>(prompt + t)]].item<double>();
        if (std::ranges::find(boundaries, t) == boundaries.end()) continue;
        for (int64_t l = 0; l < own->num_layers(); ++l)
            for (int64_t h = 0; h < own->num_kv_heads(); ++h)
                for (int64_t i = 0; i < t - spliced; ++i) {
                    const int64_t p = prompt + spliced + i;
                    if (t < last || taken(l, h, i, true)) own->keys(l)[h][p].copy_(teachers->keys(l)[h][p]);
                    if (t < last || taken(l, h, i, false))
                        own->values(l)[h][p].copy_(teachers->values(l)[h][p]);
                }
        spliced = t;
    }
    return loss / static_cast<double>(r.horizon);
}

/// The same from a session that reads the text with a schedule and a scope, as its records have it.
double by_session(const Text& text, int64_t boundary, const RefreshScope& scope) {
    RunConfig config = tiny_run(static_cast<int32_t>(text.request.tokens.size()));
    config.policy.at = {boundary};
    config.policy.scope = scope;
    auto run = std::make_shared<RunText>();
    run->prompt.ids = text.request.prompt_ids;
    run->given = text.request.tokens;
    RunDriver driver({.pair = text.pair, .config = std::move(config), .text = std::move(run)});
    driver.run();
    const Recording& recording = *driver.recording();
    double loss = 0;
    for (int64_t t = boundary + 1; t <= boundary + text.request.horizon; ++t)
        loss -= static_cast<double>(recording.signal(t + 1, *signal_id("logprob")));
    return loss / static_cast<double>(text.request.horizon);
}

} // namespace

TEST_CASE("what is read of a part has the bits of a session with that scope", "[study][scope]") {
    const TinyShape shape{.layers = 3, .kv_heads = 2};
    const auto made = [&](uint32_t salt) {
        Text some = some_text(salt, 40, {13}, 9, shape);
        some.request.keep = 1e9; // all KV heads
        return some;
    };
    const auto map_of = [](const Text& of) { return compute_scope_map(*of.pair, of.request, one_thread()); };
    Text text = made(71);
    auto map = map_of(text);
    for (uint32_t salt = 1071; map && map->taken.empty() && salt < 1171; ++salt) {
        text = made(salt); // a refresh that gains nothing has no greedy order
        map = map_of(text);
    }
    REQUIRE(map);
    REQUIRE(map->refreshes.size() == 1);
    CHECK(map->refreshes[0].delta == 13);
    RefreshScope nothing;
    nothing.positions = ScopePositions::newest;
    nothing.count = 0;
    CHECK(map->refreshes[0].none == by_session(text, 13, nothing));
    CHECK(map->refreshes[0].whole == by_session(text, 13, {}));
    CHECK(map->readings.size() == 2 + 3 + 6 + 6 + 12);
    const auto heads_of = [&](const ScopePart& part, bool without) {
        std::vector<uint8_t> heads(6);
        for (int64_t l = 0; l < 3; ++l)
            for (int64_t h = 0; h < 2; ++h)
                heads[static_cast<size_t>(l * 2 + h)] = takes(part, without, l, h, 0, 13, 4, true) ? 1 : 0;
        return heads;
    };
    for (const ScopeMap::Reading& reading : map->readings) {
        const ScopePart& part = reading.part;
        CAPTURE(to_string(part.kind), part.layer, part.kv_head, to_string(part.parts));
        if (part.kind == Kind::half) {
            RefreshScope alone, without;
            alone.parts = part.parts;
            without.parts = part.parts == ScopeParts::keys ? ScopeParts::values : ScopeParts::keys;
            CHECK(reading.alone[0] == by_session(text, 13, alone));
            CHECK(reading.without[0] == by_session(text, 13, without));
        } else if (part.kind == Kind::layer || part.kind == Kind::head) {
            CHECK(reading.alone[0] == by_session(text, 13, scope_of_heads(heads_of(part, false), 3, 2)));
            CHECK(reading.without[0] == by_session(text, 13, scope_of_heads(heads_of(part, true), 3, 2)));
        } else if (part.kind == Kind::layer_half) {
            RefreshScope alone =
                scope_of_heads(heads_of({Kind::layer, part.layer, -1, -1, ScopeParts::both}, false), 3, 2);
            alone.parts = part.parts;
            CHECK(reading.alone[0] == by_session(text, 13, alone));
        }
    }
    // The greedy order's losses are those of its scopes.
    REQUIRE(map->taken.size() == 6);
    for (size_t n = 1; n <= 6; ++n)
        CHECK(map->taken[n - 1].loss[0] == by_session(text, 13, scope_of_taken(*map, n)));
    CHECK(map->taken[5].loss[0] == map->refreshes[0].whole);
}

TEST_CASE("what is read of parts is what caches give that were changed by hand", "[study][scope]") {
    const TinyShape shape{.layers = 2, .kv_heads = 4};
    Text text = some_text(72, 70, {5, 12, 19, 50, 65}, 7, shape); // the last one has too few tokens behind it
    text.request.blocks = 3;
    text.request.keep = 0;
    const auto map = compute_scope_map(*text.pair, text.request, one_thread());
    REQUIRE(map);
    REQUIRE(map->refreshes.size() == 4);
    CHECK(map->taken.empty());
    std::mt19937 random(seed(73));
    std::vector<int64_t> so_far;
    for (size_t r = 0; r < 4; ++r) {
        so_far.push_back(text.request.boundaries[r]);
        const int64_t delta = map->refreshes[r].delta;
        CHECK(delta == so_far.back() - (r == 0 ? 0 : so_far[r - 1]));
        CHECK(map->refreshes[r].none ==
              Approx(by_hand(text, so_far, [](auto...) { return false; })).epsilon(1e-6));
        CHECK(map->refreshes[r].whole ==
              Approx(by_hand(text, so_far, [](auto...) { return true; })).epsilon(1e-6));
        for (const ScopeMap::Reading& reading : map->readings) {
            if (random() % 4 != 0) continue; // each of them costs two runs
            for (const bool without : {false, true}) {
                CAPTURE(r, to_string(reading.part.kind), reading.part.layer, reading.part.kv_head,
                        reading.part.block, without);
                const double expected = by_hand(text, so_far, [&](int64_t l, int64_t h, int64_t i, bool key) {
                    return takes(reading.part, without, l, h, i, delta, 3, key);
                });
                CHECK((without ? reading.without : reading.alone)[r] == Approx(expected).epsilon(1e-6));
            }
        }
    }
}

TEST_CASE("a greedy order of few KV heads takes the best of all of them at each step", "[study][scope]") {
    const TinyShape shape{.layers = 2, .kv_heads = 2};
    Text text = some_text(74, 60, {8, 16, 24, 32, 40}, 8, shape);
    text.request.keep = 1e9;
    const auto map = compute_scope_map(*text.pair, text.request, one_thread());
    REQUIRE(map);
    double whole = 0;
    for (const ScopeMap::Refresh& r : map->refreshes)
        whole += r.gain();
    if (!(whole > 0)) { // random models may gain nothing; then there is no order
        CHECK(map->taken.empty());
        CHECK_FALSE(gain_share(*map, map->readings[0].alone));
        return;
    }
    REQUIRE(map->taken.size() == 4);
    std::vector<std::pair<int64_t, int64_t>> taken;
    for (const ScopeMap::Taken& step : map->taken) {
        double best = 1e9, chosen = 0;
        for (int64_t l = 0; l < 2; ++l) {
            for (int64_t h = 0; h < 2; ++h) {
                if (std::ranges::find(taken, std::pair(l, h)) != taken.end()) continue;
                double sum = 0;
                std::vector<int64_t> so_far;
                for (const int64_t boundary : text.request.boundaries) {
                    so_far.push_back(boundary);
                    sum += by_hand(text, so_far, [&](int64_t layer, int64_t head, int64_t, bool) {
                        return (layer == l && head == h) ||
                               std::ranges::find(taken, std::pair(layer, head)) != taken.end();
                    });
                }
                best = std::min(best, sum);
                if (l == step.layer && h == step.kv_head) chosen = sum;
            }
        }
        CHECK(chosen == Approx(best).epsilon(1e-7));
        taken.emplace_back(step.layer, step.kv_head);
    }
}

TEST_CASE("a map is ended by its progress, and what it cannot be made of is refused", "[study][scope]") {
    Text text = some_text(75, 30, {8, 16}, 5);
    int64_t calls = 0;
    CHECK_FALSE(compute_scope_map(*text.pair, text.request, one_thread(), [&](const ScopeMapProgress& now) {
        CHECK(now.rows_done <= now.rows);
        return ++calls < 3;
    }));
    CHECK(calls == 3);
    text.request.horizon = 25;
    CHECK_THAT(refused([&] { (void)compute_scope_map(*text.pair, text.request, one_thread()); }),
               ContainsSubstring("no refresh has 25 tokens behind it") && ContainsSubstring("--horizon"));
    text.request.horizon = 5;
    text.pair = tiny_pair(1, 2, {.layers = 2}, {.layers = 3});
    CHECK_THAT(refused([&] { (void)compute_scope_map(*text.pair, text.request, one_thread()); }),
               ContainsSubstring("no entries are copied"));
}

TEST_CASE("shares, bytes, scopes and tables of a map that is known", "[study][scope]") {
    ScopeMap map{.layers = 2,
                 .kv_heads = 2,
                 .blocks = 2,
                 .horizon = 4,
                 .entry_bytes = 100,
                 .refreshes = {},
                 .readings = {},
                 .taken = {}};
    for (int i = 0; i < 6; ++i)
        map.refreshes.push_back({8 * (i + 1), 8, 2.0, 1.0, 0.5});
    map.readings.push_back({{Kind::half, -1, -1, -1, ScopeParts::values},
                            std::vector<double>(6, 1.25),
                            std::vector<double>(6, 1.5)});
    map.readings.push_back({{Kind::block, 1, -1, 0, ScopeParts::both},
                            std::vector<double>(6, 2.0),
                            std::vector<double>(6, 1.0)});
    map.taken = {{1, 0, std::vector<double>(6, 1.4)},
                 {0, 1, std::vector<double>(6, 1.1)},
                 {1, 1, std::vector<double>(6, 1.02)}};
    const auto alone = gain_share(map, map.readings[0].alone);
    REQUIRE(alone);
    CHECK(alone->share == Approx(0.75));
    REQUIRE(alone->interval);
    CHECK(alone->interval->low == Approx(0.75));
    CHECK(lost_share(map, map.readings[0].without)->share == Approx(0.5));
    CHECK(map.bytes_of(map.readings[0].part) == 2 * 2 * 8 * 50);
    CHECK(map.bytes_of(map.readings[1].part) == 2 * 4 * 100);
    CHECK(heads_for(map, 0.5) == size_t{1});
    CHECK(heads_for(map, 0.9) == size_t{2});
    CHECK(heads_for(map, 0.99) == std::nullopt);
    CHECK(scope_flags(scope_of_taken(map, 2)) == "--set refresh.kv_heads=0:1,1:0");
    RunConfig config;
    set_parameter(config, "refresh.kv_heads=0:1,1:0");
    CHECK(config.policy.scope == scope_of_taken(map, 2));
    const MeanGain gain = mean_gain(map, map.readings[0].alone);
    CHECK(gain.gain == Approx(0.75));
    REQUIRE(gain.interval);
    CHECK(gain.interval->high == Approx(0.75));
    const StudyResult tables = scope_tables(map);
    CHECK(tables.tables.size() == 3);
    CHECK_THAT(to_markdown(tables),
               ContainsSubstring("--set refresh.kv_heads=0:1,1:0") && ContainsSubstring("values"));
    CHECK(to_json(map).at("parts").at(0).at("share").at("share") == Approx(0.75));
    CHECK_THAT(to_markdown(tables), !ContainsSubstring("say little"));
    for (size_t i = 0; i < 3; ++i)
        map.refreshes[i].none = 0.6; // half of them lose as much as the others gain, nearly
    CHECK_THAT(to_markdown(scope_tables(map)),
               ContainsSubstring("All of it gains 0.3000 nats a token") && ContainsSubstring("say little"));
    for (size_t i = 0; i < 3; ++i)
        map.refreshes[i].none = 2.0;
    map.refreshes.resize(4);
    for (ScopeMap::Reading& reading : map.readings) {
        reading.alone.resize(4);
        reading.without.resize(4);
    }
    CHECK_FALSE(gain_share(map, map.readings[0].alone)->interval); // too few for one
    for (ScopeMap::Refresh& r : map.refreshes)
        r.whole = 3;
    CHECK_FALSE(gain_share(map, map.readings[0].alone)); // there is no gain to have a share of
}

} // namespace scope_readings_test
