#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace refreshlab::ui {

/// Where panels are docked, as a tree: a place is shared by two others, or it has panels as tabs. Plain data, no ImGui in here
/// (ui/shell/dock_places.h puts it up).
struct Place {
    enum class Split : uint8_t { none, beside, stacked };
    Split split = Split::none;
    float share = 1;               ///< what the first part has of the width or height, 0 .. 1
    std::vector<Place> parts;      ///< two: left and right, or above and below; none of a place with tabs
    std::vector<std::string> tabs; ///< titles, in order
    std::string front;             ///< the selected one of them
};

/// The first tab is in front.
[[nodiscard]] Place tabs(std::vector<std::string> titles);
[[nodiscard]] Place beside(float share, Place left, Place right);
[[nodiscard]] Place stacked(float share, Place above, Place below);

/// The panels of all places, and those in front of their tabs; from left to right, from above down.
[[nodiscard]] std::vector<std::string> panels_of(const Place& place);
[[nodiscard]] std::vector<std::string> fronts_of(const Place& place);

/// Size of the place of each panel, pixels, in a dock space of this width and height.
[[nodiscard]] std::map<std::string, std::array<float, 2>, std::less<>> sizes_of(const Place& place,
                                                                                float width, float height);

/// Fits the places to a window of this size. They keep their shares, but no panel gets narrower or lower than its contents need
/// (Policy's cards, the Timeline's strip), nor wider than they can use. Where the needs do not fit beside each other, not even with
/// a little less, panels share a place as tabs: those of the smaller half of a split join the smallest panel of the other half, and
/// the front panel that had the largest place stays in front.
/// \param width, height  of the dock space, pixels; em: font size, pixels
[[nodiscard]] Place fitted(const Place& layout, float width, float height, float em);
/// The places with the front tabs that a person has chosen since they were put up: a panel that was drawn takes the place of the one
/// that the layout names.
/// \param drawn  panels that were in front
[[nodiscard]] Place keep_front(Place layout, const std::vector<std::string>& drawn);
/// True when nobody has moved a panel between these two: the same places with the same tabs in any order, and the same shares up to
/// rounding.
[[nodiscard]] bool same_places(const Place& a, const Place& b);

} // namespace refreshlab::ui
