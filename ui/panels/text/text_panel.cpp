#include "ui/panels/text/text_panel.h"

#include "ui/base/format.h"
#include "ui/base/value_format.h"
#include "ui/draw/offer_run.h"
#include "ui/draw/screen_canvas.h"
#include "ui/scene/text/text_layout.h"
#include "ui/scene/text/token_origins.h"

#include <fmt/format.h>
#include <imgui.h>

#include <algorithm>
#include <cmath>

namespace refreshlab::ui {

std::unique_ptr<Panel> make_text_panel() {
    return std::make_unique<TextPanel>();
}

void TextPanel::forget() {
    m_recording.reset();
    m_coloured.forget();
    m_at_end = true;
    m_seen_selection.reset();
    m_was_live = true;
    m_origins.reset();
    m_gone.reset();
    m_rejected.clear();
    m_draft_tokens.clear();
}

void TextPanel::lay_out_anew(UiContext& ctx, float width, float font_size) {
    const auto& recording = ctx.recording;
    if (m_recording != recording) m_prompt_open = recording->prompt_length() <= 80;
    m_recording = recording;
    m_width = width;
    m_font = font_size;
    const ScreenPen pen(ctx, ImGui::GetWindowDrawList());
    const TextLayout::Style style = text_layout_style(pen, static_cast<double>(width));
    m_text.reset(style, screen_text_width);
    m_prompt.reset(style, screen_text_width);
    for (const int32_t id : recording->info().prompt_ids)
        m_prompt.append(recording->tokens().token_bytes(id), recording->tokens().is_special(id));
}

void TextPanel::update_layout(UiContext& ctx, float width, const Metrics& m) {
    const auto& recording = ctx.recording;
    const bool others =
        m_rejected.show(*recording, ctx.views.text.rejected, static_cast<int64_t>(m_text.num_tokens()));
    if (others || m_recording != recording || m_width != width || m_font != m.font ||
        m_text.num_tokens() > static_cast<size_t>(ctx.steps) + 1)
        lay_out_anew(ctx, width, m.font);
    // y_1 is known with the prefill; y_{t+1} with record t, which also says when there is none.
    const auto add = [&](int32_t id) {
        append_token(m_text, *recording, id, static_cast<int64_t>(m_text.num_tokens()) + 1,
                     m_rejected.shown());
    };
    if (m_text.num_tokens() == 0) add(recording->info().first_token);
    while (m_text.num_tokens() > 0 && static_cast<int64_t>(m_text.num_tokens()) <= ctx.steps) {
        const size_t before = m_text.num_tokens();
        add(recording->step(static_cast<int64_t>(before)).next_token_id);
        if (m_text.num_tokens() == before) break; // the last record chose nothing
    }
}

TextPicture TextPanel::picture(const UiContext& ctx) const {
    return {.recording = *ctx.recording,
            .steps = ctx.steps,
            .text = m_coloured,
            .paint = m_paint,
            .marks = &ctx.marks,
            .notes = true,
            .origins = ctx.views.text.origins ? &m_origins : nullptr,
            .gone = &m_gone,
            .other = m_comparing ? &m_compared.difference() : nullptr,
            .played_to = ctx.playback.playing() ? std::optional(ctx.shown_step() + 1) : std::nullopt,
            .rejected = m_rejected.shown() != nullptr,
            .drafted = !m_draft_tokens.empty(),
            .shows_pending = true,
            .ground = ImGui::GetColorU32(ImGuiCol_WindowBg)};
}

void TextPanel::draw(UiContext& ctx) {
    draw_toolbar(ctx);
    if (!ctx.recording) {
        offer_run(ctx, "The text of a run appears here, every token coloured by a signal.");
        return;
    }
    m_gone.update(*ctx.recording, std::clamp<int64_t>(ctx.shown_step(), 0, ctx.steps));
    draw_find(ctx);
    draw_attention_note(ctx);
    const ScreenPen pen(ctx, ImGui::GetWindowDrawList());
    const TextMetrics sizes = text_metrics(pen);
    const Metrics m{sizes, static_cast<float>(sizes.font), static_cast<float>(sizes.flag),
                    static_cast<float>(sizes.pitch)};
    const float font = m.font;
    const float legend = ImGui::GetTextLineHeight() + ImGui::GetStyle().ItemSpacing.y;
    bool wants_menu = false;
    m_comparing = m_compared.begin_frame(ctx);
    if (m_comparing) m_compared.draw_headline(ctx);
    // Two texts stand beside each other where lines stay long enough to be read, else one below the other.
    const ImVec2 room = ImGui::GetContentRegionAvail();
    const bool beside = m_comparing && (room.x > 44 * font || (room.y < 11 * font && room.x > 24 * font));
    const float height = std::max(room.y - legend, 2 * font);
    const float own_width = beside ? (room.x - font) / 2 : 0,
                own_height = m_comparing && !beside ? std::round((height - font * 0.4F) / 2) : height;
    ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, {0, 0});
    if (ImGui::BeginChild("##text", {own_width, own_height}, ImGuiChildFlags_None)) {
        const float width = ImGui::GetWindowWidth() - ImGui::GetStyle().ScrollbarSize - 6;
        update_layout(ctx, std::max(width, font * 4), m);
        lay_out_draft(ctx);
        const float top = ImGui::GetWindowPos().y, bottom = top + ImGui::GetWindowHeight();
        m_hovered_token = 0;
        draw_prompt(ctx, m, top, bottom);
        const float prompt_height = ImGui::GetCursorPosY();
        draw_tokens(ctx, m, top, bottom);
        follow_selection(ctx, m, prompt_height);
        wants_menu = ImGui::IsWindowHovered() && ImGui::IsMouseReleased(ImGuiMouseButton_Right);
        // Whether the newest line is in sight decides if the panel goes on following it.
        m_at_end = ImGui::GetScrollY() >= ImGui::GetScrollMaxY() - m.pitch;
    }
    ImGui::EndChild();
    if (m_comparing) draw_compared(ctx, m, beside ? height : height - own_height - font * 0.4F, beside);
    ImGui::PopStyleVar();
    if (wants_menu) {
        m_menu_token = m_hovered_token;
        ImGui::OpenPopup("token menu");
    }
    if (ImGui::IsPopupOpen("token menu"))
        draw_token_menu(ctx);
    else if (m_hovered_token > 0)
        token_tooltip(ctx, m_hovered_token);
    draw_legend(ctx);
}

