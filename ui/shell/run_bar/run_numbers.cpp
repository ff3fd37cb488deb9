#include "ui/shell/run_bar/run_numbers.h"

#include "engine/base/bytes_text.h"
#include "ui/base/colour.h"
#include "ui/base/format.h"
#include "ui/base/value_format.h"
#include "ui/scene/series/series_set.h"
#include "ui/state/shell_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace refreshlab::ui {

std::vector<Number> run_numbers(const ShellState& state) {
    const UiContext& ctx = state.ctx;
    std::vector<Number> numbers;
    const auto add = [&](int rank, std::string text, std::string help, Colour colour, const char* widest) {
        const float width = std::max(ImGui::CalcTextSize(text.c_str()).x, ImGui::CalcTextSize(widest).x);
        numbers.push_back({rank, {{std::move(text), colour}}, std::move(help), width});
    };
    if (const auto& link = ctx.status->link; link && !link->connected)
        add(0, fmt::format("no connection to {}", link->server),
            link->problem +
                ". What has come stays, the run goes on there, and the window tries again by itself" +
                (link->notes_to_send > 0 ? ". Notes of now are kept here and sent then" : ""),
            ctx.theme.text_error, "");
    else if (link && !link->driving)
        add(2, fmt::format("{} drives", link->driver), "Another window steers the engine of this server",
            ctx.theme.text_muted, "");
    else if (link && link->rows_to_come > 0)
        add(16, fmt::format("{} rows to come", format_thousands(link->rows_to_come)),
            fmt::format("Attention rows and drift maps that the link has not carried yet, {}; what is looked "
                        "at comes first",
                        bytes_text(link->bytes_to_come)),
            ctx.theme.text_muted, "000 rows to come");
    const int32_t max_tokens = ctx.recording && state.runs.away() ? ctx.recording->info().config.max_tokens
                                                                  : ctx.status->applied.max_tokens;
    const std::string all = format_thousands(std::max<int64_t>(max_tokens, ctx.steps));
    add(4, fmt::format("step {} / {}", format_thousands(ctx.shown_step()), all),
        ctx.live() ? "The newest step and the tokens asked for"
                   : "The selected step and the tokens asked for",
        ctx.theme.text, fmt::format("step {0} / {0}", all).c_str());
    if (!ctx.recording) return numbers;
    const bool refreshing =
        ctx.recording->info().config.mode == Mode::overfill; // else there is nothing to count
    const size_t refreshes = ctx.recording->refreshes().size();
    if (refreshing)
        add(8, format_count(static_cast<int64_t>(refreshes), "refresh"), "Splices so far, by hand included",
            ctx.theme.accent_ink, "00 refreshes");
    if (const auto score = ctx.signal_id("task_score");
        score && ctx.steps > 0 && !ctx.recording->info().config.task.kind.empty()) {
        const VerdictCount count = count_verdicts(*ctx.recording, ctx.steps, *score);
        const std::string help = "Words of the bundled task " + ctx.recording->info().config.task.kind +
                                 " so far; the Text panel colours them by Task score";
        add(8, fmt::format("{} right", format_thousands(count.yes)), help, ctx.theme.text_ok, "00 right");
        numbers.back().words.emplace_back(fmt::format("{} wrong", format_thousands(count.no)),
                                          count.no > 0 ? ctx.theme.text_error : ctx.theme.text_muted);
        numbers.back().width += ImGui::GetFontSize() * Number::apart_em +
                                std::max(ImGui::CalcTextSize(numbers.back().words.back().first.c_str()).x,
                                         ImGui::CalcTextSize("00 wrong").x);
    }
    const double tps = state.runs.away() ? 0 : ctx.status->tokens_per_second;
    if (tps > 0)
        add(13, fmt::format("{} tokens/s", format_number(tps)), "Decode speed over the last 64 tokens",
            ctx.theme.text, "0000 tokens/s");
    if (refreshing && ctx.steps > 0)
        add(14,
            fmt::format("{} per 1,000", format_number(1000.0 * static_cast<double>(refreshes) /
                                                      static_cast<double>(ctx.steps))),
            "Refreshes per 1,000 tokens", ctx.theme.text_muted, "00.0 per 1,000");
    if (refreshing && state.decode_ms > 0)
        add(15, fmt::format("+{} % time", format_number(100 * state.refresh_ms / state.decode_ms)),
            "Time of teacher passes and splices against the rest of the decode", ctx.theme.text_muted,
            "+00.0 % time");
    return numbers;
}

namespace {

std::optional<double> known_fraction(const Job& job) {
    if (!job.outcome || job.outcome->fraction < 0) return std::nullopt;
    return job.outcome->fraction;
}

} // namespace

std::vector<Progress> run_progress(ShellState& state) {
    constexpr double patience = 0.2; // seconds
    const EngineStatus& status = *state.ctx.status;
    const double now = ImGui::GetTime();
    const bool busy = status.state == EngineState::loading || status.state == EngineState::prefilling;
    if (!busy)
        state.busy_since_s = -1;
    else if (state.busy_since_s < 0)
        state.busy_since_s = now;
    std::vector<Progress> list;
    // "New run" shows its own start.
    if (busy && now - state.busy_since_s > patience && !state.refusals_in_dialog)
        list.push_back({static_cast<float>(std::clamp(status.progress, 0.0, 1.0)),
                        status.message.empty() ? std::string(to_string(status.state)) : status.message,
                        [&state] { state.run("run.stop"); }});
    for (size_t i = 0; i < state.jobs.size(); ++i)
        if (const Job& job = state.jobs[i]; now - job.started_s >= patience)
            list.push_back({static_cast<float>(known_fraction(job).value_or(-now)), job.label,
                            [flag = job.cancelled] { *flag = true; }, static_cast<int>(i)});
    if (!list.empty()) state.ctx.host.keep_awake(0.3);
    return list;
}

} // namespace refreshlab::ui
