#pragma once

#include "ui/context.h"
#include "ui/plot/markers.h"

#include <imgui.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace refreshlab::ui {

/// Refreshes between two steps, with their pixel columns, ascending.
struct RefreshMarks {
    std::vector<size_t> events; ///< indices into Recording::refreshes()
    std::vector<double> x_px;
};

/// Refreshes in sight of a plot that shows [x_min, x_max] over [left_px, left_px + width_px]. Cost O(log n + in sight).
[[nodiscard]] RefreshMarks refreshes_in_sight(const Recording& recording, int64_t steps, double x_min,
                                              double x_max, double left_px, double width_px);
/// The first refresh whose step is >= step, as an index; refreshes().size() where there is none.
[[nodiscard]] size_t first_refresh_from(const Recording& recording, int64_t step);

[[nodiscard]] char marker_letter(const RefreshEvent& event);
[[nodiscard]] ImU32 marker_colour(const Theme& theme, const RefreshEvent& event);
/// Colour of merged markers: the common one, or that of several reasons.
[[nodiscard]] ImU32 group_colour(const Theme& theme, const Recording& recording, const RefreshMarks& marks,
                                 const MarkerGroup& group);

/// Merged for badges of this height: they neither cover each other nor stand for more of the axis than a few of them.
[[nodiscard]] std::vector<MarkerGroup> badge_groups(const RefreshMarks& marks, float badge_height);

/// A small label with a letter or a count, centred; returns its box.
Landmarks::Box draw_badge(ImDrawList* list, ImVec2 centre, float height, ImU32 colour,
                          const std::string& text);
[[nodiscard]] float badge_width(float height, const std::string& text);

/// Fills an open tooltip: reason with value and threshold, delta, spliced, milliseconds, what happened to the token.
void describe_refresh(const UiContext& ctx, const RefreshEvent& event);
/// A tooltip of one refresh, or of the first few of a group.
void refresh_tooltip(const UiContext& ctx, const RefreshMarks& marks, const MarkerGroup& group);

/// A tooltip about step t: token read, token chosen, every measured signal's raw value, a refresh there.
void step_tooltip(const UiContext& ctx, int64_t step);
/// Rows "swatch  label  value" of the signals of step t that were measured, inside an open window.
/// \param token  y_token is looked at: signals about a token are those of this one, not of the token that step t read
void signal_rows(const UiContext& ctx, int64_t step, std::optional<int64_t> token = {});
/// "step 171: read " slate", chose " red"".
[[nodiscard]] std::string step_caption(const Recording& recording, int64_t steps, int64_t step);

/// Says that there is nothing to show yet, and offers what would fill the panel (start or resume the run).
void offer_run(UiContext& ctx, const char* what);

} // namespace refreshlab::ui
