#include "ui/figure/paint/note_paint.h"

#include "ui/base/colour.h"
#include "ui/scene/text/markers.h"
#include "ui/scene/theme/run_colours.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace refreshlab::ui {

namespace {

constexpr float bar_alpha = 0.5F, band_alpha = 0.14F;
constexpr size_t most_lines = 12; // of a note below a figure: the trace has all of it

Colour colour_of(const FigurePen& pen, const StepNote& note) {
    return run_colour(pen.style.theme, note.colour) | alpha_mask;
}

TextStyle number_style(const FigurePen& pen, double size) {
    TextStyle style = pen.small(TextStyle::Align::centre);
    style.size = size * 0.82;
    return style;
}

/// Calls with the part of each note of several steps that is in sight, from the middle between steps to the next.
template <class Each>
void each_span(const StepMarks& marks, const StepScale& steps, Each each) {
    if (!(steps.x_max > steps.x_min)) return;
    for (size_t i = 0, n = marks.count(MarkLane::note); i < n; ++i) {
        const StepNote& note = marks.note(i).note;
        const double from = std::max(steps.x_min, static_cast<double>(note.first_step) - 0.5),
                     to = std::min(steps.x_max, static_cast<double>(note.last_step) + 0.5);
        if (note.last_step > note.first_step && from < to) each(note, steps.x(from), steps.x(to));
    }
}

} // namespace

double note_badge_width(const FigurePen& pen, double size, const std::string& number) {
    return std::max(size, pen.canvas.width_of(number, number_style(pen, size)) + size * 0.4);
}

double paint_note_badge(const FigurePen& pen, FigurePoint corner, double size, Colour colour,
                        const std::string& number) {
    TextStyle style = number_style(pen, size);
    style.colour = readable_on(colour);
    const double width = note_badge_width(pen, size, number);
    pen.canvas.rectangle({corner.x, corner.y, width, size}, colour, {size * 0.3});
    const TextSize extent = pen.canvas.measure(number, style);
    pen.canvas.text(
        {corner.x + width / 2, corner.y + (size - extent.ascent - extent.descent) / 2 + extent.ascent},
        number, style);
    return width;
}

void paint_note_spans(const FigurePen& pen, const StepMarks& marks, const StepScale& steps, double top,
                      double height) {
    const FigureGroup group(pen.canvas, "note_spans");
    each_span(marks, steps, [&](const StepNote& note, double left, double right) {
        pen.canvas.rectangle({left, top, std::max(1.0, right - left), height},
                             with_alpha(colour_of(pen, note), bar_alpha));
    });
}

void paint_note_bands(const FigurePen& pen, const StepMarks& marks, const StepScale& steps,
                      const FigureRect& plot, bool single) {
    const FigureGroup group(pen.canvas, "note_bands");
    each_span(marks, steps, [&](const StepNote& note, double left, double right) {
        pen.canvas.rectangle({left, plot.y, right - left, plot.height},
                             with_alpha(colour_of(pen, note), band_alpha));
    });
    if (!single) return;
    const LaneMarks seen = marks.in_sight(MarkLane::note, steps.x_min, steps.x_max, steps.left, steps.width);
    for (size_t i = 0; i < seen.index.size(); ++i) {
        const StepNote& note = marks.note(seen.index[i]).note;
        if (note.last_step > note.first_step) continue;
        pen.canvas.line({seen.x_px[i], plot.y}, {seen.x_px[i], plot.bottom()},
                        {colour_of(pen, note), pen.style.axis_pt, pen.style.axis_pt * 4});
    }
}

void paint_note_numbers(const FigurePen& pen, const StepMarks& marks, const StepScale& steps, double top,
                        double size) {
    const FigureGroup group(pen.canvas, "note_numbers");
    const LaneMarks seen = marks.in_sight(MarkLane::note, steps.x_min, steps.x_max, steps.left, steps.width);
    for (const MarkerGroup& merged : merge_markers(seen.x_px, size * 1.6, size * 4)) {
        const size_t first = seen.index[merged.first], last = seen.index[merged.last];
        const std::string number =
            first == last ? fmt::format("{}", first + 1) : fmt::format("{}-{}", first + 1, last + 1);
        const double width = note_badge_width(pen, size, number);
        paint_note_badge(pen, {merged.x() - width / 2, top}, size,
                         group_colour(pen.style.theme, marks, seen, merged) | alpha_mask, number);
    }
}

NoteList::NoteList(const StepMarks& marks, StepRange steps) {
    for (const size_t i : marks.notes_over(steps.first, steps.last))
        m_notes.push_back({marks.note(i).note, fmt::format("{}", i + 1)});
}

std::string NoteList::at(int64_t step) const {
    std::string all;
    for (const Entry& entry : m_notes)
        if (entry.note.first_step <= step && step <= entry.note.last_step)
            all += (all.empty() ? "" : " ") + entry.number;
    return all;
}

/// Width of the badges with their gap.
double NoteList::column(const FigurePen& pen) const {
    double widest = 0;
    for (const Entry& entry : m_notes)
        widest = std::max(widest, note_badge_width(pen, pen.style.small_pt * 1.15, entry.number));
    return widest + pen.style.small_pt * 0.5;
}

std::vector<NoteList::Line> NoteList::lines(const FigurePen& pen, double width) const {
    std::vector<Line> all;
    const double room = std::max(width - column(pen), pen.style.small_pt * 4);
    for (size_t i = 0; i < m_notes.size(); ++i) {
        const StepNote& note = m_notes[i].note;
        const std::string words = note.text.empty() ? note_place(note) : note_place(note) + ": " + note.text;
        bool first = true;
        for (std::string& line : pen.wrapped(words, pen.small(), room, most_lines)) {
            all.push_back({i, first, std::move(line)});
            first = false;
        }
    }
    return all;
}

double NoteList::height(const FigurePen& pen, double width) const {
    if (empty()) return 0;
    return pen.small_line() * (static_cast<double>(lines(pen, width).size()) + 0.6);
}

void NoteList::paint(const FigurePen& pen, FigurePoint at, double width) const {
    if (empty()) return;
    const FigureGroup group(pen.canvas, "notes");
    const double size = pen.style.small_pt * 1.15;
    double y = at.y + pen.small_line() * 0.6;
    for (const Line& line : lines(pen, width)) {
        if (line.first)
            paint_note_badge(pen, {at.x, y}, size, colour_of(pen, m_notes[line.entry].note),
                             m_notes[line.entry].number);
        pen.canvas.text({at.x + column(pen), y + pen.style.small_pt * 0.95}, line.words, pen.small());
        y += pen.small_line();
    }
}

} // namespace refreshlab::ui
