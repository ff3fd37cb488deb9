#include "engine/base/error.h"
#include "engine/base/json_file.h"
#include "engine/control/cache_choice.h"
#include "engine/fetch/child_process.h"
#include "engine/record/recording/logged_config.h"
#include "ui/dialogs/dialogs.h"
#include "ui/scene/axes/signal_choice.h"
#include "ui/scene/axes/time_view.h"
#include "ui/shell/parts.h"
#include "ui/state/dialog.h"
#include "ui/state/keys.h"
#include "ui/state/shell_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <utility>

namespace refreshlab::ui {

namespace {

bool has_session(const UiContext& ctx) {
    const EngineState s = ctx.status->state;
    return s == EngineState::running || s == EngineState::paused;
}

/// Why the running decode cannot be steered now.
std::string why_no_session(const UiContext& ctx) {
    const std::string& message = ctx.status->message;
    switch (ctx.status->state) {
    case EngineState::idle: // it says what it lacks, if anything
        return message.empty() ? "No run yet: start one with \"New run...\"" : message;
    case EngineState::loading:
        return message.empty() ? "The models are still loading" : "Still " + message;
    case EngineState::prefilling:
        return "The prompt is still being read";
    case EngineState::finished:
        return "The run has finished: select a step and rewind, or start again";
    case EngineState::failed:
        return "The engine has failed: start again";
    default:
        return "";
    }
}

/// The step that "Rewind" would go to.
std::optional<int64_t> rewind_target(const UiContext& ctx) {
    if (!ctx.selection.step || ctx.steps == 0) return std::nullopt;
    return std::clamp<int64_t>(*ctx.selection.step, 1, ctx.steps);
}

void shift_selection(UiContext& ctx, int64_t by) {
    if (ctx.steps == 0) return;
    const int64_t step = std::max<int64_t>(1, ctx.shown_step() + by);
    // Stepping past the newest step means following it again.
    ctx.select_step(step >= ctx.steps && by > 0 ? std::nullopt : std::optional(std::min(step, ctx.steps)));
}

/// The step of the nearest refresh after or before the shown step.
std::optional<int64_t> refresh_beside(const UiContext& ctx, bool forward) {
    if (!ctx.recording || ctx.steps == 0) return std::nullopt;
    const auto& refreshes = ctx.recording->refreshes();
    const int64_t shown = ctx.shown_step();
    std::optional<int64_t> found;
    for (size_t i = 0, n = refreshes.size(); i < n && refreshes[i].step <= ctx.steps; ++i) {
        if (forward && refreshes[i].step > shown) return refreshes[i].step;
        if (!forward && refreshes[i].step < shown) found = refreshes[i].step;
    }
    return found;
}

/// It can refresh by itself.
bool refreshes(const RefreshPolicy& policy) {
    return std::ranges::any_of(policy.triggers, &Trigger::enabled);
}

std::string why_no_run(const UiContext& ctx) {
    return ctx.status->applied.prompt.empty() ? "No run yet: start one with \"New run...\"" : "";
}

/// Why there is no run to repeat with and without refreshes, or with other ones.
/// \param refreshes  there is a policy that would
std::string why_no_refreshes(const UiContext& ctx, bool refreshes) {
    if (std::string why = why_no_run(ctx); !why.empty()) return why;
    if (ctx.status->applied.mode != Mode::overfill) return "Only in mode overfill are there refreshes";
    return refreshes ? "" : "The policy refreshes nothing";
}

/// New run, play and pause, steps.
std::vector<Action> run_actions(ShellState& state) {
    std::vector<Action> list;
    list.push_back({"run.new", "Run", "New run...",
                    "Chooses prompt, models and settings and starts a new run.", ImGuiMod_Ctrl | ImGuiKey_N,
                    [&state](UiContext&) { state.dialog = make_new_run_dialog(state); }});
    list.push_back({"run.play_pause", "Run", "Play or pause",
                    "Starts the decode again, or stops it before the next step.", ImGuiKey_Space,
                    [&state](UiContext& ctx) {
                        const bool run = !state.running();
                        state.wanted_running = run;
                        if (run)
                            ctx.engine.send(command::Resume{});
                        else
                            ctx.engine.send(command::Pause{});
                    },
                    why_no_session, [&state](const UiContext&) { return state.running(); }});
    const auto step = [&state](UiContext& ctx, int32_t steps) {
        state.wanted_running = std::nullopt;
        ctx.engine.send(command::Step{steps});
    };
    list.push_back({"run.step", "Run", "Step", "Makes exactly one step, then pauses.", ImGuiKey_Period,
                    [step](UiContext& ctx) { step(ctx, 1); }, why_no_session});
    list.push_back(
        {"run.step_n", "Run", "Step N", "Makes the number of steps that stands in the run bar, then pauses.",
         ImGuiMod_Shift | ImGuiKey_Period,
         [step, &state](UiContext& ctx) { step(ctx, state.settings.steps_at_once); }, why_no_session});
    for (const bool faster : {false, true})
        list.push_back(
            {faster ? "run.faster" : "run.slower", "Run", faster ? "Twice as fast" : "Half as fast",
             "Changes how many tokens a second a run makes, 1 to 200, or as fast as it goes.",
             faster ? ImGuiKey_RightBracket : ImGuiKey_LeftBracket,
             [&state, faster](UiContext&) { state.set_pace(next_pace(state.settings.pace, faster)); },
             unless(
                 [&state, faster](const UiContext&) {
                     return next_pace(state.settings.pace, faster) != state.settings.pace;
                 },
                 faster ? "It runs at full speed already" : "One token a second is the slowest")});
    return list;
}

/// Of a window whose engine is a server's.
std::vector<Action> link_actions() {
    return {{"run.take_wheel", "Run", "Take the wheel",
             "From now on this window steers the engine, in place of another one, which is told.", 0,
             [](UiContext& ctx) { ctx.engine.take_wheel(); },
             [](const UiContext& ctx) {
                 const auto& link = ctx.status->link;
                 if (!link || !link->connected) return std::string("There is no connection to the server");
                 return link->driving ? std::string("This window steers the engine already") : std::string();
             }}};
}

/// Refresh, rewind, start again, stop.
std::vector<Action> course_actions(ShellState& state) {
    std::vector<Action> list;
    list.push_back(
        {"run.refresh_now", "Run", "Refresh now",
         "Replaces the student's recent cache entries by the teacher's, at the next step boundary.",
         ImGuiKey_R,
         [&state](UiContext& ctx) {
             state.refreshes_when_asked = ctx.recording ? ctx.recording->refreshes().size() : 0;
             ctx.engine.send(command::RefreshNow{});
         },
         [](const UiContext& ctx) {
             if (has_session(ctx) && ctx.status->applied.mode != Mode::overfill)
                 return std::string("Only in mode overfill are there two caches");
             return why_no_session(ctx);
         }});
    list.push_back(
        {"run.full_step_now", "Run", "Full step now",
         "At the next step every layer reads all that it holds, and chooses anew what it reads (RefreshKV).",
         ImGuiKey_K, [](UiContext& ctx) { ctx.engine.send(command::FullStepNow{}); },
         [](const UiContext& ctx) {
             if (has_session(ctx) && !has_full_steps(deciding_cache(ctx.status->applied)))
                 return std::string("Only the cache policy RefreshKV has full steps");
             return why_no_session(ctx);
         }});
    list.push_back({"run.rewind", "Run", "Rewind to the selected step",
                    "Goes back to the state of the selected step, as a new branch, and pauses there.",
                    ImGuiKey_Backspace,
                    [&state](UiContext& ctx) {
                        const auto target = rewind_target(ctx);
                        if (!target) return;
                        state.wanted_running = std::nullopt;
                        ctx.engine.send(command::Rewind{*target});
                        ctx.select_step(std::nullopt);
                    },
                    [&state](const UiContext& ctx) {
                        if (state.runs.away())
                            return std::string("The engine has another run: branch here in the panel Runs");
                        if (!rewind_target(ctx))
                            return std::string("Select a step first: click a token or a plot");
                        return ctx.status->state == EngineState::finished ? std::string()
                                                                          : why_no_session(ctx);
                    }});
    list.push_back({"run.restart", "Run", "Start again",
                    "Runs the same prompt from the beginning with the present settings.",
                    ImGuiMod_Ctrl | ImGuiKey_R,
                    [&state](UiContext& ctx) {
                        state.wanted_running = std::nullopt;
                        ctx.select_step(std::nullopt);
                        ctx.engine.send(command::StartRun{ctx.drafts.next_run()});
                    },
                    why_no_run});
    list.push_back(
        {"run.without_refresh", "Run", "Same run without refresh",
         "Runs the same prompt and seed again without any refresh, to compare; the next time with the policy "
         "again. B shows the run before.",
         ImGuiMod_Ctrl | ImGuiMod_Shift | ImGuiKey_R,
         [&state](UiContext& ctx) {
             RunConfig run = ctx.drafts.next_run();
             if (refreshes(run.policy)) {
                 state.put_aside = run.policy;
                 run.policy = preset_policy("none");
             } else {
                 run.policy = *state.put_aside;
                 state.put_aside.reset();
             }
             state.run_beside(run);
         },
         [&state](const UiContext& ctx) {
             return why_no_refreshes(ctx, refreshes(ctx.drafts.policy()) || state.put_aside);
         }});
    list.push_back(
        {"run.take_policy", "Run", "Take the policy of the shown run",
         "Replaces the present refresh policy by that of the shown run, as it was at its end, with its cards "
         "and thresholds. Undo restores the present one.",
         0, [](UiContext& ctx) { ctx.drafts.set_policy(ctx.engine, last_config(*ctx.recording).policy); },
         [](const UiContext& ctx) {
             if (!ctx.recording) return std::string("There is no recording yet");
             const bool same = last_config(*ctx.recording).policy == ctx.drafts.policy();
             return std::string(same ? "It is the present policy" : "");
         }});
    list.push_back(
        {"run.with_cache_policy", "Run", "Same prompt with another cache policy",
         "Runs the same prompt and seed from the beginning with the cache policy that is chosen in Policy. "
         "The present run "
         "stays, ticked in Runs, to compare.",
         ImGuiMod_Ctrl | ImGuiKey_K,
         [&state](UiContext& ctx) {
             if (!ctx.drafts.cache_waits(CacheOwner::teacher) &&
                 !ctx.drafts.cache_waits(CacheOwner::student)) {
                 state.open_panel("Policy"); // there it is chosen
                 return;
             }
             state.run_beside(ctx.drafts.next_run());
         },
         why_no_run});
    list.push_back({"run.compare_cache", "Run", "Compare with cache policy...",
                    "Runs the shown run's prompt again, with the same seed and settings and another cache "
                    "policy. Both are shown then: text, signals, cache.",
                    ImGuiMod_Ctrl | ImGuiMod_Shift | ImGuiKey_K,
                    [&state](UiContext&) { state.dialog = make_compare_cache_dialog(); },
                    [](const UiContext& ctx) {
                        return ctx.recording && !ctx.of_engine() ? std::string() : why_no_run(ctx);
                    }});
    list.push_back(
        {"run.verify", "Run", "Verify this threshold",
         "Runs the same prompt and seed again with the thresholds as they are now. The panel Runs shows the "
         "estimate from the shown run beside the outcome.",
         0,
         [&state](UiContext& ctx) {
             const RunConfig run = ctx.drafts.config();
             const auto shown = state.runs.looked_at();
             if (ctx.recording && ctx.steps > 0 && shown && ctx.recording->info().config.prompt == run.prompt)
                 state.runs.expect(estimate_run(ctx.recording, ctx.steps, run, state.runs.name(*shown)));
             state.run_beside(run);
         },
         [](const UiContext& ctx) { return why_no_refreshes(ctx, refreshes(ctx.drafts.policy())); }});
    list.push_back({"policy.own_signal", "Run", "Signal of your own...",
                    "Makes a new signal by arithmetic on others: runs record and plot it, and triggers can "
                    "use it. A recorded "
                    "run that is shown can have it too.",
                    0, [&state](UiContext&) { state.dialog = make_own_signal_dialog(state); },
                    [&state](const UiContext& ctx) {
                        return state.runs.away() && ctx.steps > 0 ? "" : why_no_refreshes(ctx, true);
                    }});
    list.push_back(
        {"run.stop", "Run", "Stop", "Ends the run, or the loading of a model; what is recorded stays.",
         ImGuiMod_Ctrl | ImGuiKey_Period, [](UiContext& ctx) { ctx.engine.send(command::Stop{}); },
         unless(
             [](const UiContext& ctx) {
                 const EngineState s = ctx.status->state;
                 return has_session(ctx) || s == EngineState::loading || s == EngineState::prefilling;
             },
             "Nothing is running")});
    return list;
}

std::vector<Action> selection_actions(ShellState& state) {
    const auto why_no_steps =
        unless([](const UiContext& ctx) { return ctx.steps > 0; }, "There are no steps yet");
    std::vector<Action> list;
    list.push_back({"select.previous", "View", "Previous step", "Selects the step before, in every panel.",
                    ImGuiKey_LeftArrow, [](UiContext& ctx) { shift_selection(ctx, -1); }, why_no_steps});
    list.push_back({"select.next", "View", "Next step", "Selects the step after, in every panel.",
                    ImGuiKey_RightArrow, [](UiContext& ctx) { shift_selection(ctx, 1); }, why_no_steps});
    for (const bool forward : {true, false})
        list.push_back(
            {forward ? "select.next_refresh" : "select.previous_refresh", "View",
             forward ? "Next refresh" : "Previous refresh",
             forward ? "Selects the step of the next refresh, in every panel."
                     : "Selects the step of the refresh before, in every panel.",
             forward ? static_cast<ImGuiKeyChord>(ImGuiKey_N) : ImGuiMod_Shift | ImGuiKey_N,
             [forward](UiContext& ctx) {
                 if (const auto step = refresh_beside(ctx, forward)) ctx.select_step(*step);
             },
             unless([forward](const UiContext& ctx) { return refresh_beside(ctx, forward).has_value(); },
                    forward ? "No refresh after the shown step" : "No refresh before the shown step")});
    list.push_back({"note.edit", "Edit", "Note...",
                    "Writes a note beside the shown step, or opens the one that stands there.", ImGuiKey_M,
                    [&state](UiContext&) { state.dialog = make_note_dialog(state); }, why_no_steps});
    list.push_back({"text.find", "Edit", "Find in the text...", "Finds words in the generated text.",
                    ImGuiMod_Ctrl | ImGuiKey_F,
                    [&state](UiContext& ctx) {
                        ctx.find_in_text = true;
                        state.open_panel("Text");
                    },
                    why_no_steps});
    list.push_back({"select.live", "View", "Newest step", "Drops the selection: panels show the newest step.",
                    ImGuiKey_L, [](UiContext& ctx) { ctx.select_step(std::nullopt); }, why_no_steps,
                    [](const UiContext& ctx) { return ctx.live(); }});
    list.push_back(
        {"select.play_back", "View", "Play back",
         "Moves the selected step on by itself, or pauses; speed and loop stand in the Timeline.", ImGuiKey_P,
         [](UiContext& ctx) {
             if (ctx.playback.playing()) return ctx.playback.stop();
             const auto [first, last] = played_steps(ctx.time, ctx.playback.loop, ctx.steps);
             ctx.select_step(ctx.playback.start(ctx.shown_step(), first, last));
         },
         unless([](const UiContext& ctx) { return ctx.steps > 1; }, "There are no steps to play back yet"),
         [](const UiContext& ctx) { return ctx.playback.playing(); }});
    list.push_back({"view.follow",
                    "View",
                    "Follow the newest step",
                    "Keeps the newest step in sight in all time plots.",
                    ImGuiKey_End,
                    [](UiContext& ctx) { ctx.time.follow = true; },
                    {},
                    [](const UiContext& ctx) { return ctx.time.follow; }});
    list.push_back({"view.fit", "View", "Fit the whole run", "Shows all steps in all time plots.", ImGuiKey_F,
                    [](UiContext& ctx) {
                        ctx.time.follow = false;
                        ctx.time.seen_steps = ctx.steps;
                        ctx.time.fit_request = true;
                    },
                    why_no_steps});
    static_cast<void>(state);
    return list;
}

std::vector<Action> edit_actions(ShellState&) {
    std::vector<Action> list;
    list.push_back(
        {"edit.undo", "Edit", "Undo", "Undoes the last change, of a parameter or of what a panel shows.",
         ImGuiMod_Ctrl | ImGuiKey_Z, [](UiContext& ctx) { ctx.drafts.undo(ctx.engine); },
         unless([](const UiContext& ctx) { return ctx.drafts.can_undo(); }, "Nothing has been changed")});
    list.push_back(
        {"edit.redo", "Edit", "Redo", "Makes the change again that was undone.",
         ImGuiMod_Ctrl | ImGuiMod_Shift | ImGuiKey_Z, [](UiContext& ctx) { ctx.drafts.redo(ctx.engine); },
         unless([](const UiContext& ctx) { return ctx.drafts.can_redo(); }, "Nothing has been undone")});
    return list;
}

/// Why there is nothing that "Export plotted values..." could write; empty where there is.
std::string why_nothing_plotted(const ShellState& state, const UiContext& ctx) {
    if (!ctx.recording || ctx.steps == 0) return "There is no recording yet";
    const auto panel = state.panel_open.find("Signals");
    if (panel == state.panel_open.end() || !panel->second)
        return "The panel Signals is closed: open it under View > Panels";
    if (plotted_signals(ctx.views.signals, ctx.signals()).empty()) return "No signal is chosen in Signals";
    if (steps_in_sight(ctx.time, ctx.steps).count() < 1)
        return "Signals shows no step: View > Fit the whole run";
    return {};
}

/// The X clipboard belongs to a program for as long as it runs: xclip takes it over and lives on by itself. Removes the file.
void put_on_clipboard(const std::filesystem::path& file, const std::function<bool()>& go_on) {
    // xclip's child would hold our pipe open.
    const ChildResult done = run_child(
        {"sh", "-c", "exec xclip -selection clipboard -t image/png -i \"$0\" >/dev/null 2>&1", file.string()},
        {}, go_on);
    std::error_code error;
    std::filesystem::remove(file, error);
    if (done.stopped || done.status == 0) return;
    throw Error("copying a picture", "",
                done.status == 127 ? "the program xclip is not there" : "xclip could not reach the X server",
                done.status == 127 ? "install it, or save the picture" : "save the picture instead",
                ErrorKind::failure);
}

/// Draws it into a file, which a program that keeps it for others to paste reads.
void copy_picture(ShellState& state) {
    namespace fs = std::filesystem;
    const fs::path file = temporary_beside(fs::temp_directory_path() / "refreshlab.png");
    state.ctx.host.save_picture(
        {file, "", 2, [file, &state](const std::exception* fault) {
             if (fault != nullptr) return state.say(Toasts::Level::error, fault->what());
             state.start_job("Copying the picture", [file, &state](const std::atomic<bool>& cancelled) {
                 put_on_clipboard(file, [&] { return !cancelled; });
                 return std::function<void()>([&state] { state.say(Toasts::Level::info, "Picture copied"); });
             });
         }});
    state.ctx.host.keep_awake(0.5);
}

std::vector<Action> file_actions(ShellState& state) {
    const auto why_no_recording = unless([](const UiContext& ctx) { return ctx.recording && ctx.steps > 0; },
                                         "There is no recording yet");
    std::vector<Action> list;
    list.push_back({"file.open_trace", "File", "Open trace...", "Shows a recorded run from a file.",
                    ImGuiMod_Ctrl | ImGuiKey_O,
                    [&state](UiContext&) { state.dialog = make_open_trace_dialog(state); }});
    list.push_back({"file.open_table", "File", "Open table...",
                    "Shows a CSV file as a table and a plot: a table of a study or a sweep, or the losses of "
                    "a training, which are followed while it goes on.",
                    0, [&state](UiContext&) { state.dialog = make_open_table_dialog(state); }});
    list.push_back({"file.open_workspace", "File", "Open workspace...",
                    "Opens the traces of a workspace file, with its layout, views and policy.",
                    ImGuiMod_Ctrl | ImGuiMod_Shift | ImGuiKey_O,
                    [&state](UiContext&) { state.dialog = make_open_workspace_dialog(state); }});
    list.push_back(
        {"file.clear_recent", "File/Open recent", "Clear the list",
         "Forgets the files that were opened last; the files stay.", 0,
         [&state](UiContext& ctx) {
             state.recent.clear();
             ctx.recent_files.clear();
         },
         unless([](const UiContext& ctx) { return !ctx.recent_files.empty(); }, "The list is empty")});
    list.push_back(
        {"file.close_trace", "File", "Close trace",
         "Goes back to the engine's own run; the panel Runs keeps the trace.", 0,
         [&state](UiContext& ctx) {
             state.runs.look_live();
             ctx.select_step(std::nullopt);
         },
         unless([&state](const UiContext&) { return state.runs.away() != nullptr; }, "No trace is open")});
    list.push_back({"file.save_trace", "File", "Save trace...",
                    "Saves the recording that is shown, to open it again later.", ImGuiMod_Ctrl | ImGuiKey_S,
                    [&state](UiContext&) { state.dialog = make_save_trace_dialog(state); },
                    why_no_recording});
    list.push_back({"file.save_runs", "File", "Save all runs...",
                    "Saves every run of the panel Runs into one trace; opened again they are the same tree.",
                    0, [&state](UiContext&) { state.dialog = make_save_runs_dialog(state); },
                    why_no_recording});
    list.push_back(
        {"file.save_prompt_cache", "File", "Save the prompt's cache...",
         "Saves keys and values of the prompt that the engine's run has read; other runs continue from "
         "them.",
         0, [&state](UiContext&) { state.dialog = make_save_prompt_cache_dialog(state); }, why_no_run});
    list.push_back({"file.from_prompt_cache", "File", "Continue from a saved cache...",
                    "Starts a run from a prompt's saved cache: the prompt is not read again.", 0,
                    [&state](UiContext&) { state.dialog = make_from_prompt_cache_dialog(state); },
                    why_no_run});
    list.push_back({"file.run_before", "File", "Show the other run",
                    "Shows the next run that is ticked in Runs, or the run before if none is ticked; again "
                    "goes back. Step and view stay, so that Cache and Attention of two runs can be compared.",
                    ImGuiKey_B,
                    [&state](UiContext&) {
                        if (const auto other = state.runs.other()) state.runs.look_at(*other);
                    },
                    unless([&state](const UiContext&) { return state.runs.other().has_value(); },
                           "There is no other run yet"),
                    [&state](const UiContext&) { return state.runs.away() != nullptr; }});
    list.push_back({"file.save_workspace", "File", "Save workspace",
                    "Saves what is open, ticked and shown, under the name of the last time.",
                    ImGuiMod_Ctrl | ImGuiMod_Shift | ImGuiKey_S,
                    [&state](UiContext&) { save_workspace(state); }});
    list.push_back({"file.save_workspace_as", "File", "Save workspace as...",
                    "Saves what is open, ticked and shown, to open it again later.", 0,
                    [&state](UiContext&) { state.dialog = make_save_workspace_dialog(state); }});
    list.push_back({"export.picture", "File", "Save picture...", "Saves a PNG of the window or of one panel.",
                    ImGuiMod_Ctrl | ImGuiMod_Shift | ImGuiKey_E,
                    [&state](UiContext&) { state.dialog = make_picture_dialog(state); }});
    list.push_back({"export.copy_picture", "File", "Copy picture",
                    "Copies a PNG of the window, at twice its size, to the clipboard (by xclip).",
                    ImGuiMod_Ctrl | ImGuiMod_Shift | ImGuiKey_X,
                    [&state](UiContext&) { copy_picture(state); }});
    list.push_back({"export.figure", "File", "Export figure...",
                    "Draws what a panel shows as a figure for a paper: SVG, PDF or PNG, with its numbers.",
                    ImGuiMod_Ctrl | ImGuiMod_Shift | ImGuiKey_F,
                    [&state](UiContext&) { state.dialog = make_figure_dialog(state); },
                    [why_no_recording](const UiContext& ctx) {
                        return ctx.tables.shown() ? std::string() : why_no_recording(ctx);
                    }});
    list.push_back({"export.csv", "File", "Export CSV...",
                    "Writes steps, candidates, events and drift as CSV files.",
                    ImGuiMod_Ctrl | ImGuiMod_Shift | ImGuiKey_C,
                    [&state](UiContext&) { state.dialog = make_csv_dialog(state); }, why_no_recording});
    list.push_back({"export.plotted", "File", "Export plotted values...",
                    "Writes what Signals shows now, the steps in sight of its signals, as one CSV file.", 0,
                    [&state](UiContext&) { state.dialog = make_plotted_dialog(state); },
                    [&state](const UiContext& ctx) { return why_nothing_plotted(state, ctx); }});
    list.push_back({"app.settings", "File", "Settings...",
                    "How the window looks, where things are kept and how much of them, and every key.",
                    ImGuiMod_Ctrl | ImGuiKey_Comma,
                    [&state](UiContext&) { state.dialog = make_settings_dialog(state); }});
    list.push_back({"app.quit", "File", "Quit",
                    "Ends the program; asks first about a run that is in no file.",
                    ImGuiMod_Ctrl | ImGuiKey_Q, [&state](UiContext&) { quit(state); }});
    return list;
}

} // namespace

std::vector<Action> make_actions(ShellState& state) {
    std::vector<Action> all;
    for (auto* make : {&run_actions, &course_actions, &make_landscape_actions, &selection_actions,
                       &edit_actions, &file_actions, &make_window_actions, &make_help_actions})
        for (Action& action : make(state))
            all.push_back(std::move(action));
    if (state.options.remote)
        for (Action& action : link_actions())
            all.push_back(std::move(action));
    for (Action& action : all)
        action.usual_shortcut = action.shortcut;
    apply_keys(all, state.settings.keys);
    return all;
}

} // namespace refreshlab::ui
