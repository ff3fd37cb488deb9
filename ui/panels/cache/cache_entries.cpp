// The map of the Cache panel that shows what became of the entries, with a bar for each row and the meter below.
#include "ui/base/format.h"
#include "ui/base/value_format.h"
#include "ui/draw/cells.h"
#include "ui/draw/text.h"
#include "ui/panels/cache/cache_frame.h"
#include "ui/panels/cache/cache_panel.h"
#include "ui/scene/attention/attention_map.h"
#include "ui/theme/run_colours.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace refreshlab::ui {

void CachePanel::colour_entries(const Theme& theme) {
    std::string look =
        fmt::format("{} {} {} {}", m_state.revision(), m_factor, m_rows.layer.value_or(-1), theme.name);
    if (look == m_entries_look) return;
    m_entries_look = std::move(look);
    ++m_entries_image_revision;
    m_entries_rgba = colour_cells(m_state.cache(), m_rows, m_factor, cell_palette(theme));
    m_counts = count_rows(m_state.cache(), m_rows);
    m_present = cells_present(m_state.cache());
}

void CachePanel::draw_entries(UiContext& ctx, Frame& f) {
    ImDrawList* list = ImGui::GetWindowDrawList();
    const ImVec2 min(f.x0, f.drift_y0), max(f.x1, f.drift_y1);
    list->AddRectFilled(min, max, ctx.theme.plot_background);
    colour_entries(ctx.theme);
    f.recording->entry_scores().ask();
    ctx.landmarks.set("cache/map", {min.x, min.y, max.x - min.x, max.y - min.y});
    if (m_texels < 1 || m_entries_rgba.empty()) return;
    const ImTextureID texture = ctx.host.texture("cache/entries", m_texels, static_cast<int>(f.rows),
                                                 m_entries_rgba, m_entries_image_revision);
    const auto u_end =
        static_cast<float>(static_cast<double>(f.length) / static_cast<double>(m_texels * m_factor));
    draw_cells(list, texture, min, max, ImVec2(0, 0), ImVec2(u_end, 1));
    const float row = (max.y - min.y) / static_cast<float>(f.rows);
    for (int64_t i = 1; i < f.rows && row > 4; ++i) {
        const float y = std::round(min.y + static_cast<float>(i) * row);
        list->AddLine(ImVec2(min.x, y), ImVec2(max.x, y), ctx.theme.plot_background);
    }
    draw_row_names(ctx, f);
    for (size_t i = 0; i < m_counts.size(); ++i) {
        ctx.landmarks.set_text([&] { return fmt::format("{}", m_counts[i].held); }, "cache/held/{}", i);
        ctx.landmarks.set_text([&] { return fmt::format("{}", m_counts[i].attended); }, "cache/attended/{}",
                               i);
    }
    if (f.bars_x1 > f.x1) draw_budget_bars(ctx, f);
    ImGui::SetCursorScreenPos(
        ImVec2(f.lanes_min.x, min.y)); // names are buttons: a layer with its KV heads, or all again
    if (ImGui::InvisibleButton("row names", ImVec2(f.x0 - f.lanes_min.x, max.y - min.y))) {
        const auto at = static_cast<int64_t>((ImGui::GetIO().MousePos.y - min.y) / row);
        if (m_rows.layer)
            f.view->rows.layer.reset();
        else
            f.view->rows.layer = std::clamp<int64_t>(at, 0, f.rows - 1);
    }
    ImGui::SetItemTooltip("%s", m_rows.layer ? "Back to all layers" : "Show the KV heads of this layer");
    ctx.landmarks.set("cache/rows", {f.lanes_min.x, min.y, f.x0 - f.lanes_min.x, max.y - min.y});
}

