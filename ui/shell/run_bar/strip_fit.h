#pragma once

#include <span>
#include <vector>

namespace refreshlab::ui {

/// One part of a strip of controls in a single line. No ImGui in here.
struct StripPart {
    float width = 0; ///< with the gap before it, pixels
    int rank = 0;    ///< importance: the lowest stays longest
};

/// Which parts a strip of `room` pixels shows; the others go into the popup of its "..." button, which takes `more`
/// pixels and is there only when something is left out. The important ones come first. Where one does not fit, smaller
/// ones after it may take the room.
[[nodiscard]] std::vector<bool> fit_strip(std::span<const StripPart> parts, float room, float more);

} // namespace refreshlab::ui
