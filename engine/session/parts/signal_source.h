#pragma once

#include "engine/signals/published.h"

#include <cstdint>
#include <span>
#include <vector>

namespace refreshlab {

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
    virtual void measure(std::span<const size_t> ids, const StepValues& values) = 0;
};

} // namespace refreshlab
