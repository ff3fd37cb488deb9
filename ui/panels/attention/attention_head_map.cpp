// Strip and map of the enlarged head: their cells, and what a person does with them.
#include "ui/base/colour.h"
#include "ui/base/value_format.h"
#include "ui/draw/cells.h"
#include "ui/draw/screen_canvas.h"
#include "ui/panels/attention/attention_frame.h"
#include "ui/panels/attention/attention_panel.h"
#include "ui/scene/text/token_label.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace refreshlab::ui {
/// Brings the cells of the enlarged head and their colours up to date.
void AttentionPanel::update_head(const UiContext& ctx, const Frame& f) {
    const AttentionMap::Shape shape{m_colours.of(),
                                    m_window,
                                    {ctx.selection.layer},
                                    {ctx.selection.head},
                                    static_cast<int64_t>(f.places.map.width),
                                    static_cast<int64_t>(f.places.map.height)};
    const bool changed = m_head.update(*f.recording, shape);
    if (m_head.rows() <= 0 || m_head.columns() <= 0) return;
    const auto index = [](const std::vector<int32_t>& all, int32_t one) {
        return static_cast<size_t>(std::ranges::find(all, one) - all.begin());
    };
    const ColourScale scale =
        m_colours.scale(index(f.layers, ctx.selection.layer), index(f.heads, ctx.selection.head));
    std::string look = fmt::format("{} {} {} {} {}", m_colours.map_name(), static_cast<int>(m_colours.of()),
                                   scale.log, scale.min, scale.max);
    if (marks_unread(f)) look += fmt::format(" {}", f.unread);
    if (!changed && look == m_head_look) return;
    m_head_look = std::move(look);
    m_head_rgba.resize(static_cast<size_t>(m_head.rows() * m_head.columns()));
    m_colours.colour(m_head.cells(0, 0), scale, m_head_rgba);
    if (marks_unread(f)) mark_unread(m_history, m_head, 0, 0, f.prompt, f.unread, m_head_rgba);
    ++m_head_revision;
}

void AttentionPanel::answer_map(UiContext& ctx, Frame& f) {
    const PixelBox map = pixel_box(f.places.map);
    ctx.landmarks.set(map, "attention/head");
    ImGui::SetCursorScreenPos({map.x, map.y});
    const bool clicked = ImGui::InvisibleButton("map", ImVec2(map.width, map.height));
    const ImVec2 mouse = ImGui::GetIO().MousePos;
    const auto row =
        m_window.first_query + static_cast<int64_t>(static_cast<double>((mouse.y - map.y) / map.height) *
                                                    static_cast<double>(m_window.rows()));
    const int64_t query = std::clamp(row, m_window.first_query, m_window.last_query);
    if (m_menu.draw("##head menu", [&] { return copy_items(ctx, f, query); }) || !ImGui::IsItemHovered())
        return;
    hover_key(ctx, f, query, static_cast<int64_t>(f.places.axis.key_at(mouse.x)), clicked);
}

void AttentionPanel::answer_strip(UiContext& ctx, Frame& f) {
    const PixelBox strip = pixel_box(f.places.strip);
    ctx.landmarks.set(strip, "attention/strip");
    ImGui::SetCursorScreenPos({strip.x, strip.y});
    const bool clicked = ImGui::InvisibleButton("strip", ImVec2(strip.width, strip.height));
    if (ImGui::IsItemHovered())
        hover_key(ctx, f, f.query, strip_key(m_row.weights, f.places.axis, ImGui::GetIO().MousePos.x),
                  clicked);
}

/// The weights of a row, as a spreadsheet takes them.
std::vector<CopyItem> AttentionPanel::copy_items(const UiContext& ctx, const Frame& f, int64_t query) const {
    const auto weights =
        attention_row(*f.recording, query, m_colours.of(), ctx.selection.layer, ctx.selection.head);
    if (weights.empty()) return {};
    const auto keys =
        keys_of_weights(*f.recording, query, m_colours.of(), ctx.selection.layer, ctx.selection.head);
    std::string text = "position\ttoken\tweight\tkeys_of_weight\n";
    for (size_t key = 0; key < weights.size(); ++key)
        text += fmt::format("{}\t{}\t{}\t{}\n", key,
                            position_label(*f.recording, static_cast<int64_t>(key), attention_label_chars),
                            weights[key], keys[key]);
    return {{fmt::format("Copy the weights of step {}, layer {}, head {}",
                         format_thousands(query - f.prompt + 1), ctx.selection.layer, ctx.selection.head),
             std::move(text)}};
}

/// The rows that are looked at.
void AttentionPanel::draw_rows(const UiContext& ctx, const Frame& f) const {
    ImDrawList* list = ImGui::GetWindowDrawList();
    const auto mark_row = [&](int64_t query, Colour colour) {
        if (!m_window.contains(query)) return;
        const auto y0 = static_cast<float>(row_top(f.places, m_window, query)),
                   y1 = static_cast<float>(row_top(f.places, m_window, query + 1));
        const ImVec2 low(static_cast<float>(f.places.map.x), y0 - 0.5F),
            high(f.places.axis.x(static_cast<double>(query + 1)), std::max(y1, y0 + 2) + 0.5F);
        if (query == f.query)
            draw_outline(list, ctx.theme, low, high, colour, 1);
        else
            list->AddRect(low, high, colour);
    };
    if (ctx.hovered_step) mark_row(f.prompt + *ctx.hovered_step - 1, with_alpha(ctx.theme.crosshair, 0.8F));
    if (!ctx.live()) mark_row(f.query, ctx.theme.selection);
}

} // namespace refreshlab::ui
