#pragma once

#include "ui/context/context.h"
#include "ui/scene/axes/own_range.h"
#include "ui/scene/maps/colour_maps.h"

#include <imgui.h>

#include <optional>
#include <string>
#include <string_view>

namespace refreshlab::ui {

class TokenColours;

/// A range of colours as a panel shows it.
struct ShownRange {
    std::string_view name; ///< of its landmark: "landscape" has "landscape/scale"
    std::string_view of;   ///< what is coloured, by which own ranges are known
    ColourScale scale;     ///< what the bar shows; its ends are the range's
    RangeKind kind = RangeKind::free;
    bool below = false, above = false; ///< there are values beyond that end
    std::string words = {};            ///< of the tooltip: "95 % of cells within 0 to 4.5"
    std::string unit = {};
    std::optional<ValueRange> all =
        {};              ///< of all values: what "Range of all values" gives; nothing: it is not offered
    bool widens = false; ///< the automatic range widens by itself: the menu offers to narrow it
    const TokenColours* tokens = nullptr; ///< the colours of a text in place of those of the scale

    [[nodiscard]] ValueRange range() const { return {scale.min, scale.max}; }
};

/// The colour bar of a picture: "[-0.9] <####> [0.9] nats". Its ends are numbers to type or to drag, and the bar is taken by either
/// end; a double click gives the automatic range back, a right click offers others. An arrow at an end says that values lie beyond it.
/// Threads  UI thread.
class RangeBar {
public:
    /// After what stands in this line already (SameLine() was called), in a line of its own where there is too little room.
    /// \param own   changes here  \param most  width of the bar alone, pixels
    /// \return whether the automatic range shall be narrowed to what is shown
    bool draw(UiContext& ctx, OwnRanges& own, const ShownRange& shown, float most);
    /// What it takes beside the bar, and the shortest bar, pixels.
    [[nodiscard]] static float numbers_width(const ShownRange& shown);
    [[nodiscard]] static float shortest_bar();

private:
    void draw_end(UiContext& ctx, OwnRanges& own, const ShownRange& shown, RangeEnd end, float width);
    void draw_bar(UiContext& ctx, OwnRanges& own, const ShownRange& shown, float width);
    void drag_bar(UiContext& ctx, OwnRanges& own, const ShownRange& shown, float left, float width);
    static bool draw_menu(OwnRanges& own, const ShownRange& shown);
    void begin(const OwnRanges& own, const ShownRange& shown);
    bool follow(UiContext& ctx, OwnRanges& own, const ShownRange& shown);

    // Of the end that is being moved.
    ValueRange m_before;                    ///< what was shown
    std::optional<ValueRange> m_own_before; ///< Esc gives it back
    bool m_given_up = false;                ///< Esc was pressed, and the button is still down
    RangeEnd m_held = RangeEnd::high;       ///< of the bar
};

} // namespace refreshlab::ui
