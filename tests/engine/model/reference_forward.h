#pragma once

#include "engine/model/llama_model.h"
#include "engine/model/rope_table.h"

#include <ATen/ATen.h>

#include <cmath>
#include <map>
#include <span>
#include <string>

namespace refreshlab::test {

/// The definition of the model in float64, written once more without a cache, a kernel or a batch: the last row of a
/// whole recomputation. With `pass` > 0 the last token's row has the dropout of that pass; its prefix has none, as the
/// live MC rows see the prefix that row 0 left behind.
class ReferenceForward {
public:
    ReferenceForward(ModelConfig config, std::map<std::string, at::Tensor> weights)
        : m_config(std::move(config))
        , m_weights(std::move(weights)) {
        for (auto& [name, weight] : m_weights)
            weight = weight.to(at::kDouble);
    }

    [[nodiscard]] at::Tensor last_row(std::span<const int32_t> tokens, const McRequest& mc = {},
                                      int32_t pass = 0) const {
        const auto n = static_cast<int64_t>(tokens.size());
        // Row n - 1 is the plain last token (it makes no difference to the others), row n the one with dropout.
        std::vector<int64_t> ids(tokens.begin(), tokens.end());
        ids.push_back(ids.back());
        at::Tensor x = weight("model.embed_tokens.weight").index_select(0, at::tensor(ids, at::kLong));
        for (int64_t layer = 0; layer < m_config.num_layers; ++layer)
            x = block(x, n, layer, mc, pass);
        x = norm(x, "model.norm.weight");
        const std::string head = m_config.tied_head ? "model.embed_tokens.weight" : "lm_head.weight";
        return at::matmul(x.select(0, n), weight(head).t());
    }

private:
    [[nodiscard]] const at::Tensor& weight(const std::string& name) const { return m_weights.at(name); }

    [[nodiscard]] at::Tensor norm(const at::Tensor& x, const std::string& name) const {
        return x / at::sqrt(x.pow(2).mean(1, true) + m_config.rms_norm_eps) * weight(name);
    }

    [[nodiscard]] at::Tensor rotate(const at::Tensor& x) const {
        const std::vector<float> frequencies = rope_frequencies(m_config);
        const int64_t rows = x.size(0);
        const int64_t half = m_config.head_dim / 2;
        at::Tensor out = x.clone();
        for (int64_t r = 0; r < rows; ++r) {
            const int64_t position =
                std::min(r, rows - 2); // the extra row stands at the last token's position
            for (int64_t i = 0; i < half; ++i) {
                const double angle =
                    static_cast<double>(static_cast<float>(position) * frequencies[static_cast<size_t>(i)]);
                const at::Tensor a = x.select(0, r).select(1, i);
                const at::Tensor b = x.select(0, r).select(1, i + half);
                out.select(0, r).select(1, i).copy_(a * std::cos(angle) - b * std::sin(angle));
                out.select(0, r).select(1, i + half).copy_(b * std::cos(angle) + a * std::sin(angle));
            }
        }
        return out;
    }

    [[nodiscard]] at::Tensor block(const at::Tensor& x, int64_t n, int64_t layer, const McRequest& mc,
                                   int32_t pass) const {
        using kernels::DropoutSite;
        const std::string prefix = "model.layers." + std::to_string(layer) + ".";
        const kernels::DropoutKey key{mc.seed, n - 1, static_cast<int32_t>(layer), pass};
        const auto factor = [&](DropoutSite site, bool enabled, uint64_t element) {
            if (pass == 0 || !enabled) return 1.0;
            return kernels::dropout_keeps(key, site, element, mc.p) ? 1.0 / (1.0 - static_cast<double>(mc.p))
                                                                    : 0.0;
        };
        const auto heads = [&](const at::Tensor& h, const std::string& name) {
            return at::matmul(h, weight(prefix + name).t()).view({n + 1, -1, m_config.head_dim});
        };
        const at::Tensor h = norm(x, prefix + "input_layernorm.weight");
        const at::Tensor q = rotate(heads(h, "self_attn.q_proj.weight"));
        const at::Tensor k = rotate(heads(h, "self_attn.k_proj.weight"));
        const at::Tensor v = heads(h, "self_attn.v_proj.weight");
        at::Tensor attended = at::zeros_like(q);
        const int64_t group = m_config.num_heads / m_config.num_kv_heads;
        for (int64_t head = 0; head < m_config.num_heads; ++head) {
            for (int64_t row = 0; row <= n; ++row) {
                // Rows see [0, row]; the extra row sees [0, n - 1) and itself.
                std::vector<int64_t> visible;
                for (int64_t p = 0; p < std::min(row, n - 1); ++p)
                    visible.push_back(p);
                visible.push_back(row);
                const at::Tensor seen = at::tensor(visible, at::kLong);
                const at::Tensor keys = k.select(1, head / group).index_select(0, seen);
                at::Tensor p = at::softmax(at::matmul(keys, q.select(0, row).select(0, head)) /
                                               std::sqrt(static_cast<double>(m_config.head_dim)),
                                           0);
                if (row == n) {
                    for (int64_t i = 0; i < p.size(0); ++i) {
                        const auto element = (static_cast<uint64_t>(head) << 32) | static_cast<uint64_t>(i);
                        p[i] *= factor(DropoutSite::attention, mc.attention, element);
                    }
                }
                attended.select(0, row).select(0, head).copy_(
                    at::matmul(p, v.select(1, head / group).index_select(0, seen)));
            }
        }
        const auto drop_channels = [&](at::Tensor& branch, DropoutSite site, bool enabled) {
            for (int64_t c = 0; c < branch.size(1); ++c) {
                branch[n][c] *= factor(site, enabled, static_cast<uint64_t>(c));
            }
        };
        at::Tensor branch =
            at::matmul(attended.reshape({n + 1, -1}), weight(prefix + "self_attn.o_proj.weight").t());
        drop_channels(branch, DropoutSite::attention_output, mc.attention_output);
        at::Tensor out = x + branch;
        const at::Tensor g = norm(out, prefix + "post_attention_layernorm.weight");
        const at::Tensor gate = at::matmul(g, weight(prefix + "mlp.gate_proj.weight").t());
        const at::Tensor up = at::matmul(g, weight(prefix + "mlp.up_proj.weight").t());
        branch = at::matmul(gate * at::sigmoid(gate) * up, weight(prefix + "mlp.down_proj.weight").t());
        drop_channels(branch, DropoutSite::mlp_output, mc.mlp_output);
        return out + branch;
    }

    ModelConfig m_config;
    std::map<std::string, at::Tensor> m_weights;
};

} // namespace refreshlab::test
