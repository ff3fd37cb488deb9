#include "ui/context/figure_request.h"

#include "ui/figure/run_names.h"
#include "ui/scene/landscape/cell_values.h"
#include "ui/scene/landscape/objective_words.h"
#include "ui/scene/runs/run_set.h"

#include <algorithm>
#include <memory>

namespace refreshlab::ui {

namespace {

FigureRun named(const RunSet& runs, const std::shared_ptr<const Recording>& run) {
    const RunNode* node = runs.tree().find_id(run->info().id);
    const RunLabel label = node ? runs.label(node->key) : RunLabel{};
    return {run, label.name, label.colour};
}

/// Beside the run that is looked at. Text shows the first ticked one.
std::vector<RunKey> others_of(const RunSet& runs, const FigureKind& kind) {
    std::vector<RunKey> others = runs.compared();
    if (kind.needs == FigureNeeds::other_runs) { // the ticked runs, else the one that was looked at before
        if (const auto other = runs.other(); others.empty() && other) others.push_back(*other);
    } else {
        others.resize(std::min<size_t>(others.size(), kind.panel == "Text" ? 1 : 0));
    }
    return others;
}

} // namespace

FigureRequest figure_request(const UiContext& ctx, const FigureKind& kind, bool in_sight) {
    FigureRequest request;
    request.panel = kind.name;
    request.views = ctx.views;
    if (kind.needs == FigureNeeds::table) {
        request.table = ctx.tables.shown();
        return request;
    }
    if (kind.needs == FigureNeeds::all_runs) {
        for (const RunTree::Row& row : ctx.runs.tree().rows())
            if (const auto run = ctx.runs.recording(row.key); run->steps() > 0)
                request.runs.push_back(named(ctx.runs, run));
    } else {
        request.runs.push_back(named(ctx.runs, ctx.recording));
        for (const RunKey key : others_of(ctx.runs, kind))
            request.runs.push_back(named(ctx.runs, ctx.runs.recording(key)));
    }
    name_runs(request.runs);
    request.landscape = ctx.landscape;
    request.scope_map = ctx.scope_map;
    request.policy = ctx.drafts.policy();
    request.step = ctx.shown_step();
    if (request.landscape) {
        LandscapeView& view = request.views.landscape;
        view.objective = // as it is shown
            shown_objective(view, ctx.usual_objective, request.landscape->info().values).objective;
        const auto values = cell_values(*request.landscape, *view.objective);
        if (std::ranges::find(values, view.cells.under(*view.objective)) == values.end())
            view.cells.value = {};
    }
    const DistributionSignals counted = signals_of(ctx.views.distribution, ctx.signals(),
                                                   deciding_signal(*request.policy)); // as it is shown
    request.views.distribution.signal = ctx.signals()[counted.signal].name;
    request.views.distribution.other = counted.other ? std::string(ctx.signals()[*counted.other].name) : "";
    const StepRange steps = steps_in_sight(ctx.time, ctx.steps);
    if (kind.by_steps && in_sight && steps.count() > 0) {
        request.from = steps.first;
        request.to = steps.last;
    }
    if (kind.needs == FigureNeeds::head) request.head = std::pair(ctx.selection.layer, ctx.selection.head);
    return request;
}

} // namespace refreshlab::ui
