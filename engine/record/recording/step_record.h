#pragma once

#include "engine/control/run_config.h"
#include "engine/record/recording/attention_rows.h"
#include "engine/refresh/planner.h"
#include "engine/signals/registry.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace refreshlab {

enum class Producer : uint8_t { teacher, student };

/// Parts of a step's time, in the order of the Performance panel.
enum class Part : uint8_t { model, attention, signals, mc, sample, teacher_pass, splice, redraw, other };
inline constexpr size_t num_parts = 9;
[[nodiscard]] constexpr const char* part_name(Part p) {
    constexpr const char* names[num_parts] = {"model",        "attention", "signals", "mc",   "sample",
                                              "teacher_pass", "splice",    "redraw",  "other"};
    return names[static_cast<size_t>(p)];
}

/// One step t: the token y_t was fed at `position` = L + t - 1, its row gave the signals (those about the next token)
/// and the choice of y_{t+1}; then came the boundary t with its probe or refresh. The last record of a finished run
/// holds y_N, which is never fed: it has no row, and its signals about the next token are absent.
/// Index conventions: reference/refresh.md, section 2; docs/design.md, "Which step a number belongs to".
struct StepRecord {
    int64_t step = 0;           ///< t, from 1
    int64_t position = 0;       ///< absolute
    int32_t token_id = -1;      ///< y_t
    int32_t next_token_id = -1; ///< y_{t+1} after the boundary (after on_fire); -1 in the last record
    Producer producer = Producer::student;      ///< whose row y_t was drawn from
    Producer next_producer = Producer::student; ///< whose row y_{t+1} was drawn from
    bool fed = true;                            ///< false: the last record of a finished run
    uint8_t top_k = 0; ///< candidates of y_{t+1}, most likely first, before temperature and filters
    std::array<int32_t, max_top_k> top_ids{};
    std::array<float, max_top_k> top_probs{};
    /// By signal id, as the step measured it; absent() where it did not. A value may be filled in later: Recording::signal().
    std::array<float, max_signals> signals{};
    std::array<float, num_parts> part_ms{}; ///< wall clock; not part of what must be equal in a replay
    double arrival_ms = 0; ///< when y_{t+1} was known on the host, since the run was submitted; not compared
};

/// A refresh: a splice at boundary `step`.
struct RefreshEvent {
    int64_t step = 0;       ///< t
    int64_t fired_step = 0; ///< boundary that decided it: step, or step - lag
    int32_t id = 0;         ///< from 0, also in the cache's refresh ids
    std::vector<TriggerHit> hits;
    bool automatic = true;
    int64_t delta = 0;     ///< student-made columns since the last splice, S.len - P at fired_step
    int64_t first_pos = 0; ///< first spliced position
    int64_t spliced =
        0; ///< positions of delta that were written: min(window, delta), or as many as the scope chose of them; 0 with window 0
    /// Of the entries that were written, as the teacher stores them: what crosses between two devices. 0 where none are copied (rebuild
    /// mode); nothing: not told, by earlier versions.
    std::optional<int64_t> bytes_sent;
    int64_t pass_tokens =
        0; ///< tokens the teacher read for it from fired_step on, that boundary's probe included
    OnFire on_fire = OnFire::keep;
    int32_t token_before = -1, token_after = -1; ///< pending token before and after on_fire
    float kl_nats = absent();                    ///< at the last delta position
    float mean_drift = absent();
    double teacher_ms = 0, splice_ms = 0, redraw_ms = 0;
};

/// A teacher pass over generated tokens: of a probe, a refresh, or shadow mode.
struct PassEvent {
    int64_t step = 0; ///< boundary
    int64_t first_pos = 0, tokens = 0;
    bool probe = false; ///< asked for by a KL trigger
    bool shadow = false;
    float kl_nats = absent(); ///< at the last position
    double ms = 0;
};

/// A token that the student drafted, as the teacher's pass judged it (reference/refresh.md, section 3). Probabilities are after
/// temperature and filters; at temperature 0, where these are 0 or 1, those of the raw rows.
struct DraftToken {
    int32_t token_id = -1;
    bool stays = false;
    float p_teacher = 0, p_student = 0;
    /// Probability that a token drawn from the student's row stays; absent() of a token given by hand, which stays unjudged.
    float expected = absent();
};

/// A draft that the teacher judged at boundary `step` (OnFire::verify): what of it stays is the recording's steps.
struct DraftEvent {
    int64_t step = 0; ///< where the draft ended or was cut; token first_pos + i is y_{first_pos + i - L + 1}
    int32_t refresh_id = 0; ///< RefreshEvent::id of that boundary
    int64_t first_pos = 0;  ///< of its first token
    std::vector<DraftToken> tokens;
    int32_t instead = -1;      ///< in place of the first that does not stay; -1: all stay
    int64_t rejected_read = 0; ///< tokens that the teacher read and that went
    double rejected_ms = 0;    ///< steps of the student that went
    double teacher_ms = 0;     ///< passes that judged it

    /// Tokens that stay: those before the first that does not.
    [[nodiscard]] int64_t accepted() const;
};

/// A command that changed the run, with the first step that felt it (it was applied after boundary step - 1).
struct CommandEvent {
    int64_t step = 1;
    std::string json; ///< command.h's JSON form
};

/// Drift of one refresh: [layers, positions], K and V apart (reference/refresh.md, 6.2).
struct DriftMap {
    int64_t step = 0;
    int32_t refresh_id = 0;
    int64_t first_pos = 0, positions = 0, layers = 0;
    std::vector<float> k, v;         ///< relative distance, [layers * positions], layer-major
    std::vector<float> k_max, v_max; ///< largest absolute difference, same shape
    /// False: the values are elsewhere, and the four are empty (Recording::drift()).
    [[nodiscard]] bool has_values() const { return !k.empty() || positions * layers == 0; }
};

} // namespace refreshlab
