#include "engine/policies/methods/prompt/k_means.h"

#include "engine/base/check.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace refreshlab {

namespace {

constexpr int most_rounds = 50;

using Vector = std::vector<double>;

Vector unit(std::span<const float> point) {
    Vector x(point.begin(), point.end());
    double square = 0;
    for (const double v : x)
        square += v * v;
    if (square > 0)
        for (double& v : x)
            v /= std::sqrt(square);
    return x;
}

double apart(const Vector& a, const Vector& b) {
    double square = 0;
    for (size_t i = 0; i < a.size(); ++i)
        square += (a[i] - b[i]) * (a[i] - b[i]);
    return square;
}

/// The nearest centre and its squared distance; of equally near ones the first.
std::pair<size_t, double> nearest(const std::vector<Vector>& centres, const Vector& x) {
    std::pair<size_t, double> best{0, std::numeric_limits<double>::infinity()};
    for (size_t c = 0; c < centres.size(); ++c)
        if (const double d = apart(centres[c], x); d < best.second) best = {c, d};
    return best;
}

} // namespace

KMeans k_means(std::span<const std::span<const float>> points, int64_t k, uint64_t seed) {
    RL_ASSERT(!points.empty() && k > 0);
    std::vector<Vector> all;
    for (const auto& point : points)
        all.push_back(unit(point));
    KMeans found;
    found.centres.push_back(all[seed % all.size()]);
    while (std::ssize(found.centres) < k) {
        const auto farthest = std::ranges::max_element(
            all, {}, [&](const Vector& x) { return nearest(found.centres, x).second; });
        if (nearest(found.centres, *farthest).second == 0) break; // no other point is left
        found.centres.push_back(*farthest);
    }
    for (int round = 0; round < most_rounds; ++round) {
        std::vector<size_t> cluster;
        found.distance.clear();
        for (const Vector& x : all) {
            const auto [c, d] = nearest(found.centres, x);
            cluster.push_back(c);
            found.distance.push_back(d);
        }
        const bool stands = cluster == found.cluster;
        found.cluster = std::move(cluster);
        if (stands) break;
        std::vector<Vector> sums(found.centres.size(), Vector(all[0].size(), 0));
        std::vector<double> counts(found.centres.size(), 0);
        for (size_t i = 0; i < all.size(); ++i) {
            counts[found.cluster[i]] += 1;
            for (size_t d = 0; d < all[i].size(); ++d)
                sums[found.cluster[i]][d] += all[i][d];
        }
        for (size_t c = 0; c < sums.size(); ++c) {
            if (counts[c] == 0) continue; // nobody is near: it stays where it was
            for (size_t d = 0; d < sums[c].size(); ++d)
                found.centres[c][d] = sums[c][d] / counts[c];
        }
    }
    return found;
}

size_t nearest_centre(const KMeans& groups, std::span<const float> point) {
    const Vector x = unit(point);
    // A centre may have lost all its points.
    return *std::ranges::min_element(groups.cluster, [&](size_t a, size_t b) {
        const double to_a = apart(groups.centres[a], x), to_b = apart(groups.centres[b], x);
        return to_a != to_b ? to_a < to_b : a < b;
    });
}

} // namespace refreshlab
