#include "ui/figure/tables/table_axes.h"

#include "ui/scene/axes/auto_range.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <vector>

namespace refreshlab::ui {

namespace {

/// Every finite number that an axis must have room for.
template <class Numbers>
std::vector<double> numbers_of(const TableMarks& marks, std::optional<size_t> part, const Numbers& numbers) {
    std::vector<double> found;
    for (const TableMarks::Facet& facet : marks.facets)
        for (size_t p = 0; p < facet.parts.size(); ++p) {
            if (part && p != *part) continue;
            for (const TableSeries& series : facet.parts[p])
                for (const TableMark& mark : series.marks)
                    for (const double number : numbers(mark))
                        if (std::isfinite(number)) found.push_back(number);
        }
    return found;
}

ValueAxis log_axis(std::vector<double> numbers) {
    std::erase_if(numbers, [](double number) { return number <= 0; });
    ValueAxis axis{.scale = AxisScale::log, .min = 0.1, .max = 1};
    if (numbers.empty()) return axis;
    const auto [least, most] = std::ranges::minmax(numbers);
    const ValueRange range = log_auto_range(ValueRange{least, most}, {}, {least, most});
    axis.min = range.min;
    axis.max = range.max;
    return axis;
}

} // namespace

ValueAxis axis_of_values(const TableMarks& marks, size_t part, bool log, std::optional<double> mark) {
    std::vector<double> numbers = numbers_of(marks, part, [](const TableMark& m) {
        return std::array{m.value, m.low, m.high};
    });
    if (log) return log_axis(std::move(numbers));
    if (mark) numbers.push_back(*mark);
    if (numbers.empty()) return {};
    auto [least, most] = std::ranges::minmax(numbers);
    if (least >= 0 && least < 0.5 * most) least = 0; // near zero the whole value is worth its room
    const double margin = least == most ? std::max(std::abs(least) * 0.1, 1e-6) : (most - least) * 0.05;
    ValueAxis axis;
    axis.min = least == 0 ? 0 : least - margin;
    axis.max = most + margin;
    return axis;
}

ValueAxis axis_of_x(const TableMarks& marks, bool log) {
    const auto numbers = numbers_of(marks, {}, [](const TableMark& m) { return std::array{m.x}; });
    if (numbers.empty()) return {};
    const auto [least, most] = std::ranges::minmax(numbers);
    ValueAxis axis;
    if (log && least > 0) {
        const double margin = std::max(std::pow(most / least, 0.04), 1.02);
        axis = {.scale = AxisScale::log, .min = least / margin, .max = most * margin};
        return axis;
    }
    const double margin = std::max((most - least) * 0.04, 1e-6);
    axis.min = least - margin;
    axis.max = most + margin;
    return axis;
}

void draw_scaled_x_axis(const FigurePen& pen, const PlotArea& area, const ValueAxis& axis,
                        std::string_view title, bool labels, std::span<const double> at) {
    const double label = pen.style.on_screen ? 5 * pen.style.text_pt : 30; // with its gap
    const int at_most = std::max(2, static_cast<int>(area.rect.width / label));
    std::vector<double> places;
    const std::vector<double> values =
        at.empty() ? axis_ticks(axis, at_most) : std::vector<double>(at.begin(), at.end());
    for (const double value : values)
        places.push_back(axis.forward(value));
    // A little more than the plot is free on both sides.
    const std::string words = pen.fitted(title, pen.text(), area.rect.width + 10);
    draw_labelled_x_axis(pen, area, places, labels ? values : std::vector<double>(), axis.scale, words);
}

std::vector<double> few_x_values(const TableMarks& marks) {
    std::vector<double> values = numbers_of(marks, {}, [](const TableMark& m) { return std::array{m.x}; });
    std::ranges::sort(values);
    const auto twice = std::ranges::unique(values);
    values.erase(twice.begin(), twice.end());
    constexpr size_t few = 8;
    if (values.size() > few) values.clear();
    return values;
}

void draw_dot(const FigurePen& pen, FigurePoint at, double radius, Colour colour) {
    constexpr int corners = 16;
    std::array<FigurePoint, corners> circle{};
    for (int i = 0; i < corners; ++i) {
        const double angle = 2 * std::numbers::pi * i / corners;
        circle[static_cast<size_t>(i)] = {at.x + radius * std::cos(angle), at.y + radius * std::sin(angle)};
    }
    pen.canvas.polygon(circle, colour);
}

} // namespace refreshlab::ui
