#include "engine/policies/cache_gate.h"

#include <algorithm>

namespace refreshlab {

namespace {

constexpr CacheGate gates[] = {
    {"refreshkv", "query_similarity", "similarity", Comparison::at_most, "full_step"},
};

} // namespace

std::span<const CacheGate> cache_gates() {
    return gates;
}

const CacheGate* find_cache_gate(std::string_view method) {
    const auto* found = std::ranges::find(gates, method, &CacheGate::method);
    return found == std::end(gates) ? nullptr : found;
}

} // namespace refreshlab
