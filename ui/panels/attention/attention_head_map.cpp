// The map of the enlarged head: queries down, keys to the right, with its axes.
#include "ui/base/colour.h"
#include "ui/base/value_format.h"
#include "ui/draw/cells.h"
#include "ui/draw/text.h"
#include "ui/panels/attention/attention_frame.h"
#include "ui/panels/attention/attention_panel.h"
#include "ui/scene/maps/heatmap.h"
#include "ui/scene/text/token_label.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

namespace refreshlab::ui {
namespace {

/// How many labels of a size fit, two at least.
int64_t labels_that_fit(float room, float one) {
    return std::max<int64_t>(2, static_cast<int64_t>(room / one));
}

/// A token's label for an axis, `room` pixels wide at most.
std::string axis_token(const Recording& recording, int64_t position, float room) {
    constexpr size_t longest = 10;
    const int64_t prompt = recording.prompt_length();
    const int32_t id = position < prompt ? recording.info().prompt_ids[static_cast<size_t>(position)]
                                         : recording.token(position - prompt + 1);
    for (size_t chars = longest; chars > 1; --chars)
        if (std::string label = short_token_label(recording.tokens(), id, chars); text_width(label) <= room)
            return label;
    return {};
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
    const ImVec2 mouse = ImGui::GetIO().MousePos;
    const auto row =
        m_window.first_query + static_cast<int64_t>(static_cast<double>((mouse.y - min.y) / height) *
                                                    static_cast<double>(m_window.rows()));
    const int64_t query = std::clamp(row, m_window.first_query, m_window.last_query);
    if (m_menu.draw("##head menu", [&] { return copy_items(ctx, f, query); }) || !ImGui::IsItemHovered())
        return;
    hover_key(ctx, f, query, static_cast<int64_t>(f.axis.key_at(mouse.x)), clicked);
}

/// The weights of a row, as a spreadsheet takes them.
std::vector<CopyItem> AttentionPanel::copy_items(const UiContext& ctx, const Frame& f, int64_t query) const {
    const auto weights =
        attention_row(*f.recording, query, m_colours.of(), ctx.selection.layer, ctx.selection.head);
    if (weights.empty()) return {};
    std::string text = "position\ttoken\tweight\n";
    for (size_t key = 0; key < weights.size(); ++key)
        text += fmt::format("{}\t{}\t{}\n", key,
                            position_label(*f.recording, static_cast<int64_t>(key), attention_label_chars),
                            weights[key]);
    return {{fmt::format("Copy the weights of step {}, layer {}, head {}",
                         format_thousands(query - f.prompt + 1), ctx.selection.layer, ctx.selection.head),
             std::move(text)}};
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
    std::string look = fmt::format("{} {} {} {} {}", m_colours.map_name(), static_cast<int>(m_colours.of()),
                                   scale.log, scale.min, scale.max);
    if (marks_unread(f)) look += fmt::format(" {}", f.unread);
    if (changed || look != m_head_look) {
        m_head_look = std::move(look);
        m_head_rgba.resize(static_cast<size_t>(m_head.rows() * m_head.columns()));
        m_colours.colour(m_head.cells(0, 0), scale, m_head_rgba);
        if (marks_unread(f)) mark_unread(m_history, m_head, 0, 0, f.prompt, f.unread, m_head_rgba);
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
        const ImVec2 low(min.x, y0 - 0.5F),
            high(f.axis.x(static_cast<double>(query + 1)), std::max(y1, y0 + 2) + 0.5F);
        if (query == f.query)
            draw_outline(list, ctx.theme, low, high, colour, 1);
        else
            list->AddRect(low, high, colour);
    };
    if (ctx.hovered_step) mark_row(f.prompt + *ctx.hovered_step - 1, with_alpha(ctx.theme.crosshair, 0.8F));
    if (!ctx.live()) mark_row(f.query, ctx.theme.selection);
    if (const auto held = ctx.selection.key_position; held && *held < f.axis.keys) {
        const float x = std::round(f.axis.x(static_cast<double>(*held) + 0.5));
        draw_marked_line(list, ctx.theme, ImVec2(x, min.y), ImVec2(x, max.y), ctx.theme.selection);
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
                ImVec2(map_min.x - f.step_tokens - em * 0.35F - text_width(label),
                       std::min(y - em * 0.5F, map_max.y - em)),
                ctx.theme.text_muted, label);
    }
}

/// The queries' tokens between their step numbers and the map: the shown one, then as many as keep apart.
void AttentionPanel::draw_step_tokens(UiContext& ctx, const Frame& f, ImVec2 map_min, ImVec2 map_max) {
    ImDrawList* list = ImGui::GetWindowDrawList();
    const float row = (map_max.y - map_min.y) / static_cast<float>(m_window.rows());
    const std::vector<int64_t> wanted = {f.query};
    const float right = map_min.x - f.em * 0.35F;
    list->PushClipRect({right - f.step_tokens, map_min.y - f.em}, {right, map_max.y + f.em}, true);
    for (const int64_t query :
         spaced_labels(wanted, m_window.first_query, m_window.last_query + 1, row, 1.1F * f.em)) {
        const std::string label = axis_token(*f.recording, query, f.step_tokens - 0.3F * f.em);
        const float y = map_min.y + (static_cast<float>(query - m_window.first_query) + 0.5F) * row;
        text_at(list, {right - text_width(label), y - f.em * 0.5F},
                query == f.query ? ctx.theme.text : ctx.theme.text_muted, label);
    }
    list->PopClipRect();
    ctx.landmarks.set("attention/step tokens",
                      {right - f.step_tokens, map_min.y, f.step_tokens, map_max.y - map_min.y});
}

/// The keys' tokens below the map, read upward: the held one, those that the shown query looks at most, then as many as keep apart.
void AttentionPanel::draw_key_tokens(UiContext& ctx, const Frame& f, ImVec2 map_min, ImVec2 map_max) {
    ImDrawList* list = ImGui::GetWindowDrawList();
    std::vector<int64_t> wanted;
    const auto held = ctx.selection.key_position;
    if (held) wanted.push_back(*held);
    for (const TopKey& key : m_row.top)
        wanted.push_back(key.position);
    const size_t strong = wanted.size();
    const float column = (f.axis.right - f.axis.left) / static_cast<float>(f.axis.keys);
    const float line = ImGui::GetTextLineHeight();
    for (const int64_t key : spaced_labels(wanted, 0, f.axis.keys, column, 1.05F * line)) {
        if (key >= f.recording->prompt_length() + ctx.steps) continue;
        const std::string label = axis_token(*f.recording, key, f.key_tokens - 0.4F * f.em);
        const float x = f.axis.x(static_cast<double>(key) + 0.5);
        const bool marked =
            std::ranges::find(wanted.begin(), wanted.begin() + static_cast<std::ptrdiff_t>(strong), key) !=
            wanted.begin() + static_cast<std::ptrdiff_t>(strong);
        text_upward(list, {x - line / 2, map_max.y + f.em * 0.25F + text_width(label)},
                    marked ? ctx.theme.text : ctx.theme.text_muted, label);
    }
    ctx.landmarks.set("attention/key tokens", {map_min.x, map_max.y, map_max.x - map_min.x, f.key_tokens});
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
