#pragma once

#include "engine/record/recording/recording.h"
#include "engine/session/pair/model_pair.h"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace refreshlab {

/// Threads and kernel set for running a recorded run again: the recorded set where this processor has it, else the widest.
[[nodiscard]] Execution replay_execution(const RunInfo& recorded);

/// The same by what a command says: threads that were asked for, and the set.
[[nodiscard]] Execution replay_execution(int32_t threads, std::string_view kernel_set);

/// Runs a trace again from its configuration and command log, as far as it was recorded. Throws Error if the models are
/// missing.
/// \param execution  null: replay_execution()
[[nodiscard]] std::shared_ptr<Recording>
replay(const Recording& recorded, std::shared_ptr<const ModelPair> pair, Execution execution = {});

/// How far apart numbers of two runs may be whose kernels round differently, relative to the larger of both and of 1:
/// fp32 1e-3, half precision 0.25 (one rounding of a bf16 is 4e-3, and layers pass it on). Tokens, refreshes and
/// everything else that is not a measured number must still be equal.
[[nodiscard]] double replay_tolerance(const RunInfo& info);

/// What came of a replay, for a person.
struct ReplayVerdict {
    bool passed = false; ///< identical; where the kernels round differently, equal within replay_tolerance()
    std::string text;    ///< "identical to x.rlt (72 steps)"
};
/// \param name  of the recorded run
[[nodiscard]] ReplayVerdict judge_replay(const Recording& recorded, const Recording& again,
                                         const std::string& name);

} // namespace refreshlab
