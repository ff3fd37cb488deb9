#pragma once

#include "ui/panels/panel.h"
#include "ui/scene/maps/cache_cells.h"
#include "ui/scene/maps/cache_model.h"
#include "ui/scene/maps/colour_maps.h"
#include "ui/widgets/copy_menu.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace refreshlab::ui {

/// The decoding model's cache by position at the shown step: who wrote each column, how long ago; by layer or KV head what became of
/// the entries, with what a row holds, or how far they were from the teacher's when a refresh measured it; and the bytes that it takes
/// (reference/ui.md, CA1-CA3).
class CachePanel final : public Panel {
public:
    [[nodiscard]] std::string_view title() const override { return "Cache"; }
    void draw(UiContext& ctx) override;
    void recording_changed(UiContext& ctx) override;

private:
    struct Frame; ///< what one frame works with

    void draw_toolbar(UiContext& ctx, Frame& f);
    static void draw_map_choice(const Frame& f);
    void draw_rows_choice(const Frame& f);
    void draw_quantity_choice(const Frame& f, float others);
    void draw_legend(UiContext& ctx, Frame& f);
    void draw_axis(UiContext& ctx, Frame& f);
    void draw_bytes(UiContext& ctx, Frame& f);
    [[nodiscard]] std::string bytes_text(const UiContext& ctx, const Frame& f, float room) const;
    void hover(UiContext& ctx, Frame& f);
    // cache_lanes.cpp
    void colour_images(const Theme& theme, int pixels);
    void colour_drift(const Theme& theme);
    void draw_lanes(UiContext& ctx, Frame& f);
    void draw_drift(UiContext& ctx, Frame& f);
    void draw_no_drift(UiContext& ctx, Frame& f);
    void draw_lines(UiContext& ctx, Frame& f);
    // cache_entries.cpp
    void colour_entries(const Theme& theme);
    void draw_entries(UiContext& ctx, Frame& f);
    void draw_row_names(UiContext& ctx, const Frame& f) const;
    void draw_budget_bars(UiContext& ctx, const Frame& f) const;
    void draw_meter(UiContext& ctx, const Frame& f) const;
    [[nodiscard]] std::string entry_text(const Frame& f, int64_t row, int64_t position) const;
    [[nodiscard]] ColourScale drift_scale(const Theme& theme) const;
    [[nodiscard]] ColourScale age_scale(const Theme& theme) const;
    [[nodiscard]] bool has_drift() const { return m_state.drift().layers > 0 && !m_drift_rgba.empty(); }

    CacheModel m_state;
    CacheRows m_rows; ///< of this frame
    std::vector<uint32_t> m_entries_rgba;
    std::string m_entries_look;
    uint64_t m_entries_image_revision = 0;
    std::vector<RowCount> m_counts;
    std::array<bool, num_cache_cells> m_present{};
    bool m_log = false; ///< of this frame
    double m_top = 0;   ///< of the colour scale: widens at once, narrows with "Fit range"

    std::vector<uint32_t> m_origin_rgba, m_age_rgba, m_drift_rgba;
    int64_t m_factor = 1; ///< positions per texel
    int m_texels = 0, m_drift_texels = 0;
    std::string m_look, m_drift_look;
    uint64_t m_image_revision = 0, m_drift_image_revision = 0;
    CopyMenu m_menu;
    std::string m_under_mouse; ///< what the tooltip says
};

} // namespace refreshlab::ui
