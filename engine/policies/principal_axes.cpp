#include "engine/policies/principal_axes.h"

#include "engine/base/check.h"

#include <algorithm>
#include <cmath>

namespace refreshlab {

namespace {

constexpr int most_sweeps = 30; // ten are usual for d = 128
constexpr double small = 1e-24; // of the square of the largest product: below fp32 in the axes

/// A symmetric matrix and the rotations made so far, [d, d] both.
struct Jacobi {
    int64_t d;
    std::vector<double> matrix, axes;

    double& at(std::vector<double>& m, int64_t i, int64_t j) const {
        return m[static_cast<size_t>(i * d + j)];
    }

    /// Makes matrix[p][q] zero by a turn in the plane of p and q.
    void turn(int64_t p, int64_t q) {
        const double off = at(matrix, p, q);
        if (off == 0) return;
        const double theta = (at(matrix, q, q) - at(matrix, p, p)) / (2 * off);
        const double t = (theta >= 0 ? 1 : -1) / (std::abs(theta) + std::sqrt(theta * theta + 1));
        const double c = 1 / std::sqrt(t * t + 1), s = t * c;
        const auto mixed = [&](double& x, double& y) {
            const double a = c * x - s * y, b = s * x + c * y;
            x = a;
            y = b;
        };
        for (int64_t i = 0; i < d; ++i)
            mixed(at(matrix, i, p), at(matrix, i, q));
        for (int64_t i = 0; i < d; ++i)
            mixed(at(matrix, p, i), at(matrix, q, i));
        for (int64_t i = 0; i < d; ++i)
            mixed(at(axes, p, i), at(axes, q, i));
    }

    [[nodiscard]] double off_diagonal() {
        double sum = 0;
        for (int64_t p = 0; p < d; ++p)
            for (int64_t q = p + 1; q < d; ++q)
                sum += at(matrix, p, q) * at(matrix, p, q);
        return sum;
    }
};

} // namespace

std::vector<float> principal_axes(std::span<const float> rows, int64_t d) {
    RL_ASSERT(d > 0 && std::ssize(rows) % d == 0);
    Jacobi jacobi{d, std::vector<double>(static_cast<size_t>(d * d), 0),
                  std::vector<double>(static_cast<size_t>(d * d), 0)};
    double scale = 0;
    for (int64_t i = 0; i < d; ++i) {
        jacobi.at(jacobi.axes, i, i) = 1;
        for (int64_t j = 0; j <= i; ++j) {
            double sum = 0;
            for (size_t row = 0; row < rows.size(); row += static_cast<size_t>(d))
                sum += static_cast<double>(rows[row + static_cast<size_t>(i)]) *
                       static_cast<double>(rows[row + static_cast<size_t>(j)]);
            jacobi.at(jacobi.matrix, i, j) = jacobi.at(jacobi.matrix, j, i) = sum;
            scale = std::max(scale, std::abs(sum));
        }
    }
    for (int sweep = 0; sweep < most_sweeps && jacobi.off_diagonal() > small * scale * scale; ++sweep)
        for (int64_t p = 0; p < d; ++p)
            for (int64_t q = p + 1; q < d; ++q)
                jacobi.turn(p, q);
    return {jacobi.axes.begin(), jacobi.axes.end()};
}

} // namespace refreshlab
