#pragma once

#include "engine/control/run_config.h"
#include "engine/refresh/planner.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace refreshlab {

class Recording;

/// A boundary at which a limit kept the policy from refreshing.
struct BlockedFire {
    int64_t step = 0;
    bool budget = false, cooldown = false; ///< which of the two limits did; both are possible
    std::vector<TriggerHit> hits; ///< the triggers that looked at this step and were beyond their thresholds
};

/// Where a budget or a cool-down kept the policy of a run from firing, also while the run goes on. What was recorded at each
/// boundary is judged again by the policy of that step, without its limits. A KL trigger is judged where its probe was made. Under
/// `all` no probe is made while another trigger cools down, so nothing is known there; nor is anything of policies that verify. A
/// boundary is judged when the step after it is there, or the run has ended: before that its choice might be the last one, which no
/// refresh would change.
/// Cost of update(): the boundaries that are new, times their triggers.
/// Threads  one.
class BlockedFires {
public:
    void clear(); ///< before another recording is looked at
    void update(const Recording& recording);
    [[nodiscard]] std::span<const BlockedFire> all() const { return m_blocked; } ///< ascending

private:
    /// A policy without one of its limits, or without both.
    struct Freed {
        explicit Freed(const RefreshPolicy& policy);
        RefreshPolicy no_budget, no_cooldown, free;
    };
    void obey_commands(const Recording& recording, int64_t step);
    [[nodiscard]] bool judge(const Recording& recording, int64_t step);
    [[nodiscard]] bool ask(const Recording& recording, int64_t step, bool fired);
    void land(const Recording& recording);

    const Recording* m_recording = nullptr; ///< compared only
    RunConfig m_config;                     ///< after the commands so far
    std::optional<Freed> m_freed;           ///< of its policy; none before the first boundary
    size_t m_commands = 0;
    int64_t m_next_step = 1;
    size_t m_next = 0;                    ///< refresh that has not landed
    std::optional<int64_t> m_last_splice; ///< boundary
    int64_t m_spliced_to = 0, m_last_pass = 0;
    std::vector<int64_t> m_automatic;
    /// A boundary at which nothing stood in the way and no refresh is known: it landed later, or never.
    bool m_in_flight = false;
    std::vector<BlockedFire> m_blocked;
};

/// The same of a whole recording at once.
[[nodiscard]] std::vector<BlockedFire> blocked_fires(const Recording& recording);

} // namespace refreshlab
