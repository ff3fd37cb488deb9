// Every cache policy of the registry in sessions on tiny random models: a new one is tested by being registered.
#include "engine/base/error.h"
#include "engine/cache/kv_cache.h"
#include "engine/control/parameters.h"
#include "engine/record/recording/cache_state.h"
#include "engine/session/decode/decode_session.h"
#include "engine/session/driver/replay.h"
#include "tests/engine/session/tiny_pair.h"

#include <ATen/ATen.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cmath>

using namespace refreshlab;
using namespace refreshlab::test;
using Catch::Matchers::ContainsSubstring;

namespace {

constexpr int32_t tokens = 40;

const std::shared_ptr<const ModelPair>& pair_of_two() {
    static const auto pair = tiny_pair(11, 12, {.layers = 3}, {.layers = 3});
    return pair;
}

RunConfig run_of(Mode mode) {
    RunConfig config = tiny_run(tokens);
    config.prompt = "Once upon a time a fox and a crow lived by the river, and every morning the crow sang "
                    "of the mill, the "
                    "bridge and the seven hills, while the fox counted boats.";
    config.mode = mode;
    return config;
}

/// The policy with budgets of `entries`, and parameters that let it act within a short run.
CachePolicyConfig small(std::string_view name, int64_t entries) {
    CachePolicyConfig policy = cache_policy_defaults(name, "a test");
    const auto set = [&](const char* key, double value) {
        if (const auto found = policy.values.find(key); found != policy.values.end()) found->second = value;
    };
    set("budget", static_cast<double>(entries));
    set("partial", static_cast<double>(entries));
    set("window", 4);
    set("page", 4);
    set("dense_layers", 1);
    set("interval", 8);
    set("check_every", 3);
    return policy;
}

RunConfig with(RunConfig config, const CachePolicyConfig& policy) {
    (config.mode == Mode::teacher ? config.teacher_cache : config.student_cache) = policy;
    return config;
}

const KvCache& cache_of(const DecodeSession& session) {
    return session.config().mode == Mode::teacher ? *session.teacher_cache() : *session.student_cache();
}

void finish(DecodeSession& session) {
    while (session.step()) {
    }
}

/// The text, and signals of every step that any read of a wrong entry would change.
std::vector<float> trail(const Recording& recording) {
    std::vector<float> values;
    for (int64_t t = 1; t <= recording.steps(); ++t) {
        values.push_back(static_cast<float>(recording.step(t).token_id));
        if (recording.step(t).fed)
            values.push_back(recording.signal(t, require_signal("entropy_bits", "a test")));
    }
    return values;
}

/// Positions and bits of all that is held.
bool same_contents(const KvCache& a, const KvCache& b) {
    for (int64_t layer = 0; layer < a.num_layers(); ++layer) {
        for (int64_t head = 0; head < a.num_kv_heads(); ++head) {
            const auto held = a.held(layer, head);
            if (!std::ranges::equal(held, b.held(layer, head))) return false;
            if (!at::equal(a.read(layer, head, held), b.read(layer, head, held))) return false;
        }
    }
    return true;
}

} // namespace

TEST_CASE("a budget that nothing reaches changes no bit", "[session][cache_policy]") {
    for (const Mode mode : {Mode::student, Mode::teacher, Mode::overfill}) {
        DecodeSession full(pair_of_two(), run_of(mode));
        finish(full);
        for (const CacheMethod& method : cache_methods()) {
            CAPTURE(method.name, to_string(mode));
            DecodeSession session(pair_of_two(), with(run_of(mode), small(method.name, 300)));
            finish(session);
            CHECK(trail(*session.recording()) == trail(*full.recording()));
        }
    }
}

