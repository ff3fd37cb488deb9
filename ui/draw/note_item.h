#pragma once

#include "ui/context/context.h"

#include <cstdint>

namespace refreshlab::ui {

/// A line of a menu: selects a step and writes a note beside it, or opens the one that stands there. Nothing where the shown run has no
/// such step.
void note_item(UiContext& ctx, int64_t step);

} // namespace refreshlab::ui
