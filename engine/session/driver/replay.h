#pragma once

#include "engine/control/command.h"
#include "engine/record/recording/recording.h"
#include "engine/session/driver/run_driver.h"
#include "engine/session/pair/model_pair.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
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

/// A recorded run that was made again up to a step and waits there, as a branch of it that has no step of its own yet.
struct MadeAgain {
    std::unique_ptr<RunDriver> driver; ///< not null
    /// What is otherwise than in the recording up to that step, where kernels round otherwise: the branch then has the steps that were
    /// made now. Nothing: they are the same bit for bit, and the branch is a fork of the recording, with its times.
    std::optional<std::string> difference;
};
/// Makes a recorded run again up to asked.steps. What it is told beyond that step is left out.
/// \param recorded  the run itself; null: it is not at hand, and the branch has the steps that are made now
/// \param sources  of the run that is made: a policy of the recording may act on what they publish
/// \param cache_policy  of the run, where it is from outside
/// \param progress  steps made so far; false ends it with Error "cancelled"
/// Throws Error{bad_input} where another token is chosen than was recorded, or the models do not take the run.
[[nodiscard]] MadeAgain make_again(const command::RecordedRun& asked, std::shared_ptr<const ModelPair> pair,
                                   const std::function<bool(int64_t step)>& progress,
                                   const Recording* recorded = nullptr, SignalSources sources = {},
                                   TensorPolicyFactory cache_policy = {});

/// How far apart numbers of two runs may be whose kernels or programs round differently, relative to the larger of both and of 1:
/// fp32 1e-3, half precision 0.25 (one rounding of a bf16 is 4e-3, and layers pass it on). Tokens, refreshes and
/// everything else that is not a measured number must still be equal.
[[nodiscard]] double replay_tolerance(const RunInfo& info);

/// What came of a replay, for a person.
struct ReplayVerdict {
    bool passed =
        false; ///< identical; where kernels round differently or another version wrote it, equal within replay_tolerance()
    std::string text; ///< "identical to x.rlt (72 steps)"
};
/// Three outcomes: the same bits; the same within rounding, where kernel sets or versions of the program (commit, libtorch and
/// compiler included) are not the same; different, with the first difference. A difference of one version and kernel set is never
/// rounding.
/// \param name   of the recorded run
/// \param exact  rounding does not pass either
[[nodiscard]] ReplayVerdict judge_replay(const Recording& recorded, const Recording& again,
                                         const std::string& name, bool exact = false);

} // namespace refreshlab
