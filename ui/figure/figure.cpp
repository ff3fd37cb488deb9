#include "ui/figure/figure.h"

#include "engine/base/error.h"
#include "engine/text/utf8.h"
#include "ui/base/format.h"
#include "ui/figure/kinds/kinds.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>

namespace refreshlab::ui {

namespace {

using Request = FigureRequest;

/// A kind is one line here, and a function of kinds.h.
constexpr std::array kinds = {
    FigureKind{"signals", "Signals over steps", "Signals", FigureNeeds::nothing, true,
               [](const Request& r) { return make_signals_figure(r, false); }, true},
    FigureKind{"compare", "Compared runs: their signals", "Signals", FigureNeeds::other_runs, true,
               [](const Request& r) { return make_signals_figure(r, true); }},
    FigureKind{"text", "Text, coloured by a signal", "Text", FigureNeeds::head, true, make_text_figure, true},
    FigureKind{"attention", "Attention of the shown head", "Attention", FigureNeeds::head, false,
               make_head_figure},
    FigureKind{"attention", "Attention of all heads, or the best of a ranking", "", FigureNeeds::nothing,
               false, make_heads_figure},
    FigureKind{"cache", "Cache: origins, ages, entries or drift", "Cache", FigureNeeds::nothing, false,
               [](const Request& r) { return make_cache_figure(r, true); }},
    FigureKind{"drift", "Drift alone", "", FigureNeeds::nothing, false,
               [](const Request& r) { return make_cache_figure(r, false); }},
    FigureKind{"distribution", "Distribution of a signal", "Distribution", FigureNeeds::nothing, true,
               make_distribution_figure},
    FigureKind{"spikes", "What refreshes cost", "Performance", FigureNeeds::nothing, true,
               make_spikes_figure},
    FigureKind{"landscape", "Landscape: what every refresh is worth", "Landscape", FigureNeeds::landscape,
               false, make_landscape_figure},
    FigureKind{"frontier", "Loss against refreshes", "", FigureNeeds::landscape, false, make_frontier_figure},
    FigureKind{"scope", "Where in the cache refreshes pay", "", FigureNeeds::scope_map, false,
               make_scope_figure},
    FigureKind{"events", "Table of events", "Events", FigureNeeds::nothing, true, make_events_figure},
    FigureKind{"runs", "Table of runs", "Runs", FigureNeeds::all_runs, false, make_runs_figure},
    FigureKind{"table", "The plot of a table", "Table", FigureNeeds::table, false, make_file_table_figure},
};

/// Of kinds with one name the one whose head is there, or is not.
const FigureKind& kind_of(const FigureRequest& request) {
    const auto named = [&](const FigureKind& kind) { return kind.name == request.panel; };
    const auto first = std::ranges::find_if(kinds, named);
    if (first == kinds.end())
        throw Error("drawing a figure", "--panel",
                    fmt::format("\"{}\" is no panel", visible_text(request.panel, 60)),
                    fmt::format("there are {}", fmt::join(figure_panels(), ", ")));
    const auto next = std::ranges::find_if(std::next(first), kinds.end(), named);
    return next != kinds.end() && !request.head ? *next : *first;
}

} // namespace

Views figure_views() {
    Views views;
    views.distribution = {.signal = "entropy_bits", .other = {}, .in_sight = false, .log = false};
    return views;
}

std::span<const FigureKind> figure_kinds() {
    return kinds;
}

bool shows_notes(std::string_view panel) {
    return std::ranges::any_of(kinds,
                               [&](const FigureKind& kind) { return kind.name == panel && kind.notes; });
}

std::vector<std::string_view> figure_panels() {
    std::vector<std::string_view> names;
    for (const FigureKind& kind : kinds)
        if (kind.needs != FigureNeeds::table && std::ranges::find(names, kind.name) == names.end())
            names.push_back(kind.name);
    return names;
}

StepRange steps_of(const FigureRequest& request, const Recording& recording) {
    const int64_t steps = recording.steps();
    const auto check = [&](const char* option, const std::optional<int64_t>& step) {
        if (step && (*step < 1 || *step > steps))
            throw Error("drawing a figure", option,
                        fmt::format("the run has steps 1 to {}, not {}", steps, *step));
    };
    check("--from", request.from);
    check("--to", request.to);
    const StepRange range{request.from.value_or(1), request.to.value_or(steps)};
    if (range.first > range.last)
        throw Error("drawing a figure", "--from",
                    fmt::format("step {} comes after step {} of --to", range.first, range.last));
    return range;
}

int64_t step_of(const FigureRequest& request, const Recording& recording) {
    const int64_t step = request.step.value_or(recording.steps());
    if (step < 1 || step > recording.steps())
        throw Error("drawing a figure", "--step",
                    fmt::format("the run has steps 1 to {}, not {}", recording.steps(), step));
    return step;
}

std::vector<size_t> places_of_colours(std::span<const FigureRun> runs, size_t num_colours) {
    std::vector<bool> taken(num_colours, false);
    std::vector<std::optional<size_t>> own(runs.size());
    for (size_t i = 0; i < runs.size(); ++i) {
        const auto wanted = runs[i].colour;
        if (!wanted || *wanted >= num_colours || taken[*wanted]) continue;
        own[i] = *wanted;
        taken[*wanted] = true;
    }
    std::vector<size_t> places;
    for (size_t i = 0; i < runs.size(); ++i) {
        const auto free = std::ranges::find(taken, false);
        const bool any = free != taken.end();
        places.push_back(own[i].value_or(any ? static_cast<size_t>(free - taken.begin()) : i % num_colours));
        if (!own[i] && any) *free = true;
    }
    return places;
}

std::string cell_text(double value) {
    if (std::isnan(value)) return "nan";
    if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
    return exact_number(value);
}

std::string cell_text(float value) {
    if (is_absent(value)) return {};
    if (!std::isfinite(value)) return cell_text(static_cast<double>(value));
    return fmt::format("{}", value);
}

std::unique_ptr<Figure> make_figure(const FigureRequest& request) {
    const FigureKind& kind = kind_of(request);
    if (kind.needs == FigureNeeds::table) return kind.make(request);
    if (request.runs.empty()) throw Error("drawing a figure", {}, "there is no run to draw");
    for (const FigureRun& run : request.runs)
        if (run.recording->steps() == 0)
            throw Error("drawing a figure", run.name, "the run has no steps yet");
    if (request.notes && !kind.notes)
        throw Error("drawing a figure", "--notes", fmt::format("{} shows no notes", kind.name),
                    "signals and text do");
    return kind.make(request);
}

} // namespace refreshlab::ui
