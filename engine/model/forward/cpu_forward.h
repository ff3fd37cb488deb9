#pragma once

#include "engine/model/forward.h"
#include "engine/model/forward/plain_forward.h"

#include <memory>
#include <span>
#include <vector>

namespace refreshlab {

/// Decode steps on the CPU by a plan: matrices, norms and buffers are laid out once for the model, so that a step makes no tensor
/// but its row of logits, and what follows a product is done where the product is (kernels/cpu/row_products.h). Five jobs of all
/// threads a layer: q|k|v, attention, o + residual, gate|up with silu, down + residual.
///
/// MC rows go along with the token's row. Everything else is PlainForward's: passes of many rows, read-only steps, and all of it under
/// the kernel set `reference`. A step has the same bits by either.
class CpuForward final : public Forward {
public:
    /// \param model  on the CPU (asserted), outlives this; its weights stay where they are
    explicit CpuForward(const LlamaModel& model);
    ~CpuForward() override;
    [[nodiscard]] const LlamaModel& model() const override { return m_plain.model(); }
    StepOutputs prefill(KvCache& cache, const StepInputs& in) const override;
    StepOutputs step(KvCache& cache, const StepInputs& in) const override;
    /// Weights are read once for all of them.
    [[nodiscard]] std::vector<StepOutputs> step_together(std::span<const CacheStep> steps) const override;
    [[nodiscard]] StepOutputs read_only(const KvCache& cache, int64_t position,
                                        const StepInputs& in) const override;

private:
    struct Plan;
    struct Buffers;
    class Buffered;
    class Step;

    PlainForward m_plain;
    std::unique_ptr<Plan> m_plan;
};

} // namespace refreshlab
