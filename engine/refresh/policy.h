#pragma once

#include "engine/refresh/own_signal.h"
#include "engine/refresh/scope.h"
#include "engine/signals/registry.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace refreshlab {

enum class Comparison : uint8_t { above, at_least, below, at_most };
enum class Combine : uint8_t { any, all };

/// What happens to the pending token y_{t+1} when a refresh fires at boundary t (reference/refresh.md, section 3).
enum class OnFire : uint8_t {
    keep,          ///< nothing; it was emitted already
    teacher_token, ///< drawn again from the teacher's last row
    redraw,        ///< y_t is run again over the refreshed columns; drawn from that row
    verify,        ///< the tokens that nobody has judged stay or are replaced by the teacher's (Verification)
};

/// By what a drafted token y stays; p is the teacher's row, q the student's.
enum class VerifyRule : uint8_t {
    /// With probability min(1, p(y) / q(y)), both after temperature and filters; the first that does not is drawn again from
    /// norm(max(p - q, 0)). So every token has the teacher's distribution. Sources: Leviathan et al. 2023, Chen et al. 2023.
    exact,
    greedy, ///< where it is the arg max of p, which replaces it otherwise; at temperature 0 that is what exact does
    near_best, ///< p(y) >= share * max p, raw row. Source: the tolerance of Xia et al. 2023, ln share = -tau
    top_k,     ///< it is among the teacher's `rank` first, raw row. Source: Stern et al. 2018, section 5.1
};

/// What on_fire = verify does to the tokens of delta and to the pending one (reference/refresh.md, section 3).
struct Verification {
    VerifyRule rule = VerifyRule::exact;
    double share = 0.3; ///< of VerifyRule::near_best
    int32_t rank = 3;   ///< of VerifyRule::top_k, from 1
    /// false: the student drafts on its own entries, as in speculative decoding; the same as window 0.
    bool splice = true;
    /// Share of judged tokens that should stay: a trigger on `top1_prob` is raised after drafts of which less stays, and lowered after
    /// others (adapt_confidence()). Nothing: thresholds stand still. Source: Zhang et al. 2023, "Draft & Verify".
    std::optional<double> target = {};

    friend bool operator==(const Verification&, const Verification&) = default;
};
/// Tokens that the student drafts at most before a teacher's pass judges them: their rows have to be at hand.
inline constexpr int64_t longest_draft = 256;

/// signal + comparison + threshold + every + cool-down.
struct Trigger {
    std::string signal; ///< name in the registry, or of a signal that a component of the run publishes
    Comparison comparison = Comparison::above;
    double threshold = 0;
    /// Free and MC signals: eligible when t mod every == 0. Those that need a teacher pass (probed_signals(), planner.h): every
    /// this many tokens since the last one, a probe.
    int32_t every = 1;
    int32_t cooldown = 0; ///< eligible when t - (step of the last splice, any cause) >= cooldown; 0 = none
    bool enabled = true;  ///< a card that is switched off keeps its numbers
    /// Of a layered signal: which number of its layers is compared. Others have one number, so it is `mean` there.
    Reduction reduce = Reduction::mean;
    int32_t layer = 0; ///< of Reduction::layer, from 0; else 0
    /// The signal is not the registry's: whether the run has it is known when it starts (check_run_policy).
    bool published = false;

    friend bool operator==(const Trigger&, const Trigger&) = default;
};

/// At most `refreshes` automatic refreshes at boundaries in (t - per_tokens, t]. Manual ones are not counted.
struct Budget {
    std::optional<int32_t> refreshes; ///< nothing = unlimited
    int32_t per_tokens = 1000;

    friend bool operator==(const Budget&, const Budget&) = default;
};

/// When to refresh and how much to splice: data, not code. JSON form in docs/design.md, section 4:
/// {"name": "entropy", "when": {"any": [{"signal": "entropy_bits", "above": 6.0, "every": 16, "cooldown": 32}]},
///  "do": {"refresh": {"window": null, "lag": 0, "layers": "10-24", "kv_heads": "all", "parts": "values", "positions": "drift", "count": 32}},
///  "on_fire": "keep", "budget": {"refreshes": 3, "per_tokens": 1000}}
/// A schedule alone: {"at": [12, 40, 64]}. Signals of its own: "signals": [{...}] (own_signal.h); a trigger on one needs no
/// "published".
struct RefreshPolicy {
    std::string name = "none";
    Combine combine = Combine::any;
    std::vector<Trigger> triggers; ///< none enabled, and no schedule: never refreshes by itself
    /// Splice at most the newest W columns of delta; nothing = all; 0 = the teacher reads, nothing is spliced.
    std::optional<int32_t> window;
    RefreshScope scope = {}; ///< which of these entries
    /// 0: an exact refresh; the next student step waits for it. j > 0: a lagged one. It fires at boundary t. The student goes on
    /// while the teacher reads a share of delta at each boundary. At boundary t + j the splice replaces the columns that were
    /// delta at t; those written since stay. This is another algorithm with a lower spike and the same work
    /// (reference/refresh.md, section 3).
    int32_t lag = 0;
    OnFire on_fire = OnFire::keep;
    Verification verify = {}; ///< of OnFire::verify
    Budget budget;
    /// A schedule: boundaries at which a refresh is made whatever the triggers say, ascending. The budget bounds it as well.
    std::vector<int64_t> at = {};
    /// Signals of its own, which its triggers may name; those triggers are `published`.
    std::vector<OwnSignal> signals = {};

