#pragma once

#include "engine/model/forward.h"

namespace refreshlab {

/// One layer loop over ATen tensors and the kernels of kernels/ops, for every pass, device and dtype. Nothing is fused:
/// faster forwards are compared with this one.
///
/// Parity  logits within 1e-4 of `transformers` in fp32. Captured rows are 0 outside a sliding window.
class PlainForward final : public Forward {
public:
    /// \param model  outlives this
    explicit PlainForward(const LlamaModel& model)
        : m_model(model) {}
    [[nodiscard]] const LlamaModel& model() const override { return m_model; }
    StepOutputs prefill(KvCache& cache, const StepInputs& in) const override;
    StepOutputs step(KvCache& cache, const StepInputs& in) const override;
    [[nodiscard]] StepOutputs read_only(const KvCache& cache, int64_t position,
                                        const StepInputs& in) const override;

    /// The contract of Forward::step(): throws InvariantError where a caller breaks it.
    static void require_step(const LlamaModel& model, const KvCache& cache, const StepInputs& in);

private:
    const LlamaModel& m_model;
};

} // namespace refreshlab
