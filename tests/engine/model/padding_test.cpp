#include "engine/cache/kv_cache.h"
#include "engine/model/checkpoint/llama_weights.h"
#include "engine/model/llama_model.h"
#include "tests/engine/model/reference_forward.h"
#include "tests/engine/model/support.h"
#include "tests/support/forward.h"

#include <ATen/ATen.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

namespace padding_test {

using refreshlab::HiddenCapture;
using refreshlab::LlamaModel;
using refreshlab::LlamaWeights;
using refreshlab::McRequest;
using refreshlab::ModelConfig;
using refreshlab::Origin;
using refreshlab::Rows;
using refreshlab::test::extend;
using refreshlab::test::random_tokens;
using refreshlab::test::read_only_step;
using refreshlab::test::ReferenceForward;
using refreshlab::test::step;
using refreshlab::test::tiny_config;

namespace {

constexpr Origin origin = Origin::student;
using Weights = std::map<std::string, at::Tensor>;

/// A model, and the weights it was made of.
std::unique_ptr<LlamaModel> recorded(const ModelConfig& config, at::ScalarType dtype, Weights& weights) {
    at::Generator generator = at::detail::createCPUGenerator(3);
    return LlamaModel::from_weights(
        config,
        [&](const std::string& name, at::IntArrayRef shape) {
            const bool norm = name.find("norm.weight") != std::string::npos;
            weights[name] = at::empty(shape, at::kFloat).normal_(norm ? 1.0 : 0.0, 0.2, generator);
            return weights[name];
        },
        at::kCPU, dtype);
}

struct Run {
    at::Tensor logits, keys, values, mc, padded;
};
Run run(const LlamaModel& model) {
    const std::vector<int32_t> tokens = random_tokens(40, model.config().vocab_size, 9);
    const auto cache = model.make_cache(64);
    Run result;
    HiddenCapture hidden(model.config(), 40, true);
    result.logits = extend(model, *cache, tokens, Rows::all, origin, {&hidden});
    const McRequest mc{.passes = 3, .seed = 4, .p = 0.2F, .attention_output = true, .mlp_output = true};
    const auto rows = step(model, *cache, 5, origin, mc);
    result.logits = at::cat({result.logits, rows.row.unsqueeze(0)});
    result.mc = rows.mc;
    result.keys = cache->keys(0, 41).to(at::kFloat);
    result.values = cache->values(0, 41).to(at::kFloat);
    result.padded = hidden.states();
    return result;
}

double off(const at::Tensor& a, const at::Tensor& b) {
    REQUIRE(a.sizes() == b.sizes());
    return (a - b).abs().max().item<double>();
}

} // namespace

TEST_CASE("widths are held as they are where vectors fit, and as the next multiple of 32 where not",
          "[model]") {
    CHECK(LlamaWeights::held_width(1689) == 1696);
    CHECK(LlamaWeights::held_width(4505) == 4512);
    CHECK(LlamaWeights::held_width(2334) == 2336);
    CHECK(LlamaWeights::held_width(8171) == 8192);
    CHECK(LlamaWeights::held_width(1) == 32);
    for (const int64_t width : {16, 144, 320, 400, 3072, 8192})
        CHECK(LlamaWeights::held_width(width) == width);
}

TEST_CASE("a padded model is the unpadded one to fp32 rounding, and its padded channels are exactly 0",
          "[model]") {
    // The unpadded side holds the same zeros as real widths, with the norms rescaled so that dividing by the wider
    // width means the same: weight * sqrt(D / D'), eps * D / D' (reference/refresh.md, 4).
    ModelConfig odd = tiny_config(); // 37 x 53
    odd.tied_head = GENERATE(true, false);
    odd.output_bias = odd.mlp_bias = odd.qkv_bias = GENERATE(true, false);
    odd.qk_norm = GENERATE(true, false);
    odd.rms_norm_eps = 1e-3; // large enough to count
    Weights weights;
    const auto padded = recorded(odd, at::kFloat, weights);
    ModelConfig wide = odd;
    wide.hidden_size = 64;
    wide.intermediate_size = 128;
    const double ratio = 37.0 / 64.0;
    wide.rms_norm_eps *= ratio;
    const auto unpadded = LlamaModel::from_weights(
        wide,
        [&](const std::string& name, at::IntArrayRef shape) {
            const at::Tensor& stored = weights.at(name);
            const bool head_norm =
                name.find("q_norm") != std::string::npos || name.find("k_norm") != std::string::npos;
            if (head_norm) return stored * 1.0;
            at::Tensor tensor = at::zeros(shape, at::kFloat);
            at::Tensor inside = tensor;
            for (int64_t d = 0; d < stored.dim(); ++d)
                inside = inside.narrow(d, 0, stored.size(d));
            inside.copy_(stored);
            return name.find("norm.weight") != std::string::npos ? tensor * std::sqrt(ratio) : tensor;
        },
        at::kCPU, at::kFloat);
    // The norms of heads keep their eps there: 1e-3 * ratio would be another function, so the check takes none.
    if (odd.qk_norm) {
        CHECK(padded->weight_bytes() == 4 * LlamaWeights::held_elements(odd));
    } else {
        const Run a = run(*padded);
        const Run b = run(*unpadded);
        CHECK(off(a.logits, b.logits) < 1e-4);
        CHECK(off(a.keys, b.keys) < 1e-4);
        CHECK(off(a.values, b.values) < 1e-4);
        CHECK(off(a.mc, b.mc) < 1e-4);
    }
    const std::vector<int32_t> tokens = random_tokens(9, odd.vocab_size, 4);
    const auto cache = padded->make_cache(16);
    const at::Tensor row = extend(*padded, *cache, tokens, Rows::last, origin)[0];
    CHECK(off(row.to(at::kDouble), ReferenceForward(odd, weights).last_row(tokens)) < 1e-4);

    const at::Tensor states = run(*padded).padded;
    REQUIRE(states.sizes() == at::IntArrayRef{odd.num_layers + 1, 40, 64});
    CHECK(states.narrow(2, 37, 27).eq(0.0).all().item<bool>());
    CHECK(states.narrow(2, 0, 37).ne(0.0).all().item<bool>());
}

TEST_CASE("a padded model says its true sizes and the bytes it really holds", "[model]") {
    const auto dtype = GENERATE(at::kFloat, at::kBFloat16, at::kHalf);
    const ModelConfig config = tiny_config();
    Weights weights;
    const auto model = recorded(config, dtype, weights);
    CHECK(model->config().hidden_size == 37);
    CHECK(model->config().intermediate_size == 53);
    // 97 words, 3 layers, 60 + 2 * 20 projection rows, 64 x 64 held.
    const int64_t layer = 64 * (2 * 60 + 2 * 20) + 3 * 64 * 64 + 2 * 64;
    const int64_t elements = 2 * 97 * 64 + 3 * layer + 64;
    CHECK(LlamaWeights::held_elements(config) == elements);
    CHECK(model->weight_bytes() == elements * static_cast<int64_t>(c10::elementSize(dtype)));
    CHECK(run(*model).padded.narrow(2, 37, 27).eq(0.0).all().item<bool>());
    ModelConfig even = config;
    even.hidden_size = 48;
    even.intermediate_size = 80;
    CHECK(LlamaWeights::held_elements(even) == even.num_parameters());
}

TEST_CASE("a hidden capture is the residual stream, the same from every way to compute it", "[model]") {
    Weights weights;
    const ModelConfig config = tiny_config();
    const auto model = recorded(config, at::kFloat, weights);
    const std::vector<int32_t> tokens =
        random_tokens(520, config.vocab_size, 3); // more than one chunk of rows
    HiddenCapture extended(config, 520), stepped(config, 1), looked_at(config, 1), mc(config, 1);
    const auto a = model->make_cache(600);
    const auto b = model->make_cache(600);
    const auto c = model->make_cache(600);
    const at::Tensor plain = extend(*model, *a, tokens, Rows::all, origin);
    CHECK(at::equal(extend(*model, *b, tokens, Rows::all, origin, {&extended}), plain));
    REQUIRE(extended.states().sizes() == at::IntArrayRef{config.num_layers + 1, 520, 37});
    CHECK(at::equal(extended.states()[0][7], weights.at("model.embed_tokens.weight")[tokens[7]]));
    (void)extend(*model, *c, std::span(tokens).first(519), Rows::none, origin);
    const auto d = c->clone();
    (void)step(*model, *c, tokens.back(), origin, {}, {&stepped});
    (void)step(*model, *d, tokens.back(), origin, {.passes = 3, .seed = 1, .p = 0.3F}, {&mc});
    (void)read_only_step(*model, *c, tokens.back(), 519, {&looked_at});
    for (const HiddenCapture* capture : {&stepped, &mc, &looked_at}) {
        REQUIRE(capture->states().sizes() == at::IntArrayRef{config.num_layers + 1, 1, 37});
        CHECK(at::equal(capture->states().select(1, 0), extended.states().select(1, 519)));
    }
}

} // namespace padding_test
