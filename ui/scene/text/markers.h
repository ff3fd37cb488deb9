#pragma once

#include <cstddef>
#include <functional>
#include <limits>
#include <span>
#include <vector>

namespace refreshlab::ui {

/// Markers that are drawn as one: indices [first, last] of the input, spread over pixels [x_min, x_max].
struct MarkerGroup {
    size_t first = 0, last = 0;
    double x_min = 0, x_max = 0;
    [[nodiscard]] size_t count() const { return last - first + 1; }
    [[nodiscard]] double x() const { return 0.5 * (x_min + x_max); }
    friend bool operator==(const MarkerGroup&, const MarkerGroup&) = default;
};

/// Merges markers whose distance to the neighbour is below `closer_than_px` (3: lines become a bar with a count; wider
/// for letter badges).
/// \param x_px       pixel positions, ascending
/// \param widest_px  a group that is this wide is closed. So a crowd has several badges side by side, each over its own
///                   part of the axis, and not one badge in the middle
[[nodiscard]] std::vector<MarkerGroup>
merge_markers(std::span<const double> x_px, double closer_than_px,
              double widest_px = std::numeric_limits<double>::infinity());

/// The letter of a group: the common one, or '+' where they differ.
[[nodiscard]] char group_letter(const MarkerGroup& group, const std::function<char(size_t)>& letter);

} // namespace refreshlab::ui
