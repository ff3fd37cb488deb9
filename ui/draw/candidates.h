#pragma once

#include "ui/context/context.h"

#include <cstdint>
#include <optional>

namespace refreshlab::ui {

/// Rows "token  [bar]  probability" of the candidates that step t recorded, the chosen one in the accent colour. Draws nothing
/// where none were kept.
/// \param chosen  id of the token that was chosen, -1 = not known
/// \param to_pick  rows other than the chosen one can be clicked
/// \return the row that was clicked
std::optional<int32_t> draw_candidates(UiContext& ctx, int64_t step, int32_t chosen, bool to_pick = false);

} // namespace refreshlab::ui
