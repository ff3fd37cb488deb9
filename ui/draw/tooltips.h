#pragma once

#include "ui/context/context.h"
#include "ui/scene/text/markers.h"
#include "ui/scene/text/step_marks.h"
#include "ui/scene/text/tip_place.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace refreshlab::ui {

// Tooltips of plots have at most eight rows and keep off the middle of the plot that they explain; the Inspector and Events have
// everything.

/// A tooltip about something in a plot: placed by tip_place(). end_plot_tip() follows where it returns true.
/// \param plot  all that is explained together, as the plots of one stack
[[nodiscard]] bool begin_plot_tip(const TipBox& plot);
void end_plot_tip();

/// Rows of one refresh in an open window: reason with value and threshold, what was spliced, milliseconds, what happened to the
/// token.
/// \param reasons  rows for triggers that held, at most
/// \param index  in its lane
void describe_refresh(const UiContext& ctx, size_t index, size_t reasons = SIZE_MAX);
/// Rows of a refresh that a limit prevented: reasons with values and thresholds, and the limit.
void describe_blocked(const UiContext& ctx, size_t index, size_t reasons = SIZE_MAX);
/// Rows of a draft that was cut: how many of its tokens stay, those that went with both models' probabilities, and what is in their
/// place.
/// \param tokens  rows for tokens that went, at most
void describe_cut(const UiContext& ctx, size_t index, size_t tokens = SIZE_MAX);
/// All of these of one step, in an open window, each under a line.
void describe_marks_at(const UiContext& ctx, int64_t step);
/// A tooltip of one refresh, one that was prevented, or a draft that was cut; of a few, a line each; of a crowd, how many each reason has, and of
/// refreshes their entries and time together.
void marks_tooltip(const UiContext& ctx, const LaneMarks& marks, const MarkerGroup& group,
                   const TipBox& plot);

/// A run's column in a tooltip about several.
struct TipColumn {
    std::string name;
    Colour colour = 0;
    std::shared_ptr<const Recording> recording; ///< never null
    int64_t steps = 0;
    int64_t step = 0; ///< the one that lies under the mouse
};

/// A tooltip about step t: token read, token chosen, the raw values of the plotted signals, the reason of a refresh there, or
/// of one that was prevented.
/// \param runs  the shown one and those that lie over it: the values of each; empty: it is alone
void step_tooltip(const UiContext& ctx, int64_t step, const TipBox& plot,
                  std::span<const TipColumn> runs = {});

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
