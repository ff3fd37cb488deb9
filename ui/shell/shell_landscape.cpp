// What the shell does with landscapes: which one is of the shown run, what a refresh would have gained it, and the actions.
#include "ui/scene/landscape/objective_words.h"
#include "ui/shell/parts.h"
#include "ui/shell/shell_impl.h"
#include "ui/state/shell_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace refreshlab::ui {

void Shell::Impl::watch_landscape() {
    UiContext& ctx = state.ctx;
    if (const auto& told = ctx.status->landscape) {
        const RunNode* run = state.runs.tree().find_id(told->run_id);
        const auto recording = run ? state.runs.recording(run->key) : nullptr;
        const bool same = recording && recording->info().id == told->run_id;
        state.landscapes.keep(told->run_id, told->landscape, same ? recording : nullptr);
    }
    if (const auto& told = ctx.status->scope; told && told->map) state.scope_maps[told->run_id] = told->map;
    ctx.scope_map = ctx.recording ? state.scope_map_of(*ctx.recording) : nullptr;
    const auto landscape = state.landscapes.of(ctx.recording, ctx.steps);
    if (landscape != ctx.landscape) ctx.best_schedule.reset();
    ctx.landscape = landscape;
    ctx.usual_objective = state.landscapes.usual();
    ctx.why_no_landscape = landscape ? std::string() : state.landscapes.why_none();
    if (!landscape) {
        ctx.refresh_gains.clear();
        state.gains_landscape.reset();
        return;
    }
    RunRefreshes refreshes = refreshes_of(*ctx.recording, ctx.steps);
    const Objective objective =
        shown_objective(ctx.views.landscape, ctx.usual_objective, landscape->info().values).objective;
    if (state.gains_landscape == landscape && state.gains_refreshes == refreshes &&
        ctx.gains_objective == objective)
        return;
    const ShownStairs run = stairs_of_run(*landscape, refreshes, {}, objective);
    ctx.refresh_gains = run.there() ? gains_along(*landscape, run.stairs, objective) : std::vector<float>();
    ctx.gains_objective = objective;
    state.gains_landscape = landscape;
    state.gains_refreshes = std::move(refreshes);
}

namespace {

std::string why_no_text(const UiContext& ctx) {
    return ctx.landscape ? std::string() : std::string("There is no landscape of this run's text yet");
}

/// Reads the landscape's text again under another policy. The run's own configuration, so that its losses compare.
void run_on_text(ShellState& state, RefreshPolicy policy) {
    UiContext& ctx = state.ctx;
    state.wanted_running = std::nullopt;
    ctx.select_step(std::nullopt);
    RunConfig run =
        reading_run(ctx.recording->info().config, ctx.landscape->info().tokens, std::move(policy));
    state.runs.look_live(); // the comparison is with what the window shows: the new run is the engine's
    ctx.engine.send(command::StartRun{std::move(run)});
}

} // namespace

std::vector<Action> make_landscape_actions(ShellState& state) {
    std::vector<Action> list;
    list.push_back(
        {"landscape.compute", "Run", "Compute the landscape",
         "Computes what every possible refresh is worth on the run's text; the panel Landscape shows it.", 0,
         [&state](UiContext& ctx) {
             ctx.engine.send(command::ComputeLandscape{});
             state.open_panel("Landscape");
         },
         [](const UiContext& ctx) {
             return why_not_computed(ctx.recording.get(), ctx.steps, *ctx.status, ctx.of_engine());
         }});
    list.push_back({"landscape.compute_scope", "Run", "Measure the scopes of refreshes",
                    "Reads the run's text again with parts of its refreshes: which layers, KV heads, keys or "
                    "values pay. The tab Scope of the "
                    "panel Landscape shows it.",
                    0,
                    [&state](UiContext& ctx) {
                        ctx.engine.send(command::ComputeScope{});
                        state.open_panel("Landscape");
                    },
                    [](const UiContext& ctx) {
                        return why_no_scope_map(ctx.recording.get(), ctx.steps, *ctx.status, ctx.of_engine());
                    }});
    list.push_back(
        {"landscape.run_best", "Run", "Run the best schedule",
         "Reads the same text again with the refreshes of the best schedule that Landscape shows.", 0,
         [&state](UiContext& ctx) {
             if (ctx.drafts.policy().at.empty()) state.before_schedule = ctx.drafts.policy();
             RefreshPolicy policy;
             policy.at = ctx.best_schedule->steps;
             policy.name = fmt::format("best {}", policy.at.size());
             run_on_text(state, std::move(policy));
         },
         [](const UiContext& ctx) {
             const std::string why = why_no_text(ctx);
             return why.empty() && !ctx.best_schedule ? std::string("Landscape shows no best schedule now")
                                                      : why;
         }});
    list.push_back(
        {"landscape.run_policy", "Run", "Run the policy on this text",
         "Reads the same text again under the present policy, to compare with what its landscape says.", 0,
         [&state](UiContext& ctx) {
             RefreshPolicy policy = ctx.drafts.policy();
             if (!policy.at.empty() && state.before_schedule) policy = *state.before_schedule;
             run_on_text(state, std::move(policy));
         },
         [](const UiContext& ctx) {
             const RefreshPolicy& policy = ctx.drafts.policy();
             return ctx.landscape && policy.at.empty() && policy.on_fire == OnFire::verify
                        ? std::string(
                              "It verifies what a run draws, and this text is given: nothing is drawn")
                        : why_no_text(ctx);
         }});
    return list;
}

} // namespace refreshlab::ui
