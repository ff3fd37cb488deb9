#include "engine/cache/kv_cache.h"
#include "engine/model/forward/cuda_forward.h"
#include "engine/model/llama_model.h"
#include "kernels/decode/rows_shapes.h"
#include "kernels/simt/harness.h"
#include "tests/engine/gpu/simt_decoder.h"
#include "tests/kernels/kernel_fixture.h"
#include "tests/support/forward.h"
#include "tests/support/share.h"

/// Decode steps of CudaForward, whose kernels run on the host machine, against those of CpuForward on the same weights.
namespace refreshlab::test::cuda_forward_cases {
namespace {

struct Case {
    std::string name;
    ModelConfig config;
};

ModelConfig config_of(int64_t hidden, int64_t ffn, int64_t heads, int64_t kv_heads, int64_t head_dim) {
    ModelConfig config;
    config.model_type = "llama";
    config.vocab_size = 83;
    config.hidden_size = hidden;
    config.intermediate_size = ffn;
    config.num_layers = 2;
    config.num_heads = heads;
    config.num_kv_heads = kv_heads;
    config.head_dim = head_dim;
    config.max_position = 1024;
    config.tied_head = true;
    return config;
}

/// What the families differ in, one thing at a time.
std::vector<Case> cases() {
    std::vector<Case> all{{"odd widths", config_of(41, 75, 4, 2, 16)},
                          {"one head a KV head", config_of(64, 96, 3, 3, 32)},
                          {"seven heads a KV head", config_of(64, 96, 7, 1, 32)}};
    ModelConfig biased = config_of(64, 96, 4, 2, 32);
    biased.qkv_bias = biased.output_bias = biased.mlp_bias = true;
    all.push_back({"biases", biased});
    ModelConfig normed = config_of(64, 96, 4, 2, 48);
    normed.qk_norm = true;
    normed.tied_head = false;
    all.push_back({"q/k norm, a head of its own", normed});
    ModelConfig sliding = config_of(64, 96, 4, 2, 32);
    sliding.layer_windows = {5, 0};
    sliding.layer_turns = {true, false};
    all.push_back({"a sliding window, and a layer that turns nothing", sliding});
    ModelConfig behind = config_of(41, 75, 4, 2, 16);
    behind.pre_norms = false;
    behind.branch_norms = behind.qk_norm = behind.qk_norm_whole = true;
    all.push_back({"norms of what is added alone, and of all heads together", behind});
    ModelConfig capped = config_of(64, 96, 4, 2, 32);
    capped.branch_norms = true;
    capped.norm_offset = 1;
    capped.embedding_scale = 8;
    capped.query_scale = 1.5;
    capped.attention_cap = 2;
    capped.logit_cap = 1.5;
    capped.activation = kernels::Activation::gelu_tanh;
    capped.layer_windows = {5, 0};
    all.push_back({"soft caps, scales, norms by 1 + weight, another activation", capped});
    ModelConfig turning = config_of(64, 96, 2, 1, 48);
    turning.qk_norm = true;
    turning.norm_offset = 1;
    turning.rotary_dim = 24;
    turning.local_rope_theta = 100;
    turning.layer_windows = {7, 0};
    all.push_back({"heads that turn in part, in two ways", turning});
    ModelConfig routed = config_of(41, 75, 4, 2, 16);
    routed.experts = {6, 2, 45};
    all.push_back({"routed experts", routed});
    ModelConfig mixed = config_of(64, 96, 4, 2, 32);
    mixed.experts = {5, 3, 32, false};
    mixed.layer_routed = {false, true};
    mixed.branch_norms = true;
    all.push_back(
        {"routed experts in one layer, whose shares are those among all, and a norm of them", mixed});
    return all;
}

double tolerance(at::ScalarType dtype) {
    // Sums in another order; a key that lands on the other side of a rounding moves what reads it by a digit of the dtype.
    return dtype == at::kFloat ? 2e-5 : dtype == at::kHalf ? 2e-3 : 1e-2;
}

/// What a pass of many rows multiplies is rounded to a dtype of 16 bits before each product; the CPU rounds nothing.
double pass_tolerance(at::ScalarType dtype) {
    return dtype == at::kFloat ? 2e-5 : dtype == at::kHalf ? 3e-3 : 2e-2;
}

/// Norms have weights of their own, so that none stands in for another.
std::unique_ptr<LlamaModel> random_model(const ModelConfig& config, at::ScalarType dtype) {
    Random random(7);
    const auto weight = [&random](const std::string& name, at::IntArrayRef sizes) {
        const bool norm = name.find("norm") != std::string::npos;
        return random.normal(sizes, norm ? 0.2 : 0.02) + (norm ? 1.0 : 0.0);
    };
    return LlamaModel::from_weights(config, weight, at::kCPU, dtype);
}

/// What rounds an activation may send a row to other experts; in types of 16 bits rows go to all.
ModelConfig in_type(ModelConfig config, at::ScalarType dtype) {
    if (dtype != at::kFloat) config.experts.used = config.experts.count;
    return config;
}

struct Twin {
    std::unique_ptr<LlamaModel> cpu, gpu;
    std::unique_ptr<KvCache> cpu_cache, gpu_cache;

