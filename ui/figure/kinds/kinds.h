#pragma once

#include "engine/landscape/objective.h"
#include "ui/figure/figure.h"
#include "ui/scene/axes/time_view.h"

#include <memory>

namespace refreshlab::ui {

// One function a kind of figure. Each throws Error{bad_input} where the request has nothing for it.

[[nodiscard]] std::unique_ptr<Figure> make_signals_figure(const FigureRequest& request, bool differences);
[[nodiscard]] std::unique_ptr<Figure> make_text_figure(const FigureRequest& request);
[[nodiscard]] std::unique_ptr<Figure> make_head_figure(const FigureRequest& request);
[[nodiscard]] std::unique_ptr<Figure> make_heads_figure(const FigureRequest& request);
/// \param all  with origins and ages; else the drift alone
[[nodiscard]] std::unique_ptr<Figure> make_cache_figure(const FigureRequest& request, bool all);
[[nodiscard]] std::unique_ptr<Figure> make_distribution_figure(const FigureRequest& request);
[[nodiscard]] std::unique_ptr<Figure> make_spikes_figure(const FigureRequest& request);
/// What the request's landscape is judged by: what its view says, else default_objective() of the run. Throws Error{bad_input} where there is no landscape, or its
/// cells do not tell it.
[[nodiscard]] Objective judged_by(const FigureRequest& request);
[[nodiscard]] std::unique_ptr<Figure> make_landscape_figure(const FigureRequest& request);
[[nodiscard]] std::unique_ptr<Figure> make_frontier_figure(const FigureRequest& request);
[[nodiscard]] std::unique_ptr<Figure> make_scope_figure(const FigureRequest& request);
[[nodiscard]] std::unique_ptr<Figure> make_events_figure(const FigureRequest& request);
[[nodiscard]] std::unique_ptr<Figure> make_runs_figure(const FigureRequest& request);
[[nodiscard]] std::unique_ptr<Figure> make_file_table_figure(const FigureRequest& request);

/// Steps of a run that a figure shows. Throws Error{bad_input} naming --from or --to.
[[nodiscard]] StepRange steps_of(const FigureRequest& request, const Recording& recording);
/// The step that a map shows. Throws Error{bad_input} naming --step.
[[nodiscard]] int64_t step_of(const FigureRequest& request, const Recording& recording);
/// Of the style's colours of runs: each run's own where no earlier run has it, else the next free one.
[[nodiscard]] std::vector<size_t> places_of_colours(std::span<const FigureRun> runs, size_t num_colours);
/// Shortest text that reads back; empty for absent(); "nan", "inf".
[[nodiscard]] std::string cell_text(double value);
[[nodiscard]] std::string cell_text(float value);

} // namespace refreshlab::ui
