// What the shell does with the engine at the start of a frame: snapshot, log lines, jobs, playing back.
#include "engine/base/error.h"
#include "ui/base/value_format.h"
#include "ui/panels/panel.h"
#include "ui/scene/axes/time_view.h"
#include "ui/scene/policy/command_words.h"
#include "ui/shell/shell_impl.h"
#include "ui/state/shell_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace refreshlab::ui {

void Shell::Impl::begin_frame() {
    follower.tend(state);
    UiContext& ctx = state.ctx;
    ctx.status = ctx.engine.status();
    const auto live = ctx.engine.recording();
    if (live && !state.runs.live() && state.options.starts_a_run && live->info().parent_id.empty())
        state.own_run = live->info().id;
    state.runs.update(live);
    const auto away = state.runs.away();
    ctx.recording = away ? away : live;
    const int64_t steps_before = std::exchange(ctx.steps, ctx.recording ? ctx.recording->steps() : 0);
    if (const auto em = static_cast<double>(ImGui::GetFontSize());
        ctx.screen_style.text_pt != em || ctx.screen_style.theme.name != ctx.theme.name)
        ctx.screen_style = screen_style(ctx.theme, em);
    ctx.hovered_step = std::exchange(ctx.next_hovered_step, std::nullopt);
    ctx.landmarks.clear();
    ctx.unfinished = false;
    ctx.drafts.begin_frame(*ctx.status);
    if (ctx.recording == last_recording)
        ctx.steps_jumped += std::max<int64_t>(0, ctx.steps - steps_before - 1);
    else
        begin_recording();
    if (state.wanted_step && ctx.recording && ctx.recording->info().id == state.wanted_step->first) {
        ctx.select_step(std::min(state.wanted_step->second, ctx.steps));
        state.wanted_step.reset();
    }
    if (ctx.recording) ctx.marks.update(ctx.recording, ctx.steps);
}

/// Another recording is shown than in the last frame: another run, a branch, a file.
void Shell::Impl::begin_recording() {
    UiContext& ctx = state.ctx;
    // What a branch or a file brings along was not made before the eyes of anybody.
    ctx.steps_jumped = 0;
    // A rewind keeps what was selected as far as the branch has it; another run starts afresh.
    const bool branch =
        ctx.recording && last_recording && ctx.recording->info().parent_id == last_recording->info().id;
    const bool flipped = state.runs.take_flip();
    if (!branch && !flipped && last_recording)
        ctx.selection = {};
    else if (ctx.selection.step && *ctx.selection.step > ctx.steps)
        ctx.selection.step.reset();
    ctx.hovered_step.reset();
    ctx.playback.stop();
    ctx.marks.clear();
    if (!flipped) {
        ctx.time.follow = true;
        ctx.time.seen_steps = 0;
    }
    state.refreshes_when_asked.reset();
    state.counted_steps = 0;
    // Commands that a branch shares with its parent are in the log already; those of an opened trace come too late.
    logged_commands = !ctx.recording      ? 0
                      : state.runs.away() ? ctx.recording->commands().size()
                      : branch            ? ctx.recording->inherited().commands
                                          : 0;
    state.decode_ms = state.refresh_ms = 0;
    last_recording = ctx.recording;
    for (const auto& panel : state.panels)
        state.guarded([&] { panel->recording_changed(ctx); });
    view_undo.accept(state);
}

/// The selected step moves on by itself.
void Shell::Impl::play_back() {
    UiContext& ctx = state.ctx;
    if (!ctx.playback.playing() || ctx.steps == 0) return;
    const auto [first, last] = played_steps(ctx.time, ctx.playback.loop, ctx.steps);
    const auto step =
        ctx.playback.advance(ctx.selection.step, static_cast<double>(ImGui::GetIO().DeltaTime), first, last);
    if (!step) return;
    ctx.select_step(*step);
    if (!ctx.time.follow && !ctx.playback.loop) reveal_step(ctx.time, *step, ctx.steps);
    ctx.host.keep_awake(0.3);
}

void Shell::Impl::count_times() {
    const UiContext& ctx = state.ctx;
    if (!ctx.recording) return;
    for (; state.counted_steps < ctx.steps; ++state.counted_steps) {
        const StepRecord& record = ctx.recording->step(state.counted_steps + 1);
        for (size_t part = 0; part < num_parts; ++part) {
            const auto which = static_cast<Part>(part);
            const bool refresh =
                which == Part::teacher_pass || which == Part::splice || which == Part::redraw;
            (refresh ? state.refresh_ms : state.decode_ms) += static_cast<double>(record.part_ms[part]);
        }
    }
}

/// The connection to a server's engine: it goes and comes, another window takes the wheel. What is looked at is asked for first.
void Shell::Impl::watch_link() {
    UiContext& ctx = state.ctx;
    const auto& link = ctx.status->link;
    if (!link) return;
    if (!std::exchange(ctx.wants_offers, false))
        offers.reset(); // the next panel gets the files of its time
    else if (!offers)
        offers.emplace(state);
    ctx.offers = offers ? offers->look() : nullptr;
    if (ctx.recording && ctx.steps > 0)
        ctx.engine.look_at(*ctx.recording, ctx.recording->prompt_length() + ctx.shown_step() - 1);
    const RemoteLink before = last_link.value_or(RemoteLink{.server = link->server});
    if (last_link == link) return;
    last_link = link;
    if (!link->connected && before.connected)
        state.say(Toasts::Level::warning, fmt::format("The connection to {} is lost ({}); what has come "
                                                      "stays, and the window tries again by itself",
                                                      link->server, link->problem));
    if (link->connected && !before.connected)
        state.say(Toasts::Level::info, link->problem.empty()
                                           ? fmt::format("The connection to {} is there again", link->server)
                                           : link->problem);
    if (link->connected && before.driving && !link->driving)
        state.say(Toasts::Level::warning, fmt::format("{} drives this engine now", link->driver));
}

