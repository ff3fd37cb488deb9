#pragma once

#include "ui/panels/panel.h"
#include "ui/scene/maps/cache_view.h"
#include "ui/scene/maps/colour_maps.h"
#include "ui/widgets/copy_menu.h"

#include <cstdint>
#include <string>
#include <vector>

namespace refreshlab::ui {

/// The decoding model's cache by position at the shown step: who wrote each column, how long ago, and how far it was
/// from the teacher's when a refresh measured it (layer x position), with the bytes it takes (reference/ui.md, CA1, CA2).
class CachePanel final : public Panel {
public:
    [[nodiscard]] std::string_view title() const override { return "Cache"; }
    void draw(UiContext& ctx) override;
    void recording_changed(UiContext& ctx) override;

private:
    struct Frame; ///< what one frame works with

    void draw_toolbar(UiContext& ctx, Frame& f);
    void draw_quantity_choice(float em, float others);
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
    [[nodiscard]] ColourScale drift_scale(const Theme& theme) const;
    [[nodiscard]] ColourScale age_scale(const Theme& theme) const;
    [[nodiscard]] bool has_drift() const { return m_state.drift().layers > 0 && !m_drift_rgba.empty(); }

    CacheView m_state;
    bool m_log = false;
    double m_top = 0; ///< of the colour scale: widens at once, narrows with "Fit range"

    std::vector<uint32_t> m_origin_rgba, m_age_rgba, m_drift_rgba;
    int64_t m_factor = 1; ///< positions per texel
    int m_texels = 0, m_drift_texels = 0;
    std::string m_look, m_drift_look;
    uint64_t m_image_revision = 0, m_drift_image_revision = 0;
    CopyMenu m_menu;
    std::string m_under_mouse; ///< what the tooltip says
};

} // namespace refreshlab::ui
