#pragma once

#include "engine/record/recording/recording.h"
#include "engine/refresh/policy.h"
#include "ui/scene/series/layer_pick.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace refreshlab::ui {

/// What a person changed while a run went on, from the recording's commands: the step, the words, and the policy from
/// then on.
/// Cost of update(): the new commands.
/// Threads  one (the UI thread).
class LiveChanges {
public:
    struct Change {
        int64_t step;            ///< the first that felt it
        std::string words;       ///< "entropy.threshold = 5.2"
        RefreshPolicy policy;    ///< in force from there on
        CachePolicyConfig cache; ///< of the model that decodes, the same
    };
    void clear(); ///< before another recording is shown
    void update(const Recording& recording);
    [[nodiscard]] std::span<const Change> all() const { return m_changes; } ///< by step
    /// In force at step t.
    [[nodiscard]] const RefreshPolicy& policy_at(int64_t t) const;
    [[nodiscard]] const CachePolicyConfig& cache_at(int64_t t) const;

private:
    const Recording* m_recording = nullptr; ///< compared only
    size_t m_commands = 0;
    RunConfig m_config; ///< after the last command
    RefreshPolicy m_first;
    CachePolicyConfig m_first_cache;
    std::vector<Change> m_changes;
};

/// A threshold as it was at steps [first, last].
struct ThresholdSpan {
    int64_t first = 0, last = 0;
    double value = 0;
    friend bool operator==(const ThresholdSpan&, const ThresholdSpan&) = default;
};
/// One trigger's threshold over steps [1, steps], as the steps of a stair. Neighbours differ; there is none where the
/// policy had no such trigger, or had switched it off.
/// \param layers  the number of a layered signal's layers that it compares; the default for the others
[[nodiscard]] std::vector<ThresholdSpan> threshold_stair(const LiveChanges& changes, int64_t steps,
                                                         std::string_view signal, LayerPick layers);

/// The threshold that a person sees now is not the one that the last step ran with; also where that step had no such trigger.
[[nodiscard]] bool moved_since_run(const LiveChanges& changes, int64_t steps, std::string_view signal,
                                   LayerPick layers, double now);

} // namespace refreshlab::ui
