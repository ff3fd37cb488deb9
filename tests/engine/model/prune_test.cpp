// Width pruning, against plain definitions of scores and slices.
#include "engine/model/checkpoint/llama_weights.h"
#include "engine/model/derive/calibration.h"
#include "engine/model/derive/prune_widths.h"
#include "engine/model/forward/layer_hooks.h"
#include "tests/engine/model/reference_forward.h"
#include "tests/engine/model/support.h"
#include "tests/support/forward.h"
#include "tests/support/seed.h"

#include <ATen/ATen.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cmath>
#include <map>
#include <numeric>

namespace prune_test {

using namespace refreshlab;
using namespace refreshlab::test;
using Catch::Matchers::ContainsSubstring;

namespace {

using Weights = std::map<std::string, at::Tensor>;

/// As in a checkpoint.
Weights stored(const LlamaModel& model) {
    Weights weights;
    model.weights().visit(model.config(), [&](const WeightPlace& place, const at::Tensor& tensor) {
        at::Tensor inside = tensor;
        for (size_t d = 0; d < place.stored.size(); ++d)
            inside = inside.narrow(static_cast<int64_t>(d), 0, place.stored[d]);
        weights[place.name] = inside.clone();
    });
    return weights;
}

at::Tensor logits_of(const LlamaModel& model, const std::vector<int32_t>& ids) {
    const auto cache = model.make_cache(static_cast<int64_t>(ids.size()));
    return extend(model, *cache, ids, Rows::all, Origin::student);
}

std::vector<ModelConfig> prunable() {
    ModelConfig llama = tiny_config();
    ModelConfig qwen2 = config_of_family("qwen2");
    qwen2.vocab_size = 97;
    qwen2.hidden_size = 48;
    qwen2.intermediate_size = 64;
    qwen2.num_layers = 2;
    qwen2.num_heads = 4;
    qwen2.num_kv_heads = 2;
    qwen2.head_dim = 8;
    qwen2.max_position = 512;
    qwen2.qkv_bias = true;
    qwen2.tied_head = true;
    ModelConfig qwen3 = llama;
    qwen3.qk_norm = true;
    qwen3.output_bias = qwen3.mlp_bias = true;
    return {llama, qwen2, qwen3};
}

/// What goes through a layer, kept whole; norms are made again from the residual.
class Seen final : public LayerHooks {
public:
    [[nodiscard]] LayerTaps taps(int64_t) const override {
        LayerTaps taps;
        taps.all_rows = true;
        return taps;
    }
    void observe(const LayerView& view) override { before.push_back(view.residual.clone()); }
    void branch(int64_t layer, Branch place, at::Tensor& rows) override {
        if (place == Branch::attention_output) after.push_back(before[static_cast<size_t>(layer)] + rows);
    }
    void inner(int64_t, const at::Tensor& rows) override { inside.push_back(rows.clone()); }
    std::vector<at::Tensor> before, after, inside;
};

at::Tensor normed(const at::Tensor& residual, const at::Tensor& weight, const ModelConfig& config) {
    const at::Tensor x = residual.narrow(1, 0, config.hidden_size).to(at::kDouble);
    return x / at::sqrt(x.pow(2).mean(1, true) + config.rms_norm_eps) * weight.to(at::kDouble);
}

void check_scores(const std::vector<double>& scores, const at::Tensor& expected) {
    REQUIRE(std::ssize(scores) == expected.numel());
    for (size_t c = 0; c < scores.size(); ++c) {
        const double wanted = expected[static_cast<int64_t>(c)].item<double>();
        CHECK(std::abs(scores[c] - wanted) <= 1e-4 * std::abs(wanted) + 1e-6);
    }
}

std::vector<int64_t> range(int64_t n) {
    std::vector<int64_t> all(static_cast<size_t>(n));
    std::iota(all.begin(), all.end(), 0);
    return all;
}

} // namespace

TEST_CASE("pruning nothing changes no bit", "[model][prune]") {
    for (const ModelConfig& config : prunable()) {
        CAPTURE(config.model_type, config.hidden_size);
        const auto model = lively_llama(config, seed(3), at::kBFloat16);
        const auto ids = random_tokens(30, 97, seed(4));
        KeptChannels all{range(config.hidden_size), {}};
        all.ffn.assign(static_cast<size_t>(config.num_layers), range(config.intermediate_size));
        const auto same = prune_widths(*model, all);
        CHECK(at::equal(logits_of(*same, ids), logits_of(*model, ids)));
    }
}

TEST_CASE("scores of hidden and MLP channels are those of the definition", "[model][prune]") {
    const ModelConfig config = prunable()[2];
    const auto model = lively_llama(config, seed(5));
    const Weights weights = stored(*model);
    const std::vector<std::vector<int32_t>> texts{
        random_tokens(40, 97, seed(6)), random_tokens(7, 97, seed(7)),
        random_tokens(600, 97, seed(8))}; // the last one in two chunks
    at::Tensor hidden = at::zeros({config.hidden_size}, at::kDouble);
    std::vector<at::Tensor> overfill(static_cast<size_t>(config.num_layers)), griffin(overfill.size());
    for (const auto& text : texts) {
        at::Tensor sum = at::zeros_like(hidden);
        // One row at a time, so that a chunk is a row.
        std::vector<Seen> rows(text.size());
        const auto cache = model->make_cache(static_cast<int64_t>(text.size()));
        for (size_t t = 0; t < text.size(); ++t)
            static_cast<void>(extend(*model, *cache, std::span(text).subspan(t, 1), Rows::last,
                                     Origin::student, {&rows[t]}));
        for (size_t l = 0; l < overfill.size(); ++l) {
            const std::string layer = "model.layers." + std::to_string(l) + ".";
            std::vector<at::Tensor> before, after, inside;
            for (const Seen& row : rows) {
                before.push_back(row.before[l]);
                after.push_back(row.after[l]);
                inside.push_back(row.inside[l].narrow(1, 0, config.intermediate_size).to(at::kDouble));
            }
            sum +=
                normed(at::cat(before), weights.at(layer + "input_layernorm.weight"), config).mean(0).abs();
            sum += normed(at::cat(after), weights.at(layer + "post_attention_layernorm.weight"), config)
                       .mean(0)
                       .abs();
            const at::Tensor u = at::cat(inside);
            const at::Tensor mean = u.mean(0).square(), share = (u / u.norm(2, 1, true)).square().sum(0);
            overfill[l] = overfill[l].defined() ? overfill[l] + mean : mean;
            griffin[l] = griffin[l].defined() ? griffin[l] + share : share;
        }
        hidden += sum.square();
    }
    for (const ChannelScore by : {ChannelScore::derive, ChannelScore::overfill}) {
        const WidthScores scores = width_scores(*model, texts, by);
        check_scores(scores.hidden, hidden.sqrt());
        for (size_t l = 0; l < overfill.size(); ++l) {
            const at::Tensor down = weights.at("model.layers." + std::to_string(l) + ".mlp.down_proj.weight");
            check_scores(scores.ffn[l], by == ChannelScore::overfill
                                            ? overfill[l].sqrt()
                                            : griffin[l].sqrt() * down.to(at::kDouble).norm(2, 0));
        }
        const KeptChannels kept = best_widths(scores, 20, 31);
        CHECK(kept.hidden == best_channels(scores.hidden, 20));
        CHECK(std::ranges::is_sorted(kept.hidden));
        CHECK(kept.ffn.size() == overfill.size());
    }
}

TEST_CASE("a pruned model computes with the chosen rows and columns alone", "[model][prune]") {
    for (const ModelConfig& config : prunable()) {
        CAPTURE(config.model_type, config.hidden_size);
        const auto model = lively_llama(config, seed(9));
        const auto ids = random_tokens(17, 97, seed(10));
        const std::vector<std::vector<int32_t>> texts{random_tokens(50, 97, seed(11))};
        const KeptChannels kept = best_widths(width_scores(*model, texts, ChannelScore::derive), 19, 23);
        const auto pruned = prune_widths(*model, kept);
        CHECK(pruned->config().hidden_size == 19);
        CHECK(pruned->config().intermediate_size == 23);
        CHECK_FALSE(geometry_difference(config, pruned->config()));
        Weights sliced = stored(*model);
        const at::Tensor hidden = at::tensor(kept.hidden, at::kLong);
        for (auto& [name, weight] : sliced) {
            const auto has = [&](const char* part) { return name.find(part) != std::string::npos; };
            const at::Tensor inner =
                has("layers.")
                    ? at::tensor(kept.ffn[static_cast<size_t>(std::stoi(name.substr(13)))], at::kLong)
                    : at::Tensor();
            if (has("q_norm") || has("k_norm") || has("q_proj.bias") || has("k_proj.bias") ||
                has("v_proj.bias"))
                continue;
            if (has("embed_tokens") || has("lm_head") || has("q_proj") || has("k_proj") || has("v_proj"))
                weight = weight.index_select(1, hidden);
            else if (has("gate_proj.weight") || has("up_proj.weight"))
                weight = weight.index_select(0, inner).index_select(1, hidden);
            else if (has("gate_proj.bias") || has("up_proj.bias"))
                weight = weight.index_select(0, inner);
            else if (has("down_proj.weight"))
                weight = weight.index_select(0, hidden).index_select(1, inner);
            else // o_proj, bias of down_proj, norms
                weight = weight.index_select(0, hidden);
        }
        const at::Tensor expected = ReferenceForward(pruned->config(), sliced).last_row(ids);
        const at::Tensor got = logits_of(*pruned, ids)[static_cast<int64_t>(ids.size()) - 1].to(at::kDouble);
        CHECK((got - expected).abs().max().item<double>() < 1e-3);
    }
}

TEST_CASE("what width pruning does not fit is refused by name", "[model][prune][bad-input]") {
    const ModelConfig config = tiny_config();
    CHECK_THAT(error_of([&] { static_cast<void>(pruned_config(config, 38, 53)); }),
               ContainsSubstring("--hidden 38"));
    CHECK_THAT(error_of([&] { static_cast<void>(pruned_config(config, 37, 0)); }),
               ContainsSubstring("--ffn 0"));
    for (const auto& [family, words] : std::map<std::string, std::string>{
             {"olmo2", "norms what sublayers add"}, {"gemma2", "norms what sublayers add"}}) {
        CHECK_THAT(error_of([&] { static_cast<void>(pruned_config(config_of_family(family), 1, 1)); }),
                   ContainsSubstring(family) && ContainsSubstring(words));
    }
    ModelConfig routed = config;
    routed.experts = {.count = 4, .used = 2, .width = 8};
    CHECK_THAT(error_of([&] { static_cast<void>(pruned_config(routed, 1, 1)); }),
               ContainsSubstring("routed experts"));
    ModelConfig granite = config;
    granite.multipliers.branch = 0.2;
    CHECK_THAT(error_of([&] { static_cast<void>(pruned_config(granite, 1, 1)); }),
               ContainsSubstring("multipliers"));
    ModelConfig scaled = config;
    scaled.embedding_scale = 6;
    CHECK_THAT(error_of([&] { static_cast<void>(pruned_config(scaled, 1, 1)); }),
               ContainsSubstring("root of the hidden width"));
}

} // namespace prune_test