void Shell::Impl::watch_engine() {
    watch_link();
    const EngineStatus& status = *state.ctx.status;
    if (state.wanted_running) {
        const bool now = status.state == EngineState::running;
        const bool settled = now || status.state == EngineState::paused;
        if (!settled || now == *state.wanted_running) state.wanted_running.reset();
    }
    if (status.state != last_state) tell_state();
    if (status.errors != last_errors) tell_refusals();
    if (state.ctx.recording) {
        const auto& commands = state.ctx.recording->commands();
        const Drafts& drafts = state.ctx.drafts;
        for (const size_t size = commands.size(); logged_commands < size; ++logged_commands) {
            // A drag sends many values and is one line: that of the value it ends with.
            const std::string key = set_key(commands[logged_commands]);
            if (!key.empty()) {
                if (key == drafts.edited_key() || drafts.pending(key)) break;
                if (logged_commands + 1 < size && set_key(commands[logged_commands + 1]) == key) continue;
            }
            if (reads_attention(commands[logged_commands])) {
                ++rows_read;
                row_read_s = ImGui::GetTime();
                continue;
            }
            log_rows_read();
            state.say(Toasts::Level::info, describe(commands[logged_commands]), false);
        }
        constexpr double together_s = 1; // rows that come one after the other are one line
        if (rows_read > 0 && ImGui::GetTime() - row_read_s > together_s) log_rows_read();
        if (rows_read > 0) state.ctx.host.keep_awake(together_s);
    }
    show_again();
    if (status.trace_error != last_trace_error) {
        if (!status.trace_error.empty()) state.say(Toasts::Level::error, status.trace_error);
        last_trace_error = status.trace_error;
    }
}

void Shell::Impl::log_rows_read() {
    const int64_t rows = std::exchange(rows_read, 0);
    if (rows > 0) state.say(Toasts::Level::info, "attention read again: " + format_count(rows, "row"), false);
}

/// At the first start the demonstration begins anew, until somebody touches a key or a button.
void Shell::Impl::show_again() {
    UiContext& ctx = state.ctx;
    const bool over = ctx.first_start_hints && state.options.starts_a_run && ctx.of_engine() &&
                      ctx.recording && ctx.status->state == EngineState::finished &&
                      ctx.recording->info().id == state.own_run;
    if (!over) {
        over_since = -1;
        return;
    }
    constexpr double rest_s = 4; // to read how it ended
    if (over_since < 0) over_since = ImGui::GetTime();
    ctx.host.keep_awake(1);
    if (ImGui::GetTime() - over_since < rest_s) return;
    over_since = -1;
    state.runs.forget_live_when_left();
    ctx.engine.send(command::StartRun{ctx.drafts.next_run()});
}

/// The engine is in another state: a log line, and a toast where it failed.
void Shell::Impl::tell_state() {
    const EngineStatus& status = *state.ctx.status;
    if (status.state == EngineState::failed) {
        state.say(Toasts::Level::error,
                  status.message +
                      (status.message.find("Start again") == std::string::npos
                           ? "; the recording is kept, \"Start again\" in the run bar tries once more"
                           : ""));
    } else if (status.state == EngineState::finished) {
        state.say(Toasts::Level::info,
                  fmt::format("Run finished after {}: {}", format_count(state.ctx.steps, "step"),
                              stop_text(status.stop_reason)),
                  false);
    } else if (status.state == EngineState::running && last_state != EngineState::paused) {
        state.say(Toasts::Level::info,
                  fmt::format("Decoding: {} asked for, policy {}, seed {}",
                              format_count(status.applied.max_tokens, "token"), status.applied.policy.name,
                              status.applied.seed),
                  false);
    }
    last_state = status.state;
}

/// Refused commands, in order, so that the cause stands before what only follows from it. A failure of the engine is told
/// with its state, and with what helps; a refused command leaves its state as it was.
void Shell::Impl::tell_refusals() {
    const EngineStatus& status = *state.ctx.status;
    const uint64_t news = std::min<uint64_t>(status.errors - last_errors, status.refusals.size());
    for (size_t i = status.refusals.size() - news; i < status.refusals.size(); ++i) {
        const std::string& refusal = status.refusals[i];
        const bool told = status.state == EngineState::failed && refusal == status.message;
        if (!told && !refusal.empty()) state.say(Toasts::Level::error, refusal, !state.refusals_in_dialog);
    }
    last_errors = status.errors;
}

void Shell::Impl::finish_jobs() {
    for (size_t i = 0; i < state.jobs.size();) {
        Job& job = state.jobs[i];
        if (job.result.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
            ++i;
            continue;
        }
        Job done = std::move(job);
        state.jobs.erase(state.jobs.begin() + static_cast<std::ptrdiff_t>(i));
        finish(done);
    }
}

void Shell::Impl::finish(Job& job) {
    WorkOutcome* outcome = job.outcome && !job.outcome->abandoned ? job.outcome.get() : nullptr;
    const auto failed = [&](const std::string& whole, const std::string& brief) {
        state.say(Toasts::Level::error, whole, outcome == nullptr);
        if (outcome) outcome->fault = brief;
    };
    try {
        const auto then = job.result.get();
        if (!*job.cancelled && then) then();
    } catch (const Error& e) {
        failed(e.what(), e.problem() + (e.hint().empty() ? "" : "; " + e.hint()));
    } catch (const std::exception& e) {
        failed(e.what(), e.what());
    }
    if (outcome) outcome->done = true;
}

} // namespace refreshlab::ui
