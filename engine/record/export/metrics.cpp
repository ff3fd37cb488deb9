#include "engine/record/export/metrics.h"

#include <array>
#include <set>

namespace refreshlab {

double repetition3(std::span<const int32_t> tokens) {
    if (tokens.size() < 3) return 0;
    std::set<std::array<int32_t, 3>> unique;
    const size_t total = tokens.size() - 2;
    for (size_t i = 0; i < total; ++i)
        unique.insert({tokens[i], tokens[i + 1], tokens[i + 2]});
    return 1.0 - static_cast<double>(unique.size()) / static_cast<double>(total);
}

} // namespace refreshlab
