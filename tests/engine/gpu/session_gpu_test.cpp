#include "engine/session/decode/decode_session.h"
#include "engine/session/driver/replay.h"
#include "kernels/shared/attention_bins.h"
#include "kernels/simt/harness.h"
#include "tests/engine/gpu/simt_decoder.h"
#include "tests/engine/session/device_runs.h"
#include "tests/engine/session/tiny_pair.h"
#include "tests/support/share.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

/// Whole sessions whose decode steps are the device's kernels, on the host machine: against the same sessions on the CPU.
namespace refreshlab::test::session_gpu {
namespace {

std::shared_ptr<const ModelPair> pair_of(bool on_host_machine) {
    TinyShape teacher, student;
    teacher.head_dim = student.head_dim = 16;
    teacher.attention_dropout = student.attention_dropout = 0.1;
    student.hidden = 19; // padded inside
    student.intermediate = 31;
    auto pair = tiny_pair(50, 51, teacher, student);
    if (on_host_machine) {
        // They were made as what they are a moment ago, and nobody shares them yet.
        decode_on_host_machine(const_cast<LlamaModel&>(*pair->teacher));
        decode_on_host_machine(const_cast<LlamaModel&>(*pair->student));
    }
    return pair;
}

RunConfig short_reading(const RefreshPolicy& policy) {
    RunConfig config = reading(policy);
    config.max_tokens = 12;
    config.mc.samples = 2; // each row more is work for the machine
    return config;
}

TEST_CASE("a session decoded by the device's kernels gives the CPU's numbers, under every policy",
          "[gpu][session]") {
    const auto cpu = pair_of(false), gpu = pair_of(true);
    Share share("refresh policies decoded by the device's kernels");
    (void)simt::take_activity();
    for (const RefreshPolicy& policy : reading_policies()) {
        if (!share.takes()) continue;
        const RunConfig config = short_reading(policy);
        CAPTURE(policy_to_json(policy).dump());
        CHECK(difference(*whole_run(gpu, config), *whole_run(cpu, config)) == "");
    }
    CHECK(simt::take_activity().graph_launches > 0);
}

TEST_CASE(
    "greedy and drawn steps leave their logits where they were born, but where filters need more of them",
    "[gpu][session]") {
    const auto gpu = pair_of(true), cpu = pair_of(false);
    struct Case {
        SamplerConfig sampler;
        bool reads_rows = false;
    };
    const std::vector<Case> cases{{{}},
                                  {{.temperature = 0.8}},
                                  {{.temperature = 0.3}},
                                  {{.temperature = 1.1, .top_k = 5}},
                                  {{.temperature = 0.9, .top_k = 64, .top_p = 0.9}},
                                  {{.temperature = 0.1, .top_p = 0.9}},
                                  {{.temperature = 1.0, .min_p = 0.6}},
                                  {{.temperature = 1.0, .top_k = 65}, true},
                                  {{.temperature = 4.0, .top_p = 0.99}, true}}; // thousands of tokens
    Share share("samplers of decode steps on a device");
    for (const Mode mode : {Mode::student, Mode::teacher}) {
        for (const Case& c : cases) {
            if (!share.takes()) continue;
            RunConfig config = tiny_run(8);
            config.mode = mode;
            config.mc.measure = false;
            config.sampler = c.sampler;
            config.capture.top_k = 5;
            DecodeSession session(gpu, config);
            REQUIRE((session.step() && session.step())); // the graph is made
            (void)simt::take_activity();
            while (session.step()) {
            }
            const simt::Activity activity = simt::take_activity();
            const int64_t steps = activity.graph_launches;
            CAPTURE(static_cast<int>(mode), c.sampler.temperature, c.sampler.top_k, c.sampler.top_p,
                    c.sampler.min_p);
            REQUIRE(steps == session.recording()->steps() - 3); // the last token is not fed
            CHECK(activity.other_copies == steps);              // their state
            // The row, to a tensor, which is the host's here. In mode teacher also where its token's place is not among the largest.
            const int64_t rows = activity.pageable_copies;
            if (c.reads_rows) {
                CHECK(rows == steps);
            } else if (mode == Mode::student || c.sampler.temperature <= 0) {
                CHECK(rows == 0);
            } else {
                const auto& recording = *session.recording();
                int64_t far = 0;
                for (int64_t step = 3; step < recording.steps(); ++step) {
                    const StepRecord& record = recording.step(step);
                    far += std::ranges::count(record.top_ids.begin(), record.top_ids.begin() + record.top_k,
                                              record.next_token_id) == 0;
                }
                CHECK(rows <= far);
                if (c.sampler.top_k == 0 && c.sampler.top_p == 1 && c.sampler.min_p == 0) CHECK(rows == far);
            }
            CHECK(activity.device_waits + activity.stream_waits + activity.event_waits == 0);
            session.score();
            CHECK(difference(*session.recording(), *whole_run(cpu, config)) == "");
        }
    }
}

TEST_CASE("a text drawn by the device's kernels is the CPU's, for every seed", "[gpu][session]") {
    const auto gpu = pair_of(true), cpu = pair_of(false);
    Share share("seeds of texts drawn on a device");
    for (const SamplerConfig& sampler :
         {SamplerConfig{.temperature = 0.9}, SamplerConfig{.temperature = 0.9, .top_k = 40, .top_p = 0.95},
          SamplerConfig{.temperature = 0.5, .top_p = 0.8}, SamplerConfig{.temperature = 1.2, .min_p = 0.3}}) {
        for (const uint64_t seed : {uint64_t{1}, uint64_t{2}, uint64_t{1} << 40}) {
            if (!share.takes()) continue;
            RunConfig config = tiny_run(10);
            config.mode = Mode::student;
            config.mc.measure = false;
            config.sampler = sampler;
            config.seed = seed;
            CAPTURE(sampler.temperature, sampler.top_k, sampler.top_p, sampler.min_p, seed);
            const auto text = text_of(gpu, config);
            CHECK(text == text_of(cpu, config));
            config.seed += 7;
            CHECK(text != text_of(cpu, config));
        }
    }
}

TEST_CASE("a session's refreshes are the device's launches, and it waits for their drift alone",
          "[gpu][session]") {
    RunConfig config = short_reading(policy_of({trigger("steps_since_refresh", Comparison::at_least, 3)}, 2));
    config.mc.measure = false;
    DecodeSession session(pair_of(true), config);
    (void)simt::take_activity();
    while (session.step()) {
    }
    const simt::Activity activity = simt::take_activity();
    const auto refreshes = session.recording()->refreshes().size();
    REQUIRE(refreshes >= 3);
    const auto splices = std::ranges::count_if(
        activity.launches, [](const simt::LaunchRecord& l) { return l.kernel.starts_with("splice_kernel"); });
    CHECK(static_cast<size_t>(splices) == 2 * refreshes); // drift of delta, then the columns of its window
    CHECK(static_cast<size_t>(activity.event_waits) == refreshes);
    CHECK(activity.device_waits == 0);
    session.score();
    CHECK(difference(*session.recording(), *whole_run(pair_of(false), config)) == "");
    session.rewind(2);
    CHECK(std::ranges::any_of(simt::take_activity().launches, [](const simt::LaunchRecord& l) {
        return l.kernel.starts_with("splice_kernel");
    }));
}

TEST_CASE("attention rows and their entropy come along with the device's steps", "[gpu][session]") {
    const auto cpu = pair_of(false), gpu = pair_of(true);
    RunConfig config = short_reading({});
    config.max_tokens = 8;
    config.capture.attention = config.capture.attention_entropy = true;
    config.capture.attention_bins = GENERATE(0, 6);
    CAPTURE(config.capture.attention_bins);
    DecodeSession expected(cpu, config), got(gpu, config);
    (void)simt::take_activity();
    while (expected.step())
        REQUIRE(got.step());
    const simt::Activity activity = simt::take_activity();
    CHECK(activity.graph_launches == got.recording()->steps() - 1); // the last token is not fed
    CHECK(activity.device_waits + activity.event_waits == 0);
    CHECK(difference(*got.recording(), *expected.recording()) == "");
    const auto rows = got.recording()->attention_rows(), others = expected.recording()->attention_rows();
    REQUIRE(!rows.empty());
    REQUIRE(rows.size() == others.size());
    for (size_t i = 0; i < rows.size(); ++i) {
        CAPTURE(i, rows[i]->position, rows[i]->teacher);
        REQUIRE(rows[i]->position == others[i]->position);
        REQUIRE(rows[i]->layers == others[i]->layers);
        REQUIRE(rows[i]->edges == others[i]->edges);
        REQUIRE(resolution_of(*rows[i]).widest ==
                kernels::shared::bin_width(rows[i]->keys, config.capture.attention_bins));
        REQUIRE(rows[i]->weights.size() == others[i]->weights.size());
        for (size_t w = 0; w < rows[i]->weights.size(); ++w)
            REQUIRE(std::abs(half_to_float(rows[i]->weights[w]) - half_to_float(others[i]->weights[w])) <=
                    2e-3F);
    }
}

TEST_CASE("drafts that the device's kernels write are judged and cut, and the run replays bit for bit",
          "[gpu][session][verify]") {
    const auto cpu = pair_of(false), gpu = pair_of(true);
    RefreshPolicy drafts =
        policy_of({trigger("steps_since_refresh", Comparison::at_least, 4)}, {}, OnFire::verify);
    for (const bool splice : {true, false}) {
        RunConfig config = tiny_run(9);
        config.policy = drafts;
        config.policy.verify.splice = splice;
        const auto greedy = whole_run(gpu, config);
        CHECK(difference(*greedy, *whole_run(cpu, config)) == "");
        config.mode = Mode::teacher;
        CHECK(greedy->token_ids() == whole_run(cpu, config)->token_ids());
        config.mode = Mode::overfill;

        config.sampler.temperature = 0.9; // drawn: bits decide which tokens come
        DecodeSession session(gpu, config);
        while (session.step()) {
        }
        session.score();
        const auto first = session.recording();
        REQUIRE(first->drafts().size() >= 2);
        CHECK(first_difference(*first, *replay(*first, gpu)).value_or("") == "");
        session.rewind(3);
        while (session.step()) {
        }
        CHECK(session.recording()->token_ids() == first->token_ids());
    }
}

TEST_CASE("a run decoded by the device's kernels replays bit for bit, rewound or not", "[gpu][session]") {
    const auto gpu = pair_of(true);
    RunConfig config = tiny_run(14); // drawn: bits decide which tokens come
    config.sampler.temperature = 0.9;
    config.policy = policy_of({trigger("steps_since_refresh", Comparison::at_least, 5)}, 4, OnFire::redraw);
    DecodeSession session(gpu, config);
    while (session.step()) {
    }
    session.score();
    const auto first = session.recording();
    session.rewind(6);
    while (session.step()) {
    }
    session.score();
    CHECK(first_difference(*first, *session.recording()).value_or("") == "");
    CHECK(first_difference(*first, *replay(*first, gpu)).value_or("") == "");
    // Dropout rows beside it change no token.
    config.policy = {};
    const auto plain = whole_run(gpu, config);
    config.mc.samples = 2;
    config.mc.every = 5;
    config.mc.measure = true;
    CHECK(whole_run(gpu, config)->token_ids() == plain->token_ids());
}

} // namespace
} // namespace refreshlab::test::session_gpu
