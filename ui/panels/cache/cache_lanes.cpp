// The images of the Cache panel: lanes of origin and age, the drift map, and the lines over them.
#include "ui/draw/cells.h"
#include "ui/draw/text.h"
#include "ui/panels/cache/cache_frame.h"
#include "ui/panels/cache/cache_panel.h"
#include "ui/scene/maps/heatmap.h"
#include "ui/scene/marks/step_marks.h"
#include "ui/theme/run_colours.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace refreshlab::ui {

ColourScale CachePanel::drift_scale(const Theme& theme) const {
    ColourScale scale{colour_map(theme.map_amounts), 0, m_top > 0 ? m_top : 1, m_log};
    if (m_log) scale.min = scale.max * drift_log_share;
    return scale;
}

ColourScale CachePanel::age_scale(const Theme& theme) const {
    return {colour_map(theme.map_ages), 0, std::max(1.0, static_cast<double>(m_state.columns().step)), false};
}

/// Colours the images anew, where something changed that they show.
void CachePanel::colour_images(const Theme& theme, int pixels) {
    const int64_t length = m_state.columns().length();
    std::string look = fmt::format("{} {} {}", m_state.revision(), pixels, theme.name);
    if (look == m_look || length == 0) return;
    m_look = std::move(look);
    ++m_image_revision;
    m_factor = reduction_factor(length, pixels);
    m_texels = static_cast<int>(reduced_size(length, m_factor));
    m_origin_rgba.clear();
    for (const Origin origin : reduce_origins(m_state.columns().origin, m_factor))
        m_origin_rgba.push_back(column_colour(theme, origin));
    const auto ages = reduce_columns_max(m_state.ages(), 1, length, m_factor);
    m_age_rgba.resize(ages.size());
    colour_values(ages, age_scale(theme), m_age_rgba);
}

/// The map stays as it is while steps come and no refresh does.
void CachePanel::colour_drift(const Theme& theme) {
    const int64_t layers = m_state.drift().layers;
    std::string look =
        fmt::format("{} {} {} {} {}", m_state.drift_revision(), m_factor, m_top, m_log, theme.name);
    if (look == m_drift_look) return;
    m_drift_look = std::move(look);
    ++m_drift_image_revision;
    m_drift_rgba.clear();
    if (layers == 0) return;
    m_drift_texels = static_cast<int>(reduced_size(m_state.drift().stride, m_factor));
    const auto drift = reduce_columns_max(m_state.shown(), layers, m_state.drift().stride, m_factor);
    m_drift_rgba.resize(drift.size());
    colour_values(drift, drift_scale(theme), m_drift_rgba);
}

void CachePanel::draw_lanes(UiContext& ctx, Frame& f) {
    ImDrawList* list = ImGui::GetWindowDrawList();
    const auto label = [&](float y0, float y1, const char* text) {
        text_at(list, ImVec2(f.lanes_min.x, (y0 + y1 - f.em) * 0.5F), ctx.theme.text_muted, text);
    };
    label(f.origin_y0, f.origin_y1, "Origin");
    label(f.age_y0, f.age_y1, "Age");
    colour_images(ctx.theme, std::max(1, static_cast<int>(f.x1 - f.x0)));
    colour_drift(ctx.theme);
    if (m_texels < 1) return;
    const auto u_end = static_cast<float>(static_cast<double>(m_state.columns().length()) /
                                          static_cast<double>(m_texels * m_factor));
    const auto strip = [&](const char* key, const std::vector<uint32_t>& rgba, float y0, float y1) {
        const ImTextureID texture = ctx.host.texture(key, m_texels, 1, rgba, m_image_revision);
        draw_cells(list, texture, ImVec2(f.x0, y0), ImVec2(f.x1, y1), ImVec2(0, 0), ImVec2(u_end, 1));
    };
    strip("cache/origin", m_origin_rgba, f.origin_y0, f.origin_y1);
    strip("cache/age", m_age_rgba, f.age_y0, f.age_y1);
    ctx.landmarks.set("cache/origin", {f.x0, f.origin_y0, f.x1 - f.x0, f.origin_y1 - f.origin_y0});
}

