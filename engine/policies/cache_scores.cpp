#include "engine/policies/cache_scores.h"

#include "engine/base/check.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace refreshlab::cache_scores {

std::vector<std::span<const float>> heads_of(const Cube& rows, const PolicyContext& context,
                                             int64_t kv_head) {
    std::vector<std::span<const float>> heads;
    for (int64_t g = 0; g < context.group(); ++g)
        heads.push_back(rows.row(0, kv_head * context.group() + g));
    return heads;
}

std::vector<float> reduce_group(std::span<const std::span<const float>> heads, Group group) {
    RL_ASSERT(!heads.empty());
    std::vector<float> row(heads[0].begin(), heads[0].end());
    if (group == Group::first) return row;
    constexpr size_t some = 2048; // stay in the first cache until all heads are through
    for (size_t begin = 0; begin < row.size(); begin += some) {
        const size_t n = std::min(some, row.size() - begin);
        float* const to = row.data() + begin;
        for (const auto& head : heads.subspan(1)) {
            const float* const from = head.data() + begin;
            if (group == Group::max)
                for (size_t i = 0; i < n; ++i)
                    to[i] = std::max(to[i], from[i]);
            else
                for (size_t i = 0; i < n; ++i)
                    to[i] += from[i];
        }
        for (size_t i = 0; i < n && group == Group::mean; ++i)
            to[i] /= static_cast<float>(heads.size());
    }
    return row;
}

void add_group_mean(std::span<const std::span<const float>> heads, std::span<float> sums) {
    RL_ASSERT(!heads.empty());
    constexpr size_t lanes = 16; // stay in registers until all heads are through
    const auto num = static_cast<float>(heads.size());
    size_t i = 0;
    for (; i + lanes <= sums.size(); i += lanes) {
        float row[lanes];
        std::copy_n(heads[0].data() + i, lanes, row);
        for (const auto& head : heads.subspan(1)) {
            const float* const from = head.data() + i;
            for (size_t l = 0; l < lanes; ++l)
                row[l] += from[l];
        }
        for (size_t l = 0; l < lanes; ++l)
            sums[i + l] += row[l] / num;
    }
    for (; i < sums.size(); ++i) {
        float one = heads[0][i];
        for (const auto& head : heads.subspan(1))
            one += head[i];
        sums[i] += one / num;
    }
}

std::vector<float> pooled(std::span<const float> scores, int64_t kernel, Pooling pooling) {
    RL_ASSERT(kernel % 2 == 1);
    const int64_t n = std::ssize(scores), half = kernel / 2;
    std::vector<float> out(scores.size());
    for (int64_t i = 0; i < n; ++i) {
        const int64_t begin = std::max<int64_t>(i - half, 0), end = std::min(i + half + 1, n);
        const auto part = scores.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
        out[static_cast<size_t>(i)] =
            pooling == Pooling::max
                ? *std::ranges::max_element(part)
                : std::accumulate(part.begin(), part.end(), 0.0F) / static_cast<float>(kernel);
    }
    return out;
}

std::vector<int64_t> top(std::span<const float> scores, int64_t k) {
    std::vector<int64_t> order(scores.size());
    std::iota(order.begin(), order.end(), 0);
    const int64_t kept = std::clamp<int64_t>(k, 0, std::ssize(order));
    const auto better = [&](int64_t a, int64_t b) {
        const float x = scores[static_cast<size_t>(a)], y = scores[static_cast<size_t>(b)];
        return x != y ? x > y : a > b;
    };
    if (kept + 1 == std::ssize(order)) { // what a step is over its budget
        order.erase(std::ranges::max_element(order, better));
        return order;
    }
    if (kept < std::ssize(order)) std::nth_element(order.begin(), order.begin() + kept, order.end(), better);
    order.resize(static_cast<size_t>(kept));
    std::ranges::sort(order);
    return order;
}

std::vector<int64_t> shares(std::span<const double> weights, int64_t total) {
    const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
    RL_ASSERT(sum > 0);
    std::vector<int64_t> parts;
    std::vector<double> rest;
    int64_t left = total;
    for (const double weight : weights) {
        const double exact = weight / sum * static_cast<double>(total);
        parts.push_back(static_cast<int64_t>(std::floor(exact)));
        rest.push_back(exact - std::floor(exact));
        left -= parts.back();
    }
    std::vector<size_t> order(parts.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::stable_sort(order, [&](size_t a, size_t b) { return rest[a] > rest[b]; });
    for (size_t i = 0; left > 0; i = (i + 1) % order.size(), --left)
        ++parts[order[i]];
    return parts;
}

} // namespace refreshlab::cache_scores