void CachePanel::draw_row_names(UiContext& ctx, const Frame& f) const {
    const float row = (f.drift_y1 - f.drift_y0) / static_cast<float>(f.rows);
    const auto every = std::max<int64_t>(1, static_cast<int64_t>(std::ceil(1.05F * f.em / row)));
    for (int64_t i = 0; i < f.rows; i += every) {
        const std::string label = fmt::format("{}{}", m_rows.layer ? "KV" : "L", i);
        text_at(ImGui::GetWindowDrawList(),
                ImVec2(f.x0 - f.em * 0.4F - text_width(label),
                       f.drift_y0 + (static_cast<float>(i) + 0.5F) * row - f.em * 0.5F),
                ctx.theme.text_muted, label);
    }
}

/// What each row reads and holds, against all positions; a line at the budget.
void CachePanel::draw_budget_bars(UiContext& ctx, const Frame& f) const {
    ImDrawList* list = ImGui::GetWindowDrawList();
    const CellPalette palette = cell_palette(ctx.theme);
    const float x0 = f.x1 + f.em * 0.5F, x1 = f.bars_x1,
                row = (f.drift_y1 - f.drift_y0) / static_cast<float>(f.rows);
    const auto all = static_cast<double>(std::max<int64_t>(1, m_state.cache().length()));
    const auto x_of = [&](double entries) {
        return x0 + static_cast<float>(std::min(1.0, entries / all)) * (x1 - x0);
    };
    text_at(list, ImVec2(x0, f.origin_y0), ctx.theme.text_muted, "held");
    const std::string most = format_thousands(static_cast<int64_t>(all));
    text_at(list, ImVec2(x1 - text_width(most), f.axis_y + f.em * 0.2F), ctx.theme.text_muted, most);
    for (int64_t i = 0; i < f.rows && i < std::ssize(m_counts); ++i) {
        const RowCount& count = m_counts[static_cast<size_t>(i)];
        const float top = std::round(f.drift_y0 + static_cast<float>(i) * row + row * 0.18F),
                    bottom =
                        std::max(top + 1, std::round(f.drift_y0 + static_cast<float>(i) * row + row * 0.82F));
        list->AddRectFilled(ImVec2(x0, top), ImVec2(x1, bottom),
                            palette[static_cast<size_t>(CacheCell::evicted)]);
        list->AddRectFilled(ImVec2(x0, top), ImVec2(x_of(count.held), bottom),
                            palette[static_cast<size_t>(CacheCell::held)]);
        list->AddRectFilled(ImVec2(x0, top), ImVec2(x_of(count.attended), bottom),
                            palette[static_cast<size_t>(CacheCell::attended)]);
    }
    if (const double budget = entry_budget(f.recording->info().config); budget > 0 && budget < all)
        draw_marked_line(list, ctx.theme, ImVec2(x_of(budget), f.drift_y0), ImVec2(x_of(budget), f.drift_y1),
                         ctx.theme.accent);
    ImGui::SetCursorScreenPos(ImVec2(x0, f.drift_y0));
    ImGui::InvisibleButton("bars", ImVec2(std::max(1.0F, x1 - x0), f.drift_y1 - f.drift_y0));
    if (!ImGui::IsItemHovered() || m_counts.empty()) return;
    const auto i = std::clamp<int64_t>(static_cast<int64_t>((ImGui::GetIO().MousePos.y - f.drift_y0) / row),
                                       0, std::ssize(m_counts) - 1);
    const RowCount& count = m_counts[static_cast<size_t>(i)];
    const double budget = entry_budget(f.recording->info().config);
    const std::string limit =
        budget > 0 ? fmt::format("\nBudget {} (the line)", format_number(budget)) : std::string();
    ImGui::SetTooltip("%s", fmt::format("{} {}: {} of {} entries held, {} read{}{}",
                                        m_rows.layer ? "KV head" : "Layer", i, format_number(count.held),
                                        most, format_number(count.attended),
                                        m_rows.layer ? "" : " (means over the KV heads)", limit)
                                .c_str());
}

