#pragma once

#include "engine/model/forward/rope_table.h"
#include "engine/model/llama_model.h"
#include "kernels/ops/dropout.h"

#include <ATen/ATen.h>

#include <cmath>
#include <functional>
#include <map>
#include <span>
#include <string>

namespace refreshlab::test {

/// The definition of the model in float64, written once more without a cache, a kernel or a batch: the last row of a
/// whole recomputation. With `pass` > 0 the last token's row has the dropout of that pass; its prefix has none, as the
/// live MC rows see the prefix that row 0 left behind. Biases and q/k norms are used where their weights are given, and multipliers where
/// their families have them (what the engine holds is scaled back to the configuration's own numbers).
class ReferenceForward {
public:
    /// Factor of one element of the last token's row: 0, or 1 / (1 - p).
    using Mask = std::function<double(kernels::DropoutSite site, int64_t layer, uint64_t element)>;

    /// \param context  of the cache that the live rows stand in
    ReferenceForward(ModelConfig config, std::map<std::string, at::Tensor> weights, int64_t context = 0)
        : m_config(std::move(config))
        , m_context(context)
        , m_weights(std::move(weights)) {
        for (auto& [name, weight] : m_weights)
            weight = weight.to(at::kDouble);
    }

    [[nodiscard]] at::Tensor last_row(std::span<const int32_t> tokens, const McRequest& mc = {},
                                      int32_t pass = 0) const {
        const auto position = static_cast<int64_t>(tokens.size()) - 1;
        return masked_row(tokens, [&](kernels::DropoutSite site, int64_t layer, uint64_t element) {
            using kernels::DropoutSite;
            const bool enabled = site == DropoutSite::attention          ? mc.attention
                                 : site == DropoutSite::attention_output ? mc.attention_output
                                                                         : mc.mlp_output;
            if (pass == 0 || !enabled) return 1.0;
            const kernels::DropoutKey key{mc.seed, position, static_cast<int32_t>(layer), pass};
            return kernels::dropout_keeps(key, site, element, mc.p) ? 1.0 / (1.0 - static_cast<double>(mc.p))
                                                                    : 0.0;
        });
    }

    /// The last token's row under any masks.
    [[nodiscard]] at::Tensor masked_row(std::span<const int32_t> tokens, const Mask& mask) const {
        const auto n = static_cast<int64_t>(tokens.size());
        // Row n - 1 is the plain last token (it makes no difference to the others), row n the one with dropout.
        std::vector<int64_t> ids(tokens.begin(), tokens.end());
        ids.push_back(ids.back());
        at::Tensor x = weight("model.embed_tokens.weight").index_select(0, at::tensor(ids, at::kLong)) *
                       m_config.multipliers.embedding * m_config.embedding_scale;
        for (int64_t layer = 0; layer < m_config.num_layers; ++layer)
            x = block(x, n, layer, mask);
        x = norm(x, "model.norm.weight");
        const std::string head = m_config.tied_head ? "model.embed_tokens.weight" : "lm_head.weight";
        const at::Tensor logits = at::matmul(x.select(0, n), weight(head).t()) * m_config.multipliers.logits;
        return capped(logits, m_config.logit_cap);
    }

private:
    [[nodiscard]] const at::Tensor& weight(const std::string& name) const { return m_weights.at(name); }

    [[nodiscard]] at::Tensor norm(const at::Tensor& x, const std::string& name) const {
        const double eps =
            m_config.rms_norm_eps * m_config.multipliers.embedding * m_config.multipliers.embedding;
        return x / at::sqrt(x.pow(2).mean(-1, true) + eps) * (weight(name) + m_config.norm_offset);
    }
    [[nodiscard]] static at::Tensor capped(const at::Tensor& x, double cap) {
        return cap > 0 ? at::tanh(x / cap) * cap : x;
    }
    /// x W^T (+ b)
    [[nodiscard]] at::Tensor linear(const at::Tensor& x, const std::string& name) const {
        const at::Tensor y = at::matmul(x, weight(name + ".weight").t());
        return m_weights.count(name + ".bias") > 0 ? y + weight(name + ".bias") : y;
    }

    /// x [rows, heads, head_dim]; the extra row stands at the last token's position.
    [[nodiscard]] at::Tensor rotate(const at::Tensor& x, int64_t layer) const {
        if (!m_config.turns(layer)) return x;
        const bool local = m_config.local_rope_theta > 0 && m_config.window(layer) > 0;
        const std::vector<float> frequencies = rope_frequencies(m_config, m_context, local);
        const int64_t rows = x.size(0), half = m_config.rotary() / 2;
        const double size = local ? 1 : m_config.rope_scaling.attention_factor;
        std::vector<double> angles;
        for (int64_t r = 0; r < rows; ++r) {
            const auto position = static_cast<float>(std::min(r, rows - 2));
            for (const float frequency : frequencies)
                angles.push_back(static_cast<double>(position * frequency));
        }
        const at::Tensor angle = at::tensor(angles, at::kDouble).view({rows, 1, half});
        const at::Tensor a = x.narrow(2, 0, half);
        const at::Tensor b = x.narrow(2, half, half);
        const at::Tensor turned =
            at::cat({a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()}, 2) * size;
        return at::cat({turned, x.narrow(2, 2 * half, x.size(2) - 2 * half)}, 2);
    }

