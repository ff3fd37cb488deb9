#pragma once

#include "engine/record/recording/recording.h"

#include <memory>

/// What a branch has in common with the run that it left, so that its parent's rows can stand for its own.
namespace refreshlab::trace {

/// Whether the steps of a branch up to its fork are those of its parent. A branch of a run that was made again is no fork of this very
/// recording: other kernels may have rounded otherwise.
[[nodiscard]] bool has_steps_of(const Recording& parent, const Recording& branch);

/// Milliseconds that the parent's clock shows at the fork beyond the branch's own: a run that was made again took other times for the
/// steps that the parent's rows stand for. 0 of a fork of this very recording, and where either time is not known.
[[nodiscard]] double clock_offset(const Recording& parent, const Recording& branch);

/// The same rows, whether or not they are one object: a trace that was read and a run that was made again have each their own.
[[nodiscard]] bool same_rows(const std::shared_ptr<const AttentionRows>& a,
                             const std::shared_ptr<const AttentionRows>& b);

} // namespace refreshlab::trace
