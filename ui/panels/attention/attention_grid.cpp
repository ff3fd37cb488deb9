// The grid of the Attention panel: every visible head in a cell of its own.
#include "ui/base/colour.h"
#include "ui/base/format.h"
#include "ui/draw/cells.h"
#include "ui/draw/screen_canvas.h"
#include "ui/draw/text.h"
#include "ui/panels/attention/attention_frame.h"
#include "ui/panels/attention/attention_panel.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace refreshlab::ui {

void AttentionPanel::draw_grid(UiContext& ctx, Frame& f, PixelBox place) {
    const HeadGrid grid =
        head_grid(place, static_cast<int64_t>(f.layers.size()), static_cast<int64_t>(f.heads.size()), f.em);
    if (!update_grid(f, grid.cell_x, grid.cell_y)) return;
    std::vector<PlacedHead> placed;
    for (size_t l = 0; l < f.layers.size(); ++l)
        for (size_t h = 0; h < f.heads.size(); ++h)
            placed.push_back({l, h,
                              figure_rect({grid.column(static_cast<int64_t>(h)),
                                           grid.row(static_cast<int64_t>(l)), grid.cell_x, grid.cell_y})});
    draw_heads(ctx, f, placed);
    const ScreenPen pen(ctx, ImGui::GetWindowDrawList());
    paint_grid_names(pen, grid, m_grid, std::pair(ctx.selection.layer, ctx.selection.head));
    draw_grid_note(ctx, grid, place);
}

/// The maps, and what a person does with them.
void AttentionPanel::draw_heads(UiContext& ctx, const Frame& f, std::span<const PlacedHead> placed) {
    ImDrawList* list = ImGui::GetWindowDrawList();
    paint_heads(ScreenPen(ctx, list),
                {m_grid,
                 {.width = m_grid_size[0],
                  .height = m_grid_size[1],
                  .rgba = m_grid_rgba,
                  .key = "attention/grid",
                  .revision = m_grid_revision}},
                placed, false);
    for (const PlacedHead& head : placed) {
        const PixelBox cell = pixel_box(head.place);
        const ImVec2 min(cell.x, cell.y), max(cell.x + cell.width, cell.y + cell.height);
        const bool hovered = head_button(ctx, f, cell, head.layer, head.head);
        if (f.layers[head.layer] == ctx.selection.layer && f.heads[head.head] == ctx.selection.head)
            draw_outline(list, ctx.theme, min, max, ctx.theme.selection, std::max(1.5F, f.em * 0.12F));
        else if (hovered)
            list->AddRect(min, max, with_alpha(ctx.theme.selection, 0.6F));
        ctx.landmarks.set(cell, "attention/grid/{}/{}", f.layers[head.layer], f.heads[head.head]);
    }
}

/// Brings cells and colours up to date. \return false where there is none to draw
bool AttentionPanel::update_grid(const Frame& f, float cell_x, float cell_y) {
    // All heads are in one image; large cells of many heads are drawn from a smaller one.
    constexpr float most_texels = 600'000;
    const float shrink =
        std::min(1.0F, std::sqrt(most_texels /
                                 (cell_x * cell_y * static_cast<float>(f.layers.size() * f.heads.size()))));
    const AttentionMap::Shape shape{m_colours.of(),
                                    m_window,
                                    f.layers,
                                    f.heads,
                                    static_cast<int64_t>(cell_x * shrink),
                                    static_cast<int64_t>(cell_y * shrink)};
    const bool cells_changed = m_grid.update(*f.recording, shape);
    m_colours.follow(m_grid);
    std::string look = fmt::format("{} {}", m_colours.key(), f.unread);
    const auto width = static_cast<int>(m_grid.columns() * static_cast<int64_t>(f.heads.size()));
    const auto height = static_cast<int>(m_grid.rows() * static_cast<int64_t>(f.layers.size()));
    const bool changed = cells_changed || look != m_grid_look;
    if (width < 1 || height < 1) return false;
    if (!changed) return true;
    m_grid_look = std::move(look);
    // In a long run of many heads the enlarged one alone: this costs queries x keys of every head.
    constexpr int64_t most = 4'000'000;
    const int64_t cost =
        m_window.rows() * m_window.keys() * static_cast<int64_t>(f.layers.size() * f.heads.size());
    const UnreadMark unread{m_history, f.prompt, f.unread};
    m_grid_rgba = heads_image(m_grid, m_colours, marks_unread(f) && cost <= most ? &unread : nullptr);
    ++m_grid_revision;
    m_grid_size = {width, height};
    return true;
}

