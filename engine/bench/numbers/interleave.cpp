#include "engine/bench/numbers/interleave.h"

#include "engine/base/check.h"

#include <utility>
#include <vector>

namespace refreshlab::bench {

PairedCost compare_in_turns(const Side& a, const Side& b, int64_t pairs, int64_t steps) {
    RL_ASSERT(pairs >= 1 && steps >= 1);
    static_cast<void>(a(steps)); // warms up
    static_cast<void>(b(steps));
    std::vector<double> of_a, of_b, ratios;
    for (int64_t pair = 0; pair < pairs; ++pair) {
        const bool a_first = pair % 2 == 0;
        const double first = (a_first ? a : b)(steps), second = (a_first ? b : a)(steps);
        const auto [a_ms, b_ms] = a_first ? std::pair(first, second) : std::pair(second, first);
        of_a.push_back(a_ms);
        of_b.push_back(b_ms);
        if (a_ms > 0) ratios.push_back(b_ms / a_ms);
    }
    const double per_step = 1.0 / static_cast<double>(steps);
    return {.pairs = pairs,
            .steps = steps,
            .a_ms = spread_of(of_a, per_step),
            .b_ms = spread_of(of_b, per_step),
            .ratio = spread_of(ratios)};
}

} // namespace refreshlab::bench
