#pragma once

#include "engine/refresh/policy.h"

#include <span>
#include <string_view>

namespace refreshlab {

/// A cache policy that decides by a signal of its own: the parameter that is its threshold, and the signal that tells where it
/// decided so. So a window can draw the threshold as a line on the signal's plot.
struct CacheGate {
    std::string_view method;    ///< "refreshkv"
    std::string_view signal;    ///< what is compared, in each layer by itself
    std::string_view parameter; ///< what it is compared with
    Comparison comparison;      ///< that makes the decision
    std::string_view decided;   ///< signal: 1 where a layer decided so
};

/// All of them; each names a method of the registry, a live parameter of it, and two signals that it publishes.
[[nodiscard]] std::span<const CacheGate> cache_gates();
/// Null where the method has none.
[[nodiscard]] const CacheGate* find_cache_gate(std::string_view method);

} // namespace refreshlab
