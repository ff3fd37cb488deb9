#pragma once

#include "engine/record/recording/recording.h"
#include "engine/refresh/own_signal.h"

#include <memory>
#include <span>

namespace refreshlab {

/// The run with signals of a person's own that it was recorded without: worked out at every step from what the step measured, as a live run
/// works them out (own_value()), so the values have the same bits. One that the run recorded under this name and definition stays as it is.
/// Throws Error{bad_input} in one line: a signal has no value at any step because the run did not measure what it reads (named), a name that
/// the run gave to another signal, more than there is room for.
/// Cost: steps x (reach + 1) reads; what both runs hold is shared.
[[nodiscard]] std::shared_ptr<const Recording> with_own_signals(const std::shared_ptr<const Recording>& run,
                                                                std::span<const OwnSignal> signals);

} // namespace refreshlab