    Twin(const ModelConfig& config, at::ScalarType dtype, int64_t capacity)
        : cpu(random_model(in_type(config, dtype), dtype))
        , gpu(random_model(in_type(config, dtype), dtype))
        , cpu_cache(cpu->make_cache(capacity))
        , gpu_cache(gpu->make_cache(capacity)) {
        decode_on_host_machine(*gpu);
    }
    /// The same columns in both caches.
    void prefill(std::span<const int32_t> ids) {
        (void)extend(*cpu, *cpu_cache, ids, Rows::none, Origin::teacher_prefill);
        gpu_cache->adopt_prefix(*cpu_cache, cpu_cache->length());
    }
    /// Keys and values of all columns so far.
    [[nodiscard]] double cache_error() const {
        const int64_t n = cpu_cache->length();
        return std::max(relative_error(gpu_cache->keys(0, n), cpu_cache->keys(0, n)),
                        relative_error(gpu_cache->values(0, n), cpu_cache->values(0, n)));
    }
};

std::vector<int32_t> random_ids(Random& random, int64_t n, int64_t vocab) {
    std::vector<int32_t> ids;
    for (int64_t i = 0; i < n; ++i)
        ids.push_back(static_cast<int32_t>(random.between(0, vocab - 1)));
    return ids;
}

TEST_CASE("decode steps of the device's kernels equal those of the CPU", "[gpu]") {
    Random random(1301);
    Share share("decode steps of every family and dtype on the device");
    for (const Case& c : cases()) {
        for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kHalf}) {
            if (!share.takes()) continue;
            Twin twin(c.config, dtype, 300);
            twin.prefill(random_ids(random, 251, c.config.vocab_size));
            for (int step_number = 0; step_number < 8; ++step_number) { // over the end of a split
                const auto token = static_cast<int32_t>(random.between(0, c.config.vocab_size - 1));
                const StepRows expected = step(*twin.cpu, *twin.cpu_cache, token, Origin::student);
                const StepRows got = step(*twin.gpu, *twin.gpu_cache, token, Origin::student);
                CAPTURE(c.name, c10::toString(dtype), step_number);
                REQUIRE(relative_error(got.row, expected.row) <= tolerance(dtype));
            }
            REQUIRE(twin.gpu_cache->length() == 259);
            REQUIRE(twin.cache_error() <= tolerance(dtype));
        }
    }
}

TEST_CASE("prefills of the device's kernels equal those of the CPU, whole and in chunks", "[gpu]") {
    Random random(1305);
    Share share("prefills of every family and dtype on the device");
    for (const Case& c : cases()) {
        for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kHalf}) {
            if (!share.takes()) continue;
            Twin twin(c.config, dtype, 80);
            const std::vector<int32_t> ids = random_ids(random, 43, c.config.vocab_size);
            CAPTURE(c.name, c10::toString(dtype));
            for (const auto& [first, n, rows] :
                 {std::tuple{0, 30, Rows::all}, std::tuple{30, 1, Rows::all}, std::tuple{31, 9, Rows::last},
                  std::tuple{40, 3, Rows::none}}) {
                const auto chunk = std::span(ids).subspan(static_cast<size_t>(first), static_cast<size_t>(n));
                (void)simt::take_activity();
                const at::Tensor got =
                    extend(*twin.gpu, *twin.gpu_cache, chunk, rows, Origin::teacher_prefill);
                REQUIRE(!simt::take_activity().launches.empty());
                const at::Tensor expected =
                    extend(*twin.cpu, *twin.cpu_cache, chunk, rows, Origin::teacher_prefill);
                REQUIRE(got.defined() == expected.defined());
                if (got.defined()) {
                    REQUIRE(got.sizes() == expected.sizes());
                    REQUIRE(relative_error(got, expected) <= pass_tolerance(dtype));
                }
            }
            REQUIRE(twin.gpu_cache->length() == 43);
            REQUIRE(twin.cache_error() <= pass_tolerance(dtype));
        }
    }
}