TEST_CASE("a small budget is kept to, counted to the byte, and nothing evicted is read",
          "[session][cache_policy]") {
    constexpr int64_t budget = 12;
    for (const Mode mode : {Mode::student, Mode::teacher, Mode::overfill}) {
        for (const CacheMethod& method : cache_methods()) {
            CAPTURE(method.name, to_string(mode));
            DecodeSession session(pair_of_two(), with(run_of(mode), small(method.name, budget)));
            finish(session);
            const Recording& recording = *session.recording();
            const KvCache& cache = cache_of(session);
            const auto prompt = std::ssize(recording.info().prompt_ids);
            REQUIRE(prompt > 2 * budget);
            // Slots of evicted entries hold NaN: one read of them would reach every number that follows.
            for (const float value : trail(recording))
                CHECK(std::isfinite(value));
            int64_t entries = 0, most = 0;
            for (int64_t layer = 0; layer < cache.num_layers(); ++layer) {
                for (int64_t head = 0; head < cache.num_kv_heads(); ++head) {
                    entries += std::ssize(cache.held(layer, head));
                    most = std::max(most, std::ssize(cache.held(layer, head)));
                }
            }
            CHECK(cache.bytes_used() == entries * 2 * cache.head_dim() * 4);
            const int64_t heads = cache.num_layers() * cache.num_kv_heads(),
                          generated = cache.length() - prompt;
            const bool decodes = method.name == "sliding_window" || method.name == "streaming_llm" ||
                                 method.name == "random" || method.name == "h2o" || method.name == "tova";
            const bool once = method.name == "snapkv" || method.name == "pyramidkv" || method.name == "adakv";
            if (decodes) {
                CHECK(entries == heads * budget);
                CHECK(most == budget);
            } else if (once) {
                CHECK(entries == heads * (budget + generated));
            } else if (method.name == "lazy_eviction") {
                CHECK(most <= budget + 8);
            } else {
                CHECK(entries == heads * cache.length()); // nothing leaves
            }
            // The events tell the same story.
            const CacheState state = cache_state(recording, recording.steps(), mode == Mode::teacher);
            for (int64_t layer = 0; layer < cache.num_layers(); ++layer) {
                for (int64_t head = 0; head < cache.num_kv_heads(); ++head) {
                    const auto held = cache.held(layer, head);
                    std::vector<int64_t> told;
                    for (int64_t p = 0; p < cache.length(); ++p) {
                        if (state.plane(layer, head).state[static_cast<size_t>(p)] == EntryState::attended)
                            told.push_back(p);
                    }
                    CHECK(std::ranges::equal(held, told));
                }
            }
        }
    }
}

TEST_CASE("rewinding goes back across evictions, bit for bit", "[session][cache_policy]") {
    for (const CacheMethod& method : cache_methods()) {
        CAPTURE(method.name);
        RunConfig config = with(run_of(Mode::overfill), small(method.name, 12));
        config.policy =
            policy_of({trigger("steps_since_refresh", Comparison::above, 6.5)}, {}, OnFire::redraw);
        DecodeSession straight(pair_of_two(), config), session(pair_of_two(), config),
            half(pair_of_two(), config);
        finish(straight);
        finish(session);
        for (int i = 0; i < 11; ++i)
            half.step();
        session.rewind(11);
        CHECK(same_contents(*session.student_cache(), *half.student_cache()));
        finish(session);
        CHECK(trail(*session.recording()) == trail(*straight.recording()));
        CHECK(same_contents(*session.student_cache(), *straight.student_cache()));
    }
}

TEST_CASE("a run is replayed from its record, whatever the threads", "[session][cache_policy]") {
    for (const CacheMethod& method : cache_methods()) {
        CAPTURE(method.name);
        DecodeSession session(pair_of_two(), with(run_of(Mode::overfill), small(method.name, 12)));
        finish(session);
        const auto again = replay(*session.recording(), pair_of_two());
        CHECK(trail(*again) == trail(*session.recording()));
        CHECK(again->cache_entries().size() == session.recording()->cache_entries().size());
        RunConfig config = session.config();
        config.threads = 1;
        DecodeSession alone(pair_of_two(), config);
        finish(alone);
        CHECK(trail(*alone.recording()) == trail(*session.recording()));
    }
}

