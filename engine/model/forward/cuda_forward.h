#pragma once

#include "engine/model/forward.h"
#include "engine/model/forward/plain_forward.h"
#include "kernels/decode/device_decoder.h"

#include <memory>

namespace refreshlab {

/// Decode steps on a GPU by kernels of its own, five a layer, in one graph (kernels/decode/device_decoder.h). MC rows go along with
/// the token's row and do not change its bits. Activations are fp32, as on the CPU.
///
/// Everything else is PlainForward's: passes of many rows, read-only steps, steps that hooks look into, caches that are not dense,
/// and models that the kernels do not have: attention that is left out, a head_dim that is no multiple of 16.
class CudaForward final : public Forward {
public:
    /// \param model  outlives this; its weights stay where they are
    /// \param make   of the build whose device holds the model (kernels/cuda/decode/decoder.h)
    CudaForward(const LlamaModel& model, kernels::MakeDecoder make);
    ~CudaForward() override;
    [[nodiscard]] const LlamaModel& model() const override { return m_plain.model(); }
    StepOutputs prefill(KvCache& cache, const StepInputs& in) const override;
    StepOutputs step(KvCache& cache, const StepInputs& in) const override;
    [[nodiscard]] StepOutputs read_only(const KvCache& cache, int64_t position,
                                        const StepInputs& in) const override;

    /// The kernels have all that the model needs.
    [[nodiscard]] bool has_kernels() const;

private:
    struct Decoders;
    PlainForward m_plain;
    std::unique_ptr<Decoders> m_decoders;
};

} // namespace refreshlab
