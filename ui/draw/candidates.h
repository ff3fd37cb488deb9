#pragma once

#include "ui/context/context.h"

#include <cstdint>

namespace refreshlab::ui {

/// Rows "token  [bar]  probability" of the candidates that step t recorded, the chosen one in the accent colour. Draws nothing
/// where none were kept.
/// \param chosen  id of the token that was chosen, -1 = not known
void draw_candidates(const UiContext& ctx, int64_t step, int32_t chosen);

} // namespace refreshlab::ui
