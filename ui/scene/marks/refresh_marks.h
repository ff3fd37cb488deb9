#pragma once

#include "engine/record/recording/recording.h"

#include <cstddef>
#include <cstdint>
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
/// "step 171: read " slate", chose " red"".
[[nodiscard]] std::string step_caption(const Recording& recording, int64_t steps, int64_t step);

} // namespace refreshlab::ui
