#include "ui/format.h"
#include "ui/plot/value_format.h"
#include "ui/shell_state.h"
#include "ui/widgets.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace refreshlab::ui {

namespace {

enum class Icon { none, play, pause, step, refresh };

void draw_icon(Icon icon, ImVec2 centre, float size, ImU32 colour) {
    ImDrawList& draw = *ImGui::GetWindowDrawList();
    const float h = size * 0.5F;
    switch (icon) {
    case Icon::none:
        break;
    case Icon::play:
        draw.AddTriangleFilled(ImVec2(centre.x - h * 0.75F, centre.y - h),
                               ImVec2(centre.x - h * 0.75F, centre.y + h), ImVec2(centre.x + h, centre.y),
                               colour);
        break;
    case Icon::pause:
        draw.AddRectFilled(ImVec2(centre.x - h * 0.8F, centre.y - h),
                           ImVec2(centre.x - h * 0.2F, centre.y + h), colour, 1);
        draw.AddRectFilled(ImVec2(centre.x + h * 0.2F, centre.y - h),
                           ImVec2(centre.x + h * 0.8F, centre.y + h), colour, 1);
        break;
    case Icon::step:
        draw.AddTriangleFilled(ImVec2(centre.x - h * 0.8F, centre.y - h),
                               ImVec2(centre.x - h * 0.8F, centre.y + h),
                               ImVec2(centre.x + h * 0.4F, centre.y), colour);
        draw.AddRectFilled(ImVec2(centre.x + h * 0.5F, centre.y - h),
                           ImVec2(centre.x + h * 0.9F, centre.y + h), colour, 1);
        break;
    case Icon::refresh: {
        constexpr float pi = 3.14159265F;
        draw.PathArcTo(centre, h * 0.85F, -pi * 0.35F, pi * 1.35F, 20);
        draw.PathStroke(colour, std::max(1.2F, size * 0.15F));
        const ImVec2 tip(centre.x + h * 0.85F * std::cos(-pi * 0.35F),
                         centre.y + h * 0.85F * std::sin(-pi * 0.35F));
        draw.AddTriangleFilled(ImVec2(tip.x - h * 0.75F, tip.y - h * 0.15F),
                               ImVec2(tip.x + h * 0.35F, tip.y - h * 0.55F),
                               ImVec2(tip.x + h * 0.2F, tip.y + h * 0.6F), colour);
        break;
    }
    }
}

struct ButtonLook {
    Icon icon = Icon::none;
    bool accent = false;
    bool pending = false; ///< hollow: asked for, not done yet
    float min_width = 0;  ///< so that a changing label does not move its neighbours
};

/// A button for one action of the table; `label` may say more than the table does ("Rewind to 171").
void action_button(ShellState& state, const char* id, const std::string& label, const ButtonLook& look) {
    const Action* action = state.find_action(id);
    if (!action) return;
    UiContext& ctx = state.ctx;
    const ImGuiStyle& style = ImGui::GetStyle();
    const float em = ImGui::GetFontSize(), icon_width = look.icon == Icon::none ? 0 : em * 1.25F;
    const bool enabled = ShellState::enabled(*action, ctx);
    const float width = std::max(look.min_width, ImGui::CalcTextSize(label.c_str()).x + icon_width +
                                                     style.FramePadding.x * 2.4F);
    const bool filled = look.accent && !look.pending;
    ImU32 ink = ctx.theme.text;
    int colours = 0;
    if (look.accent) {
        const ImU32 base = filled ? ctx.theme.accent : with_alpha(ctx.theme.accent, 0.12F);
        ImGui::PushStyleColor(ImGuiCol_Button, base);
        ImGui::PushStyleColor(ImGuiCol_ButtonHovered, mix(base, IM_COL32_WHITE, 0.15F));
        ImGui::PushStyleColor(ImGuiCol_ButtonActive, mix(base, IM_COL32_BLACK, 0.12F));
        colours = 3;
        ink = filled ? ctx.theme.accent_text : ctx.theme.accent_ink;
    }
    ImGui::BeginDisabled(!enabled);
    if (ImGui::Button(fmt::format("###{}", id).c_str(), ImVec2(width, 0))) state.run(*action);
    ImGui::PopStyleColor(colours);
    const ImVec2 low = ImGui::GetItemRectMin(), high = ImGui::GetItemRectMax();
    const float alpha = enabled ? 1.0F : style.DisabledAlpha;
    const ImU32 colour = with_alpha(ink, alpha);
    const float text_width = ImGui::CalcTextSize(label.c_str()).x;
    float x = low.x + (high.x - low.x - text_width - icon_width) * 0.5F;
    if (look.icon != Icon::none)
        draw_icon(look.icon, ImVec2(x + em * 0.4F, (low.y + high.y) * 0.5F), em * 0.72F, colour);
    x += icon_width;
    ImGui::GetWindowDrawList()->AddText(ImVec2(x, low.y + style.FramePadding.y), colour, label.c_str());
    if (look.accent && look.pending)
        ImGui::GetWindowDrawList()->AddRect(low, high, ctx.theme.accent, style.FrameRounding, 1.5F);
    ImGui::EndDisabled();
    if (ImGui::IsItemHovered(ImGuiHoveredFlags_ForTooltip | ImGuiHoveredFlags_AllowWhenDisabled)) {
        const std::string keys = shortcut_text(action->shortcut);
        if (!enabled && action->why_disabled)
            ImGui::SetTooltip("%s", action->why_disabled(ctx).c_str());
        else if (keys.empty())
            ImGui::SetTooltip("%s", action->help.c_str());
        else
            ImGui::SetTooltip("%s\n%s", action->help.c_str(), keys.c_str());
    }
    const char* name = std::string_view(id).find('.') == std::string_view::npos
                           ? id
                           : id + std::string_view(id).find('.') + 1;
    ctx.landmarks.set(fmt::format("runbar/{}", name), {low.x, low.y, high.x - low.x, high.y - low.y});
}

void separator_gap() {
    ImGui::SameLine(0, ImGui::GetFontSize() * 1.3F);
}

/// Numbers of the run bar, most wanted first: the last ones go when the window is narrow.
struct Number {
    std::string text, help;
    ImU32 colour;
    float width; ///< of the widest text it will have soon, so that the strip does not jitter
};

std::vector<Number> run_numbers(const ShellState& state) {
    const UiContext& ctx = state.ctx;
    std::vector<Number> numbers;
    const auto add = [&](std::string text, std::string help, ImU32 colour, const char* widest) {
        const float width = std::max(ImGui::CalcTextSize(text.c_str()).x, ImGui::CalcTextSize(widest).x);
        numbers.push_back({std::move(text), std::move(help), colour, width});
    };
    const int32_t max_tokens = ctx.recording && state.trace ? ctx.recording->info().config.max_tokens
                                                            : ctx.status->applied.max_tokens;
    const std::string all = format_thousands(std::max<int64_t>(max_tokens, ctx.steps));
    add(fmt::format("step {} / {}", format_thousands(ctx.shown_step()), all),
        ctx.live() ? "The newest step and the tokens asked for"
                   : "The selected step and the tokens asked for",
        ctx.theme.text, fmt::format("step {0} / {0}", all).c_str());
    if (!ctx.recording) return numbers;
    const bool refreshing =
        ctx.recording->info().config.mode == Mode::overfill; // else there is nothing to count
    const size_t refreshes = ctx.recording->refreshes().size();
    if (refreshing)
        add(fmt::format("{} {}", refreshes, refreshes == 1 ? "refresh" : "refreshes"),
            "Splices so far, by hand included", ctx.theme.accent_ink, "00 refreshes");
    const double tps = state.trace ? 0 : ctx.status->tokens_per_second;
    if (tps > 0)
        add(fmt::format("{} tokens/s", format_number(tps)), "Decode speed over the last 64 tokens",
            ctx.theme.text, "0000 tokens/s");
    if (refreshing && ctx.steps > 0)
        add(fmt::format("{} per 1,000", format_number(1000.0 * static_cast<double>(refreshes) /
                                                      static_cast<double>(ctx.steps))),
            "Refreshes per 1,000 tokens", ctx.theme.text_muted, "00.0 per 1,000");
    if (refreshing && state.decode_ms > 0)
        add(fmt::format("+{} % time", format_number(100 * state.refresh_ms / state.decode_ms)),
            "Time of teacher passes and splices against the rest of the decode", ctx.theme.text_muted,
            "+00.0 % time");
    return numbers;
}

/// Loading, prefilling, jobs: a bar once it takes longer than 200 ms (RB8).
bool draw_progress(ShellState& state) {
    const EngineStatus& status = *state.ctx.status;
    const double now = ImGui::GetTime();
    const float em = ImGui::GetFontSize();
    const bool busy = status.state == EngineState::loading || status.state == EngineState::prefilling;
    if (!busy)
        state.busy_since_s = -1;
    else if (state.busy_since_s < 0)
        state.busy_since_s = now;
    bool drawn = false;
    const auto bar = [&](float fraction, const std::string& text) {
        ImGui::PushStyleColor(ImGuiCol_PlotHistogram, with_alpha(state.ctx.theme.accent, 0.45F));
        ImGui::ProgressBar(fraction, ImVec2(em * 17, ImGui::GetFrameHeight()), text.c_str());
        ImGui::PopStyleColor();
        drawn = true;
        state.ctx.host.keep_awake(0.3);
    };
    if (busy && now - state.busy_since_s > 0.2) {
        const std::string what =
            status.message.empty() ? std::string(to_string(status.state)) : status.message;
        bar(static_cast<float>(std::clamp(status.progress, 0.0, 1.0)), what);
        ImGui::SameLine();
        if (ImGui::Button("Cancel")) state.run("run.stop");
        separator_gap();
    }
    for (size_t i = 0; i < state.jobs.size(); ++i) {
        Job& job = state.jobs[i];
        if (now - job.started_s < 0.2) continue;
        ImGui::PushID(static_cast<int>(i));
        bar(static_cast<float>(-now), job.label); // negative: the length is unknown
        ImGui::SameLine();
        if (ImGui::Button("Cancel")) *job.cancelled = true;
        ImGui::PopID();
        separator_gap();
    }
    return drawn;
}

/// What stands at the right end: live or selected step, way out of Present; temperature from detail 1 on, seed from 2 on.
/// \return its width
float draw_right_end(ShellState& state, float x_end, int detail, bool measure) {
    UiContext& ctx = state.ctx;
    const ImGuiStyle& style = ImGui::GetStyle();
    const float em = ImGui::GetFontSize();
    const std::string live =
        ctx.live() ? (state.trace ? "Newest" : "Live") : fmt::format("Step {}", ctx.shown_step());
    const float live_width = ImGui::CalcTextSize("Step 00000").x + style.FramePadding.x * 2 + em;
    // From the back of a room nobody reads them, and the numbers of the run need the place.
    const bool plain = !ctx.present_mode && !state.trace;
    const auto temperature = plain && detail >= 1 ? ctx.drafts.number("sampler.temperature") : std::nullopt;
    const auto seed = plain && detail >= 2 ? ctx.drafts.value("seed") : std::nullopt;
    const std::string seed_text = seed ? fmt::format("seed {}", *seed) : std::string();
    const float entry = em * 3.4F;
    const float leave =
        ctx.present_mode ? ImGui::CalcTextSize("Leave Present").x + style.FramePadding.x * 2 + em : 0;
    const float width = live_width + leave +
                        (temperature ? ImGui::CalcTextSize("T").x + em * 0.4F + entry + em : 0) +
                        (seed ? ImGui::CalcTextSize(seed_text.c_str()).x + em : 0);
    if (measure) return width;

    ImGui::SetCursorPosX(x_end - width);
    if (temperature) {
        ImGui::AlignTextToFramePadding();
        ImGui::TextDisabled("T");
        ImGui::SetItemTooltip("Temperature; 0 = always the most likely token");
        ImGui::SameLine(0, em * 0.4F);
        const Parameter* parameter = find_parameter("sampler.temperature");
        NumberStyle number;
        number.slider_max = parameter ? parameter->slider_max : 2;
        number.max = parameter ? parameter->max : 10;
        number_entry(ctx, "temperature", "sampler.temperature", entry, number);
        ImGui::SameLine(0, em);
    }
    if (seed) {
        const float text = ImGui::CalcTextSize(seed_text.c_str()).x;
        if (ImGui::Selectable(seed_text.c_str(), false, 0, ImVec2(text, 0))) state.focus_panel = "Sampling";
        ImGui::SetItemTooltip("Opens Sampling");
        ImGui::SameLine(0, em);
    }
    ImGui::PushStyleColor(ImGuiCol_Text, ctx.live() ? ctx.theme.text_ok : ctx.theme.text);
    const int colours = ctx.live() ? 2 : 1; // the button changes it
    if (colours == 2) ImGui::PushStyleColor(ImGuiCol_Button, with_alpha(ctx.theme.text_ok, 0.10F));
    if (ImGui::Button(fmt::format("{}###select.live", live).c_str(), ImVec2(live_width, 0)))
        state.run("select.live");
    ImGui::PopStyleColor(colours);
    const ImVec2 low = ImGui::GetItemRectMin(), high = ImGui::GetItemRectMax();
    if (ctx.live())
        ImGui::GetWindowDrawList()->AddCircleFilled(ImVec2(low.x + em * 0.9F, (low.y + high.y) * 0.5F),
                                                    em * 0.22F, ctx.theme.text_ok);
    ctx.landmarks.set("runbar/live", {low.x, low.y, high.x - low.x, high.y - low.y});
    ImGui::SetItemTooltip("%s",
                          ctx.live() ? "All panels show the newest step" : "Back to the newest step (L)");
    if (ctx.present_mode) {
        ImGui::SameLine();
        if (ImGui::Button("Leave Present")) state.run("view.layout.explore");
    }
    return width;
}

} // namespace

