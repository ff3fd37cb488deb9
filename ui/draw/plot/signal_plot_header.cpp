// The line above a plot: name, value, what a moved threshold would do; and what stands in a plot without values.
#include "ui/base/colour.h"
#include "ui/base/format.h"
#include "ui/base/value_format.h"
#include "ui/draw/plot/signal_plot.h"
#include "ui/draw/widgets.h"
#include "ui/scene/runs/run_set.h"
#include "ui/scene/text/signal_reading.h"
#include "ui/scene/text/token_colours.h"

#include <fmt/format.h>

#include <algorithm>

namespace refreshlab::ui {

void SignalPlot::draw_header(UiContext& ctx, PlotStack& stack, const Lines& lines) {
    const ImVec2 at = ImGui::GetCursorScreenPos();
    const float right = at.x + ImGui::GetContentRegionAvail().x;
    float x = draw_reading(ctx, stack, at, right);
    if (m_guest) {
        m_guest->m_header_button = m_header_button;
        x = m_guest->draw_reading(ctx, stack, {x + ImGui::GetTextLineHeight() * 0.4F, at.y}, right);
    }
    // Right of it the what-if count of a threshold that is being moved, wherever it is moved.
    const auto moved =
        std::ranges::find_if(lines, [&](const ThresholdLine& l) { return asks_what_if(ctx, l); });
    const float note_right = right - 2 - m_header_button;
    const Lines right_lines = m_guest ? m_guest->threshold_lines_here(ctx) : Lines();
    const auto right_moved = std::ranges::find_if(
        right_lines, [&](const ThresholdLine& l) { return m_guest->asks_what_if(ctx, l); });
    const bool measured = ctx.recording && ctx.steps > 0;
    if (moved != lines.end() && measured)
        draw_what_if(ctx, stack, *moved, at, x, note_right);
    else if (right_moved != right_lines.end() && measured)
        m_guest->draw_what_if(ctx, stack, *right_moved, at, x, note_right);
    else
        draw_notes(ctx, lines, at, x, note_right);
    ImGui::SetNextItemAllowOverlap(); // a folded plot has its button in this line
    ImGui::InvisibleButton("##header", {std::max(1.0F, right - at.x), header_height()});
    ImGui::SetItemTooltip("%s\nCost: %s", std::string(info().description).c_str(),
                          std::string(info().cost_hint).c_str());
    if (ImGui::IsItemHovered() && ImGui::IsMouseReleased(ImGuiMouseButton_Right)) {
        m_menu_step = ctx.shown_step();
        ImGui::OpenPopup("##plot menu");
    }
    // The plot begins right below; the style's spacing would only take room from it.
    ImGui::SetCursorScreenPos({at.x, at.y + header_height()});
}

/// Swatch, name, scale and value. \return x after them
float SignalPlot::draw_reading(UiContext& ctx, PlotStack& stack, ImVec2 at, float right) {
    ImDrawList* list = ImGui::GetWindowDrawList();
    const float line = ImGui::GetTextLineHeight(), middle = at.y + 3 + line / 2;
    const Colour colour = curve_colour(ctx, stack);
    const bool of_runs =
        stack.overlays && stack.overlays->own_colour(); // the legend says which colour is which
    if (!of_runs) list->AddRectFilled({at.x + 2, middle - 2}, {at.x + 2 + line, middle + 2}, colour, 2);
    float x = of_runs ? at.x + 2 : at.x + line + 9;
    const auto text = [&](Colour ink, const std::string& s) {
        const float width = ImGui::CalcTextSize(s.c_str()).x;
        if (x + width > right - m_header_button) return; // whole or not at all
        list->AddText({x, at.y + 3}, ink, s.c_str());
        x += width + line * 0.7F;
    };
    text(ctx.theme.text, with_unit(info().label, info().unit));
    if (m_on_right) text(ctx.theme.text_muted, "right");
    if (info().layered) text(ctx.theme.text_muted, m_pick.strip ? "all layers, mean" : to_string(m_pick));
    if (const AxisScale scale = m_axis.scale; scale != AxisScale::linear)
        text(ctx.theme.text_muted, std::string(to_string(scale)));
    if (!ctx.recording || ctx.steps == 0) return x;
    // The raw value at the step that everything looks at: under the mouse, selected, or the newest.
    const SignalReading reading =
        signal_reading(stack.series, info(), m_signal, ctx.hovered_step.value_or(ctx.shown_step()), m_pick);
    using Kind = SignalReading::Kind;
    const bool verdict = reading.kind == Kind::yes || reading.kind == Kind::no;
    text(verdict                       ? verdict_colour(reading.kind == Kind::yes)
         : reading.kind == Kind::value ? colour
                                       : ctx.theme.text_muted,
         reading.text);
    return x;
}

bool SignalPlot::asks_what_if(const UiContext& ctx, const ThresholdLine& line) const {
    if (line.key.empty() || line.trigger == ThresholdLine::of_cache) return false; // no refresh comes of it
    if (line.key == ctx.drafts.edited_key()) return true;
    const bool ended = ctx.status->state == EngineState::finished && ctx.of_engine();
    return ended && line.enabled && ctx.steps > 0 && ctx.drafts.edited_key().empty() &&
           moved_since_run(ctx.marks.changes(), ctx.steps, info().name, m_pick, line.value);
}

/// \return where the button begins
float SignalPlot::draw_run_again(UiContext& ctx, const ThresholdLine& moved, ImVec2 at, float right) {
    const std::string label = fmt::format("Run again with {}", format_value(moved.value, info().unit));
    const float width = ImGui::CalcTextSize(label.c_str()).x + 2 * ImGui::GetStyle().FramePadding.x;
    const ImVec2 back = ImGui::GetCursorScreenPos();
    ImGui::SetCursorScreenPos({right - width, at.y + 2});
    ImGui::PushID(static_cast<int>(m_signal));
    if (ImGui::SmallButton(fmt::format("{}###again", label).c_str())) {
        ctx.run_action("run.verify");
    }
    ImGui::PopID();
    ImGui::SetItemTooltip(
        "Verifies the estimate: runs the same prompt from the beginning with the present thresholds. This "
        "run stays in the plots; Runs shows the estimate beside the outcome");
    ctx.landmarks.set({right - width, at.y + 2, width, ImGui::GetItemRectSize().y}, "signals/run_again/{}",
                      info().name);
    ImGui::SetCursorScreenPos(back);
    return right - width;
}

/// The what-if count of a threshold that is being moved, on a card above its plot.
void SignalPlot::draw_what_if(UiContext& ctx, PlotStack& stack, const ThresholdLine& moved, ImVec2 at,
                              float x, float right) {
    const WhatIf* answer = stack.preview.answer();
    if (answer == nullptr) return;
    if (ctx.drafts.edited_key().empty())
        right = draw_run_again(ctx, moved, at, right) - ImGui::GetTextLineHeight() / 2;
    ImDrawList* list = ImGui::GetWindowDrawList();
    const float line = ImGui::GetTextLineHeight();
    const Colour colour = ctx.theme.signal(info().name);
    std::string words = what_if_text(*answer, moved.value, info().unit);
    const std::string more = words + ", " + what_if_detail(*answer);
    const float room = right - x - line;
    if (ImGui::CalcTextSize(more.c_str()).x < room) words = more;
    const float width = ImGui::CalcTextSize(words.c_str()).x + line;
    const float left = std::max(x, std::min(right - width, stack.left + stack.width / 2 - width / 2));
    list->AddRectFilled({left, at.y + 1}, {left + width, at.y + line + 5}, ctx.theme.card, line * 0.3F);
    list->AddRect({left, at.y + 1}, {left + width, at.y + line + 5}, colour, line * 0.3F);
    list->AddText({left + line / 2, at.y + 3}, ctx.theme.text, words.c_str());
    ctx.landmarks.set({left, at.y + 1, width, line + 4}, "signals/what_if/{}", info().name);
}

/// What is out of the ordinary: a locked line, a trigger that is off, no calibration.
void SignalPlot::draw_notes(UiContext& ctx, const Lines& lines, ImVec2 at, float x, float right) {
    if (m_pick.strip) draw_strip_range(ctx, at, x, right);
    ImDrawList* list = ImGui::GetWindowDrawList();
    const float line = ImGui::GetTextLineHeight();
    const auto note = [&](const char* s) {
        const float width = ImGui::CalcTextSize(s).x;
        if (right - width < x) return;
        list->AddText({right - width, at.y + 3}, ctx.theme.text_muted, s);
        right -= width + line;
    };
    const auto shown = ctx.runs.looked_at();
    const RunSet::Run* run = shown ? ctx.runs.find(*shown) : nullptr;
    if (!lines.empty() && run && run->estimate) {
        note(fmt::format("estimated {}, has {}",
                         format_thousands(static_cast<int64_t>(run->estimate->expected.fires.size())),
                         format_thousands(run->metrics.numbers().refreshes))
                 .c_str());
        ctx.landmarks.set({right, at.y + 3, 4, line}, "signals/outcome/{}", info().name);
    }
    if (!lines.empty() && m_locked) note("line locked");
    if (!lines.empty() && std::ranges::none_of(lines, &ThresholdLine::enabled)) note("trigger off");
    if (info().cost == SignalCost::mc_rows && !ctx.status->student.name.empty() &&
        !ctx.status->student.mc_calibrated)
        note("uncalibrated");
}

void SignalPlot::draw_folded(UiContext& ctx, PlotStack& stack) {
    ImGui::PushID(static_cast<int>(m_signal));
    m_box = {};
    m_held = m_pressed = false;
    m_box_from.reset();
    const Lines lines = threshold_lines_here(ctx);
    const EmptyHint hint = this->hint(ctx);
    const ImVec2 at = ImGui::GetCursorScreenPos();
    const float right = at.x + ImGui::GetContentRegionAvail().x;
    const float padding = 2 * ImGui::GetStyle().FramePadding.x;
    m_header_button = hint.key ? ImGui::CalcTextSize(hint.action).x + padding + 2 : 0;
    draw_header(ctx, stack, lines);
    const ImVec2 below = ImGui::GetCursorScreenPos();
    if (hint.key) {
        ImGui::SetCursorScreenPos({right - m_header_button, at.y + 3});
        if (ImGui::SmallButton(hint.action))
            try_edit(ctx, [&] { ctx.drafts.edit(ctx.engine, hint.key, "true"); });
        ImGui::SetItemTooltip("%s\nCost: %s", hint.why.c_str(), std::string(info().cost_hint).c_str());
    }
    ctx.landmarks.set({at.x, at.y, right - at.x, header_height()}, "signals/folded/{}", info().name);
    ImGui::SetCursorScreenPos(below);
    draw_menu(ctx, stack, lines);
    ImGui::PopID();
}

EmptyHint SignalPlot::hint(const UiContext& ctx) const {
    return empty_hint(info(), ctx.recording.get(), ctx.engine.recording() == ctx.recording,
                      ctx.status->applied.mode, ctx.drafts);
}

void SignalPlot::draw_empty_hint(UiContext& ctx) {
    const EmptyHint hint = this->hint(ctx);
    const char *why = hint.why.c_str(), *key = hint.key, *action = hint.action;
    const float line = ImGui::GetTextLineHeight();
    const float text_width = ImGui::CalcTextSize(why).x;
    const float button_width =
        key ? ImGui::CalcTextSize(action).x + 2 * ImGui::GetStyle().FramePadding.x + line / 2 : 0;
    const ImVec2 back = ImGui::GetCursorScreenPos();
    const bool one_line = text_width + button_width < m_box.width - line;
    const float height = one_line || !key ? ImGui::GetFrameHeight() : 2 * ImGui::GetFrameHeight() + 2;
    float x = m_box.x +
              (m_box.width - (one_line ? text_width + button_width : std::min(text_width, m_box.width))) / 2;
    const float y = m_box.y + (m_box.height - height) / 2;
    ImDrawList* list = ImGui::GetWindowDrawList();
    list->PushClipRect({m_box.x, m_box.y}, {m_box.x + m_box.width, m_box.y + m_box.height}, true);
    // On a card of its own: refresh lines run behind it, not through the words.
    const float card_half =
        (one_line ? text_width + button_width : std::max(text_width, button_width)) / 2 + line;
    const float centre = m_box.x + m_box.width / 2;
    list->AddRectFilled({centre - card_half, y - 3}, {centre + card_half, y + height + 3},
                        ctx.theme.plot_background, line * 0.3F);
    ctx.landmarks.set({centre - card_half, y - 3, 2 * card_half, height + 6}, "signals/empty/{}",
                      info().name);
    list->AddText({x, y + ImGui::GetStyle().FramePadding.y}, ctx.theme.text_muted, why);
    list->PopClipRect();
    if (key) {
        x = one_line ? x + text_width + line / 2 : m_box.x + (m_box.width - button_width) / 2;
        ImGui::SetCursorScreenPos({x, one_line ? y : y + ImGui::GetFrameHeight() + 2});
        if (ImGui::Button(action)) try_edit(ctx, [&] { ctx.drafts.edit(ctx.engine, key, "true"); });
        ImGui::SetItemTooltip("%s", std::string(info().cost_hint).c_str());
        ImGui::SetCursorScreenPos(back);
    }
}

} // namespace refreshlab::ui
