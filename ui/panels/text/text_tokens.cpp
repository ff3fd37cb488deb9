// Prompt and tokens of the Text panel, with the marks on them.
#include "engine/text/utf8.h"
#include "ui/base/colour.h"
#include "ui/base/value_format.h"
#include "ui/panels/text/text_panel.h"
#include "ui/scene/marks/step_marks.h"
#include "ui/scene/text/text_layout.h"
#include "ui/scene/text/token_label.h"
#include "ui/theme/run_colours.h"

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
    const std::string label = fmt::format("Prompt, {} tokens", format_thousands(length));
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
    ImDrawList* list = ImGui::GetWindowDrawList();
    const ImVec2 origin = ImGui::GetCursorScreenPos();
    const float pitch = std::round(m.font * 1.25F);
    const auto lines = static_cast<int64_t>(m_prompt.num_lines());
    const auto first = std::clamp<int64_t>(static_cast<int64_t>((clip_top - origin.y) / pitch), 0, lines);
    const auto last =
        std::clamp<int64_t>(static_cast<int64_t>((clip_bottom - origin.y) / pitch) + 1, 0, lines);
    for (int64_t i = first; i < last; ++i) {
        const auto range = m_prompt.line(static_cast<size_t>(i));
        const float y = origin.y + static_cast<float>(i) * pitch;
        for (size_t f = range.first; f < range.last; ++f) {
            const auto& fragment = m_prompt.fragments()[f];
            const std::string_view text = m_prompt.text(fragment);
            const bool mark = fragment.kind != TextLayout::Kind::text;
            if (const TokenLook look = m_coloured.look(m_paint, m_coloured.prompt_value(fragment.token));
                look.background) {
                const float x = std::floor(origin.x + fragment.x), end = std::floor(x + fragment.width);
                list->AddRectFilled({x, y}, {end, y + m.font}, look.background, 2);
                list->AddText({x, y}, mark ? ctx.theme.text_muted : look.ink, text.data(),
                              text.data() + text.size());
                if (m_gone.gone_at(fragment.token)) dim({x, y}, {end, y + m.font});
                continue;
            }
            list->AddText({origin.x + fragment.x, y}, with_alpha(ctx.theme.text_muted, mark ? 0.6F : 1.0F),
                          text.data(), text.data() + text.size());
            if (m_gone.gone_at(fragment.token))
                dim({origin.x + fragment.x, y}, {origin.x + fragment.x + fragment.width, y + pitch});
        }
    }
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
    const float height = static_cast<float>(lines) * m.pitch + m.font * 0.5F;
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
    for (size_t i = begin; i < end; ++i)
        draw_fragment(ctx, m, i, origin);

    if (begin < end) draw_flags(ctx, m, begin, end, origin);
    draw_matches(ctx, m, begin, end, origin);
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

