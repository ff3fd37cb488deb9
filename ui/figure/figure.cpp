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

namespace refreshlab::ui {

namespace {

constexpr std::array<std::string_view, 10> panels = {"signals",   "compare", "text",         "attention",
                                                     "cache",     "drift",   "distribution", "spikes",
                                                     "landscape", "frontier"};

} // namespace

Views figure_views() {
    Views views;
    views.distribution = {.signal = "entropy_bits", .other = {}, .in_sight = false, .log = false};
    return views;
}

std::span<const std::string_view> figure_panels() {
    return panels;
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
    const std::string& panel = request.panel;
    if (std::ranges::find(panels, panel) == panels.end())
        throw Error("drawing a figure", "--panel", fmt::format("\"{}\" is no panel", visible_text(panel, 60)),
                    fmt::format("there are {}", fmt::join(panels, ", ")));
    if (request.runs.empty()) throw Error("drawing a figure", {}, "there is no run to draw");
    for (const FigureRun& run : request.runs)
        if (run.recording->steps() == 0)
            throw Error("drawing a figure", run.name, "the run has no steps yet");
    if (panel == "signals") return make_signals_figure(request, false);
    if (panel == "compare") return make_signals_figure(request, true);
    if (panel == "text") return make_text_figure(request);
    if (panel == "attention") return request.head ? make_head_figure(request) : make_heads_figure(request);
    if (panel == "cache") return make_cache_figure(request, true);
    if (panel == "drift") return make_cache_figure(request, false);
    if (panel == "distribution") return make_distribution_figure(request);
    if (panel == "spikes") return make_spikes_figure(request);
    if (panel == "landscape") return make_landscape_figure(request);
    return make_frontier_figure(request);
}

} // namespace refreshlab::ui
