#include "engine/cache/kv_cache.h"
#include "engine/model/config/families.h"
#include "engine/session/decode/decode_session.h"
#include "engine/session/pair/run_text.h"
#include "kernels/simt/harness.h"
#include "tests/engine/gpu/simt_decoder.h"
#include "tests/engine/session/device_runs.h"
#include "tests/engine/session/tiny_pair.h"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <string_view>

/// Whole sessions of models that have what families differ in, decoded by the device's kernels on the host machine: with refreshes, MC rows,
/// recorded attention and a cache policy, against the same sessions on the CPU.
namespace refreshlab::test::family_session {
namespace {

constexpr int64_t layers = 2;

struct Kind {
    std::string_view name;
    void (*differs)(ModelConfig&);
    int64_t of_step; ///< launches of a layer, where the token's row is alone
};
/// Two layers that differ where the family has such layers.
const Kind kinds[] = {{"olmo2", [](ModelConfig& c) { set_family(*find_family("olmo2"), c); }, 8},
                      {"gemma2",
                       [](ModelConfig& c) {
                           set_family(*find_family("gemma2"), c);
                           c.embedding_scale = 4;
                           c.query_scale = 1.5;
                           c.layer_windows = {9, 0};
                       },
                       6},
                      {"gemma3",
                       [](ModelConfig& c) {
                           set_family(*find_family("gemma3_text"), c);
                           c.embedding_scale = 4;
                           c.layer_windows = {9, 0};
                       },
                       6},
                      {"phi3", [](ModelConfig& c) { c.rotary_dim = 8; }, 4},
                      {"mixtral",
                       [](ModelConfig& c) {
                           set_family(*find_family("mixtral"), c);
                           c.experts.count = 4;
                           c.experts.used = 2;
                           c.experts.width = c.intermediate_size;
                       },
                       5},
                      {"qwen3_moe",
                       [](ModelConfig& c) {
                           set_family(*find_family("qwen3_moe"), c);
                           c.experts.count = 6;
                           c.experts.used = 3;
                           c.experts.width = 20;
                           c.experts.normalised = false;
                       },
                       5}};

std::shared_ptr<const ModelPair> pair_of(const Kind& kind, bool on_host_machine) {
    TinyShape shape;
    shape.vocab = 256; // most of a step is the head
    shape.head_dim = 16;
    shape.attention_dropout = 0.1;
    shape.differs = kind.differs;
    auto pair = tiny_pair(70, 71, shape, shape);
    if (on_host_machine) {
        decode_on_host_machine(const_cast<LlamaModel&>(*pair->teacher));
        decode_on_host_machine(const_cast<LlamaModel&>(*pair->student));
    }
    return pair;
}

std::vector<int32_t> ids_of(int32_t n, int32_t first) {
    std::vector<int32_t> ids;
    for (int32_t i = 0; i < n; ++i)
        ids.push_back((first + 37 * i) % 256);
    return ids;
}

TEST_CASE("sessions of every family are the CPU's, with refreshes, MC rows and a cache policy",
          "[gpu][session][family]") {
    for (const Kind& kind : kinds) {
        const auto cpu = pair_of(kind, false), gpu = pair_of(kind, true);
        for (const std::string_view cache : {"full", "h2o"}) {
            CAPTURE(kind.name, cache);
            RunConfig config = tiny_run(10);
            config.given_ids = ids_of(10, 5);
            config.policy = policy_of({trigger("steps_since_refresh", Comparison::at_least, 3)}, 2);
            config.mc.samples = 2;
            config.mc.every = 3;
            config.mc.measure = true;
            config.capture.attention = config.capture.attention_entropy = true;
            config.student_cache = cache_policy_defaults(cache, "a test");
            if (cache != "full") config.student_cache.values["budget"] = 14;
            const RunText text{{config.prompt, ids_of(18, 7), 0}, config.given_ids};
            DecodeSession expected(cpu, config, {}, &text), got(gpu, config, {}, &text);
            (void)simt::take_activity();
            while (expected.step())
                REQUIRE(got.step());
            const simt::Activity activity = simt::take_activity();
            const int64_t fed = got.recording()->steps() - 1; // the last token is not fed
            CHECK(activity.graph_launches == fed);
            CHECK(got.recording()->refreshes().size() >= 2);
            // Besides: the embedding, the head, attention rows, edits of lists; passes and splices of refreshes.
            CHECK(std::ssize(activity.launches) > fed * (kind.of_step * layers + 3));
            expected.score();
            got.score();
            CHECK(difference(*got.recording(), *expected.recording()) == "");
        }
    }
}

TEST_CASE("a session of a model with routed experts is rewound and replayed bit for bit",
          "[gpu][session][family]") {
    const auto gpu = pair_of(kinds[4], true);
    RunConfig config = tiny_run(12); // drawn: bits decide which tokens come
    config.sampler.temperature = 0.9;
    config.policy = policy_of({trigger("steps_since_refresh", Comparison::at_least, 4)}, 3, OnFire::redraw);
    const RunText text{{config.prompt, ids_of(18, 7), 0}, {}};
    DecodeSession session(gpu, config, {}, &text);
    while (session.step()) {
    }
    const auto first = session.recording();
    session.rewind(5);
    while (session.step()) {
    }
    CHECK(first->token_ids() == session.recording()->token_ids());
    // MC rows beside it change no token.
    config.mc.samples = 2;
    config.mc.every = 3;
    config.mc.measure = true;
    DecodeSession beside(gpu, config, {}, &text);
    while (beside.step()) {
    }
    CHECK(beside.recording()->token_ids() == first->token_ids());
}

} // namespace
} // namespace refreshlab::test::family_session