/// Refresh flags of fragments [begin, end): before y_{t+1}, whose choice the refresh at step t followed.
void TextPanel::draw_flags(UiContext& ctx, const Metrics& m, size_t begin, size_t end, ImVec2 origin) {
    const int64_t first_token = m_text.fragments()[begin].token + 1,
                  last_token = m_text.fragments()[end - 1].token + 1;
    const size_t first = ctx.marks.first_from(MarkLane::refresh, first_token - 1),
                 last = ctx.marks.first_from(MarkLane::refresh, last_token);
    // Letters over every other word say nothing: in a crowd the colour alone stays.
    const bool crowd = static_cast<int64_t>(last - first) * 6 > last_token - first_token;
    for (size_t i = first; i < last; ++i) {
        const RefreshEvent& refresh = ctx.marks.refresh(i);
        const int64_t token = refresh.step + 1;
        if (token > static_cast<int64_t>(m_text.num_tokens())) break;
        const auto& f = m_text.fragments()[m_text.token(static_cast<size_t>(token - 1)).first];
        draw_flag(ctx, m, refresh, crowd, {origin.x + f.x, origin.y + static_cast<float>(f.line) * m.pitch});
    }
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

void TextPanel::draw_fragment(UiContext& ctx, const Metrics& m, size_t index, ImVec2 origin) {
    using Kind = TextLayout::Kind;
    const auto& fragments = m_text.fragments();
    const TextLayout::Fragment& f = fragments[index];
    const int64_t token = f.token + 1;
    ImDrawList* list = ImGui::GetWindowDrawList();
    const float line_y = origin.y + static_cast<float>(f.line) * m.pitch;
    const ImVec2 min(std::floor(origin.x + f.x), line_y + m.flag - 1);
    const ImVec2 max(std::floor(origin.x + f.x + f.width), line_y + m.flag + m.font + 1);
    const bool mark = f.kind == Kind::newline || f.kind == Kind::space || f.kind == Kind::escape;

    // Corners are round where a word begins and ends; pieces of one word touch.
    const bool begins = index == 0 || fragments[index - 1].line != f.line || f.gap > 0;
    const bool ends =
        index + 1 >= fragments.size() || fragments[index + 1].line != f.line || fragments[index + 1].gap > 0;
    const ImDrawFlags corners = (begins ? ImDrawFlags_RoundLeft : 0) | (ends ? ImDrawFlags_RoundRight : 0);
    const ImDrawFlags rounding = corners ? corners : ImDrawFlags_RoundNone;
    const bool to_come = ctx.playback.playing() && token > ctx.shown_step() + 1;
    if (to_come) { // played back: it has not happened yet
        const std::string_view words = m_text.text(f);
        list->AddText({min.x, line_y + m.flag}, with_alpha(ctx.theme.text_muted, 0.45F), words.data(),
                      words.data() + words.size());
        return;
    }
    TokenLook look;
    if (is_pending(ctx, token))
        list->AddRect({min.x - 0.5F, min.y}, {max.x + 0.5F, max.y}, ctx.theme.accent_ink, 2, 1.0F, rounding);
    else
        look = m_coloured.look(m_paint, m_coloured.value(token));
    if (look.background) list->AddRectFilled(min, max, look.background, 2, rounding);
    const ImU32 ink = mark ? ctx.theme.text_muted : look.background ? look.ink : ctx.theme.text;
    const ImU32 underline =
        ctx.views.text.origins ? origin_colour(ctx.theme, m_origins.of(token)) : look.underline;
    if (underline) list->AddRectFilled({min.x, max.y}, {max.x, max.y + token_underline}, underline);
    const std::string_view text = m_text.text(f);
    list->AddText({min.x, line_y + m.flag}, ink, text.data(), text.data() + text.size());
    if (look.struck) {
        const float y = std::round(line_y + m.flag + m.font * 0.56F);
        list->AddRectFilled({min.x, y}, {max.x, y + std::max(1.0F, m.font * 0.07F)}, look.underline);
    }

    if (m_gone.gone_at(ctx.recording->prompt_length() + token - 1))
        dim(min, {max.x, max.y + (underline ? token_underline : 0)});
    // Who made it: a line above the teacher's tokens; a double underline where a refresh drew the token again.
    if (producer_of(ctx, token) == Producer::teacher)
        list->AddRectFilled({min.x, min.y - 2}, {max.x, min.y}, ctx.theme.origin_prefill);
    const RefreshEvent* event = token >= 2 ? ctx.recording->refresh_at(token - 1) : nullptr;
    if (event && event->on_fire != OnFire::keep)
        list->AddRectFilled({min.x, max.y + 3}, {max.x, max.y + 5}, ctx.theme.accent);
    if (m_comparing && m_compared.difference().differs(token))
        mark_difference(list, min, max, ctx.theme.text_error, m_compared.difference().first() == token);
    if (f.starts_token)
        ctx.landmarks.set({min.x, min.y, std::max(2.0F, max.x - min.x), max.y - min.y}, "text/token/{}",
                          token);
}

void TextPanel::draw_flag(UiContext& ctx, const Metrics& m, const RefreshEvent& event, bool crowd,
                          ImVec2 at) {
    ImDrawList* list = ImGui::GetWindowDrawList();
    const ImU32 colour = marker_colour(ctx.theme, event.hits);
    // Between the lines: over the room above its own token, never over the line before.
    const float x = std::floor(at.x) - 2, size = m.flag - 1;
    if (!crowd) list->AddRectFilled({x, at.y}, {x + 1.5F, at.y + m.flag + m.font + 2}, colour);
    if (crowd) {
        const float tick = std::round(size * 0.45F);
        list->AddRectFilled({x, at.y + m.flag - tick}, {x + tick, at.y + m.flag}, colour);
        return;
    }
    const std::string letter(1, reason_letter(event.hits));
    ImFont* font = ImGui::GetFont();
    const ImVec2 extent = font->CalcTextSizeA(size, 1e6F, 0, letter.c_str());
    const float width = std::max(size, extent.x + 4);
    list->AddRectFilled({x, at.y}, {x + width, at.y + size}, colour, 2, ImDrawFlags_RoundRight);
    list->AddText(font, size, {x + (width - extent.x) / 2 + 0.5F, at.y + (size - extent.y) / 2},
                  readable_on(colour | IM_COL32_A_MASK), letter.c_str());
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
