#include "ui/context/branch.h"

#include "engine/base/error.h"
#include "engine/record/runs/rebuild.h"
#include "ui/scene/runs/run_set.h"

#include <fmt/format.h>
#include <imgui.h>

#include <utility>

namespace refreshlab::ui {

namespace {

/// The engine's session can be rewound to a step of this run.
bool in_session(const UiContext& ctx, RunKey run) {
    const EngineState state = ctx.status->state;
    const bool session =
        state == EngineState::running || state == EngineState::paused || state == EngineState::finished;
    return session && ctx.runs.live() == run && ctx.engine.recording() == ctx.runs.recording(run);
}

} // namespace

std::string why_no_branch(const UiContext& ctx, RunKey run, int64_t step) {
    const auto recording = ctx.runs.recording(run);
    if (!recording || recording->steps() == 0) return "The run has no step yet";
    if (ctx.status->state == EngineState::loading || ctx.status->state == EngineState::prefilling)
        return "The engine is starting a run";
    const int64_t newest = newest_reached(*recording);
    if (step > newest) return fmt::format("The run has the states of steps 0 to {}", newest);
    return {};
}

void branch_at(UiContext& ctx, RunKey run, int64_t step, std::optional<command::GiveTokens> give,
               bool goes_on) {
    const auto recording = ctx.runs.recording(run);
    if (!recording || !why_no_branch(ctx, run, step).empty()) return;
    command::Branch branch{.run_id = recording->info().id, .step = step, .goes_on = goes_on};
    if (give) branch.changes.emplace_back(std::move(*give));
    try {
        if (!in_session(ctx, run)) branch.recorded = rebuild_of(*recording, step);
    } catch (const Error& e) { // a trace's log that this version does not know
        ctx.toasts.add(Toasts::Level::error, e.what(), ImGui::GetTime());
        return;
    }
    ctx.engine.send(std::move(branch));
    ctx.runs.look_live();
    ctx.select_step(std::nullopt);
}

} // namespace refreshlab::ui
