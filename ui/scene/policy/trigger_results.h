#pragma once

#include "engine/record/recording/recording.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace refreshlab::ui {

/// What the triggers on one signal have done so far in a run.
struct TriggerResult {
    int64_t fires = 0; ///< refreshes that such a trigger asked for, alone or with others
    double ms = 0;     ///< of those together: teacher passes, splices, redraws
    /// Mean KL of the tokens read just before a refresh and of those just after it, nats, over `compared` refreshes; nothing where
    /// the teacher has read neither side. Where it reads at refreshes alone, the side after is known with the next one.
    std::optional<double> kl_before, kl_after;
    int64_t compared = 0;
};
inline constexpr int64_t compared_tokens =
    8; ///< on each side of a refresh; fewer where another one is nearer

/// \param steps  of the recording that count
/// Cost: compared_tokens looks on each side of every refresh.
[[nodiscard]] TriggerResult trigger_result(const Recording& recording, int64_t steps,
                                           std::string_view signal);

/// "3 fires, 25 ms; KL 4.4 before, 0.02 after"; "has not fired yet".
[[nodiscard]] std::string result_text(const TriggerResult& result);

} // namespace refreshlab::ui
