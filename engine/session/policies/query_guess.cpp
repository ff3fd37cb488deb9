#include "engine/session/policies/query_guess.h"

#include "engine/model/checkpoint/llama_weights.h"
#include "engine/model/llama_model.h"
#include "kernels/ops/dense.h"

namespace refreshlab {

at::Tensor QueryGuess::queries(int64_t layer, const at::Tensor& input, int64_t position) const {
    const ModelConfig& config = m_model.config();
    const LlamaLayer& w = m_model.weights().layers[static_cast<size_t>(layer)];
    at::Tensor q = kernels::linear(input, w.q, w.q_bias).view({1, -1, config.head_dim});
    if (w.q_norm.defined())
        q = kernels::rms_norm(q.view({-1, config.head_dim}), w.q_norm, config.rms_norm_eps).view(q.sizes());
    if (!config.turns(layer)) return q;
    const auto [cos, sin] = m_model.rope_rows(position, 1);
    kernels::rope_(q, cos, sin);
    return q;
}

} // namespace refreshlab
