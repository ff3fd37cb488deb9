#include "ui/figure/pen.h"

#include "engine/text/utf8.h"
#include "ui/base/format.h"
#include "ui/base/value_format.h"
#include "ui/scene/maps/heatmap.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace refreshlab::ui {

namespace {

using Align = TextStyle::Align;
/// From the end of a tick to its label.
double tick_gap(const FigurePen& pen) {
    return pen.style.tick_pt * 0.6;
}

std::vector<double> y_ticks(const FigurePen& pen, const ValueAxis& axis, double height) {
    const int at_most = std::max(2, static_cast<int>(height / (pen.small_line() * 1.6)));
    return labelled_ticks(axis, at_most);
}

std::vector<std::string> tick_labels(std::span<const double> ticks, AxisScale scale) {
    const double step = scale == AxisScale::linear && ticks.size() > 1 ? ticks[1] - ticks[0] : 0;
    std::vector<std::string> labels;
    for (const double value : ticks)
        labels.push_back(format_tick(value, step));
    return labels;
}

void draw_x_ticks(const FigurePen& pen, const PlotArea& area, std::span<const double> values,
                  std::span<const std::string> labels, std::string_view title) {
    const double base = area.rect.bottom() + pen.style.tick_pt + tick_gap(pen) + pen.style.small_pt * 0.8;
    double last_right = -1e9;
    for (size_t i = 0; i < values.size(); ++i) {
        const double x = area.x(values[i]);
        pen.canvas.line({x, area.rect.bottom()}, {x, area.rect.bottom() + pen.style.tick_pt},
                        {pen.style.theme.plot_border, pen.style.axis_pt});
        if (labels.empty()) continue;
        const double width = pen.canvas.width_of(labels[i], pen.small());
        if (x - width / 2 < last_right + 2) continue;
        pen.canvas.text({x, base}, labels[i], pen.small(Align::centre));
        last_right = x + width / 2;
    }
    if (!title.empty())
        pen.canvas.text({area.rect.x + area.rect.width / 2, base + pen.text_line()}, title,
                        pen.text(Align::centre));
}

using Mark = LegendEntry::Mark;

double swatch(const FigurePen& pen, const LegendEntry& entry) {
    switch (entry.mark) {
    case Mark::box:
    case Mark::hatched:
        return pen.style.small_pt * 0.8;
    case Mark::letter:
        return pen.style.small_pt * 0.6;
    case Mark::sample:
        return pen.style.small_pt;
    case Mark::scale:
        return pen.style.small_pt * 3;
    default:
        return pen.style.text_pt * 1.4;
    }
}
double swatch_gap(const FigurePen& pen) {
    return pen.style.small_pt * 0.4;
}
std::string_view words_of(const LegendEntry& entry) {
    const bool letter = entry.mark == Mark::letter && !entry.words.empty();
    return std::string_view(entry.words).substr(letter ? 1 : 0);
}
double entry_width(const FigurePen& pen, const LegendEntry& entry) {
    double width = swatch(pen, entry) + swatch_gap(pen) + pen.canvas.width_of(words_of(entry), pen.small());
    if (entry.mark == Mark::scale) width += swatch_gap(pen) + pen.canvas.width_of(entry.end, pen.small());
    return width;
}

void draw_ramp(const FigurePen& pen, const FigureRect& place, const ColourScale& scale) {
    std::array<uint32_t, 128> cells{};
    for (size_t i = 0; i < cells.size(); ++i)
        cells[i] = scale.colour((static_cast<double>(i) + 0.5) / static_cast<double>(cells.size()));
    pen.canvas.image(place, {std::ssize(cells), 1, cells});
}

/// What stands for the entry. \param base  of its words
void draw_swatch(const FigurePen& pen, const LegendEntry& entry, double left, double base) {
    const double wide = swatch(pen, entry), side = pen.style.small_pt * 0.8;
    const FigureRect box{left, base - pen.style.small_pt * 0.75, wide, side};
    switch (entry.mark) {
    case Mark::letter: {
        TextStyle letter = pen.small();
        letter.bold = true;
        letter.colour = entry.colour;
        pen.canvas.text({left, base}, entry.words.substr(0, 1), letter);
        break;
    }
    case Mark::box:
        pen.canvas.rectangle(box, entry.colour);
        break;
    case Mark::hatched:
        draw_absent(pen, box);
        break;
    case Mark::sample:
        if (entry.draw_sample) entry.draw_sample(pen, box);
        break;
    case Mark::scale:
        if (entry.colours) draw_ramp(pen, box, *entry.colours);
        break;
    default: {
        const double middle = base - pen.style.small_pt * 0.33;
        pen.canvas.line({left, middle}, {left + wide, middle},
                        {entry.colour, pen.style.line_pt * 1.3,
                         entry.mark == Mark::dashed ? pen.style.text_pt * 0.25 : 0.0});
    }
    }
}

} // namespace

