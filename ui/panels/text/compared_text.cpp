#include "ui/panels/text/compared_text.h"

#include "ui/base/value_format.h"
#include "ui/draw/screen_canvas.h"
#include "ui/draw/text.h"
#include "ui/scene/text/token_label.h"
#include "ui/scene/theme/run_colours.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace refreshlab::ui {

bool ComparedText::begin_frame(UiContext& ctx) {
    const auto keys = ctx.runs.compared();
    const auto shown = ctx.runs.looked_at();
    if (keys.empty() || !shown || !ctx.recording) {
        m_recording.reset();
        return false;
    }
    m_key = keys.front();
    m_recording = ctx.runs.recording(m_key);
    m_colour = run_colour(ctx.theme, ctx.runs.colour(m_key));
    m_steps = m_recording->steps();
    m_marks.update(m_recording, m_steps);
    m_difference.update(ctx.recording, m_recording, ctx.runs.tree().shared_steps(*shown, m_key));
    return true;
}

void ComparedText::draw_headline(UiContext& ctx) {
    const float em = ImGui::GetFontSize(), line = ImGui::GetTextLineHeight();
    const ImVec2 at = ImGui::GetCursorScreenPos();
    const float width = ImGui::GetContentRegionAvail().x;
    const auto first = m_difference.first();
    const std::string words =
        !first ? "same " + format_count(m_difference.compared(), "token")
               : fmt::format("diverge at token {}, {} of {} differ", format_thousands(*first),
                             format_thousands(m_difference.differing()),
                             format_thousands(m_difference.compared()));
    if (ImGui::InvisibleButton("##difference", {std::max(1.0F, width), line + 2}) && first) {
        // y_{t+1} is chosen by step t; y_1 by the prefill, which has none.
        ctx.select_step(std::clamp<int64_t>(*first - 1, 1, std::max<int64_t>(ctx.steps, 1)));
    }
    if (first) ImGui::SetItemTooltip("A click goes to the first token that differs");
    ctx.landmarks.set("text/difference", {at.x, at.y, width, line});
    ImDrawList* list = ImGui::GetWindowDrawList();
    const RunKey shown = *ctx.runs.looked_at();
    const float said = text_width(words), room = std::max(0.0F, width - said - em);
    float x = at.x;
    for (const RunKey key : {shown, m_key}) {
        const std::string name = shortened(ctx.runs.name(key), room / 2 - em * 1.8F);
        const float needed = em * 1.5F + text_width(name);
        if (x + needed > at.x + room) break;
        list->AddRectFilled({x, at.y + line / 2 - 3}, {x + em * 0.8F, at.y + line / 2 + 3},
                            run_colour(ctx.theme, ctx.runs.colour(key)), 2);
        text_at(list, {x + em * 1.1F, at.y}, ctx.theme.text, name);
        x += needed + em * 0.4F;
    }
    text_at(list, {std::max(x, at.x + width - said), at.y}, first ? ctx.theme.text : ctx.theme.text_muted,
            words);
}

void ComparedText::update_layout(const FigurePen& pen, float width, float font, bool rejected) {
    const auto tokens = static_cast<size_t>(m_steps) + 1;
    const bool others = m_rejected.show(*m_recording, rejected, static_cast<int64_t>(m_text.num_tokens()));
    if (others || m_laid_out != m_recording || m_width != width || m_font != font ||
        m_text.num_tokens() > tokens) {
        m_laid_out = m_recording;
        m_width = width;
        m_font = font;
        m_text.reset(text_layout_style(pen, static_cast<double>(width)), screen_text_width);
    }
    while (m_text.num_tokens() < tokens) {
        const int32_t id = m_recording->token(static_cast<int64_t>(m_text.num_tokens()) + 1);
        if (id < 0) break; // the last record chose nothing
        append_token(m_text, *m_recording, id, static_cast<int64_t>(m_text.num_tokens()) + 1,
                     m_rejected.shown());
    }
}

void ComparedText::frame(const Style& style, int64_t token, ImVec2 origin, Colour colour,
                         float thickness) const {
    if (token < 1 || token > static_cast<int64_t>(m_text.num_tokens())) return;
    const auto range = m_text.token(static_cast<size_t>(token - 1));
    for (size_t i = range.first; i < range.last; ++i) {
        const auto& f = m_text.fragments()[i];
        const PixelBox box = pixel_box(
            token_box(style.sizes, f, {static_cast<double>(origin.x), static_cast<double>(origin.y)}));
        ImGui::GetWindowDrawList()->AddRect(
            {box.x - 2, box.y - 2}, {box.x + box.width + 2, box.y + box.height + 3}, colour, 3, thickness);
    }
}

