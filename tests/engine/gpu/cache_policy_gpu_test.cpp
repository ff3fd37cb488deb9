// Every cache policy of the registry in sessions whose decode steps are the device's kernels, on the host machine: which of them take
// the kernels, and that they equal the sessions of the CPU.
#include "engine/cache/kv_cache.h"
#include "engine/policies/cache_method.h"
#include "engine/session/decode/decode_session.h"
#include "engine/session/driver/replay.h"
#include "engine/session/pair/run_text.h"
#include "kernels/shared/attention_bins.h"
#include "kernels/simt/harness.h"
#include "tests/engine/gpu/simt_decoder.h"
#include "tests/engine/session/device_runs.h"
#include "tests/engine/session/tiny_pair.h"
#include "tests/support/share.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/isnan.h>
#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

namespace refreshlab::test::cache_policy_gpu {
namespace {

constexpr int64_t layers = 2, kv_heads = 2;

/// Those whose steps are one graph through lists; `full` is one over a dense cache; the others look at a layer's queries, decode blocks,
/// or bring entries while a layer reads, and go layer by layer through ATen.
const std::vector<std::string_view> listed{"sliding_window",
                                           "streaming_llm",
                                           "random",
                                           "oracle",
                                           "h2o",
                                           "tova",
                                           "snapkv",
                                           "pyramidkv",
                                           "adakv",
                                           "cake",
                                           "lazy_eviction",
                                           "kv_merger",
                                           "cam",
                                           "d2o",
                                           "defensivekv",
                                           "layer_defensivekv",
                                           "dapq",
                                           "locret",
                                           "attention_gate",
                                           "lookahead_kv",
                                           "epicache",
                                           "compress_kv"};
const std::vector<std::string_view> layer_by_layer{
    "quest",       "refreshkv", "think",   "kivi", "mikv",      "kv_direct", "kv_routing",
    "turbo_quant", "arkv",      "mpcache", "fasa", "infinigen", "trim_kv",   "make_each_token_count"};

/// \param vocab  most of a step is the head: cases that compare no numbers with the CPU's take a smaller one
std::shared_ptr<const ModelPair> pair_of(bool on_host_machine, int64_t vocab = TinyShape{}.vocab) {
    TinyShape shape;
    shape.vocab = vocab;
    shape.head_dim = 16;
    shape.attention_dropout = 0.1;
    auto pair = tiny_pair(60, 61, shape, shape);
    if (on_host_machine) {
        decode_on_host_machine(const_cast<LlamaModel&>(*pair->teacher));
        decode_on_host_machine(const_cast<LlamaModel&>(*pair->student));
    }
    return pair;
}

/// A policy that acts within a short run.
CachePolicyConfig small(std::string_view name) {
    CachePolicyConfig policy = cache_policy_defaults(name, "a test");
    const auto set = [&](const char* key, double value) {
        if (const auto found = policy.values.find(key); found != policy.values.end()) found->second = value;
    };
    set("budget", 12);
    set("partial", 12);
    set("window", 4);
    set("page", 4);
    set("dense_layers", 0); // there are two layers
    set("interval", 4);
    set("check_every", 3);
    set("spread", 4);
    set("residual", 32);
    set("theta", 0.03);
    set("cluster", 2);
    set("pairs", 1);
    set("choose", 1);
    if (policy.policy == "arkv") // layers of a random model are much alike
        for (const char* tau : {"tau1", "tau2", "tau3"})
            set(tau, 0.05);
    set("pseudo_tokens", 6);
    set("episode_window", 6);
    set("last_tokens", 4);
    set("layers_per_cache", 2);
    return policy;
}

RunConfig run_of(std::string_view policy, Mode mode, int32_t tokens) {
    RunConfig config = reading({}); // a given text
    config.prompt = "Once upon a time a fox and a crow lived by the river, and every morning the crow sang.";
    config.max_tokens = tokens;
    config.mode = mode;
    config.mc.samples = 2;
    config.student_cache = small(policy);
    return config;
}

/// Ids of a small vocabulary.
constexpr int64_t small_vocab = 256;
std::vector<int32_t> ids_of(int32_t n, int32_t first) {
    std::vector<int32_t> ids;
    for (int32_t i = 0; i < n; ++i)
        ids.push_back((first + 37 * i) % static_cast<int32_t>(small_vocab));
    return ids;
}

int64_t launches_of(const simt::Activity& activity, std::string_view kernel) {
    return std::ranges::count_if(activity.launches,
                                 [&](const auto& launch) { return launch.kernel.starts_with(kernel); });
}

/// What differs in what the two hold, positions and entries beyond rounding; and whether a number of the first's is none.
std::string difference_of(const KvCache& a, const KvCache& b) {
    for (int64_t layer = 0; layer < a.num_layers(); ++layer) {
        for (int64_t head = 0; head < a.num_kv_heads(); ++head) {
            const auto held = a.held(layer, head);
            if (!std::ranges::equal(held, b.held(layer, head))) return "positions held";
            if (held.empty()) continue;
            const at::Tensor x = a.read(layer, head, held), y = b.read(layer, head, held);
            if (!((x - y).abs().max().item<float>() <= 1e-3F * (1 + y.abs().max().item<float>())))
                return "entries";
        }
    }
    return a.bytes_used() == b.bytes_used() ? "" : "bytes";
}

TEST_CASE(
    "every cache policy decoded on the device equals the CPU, and takes the way that it is said to take",
    "[gpu][cache_policy]") {
    const auto cpu = pair_of(false), gpu = pair_of(true);
    Share share("cache policies decoded on the device");
    for (const CacheMethod& method : cache_methods()) {
        if (!share.takes()) continue;
        CAPTURE(method.name);
        const RunConfig config = run_of(method.name, Mode::student, 16);
        DecodeSession expected(cpu, config), got(gpu, config);
        (void)simt::take_activity();
        while (expected.step())
            REQUIRE(got.step());
        const simt::Activity activity = simt::take_activity();
        const int64_t fed = got.recording()->steps() - 1; // the last token is not fed
        const bool is_listed = std::ranges::find(listed, method.name) != listed.end(),
                   is_plain = std::ranges::find(layer_by_layer, method.name) != layer_by_layer.end();
        CHECK((is_listed || is_plain || method.name == "full"));
        CHECK(activity.graph_launches == (is_plain ? 0 : fed));
        // In one launch with q|k|v, or in one of its own where MC rows go along.
        const auto attentions = [&](std::string_view joined, std::string_view alone) {
            const int64_t of_one = launches_of(activity, joined);
            return of_one > 0 ? of_one + launches_of(activity, alone) : 0;
        };
        CHECK(attentions("qkv_list_attention_kernel", "list_attention_kernel") ==
              (is_listed ? fed * layers : 0));
        CHECK(launches_of(activity, "list_edits_kernel") == (is_listed ? fed : 0));
        CHECK(attentions("qkv_attention_kernel", "decode_attention_kernel") ==
              (method.name == "full" ? fed * layers : 0));
        CHECK(difference(*got.recording(), *expected.recording()) == "");
        CHECK(difference_of(*got.student_cache(), *expected.student_cache()) == "");
    }
}

TEST_CASE("cache policies on the device beside refreshes, attention that is recorded, and MC rows",
          "[gpu][cache_policy]") {
    const auto cpu = pair_of(false), gpu = pair_of(true);
    Share share("cache policies on the device beside refreshes");
    int share_of_bins = 0;
    for (const std::string_view policy : listed) {
        if (!share.takes()) continue;
        CAPTURE(policy);
        RunConfig config = run_of(policy, Mode::overfill, 16);
        config.policy = policy_of({trigger("steps_since_refresh", Comparison::at_least, 5)});
        config.capture.attention = config.capture.attention_entropy = true;
        config.capture.attention_bins = share_of_bins++ % 2 == 0 ? 5 : 0; // by position, on the device
        DecodeSession expected(cpu, config), got(gpu, config);
        (void)simt::take_activity();
        while (expected.step())
            REQUIRE(got.step());
        CHECK(launches_of(simt::take_activity(), "list_edits_kernel") == got.recording()->steps() - 1);
        CHECK(difference(*got.recording(), *expected.recording()) == "");
        CHECK(difference_of(*got.student_cache(), *expected.student_cache()) == "");
        const auto rows = got.recording()->attention_rows(), others = expected.recording()->attention_rows();
        REQUIRE(!rows.empty());
        REQUIRE(rows.size() == others.size());
        for (size_t i = 0; i < rows.size(); ++i) {
            REQUIRE(rows[i]->edges == others[i]->edges);
            REQUIRE(resolution_of(*rows[i]).widest ==
                    kernels::shared::bin_width(rows[i]->keys, config.capture.attention_bins));
            REQUIRE(rows[i]->weights.size() == others[i]->weights.size());
            for (size_t w = 0; w < rows[i]->weights.size(); ++w)
                REQUIRE(std::abs(half_to_float(rows[i]->weights[w]) - half_to_float(others[i]->weights[w])) <=
                        2e-3F);
        }
    }
}

TEST_CASE("a cache policy's run on the device is rewound and replayed bit for bit", "[gpu][cache_policy]") {
    const auto gpu = pair_of(true, small_vocab);
    Share share("cache policies on the device, rewound and replayed");
    for (const std::string_view policy : listed) {
        if (!share.takes()) continue;
        CAPTURE(policy);
        RunConfig config = run_of(policy, Mode::overfill, 18);
        config.given_text.clear(); // drawn: bits decide what comes
        if (find_cache_method(policy)->given_text) config.given_ids = ids_of(18, 31);
        config.sampler.temperature = 0.9;
        config.mc.measure = false;
        config.policy = policy_of({trigger("steps_since_refresh", Comparison::at_least, 5)});
        const RunText text{{config.prompt, ids_of(20, 7), 0}, config.given_ids};
        DecodeSession session(gpu, config, {}, &text);
        while (session.step()) {
        }
        const auto first = session.recording();
        const auto end = session.student_cache()->clone();
        for (const int64_t step : {13, 4, 1}) {
            session.rewind(step);
            while (session.step()) {
            }
            CHECK(first_difference(*first, *session.recording()).value_or("") == "");
        }
        for (int64_t layer = 0; layer < layers; ++layer) {
            for (int64_t head = 0; head < kv_heads; ++head) {
                const auto held = end->held(layer, head);
                REQUIRE(std::ranges::equal(held, session.student_cache()->held(layer, head)));
                REQUIRE(at::equal(end->read(layer, head, held),
                                  session.student_cache()->read(layer, head, held)));
            }
        }
        CHECK(first_difference(*first, *replay(*first, gpu)).value_or("") == "");
    }
}

TEST_CASE("runs that take turns on one decoder keep their lists apart", "[gpu][cache_policy]") {
    const auto gpu = pair_of(true);
    const std::vector<std::string_view> policies{"h2o", "full", "lazy_eviction", "h2o"};
    std::vector<std::unique_ptr<DecodeSession>> together;
    for (const std::string_view policy : policies)
        together.push_back(std::make_unique<DecodeSession>(gpu, run_of(policy, Mode::student, 14)));
    for (bool goes_on = true; goes_on;) {
        goes_on = false;
        for (const auto& session : together)
            goes_on |= session->step();
    }
    for (size_t i = 0; i < policies.size(); ++i) {
        CAPTURE(i, policies[i]);
        DecodeSession alone(gpu, run_of(policies[i], Mode::student, 14));
        while (alone.step()) {
        }
        CHECK(first_difference(*alone.recording(), *together[i]->recording()).value_or("") == "");
    }
}

TEST_CASE(
    "a step under H2O is one graph, as one without a policy: no wait, no allocation, no copy of entries",
    "[gpu][cache_policy]") {
    const auto gpu = pair_of(true);
    for (const std::string_view policy : {"full", "h2o"}) {
        CAPTURE(policy);
        RunConfig config = run_of(policy, Mode::student, 30);
        config.mc.measure = config.capture.attention = config.capture.attention_entropy = false;
        DecodeSession session(gpu, config);
        for (int i = 0; i < 6; ++i) // graphs are made, whole lists uploaded
            session.step();
        (void)simt::take_activity();
        constexpr int64_t steps = 10;
        for (int64_t i = 0; i < steps; ++i)
            REQUIRE(session.step());
        const simt::Activity activity = simt::take_activity();
        const bool is_listed = policy == "h2o";
        CHECK(activity.graph_launches == steps);
        // embed, four a layer, head; and the edits and the attention rows of all layers.
        CHECK(std::ssize(activity.launches) == steps * (1 + 4 * layers + 1 + (is_listed ? 2 : 0)));
        CHECK(activity.device_waits + activity.stream_waits + activity.event_waits == 0);
        CHECK(activity.allocations + activity.frees == 0);
        CHECK(activity.other_copies + activity.pageable_copies == steps); // the state
        CHECK(activity.fills == 0);
    }
}

TEST_CASE("entropies of attention alone bring no attention rows, dense or through lists",
          "[gpu][cache_policy]") {
    const auto cpu = pair_of(false), gpu = pair_of(true);
    for (const std::string_view policy : {"full", "sliding_window"}) {
        CAPTURE(policy);
        RunConfig config = run_of(policy, Mode::student, 20);
        config.mc.measure = config.capture.attention = false;
        config.capture.attention_entropy = true;
        DecodeSession session(gpu, config);
        (void)simt::take_activity();
        while (session.step()) {
        }
        const simt::Activity activity = simt::take_activity();
        const int64_t steps = session.recording()->steps() - 1; // the last token is not fed
        CHECK(activity.graph_launches == steps);
        CHECK(std::ssize(activity.launches) == steps * (1 + 4 * layers + 1 + (policy == "full" ? 0 : 1)));
        CHECK(launches_of(activity, "attention_rows") == 0);
        session.score();
        CHECK(std::isfinite(
            session.recording()->signal(3, require_signal("attention_entropy_bits", "a test"))));
        CHECK(difference(*session.recording(), *whole_run(cpu, config)) == "");
    }
}

TEST_CASE("entries that left read as NaN, and come back from the journal as they were",
          "[gpu][cache_policy]") {
    const auto gpu = pair_of(true);
    RunConfig config = run_of("h2o", Mode::student, 20);
    config.mc.measure = false;
    DecodeSession session(gpu, config);
    for (int i = 0; i < 8; ++i)
        session.step();
    const KvCache& cache = *session.student_cache();
    const auto before = cache.clone();
    for (int i = 0; i < 6; ++i)
        session.step();
    for (int64_t layer = 0; layer < layers; ++layer) {
        // All that is in the pool beside what is held, and what leaves with the next step (one entry of each head), is NaN.
        const auto held = static_cast<int64_t>(cache.held(layer, 0).size() + cache.held(layer, 1).size());
        const at::Tensor numbers = cache.entries(layer).k[0].isnan().all(1).logical_not();
        const int64_t there = numbers.sum().item<int64_t>();
        CHECK(there >= held);
        CHECK(there <= held + kv_heads);
    }
    session.rewind(8);
    for (int64_t layer = 0; layer < layers; ++layer) {
        for (int64_t head = 0; head < kv_heads; ++head) {
            const auto held = before->held(layer, head);
            REQUIRE(std::ranges::equal(held, cache.held(layer, head)));
            REQUIRE(at::equal(before->read(layer, head, held), cache.read(layer, head, held)));
        }
        const auto held = static_cast<int64_t>(cache.held(layer, 0).size() + cache.held(layer, 1).size());
        CHECK(cache.entries(layer).k[0].isnan().all(1).logical_not().sum().item<int64_t>() == held);
    }
}

} // namespace
} // namespace refreshlab::test::cache_policy_gpu
