// Steps by a plan against the plain layer loop: the same bits, of everything that a step gives, shows and leaves behind.
#include "engine/base/check.h"
#include "engine/cache/kv_cache.h"
#include "engine/model/checkpoint/llama_weights.h"
#include "engine/model/derive/weight_changes.h"
#include "engine/model/forward/captures.h"
#include "engine/model/forward/cpu_forward.h"
#include "engine/model/forward/layer_hooks.h"
#include "kernels/execution/execution_context.h"
#include "kernels/ops/probabilities.h"
#include "tests/engine/model/support.h"
#include "tests/support/forward.h"
#include "tests/support/seed.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>

#include <string>
#include <thread>
#include <vector>

namespace cpu_forward_test {

using namespace refreshlab;
using namespace refreshlab::test;

namespace {

constexpr Origin origin = Origin::student;

/// Keeps copies of all that a step shows, and of all calls.
class Recorder : public LayerHooks {
public:
    LayerTaps wanted;
    std::vector<at::Tensor> sums; ///< of each layer; empty: not wanted
    std::vector<at::Tensor> seen;
    std::string calls;

    void place(std::span<RowPlace> rows) override { calls += "p" + std::to_string(rows[0].position); }
    [[nodiscard]] LayerTaps taps(int64_t layer) const override {
        LayerTaps taps = wanted;
        if (!sums.empty()) taps.sums = sums[static_cast<size_t>(layer)];
        return taps;
    }
    const HeadPositions* select(const LayerView& view) override {
        calls += "s";
        keep({view.residual, view.input, view.q, view.raw_q, view.k, view.v});
        return nullptr;
    }
    void attend(int64_t, kernels::AttentionInputs& in) override {
        calls += "a" + std::to_string(in.num_visible[0]);
    }
    void observe(const LayerView& view) override {
        calls += view.left_out ? "o-" : "o" + std::to_string(view.layer);
        keep({view.attention, view.residual});
        for (const kernels::KeyList& list : view.lists)
            calls += "l" + std::to_string(list.n);
    }
    void inner(int64_t, const at::Tensor& rows) override { keep({rows}); }
    void branch(int64_t, Branch place, at::Tensor& rows) override {
        calls += place == Branch::mlp_output ? "m" : "b";
        keep({rows});
        rows.mul_(1.25);
    }
    void finish(const at::Tensor& residual) override { keep({residual}); }

private:
    void keep(std::initializer_list<at::Tensor> tensors) {
        for (const at::Tensor& tensor : tensors) {
            calls += tensor.defined() ? "." : "-";
            if (tensor.defined()) seen.push_back(tensor.clone());
        }
    }
};

bool equal(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
    return std::ranges::equal(a, b, [](const at::Tensor& x, const at::Tensor& y) { return at::equal(x, y); });
}

struct Family {
    std::string name;
    ModelConfig config;
    at::ScalarType dtype = at::kFloat;
    enum class Weights : uint8_t { whole, blocks, without_sublayers } weights = Weights::whole;
};

std::vector<Family> families() {
    const ModelConfig odd = tiny_config();
    ModelConfig biased = odd, normed = odd, sliding = odd, blocks = odd, large = odd;
    biased.qkv_bias = biased.output_bias = biased.mlp_bias = true;
    normed.qk_norm = normed.tied_head = true;
    sliding.layer_windows = {5, 0, 3};
    blocks.hidden_size = 64;
    blocks.intermediate_size = 96;
    blocks.num_heads = 4;
    blocks.head_dim = 16;
    blocks.vocab_size = 176;
    large.vocab_size = 2600; // several segments of statistics, the last one short
    large.hidden_size = 96;
    large.intermediate_size = 200;
    ModelConfig after = odd, gemma = odd, in_part = odd, routed = odd;
    after.pre_norms = false;
    after.branch_norms = after.qk_norm = after.qk_norm_whole = true;
    gemma.branch_norms = gemma.qk_norm = gemma.tied_head = true;
    gemma.norm_offset = 1;
    gemma.embedding_scale = 6.1;
    gemma.query_scale = 0.8;
    gemma.attention_cap = 3;
    gemma.logit_cap = 2;
    gemma.activation = kernels::Activation::gelu_tanh;
    gemma.layer_windows = {5, 0, 3};
    gemma.local_rope_theta = 100;
    in_part.rotary_dim = 6;
    in_part.rope_scaling.kind = RopeScaling::Kind::longrope;
    in_part.rope_scaling.original_max_position = 30; // the caches here are longer
    in_part.rope_scaling.factors = {1, 1.1F, 1.2F};
    in_part.rope_scaling.long_factors = {1, 2, 4};
    in_part.rope_scaling.attention_factor = 1.2;
    routed.experts = {.count = 4, .used = 2, .width = 23};
    routed.layer_routed = {true, false, true};
    using W = Family::Weights;
    return {{"odd widths", odd},
            {"biases", biased},
            {"norms of heads, tied head", normed, at::kBFloat16},
            {"sliding windows", sliding, at::kHalf},
            {"a large vocabulary", large, at::kBFloat16},
            {"norms after", after, at::kBFloat16},
            {"gemma", gemma},
            {"heads that turn in part", in_part},
            {"experts", routed, at::kHalf},
            {"blocks", blocks, at::kFloat, W::blocks},
            {"sublayers left out", odd, at::kFloat, W::without_sublayers}};
}

std::unique_ptr<LlamaModel> model_of(const Family& family, uint64_t seed) {
    auto model = lively_llama(family.config, seed, family.dtype);
    if (family.weights == Family::Weights::whole) return model;
    const c10::InferenceMode guard;
    LlamaWeights weights = model->weights();
    if (family.weights == Family::Weights::without_sublayers) {
        weights.layers[0].attends = false;
        weights.layers[1].has_mlp = false;
    } else {
        weights.replace(family.config, [](const WeightPlace&, const at::Tensor& tensor) {
            return tensor.dim() == 2 ? round_to_blocks(tensor, 4, 32, false) : tensor;
        });
    }
    return LlamaModel::of_weights(family.config, std::move(weights), at::kCPU, family.dtype);
}

struct Side {
    std::unique_ptr<KvCache> cache;
    Recorder recorder;
    StepOutputs out;
};

} // namespace

TEST_CASE("a step by the plan has the bits of the plain step, and shows hooks the same", "[model][plan]") {
    const kernels::Isa isa = GENERATE(from_range(kernels::available_isas()));
    if (isa == kernels::Isa::reference) return; // the plan leaves it to the plain path
    const int threads = GENERATE(1, 3);
    CAPTURE(kernels::to_string(isa), threads);
    const kernels::ExecutionContext context(threads, isa);
    const kernels::ExecutionScope scope(context);
    uint64_t draw = seed(91);
    for (const Family& family : families()) {
        for (const CacheLayout layout : {CacheLayout::dense, CacheLayout::pooled}) {
            CAPTURE(family.name, layout == CacheLayout::pooled);
            const auto model = model_of(family, draw++);
            const CpuForward planned(*model);
            const PlainForward plain(*model);
            const auto tokens = random_tokens(24, family.config.vocab_size, draw++);
            Side a, b;
            const auto feed = [&](Side& side, const Forward& forward) {
                side.cache = model->make_cache(40, layout);
                StepInputs in;
                in.tokens = std::span(tokens).first(16);
                in.origin = origin;
                (void)forward.prefill(*side.cache, in);
                if (layout == CacheLayout::pooled) side.cache->evict(1, 1, std::vector<int64_t>{2, 3, 9}, 0);
            };
            feed(a, planned);
            feed(b, plain);
            for (size_t i = 16; i < tokens.size(); ++i) {
                const auto step = [&](Side& side, const Forward& forward) {
                    StepInputs in;
                    in.tokens = std::span(tokens).subspan(i, 1);
                    in.origin = origin;
                    // Without hooks, with hooks, and with all that a hook may ask for.
                    LayerHooks* const hooks[] = {&side.recorder};
                    if (i % 3 != 0) in.hooks = hooks;
                    if (i % 3 == 2) {
                        side.recorder.wanted.attention_from = 0;
                        side.recorder.wanted.raw_queries = true;
                        side.recorder.sums.clear();
                        for (int64_t l = 0; l < family.config.num_layers; ++l)
                            side.recorder.sums.push_back(at::zeros({family.config.num_heads, 40}));
                    }
                    const int32_t known = 7;
                    if (i % 2 == 0) in.ask.emplace().top_k = i % 4 == 0 ? 8 : 70;
                    if (i % 4 == 0) in.ask->tokens = std::span(&known, 1);
                    if (i % 5 < 2) {
                        in.mc = {.passes = i % 5 == 0 ? 3 : 14, .seed = 5, .p = 0.3F};
                        in.mc.attention_output = in.mc.mlp_output = i % 2 == 0;
                    }
                    side.out = forward.step(*side.cache, in);
                    for (const at::Tensor& sums : side.recorder.sums)
                        side.recorder.seen.push_back(sums);
                };
                step(a, planned);
                step(b, plain);
                REQUIRE(at::equal(a.out.logits, b.out.logits));
                REQUIRE(a.out.mc_logits.defined() == (i % 5 < 2));
                if (a.out.mc_logits.defined()) CHECK(at::equal(a.out.mc_logits, b.out.mc_logits));
                REQUIRE(a.out.summary.size() == b.out.summary.size());
                if (a.out.summary.empty()) continue;
                const kernels::RowSummary &x = a.out.summary[0], &y = b.out.summary[0];
                CHECK(x.top.ids == y.top.ids);
                CHECK(x.statistics.log_z == y.statistics.log_z);
                CHECK(x.statistics.entropy_bits == y.statistics.entropy_bits);
                CHECK(x.statistics.varentropy_bits2 == y.statistics.varentropy_bits2);
                CHECK(x.statistics.top1_id == y.statistics.top1_id);
                if (i % 4 == 0) CHECK(x.logprob == y.logprob);
            }
            CHECK(a.recorder.calls == b.recorder.calls);
            CHECK(equal(a.recorder.seen, b.recorder.seen));
            CHECK(a.cache->length() == 24);
            for (int64_t layer = 0; layer < family.config.num_layers; ++layer) {
                for (int64_t head = 0; head < family.config.num_kv_heads; ++head) {
                    const auto held = b.cache->held(layer, head);
                    REQUIRE(std::ranges::equal(a.cache->held(layer, head), held));
                    CHECK(at::equal(a.cache->read(layer, head, held), b.cache->read(layer, head, held)));
                }
            }
        }
    }
}

TEST_CASE("steps that are made together have the bits of steps alone", "[model][plan]") {
    const kernels::Isa isa = GENERATE(from_range(kernels::available_isas()));
    const kernels::ExecutionContext context(2, isa);
    const kernels::ExecutionScope scope(context);
    uint64_t draw = seed(97);
    for (const Family& family : families()) {
        CAPTURE(kernels::to_string(isa), family.name);
        const auto model = model_of(family, draw++);
        const CpuForward planned(*model);
        const PlainForward plain(*model);
        // Caches of different texts, lengths and layouts.
        constexpr size_t lanes = 5;
        std::vector<std::vector<int32_t>> tokens;
        std::vector<Side> together(lanes), alone(lanes);
        for (size_t lane = 0; lane < lanes; ++lane) {
            tokens.push_back(
                random_tokens(static_cast<int64_t>(8 + 3 * lane), family.config.vocab_size, draw++));
            for (std::vector<Side>* sides : {&together, &alone}) {
                Side& side = (*sides)[lane];
                side.cache = model->make_cache(40, lane % 2 == 0 ? CacheLayout::dense : CacheLayout::pooled);
                StepInputs in;
                in.tokens = std::span(tokens[lane]).first(tokens[lane].size() - 4);
                in.origin = origin;
                (void)plain.prefill(*side.cache, in);
                if (lane % 2 == 1) side.cache->evict(1, 1, std::vector<int64_t>{1, 2}, 0);
                if (lane > 2) side.recorder.wanted.attention_from = 0;
                side.recorder.wanted.raw_queries = lane == 4;
            }
        }
        for (size_t step = 4; step > 0; --step) {
            std::vector<LayerHooks*> hooks;
            for (Side& side : together)
                hooks.push_back(&side.recorder);
            for (Side& side : alone)
                hooks.push_back(&side.recorder);
            std::vector<CacheStep> steps;
            for (size_t lane = 0; lane < lanes; ++lane) {
                StepInputs in;
                in.tokens = std::span(tokens[lane]).subspan(tokens[lane].size() - step, 1);
                in.origin = origin;
                if (lane != 1) in.ask.emplace().top_k = static_cast<int64_t>(lane);
                if (lane > 1) in.hooks = std::span(hooks).subspan(lane, 1);
                steps.push_back({together[lane].cache.get(), in});
                if (lane > 1) in.hooks = std::span(hooks).subspan(lanes + lane, 1);
                alone[lane].out = plain.step(*alone[lane].cache, in);
            }
            const std::vector<StepOutputs> outs = planned.step_together(steps);
            REQUIRE(outs.size() == lanes);
            for (size_t lane = 0; lane < lanes; ++lane) {
                CAPTURE(step, lane);
                const StepOutputs& own = alone[lane].out;
                CHECK(at::equal(outs[lane].logits, own.logits));
                REQUIRE(outs[lane].summary.size() == own.summary.size());
                if (own.summary.empty()) continue;
                CHECK(outs[lane].summary[0].top.ids == own.summary[0].top.ids);
                CHECK(outs[lane].summary[0].statistics.log_z == own.summary[0].statistics.log_z);
            }
        }
        for (size_t lane = 0; lane < lanes; ++lane) {
            CAPTURE(lane);
            CHECK(together[lane].recorder.calls == alone[lane].recorder.calls);
            CHECK(equal(together[lane].recorder.seen, alone[lane].recorder.seen));
            CHECK(together[lane].cache->length() == std::ssize(tokens[lane]));
            const auto held = alone[lane].cache->held(2, 0);
            REQUIRE(std::ranges::equal(together[lane].cache->held(2, 0), held));
            CHECK(at::equal(together[lane].cache->read(2, 0, held), alone[lane].cache->read(2, 0, held)));
        }
    }
}

TEST_CASE("attention rows written as halves by the step are those that it would show, rounded",
          "[model][plan]") {
    /// Asks for halves, and shows whether they were written or the row was shown.
    class Halves : public AttentionCapture {
    public:
        Halves(const ModelConfig& config, int64_t position, int64_t most)
            : AttentionCapture(config, {}, position)
            , m_bins(most)
            , m_row(HalfRow{position, nullptr, most})
            , m_halves(static_cast<size_t>(config.num_layers * config.num_heads * m_row.numbers()), 0xAAAA) {}
        [[nodiscard]] const std::vector<uint16_t>& rows() const { return m_halves; }
        int64_t kept = 0;

    private:
        void keep(size_t index, std::span<const float> row) override {
            ++kept;
            kernels::rows_to_half(row, heads(), m_row.bin(),
                                  {halves_of(index), m_halves.size() / layers().size()});
        }
        [[nodiscard]] uint16_t* halves_of(size_t index) const override {
            return m_halves.data() + index * m_halves.size() / layers().size();
        }
        [[nodiscard]] int64_t bins() const override { return m_bins; }
        int64_t m_bins;
        HalfRow m_row;
        mutable std::vector<uint16_t> m_halves;
    };
    const kernels::Isa isa = GENERATE(from_range(kernels::available_isas()));
    const int threads = GENERATE(1, 3);
    CAPTURE(kernels::to_string(isa), threads);
    const kernels::ExecutionContext context(threads, isa);
    const kernels::ExecutionScope scope(context);
    uint64_t draw = seed(96);
    for (const Family& family : families()) {
        const auto model = model_of(family, draw++);
        const auto tokens = random_tokens(20, family.config.vocab_size, draw++);
        const bool left_out = family.weights == Family::Weights::without_sublayers;
        enum class How : uint8_t { plain, mc, evicted, fault };
        for (const How how : {How::plain, How::mc, How::evicted, How::fault}) {
            const bool beside = how == How::mc;           // both in one step
            const int64_t bins = draw++ % 2 == 0 ? 0 : 6; // of 4 keys, 20 in all
            if (how == How::fault && left_out) continue;
            CAPTURE(family.name, static_cast<int>(how), bins);
            const auto cache =
                model->make_cache(40, how == How::evicted ? CacheLayout::pooled : CacheLayout::dense);
            StepInputs in;
            in.tokens = std::span(tokens).first(19);
            in.origin = origin;
            (void)model->forward().prefill(*cache, in);
            if (how == How::evicted) cache->evict(1, 1, std::vector<int64_t>{2, 3, 9}, 0);
            in.tokens = std::span(tokens).last(1);
            if (how == How::mc) in.mc = {.passes = 3, .seed = 5, .p = 0.3F};
            StepFault fault;
            if (how == How::fault) fault.mask_shift = 1;
            Halves halves(family.config, 19, bins);
            SeenAttention seen(family.config, {}, 19);
            std::vector<LayerHooks*> hooks{&halves, &fault};
            if (beside) hooks.push_back(&seen);
            in.hooks = hooks;
            (void)model->forward().step(*cache, in);
            REQUIRE(halves.is_complete());
            // A list of what is held, and the reference's plain path, show the row itself.
            const bool shown = isa == kernels::Isa::reference || how == How::evicted || how == How::fault;
            CHECK(halves.kept == (shown ? family.config.num_layers : left_out ? 1 : 0));
            if (how == How::fault) continue; // what is read again stands without it
            if (!beside) {
                LayerHooks* const again[] = {&seen};
                in.hooks = again;
                (void)model->forward().read_only(*cache, 19, in);
            }
            std::vector<uint16_t> expected(halves.rows().size());
            const at::Tensor rows = seen.rows().contiguous();
            kernels::rows_to_half({rows.const_data_ptr<float>(), static_cast<size_t>(rows.numel())},
                                  rows.numel() / 20, bins == 0 ? 1 : 4, expected);
            CHECK(halves.rows() == expected);
        }
    }
}

TEST_CASE("a step's KL, a row that nobody keeps, and a vocabulary that is cut are the plain ones",
          "[model][plan]") {
    const ModelConfig config = tiny_config();
    const auto model = lively_llama(config, seed(92));
    model->keep_vocabulary(83);
    const PlainForward plain(*model);
    const at::Tensor other = at::randn({1, 83});
    const std::vector<int64_t> first{0};
    const std::vector<int32_t> tokens{5, 11};
    const auto run = [&](const Forward& forward) {
        const auto cache = model->make_cache(8);
        StepInputs in;
        in.tokens = std::span(tokens).first(1);
        in.ask.emplace().top_k = 200; // more than there are
        in.ask->kl_against = other;
        in.ask->kl_rows = first;
        StepOutputs out = forward.step(*cache, in);
        in.tokens = std::span(tokens).last(1);
        in.ask.reset();
        in.logits = false;
        CHECK_FALSE(forward.step(*cache, in).logits.defined());
        CHECK(cache->length() == 2);
        return out;
    };
    const StepOutputs a = run(model->forward()), b = run(plain);
    CHECK(a.logits.sizes() == at::IntArrayRef{1, 83});
    CHECK(at::equal(a.logits, b.logits));
    CHECK(a.summary[0].kl_nats == b.summary[0].kl_nats);
    CHECK(a.summary[0].top.ids == b.summary[0].top.ids);
    CHECK(a.summary[0].top.ids.size() == 83);
}

TEST_CASE("a step that a hook breaks off leaves the plan in order", "[model][plan]") {
    class Broken : public LayerHooks {
    public:
        void observe(const LayerView& view) override { RL_ASSERT(view.layer < 1); }
    };
    const ModelConfig config = tiny_config();
    const auto model = lively_llama(config, seed(93));
    const auto cache = model->make_cache(8);
    const int32_t token = 3;
    StepInputs in;
    in.tokens = std::span(&token, 1);
    const at::Tensor expected = model->forward().step(*model->make_cache(8), in).logits;
    Broken broken;
    LayerHooks* const hooks[] = {&broken};
    in.hooks = hooks;
    CHECK_THROWS_AS(model->forward().step(*cache, in), InvariantError);
    CHECK(cache->length() == 0);
    in.hooks = {};
    CHECK(at::equal(model->forward().step(*cache, in).logits, expected));
}

TEST_CASE("sessions on several threads share one plan", "[model][plan]") {
    const ModelConfig config = tiny_config();
    const auto model = lively_llama(config, seed(94));
    const auto tokens = random_tokens(60, config.vocab_size, seed(95));
    const auto decode = [&] {
        const auto cache = model->make_cache(60);
        at::Tensor last;
        for (const int32_t token : tokens) {
            StepInputs in;
            in.tokens = std::span(&token, 1);
            last = model->forward().step(*cache, in).logits;
        }
        return last;
    };
    const at::Tensor expected = decode();
    std::vector<at::Tensor> rows(4);
    std::vector<std::thread> threads;
    for (at::Tensor& row : rows)
        threads.emplace_back([&row, &decode] { row = decode(); });
    for (std::thread& thread : threads)
        thread.join();
    for (const at::Tensor& row : rows)
        CHECK(at::equal(row, expected));
}

} // namespace cpu_forward_test