void CachePanel::draw_drift(UiContext& ctx, Frame& f) {
    ImDrawList* list = ImGui::GetWindowDrawList();
    const ImVec2 min(f.x0, f.drift_y0), max(f.x1, f.drift_y1);
    draw_absent(list, ctx.theme, min, max);
    ctx.landmarks.set("cache/map", {min.x, min.y, max.x - min.x, max.y - min.y});
    const int64_t layers = m_state.drift().layers;
    if (!has_drift()) return; // draw_no_drift() says why
    const ImTextureID texture = ctx.host.texture("cache/drift", m_drift_texels, static_cast<int>(layers),
                                                 m_drift_rgba, m_drift_image_revision);
    const auto u_end =
        static_cast<float>(static_cast<double>(f.length) / static_cast<double>(m_drift_texels * m_factor));
    draw_cells(list, texture, min, max, ImVec2(0, 0), ImVec2(u_end, 1));
    const float row = (max.y - min.y) / static_cast<float>(layers);
    const auto every = static_cast<int64_t>(std::ceil(1.05F * f.em / row));
    for (int64_t layer = 0; layer < layers; layer += every) {
        const std::string label = fmt::format("L{}", layer);
        text_at(list,
                ImVec2(f.x0 - f.em * 0.4F - text_width(label),
                       min.y + (static_cast<float>(layer) + 0.5F) * row - f.em * 0.5F),
                ctx.theme.text_muted, label);
    }
}

/// Why the drift map is empty: on a card of its own, drawn behind the lines, so that none of them crosses the words.
void CachePanel::draw_no_drift(UiContext& ctx, Frame& f) {
    if (has_drift()) return;
    ImDrawList* list = ImGui::GetWindowDrawList();
    const ImVec2 min(f.x0, f.drift_y0), max(f.x1, f.drift_y1);
    const std::string text = no_drift_text(*f.recording, ctx.engine.recording().get() == f.recording);
    const float most = max.x - min.x - 2 * f.em;
    const ImVec2 size = ImGui::CalcTextSize(text.c_str(), nullptr, false, most);
    const ImVec2 at(std::round((min.x + max.x - size.x) * 0.5F), std::round((min.y + max.y - size.y) * 0.5F));
    const ImVec2 low(at.x - f.em * 0.5F, at.y - f.em * 0.3F),
        high(at.x + size.x + f.em * 0.5F, at.y + size.y + f.em * 0.3F);
    list->PushClipRect(min, max, true);
    list->AddRectFilled(low, high, ctx.theme.plot_background, f.em * 0.3F);
    list->AddText(nullptr, 0, at, ctx.theme.text_muted, text.c_str(), nullptr, most);
    list->PopClipRect();
    ctx.landmarks.set("cache/no drift", {low.x, low.y, high.x - low.x, high.y - low.y});
    text_at(list, ImVec2(f.lanes_min.x, (min.y + max.y - f.em) * 0.5F), ctx.theme.text_muted, "Drift");
}

void CachePanel::draw_lines(UiContext& ctx, Frame& f) {
    ImDrawList* list = ImGui::GetWindowDrawList();
    const auto vertical = [&](double position, Colour colour, float thickness) {
        const float x = std::round(f.x_of(position)) + 0.5F;
        list->AddLine(ImVec2(x, f.origin_y0), ImVec2(x, f.axis_y), colour, thickness);
    };
    const int64_t prompt = f.recording->prompt_length();
    vertical(static_cast<double>(prompt), ctx.theme.text_muted, 1);
    // Many lines would hide the map: then they are ticks at its foot.
    const size_t shown = ctx.marks.first_from(MarkLane::refresh, m_state.columns().step + 1);
    const bool ticks = static_cast<float>(shown) * f.em > f.x1 - f.x0;
    float last_x = -1e9F;
    for (size_t i = 0; i < shown; ++i) {
        const RefreshEvent& refresh = ctx.marks.refresh(i);
        const auto end = static_cast<double>(prompt + refresh.fired_step); // of its delta
        if (f.x_of(end) - last_x < 3) continue;
        last_x = f.x_of(end);
        const float x = std::round(last_x) + 0.5F;
        if (ticks)
            list->AddLine(ImVec2(x, f.axis_y), ImVec2(x, f.axis_y + f.em * 0.3F), ctx.theme.accent);
        else
            vertical(end, ctx.theme.accent, 1);
    }
    if (ctx.hovered_step && *ctx.hovered_step >= 1 && *ctx.hovered_step <= m_state.columns().step)
        vertical(static_cast<double>(prompt + *ctx.hovered_step) - 0.5, ctx.theme.crosshair, 1);
    if (const auto held = ctx.selection.key_position; held && *held < f.length)
        vertical(static_cast<double>(*held) + 0.5, ctx.theme.selection, 1);
}

} // namespace refreshlab::ui
