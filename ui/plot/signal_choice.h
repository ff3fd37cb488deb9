#pragma once

#include "ui/context.h"

#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace refreshlab::ui {

// Which signals are plotted and how (SignalPlots of ui/context.h). No ImGui in here.

/// As the window opens: the signals that the usual triggers look at, all axes linear.
[[nodiscard]] SignalPlots first_signal_plots();
/// Ids of the plotted signals, in display order.
[[nodiscard]] std::vector<size_t> plotted_signals(const SignalPlots& plots);

/// Axes that are not linear, as the settings file keeps them: name of the signal, name of the scale.
[[nodiscard]] std::map<std::string, std::string> changed_axes(const SignalPlots& plots);
/// The reverse. Unknown signals and scales, and a log axis for a signal that is never above 0, are ignored.
void set_axes(SignalPlots& plots, const std::map<std::string, std::string>& axes);

} // namespace refreshlab::ui
