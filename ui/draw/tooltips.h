#pragma once

#include "ui/context/context.h"
#include "ui/scene/marks/markers.h"
#include "ui/scene/marks/refresh_marks.h"

#include <cstdint>
#include <optional>

namespace refreshlab::ui {

/// Fills an open tooltip: reason with value and threshold, delta, spliced, milliseconds, what happened to the token.
void describe_refresh(const UiContext& ctx, const RefreshEvent& event);
/// A tooltip of one refresh, or of the first few of a group.
void refresh_tooltip(const UiContext& ctx, const RefreshMarks& marks, const MarkerGroup& group);

/// A tooltip about step t: token read, token chosen, every measured signal's raw value, a refresh there.
void step_tooltip(const UiContext& ctx, int64_t step);
/// Rows "swatch  label  value" of the signals of step t that were measured, inside an open window.
/// \param token  y_token is looked at: signals about a token are those of this one, not of the token that step t read
void signal_rows(const UiContext& ctx, int64_t step, std::optional<int64_t> token = {});

} // namespace refreshlab::ui