TEST_CASE("a prompt in chunks is kept like a prompt in one", "[session][cache_policy]") {
    RunConfig config = run_of(Mode::student);
    for (int i = 0; i < 3; ++i)
        config.prompt += " " + config.prompt;
    config.prompt = config.prompt.substr(0, 1100); // longer than a chunk of the session
    config.max_tokens = 12;
    for (const char* name : {"h2o", "snapkv", "tova", "refreshkv"}) {
        CAPTURE(name);
        DecodeSession session(pair_of_two(), with(config, small(name, 40)));
        REQUIRE(std::ssize(session.recording()->info().prompt_ids) > 256);
        finish(session);
        // The teacher as its own student: the same weights read the prompt, through the other path.
        const auto twins = tiny_pair(12, 12, {.layers = 3}, {.layers = 3});
        RunConfig handed = with(config, small(name, 40));
        handed.mode = Mode::overfill;
        DecodeSession other(twins, handed);
        finish(other);
        CHECK(trail(*other.recording()) == trail(*session.recording()));
        CHECK(same_contents(*other.student_cache(), *session.student_cache()));
    }
}

TEST_CASE("with teacher = student a refresh changes nothing under any cache policy",
          "[session][cache_policy]") {
    // Columns of a student under a policy are not the full teacher's, so only a policy that reads everything is a no-op; for
    // the others positions keep their contract: what is held after the splice is what was held before it.
    const auto twins = tiny_pair(12, 12, {.layers = 3}, {.layers = 3});
    for (const CacheMethod& method : cache_methods()) {
        CAPTURE(method.name);
        RunConfig config = with(run_of(Mode::overfill), small(method.name, 300));
        DecodeSession without(twins, config);
        finish(without);
        config.policy = policy_of({trigger("steps_since_refresh", Comparison::above, 6.5)});
        DecodeSession refreshed(twins, config);
        finish(refreshed);
        CHECK(refreshed.recording()->refreshes().size() > 0);
        CHECK(trail(*refreshed.recording()) == trail(*without.recording()));

        config = with(run_of(Mode::overfill), small(method.name, 12));
        DecodeSession session(twins, config);
        for (int i = 0; i < 20; ++i)
            session.step();
        session.apply(command::RefreshNow{});
        session.step();
        const KvCache &student = *session.student_cache(), &teacher = *session.teacher_cache();
        CHECK(session.splice_watermark() == student.length());
        const auto prompt = std::ssize(session.recording()->info().prompt_ids);
        for (int64_t layer = 0; layer < student.num_layers(); ++layer) {
            for (int64_t head = 0; head < student.num_kv_heads(); ++head) {
                std::vector<int64_t> generated;
                for (const int64_t p : student.held(layer, head)) {
                    if (p >= prompt) generated.push_back(p);
                }
                CHECK(at::equal(student.read(layer, head, generated), teacher.read(layer, head, generated)));
            }
        }
    }
}

TEST_CASE("what a policy cannot do is said in one line before anything is computed",
          "[session][cache_policy]") {
    const auto refusal = [](const std::shared_ptr<const ModelPair>& pair,
                            const RunConfig& config) -> std::string {
        try {
            DecodeSession session(pair, config);
        } catch (const Error& e) {
            return e.what();
        }
        return {};
    };
    RunConfig config = run_of(Mode::overfill);
    config.teacher_cache = small("h2o", 12);
    CHECK_THAT(refusal(pair_of_two(), config), ContainsSubstring("keeps all of them"));
    CHECK_THAT(refusal(pair_of_two(), with(run_of(Mode::student), small("h2o", 513))),
               ContainsSubstring("513 entries are more than the 512"));
    const auto strangers = tiny_pair(11, 12, {.layers = 3}, {.layers = 2});
    CHECK_THAT(refusal(strangers, with(run_of(Mode::overfill), small("h2o", 12))),
               ContainsSubstring("KV geometries differ"));
    const auto uneven = tiny_pair(11, 12, {.heads = 4}, {.heads = 2});
    CHECK_THAT(refusal(uneven, with(run_of(Mode::overfill), small("snapkv", 12))),
               ContainsSubstring("query heads"));
    CHECK(refusal(uneven, with(run_of(Mode::overfill), small("sliding_window", 12))).empty());
    config = run_of(Mode::teacher);
    config.student_cache = small("h2o", 12);
    DecodeSession idle(pair_of_two(), config);
    CHECK_THAT(idle.recording()->info().note, ContainsSubstring("does nothing in mode teacher"));
}
