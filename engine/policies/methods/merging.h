#pragma once

#include "engine/policies/cache_policy.h"

#include <cstdint>
#include <span>
#include <vector>

/// Arithmetic of methods that merge entries. Rows are read in fp32 and added up in double, in one order.
namespace refreshlab::merging {

/// Keys or values of some entries, [n][head_dim].
struct Rows {
    std::vector<float> numbers;
    int64_t head_dim = 0;
    [[nodiscard]] std::span<const float> row(int64_t i) const {
        return std::span(numbers).subspan(static_cast<size_t>(i * head_dim), static_cast<size_t>(head_dim));
    }
};

/// A layer that merging methods leave alone: the first `dense_layers` and, unless that is 0, the last.
[[nodiscard]] bool stays_whole(int64_t layer, int64_t dense_layers, const PolicyContext& context);

/// In [-1, 1]; 0 where one of them is zero.
[[nodiscard]] double cosine(std::span<const float> a, std::span<const float> b);
[[nodiscard]] double squared_distance(std::span<const float> a, std::span<const float> b);

/// sum_i weights[i] * row places[i], at the end of `out`.
void append_sum(const Rows& rows, std::span<const int64_t> places, std::span<const double> weights,
                std::vector<float>& out);

} // namespace refreshlab::merging
