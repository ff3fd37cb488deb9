#pragma once

#include "engine/record/export/export.h"
#include "engine/signals/registry.h"
#include "ui/scene/axes/value_axis.h"
#include "ui/scene/series/layer_pick.h"

#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace refreshlab::ui {

/// How one signal is plotted.
struct PlotChoice {
    bool shown = false;
    AxisScale scale = AxisScale::linear; ///< of the y axis
    LayerPick layers;                    ///< of a layered signal
    /// Drawn in the plot of this signal, with an axis of its own on the right; empty: a plot of its own.
    std::string beside = {};
    friend bool operator==(const PlotChoice&, const PlotChoice&) = default;
};

/// What the Signals panel shows: its plots, the export of what is plotted and the settings share it. By name, because ids of
/// signals that a run's components publish differ from run to run.
class SignalPlots {
public:
    [[nodiscard]] const PlotChoice&
    of(std::string_view signal) const; ///< the defaults where nothing was chosen
    [[nodiscard]] PlotChoice& choose(std::string_view signal);
    [[nodiscard]] const std::map<std::string, PlotChoice, std::less<>>& all() const { return m_choices; }
    bool rejected = false; ///< what rejected drafts had is drawn beside the kept tokens, fainter
    friend bool operator==(const SignalPlots&, const SignalPlots&) = default;

private:
    std::map<std::string, PlotChoice, std::less<>> m_choices;
};

/// As the window opens: the signals that the usual triggers look at, all axes linear.
[[nodiscard]] SignalPlots first_signal_plots();
/// The signals by which the run's cache policy decides, where nobody has chosen about them yet: the one that is compared as a curve,
/// and where it decided as a strip of all layers (engine/policies/cache_gate.h).
void show_gate_signals(SignalPlots& plots, const Recording& recording);
/// Ids of the plotted signals in a run's table, in display order.
[[nodiscard]] std::vector<size_t> plotted_signals(const SignalPlots& plots, std::span<const Signal> table);

/// One plot: whose axis is on the left, and whose on the right.
struct PlotPair {
    size_t left = 0; ///< ids in the run's table
    std::optional<size_t> right;

    friend bool operator==(const PlotPair&, const PlotPair&) = default;
};
/// The plots of the plotted signals, in display order of the left ones. A signal that is to stand beside one that is not plotted, that is
/// itself beside another, that is a strip of layers or has a partner already, has a plot of its own; so has a strip.
[[nodiscard]] std::vector<PlotPair> plot_pairs(const SignalPlots& plots, std::span<const Signal> table);
/// Plots `signal` in the plot of `host`, with its axis on the right, in the place of the one that was there. An empty host: in a plot of
/// its own.
void put_beside(SignalPlots& plots, std::string_view signal, std::string_view host);

/// Names of the plotted signals, sorted, as the settings file keeps them.
[[nodiscard]] std::vector<std::string> shown_signals(const SignalPlots& plots);
/// The reverse: plots of these signals and of no other. What is no name of a signal is ignored.
void set_shown(SignalPlots& plots, std::span<const std::string> names);

/// Plots as a command line names them: names of signals with commas between them; after the name of a layered signal,
/// which number of its layers: "attention_entropy_bits.max", ".min", ".layer3", or ".strip"; "entropy_bits+kl_nats" is one plot with an
/// axis on either side. Names that a run may publish are taken too.
/// Throws Error{bad_input} naming `option`: nothing, a name that no signal can have, an unknown pick, three signals in one plot.
[[nodiscard]] SignalPlots parse_plots(std::string_view list, const std::string& option);

/// The same as columns of a table: the number of its layers that a layered signal shows, all of them where that is a strip.
[[nodiscard]] std::vector<PlottedSignal> plotted_columns(const SignalPlots& plots,
                                                         const Recording& recording);

/// Axes that are not linear, as the settings file keeps them: name of the signal, name of the scale.
[[nodiscard]] std::map<std::string, std::string> changed_axes(const SignalPlots& plots);
/// The reverse. What is no name of a signal, unknown scales, and a log axis for a signal of the registry that is never above 0
/// are ignored.
void set_axes(SignalPlots& plots, const std::map<std::string, std::string>& axes);

/// Signals with an axis on the right: name of the signal, name of the one whose plot it is in.
[[nodiscard]] std::map<std::string, std::string> changed_sides(const SignalPlots& plots);
/// The reverse. What is no name of a signal is ignored.
void set_sides(SignalPlots& plots, const std::map<std::string, std::string>& sides);

/// Layered signals that show something else than their mean: name of the signal, to_string(LayerPick).
[[nodiscard]] std::map<std::string, std::string> changed_layers(const SignalPlots& plots);
/// The reverse. What is no name of a signal, and unknown picks, are ignored.
void set_layers(SignalPlots& plots, const std::map<std::string, std::string>& layers);

} // namespace refreshlab::ui
