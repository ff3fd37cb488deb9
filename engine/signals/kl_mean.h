#pragma once

#include "engine/signals/registry.h"

#include <cstdint>

namespace refreshlab {

/// kl_mean_nats, live and in the threshold preview: mean of kl_nats over steps first .. last; absent() for an empty
/// range, and where a step has none (its row fell out of the ring: it is missing, never approximated).
/// \param kl_at  kl_nats of a step, float(int64_t)
template <typename KlAt>
[[nodiscard]] float mean_kl(int64_t first, int64_t last, const KlAt& kl_at) {
    if (first > last) return absent();
    double sum = 0;
    for (int64_t step = first; step <= last; ++step) {
        const float value = kl_at(step);
        if (is_absent(value)) return absent();
        sum += static_cast<double>(value);
    }
    return static_cast<float>(sum / static_cast<double>(last - first + 1));
}

} // namespace refreshlab
