#pragma once

#include "engine/signals/registry.h"
#include "ui/scene/axes/auto_range.h"
#include "ui/scene/series/series.h"

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace refreshlab::ui {

/// How a y axis spreads its values.
enum class AxisScale : uint8_t {
    linear,
    log,    ///< decades at equal distances; a value <= 0 has no place
    symlog, ///< linear about 0, decades beyond, on both sides
};
inline constexpr std::array axis_scales = {AxisScale::linear, AxisScale::log, AxisScale::symlog};
/// "linear", "log", "symlog", as in the settings file.
[[nodiscard]] std::string_view to_string(AxisScale scale);
[[nodiscard]] const char* axis_label(AxisScale scale); ///< "Logarithmic y axis", for menus
[[nodiscard]] std::optional<AxisScale> parse_axis_scale(std::string_view name);
/// False for a signal that is never above 0 (log probabilities): its logarithmic plot would be empty.
[[nodiscard]] bool can_be_logarithmic(const Signal& signal);

/// The y axis of one plot: from values to places and back. No ImGui in here.
struct ValueAxis {
    AxisScale scale = AxisScale::linear;
    double min = 0, max = 1; ///< values at the lower and upper edge, min < max; min > 0 on log
    double linear_until = 1; ///< symlog only: about linear up to +- this

    /// The value itself, log10 v, or asinh(v / linear_until): strictly ascending, equal steps are equal pixels. A value
    /// that log cannot place comes out far below everything.
    [[nodiscard]] double forward(double value) const;
    [[nodiscard]] double inverse(double place) const;
    /// 0 at the lower edge, 1 at the upper one, beyond them outside of that.
    [[nodiscard]] double share(double value) const;
    [[nodiscard]] double at_share(double share) const;
    [[nodiscard]] bool has_place(double value) const; ///< false: not finite, or <= 0 on log
    /// How much the value changes from one pixel to the next there, on an axis of so many pixels.
    [[nodiscard]] double per_pixel(double value, double pixels) const;
    /// Moves the edges outward by shares of the present height, as far as numbers go.
    void widen(double below, double above);
};

/// Puts the automatic range of `scale` on the axis (auto_range for linear and symlog, log_auto_range for log) and
/// chooses where symlog stops being linear: three decades below its largest value.
/// \param seen  values in sight
void fit_axis(ValueAxis& axis, AxisScale scale, const SeriesSummary& seen, std::span<const double> thresholds,
              ValueRange usual);

/// Values to label, ascending, no more than about `at_most`: round ones on a linear axis; decades, then 2 and 5 times
/// them, as far as they stay apart on the others (and 0 on symlog). An axis zoomed into less than a decade gets round ones.
[[nodiscard]] std::vector<double> axis_ticks(const ValueAxis& axis, int at_most);

/// The same, and the top of the axis is one of them: its edge itself where no tick stands near it, with as many digits as an axis
/// of that span needs. Ticks that would touch it give way.
[[nodiscard]] std::vector<double> labelled_ticks(const ValueAxis& axis, int at_most);

/// Moves a lower edge that is the signal's natural floor (0 of an entropy) down by this share of the height, so that a curve
/// along the floor runs inside the frame and not on it. A logarithmic axis has no floor.
void clear_floor(ValueAxis& axis, ValueRange usual, double share);

/// Removes from a path the values that the axis cannot place. Its line leaves the plot through the lower edge there,
/// and their steps go to PlotPath::below_x, for a mark at that edge. Only log has such values.
void clip_to_axis(const ValueAxis& axis, PlotPath& path);
/// The same for an envelope.
void clip_to_axis(const ValueAxis& axis, std::vector<double>& values);

} // namespace refreshlab::ui
