// Texts read under cache policies, against sessions that read the same text as a given one.
#include "engine/record/recording/recording.h"
#include "engine/session/decode/decode_session.h"
#include "engine/session/pair/run_text.h"
#include "engine/study/measure/cache_reading.h"
#include "tests/engine/session/tiny_pair.h"
#include "tests/support/seed.h"

#include <c10/core/InferenceMode.h>
#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>

#include <cmath>
#include <random>

using namespace refreshlab;
using namespace refreshlab::test;

TEST_CASE("a text under cache policies is read as sessions read it", "[study][cache_policy]") {
    const auto pair = tiny_pair(seed(41), seed(42), {.layers = 3}, {.layers = 3});
    std::mt19937_64 random(seed(43));
    std::vector<int32_t> tokens;
    for (int i = 0; i < 70; ++i)
        tokens.push_back(static_cast<int32_t>(50 + random() % 4000));
    constexpr int64_t prompt = 48;
    std::vector<CachePolicyConfig> policies;
    for (const char* name : {"full", "h2o", "snapkv", "refreshkv", "h2o", "streaming_llm", "quest", "random",
                             "oracle", "kivi"}) {
        CachePolicyConfig policy = cache_policy_defaults(name, "a test");
        const auto set = [&](const char* key, double value) {
            if (const auto found = policy.values.find(key); found != policy.values.end())
                found->second = value;
        };
        set("budget", policies.size() == 4 ? 20 : 12); // two that add up columns
        set("partial", 12);
        set("window", 4);
        set("page", 4);
        set("check_every", 3);
        set("similarity", 0.95);
        set("residual", 16);
        set("group_size", 8);
        policies.push_back(policy);
    }
    const auto readings = [&] {
        const c10::InferenceMode guard;
        return read_under_policies(*pair->student, tokens, prompt, policies, 7);
    }();
    REQUIRE(readings.size() == policies.size());
    const RunText text{{"", {tokens.begin(), tokens.begin() + prompt}, 0},
                       {tokens.begin() + prompt, tokens.end()}};
    for (size_t i = 0; i < policies.size(); ++i) {
        CAPTURE(i, policies[i].policy);
        const CacheReading& reading = readings[i];
        RunConfig config = tiny_run(64);
        config.mode = Mode::student;
        config.given_text = "given as ids";
        config.student_cache = policies[i];
        DecodeSession session(pair, config, {}, &text);
        while (session.step()) {
        }
        const Recording& recording = *session.recording();
        REQUIRE(recording.num_tokens() == 22);
        REQUIRE(reading.logprob.size() == 22);
        REQUIRE(reading.kl_nats.size() == 21);
        const size_t logprob = require_signal("logprob", "a test"),
                     hit = require_signal("top1_hit", "a test");
        for (size_t t = 1; t <= 22; ++t) {
            CHECK(static_cast<float>(reading.logprob[t - 1]) ==
                  recording.signal(static_cast<int64_t>(t), logprob));
            CHECK(static_cast<float>(reading.first_choice[t - 1]) ==
                  recording.signal(static_cast<int64_t>(t), hit));
        }
        for (const double kl : reading.kl_nats)
            CHECK((policies[i].is_full() ? kl == 0 : kl > 0 && std::isfinite(kl)));
        double read = 0;
        int64_t full_steps = 0;
        for (int64_t t = 1; t <= 21; ++t) {
            const auto entries = recording.signal_id("cache_read");
            read += entries ? static_cast<double>(recording.signal(t, *entries)) / 21
                            : static_cast<double>(prompt + t) / 21;
            if (const auto full = recording.signal_id("full_step")) {
                for (const float layer : recording.layer_values(t, *full))
                    full_steps += layer > 0.5F ? 1 : 0;
            }
        }
        CHECK(std::abs(reading.entries_read - read) < 1e-4);
        const ModelConfig& model = pair->student->config();
        const double entry =
            2.0 * 4 * static_cast<double>(model.head_dim * model.num_kv_heads * model.num_layers);
        if (policies[i].is_full()) CHECK(reading.bytes_held == entry * (prompt + 11)); // 1 to 21 more
        if (policies[i].policy == "streaming_llm") { // 12, and where they stand
            CHECK(reading.bytes_held > entry * 12);
            CHECK(reading.bytes_held < entry * 18);
        }
        if (policies[i].policy == "kivi") CHECK(reading.bytes_held < entry * (prompt + 11));
        if (policies[i].policy == "refreshkv") {
            CHECK(full_steps > 0);
            CHECK(std::abs(reading.stride() - 63.0 / static_cast<double>(full_steps)) < 1e-9);
        } else {
            CHECK(reading.stride() == 0);
        }
        CHECK(to_json(cache_reading_from_json(to_json(reading), "a test")) == to_json(reading));
    }
}
