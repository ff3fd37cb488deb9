#pragma once

#include "ui/figure/pen.h"
#include "ui/figure/signals/signals_model.h"

namespace refreshlab::ui {

/// Colour of a run where several are shown.
[[nodiscard]] Colour colour_of_run(const FigurePen& pen, const SignalsModel& model, size_t run);

/// What stands above the first plot: of one run the letters of its refreshes, a tick of each where they are many, and its live changes, and above them the numbers of its notes where these are asked for;
/// of several runs a row of ticks each.
[[nodiscard]] double refresh_strip_height(const FigurePen& pen, const SignalsModel& model);
void draw_refresh_strip(const FigurePen& pen, const SignalsModel& model, const FigureRect& place);
/// The refreshes of one run as lines through a plot, unless they are a crowd.
void draw_refresh_lines(const FigurePen& pen, const SignalsModel& model, const FigureRect& plot);

} // namespace refreshlab::ui
