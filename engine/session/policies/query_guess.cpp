#include "engine/session/policies/query_guess.h"

#include "engine/model/checkpoint/llama_weights.h"
#include "engine/model/llama_model.h"
#include "kernels/ops/dense.h"

#include <ATen/ops/where.h>

namespace refreshlab {

QueryGuess::QueryGuess(const LlamaModel& model, bool own_norm)
    : m_model(model) {
    if (!own_norm || !model.config().pre_norms) return;
    const auto weights = [&](const LlamaLayer& layer) {
        return layer.input_norm.to(at::kFloat) + model.config().norm_offset;
    };
    const auto& layers = model.weights().layers;
    for (size_t layer = 0; layer < layers.size(); ++layer) {
        const at::Tensor own = weights(layers[layer]), below = weights(layers[layer > 0 ? layer - 1 : 0]);
        m_norms.push_back(at::where(below == 0, 0.0, own / below)); // what the norm below hides stays hidden
    }
}

at::Tensor QueryGuess::queries(int64_t layer, const at::Tensor& input, int64_t position,
                               int64_t context) const {
    const ModelConfig& config = m_model.config();
    const LlamaLayer& w = m_model.weights().layers[static_cast<size_t>(layer)];
    const at::Tensor normed =
        m_norms.empty() ? input : (input * m_norms[static_cast<size_t>(layer)]).to(input.scalar_type());
    at::Tensor q = kernels::linear(normed, w.q, w.q_bias).view({1, -1, config.head_dim});
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
