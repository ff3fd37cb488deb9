// The map of the enlarged head: queries down, keys to the right, with its axes.
#include "ui/base/colour.h"
#include "ui/base/value_format.h"
#include "ui/draw/cells.h"
#include "ui/draw/text.h"
#include "ui/panels/attention/attention_frame.h"
#include "ui/panels/attention/attention_panel.h"
#include "ui/scene/maps/heatmap.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace refreshlab::ui {
namespace {

/// How many labels of a size fit, two at least.
int64_t labels_that_fit(float room, float one) {
    return std::max<int64_t>(2, static_cast<int64_t>(room / one));
}

} // namespace

/// Upper edge of a query's row.
float AttentionPanel::row_y(ImVec2 min, ImVec2 max, int64_t query) const {
    const auto rows = static_cast<double>(query) - static_cast<double>(m_window.first_query);
    return min.y + static_cast<float>(rows / static_cast<double>(m_window.rows())) * (max.y - min.y);
}

void AttentionPanel::draw_map(UiContext& ctx, Frame& f, ImVec2 min, ImVec2 max) {
    ImDrawList* list = ImGui::GetWindowDrawList();
    const float width = max.x - min.x, height = max.y - min.y;
    const AttentionMap::Shape shape{m_colours.of(),
                                    m_window,
                                    {ctx.selection.layer},
                                    {ctx.selection.head},
                                    static_cast<int64_t>(width),
                                    static_cast<int64_t>(height)};
    const bool changed = m_head.update(*f.recording, shape);
    list->AddRectFilled(min, max, ctx.theme.plot_background);
    draw_map_rows(ctx, f, min, max);
    if (m_head.rows() > 0 && m_head.columns() > 0) draw_map_cells(ctx, f, min, max, changed);
    list->AddRect(min, max, ctx.theme.plot_border);
    ctx.landmarks.set("attention/head", {min.x, min.y, width, height});
    draw_map_lines(ctx, f, min, max);
    ImGui::SetCursorScreenPos(min);
    const bool clicked = ImGui::InvisibleButton("map", ImVec2(width, height));
    if (!ImGui::IsItemHovered()) return;
    const ImVec2 mouse = ImGui::GetIO().MousePos;
    const auto query =
        m_window.first_query + static_cast<int64_t>(static_cast<double>((mouse.y - min.y) / height) *
                                                    static_cast<double>(m_window.rows()));
    hover_key(ctx, f, std::clamp(query, m_window.first_query, m_window.last_query),
              static_cast<int64_t>(f.axis.key_at(mouse.x)), clicked);
}

/// A hatch where the rows of queries were not recorded.
void AttentionPanel::draw_map_rows(UiContext& ctx, const Frame& f, ImVec2 min, ImVec2 max) {
    for (int64_t q = m_window.first_query; q <= m_window.last_query;) {
        if (m_head.has_row(q)) {
            ++q;
            continue;
        }
        const int64_t first = q;
        while (q <= m_window.last_query && !m_head.has_row(q))
            ++q;
        draw_absent(ImGui::GetWindowDrawList(), ctx.theme, {min.x, row_y(min, max, first)},
                    {f.axis.x(static_cast<double>(q)), row_y(min, max, q)});
    }
}

void AttentionPanel::draw_map_cells(UiContext& ctx, const Frame& f, ImVec2 min, ImVec2 max, bool changed) {
    const auto index = [](const std::vector<int32_t>& all, int32_t one) {
        return static_cast<size_t>(std::ranges::find(all, one) - all.begin());
    };
    const ColourScale scale =
        m_colours.scale(index(f.layers, ctx.selection.layer), index(f.heads, ctx.selection.head));
    std::string look = fmt::format("{} {} {} {} {}", m_colours.map, static_cast<int>(m_colours.of()),
                                   scale.log, scale.min, scale.max);
    if (changed || look != m_head_look) {
        m_head_look = std::move(look);
        m_head_rgba.resize(static_cast<size_t>(m_head.rows() * m_head.columns()));
        m_colours.colour(m_head.cells(0, 0), scale, m_head_rgba);
        m_head_size = {static_cast<int>(m_head.columns()), static_cast<int>(m_head.rows())};
        ++m_head_revision;
    }
    const ImTextureID texture =
        ctx.host.texture("attention/head", m_head_size[0], m_head_size[1], m_head_rgba, m_head_revision);
    const CellWindow window = cell_window(m_head);
    draw_cells(ImGui::GetWindowDrawList(), texture, min, max, ImVec2(0, window.v_begin),
               ImVec2(window.u_end, window.v_end));
}

