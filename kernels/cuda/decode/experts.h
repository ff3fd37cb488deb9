#pragma once

#include "kernels/cuda/decode/decode_kernels.h"
#include "kernels/decode/expert_shapes.h"

/// The kernels of routed experts in the place of an MLP: of a step, and of a pass of many rows. A router's kernel chooses for each row; then
/// only the chosen experts' matrices are read. What decode_kernels.h says of rows, numbers and memory holds here; a row's experts and all its bits
/// are its own, whatever other rows are in the launch. Weights f32, bf16, f16, or blocks beside bf16; no biases.
///
/// MC rows and passes in f32 are multiplied row by row by fp32 units, with the sums of the token's row: rows of a step seldom share experts. A
/// pass with 16-bit weights goes by tensor cores, each expert once for all rows that are sent to it.
namespace refreshlab::kernels::RL_GPU {

/// What kernels read of an expert: [expert_width, hidden], and down [hidden, expert_width], of the type.
struct ExpertMatrices {
    const void *gate = nullptr, *up = nullptr, *down = nullptr;
};
/// An expert of a row, and the share of its output.
struct RoutedExpert {
    int32_t expert = 0;
    float share = 0;
};

/// to[r] = the `used` experts with the largest router * rmsnorm(x[r]), ascending (of equal logits the lower number; NaN is below all), each with its
/// softmax over all experts, or with `normalised` over the chosen ones. Activations are fp32 in passes too.
struct RouterInputs : NormedInputs {
    Matrix router; ///< [experts, hidden], in numbers; at most decode::most_experts (asserted)
    int64_t used = 0;
    bool normalised = true;
    float* logits = nullptr;     ///< scratch, [rows, experts]
    uint32_t* arrived = nullptr; ///< scratch, [rows]; all 0 before the launch, and after it
    RoutedExpert* to = nullptr;  ///< [rows, used]
};
RL_LAUNCHER void launch_router(const RouterInputs& in, void* stream);

/// inner[r, k] = activation(gate h) * (up h) of the expert routed[r, k], h = rmsnorm(x[r]). decode::expert_gate_up.
struct ExpertGateUpInputs : NormedInputs {
    const ExpertMatrices* experts = nullptr; ///< [experts]
    const RoutedExpert* routed = nullptr;    ///< [rows, used]
    int64_t used = 0, expert_width = 0;
    float* inner = nullptr; ///< [rows, used, expert_width]
    Activation activation = Activation::silu;
    MatrixForm form = MatrixForm::numbers; ///< of gate and up of all experts
};
RL_LAUNCHER void launch_expert_gate_up(const ExpertGateUpInputs& in, void* stream);

/// x[r] += dropout(sum over k of share * down inner[r, k]), k ascending. Without `adds` x[r] = that sum, and no dropout (asserted).
struct ExpertDownInputs {
    WeightType type{};
    const StepState* state = nullptr;
    const ExpertMatrices* experts = nullptr;
    const RoutedExpert* routed = nullptr;
    int64_t used = 0, expert_width = 0, hidden = 0;
    const float* inner = nullptr;
    float* x = nullptr; ///< [rows, hidden]
    BranchDropout dropout;
    int64_t rows = 1;
    bool dependent = false;
    bool adds = true;
    MatrixForm form = MatrixForm::numbers; ///< of down of all experts
};
RL_LAUNCHER void launch_expert_down(const ExpertDownInputs& in, void* stream);

/// Of a pass with 16-bit weights, by tensor cores; rows stand in memory in that type.
///   gate|up  inner[r, k] = activation(gate h[r]) * (up h[r])
///   down     sums[k, r] = share * down inner[r, k]: the parts of a product, which the next norm adds to x (parts.cuh)
struct ExpertRowsInputs {
    WeightType type{}; ///< not f32 (asserted)
    const ExpertMatrices* experts = nullptr;
    const RoutedExpert* routed = nullptr; ///< [rows, used]
    int64_t count = 0, used = 0;          ///< experts of the layer, and of a row
    int64_t expert_width = 0, hidden = 0;
    const void* h = nullptr; ///< [rows, hidden]
    void* inner = nullptr;   ///< [rows, used, expert_width]
    float* sums = nullptr;   ///< [used, rows, hidden]
    int64_t rows = 1;        ///< at most most_pass_rows (asserted)
    bool dependent = false;
    Activation activation = Activation::silu;
    MatrixForm gate_up_form = MatrixForm::numbers, down_form = MatrixForm::numbers; ///< of all experts
};
RL_LAUNCHER void launch_expert_rows_gate_up(const ExpertRowsInputs& in, void* stream);
RL_LAUNCHER void launch_expert_rows_down(const ExpertRowsInputs& in, void* stream);

} // namespace refreshlab::kernels::RL_GPU
