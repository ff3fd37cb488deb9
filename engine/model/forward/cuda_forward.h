#pragma once

#include "engine/cache/cache_layout.h"
#include "engine/model/forward.h"
#include "engine/model/forward/plain_forward.h"
#include "kernels/decode/device_decoder.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace refreshlab {

class HookCalls;

/// Passes on a GPU by kernels of its own (kernels/decode/device_decoder.h). A decode step is five kernels a layer, up to eight where norms need
/// launches of their own, in one graph; MC rows go along with the token's row and do not change its bits; activations are fp32, as on the CPU. A
/// pass of many rows (a prefill, a refresh) multiplies by tensor cores, for which activations are rounded to 16-bit weights' type.
///
/// Matrices in blocks are read as they are, in a step as their numbers exactly; for tensor cores they are rounded to bf16. Of attention that a
/// derived student leaves out only keys and values are made.
///
/// Attention rows and entropies that hooks want to see come along, written to the host's memory by the device. Of a pooled cache attention goes through
/// lists that stay on the device and are edited by the step's first kernel, which also takes out what was evicted; a hook may choose what is
/// held before the step (StepUse::Choice::ahead), so cache policies that do not look at a layer's queries run so.
///
/// Routed experts are chosen on the device, and only theirs are read; a pass reads each expert once for all rows that are sent to it.
///
/// Everything else is PlainForward's: read-only steps, steps whose hooks look at more or change something, passes with hooks, passes of many
/// rows over caches that are not dense, coded caches, pooled caches of students with left-out attention, and models that the kernels do not
/// have: missing_in(); a head_dim that is no multiple of 16; q, k and v, or gate and up, that are not all in the same blocks; experts that are not; a router in blocks.
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
    [[nodiscard]] bool attends(int64_t layer) const;
    [[nodiscard]] bool runs(CacheLayout layout) const; ///< the kernels can, on such a cache
    [[nodiscard]] kernels::DeviceCache device_cache(const KvCache& cache) const;
    struct Wanted {
        std::vector<kernels::AttentionTap> rows;
        bool entropies = false; ///< of some layers
    };
    [[nodiscard]] std::optional<Wanted> find_taps(const HookCalls& hooks, bool listed,
                                                  int64_t position) const;
    void show(const kernels::DeviceDecoder& decoder, const kernels::DeviceStep& step, int64_t stride,
              int64_t layer, const kernels::AttentionTap* tap, const KvCache& cache,
              const HookCalls& hooks) const;
    PlainForward m_plain;
    std::unique_ptr<Decoders> m_decoders;
};

} // namespace refreshlab
