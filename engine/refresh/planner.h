#pragma once

#include "engine/refresh/policy.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace refreshlab {

/// Signals that a boundary knows after a teacher pass up to it and not before: a trigger on one of them asks for a probe.
[[nodiscard]] std::span<const std::string_view> probed_signals();
/// Their ids in the registry, in the same order.
[[nodiscard]] std::span<const size_t> probed_signal_ids();

/// What the planner knows at boundary t. Plain data, so the what-if preview asks the same code as the live decode.
struct Boundary {
    int64_t step = 0;                ///< t, the index of the token fed last
    int64_t tokens_since_splice = 0; ///< S.len - P
    /// Tokens fed since the last teacher pass of a probe or refresh (S.len - T.len without shadow mode). The same in
    /// both asks at one boundary.
    int64_t tokens_since_pass = 0;
    std::optional<int64_t> last_splice_step;  ///< of any cause; the prefill is none
    std::span<const int64_t> automatic_steps; ///< boundaries of automatic refreshes so far, ascending
    /// By signal id; absent() where not measured. probed_signals() are absent until probed, in shadow mode too (so
    /// probes fall on the same boundaries there); after a probe kl_nats is there, NaN if it could not be measured.
    std::span<const float> signals;
    bool manual = false; ///< a person asked for a refresh
    /// A lagged refresh has fired and not landed: the teacher is reading. Nothing fires and nothing is probed meanwhile.
    bool in_flight = false;
    const LayerValues* layers = nullptr; ///< of this step, for triggers that reduce; null: none was measured
    /// The signals by id: Recording::signals(); empty stands for the registry.
    std::span<const Signal> table = {};
};

/// One trigger that held at a boundary (eligible by `every` and cool-down, and beyond its threshold), for the record.
struct TriggerHit {
    int32_t trigger = -1; ///< index in the policy, -1 = by hand, or the policy's schedule
    std::string signal;   ///< "" by hand, scheduled_hit of the schedule: its value and threshold are the step
    double value = 0, threshold = 0;
    char letter = 'H';                  ///< of the marker
    Reduction reduce = Reduction::mean; ///< what of a layered signal was compared
    int32_t layer = 0;                  ///< of Reduction::layer
};

/// TriggerHit::signal of a refresh that the policy's schedule asked for; no signal has this name.
inline constexpr std::string_view scheduled_hit = "at";

/// TriggerHit::signal of a refresh that judges a draft because it ends: at the end of the text, or at longest_draft.
inline constexpr std::string_view draft_end_hit = "draft_end";

struct Decision {
    enum class Kind : uint8_t {
        none,
        probe, ///< a teacher pass is needed to know the KL; ask again with probed_signals() filled in
        refresh,
    } kind = Kind::none;
    /// Of a refresh: "by hand" first, then the schedule, then all triggers that held, in policy order. Of a blocked one: those that held.
    /// Empty otherwise.
    std::vector<TriggerHit> hits;
    bool automatic = false;      ///< counts against the budget (some trigger fired, not only a person)
    bool budget_blocked = false; ///< would have fired, but the budget is used up
};

/// Decides at one boundary (reference/refresh.md, section 5). Stateless: everything is in the arguments.
/// Rules. `every` binds free and MC signals by t mod every == 0; the two KL by tokens_since_pass >= every. Cool-down counts
/// from the last splice of any cause. Budget binds automatic triggers only. A NaN or infinite value never fires.
/// A step of the schedule fires by itself, whatever triggers, strides and cool-downs say.
/// any: fires if some trigger holds. all: fires if every enabled trigger holds; a probe is asked for only when every KL
/// trigger is due and the others hold. A probe that is due under `any` runs even when another trigger fires (its pass is
/// the refresh's), and whether or not cool-down or budget would let it splice: probing is measuring.
/// Nothing happens while a refresh is in flight. Nothing happens while tokens_since_splice is 0: an empty range is no refresh, by hand neither.
/// By hand: ignores every limit; automatic only if triggers fire as well and the budget has room.
[[nodiscard]] Decision decide(const RefreshPolicy& policy, const Boundary& boundary);

/// Which costly signals this policy wants at boundary t (before they are computed): MC rows due at step t?
[[nodiscard]] bool wants_mc(const RefreshPolicy& policy, int64_t step);
/// An enabled trigger reads a signal at step t that needs the attention probabilities (Signal::attention).
[[nodiscard]] bool wants_attention(const RefreshPolicy& policy, int64_t step);

/// The word for a trigger's signal: "entropy", "kl", "kl_mean", "mc", "periodic" (steps_since_refresh), "manual" for "", "scheduled" for scheduled_hit,
/// else the signal's own name.
[[nodiscard]] std::string_view reason_word(std::string_view signal);
/// One word for a marker, CSV and summary: "entropy", "manual+kl+entropy"; a reduction stands after its signal:
/// "attention_entropy_bits.max", "attention_entropy_bits.layer3".
[[nodiscard]] std::string reason_text(std::span<const TriggerHit> hits);
/// The marker's letter: the trigger's own, 'H' by hand, '@' of the schedule, '+' several; 0 for no hits.
[[nodiscard]] char reason_letter(std::span<const TriggerHit> hits);

} // namespace refreshlab
