#include "engine/record/trace/write/shared_steps.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace refreshlab::trace {

namespace {

/// How many events of a log are of steps up to this one.
template <class Log>
size_t up_to(const Log& log, int64_t step) {
    size_t count = 0;
    for (size_t i = 0, n = log.size(); i < n; ++i)
        count += log[i].step <= step ? 1 : 0;
    return count;
}

} // namespace

bool has_steps_of(const Recording& parent, const Recording& branch) {
    const int64_t fork_step = branch.info().fork_step;
    const auto& inherited = branch.inherited();
    const bool events = inherited.refreshes <= up_to(parent.refreshes(), fork_step) &&
                        inherited.passes <= up_to(parent.passes(), fork_step) &&
                        inherited.drafts == up_to(parent.drafts(), fork_step) &&
                        inherited.commands <= up_to(parent.commands(), fork_step) &&
                        inherited.cache_entries <= up_to(parent.cache_entries(), fork_step) &&
                        parent.info().has_cache_events == branch.info().has_cache_events;
    if (!events || parent.steps() < fork_step || parent.signals().size() != branch.signals().size())
        return false;
    for (int64_t t = 1; t <= fork_step; ++t) {
        const auto a = parent.measured(t), b = branch.measured(t);
        const auto same_bits = [](float x, float y) {
            return std::bit_cast<uint32_t>(x) == std::bit_cast<uint32_t>(y) ||
                   (std::isnan(x) && std::isnan(y) && is_absent(x) == is_absent(y));
        };
        if (parent.step(t).next_token_id != branch.step(t).next_token_id ||
            !std::ranges::equal(a, b, same_bits))
            return false;
    }
    return true;
}

double clock_offset(const Recording& parent, const Recording& branch) {
    const int64_t fork_step = branch.info().fork_step;
    const double ms = parent.step(fork_step).arrival_ms - branch.step(fork_step).arrival_ms;
    return std::isfinite(ms) ? ms : 0;
}

bool same_rows(const std::shared_ptr<const AttentionRows>& a, const std::shared_ptr<const AttentionRows>& b) {
    if (a == b) return true;
    return a && b && *a == *b;
}

} // namespace refreshlab::trace
