#pragma once

#include "kernels/cuda/build.h"
#include "kernels/cuda/decode/experts.h"
#include "kernels/cuda/device/runtime.h"
#include "kernels/decode/scratch.h"

#include <cstddef>
#include <cstdint>

/// What steps and passes of models with routed experts hold beside their activations, and how they fill the kernels' inputs.
namespace refreshlab::kernels::RL_GPU {

/// Where the experts' matrices are, in the device's memory. A model without experts has none.
class ExpertTables {
public:
    /// Waits for the copy.
    ExpertTables(const DeviceModel& model, cudaStream_t stream);
    /// [experts] of a layer that has them.
    [[nodiscard]] const ExpertMatrices* of_layer(size_t index) const {
        return static_cast<const ExpertMatrices*>(m_table.data()) + index * static_cast<size_t>(m_experts);
    }

private:
    int64_t m_experts = 0;
    DeviceMemory m_table; ///< [layers, experts]
};

/// Scratch of the router, and the rows' experts.
class RoutedRows {
public:
    /// The stream clears the counters.
    void reserve(const decode::ExpertScratch& scratch, cudaStream_t stream);
    [[nodiscard]] float* logits() const { return static_cast<float*>(m_logits.data()); }
    [[nodiscard]] uint32_t* arrived() const { return static_cast<uint32_t*>(m_arrived.data()); }
    [[nodiscard]] RoutedExpert* routed() const { return static_cast<RoutedExpert*>(m_routed.data()); }

private:
    DeviceMemory m_logits, m_routed, m_arrived;
};

/// \param x  [rows, hidden] \param state  null: all rows are there
[[nodiscard]] RouterInputs router_inputs(const DeviceModel& model, size_t layer, const float* x,
                                         const StepState* state, int64_t rows, const RoutedRows& routed);
/// Of the same rows, row by row. \param inner  [rows, used, width of an expert]
[[nodiscard]] ExpertGateUpInputs expert_gate_up_inputs(const DeviceModel& model, size_t layer,
                                                       const RouterInputs& router,
                                                       const ExpertMatrices* experts, float* inner);
/// \param to  what gets the sums, or with `adds` the residual
[[nodiscard]] ExpertDownInputs expert_down_inputs(const DeviceModel& model, size_t layer,
                                                  const RouterInputs& router, const ExpertMatrices* experts,
                                                  const float* inner, float* to, bool adds);

} // namespace refreshlab::kernels::RL_GPU