std::string FigurePen::fitted(std::string_view utf8, const TextStyle& text_style, double width) const {
    if (canvas.width_of(utf8, text_style) <= width) return std::string(utf8);
    std::string kept;
    for (size_t at = 0; at < utf8.size();) {
        const size_t length = utf8_step(utf8, at).length;
        std::string longer = kept + std::string(utf8.substr(at, length));
        if (canvas.width_of(longer + "…", text_style) > width) break;
        kept = std::move(longer);
        at += length;
    }
    return kept + "…";
}

std::vector<std::string> FigurePen::wrapped(std::string_view utf8, const TextStyle& text_style, double width,
                                            size_t most) const {
    std::vector<std::string> lines;
    size_t at = 0;
    while (at < utf8.size() && lines.size() < most) {
        const size_t begin = at;
        size_t space = begin; // end of the last whole word
        bool broken = false;
        while (at < utf8.size() && utf8[at] != '\n') {
            const size_t length = utf8_step(utf8, at).length;
            if (utf8[at] == ' ') space = at;
            if (at > begin && canvas.width_of(utf8.substr(begin, at + length - begin), text_style) > width) {
                broken = true;
                break;
            }
            at += length;
        }
        if (broken && space > begin) at = space;
        lines.emplace_back(utf8.substr(begin, at - begin));
        if (at < utf8.size() && (utf8[at] == '\n' || utf8[at] == ' ')) ++at; // stands for the end of the line
    }
    if (at < utf8.size() && !lines.empty()) lines.back() = fitted(lines.back() + " …", text_style, width);
    return lines;
}

void FigurePen::heading(size_t part, size_t parts, FigurePoint at, std::string_view words,
                        double width) const {
    double x = at.x;
    if (style.letters && parts > 1) {
        TextStyle bold = text();
        bold.bold = true;
        const std::string letter = fmt::format("({})", static_cast<char>('a' + part % 26));
        canvas.text(at, letter, bold);
        x += canvas.width_of(letter, bold) + style.text_pt * 0.4;
    }
    canvas.text({x, at.y}, fitted(words, text(), at.x + width - x), text());
}

double x_axis_height(const FigurePen& pen) {
    return pen.style.tick_pt + tick_gap(pen) + pen.style.small_pt * 0.8 + pen.text_line() +
           pen.style.text_pt * 0.3;
}

double y_labels_width(const FigurePen& pen, const ValueAxis& axis, double height) {
    double width = 0;
    for (const std::string& label : tick_labels(y_ticks(pen, axis, height), axis.scale))
        width = std::max(width, pen.canvas.width_of(label, pen.small()));
    return width + pen.style.tick_pt + tick_gap(pen);
}

void draw_plot_ground(const FigurePen& pen, const PlotArea& area) {
    pen.canvas.rectangle(area.rect, pen.style.theme.plot_background);
    for (const double value : y_ticks(pen, area.y, area.rect.height)) {
        const double y = area.y_of(value);
        pen.canvas.line({area.rect.x, y}, {area.rect.right(), y}, {pen.style.theme.grid, pen.style.axis_pt});
    }
}

void draw_absent(const FigurePen& pen, const FigureRect& place) {
    if (place.width <= 0 || place.height <= 0) return;
    pen.canvas.rectangle(place, pen.style.theme.absent_a);
    pen.canvas.push_clip(place);
    // Lines start on multiples of their distance, so that neighbouring hatches join without a seam.
    const double distance = pen.style.text_pt * 0.5;
    std::vector<FigurePoint> lines;
    for (double x = std::floor((place.x - place.height) / distance) * distance; x < place.right();
         x += distance) {
        lines.push_back({x, place.bottom()});
        lines.push_back({x + place.height, place.y});
        lines.push_back({NAN, NAN});
    }
    pen.canvas.polyline(lines, {pen.style.theme.absent_b, pen.style.axis_pt});
    pen.canvas.pop_clip();
}

void draw_marked_line(const FigurePen& pen, FigurePoint from, FigurePoint to, Colour colour) {
    pen.canvas.line(from, to,
                    {with_alpha(pen.style.theme.plot_background | alpha_mask, 0.7F), 3 * pen.style.axis_pt});
    pen.canvas.line(from, to, {colour | alpha_mask, pen.style.axis_pt});
}

void draw_y_axis(const FigurePen& pen, const PlotArea& area, std::string_view y_title, double labels_width,
                 bool right) {
    const auto ticks = y_ticks(pen, area.y, area.rect.height);
    const auto labels = tick_labels(ticks, area.y.scale);
    const double side = right ? area.rect.right() : area.rect.x, out = right ? 1 : -1;
    for (size_t i = 0; i < ticks.size(); ++i) {
        const double y = area.y_of(ticks[i]);
        pen.canvas.line({side, y}, {side + out * pen.style.tick_pt, y},
                        {pen.style.theme.plot_border, pen.style.axis_pt});
        pen.canvas.text({side + out * (pen.style.tick_pt + tick_gap(pen)), y + pen.style.small_pt * 0.35},
                        labels[i], pen.small(right ? Align::left : Align::right));
    }
    if (y_title.empty()) return;
    TextStyle title = pen.text(Align::centre);
    title.upwards = true;
    const double x =
        right ? side + labels_width + pen.style.text_pt : side - labels_width - pen.style.text_pt * 0.4;
    pen.canvas.text({x, area.rect.y + area.rect.height / 2},
                    pen.fitted(y_title, title, area.rect.height * 1.15), title);
}

