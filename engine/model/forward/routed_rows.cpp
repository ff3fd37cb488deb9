#include "engine/model/forward/routed_rows.h"

#include "engine/base/check.h"

#include <ATen/ops/tensor.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace refreshlab {

std::vector<RoutedExpert> experts_of_row(const Experts& experts, std::span<const float> logits) {
    RL_ASSERT(std::ssize(logits) == experts.count && experts.used > 0 && experts.used <= experts.count);
    std::vector<int64_t> order(logits.size());
    std::iota(order.begin(), order.end(), 0);
    // NaN stays where it is: poisoned logits must not break the order's rules.
    const auto value = [&](int64_t e) {
        const float logit = logits[static_cast<size_t>(e)];
        return std::isnan(logit) ? -INFINITY : logit;
    };
    std::ranges::stable_sort(order, [&](int64_t a, int64_t b) { return value(a) > value(b); });
    const float top = logits[static_cast<size_t>(order.front())];
    const auto weight = [&](int64_t e) { return std::exp(logits[static_cast<size_t>(e)] - top); };
    float sum = 0;
    const auto chosen = static_cast<size_t>(experts.used);
    for (const int64_t e : std::span(order).first(experts.normalised ? chosen : order.size()))
        sum += weight(e);
    order.resize(chosen);
    std::ranges::sort(order);
    std::vector<RoutedExpert> result;
    for (const int64_t e : order)
        result.push_back({e, weight(e) / sum});
    return result;
}

RoutedRows::RoutedRows(const Experts& experts, const at::Tensor& logits) {
    const at::Tensor host = logits.to(at::kCPU, at::kFloat).contiguous();
    std::vector<std::vector<int64_t>> rows(static_cast<size_t>(experts.count));
    std::vector<std::vector<float>> shares(rows.size());
    for (int64_t r = 0; r < host.size(0); ++r) {
        const float* const row = host.const_data_ptr<float>() + r * experts.count;
        for (const RoutedExpert& chosen : experts_of_row(experts, {row, rows.size()})) {
            rows[static_cast<size_t>(chosen.expert)].push_back(r);
            shares[static_cast<size_t>(chosen.expert)].push_back(chosen.share);
        }
    }
    for (size_t e = 0; e < rows.size(); ++e) {
        if (!rows[e].empty())
            m_groups.push_back(
                {static_cast<int64_t>(e), at::tensor(rows[e], at::kLong), at::tensor(shares[e], at::kFloat)});
    }
}

} // namespace refreshlab
