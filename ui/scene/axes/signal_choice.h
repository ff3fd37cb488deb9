#pragma once

#include "engine/signals/registry.h"
#include "ui/scene/axes/value_axis.h"

#include <array>
#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace refreshlab::ui {

/// What the Signals panel shows, by signal id: its plots, the export of what is plotted and the settings share it.
struct SignalPlots {
    std::array<bool, max_signals> shown{};
    std::array<AxisScale, max_signals> scale{}; ///< of the y axes
};

/// As the window opens: the signals that the usual triggers look at, all axes linear.
[[nodiscard]] SignalPlots first_signal_plots();
/// Ids of the plotted signals, in display order.
[[nodiscard]] std::vector<size_t> plotted_signals(const SignalPlots& plots);

/// Axes that are not linear, as the settings file keeps them: name of the signal, name of the scale.
[[nodiscard]] std::map<std::string, std::string> changed_axes(const SignalPlots& plots);
/// The reverse. Unknown signals and scales, and a log axis for a signal that is never above 0, are ignored.
void set_axes(SignalPlots& plots, const std::map<std::string, std::string>& axes);

} // namespace refreshlab::ui
