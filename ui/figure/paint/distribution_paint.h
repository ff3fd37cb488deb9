#pragma once

#include "engine/refresh/policy.h"
#include "ui/figure/pen.h"
#include "ui/scene/axes/auto_range.h"
#include "ui/scene/series/distribution.h"

#include <cstdint>
#include <span>

namespace refreshlab::ui {

// The distribution of one signal as bars, of two as cells: in the panel and in figures.

/// A threshold on one of the axes.
struct ShownThreshold {
    double value = 0;
    Comparison comparison = Comparison::above;
    bool enabled = true;
};

/// Bins that fit along so much of an axis, and cells of two signals.
[[nodiscard]] int bins_that_fit(const FigurePen& pen, double length);
[[nodiscard]] int cells_that_fit(const FigurePen& pen, double length);
/// Values, and what thresholds need. \param vocab  of the run's model
[[nodiscard]] ValueRange distribution_range(const Histogram& bins, std::span<const ShownThreshold> thresholds,
                                            const Signal& signal, int64_t vocab);
/// Of counts up to `most`. A logarithmic scale has no 0, and a count of 1 must have a height.
[[nodiscard]] ValueAxis count_axis(double most, bool log);

/// Bars in the signal's colour; the part that some enabled trigger would fire on is full, the rest pale.
void paint_bars(const FigurePen& pen, const PlotArea& area, const Histogram& bins,
                std::span<const ShownThreshold> thresholds, Colour colour);
/// How many steps have which values of both.
void paint_pair_cells(const FigurePen& pen, const PlotArea& area, const PairHistogram& cells,
                      const ColourScale& scale);

} // namespace refreshlab::ui
