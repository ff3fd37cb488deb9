#pragma once

#include "ui/panels/panel.h"
#include "ui/scene/maps/cache_map.h"
#include "ui/scene/maps/colour_maps.h"

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
    enum class Quantity : uint8_t { mean, keys, values, keys_max, values_max };
    struct Frame; ///< what one frame works with

    void update(const Recording& recording, int64_t step);
    [[nodiscard]] float drift_at(size_t index) const;
    void draw_toolbar(UiContext& ctx, Frame& f);
    void draw_legend(UiContext& ctx, Frame& f);
    void draw_lanes(UiContext& ctx, Frame& f);
    void draw_drift(UiContext& ctx, Frame& f);
    void draw_no_drift(UiContext& ctx, Frame& f);
    void draw_lines(UiContext& ctx, Frame& f);
    void draw_axis(UiContext& ctx, Frame& f);
    void draw_bytes(UiContext& ctx, Frame& f);
    void hover(UiContext& ctx, Frame& f);
    [[nodiscard]] ColourScale drift_scale() const;
    [[nodiscard]] ColourScale age_scale() const;

    Quantity m_quantity = Quantity::mean;
    bool m_log = false;

    // The state at one boundary, rebuilt when step, refreshes or drift maps change.
    CacheColumns m_columns;
    DriftColumns m_drift;
    int64_t m_step = -1;
    size_t m_refreshes = 0, m_drifts = 0;
    std::vector<float> m_shown;             ///< [layers * length], the chosen quantity
    uint64_t m_shown_revision = UINT64_MAX; ///< of m_revision that it was made for
    double m_shown_top = 0;                 ///< its largest number
    std::vector<float> m_ages;              ///< [length]
    double m_top = 0;                       ///< of the colour scale: widens at once, narrows with "Fit range"
    uint64_t m_revision = 0;                ///< of what is above

    std::vector<uint32_t> m_origin_rgba, m_age_rgba, m_drift_rgba;
    int64_t m_origin_factor = 1; ///< positions per texel
    int m_texels = 0;
    std::string m_look;
    uint64_t m_image_revision = 0;
};

} // namespace refreshlab::ui
