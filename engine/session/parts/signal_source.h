#pragma once

#include "engine/signals/published.h"

#include <cstdint>
#include <span>
#include <vector>

namespace at {
class Tensor;
}

namespace refreshlab {

class KvCache;
class Recording;
struct StepRecord;

/// What a source may look at while it measures. Views of the session's own, for the length of the call.
struct StepInSight {
    const StepRecord&
        record; ///< as far as it is made: the registry's signals, and those of the sources before this one
    const Recording& before; ///< the steps before it
    /// [vocab] fp32, on the decoder's device: the row that the step measured. Undefined where neither the run nor a source wants it.
    const at::Tensor& row;
    const LayerValues& layers; ///< of this step, as far as they are measured
    const KvCache& cache;      ///< the decoder's, with this step's entry
};

/// A component of a session that measures something of its own: a cache policy, the teacher's side. What it publishes at the
/// start of a run is plotted, exported and used as a trigger like the registry's signals.
class SignalSource {
public:
    SignalSource() = default;
    SignalSource(const SignalSource&) = delete;
    SignalSource& operator=(const SignalSource&) = delete;
    virtual ~SignalSource() = default;

    /// Asked once, before the first step.
    [[nodiscard]] virtual std::vector<PublishedSignal> published() const = 0;
    /// After the forward of each step, before the planner looks.
    /// \param ids     of published(), in its order
    /// \param values  of the step
    virtual void measure(std::span<const size_t> ids, const StepValues& values, const StepInSight& step) = 0;
    /// The source reads StepInSight::row, which not every run needs.
    [[nodiscard]] virtual bool wants_row() const { return false; }
};

} // namespace refreshlab
