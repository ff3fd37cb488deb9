#pragma once

#include "engine/record/recording/recording.h"

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace refreshlab::ui {

/// What the triggers on one signal have done so far in a run.
struct TriggerResult {
    int64_t fires = 0; ///< refreshes that such a trigger asked for, alone or with others
    double ms = 0;     ///< of those together: teacher passes, splices, redraws
    /// Mean KL of the tokens read just before a refresh and of those just after it, nats, over `compared` refreshes; nothing where
    /// the teacher has read neither side. Where it reads at refreshes alone, the side after is known with the next one.
    std::optional<double> kl_before, kl_after;
    int64_t compared = 0;
};
inline constexpr int64_t compared_tokens =
    8; ///< on each side of a refresh; fewer where another one is nearer

/// Of all signals, kept from frame to frame.
/// Cost of update(): compared_tokens looks on each side of every new refresh; of of(): a look-up.
/// Threads  one (the UI thread).
class TriggerResults {
public:
    /// \param steps  of the recording that count. Another recording, or fewer steps than before: all is counted anew.
    void update(const Recording& recording, int64_t steps);
    /// What the triggers on this signal have done; nothing before the first update().
    [[nodiscard]] TriggerResult of(std::string_view signal) const;
    void clear();

private:
    struct Sums {
        int64_t fires = 0, compared = 0;
        double ms = 0, before = 0, after = 0;
    };
    using BySignal = std::map<std::string, Sums, std::less<>>;
    static void add(BySignal& sums, const Recording& recording, int64_t steps, size_t event);

    const Recording* m_recording = nullptr; ///< compared only
    int64_t m_steps = 0;
    size_t m_fills = 0;   ///< back-fills that were looked at
    size_t m_settled = 0; ///< so many events are in m_sums for good
    BySignal m_sums;      ///< of settled events
    BySignal m_all;       ///< with those whose sides may still grow
};

/// "3 fires, 25 ms; KL 4.4 before, 0.02 after"; "has not fired yet".
[[nodiscard]] std::string result_text(const TriggerResult& result);

} // namespace refreshlab::ui