/// Exact bytes of the cache that decodes, against one that keeps everything: as a bar, and in words.
void CachePanel::draw_meter(UiContext& ctx, const Frame& f) const {
    ImDrawList* list = ImGui::GetWindowDrawList();
    const CacheMeter meter = cache_meter(*f.recording, m_state.cache());
    const float line = ImGui::GetTextLineHeight(), y = f.bottom - line;
    const float bar = std::min(8 * f.em, (f.bars_x1 - f.lanes_min.x) * 0.25F), x = f.lanes_min.x;
    const double full = static_cast<double>(std::max<int64_t>(1, meter.full_bytes));
    const auto width = [&](int64_t bytes) {
        return static_cast<float>(std::min(1.0, static_cast<double>(bytes) / full)) * bar;
    };
    const float top = std::round(y + line * 0.22F), foot = std::round(y + line * 0.82F);
    const CellPalette palette = cell_palette(ctx.theme);
    list->AddRectFilled(ImVec2(x, top), ImVec2(x + bar, foot),
                        palette[static_cast<size_t>(CacheCell::evicted)]);
    list->AddRectFilled(ImVec2(x, top), ImVec2(x + width(meter.held_bytes + meter.index_bytes), foot),
                        palette[static_cast<size_t>(CacheCell::held)]);
    list->AddRectFilled(ImVec2(x, top), ImVec2(x + width(meter.held_bytes), foot),
                        palette[static_cast<size_t>(CacheCell::attended)]);
    const float room = f.bars_x1 - x - bar - f.em * 0.5F;
    const std::string words = meter_text(meter);
    const std::string shown = text_width(words) <= room ? words : shortened(meter_text(meter, true), room);
    text_at(list, ImVec2(x + bar + f.em * 0.5F, y), ctx.theme.text, shown);
    ctx.landmarks.set("cache/bytes", {x, y, f.bars_x1 - x, line});
    ctx.landmarks.set_text("cache/bytes", words);
    if (ImGui::IsMouseHoveringRect(ImVec2(x, y), ImVec2(f.bars_x1, y + line)) && ImGui::IsWindowHovered())
        ImGui::SetTooltip(
            "%s",
            fmt::format("{}: {}\n{} bytes of keys and values as they are stored, {} bytes of positions and "
                        "places,\n{} bytes in a full cache; {} entries a layer and KV head",
                        f.method, words, format_thousands(meter.held_bytes),
                        format_thousands(meter.index_bytes), format_thousands(meter.full_bytes),
                        format_number(meter.entries))
                .c_str());
}

/// Lines of a tooltip: what became of the entry, and what the shown step paid it.
std::string CachePanel::entry_text(const Frame& f, int64_t row, int64_t position) const {
    const int64_t layer = m_rows.layer.value_or(row), step = m_state.columns().step;
    std::string text =
        cell_text(m_state.cache(), m_rows, row, position, CacheJudge{f.method, &f.recording->entry_scores()});
    const int64_t group =
        std::max<int64_t>(1, f.recording->info().heads / std::max<int64_t>(1, m_state.cache().kv_heads()));
    const auto row_of = f.recording->attention(f.recording->prompt_length() + step - 1,
                                               f.recording->info().config.mode == Mode::teacher);
    if (!row_of) return text;
    std::vector<uint16_t> shares;
    double sum = 0;
    int64_t n = 0;
    for (int64_t head = 0; head < f.recording->info().heads; ++head) {
        if (m_rows.layer && head / group != row) continue;
        const auto weights =
            head_weights(*row_of, static_cast<int32_t>(layer), static_cast<int32_t>(head), shares);
        if (position >= std::ssize(weights)) continue;
        sum += static_cast<double>(half_to_float(weights[static_cast<size_t>(position)]));
        ++n;
    }
    if (n > 0)
        text += fmt::format("\nAttention of step {}: {} (mean of {} heads)", step,
                            format_number(sum / static_cast<double>(n)), n);
    return text;
}

} // namespace refreshlab::ui
