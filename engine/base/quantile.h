#pragma once

#include <optional>
#include <span>
#include <vector>

namespace refreshlab {

/// Linear interpolation between order statistics (Hyndman and Fan 1996, type 7). Sorts a copy; nothing without values.
/// \param q  in [0, 1] (asserted)
[[nodiscard]] std::optional<double> quantile(std::vector<double> values, double q);
/// The same for values that are sorted already, at least one (asserted).
[[nodiscard]] double quantile_of_sorted(std::span<const double> sorted, double q);

} // namespace refreshlab
