#pragma once

#include "ui/state/places.h"

#include <imgui.h>

#include <optional>
#include <span>
#include <string>

namespace refreshlab::ui {

/// Docks the panels of `place` below the dock space, in the order of their tabs, and takes all others of `panels` out of it; whatever
/// was docked there before is gone. Within a frame, before the windows begin. Places without panels must not be in it.
/// \param size  of the dock space, pixels
void put_up(ImGuiID dock_space, const Place& place, ImVec2 size, std::span<const std::string> panels);
/// What is docked there now; closed panels stand in the place where they would open. Nothing where nothing is docked.
[[nodiscard]] std::optional<Place> docked_places(ImGuiID dock_space, std::span<const std::string> panels);
/// Docks a panel to the right of another one, which keeps half of its place; where that one is not docked it stays where it is.
void dock_beside(const std::string& panel, const std::string& other);

/// Docks a panel that is docked nowhere as a tab of another one's place; where that one is not docked it stays where it is.
void dock_with(const std::string& panel, const std::string& other);

} // namespace refreshlab::ui