TEST_CASE("prefills whose products are made in parts equal those of the CPU, and chunks have their bits",
          "[gpu]") {
    Random random(1306);
    for (const int64_t outputs : {64, 2048})
        REQUIRE(kernels::rows::product_parts(kernels::WeightType::bf16, 2048, outputs) == 2);
    for (const bool of_hidden : {true, false}) { // q | k | v; or o and down
        ModelConfig config = of_hidden ? config_of(2048, 32, 2, 1, 16) : config_of(64, 2048, 16, 2, 128);
        config.qkv_bias = config.output_bias = config.mlp_bias = true;
        const at::ScalarType dtype = random.pick(std::vector<at::ScalarType>{at::kBFloat16, at::kHalf});
        Twin twin(config, dtype, 16);
        const auto chunks = twin.gpu->make_cache(16);
        const std::vector<int32_t> ids = random_ids(random, 11, config.vocab_size);
        CAPTURE(of_hidden, c10::toString(dtype));
        const at::Tensor got = extend(*twin.gpu, *twin.gpu_cache, ids, Rows::all, Origin::teacher_prefill);
        const at::Tensor expected =
            extend(*twin.cpu, *twin.cpu_cache, ids, Rows::all, Origin::teacher_prefill);
        REQUIRE(relative_error(got, expected) <= pass_tolerance(dtype));
        REQUIRE(twin.cache_error() <= pass_tolerance(dtype));
        // Two rows, and nine, of which nobody wants logits: the last layer makes keys and values alone.
        const std::span<const int32_t> all(ids);
        const at::Tensor first =
            extend(*twin.gpu, *chunks, all.first(2), Rows::last, Origin::teacher_prefill);
        REQUIRE(same_bits(first[0], got[1]));
        (void)extend(*twin.gpu, *chunks, all.subspan(2), Rows::none, Origin::teacher_prefill);
        REQUIRE(same_bits(chunks->keys(0, 11), twin.gpu_cache->keys(0, 11)));
        REQUIRE(same_bits(chunks->values(0, 11), twin.gpu_cache->values(0, 11)));
    }
}

TEST_CASE("MC rows ride along and do not change the token's row by a bit", "[gpu]") {
    Random random(1302);
    const ModelConfig config = config_of(64, 96, 4, 2, 32);
    for (const bool everywhere : {false, true}) {
        Twin twin(config, at::kFloat, 64);
        const std::vector<int32_t> ids = random_ids(random, 20, config.vocab_size);
        twin.prefill(ids);
        const auto alone = twin.gpu_cache->clone();
        for (const int32_t passes : {1, 3, 8, 11}) {
            McRequest mc;
            mc.passes = passes;
            mc.seed = 99;
            mc.p = 0.25F;
            mc.attention_output = mc.mlp_output = everywhere;
            const StepRows expected = step(*twin.cpu, *twin.cpu_cache, 5, Origin::student, mc);
            const StepRows got = step(*twin.gpu, *twin.gpu_cache, 5, Origin::student, mc);
            CAPTURE(everywhere, passes);
            REQUIRE(relative_error(got.row, expected.row) <= 2e-5);
            REQUIRE(relative_error(got.mc, expected.mc) <= 2e-5); // the same masks
            REQUIRE(!same_bits(got.mc[0], got.row));
            REQUIRE(same_bits(step(*twin.gpu, *alone, 5, Origin::student).row, got.row));
        }
    }
}

