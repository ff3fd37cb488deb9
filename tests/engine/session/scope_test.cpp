// Refreshes with a scope: against a loop written down plainly, and with all that else acts on a cache.
#include "engine/base/error.h"
#include "engine/cache/kv_cache.h"
#include "engine/record/export/export.h"
#include "engine/record/recording/cache_state.h"
#include "engine/session/decode/decode_session.h"
#include "engine/session/driver/replay.h"
#include "tests/engine/session/tiny_pair.h"
#include "tests/support/forward.h"
#include "tests/support/refused.h"
#include "tests/support/seed.h"

#include <ATen/ATen.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <numeric>
#include <random>

namespace scope_test {

using namespace refreshlab;
using namespace refreshlab::test;
using Catch::Matchers::ContainsSubstring;

namespace {

constexpr int64_t layers = 3, kv_heads = 2;

std::shared_ptr<const ModelPair> pair_of(uint64_t teacher, uint64_t student) {
    return tiny_pair(teacher, student, {.layers = layers}, {.layers = layers});
}

RunConfig periodic(int32_t tokens, double every, const RefreshScope& scope) {
    RunConfig config = tiny_run(tokens);
    config.policy = policy_of({trigger("steps_since_refresh", Comparison::at_least, every)});
    config.policy.scope = scope;
    return config;
}

RefreshScope scope_with(const char* of_layers, const char* heads, ScopeParts parts = ScopeParts::both,
                        ScopePositions positions = ScopePositions::all, int32_t count = 5) {
    return {*layers_from_text(of_layers), *heads_from_text(heads), parts, positions, count};
}

std::shared_ptr<const Recording> run(const std::shared_ptr<const ModelPair>& pair, const RunConfig& config) {
    DecodeSession session(pair, config);
    while (session.step()) {
    }
    return session.recording();
}

bool same_cache(const KvCache& a, const KvCache& b) {
    const int64_t n = a.length();
    return n == b.length() && at::equal(a.keys(0, n), b.keys(0, n)) &&
           at::equal(a.values(0, n), b.values(0, n));
}

int32_t arg_max(const at::Tensor& row) {
    return static_cast<int32_t>(row.argmax().item<int64_t>());
}

/// Greedy decode with a refresh every `every` tokens, entry by entry: the teacher reads the whole text anew, and each number is copied alone.
struct Naive {
    std::vector<int32_t> text;
    std::vector<std::vector<int64_t>> written; ///< positions of each refresh
    std::vector<int64_t> bytes;
};
Naive decode(const ModelPair& pair, const std::vector<int32_t>& prompt, int64_t n, int64_t every,
             const RefreshScope& scope) {
    Naive out;
    const auto length = static_cast<int64_t>(prompt.size());
    const auto teacher_over = [&](const std::vector<int32_t>& ids, at::Tensor* last) {
        auto cache = pair.teacher->make_cache(length + n);
        *last = extend(*pair.teacher, *cache, ids, Rows::last, Origin::teacher_prefill)[0];
        return cache;
    };
    at::Tensor row;
    const auto student = pair.student->make_cache(length + n);
    student->adopt_prefix(*teacher_over(prompt, &row), length);
    int32_t pending = arg_max(row);
    out.text.push_back(pending);
    std::vector<int32_t> fed = prompt;
    int64_t spliced_to = length;
    for (int64_t t = 1; t < n; ++t) {
        row = step(*pair.student, *student, pending, Origin::student).row;
        fed.push_back(pending);
        pending = arg_max(row);
        const int64_t end = length + t;
        if (end - spliced_to >= every && t + 1 < n) {
            at::Tensor ignored;
            const auto teacher = teacher_over(fed, &ignored);
            const int64_t head_dim = student->head_dim();
            std::vector<std::pair<double, int64_t>> by_drift;
            for (int64_t p = spliced_to; p < end; ++p) {
                double drift = 0;
                for (int64_t l = 0; l < layers; ++l) {
                    if (!scope.has(l, 0) && !scope.has(l, 1)) continue;
                    const auto distance = [&](const at::Tensor& own, const at::Tensor& teachers) {
                        const at::Tensor a = own.select(1, p).to(at::kDouble),
                                         b = teachers.select(1, p).to(at::kDouble);
                        return (a - b).norm().item<double>() / b.norm().item<double>();
                    };
                    if (scope.parts != ScopeParts::values)
                        drift += distance(student->keys(l), teacher->keys(l));
                    if (scope.parts != ScopeParts::keys)
                        drift += distance(student->values(l), teacher->values(l));
                }
                by_drift.emplace_back(-drift, p);
            }
            if (scope.positions == ScopePositions::drift) std::ranges::sort(by_drift);
            if (scope.positions == ScopePositions::newest) std::ranges::reverse(by_drift);
            if (scope.positions != ScopePositions::all && std::ssize(by_drift) > scope.count)
                by_drift.resize(static_cast<size_t>(scope.count));
            int64_t numbers = 0;
            std::vector<int64_t> written;
            for (const auto& [score, p] : by_drift) {
                written.push_back(p);
                for (int64_t l = 0; l < layers; ++l) {
                    for (int64_t h = 0; h < kv_heads; ++h) {
                        if (!scope.has(l, h)) continue;
                        for (int64_t d = 0; d < head_dim; ++d) {
                            if (scope.parts != ScopeParts::values) {
                                student->keys(l)[h][p][d] = teacher->keys(l)[h][p][d];
                                ++numbers;
                            }
                            if (scope.parts != ScopeParts::keys) {
                                student->values(l)[h][p][d] = teacher->values(l)[h][p][d];
                                ++numbers;
                            }
                        }
                    }
                }
            }
            std::ranges::sort(written);
            out.written.push_back(written);
            out.bytes.push_back(numbers * 4);
            spliced_to = end;
        }
        out.text.push_back(pending);
    }
    return out;
}

const std::vector<RefreshScope>& scopes() {
    static const std::vector<RefreshScope> some = {
        scope_with("1-2", "all"),
        scope_with("all", "1", ScopeParts::values),
        scope_with("0,2", "all", ScopeParts::keys, ScopePositions::drift, 3),
        scope_with("all", "0:1,1-2:0", ScopeParts::both, ScopePositions::newest, 4),
        scope_with("all", "all", ScopeParts::both, ScopePositions::drift, 4),
        scope_with("all", "all", ScopeParts::both, ScopePositions::attention, 4),
        scope_with("1", "all", ScopeParts::values, ScopePositions::drift_attention, 2),
    };
    return some;
}

} // namespace

TEST_CASE("refreshes with a scope are those of a loop that copies entry by entry", "[session][scope]") {
    std::mt19937 random(seed(6101));
    for (int round = 0; round < 24; ++round) {
        const auto pair = pair_of(300 + static_cast<uint64_t>(round), 400 + static_cast<uint64_t>(round));
        std::vector<uint8_t> heads(layers * kv_heads);
        for (uint8_t& one : heads)
            one = random() % 2 == 0 ? 1 : 0;
        heads[random() % heads.size()] = 1;
        RefreshScope scope = scope_of_heads(heads, layers, kv_heads);
        scope.parts = static_cast<ScopeParts>(random() % 3);
        scope.positions = static_cast<ScopePositions>(random() % 3); // all, newest, drift
        scope.count = 1 + static_cast<int32_t>(random() % 6);
        const auto every = static_cast<int64_t>(3 + random() % 9);
        const auto recording = run(pair, periodic(36, static_cast<double>(every), scope));
        CAPTURE(round, every, scope_text(scope));
        const Naive naive = decode(*pair, recording->info().prompt_ids, 36, every, scope);
        CHECK(recording->token_ids() == naive.text);
        REQUIRE(recording->refreshes().size() == naive.written.size());
        for (size_t i = 0; i < naive.written.size(); ++i) {
            const RefreshEvent& event = recording->refreshes()[i];
            CHECK(event.spliced == std::ssize(naive.written[i]));
            CHECK(event.first_pos == naive.written[i].front());
            CHECK(event.delta == every);
            REQUIRE(event.bytes_sent);
            CHECK(*event.bytes_sent == naive.bytes[i]);
        }
    }
}

TEST_CASE("a scope that names everything is the whole refresh, bit for bit, and one of nothing is none",
          "[session][scope]") {
    const auto pair = pair_of(31, 32);
    const RunConfig whole_config = periodic(40, 6, {});
    const auto whole = run(pair, whole_config);
    CHECK(whole->refreshes().size() == 6);
    for (const RefreshScope& scope :
         {scope_with("0-2", "0-1"), scope_with("0-2", "0:0-1,1:0-1,2:0-1"),
          scope_with("all", "all", ScopeParts::both, ScopePositions::drift, 100),
          scope_with("all", "all", ScopeParts::both, ScopePositions::newest, 6)}) {
        CAPTURE(scope_text(scope));
        REQUIRE_FALSE(scope.whole());
        RunConfig config = whole_config;
        config.policy.scope = scope;
        DecodeSession session(pair, config), reference(pair, whole_config);
        while (session.step()) {
            reference.step();
            REQUIRE(same_cache(*session.student_cache(), *reference.student_cache()));
            REQUIRE(
                std::ranges::equal(session.student_cache()->origins(), reference.student_cache()->origins()));
        }
        CHECK(session.recording()->token_ids() == whole->token_ids());
        for (size_t i = 0; i < whole->refreshes().size(); ++i) {
            CHECK(session.recording()->refreshes()[i].bytes_sent == whole->refreshes()[i].bytes_sent);
            CHECK(session.recording()->refreshes()[i].spliced == 6);
        }
    }
    RunConfig none = whole_config;
    none.policy = {};
    const auto plain = run(pair, none);
    CHECK(plain->token_ids() != whole->token_ids());
    for (const RefreshScope& scope : {scope_with("all", "all", ScopeParts::both, ScopePositions::newest, 0),
                                      scope_with("all", "all", ScopeParts::both, ScopePositions::drift, 0),
                                      scope_with("0", "1:0")}) { // no KV head of layer 0
        CAPTURE(scope_text(scope));
        RunConfig config = whole_config;
        config.policy.scope = scope;
        const auto recording = run(pair, config);
        CHECK(recording->token_ids() == plain->token_ids());
        REQUIRE(recording->refreshes().size() == 6);
        for (size_t i = 0; i < 6; ++i) {
            CHECK(recording->refreshes()[i].spliced == 0);
            CHECK(recording->refreshes()[i].bytes_sent == 0);
        }
        const CacheState state = cache_state(*recording, recording->steps(), false);
        CHECK(state.origins()[static_cast<size_t>(recording->prompt_length())] == Origin::skipped);
    }
}

TEST_CASE("the recording says of every layer and KV head what a scoped refresh wrote", "[session][scope]") {
    const auto pair = pair_of(33, 34);
    for (const RefreshScope& scope : scopes()) {
        CAPTURE(scope_text(scope));
        DecodeSession session(pair, periodic(30, 7, scope));
        while (session.step()) {
        }
        const Recording& r = *session.recording();
        const CacheState state = cache_state(r, r.steps(), false);
        const KvCache& cache = *session.student_cache();
        const int64_t prompt = r.prompt_length();
        const Origin whole = scope.parts == ScopeParts::keys     ? Origin::teacher_keys
                             : scope.parts == ScopeParts::values ? Origin::teacher_values
                                                                 : Origin::teacher_refresh;
        for (int64_t p = prompt; p < prompt + 21; ++p) { // three refreshes of 7
            const auto at = static_cast<size_t>(p);
            const RefreshEvent& event = r.refreshes()[static_cast<size_t>((p - prompt) / 7)];
            const bool position_written = cache.origin(p) != Origin::skipped;
            bool any = false, all = true;
            for (int64_t l = 0; l < layers; ++l) {
                for (int64_t h = 0; h < kv_heads; ++h) {
                    const bool written = position_written && scope.has(l, h);
                    any |= written;
                    all &= written;
                    CHECK(state.plane(l, h).origin[at] == (written ? whole : Origin::skipped));
                    CHECK(state.plane(l, h).refresh[at] == event.id);
                    CHECK(state.plane(l, h).written_at[at] == (written ? event.step : p - prompt + 1));
                }
            }
            CHECK(any == position_written);
            CHECK(state.origins()[at] == cache.origin(p));
            CHECK(cache.origin(p) == (all ? whole : any ? Origin::teacher_partly : Origin::skipped));
        }
        for (size_t i = 0; i < 3; ++i) {
            int64_t written = 0;
            for (int64_t p = prompt + static_cast<int64_t>(i) * 7;
                 p < prompt + static_cast<int64_t>(i + 1) * 7; ++p)
                written += cache.origin(p) != Origin::skipped ? 1 : 0;
            CHECK(r.refreshes()[i].spliced == written);
            CHECK(written == (scope.positions == ScopePositions::all ? 7 : scope.count));
        }
        CHECK(r.drifts()[0]->positions == 7); // measured of all of delta, whatever is written
    }
}

TEST_CASE("positions by attention are those that the recorded rows give most", "[session][scope]") {
    const auto pair = pair_of(35, 36);
    RunConfig config =
        periodic(40, 9, scope_with("all", "all", ScopeParts::both, ScopePositions::attention, 4));
    config.capture.attention = true;
    config.capture.attention_bins = 0;
    DecodeSession session(pair, config);
    while (session.step()) {
    }
    const Recording& r = *session.recording();
    const int64_t prompt = r.prompt_length();
    REQUIRE(r.refreshes().size() == 4);
    size_t by_attention_alone = 0;
    for (size_t i = 0; i < 4; ++i) {
        const int64_t first = prompt + static_cast<int64_t>(i) * 9;
        std::vector<double> received(9);
        for (size_t n = 0; n < r.attention_rows().size(); ++n) {
            const AttentionRows& rows = *r.attention_rows()[n];
            if (rows.position < first || rows.position >= first + 9) continue;
            REQUIRE(rows.every_key());
            for (size_t row = 0; row < rows.layers.size() * static_cast<size_t>(rows.heads); ++row)
                for (int64_t p = first; p <= rows.position; ++p)
                    received[static_cast<size_t>(p - first)] += static_cast<double>(half_to_float(
                        rows.weights[row * static_cast<size_t>(rows.keys) + static_cast<size_t>(p)]));
        }
        double least_written = 1e9, most_left = 0;
        for (int64_t p = 0; p < 9; ++p) {
            const double sum = received[static_cast<size_t>(p)];
            if (session.student_cache()->origin(first + p) == Origin::teacher_refresh) {
                least_written = std::min(least_written, sum);
            } else {
                most_left = std::max(most_left, sum);
            }
        }
        CHECK(least_written >= most_left - 1e-2); // the rows are halves
        by_attention_alone += session.student_cache()->origin(first + 8) != Origin::teacher_refresh ? 1 : 0;
    }
    CHECK(by_attention_alone > 0); // they are not just the newest
}

TEST_CASE("a run whose refreshes have a scope is rewound, replayed and branched bit for bit",
          "[session][scope]") {
    const auto pair = pair_of(37, 38);
    for (const RefreshScope& scope : scopes()) {
        for (const int32_t lag : {0, 3}) {
            CAPTURE(scope_text(scope), lag);
            RunConfig config = periodic(40, 6, scope);
            config.policy.lag = lag;
            config.sampler.temperature = 0.7;
            DecodeSession session(pair, config);
            while (session.step()) {
            }
            const auto original = session.recording();
            const auto cache = session.student_cache()->clone();
            CHECK(first_difference(*original, *replay(*original, pair)).value_or("") == "");
            for (const int64_t to : {20, 6, 0}) {
                session.rewind(to);
                while (session.step()) {
                }
                CHECK(first_difference(*original, *session.recording()).value_or("") == "");
                CHECK(same_cache(*session.student_cache(), *cache));
            }
        }
    }
}

TEST_CASE(
    "with teacher == student no scope changes anything; under cache policies a run is rewound and replayed",
    "[session][scope]") {
    const auto twins = pair_of(39, 39), others = pair_of(40, 41);
    for (const char* name : {"full", "h2o", "streaming_llm", "quest", "kivi", "cam", "tova"}) {
        for (const RefreshScope& scope : scopes()) {
            CAPTURE(name, scope_text(scope));
            RunConfig config = periodic(36, 6, scope);
            config.student_cache = cache_policy_defaults(name, "a test");
            if (const auto budget = config.student_cache.values.find("budget");
                budget != config.student_cache.values.end())
                budget->second = 16;
            if (std::string_view(name) == "full") { // what was evicted or encoded is not what the teacher has
                RunConfig without = config;
                without.policy = {};
                CHECK(run(twins, config)->token_ids() == run(twins, without)->token_ids());
            }
            DecodeSession session(others, config);
            while (session.step()) {
            }
            const auto original = session.recording();
            CHECK(original->refreshes().size() > 3);
            CHECK(first_difference(*original, *replay(*original, others)).value_or("") == "");
            session.rewind(13);
            while (session.step()) {
            }
            CHECK(first_difference(*original, *session.recording()).value_or("") == "");
        }
    }
}

TEST_CASE("verified text is the teacher's whatever a refresh writes", "[session][scope]") {
    const auto pair = pair_of(42, 43);
    RunConfig teacher = tiny_run(32);
    teacher.mode = Mode::teacher;
    const std::vector<int32_t> expected = text_of(pair, teacher);
    for (const RefreshScope& scope : scopes()) {
        CAPTURE(scope_text(scope));
        RunConfig config = periodic(32, 4, scope);
        config.policy.on_fire = OnFire::verify;
        const auto recording = run(pair, config);
        CHECK(recording->token_ids() == expected);
        CHECK(first_difference(*recording, *replay(*recording, pair)).value_or("") == "");
        CHECK(bytes_sent(*recording).value_or(0) > 0);
    }
}

TEST_CASE("a scope changes while a run goes on, and one that the model cannot have is refused",
          "[session][scope]") {
    const auto pair = pair_of(44, 45);
    DecodeSession session(pair, periodic(40, 5, {}));
    for (int i = 0; i < 7; ++i)
        session.step();
    const auto apply = [&](const char* key, const char* value) {
        return refused([&] { session.apply(command::SetParameter{key, value}); });
    };
    CHECK_THAT(apply("refresh.layers", "2-3"), ContainsSubstring("layer 3: the model has layers 0 to 2"));
    CHECK_THAT(apply("refresh.kv_heads", "2"), ContainsSubstring("KV head 2: the model has KV heads 0 to 1"));
    RefreshPolicy policy = preset_policy("periodic");
    policy.scope = scope_with("5", "all");
    CHECK_THAT(refused([&] { session.apply(command::SetPolicy{policy}); }), ContainsSubstring("layer 5"));
    CHECK(session.recording()->commands().empty());
    CHECK(apply("refresh.layers", "2") == "accepted");
    CHECK(apply("refresh.parts", "values") == "accepted");
    while (session.step()) {
    }
    const Recording& r = *session.recording();
    const int64_t whole = r.refreshes()[0].bytes_sent.value();
    CHECK(r.refreshes()[1].bytes_sent == whole / 6); // one of three layers, one half of two
    CHECK(first_difference(r, *replay(r, pair)).value_or("") == "");

    RunConfig config = periodic(10, 5, scope_with("3", "all"));
    CHECK_THAT(refused([&] { DecodeSession(pair, config); }),
               ContainsSubstring("layer 3: the model has layers 0 to 2"));
    const auto unlike = tiny_pair(46, 47, {.layers = 3}, {.layers = 2}); // rebuild mode
    config = periodic(10, 5, scope_with("1", "all"));
    CHECK_THAT(refused([&] { DecodeSession(unlike, config); }), ContainsSubstring("no entries are copied"));
    config.policy.scope = {};
    CHECK(run(unlike, config)->refreshes()[0].bytes_sent == 0);
}

} // namespace scope_test
