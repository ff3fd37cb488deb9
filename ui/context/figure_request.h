#pragma once

#include "ui/context/context.h"
#include "ui/figure/figure.h"

namespace refreshlab::ui {

/// A figure of what the window shows now: the run that is looked at, the ticked ones where the kind shows several, views, selection.
/// \param in_sight  of a kind by steps: those that Signals shows, not the whole run
/// Precondition: a run is shown.
[[nodiscard]] FigureRequest figure_request(const UiContext& ctx, const FigureKind& kind, bool in_sight);

} // namespace refreshlab::ui
