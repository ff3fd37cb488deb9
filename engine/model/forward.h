#pragma once

#include "engine/base/origin.h"
#include "engine/model/sampler.h"
#include "kernels/ops/row_summary.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace refreshlab {

class KvCache;
class LayerHooks;
class LlamaModel;
class SoftRows;

/// MC dropout rows of one step (reference/refresh.md, 6.3).
struct McRequest {
    int32_t passes = 0; ///< 0 = none
    uint64_t seed = 0;
    float p = 0.0F;
    bool attention = true, attention_output = false, mlp_output = false; ///< sites
};

/// A token that is drawn from a step's row, by temperature.
struct DrawAsk {
    SamplerConfig sampler; ///< temperature > 0 (asserted)
    double share = 0;      ///< uniform_number() of Draw::token
    bool ranked = false;   ///< and its place in the row (kernels::token_ranks)
};
/// What choose_token() gives for it, by a forward that has no need of the row on the host.
struct Drawn {
    Choice choice;
    std::optional<int32_t> rank; ///< where it was asked for and is known
};

/// Which rows of a pass get logits.
enum class Rows : uint8_t {
    none, ///< skips the head and what follows the last layer's K/V
    last,
    all,
};

/// What a pass reads and what is asked of it.
struct StepInputs {
    std::span<const int32_t>
        tokens; ///< not empty, without `soft`; step() and read_only() take one   (asserted)
    const SoftRows* soft = nullptr; ///< prefill() only: rows in place of tokens, in one chunk
    Origin origin = Origin::none;   ///< of the columns that are appended
    Rows rows = Rows::last;         ///< prefill() only: the others give their one row
    /// Gives the rows themselves; false: they end with the pass, but that step() gives a row whose statistics were asked for and are not
    /// finite: who chooses a token has to search it. So it does with a row of which not all of `draw` is answered.
    bool logits = true;
    std::optional<kernels::RowAsk> ask;   ///< read off every row that gets logits, in one pass over it
    std::optional<DrawAsk> draw;          ///< step() only, beside `ask` (asserted)
    McRequest mc;                         ///< step() only
    std::span<LayerHooks* const> hooks{}; ///< see and steer the layers; not null (asserted)
};

/// What a pass gives. When the call returns, a CUDA device may still be computing `logits` and `mc_logits`; everything
/// else is there.
struct StepOutputs {
    at::Tensor logits;                        ///< [rows, vocab] fp32 on the model's device; undefined without
    std::vector<kernels::RowSummary> summary; ///< [rows]; empty where nothing was asked
    std::optional<Drawn> drawn;               ///< nothing: nobody asked, or the row is needed, which is given
    at::Tensor mc_logits;                     ///< [N, vocab] fp32, device; undefined without MC rows
};

/// A decode step over a cache of its own.
struct CacheStep {
    KvCache* cache; ///< not null
    StepInputs in;
};

/// Of step(), once it has answered: its row is given (StepInputs::logits).
[[nodiscard]] inline bool gives_row(const StepInputs& in, const StepOutputs& out) {
    const bool undrawn = in.draw && (!out.drawn || (in.draw->ranked && !out.drawn->rank));
    return in.logits || undrawn || (!out.summary.empty() && !out.summary[0].statistics.finite);
}

/// The forward pass of one model over one cache. `PlainForward` is the oracle. A faster forward must give its numbers:
/// bit for bit on the CPU, to rounding on CUDA.
///
/// Threads  const; callers on several threads need a cache each.
class Forward {
public:
    Forward() = default;
    Forward(const Forward&) = delete;
    Forward& operator=(const Forward&) = delete;
    virtual ~Forward() = default;

    [[nodiscard]] virtual const LlamaModel& model() const = 0;

    /// Feeds tokens at positions cache.length(), ... and appends their columns. Chunked inside; exact.
    virtual StepOutputs prefill(KvCache& cache, const StepInputs& in) const = 0;

    /// One decode step: feeds a token at position cache.length(), appends its column. With mc.passes = N the pass has N
    /// more rows, with dropout. They see the prefix columns and a column of their own, and never write to the cache.
    /// Row 0 has the same bits with and without them.
    virtual StepOutputs step(KvCache& cache, const StepInputs& in) const = 0;

    /// step() of each of them, with its bits, over caches that are all different; none has MC rows                (asserted)
    /// Here one after another.
    [[nodiscard]] virtual std::vector<StepOutputs> step_together(std::span<const CacheStep> steps) const;

    /// Runs a token at `position` again and writes nothing. The token attends to the cache's columns [0, position] as
    /// they are. Used by on_fire = redraw and to look again at an old step.
    [[nodiscard]] virtual StepOutputs read_only(const KvCache& cache, int64_t position,
                                                const StepInputs& in) const = 0;
};

} // namespace refreshlab
