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
/// then on. Looks at attention and refreshes by hand are none.
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
    /// Another number after each clear(): what was worked out of the changes before does not hold.
    [[nodiscard]] uint64_t generation() const { return m_generation; }

private:
    const Recording* m_recording = nullptr; ///< compared only
    size_t m_commands = 0;
    uint64_t m_generation = 1;
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
/// One trigger's threshold over steps [1, steps], as the steps of a stair, kept from frame to frame. Neighbours differ; there is
/// none where the policy had no such trigger, or had switched it off.
/// Cost: the changes since the last call.
/// Threads  one (the UI thread).
class ThresholdStair {
public:
    /// \param layers  the number of a layered signal's layers that it compares; the default for the others
    /// \return good until the next call
    [[nodiscard]] std::span<const ThresholdSpan> of(const LiveChanges& changes, int64_t steps,
                                                    std::string_view signal, LayerPick layers);

private:
    /// What was in force at steps [m_first, last].
    void stand(const LiveChanges& changes, int64_t last);

    // What it is of.
    uint64_t m_generation = 0; ///< of the changes; 0: nothing yet
    std::string m_signal;
    LayerPick m_layers;
    int64_t m_steps = 0;

    std::vector<ThresholdSpan> m_spans;
    // Up to the last change whose step has been made it stands for good.
    size_t m_changes = 0; ///< so many of them
    int64_t m_first = 1;  ///< step after them
    size_t m_settled = 0; ///< spans of theirs
    int64_t m_last = 0;   ///< where the last of these ended
};
/// The same once.
[[nodiscard]] std::vector<ThresholdSpan> threshold_stair(const LiveChanges& changes, int64_t steps,
                                                         std::string_view signal, LayerPick layers);

/// The threshold that a person sees now is not the one that the last step ran with; also where that step had no such trigger.
[[nodiscard]] bool moved_since_run(const LiveChanges& changes, int64_t steps, std::string_view signal,
                                   LayerPick layers, double now);

} // namespace refreshlab::ui
