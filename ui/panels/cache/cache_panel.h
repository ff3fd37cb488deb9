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
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace refreshlab::ui {

/// The decoding model's cache by position at the shown step: who wrote each column, how long ago; by layer or KV head what became of
/// the entries, with what a row holds, or how far they were from the teacher's when a refresh measured it; and the bytes that it takes
/// (development/ui.md, CA1-CA3). Below it the same of a run that is compared, at the same step (CA4).
class CachePanel final : public Panel {
public:
    [[nodiscard]] std::string_view title() const override { return "Cache"; }
    void draw(UiContext& ctx) override;
    void recording_changed(UiContext& ctx) override;

private:
    struct Frame; ///< what one frame works with, of one run

    /// What is kept of one run.
    struct Side {
        std::shared_ptr<const Recording> recording;
        StepMarks marks; ///< of a compared run: the context has those of the shown one
        CacheModel state;
        CacheRows rows; ///< of this frame
        CacheImages images;
        int64_t columns = 400; ///< of the last frame's images, at most
        CopyMenu menu;
        std::string under_mouse; ///< what the tooltip says
    };

    /// The run that is drawn below the shown one; null: none.
    [[nodiscard]] static std::shared_ptr<const Recording> compared_run(const UiContext& ctx);
    [[nodiscard]] static CacheMap map_of(const UiContext& ctx, const Recording* other);
    void begin_side(const UiContext& ctx, Frame& f, int64_t step);
    [[nodiscard]] static PixelBox draw_name(UiContext& ctx, const Frame& f, PixelBox place);
    void draw_side(UiContext& ctx, Frame& f, PixelBox place);
    void draw_toolbar(UiContext& ctx, Frame& f);
    static void draw_map_choice(const Frame& f);
    void draw_rows_choice(const Frame& f, float others);
    void draw_quantity_choice(const Frame& f, float others);
    [[nodiscard]] static float comparison_width(const UiContext& ctx);
    static void draw_comparison(UiContext& ctx, const Frame& f, float width);
    static void draw_legend(UiContext& ctx, const Frame& f, const Frame* other);
    void draw_bytes(UiContext& ctx, const Frame& f);
    [[nodiscard]] std::string bytes_text(const UiContext& ctx, const Frame& f, float room) const;
    void colour_images(const UiContext& ctx, const Frame& f);
    [[nodiscard]] static CachePicture picture(const Frame& f);
    void draw_no_drift(UiContext& ctx, const Frame& f);
    void draw_lines(UiContext& ctx, const Frame& f);
    [[nodiscard]] int64_t row_at(const Frame& f, float y) const;
    void hover(UiContext& ctx, Frame& f);
    // cache_entries.cpp
    void answer_rows(UiContext& ctx, const Frame& f);
    void tell_held(const Frame& f) const;
    void draw_meter(UiContext& ctx, const Frame& f, const FigurePen& pen) const;
    [[nodiscard]] std::string entry_text(UiContext& ctx, const Frame& f, int64_t row, int64_t position) const;

    Side m_shown, m_other;
    RangeBar m_range_bar;
    double m_top = 0; ///< of the scale of drift: widens at once, narrows with "Fit range"
};

} // namespace refreshlab::ui