float draw_run_bar(ShellState& state, float y) {
    UiContext& ctx = state.ctx;
    const ImGuiViewport& view = *ImGui::GetMainViewport();
    const float em = ImGui::GetFontSize();
    const float padding = em * 0.45F, height = ImGui::GetFrameHeight() + padding * 2;
    ImGui::SetNextWindowPos(ImVec2(view.WorkPos.x, y));
    ImGui::SetNextWindowSize(ImVec2(view.WorkSize.x, height));
    ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, ImVec2(em * 0.65F, padding));
    ImGui::PushStyleColor(ImGuiCol_WindowBg, ImGui::GetStyleColorVec4(ImGuiCol_WindowBg));
    ImGui::Begin("Run bar", nullptr,
                 ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_NoDocking |
                     ImGuiWindowFlags_NoSavedSettings | ImGuiWindowFlags_NoMove |
                     ImGuiWindowFlags_NoBringToFrontOnFocus);
    ctx.landmarks.set("panel/Run bar", {view.WorkPos.x, y, view.WorkSize.x, height});

    const bool running = state.running();
    const float play_width =
        ImGui::CalcTextSize("Pause").x + em * 1.25F + ImGui::GetStyle().FramePadding.x * 2.4F;
    action_button(state, "run.play_pause", running ? "Pause" : "Play",
                  {running ? Icon::pause : Icon::play, false, false, play_width});
    ImGui::SameLine();
    action_button(state, "run.step", "Step", {Icon::step});
    ImGui::SameLine();
    // In a narrow window the count of refreshes is wanted more than this; the key goes on working.
    if (view.WorkSize.x > em * 62) {
        action_button(state, "run.step_n", "Step", {});
        ImGui::SameLine(0, em * 0.3F);
        ImGui::SetNextItemWidth(em * 2.9F);
        if (ImGui::InputInt("##steps at once", &state.settings.steps_at_once, 0, 0))
            state.settings.steps_at_once = std::clamp(state.settings.steps_at_once, 1, 100000);
        ImGui::SetItemTooltip("Steps to make at once (Shift+.)");
        ImGui::SameLine();
    }
    separator_gap();

    if (state.refreshes_when_asked && ctx.recording &&
        ctx.recording->refreshes().size() > *state.refreshes_when_asked)
        state.refreshes_when_asked.reset();
    action_button(state, "run.refresh_now", "Refresh now",
                  {Icon::refresh, true, state.refreshes_when_asked.has_value()});
    ImGui::SameLine(0, em * 0.5F);
    ImGui::AlignTextToFramePadding();
    ImGui::TextDisabled("R");
    separator_gap();
    const bool selected = ctx.selection.step.has_value() && ctx.steps > 0;
    action_button(state, "run.rewind", selected ? fmt::format("Rewind to {}", ctx.shown_step()) : "Rewind",
                  {Icon::none, false, false,
                   ImGui::CalcTextSize("Rewind to 0000").x + ImGui::GetStyle().FramePadding.x * 2});
    if (ctx.status->state == EngineState::finished || ctx.status->state == EngineState::failed) {
        ImGui::SameLine();
        action_button(state, "run.restart", "Start again", {});
    }
    separator_gap();

    const float right_end = ImGui::GetWindowWidth() - em * 0.65F, x = ImGui::GetCursorPosX();
    const std::vector<Number> numbers = run_numbers(state);
    // Step and refreshes come before seed and temperature, which stand in Sampling as well.
    float wanted = em;
    for (size_t i = 0; i < std::min<size_t>(2, numbers.size()); ++i)
        wanted += numbers[i].width + em * 1.1F;
    int detail = 2;
    while (detail > 0 && x + wanted > right_end - draw_right_end(state, right_end, detail, true))
        --detail;
    const float right_width = draw_right_end(state, right_end, detail, true);
    const float numbers_end = right_end - right_width - em;
    if (!draw_progress(state)) {
        for (const Number& number : numbers) {
            const float left = ImGui::GetCursorPosX();
            if (left + number.width > numbers_end) break;
            ImGui::AlignTextToFramePadding();
            ImGui::PushStyleColor(ImGuiCol_Text, number.colour);
            ImGui::TextUnformatted(number.text.c_str());
            ImGui::PopStyleColor();
            if (ImGui::IsItemHovered(ImGuiHoveredFlags_DelayShort))
                ImGui::SetTooltip("%s", number.help.c_str());
            ImGui::SameLine(left + number.width + em * 1.1F);
        }
    }
    if (state.trace && ImGui::GetCursorPosX() + em * 10 < numbers_end) {
        // Without a run of the engine there is nothing live to go back to.
        const char* label = ctx.engine.recording() ? "Back to the live run" : "Close trace";
        if (ImGui::Button(fmt::format("{}###close trace", label).c_str())) state.run("file.close_trace");
        ImGui::SameLine();
    }
    if (right_end - right_width > ImGui::GetCursorPosX() - em)
        draw_right_end(state, right_end, detail, false);
    ImGui::End();
    ImGui::PopStyleColor();
    ImGui::PopStyleVar();
    return height;
}

} // namespace refreshlab::ui
