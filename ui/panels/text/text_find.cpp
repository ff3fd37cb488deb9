// Finding words in the text, and the menu of a token.
#include "ui/base/value_format.h"
#include "ui/draw/note_item.h"
#include "ui/draw/text_entry.h"
#include "ui/panels/text/text_panel.h"
#include "ui/scene/text/token_label.h"

#include <fmt/format.h>
#include <imgui.h>

#include <algorithm>

namespace refreshlab::ui {

void TextPanel::draw_find(UiContext& ctx) {
    if (ctx.find_in_text) {
        m_find_open = m_focus_find = true;
        ctx.find_in_text = false;
    }
    if (!m_find_open || !ctx.recording) return;
    const float em = ImGui::GetFontSize();
    const auto tokens = static_cast<int64_t>(m_text.num_tokens());
    m_finder.update(ctx.recording, tokens, m_query, &ctx.marks);
    const auto& matches = m_finder.matches();
    if (m_focus_find) ImGui::SetKeyboardFocusHere();
    m_focus_find = false;
    ImGui::SetNextItemWidth(
        std::max(em * 5, ImGui::GetContentRegionAvail().x - em * (m_finder.in_notes() > 0 ? 17 : 13)));
    const bool enter =
        text_entry("##find", &m_query, ImGuiInputTextFlags_EnterReturnsTrue, "Find in the text");
    bool close = ImGui::IsItemDeactivated() && ImGui::IsKeyPressed(ImGuiKey_Escape, false);
    if (enter) m_focus_find = true; // the next Enter goes on
    int go = enter ? (ImGui::GetIO().KeyShift ? -1 : 1) : 0;
    ImGui::SameLine();
    ImGui::BeginDisabled(matches.empty());
    if (ImGui::ArrowButton("##before", ImGuiDir_Up)) go = -1;
    ImGui::SetItemTooltip("The match before (Shift+Enter)");
    ImGui::SameLine(0, 2);
    if (ImGui::ArrowButton("##after", ImGuiDir_Down)) go = 1;
    ImGui::SetItemTooltip("The next match (Enter)");
    ImGui::EndDisabled();
    ImGui::SameLine();
    ImGui::AlignTextToFramePadding();
    const auto shown = std::ranges::find_if(matches, [&](const TextFinder::Match& match) {
        return !ctx.live() && std::max<int64_t>(1, match.first - 1) == ctx.shown_step();
    });
    std::string count = m_query.empty()   ? std::string()
                        : matches.empty() ? std::string("not found")
                        : shown == matches.end()
                            ? format_thousands(static_cast<int64_t>(matches.size())) + " found"
                            : fmt::format("{} of {}", shown - matches.begin() + 1, matches.size());
    if (m_finder.in_notes() > 0) count += fmt::format(", {} in notes", m_finder.in_notes());
    ImGui::TextDisabled("%s", count.c_str());
    ImGui::SameLine();
    if (ImGui::SmallButton("x##close find")) close = true;
    if (go != 0) go_to_match(ctx, go > 0);
    if (close) {
        m_find_open = false;
        m_finder.update(ctx.recording, tokens, "");
    }
}

void TextPanel::go_to_match(UiContext& ctx, bool forward) {
    // y_{t+1} is shown with step t.
    const int64_t token =
        ctx.live() ? (forward ? 0 : static_cast<int64_t>(m_text.num_tokens()) + 1) : ctx.shown_step() + 1;
    const TextFinder::Match* match = m_finder.beside(token, forward);
    if (match && ctx.steps > 0) ctx.select_step(std::clamp<int64_t>(match->first - 1, 1, ctx.steps));
}

/// Frames of what was found, in sight.
void TextPanel::draw_matches(const UiContext& ctx, const Metrics& m, size_t begin, size_t end,
                             ImVec2 origin) {
    if (!m_find_open || m_query.empty() || begin >= end) return;
    const auto in_sight = m_text.tokens_in({begin, end});
    if (!in_sight) return;
    const int64_t first = in_sight->first + 1, last = in_sight->second + 1;
    for (const TextFinder::Match& match : m_finder.matches()) {
        if (match.first > last) break;
        const int64_t stop = std::min({match.last, last, static_cast<int64_t>(m_text.num_tokens())});
        for (int64_t token = std::max(match.first, first); token <= stop; ++token)
            draw_frame(m, token, origin, ctx.theme.accent, 1.5F);
    }
}

/// Right click on a token, or beside the text.
void TextPanel::draw_token_menu(UiContext& ctx) {
    if (!ImGui::BeginPopup("token menu")) return;
    const Recording& recording = *ctx.recording;
    const auto tokens = static_cast<int64_t>(m_text.num_tokens());
    const auto copy = [](const std::string& text) { ImGui::SetClipboardText(text.c_str()); };
    if (m_menu_token > 0 && m_menu_token <= tokens) {
        const int32_t id = generated_token(recording, m_menu_token);
        if (ImGui::MenuItem(fmt::format("Copy token {}", token_label(recording.tokens(), id)).c_str()))
            copy(text_of_tokens(recording, m_menu_token, m_menu_token));
        if (ImGui::MenuItem("Copy text up to here")) copy(text_of_tokens(recording, 1, m_menu_token));
    }
    if (ImGui::MenuItem("Copy whole text")) copy(text_of_tokens(recording, 1, tokens));
    if (ImGui::MenuItem("Copy prompt")) copy(recording.info().config.prompt);
    ImGui::Separator();
    note_item(ctx, m_menu_token - 1);
    if (ImGui::MenuItem("Find in the text...", ctx.key_of("text.find").c_str())) ctx.find_in_text = true;
    if (m_menu_token > 1 && m_menu_token - 1 <= ctx.steps && ctx.run_action &&
        ImGui::MenuItem(fmt::format("Rewind to step {}", format_thousands(m_menu_token - 1)).c_str())) {
        ctx.select_step(m_menu_token - 1);
        ctx.run_action("run.rewind");
    }
    ImGui::EndPopup();
}

} // namespace refreshlab::ui