    friend bool operator==(const RefreshPolicy&, const RefreshPolicy&) = default;
};

/// Largest numbers that a policy file and the parameters accept.
namespace policy_limits {
inline constexpr int32_t every = 1'000'000, cooldown = 1'000'000, window = 1'000'000, lag = 1000,
                         step = 1'000'000, rank = 1'000'000, refreshes = 1'000'000, per_tokens = 1'000'000,
                         layer = 65'535;
inline constexpr double threshold = 1e6;
inline constexpr size_t scheduled = 100'000; ///< steps of a schedule
} // namespace policy_limits

/// Which thresholds are read. A threshold below 0 is legal (it fires at every eligible boundary) and what the program
/// wrote itself must be read again, but in a person's file it is a mistake.
enum class Thresholds : uint8_t { not_negative, any_finite };

/// Both throw Error{bad_input}, naming `what` and the field: unknown keys, unknown signal (with the nearest names), a
/// signal that cannot trigger, two triggers on one signal, verification with a lag, a reduction of a signal that is not layered, a threshold that is
/// NaN or infinite, `every` below 1, negative cool-down, window, lag, layer or budget, a schedule that does not ascend.
/// policy_from_json also refuses negative
/// thresholds unless told otherwise. Of a published signal only the form of its name is checked here.
/// A file without "name" is called "custom"; other absent keys mean the defaults above.
[[nodiscard]] RefreshPolicy policy_from_json(const nlohmann::json& json, const std::string& what,
                                             Thresholds thresholds = Thresholds::not_negative);
/// A trigger as one writes it on a line: "rise > 1.5", "top1_prob < 0.3 every 4 cooldown 16"; > and >=, < and <=. Throws Error{bad_input}.
/// \param own  signals that the policy brings along
[[nodiscard]] Trigger trigger_from_text(std::string_view text, const std::string& what,
                                        std::span<const OwnSignal> own);
/// A policy that got a trigger refreshes by itself: it is "custom" where it was called "none".
void no_longer_none(RefreshPolicy& policy);
void check_policy(const RefreshPolicy& policy, const std::string& what);
/// What can only be known when a run starts, or while it goes on: the published signals that the triggers name are in the run's
/// table and can trigger, reductions fit them, and layers are those of the model. Throws Error{bad_input} in one line.
/// \param table   Recording::signals() or signal_table()
/// \param layers  of the decoding model
void check_run_policy(const RefreshPolicy& policy, std::span<const Signal> table, int64_t layers,
                      const std::string& what);
[[nodiscard]] nlohmann::json policy_to_json(const RefreshPolicy& policy);

/// The presets: none, periodic, window, entropy, kl, burst, mc, with the defaults of reference/refresh.md, section 5; speculative,
/// entropy_stop, confidence_stop, verify_when_unsure, which verify (section 3).
struct Preset {
    std::string_view name, label, description;
};
[[nodiscard]] const std::vector<Preset>& presets();
/// Throws Error{bad_input} listing the presets.
[[nodiscard]] RefreshPolicy preset_policy(std::string_view name);
/// True when `policy` differs from the preset of its name (shown as "modified").
[[nodiscard]] bool is_modified_preset(const RefreshPolicy& policy);

[[nodiscard]] std::string_view to_string(Comparison c);
[[nodiscard]] std::string_view to_string(OnFire f);
[[nodiscard]] std::string_view to_string(VerifyRule r);
[[nodiscard]] bool verifies(const RefreshPolicy& policy);

/// Where the threshold of `top1_prob` has got to, with Verification::target.
struct ConfidenceShift {
    double acceptance = -1; ///< of the drafts so far, exponential mean; -1: there was none
    double shift = 0;       ///< added to the threshold
};
/// After a draft of which this share of the judged tokens stays: the mean moves half the way, the threshold by a tenth of 0.01, up where
/// the mean is at most the target, else down (beta_1 = 0.5, beta_2 = 0.9, epsilon = 0.01 of the source).
[[nodiscard]] ConfidenceShift adapt_confidence(const ConfidenceShift& so_far, double accepted, double target);
/// The policy with the threshold of `top1_prob` moved, within [0, 1].
[[nodiscard]] RefreshPolicy shifted_policy(RefreshPolicy policy, const ConfidenceShift& confidence);
[[nodiscard]] std::optional<OnFire> on_fire_from_string(std::string_view s);

} // namespace refreshlab
