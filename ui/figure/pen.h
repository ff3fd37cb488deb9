#pragma once

#include "ui/figure/canvas/canvas.h"
#include "ui/figure/style.h"
#include "ui/scene/axes/value_axis.h"
#include "ui/scene/maps/colour_maps.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace refreshlab::ui {

/// What the parts of a figure and of a panel share: where it goes and how it looks, with the marks that all plots have.
struct FigurePen {
    FigureCanvas& canvas;
    const FigureStyle& style;

    [[nodiscard]] TextStyle text(TextStyle::Align align = TextStyle::Align::left) const {
        return {.size = style.text_pt, .colour = style.ink(), .align = align};
    }
    [[nodiscard]] TextStyle small(TextStyle::Align align = TextStyle::Align::left) const {
        return {.size = style.small_pt, .colour = style.ink(), .align = align};
    }
    [[nodiscard]] TextStyle muted(TextStyle::Align align = TextStyle::Align::left) const {
        return {.size = style.small_pt, .colour = style.theme.text_muted, .align = align};
    }
    [[nodiscard]] double small_line() const {
        return style.small_pt * style.spacing;
    } ///< from base line to base line
    [[nodiscard]] double text_line() const { return style.text_pt * style.spacing; }
    /// As many characters as fit, with an ellipsis where some are left out.
    [[nodiscard]] std::string fitted(std::string_view utf8, const TextStyle& text, double width) const;
    /// Lines no wider than this, broken between words; a word that is wider alone is broken within. A line break stays one.
    /// \param most  lines; the last ends with an ellipsis where some are left out
    [[nodiscard]] std::vector<std::string> wrapped(std::string_view utf8, const TextStyle& text, double width,
                                                   size_t most) const;
    /// The name of a part on a line of its own, with "(a)" before it where the style has letters and the figure has several parts.
    void heading(size_t part, size_t parts, FigurePoint at, std::string_view words, double width) const;
};

/// The data area of a plot and its two axes.
struct PlotArea {
    FigureRect rect;
    double x_min = 0, x_max = 1;
    ValueAxis y;

    [[nodiscard]] double x(double value) const {
        return rect.x + (value - x_min) / (x_max - x_min) * rect.width;
    }
    [[nodiscard]] double y_of(double value) const { return rect.bottom() - y.share(value) * rect.height; }
    [[nodiscard]] FigurePoint at(double x_value, double y_value) const { return {x(x_value), y_of(y_value)}; }
};

/// Room that a plot's labels take: of the y ticks with their gap, without the title of the axis.
[[nodiscard]] double y_labels_width(const FigurePen& pen, const ValueAxis& axis, double height);

/// Frame, grid, ticks and labels. \param y_title  turned, left of the labels; right of the plot where `right` is set
/// \param labels_width  of the y labels, as y_labels_width() says for all plots of a column
void draw_y_axis(const FigurePen& pen, const PlotArea& area, std::string_view y_title, double labels_width,
                 bool right = false);
/// Room below a plot for ticks, labels and a title.
[[nodiscard]] double x_axis_height(const FigurePen& pen);
/// Whole numbers below the plot. \param title  of the axis; empty: ticks alone
void draw_x_axis(const FigurePen& pen, const PlotArea& area, std::string_view title, bool labels = true);
/// Any numbers below the plot.
void draw_value_x_axis(const FigurePen& pen, const PlotArea& area, std::string_view title);
/// Ticks at chosen places below the plot. \param places  between x_min and x_max \param values  their labels; none: ticks alone
void draw_labelled_x_axis(const FigurePen& pen, const PlotArea& area, std::span<const double> places,
                          std::span<const double> values, AxisScale scale, std::string_view title);
void draw_plot_ground(const FigurePen& pen, const PlotArea& area);
/// Hatched where nothing was measured: two tones, so that they are not a value.
void draw_absent(const FigurePen& pen, const FigureRect& place);

/// A line that is seen on cells of any colour: with the ground beside it.
void draw_marked_line(const FigurePen& pen, FigurePoint from, FigurePoint to, Colour colour);

/// At which ends of a colour bar values go on: arrows there.
struct BeyondEnds {
    bool low = false, high = false;
};
/// A scale of colours with its ends labelled, on one line. \return its height
double draw_colour_bar(const FigurePen& pen, FigureRect place, const ColourScale& scale,
                       std::string_view title, BeyondEnds beyond = {});

/// One entry of a legend: a swatch and its words.
struct LegendEntry {
    std::string words;
    Colour colour = 0;
    enum class Mark : uint8_t {
        line,
        dashed,
        box,
        letter,  ///< the first character of the words stands for the swatch
        hatched, ///< a box of what was not measured
        scale,   ///< colours behind the words, and `end` behind them
        sample,  ///< what `draw_sample` draws
    } mark = Mark::line;
    bool strong = false; ///< in the colour of text where other words are muted
    std::optional<ColourScale> colours = {};
    std::string end = {};
    std::function<void(const FigurePen& pen, const FigureRect& place)> draw_sample = {};
};
/// Where the entries are, in lines that are no wider than this, from 0, 0.
[[nodiscard]] std::vector<FigureRect> legend_places(const FigurePen& pen, double width,
                                                    std::span<const LegendEntry> entries);
/// \return the height of the lines
double draw_legend(const FigurePen& pen, FigurePoint at, double width, std::span<const LegendEntry> entries);
[[nodiscard]] double legend_height(const FigurePen& pen, double width, std::span<const LegendEntry> entries);

} // namespace refreshlab::ui
