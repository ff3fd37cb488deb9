#pragma once

#include "engine/landscape/landscape.h"
#include "engine/record/recording/recording.h"
#include "engine/record/tables/data_table.h"
#include "engine/results/scope_map.h"
#include "ui/figure/pen.h"
#include "ui/scene/tables/table_file.h"
#include "ui/scene/views/views.h"

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace refreshlab::ui {

/// One run of a figure, and what the legend calls it.
struct FigureRun {
    std::shared_ptr<const Recording> recording;
    std::string name;
    std::optional<uint32_t> colour =
        {}; ///< of the style's colours of runs; nothing, or one that is taken: the next free one
};

/// Views of a figure that nobody has chosen in a window: a distribution is of the entropy, its counts linear.
[[nodiscard]] Views figure_views();

/// What a figure is of. Plain data: the command line and the window's panels fill it in.
struct FigureRequest {
    std::string panel = "signals";              ///< a name of figure_kinds()
    std::vector<FigureRun> runs;                ///< at least one; the first is that of figures of one run
    std::shared_ptr<const Landscape> landscape; ///< of the first run; may be null
    std::shared_ptr<const ScopeMap> scope_map;  ///< of the first run; may be null
    std::shared_ptr<const TableFile> table;     ///< of a file, that the window shows; may be null
    bool notes = false;              ///< of a kind that has them: numbers at their steps, words below
    bool all_signals = false;        ///< a signal that was not measured is an error; else it is left out
    std::string right_axis;          ///< signals: this one goes on the first plot, with an axis on the right
    Views views = figure_views();    ///< what is shown of each kind
    std::optional<int64_t> from, to; ///< steps; nothing: the whole run
    std::optional<int64_t> step;     ///< the shown one; nothing: the last
    std::optional<std::pair<int32_t, int32_t>>
        head; ///< the chosen layer and head; nothing: all heads as a grid
    std::optional<RefreshPolicy>
        policy; ///< as it is drafted: thresholds of a distribution, staircases; nothing: what
                ///< the run went by
};

/// A figure that is ready to be drawn at any width. It owns what it shows, so a run may go on meanwhile.
/// Threads  any, one at a time.
class Figure {
public:
    virtual ~Figure() = default;
    /// What it needs at this width, points.
    [[nodiscard]] virtual double height(const FigurePen& pen, double width) const = 0;
    virtual void draw(const FigurePen& pen, const FigureRect& place) const = 0;
    /// What it plots, as numbers: a file beside it.
    [[nodiscard]] virtual DataTable table() const = 0;
};

/// What a figure is of, beside the run that is looked at.
enum class FigureNeeds : uint8_t {
    nothing,
    other_runs, ///< two runs or more
    all_runs,   ///< every run that there is
    head,       ///< a chosen layer and head
    landscape,  ///< of the run's text
    scope_map,  ///< of the run's text
    table,      ///< of a file that the window shows; no run
};
/// A kind of figure. All that the command line, its help and the window's dialog know of kinds is here.
struct FigureKind {
    std::string_view name;  ///< for --panel; two kinds with one name differ in what they need
    std::string_view words; ///< in the dialog
    std::string_view panel; ///< of the window, which this kind prints; empty: none by itself
    FigureNeeds needs = FigureNeeds::nothing;
    bool by_steps = false; ///< of a part of the run: --from and --to, the steps in sight
    std::unique_ptr<Figure> (*make)(const FigureRequest&) = nullptr;
    bool notes = false; ///< it can show what a person wrote beside steps
};
/// In the order of the help and of the dialog.
[[nodiscard]] std::span<const FigureKind> figure_kinds();
/// Whether a kind of that name can show notes.
[[nodiscard]] bool shows_notes(std::string_view panel);
/// Names for --panel, each once: of kinds that show runs.
[[nodiscard]] std::vector<std::string_view> figure_panels();

/// Throws Error{bad_input}: an unknown panel (with the nearest name), no run or table, a run without steps or without what the panel shows, steps
/// that are not in it, heads and signals that do not exist.
[[nodiscard]] std::unique_ptr<Figure> make_figure(const FigureRequest& request);

} // namespace refreshlab::ui
