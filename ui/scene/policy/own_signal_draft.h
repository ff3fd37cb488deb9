#pragma once

#include "engine/record/recording/recording.h"
#include "engine/refresh/policy.h"

#include <cstdint>
#include <optional>
#include <string>

namespace refreshlab::ui {

/// A signal of a person's own as it is being written, and whether a run refreshes by it.
struct OwnSignalDraft {
    std::string name = "rise", expression = "entropy_bits - mean(entropy_bits, 16)";
    bool triggers = true, above = true; ///< refresh when it is above, or below, the threshold
    double threshold = 3;
    friend bool operator==(const OwnSignalDraft&, const OwnSignalDraft&) = default;
};

/// The policy with this signal, in the place of one of its name, and its trigger: one that is there keeps stride and cool-down, a new one has a
/// cool-down of own_signal_cooldown tokens. Throws Error{bad_input} as own_signal_from_text() and check_policy().
[[nodiscard]] RefreshPolicy with_own_signal(RefreshPolicy policy, const OwnSignalDraft& draft);
inline constexpr int32_t own_signal_cooldown = 16;

/// What a signal is worth on steps that were recorded, refreshes as they were.
struct OwnSignalValues {
    int64_t steps = 0; ///< at which it has a value
    int64_t over = 0;  ///< of these beyond the threshold
    double lowest = 0, highest = 0;
};
/// Nothing: it has no value there, or so many steps would take too long.
/// \param steps  of the recording that are looked at
[[nodiscard]] std::optional<OwnSignalValues> values_on(const Recording& run, int64_t steps,
                                                       const OwnSignal& signal, const OwnSignalDraft& draft);

} // namespace refreshlab::ui
