#include "engine/model/checkpoint/weight_store.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

namespace refreshlab {

std::string types_by_bytes(const std::vector<std::pair<std::string, int64_t>>& bytes) {
    std::map<std::string, int64_t> sums;
    for (const auto& [type, n] : bytes)
        sums[type] += n;
    std::vector<std::pair<std::string, int64_t>> order(sums.begin(), sums.end());
    std::stable_sort(order.begin(), order.end(),
                     [](const auto& a, const auto& b) { return a.second > b.second; });
    std::vector<std::string> names;
    for (const auto& [type, n] : order)
        names.push_back(type);
    return fmt::format("{}", fmt::join(names, ", "));
}

} // namespace refreshlab
