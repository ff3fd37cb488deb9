#include "kernels/cuda/decode/expert_tables.h"

#include "kernels/shared/check.h"

#include <iterator>

namespace refreshlab::kernels::RL_GPU {

ExpertTables::ExpertTables(const DeviceModel& model, cudaStream_t stream)
    : m_experts(model.experts.count) {
    if (m_experts == 0) return;
    const size_t bytes = model.layers.size() * static_cast<size_t>(m_experts) * sizeof(ExpertMatrices);
    const PinnedMemory host(bytes);
    auto* to = static_cast<ExpertMatrices*>(host.data());
    for (const DeviceModel::Layer& layer : model.layers) {
        RL_ASSERT(layer.experts.empty() || std::ssize(layer.experts) == m_experts);
        for (size_t e = 0; e < static_cast<size_t>(m_experts); ++e, ++to) {
            *to = {};
            if (layer.experts.empty()) continue;
            const DeviceModel::Layer::Expert& expert = layer.experts[e];
            for (const DeviceMatrix* m : {&expert.gate, &expert.up, &expert.down})
                RL_ASSERT(m->bias == nullptr);
            RL_ASSERT(expert.gate.form == layer.experts[0].gate.form &&
                      expert.up.form == layer.experts[0].gate.form &&
                      expert.down.form == layer.experts[0].down.form);
            RL_ASSERT(expert.gate.outputs == model.experts.width &&
                      expert.up.outputs == model.experts.width && expert.down.inputs == model.experts.width);
            *to = {expert.gate.data, expert.up.data, expert.down.data};
        }
    }
    m_table = DeviceMemory(bytes);
    check(cudaMemcpyAsync(m_table.data(), host.data(), bytes, cudaMemcpyHostToDevice, stream),
          "copying tables of experts");
    check(cudaStreamSynchronize(stream), "copying tables of experts");
}

void RoutedRows::reserve(const decode::ExpertScratch& scratch, cudaStream_t stream) {
    if (scratch.bytes() == 0) return;
    const auto memory = [](int64_t bytes) { return DeviceMemory(static_cast<size_t>(bytes)); };
    m_logits = memory(scratch.logits);
    m_routed = memory(scratch.routed);
    m_arrived = memory(scratch.counters);
    check(cudaMemsetAsync(m_arrived.data(), 0, static_cast<size_t>(scratch.counters), stream),
          "clearing counters");
}

RouterInputs router_inputs(const DeviceModel& model, size_t layer, const float* x, const StepState* state,
                           int64_t rows, const RoutedRows& routed) {
    RouterInputs in;
    in.type = model.type;
    in.state = state;
    in.x = x;
    in.norm = model.layers[layer].post_norm;
    in.hidden = model.hidden;
    in.width = model.width;
    in.eps = model.norm_eps;
    in.norm_offset = model.norm_offset;
    in.router = model.layers[layer].router;
    in.used = model.experts.used;
    in.normalised = model.experts_normalised;
    in.logits = routed.logits();
    in.arrived = routed.arrived();
    in.to = routed.routed();
    in.rows = rows;
    in.dependent = true;
    return in;
}

ExpertGateUpInputs expert_gate_up_inputs(const DeviceModel& model, size_t layer, const RouterInputs& router,
                                         const ExpertMatrices* experts, float* inner) {
    ExpertGateUpInputs in{static_cast<const NormedInputs&>(router)};
    in.dependent = true;
    in.experts = experts;
    in.routed = router.to;
    in.used = router.used;
    in.expert_width = model.experts.width;
    in.inner = inner;
    in.activation = model.activation;
    in.form = model.layers[layer].experts[0].gate.form;
    return in;
}

ExpertDownInputs expert_down_inputs(const DeviceModel& model, size_t layer, const RouterInputs& router,
                                    const ExpertMatrices* experts, const float* inner, float* to, bool adds) {
    ExpertDownInputs in;
    in.type = router.type;
    in.state = router.state;
    in.experts = experts;
    in.routed = router.to;
    in.used = router.used;
    in.expert_width = model.experts.width;
    in.hidden = model.hidden;
    in.inner = inner;
    in.x = to;
    in.rows = router.rows;
    in.dependent = true;
    in.adds = adds;
    in.form = model.layers[layer].experts[0].down.form;
    return in;
}

} // namespace refreshlab::kernels::RL_GPU