TEST_CASE("decode steps through lists equal those of the CPU, in every family and dtype, MC rows too",
          "[gpu]") {
    Random random(1307);
    Share share("decode steps through lists of every family and dtype on the device");
    for (const Case& c : cases()) {
        for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kHalf}) {
            if (!share.takes()) continue;
            const Twin twin(c.config, dtype, 300);
            (void)extend(*twin.cpu, *twin.cpu_cache, random_ids(random, 270, c.config.vocab_size), Rows::none,
                         Origin::teacher_prefill);
            const auto pooled = [&](const LlamaModel& model) {
                auto cache = model.make_cache(300, CacheLayout::pooled);
                cache->adopt_prefix(*twin.cpu_cache, 270);
                return cache;
            };
            const auto cpu_cache = pooled(*twin.cpu), gpu_cache = pooled(*twin.gpu);
            const auto evict = [&](int64_t one_of, int64_t step_number) {
                for (int64_t layer = 0; layer < c.config.num_layers; ++layer) {
                    for (int64_t head = 0; head < c.config.num_kv_heads; ++head) {
                        std::vector<int64_t> gone;
                        for (const int64_t position : cpu_cache->held(layer, head))
                            if (random.between(0, one_of) == 0) gone.push_back(position);
                        cpu_cache->evict(layer, head, gone, step_number);
                        gpu_cache->evict(layer, head, gone, step_number);
                    }
                }
            };
            McRequest mc;
            mc.seed = 7;
            mc.p = 0.25F;
            for (int step_number = 1; step_number <= 6; ++step_number) {
                mc.passes = step_number % 2 == 0 ? 3 : 0;
                const auto token = static_cast<int32_t>(random.between(0, c.config.vocab_size - 1));
                const StepRows expected = step(*twin.cpu, *cpu_cache, token, Origin::student, mc);
                (void)simt::take_activity();
                const StepRows got = step(*twin.gpu, *gpu_cache, token, Origin::student, mc);
                CAPTURE(c.name, c10::toString(dtype), step_number);
                REQUIRE(simt::take_activity().graph_launches == 1);
                REQUIRE(relative_error(got.row, expected.row) <= tolerance(dtype));
                if (mc.passes > 0) REQUIRE(relative_error(got.mc, expected.mc) <= tolerance(dtype));
                evict(step_number == 3 ? 1 : 40, step_number); // once half of all: the pools are packed
            }
        }
    }
}

TEST_CASE("MC rows of 16-bit models equal those of the CPU and do not change the token's row by a bit",
          "[gpu]") {
    Random random(1307);
    Share share("MC rows of every family on the device");
    for (const Case& c : cases()) {
        if (!share.takes()) continue;
        const at::ScalarType dtype = random.pick(std::vector<at::ScalarType>{at::kBFloat16, at::kHalf});
        Twin twin(c.config, dtype, 300);
        twin.prefill(random_ids(random, 254, c.config.vocab_size));
        const auto alone = twin.gpu_cache->clone();
        for (const int32_t passes : {1, 8, 20}) { // over the end of a split
            const auto token = static_cast<int32_t>(random.between(0, c.config.vocab_size - 1));
            McRequest mc;
            mc.passes = passes;
            mc.seed = 99;
            mc.p = 0.25F;
            mc.attention_output = mc.mlp_output = random.between(0, 1) == 1;
            const StepRows expected = step(*twin.cpu, *twin.cpu_cache, token, Origin::student, mc);
            const StepRows got = step(*twin.gpu, *twin.gpu_cache, token, Origin::student, mc);
            CAPTURE(c.name, c10::toString(dtype), passes, mc.mlp_output);
            REQUIRE(relative_error(got.row, expected.row) <= tolerance(dtype));
            REQUIRE(relative_error(got.mc, expected.mc) <= tolerance(dtype)); // the same masks
            REQUIRE(same_bits(step(*twin.gpu, *alone, token, Origin::student).row, got.row));
        }
        REQUIRE(twin.cache_error() <= tolerance(dtype));
    }
}

TEST_CASE("MC rows that drop nothing are the same in each bit, and the token's row but for rounding",
          "[gpu]") {
    Random random(1308);
    const ModelConfig config = config_of(64, 96, 4, 2, 32);
    for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kHalf}) {
        Twin twin(config, dtype, 64);
        twin.prefill(random_ids(random, 20, config.vocab_size));
        McRequest mc;
        mc.passes = 10;
        mc.seed = 5;
        mc.p = 0.0F;
        const StepRows got = step(*twin.gpu, *twin.gpu_cache, 5, Origin::student, mc);
        CAPTURE(c10::toString(dtype));
        for (int64_t pass = 0; pass < mc.passes; ++pass) {
            REQUIRE(same_bits(got.mc[pass], got.mc[0]));
            REQUIRE(relative_error(got.mc[pass], got.row) <= tolerance(dtype));
        }
    }
}

