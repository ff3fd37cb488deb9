#pragma once

#include "engine/landscape/landscape.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace refreshlab {

/// The value of a landscape that a signal is read from on a staircase: kl_nats for kl_mean_nats and last_kl_nats, drift for
/// last_drift, else the signal itself. Empty: the staircase alone tells it (steps_since_refresh).
[[nodiscard]] std::string cell_source(std::string_view signal);
/// True where these values tell the signal. \param values  LandscapeInfo::values
[[nodiscard]] bool tells(std::span<const std::string> values, std::string_view signal);

/// Mean drift of the columns of steps first .. last, which stood in row `row`: what a refresh at boundary `last` measures. The
/// landscape holds drift                                                                                (asserted)
[[nodiscard]] float delta_drift(const Landscape& landscape, int64_t row, int64_t first, int64_t last);

/// A signal of step `step` on a staircase that stands in row j and came from row `before`; nothing: it stands in its first row.
/// absent() where nothing is known yet. The landscape tells it, and it is no mean over a delta                (asserted)
[[nodiscard]] float signal_at(const Landscape& landscape, std::string_view signal, int64_t j, int64_t step,
                              std::optional<int64_t> before);
/// The row that stands for the one before where no staircase is given: as far before j as `step` is after it. So what is fitted sees
/// refreshes at about equal distances. Nothing for j == 0.
[[nodiscard]] std::optional<int64_t> usual_row_before(const Landscape& landscape, int64_t j, int64_t step);

} // namespace refreshlab