/// The end of the prompt, the rows that are looked at, the held key.
void AttentionPanel::draw_map_lines(UiContext& ctx, const Frame& f, ImVec2 min, ImVec2 max) {
    ImDrawList* list = ImGui::GetWindowDrawList();
    const float prompt_x = std::round(f.axis.x(static_cast<double>(f.prompt)));
    list->AddLine(ImVec2(prompt_x, min.y), ImVec2(prompt_x, max.y), with_alpha(ctx.theme.text_muted, 0.55F));
    const auto mark_row = [&](int64_t query, Colour colour) {
        if (!m_window.contains(query)) return;
        const float y0 = row_y(min, max, query), y1 = row_y(min, max, query + 1);
        list->AddRect(ImVec2(min.x, y0 - 0.5F),
                      ImVec2(f.axis.x(static_cast<double>(query + 1)), std::max(y1, y0 + 2) + 0.5F), colour);
    };
    if (ctx.hovered_step) mark_row(f.prompt + *ctx.hovered_step - 1, with_alpha(ctx.theme.crosshair, 0.8F));
    if (!ctx.live()) mark_row(f.query, ctx.theme.selection);
    if (const auto held = ctx.selection.key_position; held && *held < f.axis.keys) {
        const float x = std::round(f.axis.x(static_cast<double>(*held) + 0.5));
        list->AddLine(ImVec2(x, min.y), ImVec2(x, max.y), with_alpha(ctx.theme.selection, 0.7F));
    }
}

/// y: steps, their text right of the panel's edge and left of the map.
void AttentionPanel::draw_step_axis(UiContext& ctx, const Frame& f, ImVec2 map_min, ImVec2 map_max) {
    ImDrawList* list = ImGui::GetWindowDrawList();
    const float em = f.em, height = map_max.y - map_min.y;
    const int64_t first_step = m_window.first_query - f.prompt + 1, last_step = first_step + m_window.rows();
    for (const int64_t step : whole_ticks(first_step, last_step, labels_that_fit(height, 1.6F * em))) {
        const std::string label = format_thousands(step);
        const float y = map_min.y + (static_cast<float>(step - first_step) + 0.5F) /
                                        static_cast<float>(m_window.rows()) * height;
        list->AddLine(ImVec2(map_min.x - em * 0.2F, std::round(y)), ImVec2(map_min.x, std::round(y)),
                      ctx.theme.plot_border);
        text_at(list,
                ImVec2(map_min.x - em * 0.35F - text_width(label), std::min(y - em * 0.5F, map_max.y - em)),
                ctx.theme.text_muted, label);
    }
}

/// x: positions of keys; labels that would touch the axis' name give way.
void AttentionPanel::draw_key_axis(UiContext& ctx, const Frame& f, ImVec2 map_min, ImVec2 map_max,
                                   float bottom) {
    ImDrawList* list = ImGui::GetWindowDrawList();
    const float em = f.em, width = map_max.x - map_min.x, y = bottom - em * 1.15F;
    std::string title = "key position";
    if (m_head.key_factor() * m_head.query_factor() > 1)
        title += fmt::format(", max of {} x {}", m_head.query_factor(), m_head.key_factor());
    if (text_width(title) > width) title = "key";
    const float title_x = map_max.x - text_width(title);
    float free_from = map_min.x - em;
    for (const int64_t tick : whole_ticks(0, f.axis.keys, labels_that_fit(width, 4.0F * em))) {
        const std::string label = format_thousands(tick);
        const float x = std::round(f.axis.x(static_cast<double>(tick) + 0.5)), w = text_width(label);
        list->AddLine(ImVec2(x, map_max.y), ImVec2(x, map_max.y + em * 0.2F), ctx.theme.plot_border);
        if (x - w * 0.5F < free_from || x + w * 0.5F > title_x - em * 0.5F) continue;
        text_at(list, ImVec2(x - w * 0.5F, y), ctx.theme.text_muted, label);
        free_from = x + w * 0.5F + em * 0.5F;
    }
    text_at(list, ImVec2(title_x, y), ctx.theme.text_muted, title);
}

} // namespace refreshlab::ui