    /// The MLP of a layer: one, or the experts that each row is sent to.
    [[nodiscard]] at::Tensor mlp(const at::Tensor& g, int64_t layer) const {
        const auto act = [&](const at::Tensor& gate) {
            if (m_config.activation == kernels::Activation::silu) return gate * at::sigmoid(gate);
            return at::gelu(gate, "tanh");
        };
        const auto gated = [&](const at::Tensor& x, const std::string& gate, const std::string& up,
                               const std::string& down) {
            return linear(act(linear(x, gate)) * linear(x, up), down);
        };
        const std::string prefix = "model.layers." + std::to_string(layer) + ".";
        if (!m_config.routed(layer))
            return gated(g, prefix + "mlp.gate_proj", prefix + "mlp.up_proj", prefix + "mlp.down_proj");
        const Experts& experts = m_config.experts;
        const std::string block = prefix + (experts.numbered ? "block_sparse_moe." : "mlp.");
        at::Tensor out = at::zeros_like(g);
        const at::Tensor shares = at::softmax(linear(g, block + "gate"), 1);
        for (int64_t row = 0; row < g.size(0); ++row) {
            const auto [values, chosen] = shares[row].topk(experts.used);
            const at::Tensor used = experts.normalised ? values / values.sum() : values;
            for (int64_t i = 0; i < experts.used; ++i) {
                const std::string e = block + "experts." + std::to_string(chosen[i].item<int64_t>()) + ".";
                const at::Tensor x = g.narrow(0, row, 1);
                out[row] += used[i] * (experts.numbered
                                           ? gated(x, e + "w1", e + "w3", e + "w2")
                                           : gated(x, e + "gate_proj", e + "up_proj", e + "down_proj"))[0];
            }
        }
        return out;
    }

    [[nodiscard]] at::Tensor block(const at::Tensor& x, int64_t n, int64_t layer, const Mask& mask) const {
        using kernels::DropoutSite;
        const std::string prefix = "model.layers." + std::to_string(layer) + ".";
        const auto heads = [&](const at::Tensor& h, const std::string& name) {
            return linear(h, prefix + "self_attn." + name + "_proj").view({n + 1, -1, m_config.head_dim});
        };
        const auto normed = [&](const at::Tensor& x_heads, const std::string& name) {
            if (!m_config.qk_norm) return x_heads;
            const at::Tensor rows = m_config.qk_norm_whole ? x_heads.flatten(1) : x_heads;
            return norm(rows, prefix + "self_attn." + name + "_norm.weight").view(x_heads.sizes());
        };
        const bool before = m_config.pre_norms, after = m_config.branch_norms;
        const at::Tensor h = before ? norm(x, prefix + "input_layernorm.weight") : x;
        const at::Tensor q = rotate(normed(heads(h, "q"), "q"), layer) * m_config.query_scale;
        const at::Tensor k = rotate(normed(heads(h, "k"), "k"), layer);
        const at::Tensor v = heads(h, "v");
        const int64_t window = m_config.window(layer);
        at::Tensor attended = at::zeros_like(q);
        const int64_t group = m_config.num_heads / m_config.num_kv_heads;
        for (int64_t head = 0; head < m_config.num_heads; ++head) {
            for (int64_t row = 0; row <= n; ++row) {
                // Rows see [0, row]; the extra row sees [0, n - 1) and itself.
                std::vector<int64_t> visible;
                const int64_t position = std::min(row, n - 1);
                for (int64_t p = 0; p < position; ++p)
                    if (window == 0 || p > position - window) visible.push_back(p);
                visible.push_back(row);
                const at::Tensor seen = at::tensor(visible, at::kLong);
                const at::Tensor keys = k.select(1, head / group).index_select(0, seen);
                const at::Tensor scores = at::matmul(keys, q.select(0, row).select(0, head)) *
                                          m_config.multipliers.query /
                                          std::sqrt(static_cast<double>(m_config.head_dim));
                at::Tensor p = at::softmax(capped(scores, m_config.attention_cap), 0);
                if (row == n) {
                    std::vector<double> factors;
                    for (const int64_t seen_at : visible) {
                        // The own column counts as the last position.
                        const auto at = static_cast<uint64_t>(std::min(seen_at, n - 1));
                        factors.push_back(
                            mask(DropoutSite::attention, layer, (static_cast<uint64_t>(head) << 32) | at));
                    }
                    p = p * at::tensor(factors, at::kDouble);
                }
                attended.select(0, row).select(0, head).copy_(
                    at::matmul(p, v.select(1, head / group).index_select(0, seen)));
            }
        }
        const auto drop_channels = [&](at::Tensor& branch, DropoutSite site) {
            std::vector<double> factors;
            for (int64_t c = 0; c < branch.size(1); ++c)
                factors.push_back(mask(site, layer, static_cast<uint64_t>(c)));
            branch.select(0, n).mul_(at::tensor(factors, at::kDouble));
        };
        at::Tensor branch = linear(attended.reshape({n + 1, -1}), prefix + "self_attn.o_proj");
        if (after) branch = norm(branch, prefix + "post_attention_layernorm.weight");
        drop_channels(branch, DropoutSite::attention_output);
        const double residual = m_config.multipliers.branch * m_config.multipliers.embedding;
        at::Tensor out = x + residual * branch;
        const std::string norm_before = after ? "pre_feedforward_layernorm" : "post_attention_layernorm";
        branch = mlp(before ? norm(out, prefix + norm_before + ".weight") : out, layer);
        if (after) branch = norm(branch, prefix + "post_feedforward_layernorm.weight");
        drop_channels(branch, DropoutSite::mlp_output);
        return out + residual * branch;
    }

    ModelConfig m_config;
    int64_t m_context;
    std::map<std::string, at::Tensor> m_weights;
};

} // namespace refreshlab::test