TEST_CASE("a step gives the device one graph, and waits and allocates nothing", "[gpu]") {
    Random random(1303);
    const ModelConfig config = config_of(64, 96, 4, 2, 32);
    Twin twin(config, at::kFloat, 64);
    twin.prefill(random_ids(random, 10, config.vocab_size));
    (void)step(*twin.gpu, *twin.gpu_cache, 1, Origin::student); // makes the graph
    (void)simt::take_activity();
    for (int i = 0; i < 3; ++i)
        (void)step(*twin.gpu, *twin.gpu_cache, 2, Origin::student);
    const simt::Activity activity = simt::take_activity();
    REQUIRE(activity.graph_launches == 3);
    REQUIRE(activity.launches.size() == 3 * (1 + 4 * 2 + 1));
    REQUIRE(activity.device_waits + activity.stream_waits + activity.event_waits == 0);
    REQUIRE(activity.allocations + activity.frees == 0);
    // Every launch but the first begins beside the end of the one in front.
    for (size_t i = 0; i < activity.launches.size(); ++i)
        REQUIRE(activity.launches[i].dependent == (i % 10 != 0));
}

TEST_CASE("attention rows come along with a device's step; hooks that see more get the plain way", "[gpu]") {
    Random random(1304);
    for (const Case& c : cases()) {
        Twin twin(c.config, at::kFloat, 64);
        twin.prefill(random_ids(random, 10, c.config.vocab_size));
        SeenAttention expected(c.config, {1}, 10), got(c.config, {1}, 10);
        (void)step(*twin.cpu, *twin.cpu_cache, 1, Origin::student, {}, {&expected});
        (void)simt::take_activity();
        (void)step(*twin.gpu, *twin.gpu_cache, 1, Origin::student, {}, {&got});
        CAPTURE(c.name);
        REQUIRE(simt::take_activity().graph_launches == 1);
        REQUIRE(got.rows().defined());
        REQUIRE(relative_error(got.rows(), expected.rows()) <= 2e-5);
        HiddenCapture hidden(c.config, 1);
        (void)step(*twin.gpu, *twin.gpu_cache, 2, Origin::student, {}, {&hidden});
        REQUIRE(simt::take_activity().graph_launches == 0);
    }
}

TEST_CASE("steps that ask for different things take turns on one decoder", "[gpu]") {
    Random random(1306);
    const ModelConfig config = config_of(64, 96, 4, 2, 32);
    Twin twin(config, at::kFloat, 64);
    twin.prefill(random_ids(random, 10, config.vocab_size));
    for (int turn = 0; turn < 2; ++turn) { // made, then found again
        for (const int64_t top_k : {-1, 0, 3, 5}) {
            for (const int32_t layer : {-1, 0, 1}) {
                const int64_t position = twin.cpu_cache->length();
                const auto token = static_cast<int32_t>(random.between(0, config.vocab_size - 1));
                StepInputs in;
                in.tokens = std::span(&token, 1);
                in.origin = Origin::student;
                if (top_k >= 0) in.ask.emplace().top_k = top_k;
                SeenAttention expected(config, {std::max(layer, 0)}, position);
                SeenAttention got(config, {std::max(layer, 0)}, position);
                LayerHooks* expected_hook[] = {&expected};
                LayerHooks* got_hook[] = {&got};
                StepInputs on_gpu = in;
                if (layer >= 0) {
                    in.hooks = expected_hook;
                    on_gpu.hooks = got_hook;
                }
                const StepOutputs a = twin.cpu->forward().step(*twin.cpu_cache, in);
                const StepOutputs b = twin.gpu->forward().step(*twin.gpu_cache, on_gpu);
                CAPTURE(turn, top_k, layer);
                REQUIRE(relative_error(b.logits, a.logits) <= 2e-5);
                REQUIRE(a.summary.size() == b.summary.size());
                if (top_k >= 0) {
                    REQUIRE(b.summary[0].top.ids == a.summary[0].top.ids);
                    REQUIRE(std::abs(b.summary[0].statistics.entropy_bits -
                                     a.summary[0].statistics.entropy_bits) <= 1e-4);
                }
                if (layer >= 0) REQUIRE(relative_error(got.rows(), expected.rows()) <= 2e-5);
            }
        }
    }
}

} // namespace
} // namespace refreshlab::test::cuda_forward_cases
