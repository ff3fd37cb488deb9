#include "ui/figure/signals/refresh_strip.h"

#include "ui/figure/kinds/kinds.h"
#include "ui/scene/text/markers.h"
#include "ui/scene/text/rug.h"
#include "ui/scene/theme/run_colours.h"

#include <fmt/format.h>

#include <string>

namespace refreshlab::ui {

namespace {

using Align = TextStyle::Align;

constexpr double tick_row = 4; ///< points, with the gap below it

/// A tick of every mark of a lane, in the colour of its reasons.
void draw_tick_row(const FigurePen& pen, const SignalsModel& model, MarkLane lane, const FigureRect& marks,
                   double y) {
    const LaneMarks seen = model.marks_of(0, lane, marks);
    for (size_t i = 0; i < seen.x_px.size(); ++i) {
        const Colour colour = mark_colour(pen.style.theme, model.marks.front(), lane, seen.index[i]);
        pen.canvas.line({seen.x_px[i], y}, {seen.x_px[i], y + tick_row - 1}, {colour, pen.style.line_pt});
    }
}

/// Height of the row of notes with the gap below it.
double notes_row(const FigurePen& pen, const SignalsModel& model) {
    return model.notes.empty() ? 0 : pen.style.small_pt * 1.4;
}

/// Numbers of notes, and bars of their steps below these.
void draw_notes(const FigurePen& pen, const SignalsModel& model, const FigureRect& marks) {
    if (model.notes.empty()) return;
    const double bar = pen.style.small_pt * 0.2;
    paint_note_spans(pen, model.marks.front(), model.steps_over(marks), marks.y + pen.style.small_pt * 1.15,
                     bar);
    paint_note_numbers(pen, model.marks.front(), model.steps_over(marks), marks.y, pen.style.small_pt * 1.15);
}

/// Below the letters: a tick of every refresh where they are many, of every one that a limit prevented, of every draft that was cut, and of
/// every live change.
void draw_ticks(const FigurePen& pen, const SignalsModel& model, const FigureRect& marks) {
    double y = marks.y + pen.style.small_pt * 1.5;
    if (model.rug) {
        const FigureGroup group(pen.canvas, "rug");
        draw_tick_row(pen, model, MarkLane::refresh, marks, y);
        y += tick_row;
    }
    if (model.has(MarkLane::blocked)) {
        const FigureGroup group(pen.canvas, "held_back");
        draw_tick_row(pen, model, MarkLane::blocked, marks, y);
        y += tick_row;
    }
    if (model.has(MarkLane::cut)) {
        const FigureGroup group(pen.canvas, "cuts");
        draw_tick_row(pen, model, MarkLane::cut, marks, y);
        y += tick_row;
    }
    if (!model.has(MarkLane::change)) return;
    const FigureGroup group(pen.canvas, "changes");
    for (const double x : model.marks_of(0, MarkLane::change, marks).x_px) {
        const double r = tick_row / 2;
        const FigurePoint triangle[] = {{x - r, y}, {x + r, y}, {x, y + tick_row - 0.5}};
        pen.canvas.polygon(triangle, pen.style.theme.accent);
    }
}

} // namespace

Colour colour_of_run(const FigurePen& pen, const SignalsModel& model, size_t run) {
    return pen.style.runs[places_of_colours(model.runs, pen.style.runs.size())[run]];
}

double refresh_strip_height(const FigurePen& pen, const SignalsModel& model) {
    if (model.runs.size() > 1) return tick_row * static_cast<double>(model.runs.size()) + 2;
    const int rows = (model.rug ? 1 : 0) + (model.has(MarkLane::blocked) ? 1 : 0) +
                     (model.has(MarkLane::cut) ? 1 : 0) + (model.has(MarkLane::change) ? 1 : 0);
    return notes_row(pen, model) + pen.style.small_pt * 1.5 + tick_row * rows;
}

void draw_refresh_strip(const FigurePen& pen, const SignalsModel& model, const FigureRect& place) {
    draw_notes(pen, model, place);
    FigureRect marks = place;
    marks.y += notes_row(pen, model);
    marks.height -= notes_row(pen, model);
    const FigureGroup group(pen.canvas, "refreshes");
    for (size_t run = 0; model.runs.size() > 1 && run < model.runs.size(); ++run) {
        const double y = marks.y + tick_row * static_cast<double>(run);
        for (const double x : model.marks_of(run, MarkLane::refresh, marks).x_px)
            pen.canvas.line({x, y}, {x, y + tick_row - 1},
                            {colour_of_run(pen, model, run), pen.style.line_pt});
    }
    if (model.runs.size() > 1) return;
    const StepMarks& all = model.marks.front();
    const LaneMarks seen = model.marks_of(0, MarkLane::refresh, marks);
    for (const MarkerGroup& merged : merge_markers(seen.x_px, pen.style.small_pt, pen.style.small_pt * 4)) {
        const char letter =
            group_letter(merged, [&](size_t i) { return reason_letter(all.hits(seen.lane, seen.index[i])); });
        TextStyle text = pen.small(Align::centre);
        text.bold = true;
        text.colour = group_colour(pen.style.theme, all, seen, merged);
        const std::string words =
            merged.count() > 1 ? fmt::format("{}{}", merged.count(), letter) : std::string(1, letter);
        pen.canvas.text({merged.x(), marks.y + pen.style.small_pt * 1.2}, words, text);
    }
    draw_ticks(pen, model, marks);
}

void draw_refresh_lines(const FigurePen& pen, const SignalsModel& model, const FigureRect& plot) {
    if (model.runs.size() > 1) return;
    const LaneMarks seen = model.marks_of(0, MarkLane::refresh, plot);
    // A crowd stands in the rug above the plots alone, as on the screen: the curves are what one looks at here.
    if (crowded(seen, plot.width, pen.style.small_pt)) return;
    for (const MarkerGroup& merged : merge_markers(seen.x_px, 1.0))
        pen.canvas.line({merged.x(), plot.y}, {merged.x(), plot.bottom()},
                        {with_alpha(group_colour(pen.style.theme, model.marks.front(), seen, merged), 0.55F),
                         pen.style.axis_pt});
}

} // namespace refreshlab::ui
