#pragma once

#include "engine/bench/numbers/statistics.h"

#include <cstdint>
#include <functional>

namespace refreshlab::bench {

/// One side of a comparison: goes on by so many steps. \return how long they took, milliseconds
using Side = std::function<double(int64_t steps)>;

/// Two ways of the same work, measured in turns so that a machine that slows down slows both.
struct PairedCost {
    int64_t pairs = 0, steps = 0; ///< steps: of one side in one pair
    Spread a_ms, b_ms;            ///< of one step
    Spread ratio;                 ///< b / a, pair by pair
    [[nodiscard]] double overhead_percent() const { return (ratio.median - 1) * 100; }
    friend bool operator==(const PairedCost&, const PairedCost&) = default;
};

/// One pair that does not count, then `pairs` pairs of `steps` steps a side. Who begins alternates: a b, b a, a b, ...
/// \param pairs, steps  at least 1 (asserted)
[[nodiscard]] PairedCost compare_in_turns(const Side& a, const Side& b, int64_t pairs, int64_t steps);

} // namespace refreshlab::bench
