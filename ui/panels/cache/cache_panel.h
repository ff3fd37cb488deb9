#pragma once

#include "ui/base/pixel_box.h"
#include "ui/draw/copy_menu.h"
#include "ui/draw/range_bar.h"
#include "ui/figure/paint/cache_paint.h"
#include "ui/panels/panel.h"
#include "ui/scene/maps/cache_cells.h"
#include "ui/scene/maps/cache_model.h"
#include "ui/scene/maps/colour_maps.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace refreshlab::ui {

/// The decoding model's cache by position at the shown step: who wrote each column, how long ago; by layer or KV head what became of
/// the entries, with what a row holds, or how far they were from the teacher's when a refresh measured it; and the bytes that it takes
/// (development/ui.md, CA1-CA3).
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
    void draw_legend(UiContext& ctx, const Frame& f);
    void draw_bytes(UiContext& ctx, const Frame& f);
    [[nodiscard]] std::string bytes_text(const UiContext& ctx, const Frame& f, float room) const;
    void colour_images(const UiContext& ctx, const Frame& f);
    [[nodiscard]] CachePicture picture(const UiContext& ctx, const Frame& f) const;
    void draw_no_drift(UiContext& ctx, const Frame& f);
    void draw_lines(UiContext& ctx, const Frame& f);
    [[nodiscard]] int64_t row_at(const Frame& f, float y) const;
    void hover(UiContext& ctx, Frame& f);
    // cache_entries.cpp
    void answer_rows(UiContext& ctx, const Frame& f);
    void tell_held(const Frame& f) const;
    void draw_meter(UiContext& ctx, const Frame& f, const FigurePen& pen) const;
    [[nodiscard]] std::string entry_text(UiContext& ctx, const Frame& f, int64_t row, int64_t position) const;

    CacheModel m_state;
    CacheRows m_rows; ///< of this frame
    CacheImages m_images;
    int64_t m_columns = 400; ///< of the last frame's images, at most
    RangeBar m_range_bar;
    double m_top = 0; ///< of the scale of drift: widens at once, narrows with "Fit range"
    CopyMenu m_menu;
    std::string m_under_mouse; ///< what the tooltip says
};

} // namespace refreshlab::ui
