// Prompt and tokens of the Text panel, with the marks on them.
#include "engine/text/utf8.h"
#include "ui/base/colour.h"
#include "ui/base/value_format.h"
#include "ui/draw/screen_canvas.h"
#include "ui/panels/text/text_panel.h"
#include "ui/scene/text/step_marks.h"
#include "ui/scene/text/text_layout.h"
#include "ui/scene/text/token_label.h"

#include <fmt/format.h>
#include <imgui.h>

#include <algorithm>
#include <cmath>
#include <string>

namespace refreshlab::ui {

void TextPanel::draw_prompt(UiContext& ctx, const Metrics& m, float clip_top, float clip_bottom) {
    const int64_t length = ctx.recording->prompt_length();
    ImDrawList* list = ImGui::GetWindowDrawList();
    const ImVec2 at = ImGui::GetCursorScreenPos();
    const std::string label = "Prompt, " + format_count(length, "token");
    if (ImGui::InvisibleButton("##prompt", {std::max(1.0F, ImGui::GetContentRegionAvail().x), m.font + 4}))
        m_prompt_open = !m_prompt_open;
    const ImU32 ink = ImGui::IsItemHovered() ? ctx.theme.text : ctx.theme.text_muted;
    const float s = m.font * 0.26F;
    const ImVec2 c(at.x + s + 1, at.y + m.font / 2 + 1);
    if (m_prompt_open) {
        list->AddTriangleFilled({c.x - s, c.y - s * 0.7F}, {c.x + s, c.y - s * 0.7F}, {c.x, c.y + s}, ink);
    } else {
        list->AddTriangleFilled({c.x - s * 0.7F, c.y - s}, {c.x + s, c.y}, {c.x - s * 0.7F, c.y + s}, ink);
    }
    list->AddText({at.x + 3 * s + 2, at.y + 1}, ink, label.c_str());
    if (m_prompt_open) draw_prompt_tokens(ctx, m, clip_top, clip_bottom);
    const ImVec2 end = ImGui::GetCursorScreenPos();
    list->AddLine({end.x, end.y + 1}, {end.x + ImGui::GetContentRegionAvail().x, end.y + 1},
                  ctx.theme.plot_border);
    ImGui::Dummy({1, 4});
}

void TextPanel::draw_prompt_tokens(UiContext& ctx, const Metrics& m, float clip_top, float clip_bottom) {
    const ImVec2 origin = ImGui::GetCursorScreenPos();
    const auto pitch = static_cast<float>(m.text.prompt_pitch);
    const auto lines = static_cast<int64_t>(m_prompt.num_lines());
    const auto first = std::clamp<int64_t>(static_cast<int64_t>((clip_top - origin.y) / pitch), 0, lines);
    const auto last =
        std::clamp<int64_t>(static_cast<int64_t>((clip_bottom - origin.y) / pitch) + 1, 0, lines);
    if (first < last)
        paint_prompt(ScreenPen(ctx, ImGui::GetWindowDrawList()), m.text, m_prompt,
                     m_prompt.line(static_cast<size_t>(first)).first,
                     m_prompt.line(static_cast<size_t>(last - 1)).last,
                     {static_cast<double>(origin.x), static_cast<double>(origin.y)}, picture(ctx));
    ImGui::Dummy({1, static_cast<float>(lines) * pitch});
    const ImVec2 mouse = ImGui::GetMousePos();
    if (ImGui::IsWindowHovered() && mouse.y >= origin.y &&
        mouse.y < origin.y + static_cast<float>(lines) * pitch) {
        const int32_t token =
            m_prompt.token_at(static_cast<size_t>((mouse.y - origin.y) / pitch), mouse.x - origin.x);
        if (token >= 0) {
            const int32_t id = ctx.recording->info().prompt_ids[static_cast<size_t>(token)];
            const std::string gone = gone_text(token);
            ImGui::SetTooltip("%s\nprompt token, position %d, id %d%s%s",
                              token_label(ctx.recording->tokens(), id).c_str(), token, id,
                              gone.empty() ? "" : "\n", gone.c_str());
        }
    }
}

void TextPanel::draw_tokens(UiContext& ctx, const Metrics& m, float clip_top, float clip_bottom) {
    const ImVec2 origin = ImGui::GetCursorScreenPos();
    const auto lines = static_cast<int64_t>(m_text.num_lines());
    const auto drafted = m_draft_tokens.empty() ? 0 : static_cast<int64_t>(m_draft.num_lines()) - 1;
    const float height = static_cast<float>(lines + drafted) * m.pitch + m.font * 0.5F;
    ImGui::InvisibleButton("##tokens",
                           {std::max(1.0F, ImGui::GetContentRegionAvail().x), std::max(1.0F, height)});
    const bool hovered = ImGui::IsItemHovered();
    const bool clicked = hovered && ImGui::IsMouseClicked(ImGuiMouseButton_Left);
    const auto first =
        std::clamp<int64_t>(static_cast<int64_t>((clip_top - origin.y) / m.pitch) - 1, 0, lines);
    const auto last =
        std::clamp<int64_t>(static_cast<int64_t>((clip_bottom - origin.y) / m.pitch) + 1, 0, lines);
    if (ctx.views.text.origins)
        m_origins.update(*ctx.recording, std::clamp<int64_t>(ctx.shown_step(), 0, ctx.steps));
    const size_t end = last > first ? m_text.line(static_cast<size_t>(last - 1)).last : 0;
    const size_t begin = last > first ? m_text.line(static_cast<size_t>(first)).first : 0;
    const FigurePoint corner{static_cast<double>(origin.x), static_cast<double>(origin.y)};
    paint_tokens(ScreenPen(ctx, ImGui::GetWindowDrawList()), m.text, m_text, begin, end, corner,
                 picture(ctx));
    for (size_t i = begin; i < end; ++i)
        if (const auto& f = m_text.fragments()[i]; f.starts_token)
            ctx.landmarks.set(
                [&] {
                    PixelBox box = pixel_box(token_box(m.text, f, corner));
                    box.width = std::max(2.0F, box.width);
                    return box;
                }(),
                "text/token/{}", f.token + 1);
    draw_matches(ctx, m, begin, end, origin);
    draw_draft(ctx, m, origin, hovered);
    const auto frame = [&](int64_t step, ImU32 colour, float thickness) {
        if (step >= 0 && step < static_cast<int64_t>(m_text.num_tokens()))
            draw_frame(m, step + 1, origin, colour, thickness);
    };
    if (ctx.selection.step != 1) m_first_token = false;
    if (ctx.selection.step)
        frame(m_first_token ? 0 : *ctx.selection.step, ctx.theme.selection | IM_COL32_A_MASK, 2);
    if (ctx.hovered_step) frame(*ctx.hovered_step, ctx.theme.crosshair, 1);

    const float y = ImGui::GetMousePos().y;
    if (hovered && y >= clip_top && y <= clip_bottom) hover_token(ctx, m, origin, clicked);
}

void TextPanel::hover_token(UiContext& ctx, const Metrics& m, ImVec2 origin, bool clicked) {
    const ImVec2 mouse = ImGui::GetMousePos();
    const int32_t index = m_text.token_at(static_cast<size_t>(std::max(0.0F, (mouse.y - origin.y) / m.pitch)),
                                          mouse.x - origin.x);
    if (index < 0) return;
    m_hovered_token = index + 1;
    if (index >= 1) ctx.next_hovered_step = index;
    if (clicked) {
        // y_1 was chosen by the prefill, which has no record: the step that read it stands for it.
        m_first_token = index == 0;
        if (ctx.steps > 0) ctx.select_step(std::max<int64_t>(1, index));
        m_seen_selection = ctx.selection.step; // made here: no scrolling
    }
}

void TextPanel::draw_frame(const Metrics& m, int64_t token, ImVec2 origin, ImU32 colour, float thickness) {
    ImDrawList* list = ImGui::GetWindowDrawList();
    const auto range = m_text.token(static_cast<size_t>(token - 1));
    for (size_t i = range.first; i < range.last; ++i) {
        const auto& f = m_text.fragments()[i];
        const float y = origin.y + static_cast<float>(f.line) * m.pitch + m.flag;
        list->AddRect({std::floor(origin.x + f.x) - 2, y - 3},
                      {std::floor(origin.x + f.x + f.width) + 2, y + m.font + 4}, colour, 3, thickness);
    }
}

} // namespace refreshlab::ui
