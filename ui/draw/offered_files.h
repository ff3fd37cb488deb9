#pragma once

#include "ui/context/context.h"

#include <optional>
#include <string>

namespace refreshlab::ui {

/// A list of the server's files of that kind (UiContext::offers), or why there is none. Draws items.
/// \param height  pixels
/// \return the path, on that machine, of the one that was clicked
[[nodiscard]] std::optional<std::string> offered_file(UiContext& ctx, LinkOffers::Part::Kind kind,
                                                      float height);

} // namespace refreshlab::ui
