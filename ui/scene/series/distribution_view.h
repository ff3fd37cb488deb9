#pragma once

#include "engine/refresh/policy.h"
#include "engine/signals/registry.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace refreshlab::ui {

/// What a person has chosen to see of a signal's distribution: on screen, on paper, and in the settings file. Signals go by name: in
/// another run the same number may be another one's.
struct DistributionView {
    std::string signal;    ///< empty: the one that decides (deciding_signal())
    std::string other;     ///< counted against it; empty: none
    bool in_sight = false; ///< the steps that Signals shows, not the whole run
    bool log = true;       ///< of the counts
    friend bool operator==(const DistributionView&, const DistributionView&) = default;
};

/// The signal of the first trigger that is on; where only the period decides, the entropy.
[[nodiscard]] inline std::string deciding_signal(const RefreshPolicy& policy) {
    const auto trigger = std::ranges::find_if(
        policy.triggers, [](const Trigger& t) { return t.enabled && t.signal != "steps_since_refresh"; });
    return trigger != policy.triggers.end() ? trigger->signal : "entropy_bits";
}

/// Where the signals of a view are in a run's table.
struct DistributionSignals {
    size_t signal = 0;
    std::optional<size_t> other;
};
/// A signal that the run does not have is shown as if it had not been chosen, and stays chosen for runs that have it.
/// \param deciding  name of the signal that is shown as long as none is chosen
[[nodiscard]] inline DistributionSignals
signals_of(const DistributionView& view, std::span<const Signal> table, std::string_view deciding) {
    DistributionSignals found;
    const auto chosen = find_signal(table, view.signal);
    found.signal = chosen ? *chosen : find_signal(table, deciding).value_or(0);
    found.other = find_signal(table, view.other);
    if (found.other == found.signal) found.other.reset();
    return found;
}

} // namespace refreshlab::ui