/// The selected step comes into sight; without one the newest of the run that is looked at, in the lowest line.
void ComparedText::follow(const UiContext& ctx, const Style& style) {
    if (ctx.live()) {
        const float here = ImGui::GetScrollY();
        if (m_seen_selection ||
            std::fabs(here - std::min(m_followed, ImGui::GetScrollMaxY())) < style.pitch()) {
            const bool more = ctx.steps + 1 < static_cast<int64_t>(m_text.num_tokens());
            m_followed = ImGui::GetCursorPosY(); // the end
            if (more) {
                const auto& f = m_text.fragments()[m_text.token(static_cast<size_t>(ctx.steps)).first];
                m_followed = std::max(0.0F, static_cast<float>(f.line + 1) * style.pitch() -
                                                ImGui::GetWindowHeight() + style.font() * 0.5F);
            }
            ImGui::SetScrollY(m_followed);
        }
    } else if (ctx.selection.step != m_seen_selection && m_text.num_tokens() > 0) {
        const auto token =
            std::min<int64_t>(*ctx.selection.step, static_cast<int64_t>(m_text.num_tokens()) - 1);
        const auto& f = m_text.fragments()[m_text.token(static_cast<size_t>(token)).first];
        const float y = static_cast<float>(f.line) * style.pitch(), height = ImGui::GetWindowHeight();
        if (y < ImGui::GetScrollY() || y + style.pitch() > ImGui::GetScrollY() + height)
            ImGui::SetScrollY(std::max(0.0F, y - height * 0.4F));
    }
    m_seen_selection = ctx.selection.step;
}

/// Lines [first, last).
void ComparedText::paint(UiContext& ctx, const FigurePen& pen, const Style& style, int64_t first,
                         int64_t last, ImVec2 origin) const {
    const FigurePoint corner{static_cast<double>(origin.x), static_cast<double>(origin.y)};
    const size_t begin = m_text.line(static_cast<size_t>(first)).first,
                 end = m_text.line(static_cast<size_t>(last - 1)).last;
    paint_tokens(pen, style.sizes, m_text, begin, end, corner,
                 {.recording = *m_recording,
                  .steps = m_steps,
                  .text = style.text,
                  .paint = style.paint,
                  .on_other_scale = true,
                  .marks = &m_marks,
                  .notes = true,
                  .other = &m_difference,
                  .side = TokenDifference::Side::second,
                  .rejected = m_rejected.shown() != nullptr,
                  .ground = ImGui::GetColorU32(ImGuiCol_WindowBg)},
                 "compared");
    for (size_t i = begin; i < end; ++i)
        if (const auto& f = m_text.fragments()[i]; f.starts_token)
            ctx.landmarks.set(pixel_box(token_box(style.sizes, f, corner)), "text/compared/{}", f.token + 1);
}

void ComparedText::draw(UiContext& ctx, const Style& style) {
    const float width = ImGui::GetWindowWidth() - ImGui::GetStyle().ScrollbarSize - 6;
    const ScreenPen pen(ctx, ImGui::GetWindowDrawList());
    update_layout(pen, std::max(width, style.font() * 4), style.font(), ctx.views.text.rejected);
    const ImVec2 origin = ImGui::GetCursorScreenPos();
    const auto lines = static_cast<int64_t>(m_text.num_lines());
    ImGui::InvisibleButton("##tokens", {std::max(1.0F, ImGui::GetContentRegionAvail().x),
                                        static_cast<float>(lines) * style.pitch() + style.font() * 0.5F});
    const bool hovered = ImGui::IsItemHovered();
    const float top = ImGui::GetWindowPos().y, bottom = top + ImGui::GetWindowHeight();
    const auto line_at = [&](float y) {
        return std::clamp<int64_t>(static_cast<int64_t>((y - origin.y) / style.pitch()), 0, lines);
    };
    const int64_t first = std::max<int64_t>(0, line_at(top) - 1), last = std::min(lines, line_at(bottom) + 1);
    if (first < last) paint(ctx, pen, style, first, last, origin);
    if (ctx.selection.step)
        frame(style, *ctx.selection.step + 1, origin, ctx.theme.selection | IM_COL32_A_MASK, 2);
    if (ctx.hovered_step) frame(style, *ctx.hovered_step + 1, origin, ctx.theme.crosshair, 1);
    follow(ctx, style);
    if (!hovered) return;
    const ImVec2 mouse = ImGui::GetMousePos();
    const int32_t index = m_text.token_at(
        static_cast<size_t>(std::max(0.0F, (mouse.y - origin.y) / style.pitch())), mouse.x - origin.x);
    if (index < 0) return;
    const int64_t step = std::clamp<int64_t>(index, 1, std::max<int64_t>(ctx.steps, 1));
    if (ctx.steps > 0) {
        if (index >= 1 && index <= ctx.steps) ctx.next_hovered_step = index;
        if (ImGui::IsMouseClicked(ImGuiMouseButton_Left)) ctx.select_step(step);
    }
    const int64_t token = index + 1;
    const std::string label = token_label(m_recording->tokens(), m_recording->token(token));
    std::string other;
    if (m_difference.differs(token, TokenDifference::Side::second)) {
        const auto here = m_difference.in_its_place(token, TokenDifference::Side::second);
        other = fmt::format("\n{} has {}", ctx.runs.name(*ctx.runs.looked_at()),
                            here ? token_label(ctx.recording->tokens(), ctx.recording->token(*here))
                                 : "no token in its place");
    }
    ImGui::SetTooltip("%s, token %s of %s%s", label.c_str(), format_thousands(token).c_str(),
                      ctx.runs.name(m_key).c_str(), other.c_str());
}

} // namespace refreshlab::ui
