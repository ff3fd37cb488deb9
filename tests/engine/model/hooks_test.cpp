#include "engine/base/check.h"
#include "engine/model/forward/layer_hooks.h"
#include "tests/engine/model/support.h"
#include "tests/support/forward.h"

#include <ATen/ATen.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <cmath>
#include <numeric>

namespace hooks_test {

using namespace refreshlab;
using namespace refreshlab::test;

namespace {

/// Keeps all that a pass shows.
class Recorder : public LayerHooks {
public:
    struct Layer {
        std::vector<int64_t> positions;
        at::Tensor residual, input, q, raw_q, k, v, attention;
    };
    LayerTaps wanted;
    std::vector<Layer> layers;
    at::Tensor final_residual;
    std::vector<std::string> calls;

    void place(std::span<RowPlace>) override { calls.emplace_back("place"); }
    LayerTaps taps(int64_t layer) const override {
        LayerTaps taps = wanted;
        if (!sums.empty()) taps.sums = sums[static_cast<size_t>(layer)];
        return taps;
    }
    std::vector<at::Tensor> sums; ///< of each layer; empty: not wanted
    void want_sums(const ModelConfig& config, int64_t keys) {
        for (int64_t l = 0; l < config.num_layers; ++l)
            sums.push_back(at::zeros({config.num_heads, keys}));
    }
    const HeadPositions* select(const LayerView& view) override {
        calls.push_back("select " + std::to_string(view.layer));
        CHECK_FALSE(view.attention.defined());
        return nullptr;
    }
    void attend(int64_t layer, kernels::AttentionInputs&) override {
        calls.push_back("attend " + std::to_string(layer));
    }
    void observe(const LayerView& view) override {
        calls.push_back("observe " + std::to_string(view.layer));
        const auto copy = [](const at::Tensor& t) { return t.defined() ? t.clone() : t; };
        layers.push_back({{view.positions.begin(), view.positions.end()},
                          copy(view.residual),
                          copy(view.input),
                          copy(view.q),
                          copy(view.raw_q),
                          copy(view.k),
                          copy(view.v),
                          copy(view.attention)});
    }
    void branch(int64_t layer, Branch at, at::Tensor&) override {
        calls.push_back((at == Branch::mlp_output ? "mlp " : "output ") + std::to_string(layer));
    }
    void finish(const at::Tensor& residual) override {
        calls.emplace_back("finish");
        final_residual = residual.clone();
    }
};

/// Lets every KV head of every layer see the same positions.
class Select : public LayerHooks {
public:
    explicit Select(std::vector<int64_t> positions)
        : m_positions(std::move(positions)) {}
    const HeadPositions* select(const LayerView& view) override {
        m_chosen.assign(static_cast<size_t>(view.cache->num_kv_heads()), m_positions);
        return &m_chosen;
    }

private:
    std::vector<int64_t> m_positions;
    HeadPositions m_chosen;
};

constexpr Origin origin = Origin::student;

double worst(const at::Tensor& a, const at::Tensor& b) {
    return (a - b).abs().max().item<double>();
}

} // namespace

TEST_CASE("hooks are asked in the order of the layers, and change no bit by looking", "[model][hooks]") {
    const ModelConfig config = tiny_config();
    const auto model = lively_llama(config, 3);
    const std::vector<int32_t> tokens = random_tokens(20, config.vocab_size, 4);
    const auto a = model->make_cache(32), b = model->make_cache(32);
    Recorder all;
    all.wanted.attention_from = 0;
    all.wanted.raw_queries = all.wanted.all_rows = true;
    all.want_sums(config, 20);
    const at::Tensor plain = extend(*model, *a, tokens, Rows::all, origin);
    CHECK(at::equal(extend(*model, *b, tokens, Rows::all, origin, {&all}), plain));
    CHECK(at::equal(a->keys(0, 20), b->keys(0, 20)));
    std::vector<std::string> expected{"place"};
    for (int64_t l = 0; l < config.num_layers; ++l) {
        for (const char* call : {"select ", "attend ", "observe ", "output ", "mlp "})
            expected.push_back(call + std::to_string(l));
    }
    expected.emplace_back("finish");
    CHECK(all.calls == expected);

    Recorder stepped;
    stepped.wanted.attention_from = 0;
    const McRequest mc{.passes = 3, .seed = 1, .p = 0.2F};
    const auto with = step(*model, *a, 5, origin, mc, {&stepped}), without = step(*model, *b, 5, origin);
    CHECK(at::equal(with.row, without.row));
    CHECK(stepped.layers[0].positions == std::vector<int64_t>{20}); // riders are not shown
    CHECK(stepped.layers[0].q.size(0) == 1);
    CHECK(stepped.layers[0].k.size(0) == 1);
    CHECK(stepped.layers[0].attention.sizes() == at::IntArrayRef{1, config.num_heads, 21});
    CHECK_FALSE(stepped.layers[0].raw_q.defined());
}

TEST_CASE("what a layer shows is what its cache and its weights say", "[model][hooks]") {
    const ModelConfig config = tiny_config();
    const auto model = lively_llama(config, 5);
    const std::vector<int32_t> tokens = random_tokens(17, config.vocab_size, 6);
    const auto cache = model->make_cache(32);
    Recorder seen;
    seen.wanted.attention_from = 0;
    seen.wanted.raw_queries = seen.wanted.all_rows = true;
    seen.want_sums(config, 17);
    (void)extend(*model, *cache, tokens, Rows::all, origin, {&seen});
    const int64_t group = config.num_heads / config.num_kv_heads;
    for (int64_t l = 0; l < config.num_layers; ++l) {
        CAPTURE(l);
        const Recorder::Layer& layer = seen.layers[static_cast<size_t>(l)];
        CHECK(layer.positions.size() == 17);
        CHECK(at::equal(layer.k, cache->keys(l).narrow(1, 0, 17).transpose(0, 1)));
        CHECK(at::equal(layer.v, cache->values(l).narrow(1, 0, 17).transpose(0, 1)));
        CHECK(at::equal(layer.q[0], layer.raw_q[0])); // position 0 is not rotated
        CHECK_FALSE(at::equal(layer.q[9], layer.raw_q[9]));
        CHECK(worst(layer.q[9].norm(2, -1), layer.raw_q[9].norm(2, -1)) < 1e-4);
        // softmax(q k / sqrt(d)) under the causal mask, from the definition in float64
        const at::Tensor k = layer.k.to(at::kDouble).repeat_interleave(group, 1);
        const at::Tensor scores = at::einsum("ihd,jhd->ihj", {layer.q.to(at::kDouble), k}) /
                                  std::sqrt(static_cast<double>(config.head_dim));
        const at::Tensor mask = at::ones({17, 17}, at::kBool).triu(1).unsqueeze(1);
        const at::Tensor expected = at::softmax(scores.masked_fill(mask, -INFINITY), -1);
        CHECK(worst(layer.attention, expected) < 1e-5);
        CHECK(worst(seen.sums[static_cast<size_t>(l)], expected.sum(0)) < 1e-4);
    }
    // Channels that only pad an odd width are zero in every layer's residual.
    for (const Recorder::Layer& layer : seen.layers) {
        REQUIRE(layer.residual.size(1) > config.hidden_size);
        const int64_t padding = layer.residual.size(1) - config.hidden_size;
        CHECK(layer.residual.narrow(1, config.hidden_size, padding).abs().max().item<double>() == 0.0);
    }
}

TEST_CASE("a window of rows, and the sums of columns, come out of any chunks", "[model][hooks]") {
    const ModelConfig config = tiny_config();
    const auto model = lively_llama(config, 7);
    const int64_t n = 600; // longer than a chunk of a pass and than a block of tapped rows
    const std::vector<int32_t> tokens = random_tokens(n, config.vocab_size, 8);
    const auto whole = model->make_cache(n);
    Recorder seen;
    seen.wanted.attention_from = n - 8;
    seen.want_sums(config, n);
    (void)extend(*model, *whole, tokens, GENERATE(Rows::none, Rows::last), origin, {&seen});

    // The same from single steps: row by row.
    const auto single = model->make_cache(n);
    at::Tensor sums = at::zeros({config.num_layers, config.num_heads, n});
    std::vector<std::vector<at::Tensor>> rows(static_cast<size_t>(config.num_layers));
    for (int64_t p = 0; p < n; ++p) {
        Recorder row;
        row.wanted.attention_from = 0;
        (void)step(*model, *single, tokens[static_cast<size_t>(p)], origin, {}, {&row});
        for (int64_t l = 0; l < config.num_layers; ++l) {
            const at::Tensor& a = row.layers[static_cast<size_t>(l)].attention;
            sums[l].narrow(1, 0, p + 1).add_(a[0]);
            if (p >= n - 8) rows[static_cast<size_t>(l)].push_back(a[0]);
        }
    }
    for (int64_t l = 0; l < config.num_layers; ++l) {
        CAPTURE(l);
        const at::Tensor column_sums = seen.sums[static_cast<size_t>(l)];
        at::Tensor window;
        for (size_t i = static_cast<size_t>(l); i < seen.layers.size();
             i += static_cast<size_t>(config.num_layers)) {
            const Recorder::Layer& part = seen.layers[i];
            if (part.attention.defined()) window = part.attention;
        }
        CHECK(at::equal(column_sums, sums[l])); // row after row
        CHECK(std::abs(column_sums.sum().item<double>() / static_cast<double>(config.num_heads) -
                       static_cast<double>(n)) < 1e-2);
        REQUIRE(window.size(0) == 8);
        for (int64_t r = 0; r < 8; ++r) {
            const at::Tensor& expected = rows[static_cast<size_t>(l)][static_cast<size_t>(r)];
            CHECK(at::equal(window[r].narrow(1, 0, expected.size(1)), expected));
        }
    }
}

TEST_CASE("a hook chooses what a layer reads; two may not", "[model][hooks]") {
    const ModelConfig config = tiny_config();
    const auto model = lively_llama(config, 9);
    const std::vector<int32_t> tokens = random_tokens(12, config.vocab_size, 2);
    const auto a = model->make_cache(16), b = model->make_cache(16), c = model->make_cache(16);
    for (const auto* cache : {a.get(), b.get(), c.get()})
        (void)extend(*model, const_cast<KvCache&>(*cache), tokens, Rows::none, origin);
    std::vector<int64_t> every(13);
    std::iota(every.begin(), every.end(), 0);
    Select all(every), some({0, 1, 5, 12});
    Recorder seen;
    seen.wanted.attention_from = 0;
    const at::Tensor plain = step(*model, *a, 3, origin).row;
    CHECK(at::equal(step(*model, *b, 3, origin, {}, {&all}).row, plain));
    CHECK_FALSE(at::equal(step(*model, *c, 3, origin, {}, {&some, &seen}).row, plain));
    for (const Recorder::Layer& layer : seen.layers) {
        const at::Tensor row = layer.attention[0];
        CHECK(row.sizes() == at::IntArrayRef{config.num_heads, 4}); // by entry
        CHECK(worst(row.sum(-1), at::ones({config.num_heads})) < 1e-5);
    }
    CHECK_THROWS_AS(read_only_step(*model, *a, 3, 12, {&all, &some}), InvariantError);
    CHECK_THROWS_AS(read_only_step(*model, *a, 3, 12, {nullptr}), InvariantError);
}

TEST_CASE("answers of a pass are those of its rows, kept or not", "[model][hooks]") {
    const ModelConfig config = tiny_config();
    const auto model = lively_llama(config, 11);
    const std::vector<int32_t> tokens = random_tokens(530, config.vocab_size, 12);
    std::vector<int32_t> next(tokens.begin() + 1, tokens.end());
    next.push_back(-1);
    StepInputs in;
    in.tokens = tokens;
    in.origin = origin;
    in.rows = Rows::all;
    in.ask.emplace().top_k = 3;
    in.ask->tokens = next;
    const auto kept = model->make_cache(600), dropped = model->make_cache(600);
    const StepOutputs with = model->forward().prefill(*kept, in);
    in.logits = false;
    const StepOutputs without = model->forward().prefill(*dropped, in);
    CHECK_FALSE(without.logits.defined());
    REQUIRE(with.summary.size() == 530);
    REQUIRE(without.summary.size() == 530);
    const auto expected = kernels::summarize_rows(with.logits, *in.ask);
    for (size_t r = 0; r < 530; ++r) {
        CHECK(without.summary[r].top.ids == expected[r].top.ids);
        CHECK(without.summary[r].statistics.log_z == expected[r].statistics.log_z);
        if (next[r] >= 0) CHECK(without.summary[r].logprob == expected[r].logprob);
    }
}

} // namespace hooks_test