void draw_x_axis(const FigurePen& pen, const PlotArea& area, std::string_view title, bool labels) {
    const double widest =
        pen.canvas.width_of(format_thousands(static_cast<int64_t>(area.x_max)), pen.small());
    const auto at_most = static_cast<int64_t>(area.rect.width / (widest * 2 + 6));
    std::vector<double> values;
    std::vector<std::string> words;
    for (const int64_t value :
         whole_ticks(static_cast<int64_t>(std::ceil(area.x_min)),
                     static_cast<int64_t>(std::floor(area.x_max)) + 1, std::max<int64_t>(2, at_most))) {
        values.push_back(static_cast<double>(value));
        if (labels) words.push_back(format_thousands(value));
    }
    draw_x_ticks(pen, area, values, words, title);
}

void draw_value_x_axis(const FigurePen& pen, const PlotArea& area, std::string_view title) {
    const auto values =
        value_ticks(area.x_min, area.x_max, std::max(2, static_cast<int>(area.rect.width / 30)));
    draw_x_ticks(pen, area, values, tick_labels(values, AxisScale::linear), title);
}

void draw_labelled_x_axis(const FigurePen& pen, const PlotArea& area, std::span<const double> places,
                          std::span<const double> values, AxisScale scale, std::string_view title) {
    draw_x_ticks(pen, area, places, tick_labels(values, scale), title);
}

double draw_colour_bar(const FigurePen& pen, FigureRect place, const ColourScale& scale,
                       std::string_view title, BeyondEnds beyond) {
    const std::string low = format_number(scale.min), high = format_number(scale.max);
    const double height = pen.style.small_pt, base = place.y + height * 0.85, arrow = height * 0.6;
    const TextStyle ink = pen.small();
    const double others = pen.canvas.width_of(low + high, ink) + 2 * pen.style.small_pt +
                          (beyond.low ? arrow : 0) + (beyond.high ? arrow : 0);
    const double bar = std::clamp(place.width - others - pen.canvas.width_of(title, ink),
                                  std::min(40.0, place.width * 0.2), 90.0);
    double x = place.x;
    const std::string words = pen.fitted(title, ink, place.width - bar - others);
    pen.canvas.text({x, base}, words, ink);
    x += pen.canvas.width_of(words, ink) + pen.style.small_pt;
    pen.canvas.text({x, base}, low, ink);
    x += pen.canvas.width_of(low, ink) + 3;
    const auto draw_arrow = [&](double from, double to, double fraction) {
        const FigurePoint corners[] = {{from, place.y}, {to, place.y + height / 2}, {from, place.y + height}};
        pen.canvas.polygon(corners, scale.colour(fraction));
    };
    if (beyond.low) {
        draw_arrow(x + arrow, x, 0);
        x += arrow;
    }
    draw_ramp(pen, {x, place.y, bar, height}, scale);
    x += bar;
    if (beyond.high) {
        draw_arrow(x, x + arrow, 1);
        x += arrow;
    }
    pen.canvas.text({x + 3, base}, high, ink);
    return height + 2;
}

std::vector<FigureRect> legend_places(const FigurePen& pen, double width,
                                      std::span<const LegendEntry> entries) {
    std::vector<FigureRect> places;
    double x = 0, y = 0;
    for (const LegendEntry& entry : entries) {
        const double wide = entry_width(pen, entry);
        if (x > 0 && x + wide > width) {
            y += pen.small_line();
            x = 0;
        }
        places.push_back({x, y, wide, pen.small_line()});
        x += wide + pen.style.text_pt;
    }
    return places;
}

double legend_height(const FigurePen& pen, double width, std::span<const LegendEntry> entries) {
    return entries.empty() ? 0 : legend_places(pen, width, entries).back().bottom();
}

double draw_legend(const FigurePen& pen, FigurePoint at, double width, std::span<const LegendEntry> entries) {
    const FigureGroup group(pen.canvas, "legend");
    const auto places = legend_places(pen, width, entries);
    for (size_t i = 0; i < entries.size(); ++i) {
        const LegendEntry& entry = entries[i];
        const double base = at.y + places[i].y + pen.style.small_pt,
                     beside = swatch(pen, entry) + swatch_gap(pen);
        double x = at.x + places[i].x;
        TextStyle ink = pen.small();
        if (entry.strong) ink.colour = pen.style.theme.text;
        const std::string words = pen.fitted(words_of(entry), ink, width - beside);
        if (entry.mark != Mark::scale) {
            draw_swatch(pen, entry, x, base);
            pen.canvas.text({x + beside, base}, words, ink);
            continue;
        }
        pen.canvas.text({x, base}, words, ink);
        x += pen.canvas.width_of(words, ink) + swatch_gap(pen);
        draw_swatch(pen, entry, x, base);
        pen.canvas.text({x + beside, base}, entry.end, ink);
    }
    return entries.empty() ? 0 : places.back().bottom();
}

} // namespace refreshlab::ui
