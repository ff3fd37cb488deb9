#include "engine/train/models/reading_plan.h"

#include "engine/base/check.h"

#include <cmath>
#include <random>

namespace refreshlab {

ReadingPlan reading_with(int64_t prompt, const std::vector<int64_t>& boundaries, int64_t tokens) {
    ReadingPlan plan{prompt, {}};
    size_t next = 0;
    int64_t last = prompt;
    for (int64_t p = prompt; p < tokens; ++p) {
        // The step of position p is p - prompt + 1, and boundary t comes behind step t.
        while (next < boundaries.size() && prompt + boundaries[next] <= p)
            last = prompt + boundaries[next++];
        plan.refreshed.push_back(last);
    }
    return plan;
}

ReadingPlan drawn_reading(const ReadingShares& shares, int64_t tokens, uint64_t seed, int64_t number) {
    RL_ASSERT(tokens >= 4);
    std::seed_seq words{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32),
                        static_cast<uint32_t>(number), static_cast<uint32_t>(number >> 32), 1U};
    std::mt19937_64 random(words);
    // By hand: the distributions of <random> differ between libraries.
    const auto uniform = [&] { return std::ldexp(static_cast<double>(random() >> 11), -53); };
    const auto one_to = [&](int64_t most) {
        return 1 + static_cast<int64_t>(random() % static_cast<uint64_t>(most));
    };
    const double way = uniform();
    if (way < shares.alone) return {};
    const int64_t prefix = one_to(tokens / 2);
    if (way < shares.alone + shares.prefix) return {prefix, {}};
    const auto period =
        static_cast<int64_t>(std::exp(uniform() * std::log(static_cast<double>(shares.longest + 1))));
    std::vector<int64_t> boundaries;
    for (int64_t t = one_to(period); prefix + t < tokens; t += period)
        boundaries.push_back(t);
    return reading_with(prefix, boundaries, tokens);
}

} // namespace refreshlab
