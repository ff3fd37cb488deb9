#include "engine/session/policies/query_guess.h"

#include "engine/model/checkpoint/llama_weights.h"
#include "engine/model/llama_model.h"
#include "kernels/ops/dense.h"

namespace refreshlab {

at::Tensor QueryGuess::queries(int64_t layer, const at::Tensor& input, int64_t position,
                               int64_t context) const {
    const ModelConfig& config = m_model.config();
    const LlamaLayer& w = m_model.weights().layers[static_cast<size_t>(layer)];
    at::Tensor q = kernels::linear(input, w.q, w.q_bias).view({1, -1, config.head_dim});
    if (w.q_norm.defined()) {
        const at::Tensor weight =
            config.norm_offset == 0 ? w.q_norm : w.q_norm.to(at::kFloat) + config.norm_offset;
        q = kernels::rms_norm(q.view({-1, weight.size(0)}), weight, config.rms_norm_eps).view(q.sizes());
    }
    if (config.query_scale != 1) q.mul_(config.query_scale);
    if (!config.turns(layer)) return q;
    const auto [cos, sin] = m_model.rope_rows(config.rope(layer), context, position, 1);
    kernels::rope_(q, cos, sin);
    return q;
}

} // namespace refreshlab
