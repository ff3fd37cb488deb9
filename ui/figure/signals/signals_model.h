#pragma once

#include "ui/figure/figure.h"
#include "ui/figure/paint/note_paint.h"
#include "ui/scene/axes/time_view.h"
#include "ui/scene/series/series_set.h"
#include "ui/scene/text/step_marks.h"

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace refreshlab::ui {

/// What a figure of signals over steps shows, of one run or of several, without a pen.
struct SignalsModel {
    /// One run's curve of one signal.
    struct Curve {
        size_t run = 0;
        SignalSeries series;
        std::optional<SignalSeries> band_low, band_high;
        std::optional<SignalSeries> rejected = {}; ///< what rejected drafts had, where it is shown
    };
    struct Plot {
        Signal signal;
        std::string title; ///< with the unit
        LayerPick pick;
        AxisScale scale = AxisScale::linear;
        bool strip = false;      ///< all layers of the one run as colours, in place of curves
        bool difference = false; ///< of the runs to the first
        std::vector<Curve> curves;
        std::vector<ThresholdSpan> thresholds;
        std::optional<size_t> right; ///< the plot whose curve has the axis on the right
    };

    /// \param differences  after each plot one of the other runs minus the first
    /// Throws Error{bad_input} as make_figure().
    SignalsModel(const FigureRequest& request, bool differences);
    /// The y axis of a plot that is so many points high.
    [[nodiscard]] ValueAxis axis_of(const Plot& plot, double height) const;
    /// Where the steps of the range are over a plot.
    [[nodiscard]] StepScale steps_over(const FigureRect& plot) const {
        return {plot.x, plot.width, static_cast<double>(range.first) - 0.5,
                static_cast<double>(range.last) + 0.5};
    }
    /// Marks of a run within the range, placed along a plot's width.
    [[nodiscard]] LaneMarks marks_of(size_t run, MarkLane lane, const FigureRect& plot) const;
    /// The one run has marks of this lane within the range; never where there are several runs.
    [[nodiscard]] bool has(MarkLane lane) const;
    [[nodiscard]] DataTable table() const;

    std::vector<FigureRun> runs;
    std::vector<int64_t> steps;   ///< of each run, when the figure was made
    std::vector<StepMarks> marks; ///< of each run
    StepRange range;
    std::vector<Plot> plots; ///< those with an axis on the right are at the end, and not drawn by themselves
    size_t drawn = 0;        ///< plots that have a place
    int64_t vocab = 0;
    NoteList notes;   ///< of the one run, where they are asked for
    bool rug = false; ///< refreshes of the one run stand so close that each has a tick below the letters

private:
    [[nodiscard]] Plot plot_of(const SignalPlots& wanted, std::string_view name) const;
    void pair_axes(const SignalPlots& wanted);
    void add_differences();
    [[nodiscard]] std::string changes_at(int64_t step) const;
};

} // namespace refreshlab::ui
