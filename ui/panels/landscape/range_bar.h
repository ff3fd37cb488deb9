#pragma once

#include "ui/context/context.h"
#include "ui/scene/landscape/cell_colours.h"
#include "ui/scene/maps/colour_maps.h"

#include <imgui.h>

#include <optional>
#include <string>
#include <string_view>

namespace refreshlab::ui {

/// The colour bar of a landscape's picture: "[-0.9] <####> [0.9] nats". Its ends are numbers to type or to drag, and the bar is taken
/// by either end; a double click gives the automatic range back, a right click offers others. An arrow at an end says that cells lie
/// beyond it. Changes UiContext::landscape_view.cells. UI thread only.
class RangeBar {
public:
    /// After what stands in this line already (SameLine() was called), in a line of its own where there is too little room.
    /// \param value  that is shown  \param most  width of the bar alone, pixels
    void draw(UiContext& ctx, const CellValue& value, const ColourScale& scale, const CellColours& colours,
              const CellSpread& spread, float most);

private:
    void draw_end(UiContext& ctx, const char* id, const CellColours& colours, RangeEnd end, float width);
    void draw_bar(UiContext& ctx, const ColourScale& scale, const CellColours& colours, float width);
    void drag_bar(UiContext& ctx, const CellColours& colours, float left, float width);
    void draw_menu(UiContext& ctx, const CellColours& colours, const CellSpread& spread) const;
    void begin(const UiContext& ctx, ValueRange shown);
    bool follow(UiContext& ctx);

    CellValue m_value; ///< of this frame
    // Of the end that is being moved.
    ValueRange m_before;                    ///< what was shown
    std::optional<ValueRange> m_own_before; ///< Esc gives it back
    bool m_given_up = false;                ///< Esc was pressed, and the button is still down
    RangeEnd m_held = RangeEnd::high;       ///< of the bar
};

} // namespace refreshlab::ui