/// The other run's text, beside or below, with a line between the two.
void TextPanel::draw_compared(UiContext& ctx, const Metrics& m, float height, bool beside) {
    ImDrawList* list = ImGui::GetWindowDrawList();
    const float gap = beside ? m.font : std::round(m.font * 0.4F);
    if (beside) ImGui::SameLine(0, gap);
    ImVec2 at = ImGui::GetCursorScreenPos();
    if (!beside) {
        at.y += gap - ImGui::GetStyle().ItemSpacing.y;
        ImGui::SetCursorScreenPos(at);
        list->AddLine({at.x, at.y - gap / 2}, {at.x + ImGui::GetContentRegionAvail().x, at.y - gap / 2},
                      m_compared.colour(), 2);
    } else {
        list->AddLine({at.x - gap / 2, at.y}, {at.x - gap / 2, at.y + height}, m_compared.colour(), 2);
    }
    if (ImGui::BeginChild("##compared", {0, height}, ImGuiChildFlags_None))
        m_compared.draw(ctx, {m.text, m_coloured, m_paint});
    ImGui::EndChild();
}

void TextPanel::follow_selection(UiContext& ctx, const Metrics& m, float prompt_height) {
    const auto scroll_to = [&](int64_t token) {
        if (token < 1 || token > static_cast<int64_t>(m_text.num_tokens())) return;
        const auto& f = m_text.fragments()[m_text.token(static_cast<size_t>(token - 1)).first];
        const float y = prompt_height + static_cast<float>(f.line) * m.pitch,
                    height = ImGui::GetWindowHeight();
        if (y < ImGui::GetScrollY() || y + m.pitch > ImGui::GetScrollY() + height)
            ImGui::SetScrollY(std::max(0.0F, y - height * 0.4F));
    };
    if (ctx.live()) {
        if (!m_was_live || m_at_end) ImGui::SetScrollY(ImGui::GetCursorPosY());
    } else if (ctx.selection.step != m_seen_selection) {
        scroll_to(*ctx.selection.step + 1);
    }
    m_seen_selection = ctx.selection.step;
    m_was_live = ctx.live();
}

/// "held by no layer since step 12"; empty where some layer holds the position.
std::string TextPanel::gone_text(int64_t position) const {
    const auto step = m_gone.gone_at(position);
    if (!step) return {};
    return *step == 0 ? std::string("held by no layer since the prompt was read")
                      : fmt::format("held by no layer since step {}", format_thousands(*step));
}

/// As many entries as fit in one line.
void TextPanel::draw_legend(UiContext& ctx) {
    const ScreenPen pen(ctx, ImGui::GetWindowDrawList());
    auto entries = text_legend(ctx.theme, picture(ctx), std::nullopt);
    const auto framed = [&](const char* words, Colour colour, double thick) {
        entries.push_back({.words = words,
                           .mark = LegendEntry::Mark::sample,
                           .draw_sample = [colour, thick](const FigurePen& with, const FigureRect& place) {
                               with.canvas.frame(place, {colour, thick});
                           }});
    };
    framed("pending", ctx.theme.accent_ink, 1);
    framed("selected", ctx.theme.selection | alpha_mask, 2);
    const ImVec2 at = ImGui::GetCursorScreenPos();
    const auto room = static_cast<double>(ImGui::GetContentRegionAvail().x);
    size_t fit = 0;
    for (const FigureRect& place : legend_places(pen, 1e9, entries))
        fit += place.right() <= room ? 1U : 0U;
    ui::draw_legend(pen, {static_cast<double>(at.x), static_cast<double>(at.y)}, room,
                    std::span(entries).first(fit));
}

} // namespace refreshlab::ui
