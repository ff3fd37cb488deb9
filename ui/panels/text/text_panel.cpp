#include "ui/panels/text/text_panel.h"

#include "ui/base/format.h"
#include "ui/base/value_format.h"
#include "ui/scene/marks/token_origins.h"
#include "ui/scene/text/text_layout.h"
#include "ui/widgets/offer_run.h"

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
}

void TextPanel::lay_out_anew(const UiContext& ctx, float width, float font_size) {
    const auto& recording = ctx.recording;
    if (m_recording != recording) m_prompt_open = recording->prompt_length() <= 80;
    m_recording = recording;
    m_width = width;
    m_font = font_size;
    const auto measure = [](std::string_view text) {
        return ImGui::CalcTextSize(text.data(), text.data() + text.size()).x;
    };
    ImFont* font = ImGui::GetFont();
    TextLayout::Style style;
    style.width = width;
    style.space = std::max(3.0F, measure(" ") * 1.1F);
    style.newline = font->IsGlyphInFont(0x21B5) ? "\u21B5" : "\\n";
    style.dot = font->IsGlyphInFont(0xB7) ? "\u00B7" : ".";
    m_text.reset(style, measure);
    m_prompt.reset(style, measure);
    for (const int32_t id : recording->info().prompt_ids)
        m_prompt.append(recording->tokens().token_bytes(id), recording->tokens().is_special(id));
}

void TextPanel::update_layout(UiContext& ctx, float width, const Metrics& m) {
    const auto& recording = ctx.recording;
    if (m_recording != recording || m_width != width || m_font != m.font ||
        m_text.num_tokens() > static_cast<size_t>(ctx.steps) + 1)
        lay_out_anew(ctx, width, m.font);
    // y_1 is known with the prefill; y_{t+1} with record t, which also says when there is none.
    const auto add = [&](int32_t id) {
        if (id >= 0) m_text.append(recording->tokens().token_bytes(id), recording->tokens().is_special(id));
    };
    if (m_text.num_tokens() == 0) add(recording->info().first_token);
    while (m_text.num_tokens() > 0 && static_cast<int64_t>(m_text.num_tokens()) <= ctx.steps) {
        const size_t before = m_text.num_tokens();
        add(recording->step(static_cast<int64_t>(before)).next_token_id);
        if (m_text.num_tokens() == before) break; // the last record chose nothing
    }
}

Producer TextPanel::producer_of(const UiContext& ctx, int64_t token) const {
    if (token == 1) return ctx.recording->info().first_producer;
    return ctx.recording->step(token - 1).next_producer;
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
    const float font = ImGui::GetTextLineHeight();
    const Metrics m{font, std::round(font * 0.62F), std::round(font * 1.78F)};
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
        m_compared.draw(ctx, {m.font, m.flag, m.pitch, m_coloured, m_paint});
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

/// Pulls what is drawn there towards the ground.
void TextPanel::dim(ImVec2 min, ImVec2 max) {
    ImGui::GetWindowDrawList()->AddRectFilled(
        min, max, with_alpha(ImGui::GetColorU32(ImGuiCol_WindowBg) | IM_COL32_A_MASK, 0.62F));
}

/// "held by no layer since step 12"; empty where some layer holds the position.
std::string TextPanel::gone_text(int64_t position) const {
    const auto step = m_gone.gone_at(position);
    if (!step) return {};
    return *step == 0 ? std::string("held by no layer since the prompt was read")
                      : fmt::format("held by no layer since step {}", format_thousands(*step));
}

void TextPanel::draw_legend(UiContext& ctx) {
    ImDrawList* list = ImGui::GetWindowDrawList();
    const float font = ImGui::GetTextLineHeight(),
                right = ImGui::GetCursorScreenPos().x + ImGui::GetContentRegionAvail().x;
    ImVec2 at = ImGui::GetCursorScreenPos();
    const float sample = font * 0.9F;
    const auto entry = [&](const char* words, auto&& draw_sample) {
        const float width = sample + 5 + ImGui::CalcTextSize(words).x;
        if (at.x + width > right) return;
        draw_sample(ImVec2(at.x, at.y + 3), ImVec2(at.x + sample, at.y + font - 2));
        list->AddText({at.x + sample + 5, at.y}, ctx.theme.text_muted, words);
        at.x += width + font * 0.9F;
    };
    const auto swatch = [&](ImU32 colour) {
        return [list, colour](ImVec2 a, ImVec2 b) {
            list->AddRectFilled({a.x, b.y - 3}, {b.x, b.y}, colour);
        };
    };
    if (ctx.views.text.origins) {
        entry("student's entry", swatch(ctx.theme.origin_student));
        entry("refreshed", swatch(ctx.theme.origin_refresh));
        entry("skipped", swatch(ctx.theme.origin_skipped));
        entry("teacher decode", swatch(ctx.theme.origin_prefill));
        return;
    }
    if (m_gone.any())
        entry("held by no layer", [&](ImVec2 a, ImVec2 b) {
            const char* letters = "ab";
            list->AddText({a.x, at.y}, ctx.theme.text, letters);
            dim({a.x, at.y}, {b.x + 4, at.y + font});
        });
    entry("teacher's token", [&](ImVec2 a, ImVec2 b) {
        list->AddRectFilled({a.x, a.y + 2}, {b.x, b.y}, ctx.theme.grid);
        list->AddRectFilled({a.x, a.y}, {b.x, a.y + 2}, ctx.theme.origin_prefill);
    });
    entry("drawn again", [&](ImVec2 a, ImVec2 b) {
        list->AddRectFilled(a, {b.x, b.y - 3}, ctx.theme.grid);
        list->AddRectFilled({a.x, b.y - 2}, b, ctx.theme.accent);
    });
    entry("pending", [&](ImVec2 a, ImVec2 b) { list->AddRect(a, b, ctx.theme.accent_ink, 2); });
    entry("selected",
          [&](ImVec2 a, ImVec2 b) { list->AddRect(a, b, ctx.theme.selection | IM_COL32_A_MASK, 2, 2.0F); });
}

} // namespace refreshlab::ui
