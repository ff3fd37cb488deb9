#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace refreshlab {

/// Points in groups (Lloyd 1982), by the angle between them: all are scaled to a length of 1 first.
struct KMeans {
    std::vector<std::vector<double>> centres;
    std::vector<size_t> cluster;  ///< of each point
    std::vector<double> distance; ///< of each point to its centre, squared
};

/// \param points  of one length, at least one; \param k  at most this many groups
/// \param seed    says with which point the choice of first centres begins; each further one is the point farthest from those before it
[[nodiscard]] KMeans k_means(std::span<const std::span<const float>> points, int64_t k, uint64_t seed);
/// The group that a further point belongs to; it has points.
[[nodiscard]] size_t nearest_centre(const KMeans& groups, std::span<const float> point);

} // namespace refreshlab
