#include "engine/policies/methods/merging.h"

#include <cmath>

namespace refreshlab::merging {

bool stays_whole(int64_t layer, int64_t dense_layers, const PolicyContext& context) {
    return layer < dense_layers || (dense_layers > 0 && layer == context.layers - 1);
}

double cosine(std::span<const float> a, std::span<const float> b) {
    double product = 0, of_a = 0, of_b = 0;
    for (size_t i = 0; i < a.size(); ++i) {
        const auto x = static_cast<double>(a[i]), y = static_cast<double>(b[i]);
        product += x * y;
        of_a += x * x;
        of_b += y * y;
    }
    return of_a > 0 && of_b > 0 ? product / std::sqrt(of_a * of_b) : 0;
}

double squared_distance(std::span<const float> a, std::span<const float> b) {
    double sum = 0;
    for (size_t i = 0; i < a.size(); ++i) {
        const double d = static_cast<double>(a[i]) - static_cast<double>(b[i]);
        sum += d * d;
    }
    return sum;
}

void append_sum(const Rows& rows, std::span<const int64_t> places, std::span<const double> weights,
                std::vector<float>& out) {
    for (size_t c = 0; c < static_cast<size_t>(rows.head_dim); ++c) {
        double sum = 0;
        for (size_t i = 0; i < places.size(); ++i)
            sum += weights[i] * static_cast<double>(rows.row(places[i])[c]);
        out.push_back(static_cast<float>(sum));
    }
}

} // namespace refreshlab::merging
