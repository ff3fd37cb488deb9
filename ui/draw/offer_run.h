#pragma once

#include "ui/context/context.h"

namespace refreshlab::ui {

/// Says that there is nothing to show yet, and offers the action that fills the panel (start or resume the run).
void offer_run(UiContext& ctx, const char* what);
/// The files that were opened last, to open them again, where the window has no run; those that are gone are left out.
void offer_recent(UiContext& ctx);

} // namespace refreshlab::ui
