#include "ui/figure/paint/distribution_paint.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

namespace refreshlab::ui {

int bins_that_fit(const FigurePen& pen, double length) {
    return std::clamp(static_cast<int>(length / (pen.style.text_pt * 0.55)), 8, 80);
}

int cells_that_fit(const FigurePen& pen, double length) {
    return std::clamp(static_cast<int>(length / (pen.style.text_pt * 0.6)), 8, 60);
}

ValueRange distribution_range(const Histogram& bins, std::span<const ShownThreshold> thresholds,
                              const Signal& signal, int64_t vocab) {
    std::vector<double> values;
    for (const ShownThreshold& threshold : thresholds)
        values.push_back(threshold.value);
    std::optional<ValueRange> data;
    if (!bins.counts.empty()) data = ValueRange{bins.low, bins.high()};
    return auto_range(data, values, usual_range(signal, vocab));
}

ValueAxis count_axis(double most, bool log) {
    return {
        .scale = log ? AxisScale::log : AxisScale::linear, .min = log ? 0.5 : 0, .max = count_top(most, log)};
}

void paint_bars(const FigurePen& pen, const PlotArea& area, const Histogram& bins,
                std::span<const ShownThreshold> thresholds, Colour colour) {
    const FigureGroup group(pen.canvas, "bars");
    const double foot = area.rect.bottom();
    pen.canvas.push_clip(area.rect);
    for (size_t i = 0; i < bins.counts.size(); ++i) {
        if (bins.counts[i] <= 0) continue;
        const double from = bins.low + bins.width * static_cast<double>(i);
        const double x0 = area.x(from), x1 = area.x(from + bins.width);
        const double gap = x1 - x0 > 4 * pen.style.axis_pt ? pen.style.axis_pt : 0;
        // A bar of one step in a thousand is still seen.
        const double top = std::min(area.y_of(bins.counts[i]), foot - 2 * pen.style.axis_pt);
        const double right = std::max(x1 - gap, x0 + pen.style.axis_pt);
        pen.canvas.rectangle({x0, top, right - x0, foot - top},
                             with_alpha(colour, thresholds.empty() ? 0.75F : 0.32F));
        for (const ShownThreshold& line : thresholds) {
            if (!line.enabled || !std::isfinite(line.value)) continue;
            const bool up = line.comparison == Comparison::above || line.comparison == Comparison::at_least;
            const double at = std::clamp(area.x(line.value), x0, right);
            const double a = up ? at : x0, b = up ? right : at;
            if (b > a) pen.canvas.rectangle({a, top, b - a, foot - top}, with_alpha(colour, 0.75F));
        }
    }
    pen.canvas.pop_clip();
}

void paint_pair_cells(const FigurePen& pen, const PlotArea& area, const PairHistogram& cells,
                      const ColourScale& scale) {
    const FigureGroup group(pen.canvas, "cells");
    const auto x_of = [&](size_t column) {
        return pen.style.pitch(area.x(cells.x.low + cells.x.width * static_cast<double>(column)));
    };
    const auto y_of = [&](size_t row) {
        return pen.style.pitch(area.y_of(cells.y.low + cells.y.width * static_cast<double>(row)));
    };
    pen.canvas.push_clip(area.rect);
    for (size_t row = 0; row < cells.y.counts.size(); ++row)
        for (size_t column = 0; column < cells.x.counts.size(); ++column) {
            const double count = cells.at(column, row);
            if (count == 0) continue;
            // Neighbours share a border, on whole pixels where there are some: no seam between them.
            const double x = x_of(column), y = y_of(row + 1);
            pen.canvas.rectangle({x, y, std::max(pen.style.pitch(0.5), x_of(column + 1) - x),
                                  std::max(pen.style.pitch(0.5), y_of(row) - y)},
                                 scale(count));
        }
    pen.canvas.pop_clip();
}

} // namespace refreshlab::ui