/// A cell as a button that selects its head. \return hovered
bool AttentionPanel::head_button(UiContext& ctx, const Frame& f, PixelBox cell, size_t l, size_t h) {
    ImGui::SetCursorScreenPos({cell.x, cell.y});
    ImGui::PushID(static_cast<int>(l * 4096 + h));
    if (ImGui::InvisibleButton("head", ImVec2(cell.width, cell.height))) {
        ctx.selection.layer = f.layers[l];
        ctx.selection.head = f.heads[h];
    }
    const bool hovered = ImGui::IsItemHovered();
    ImGui::PopID();
    if (hovered) {
        const auto top = m_grid.largest_weight(l, h, f.view->without_first);
        ImGui::SetTooltip("Layer %d, head %d\nLargest %s%s %s", f.layers[l], f.heads[h],
                          m_colours.differences() ? "difference" : "weight",
                          f.view->without_first ? " after position 0" : "",
                          top ? format_number(*top).c_str() : "-");
    }
    return hovered;
}

/// The best heads of a ranking instead of all, each with its name and number.
void AttentionPanel::draw_ranked(UiContext& ctx, Frame& f, PixelBox place) {
    constexpr int64_t rows_a_frame = 6;
    const HeadRanking::Question question{f.view->order, m_colours.of() == AttentionOf::teacher, f.layers,
                                         f.heads};
    if (m_ranking.update(*f.recording, question, m_window, rows_a_frame)) ctx.wait_for_jobs();
    const auto& ranked = m_ranking.ranked();
    const auto count = std::min<int64_t>(f.view->best, static_cast<int64_t>(ranked.size()));
    if (count == 0) {
        ImGui::SetCursorScreenPos({place.x, place.y});
        ImGui::PushTextWrapPos(ImGui::GetCursorPosX() + place.width);
        ImGui::TextDisabled("%s", f.view->order == HeadOrder::differing
                                      ? "No query here has the rows of both models yet"
                                      : "No row of these queries is recorded");
        ImGui::PopTextWrapPos();
        return;
    }
    const float note = std::round(1.3F * f.em);
    const RankedGrid grid =
        ranked_grid({place.x, place.y + note, place.width, place.height - note}, count, f.em);
    if (!update_grid(f, grid.cell_x, grid.cell_y)) return;
    const ScreenPen pen(ctx, ImGui::GetWindowDrawList());
    const std::string words = ranking_words(f.view->order);
    pen->canvas.text({static_cast<double>(place.x), static_cast<double>(place.y + f.em)}, words,
                     pen->muted());
    ctx.landmarks.set_text("attention/order", words);
    std::vector<PlacedHead> placed;
    for (int64_t rank = 0; rank < count; ++rank) {
        const RankedHead& head = ranked[static_cast<size_t>(rank)];
        placed.push_back({head.layer_index, head.head_index, figure_rect(grid.cell(rank))});
    }
    draw_heads(ctx, f, placed);
    for (int64_t rank = 0; rank < count; ++rank) {
        const PlacedHead& head = placed[static_cast<size_t>(rank)];
        const int32_t layer = f.layers[head.layer], number = f.heads[head.head];
        paint_rank_name(pen, head.place, head.place.width + static_cast<double>(grid.gap), layer, number,
                        ranked[static_cast<size_t>(rank)].value,
                        layer == ctx.selection.layer && number == ctx.selection.head);
        ctx.landmarks.set_text([&] { return fmt::format("{}/{}", layer, number); }, "attention/rank/{}",
                               rank);
    }
}

/// Below the grid, when there is room: what the cells are.
void AttentionPanel::draw_grid_note(UiContext& ctx, const HeadGrid& grid, PixelBox place) {
    if (grid.line_below + ImGui::GetFontSize() >= place.y + place.height) return;
    const std::string reduced =
        m_grid.key_factor() * m_grid.query_factor() > 1
            ? fmt::format("max of {} x {}", m_grid.query_factor(), m_grid.key_factor())
            : std::string();
    std::string what = "queries down, keys right";
    if (!reduced.empty()) what += ", " + reduced;
    const std::string kept = resolution_words(m_grid.resolution());
    const float room = place.width - (grid.x - place.x);
    if (!kept.empty() && text_width(kept) <= room)
        what = text_width(kept + "; " + what) <= room ? kept + "; " + what : kept; // the first to be known
    else if (text_width(what) > room)
        what = reduced;
    ctx.landmarks.set_text("attention/grid note", what);
    text_at(ImGui::GetWindowDrawList(), {grid.x, grid.line_below}, ctx.theme.text_muted, what);
}

} // namespace refreshlab::ui
