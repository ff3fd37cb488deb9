#pragma once

#include "ui/context/context.h"
#include "ui/scene/marks/markers.h"
#include "ui/scene/marks/refresh_marks.h"

#include <cstdint>
#include <optional>

namespace refreshlab::ui {

/// Rows of one refresh in an open window: reason with value and threshold, what was spliced, milliseconds, what happened to the
/// token.
void describe_refresh(const UiContext& ctx, const RefreshEvent& event);
/// A tooltip of one refresh, or of the first few of a group.
void refresh_tooltip(const UiContext& ctx, const RefreshMarks& marks, const MarkerGroup& group);

/// A tooltip about step t: token read, token chosen, the raw values of the plotted signals, the reason of a refresh there. At most
/// eight rows; the Inspector has everything.
void step_tooltip(const UiContext& ctx, int64_t step);

enum class SignalRows : uint8_t {
    plotted, ///< at most six
    all,
};
/// Rows "swatch  label  value" of the signals of step t that were measured, inside an open window.
/// \param token  y_token is looked at: signals about a token are those of this one, not of the token that step t read
/// \param about  only those about this; nothing = any
void signal_rows(const UiContext& ctx, int64_t step, SignalRows which, std::optional<int64_t> token = {},
                 std::optional<SignalAbout> about = {});
/// Whether signal_rows() would have a row.
[[nodiscard]] bool any_signal_rows(const UiContext& ctx, int64_t step, SignalAbout about);

} // namespace refreshlab::ui
