#pragma once

#include "engine/signals/layer_values.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace refreshlab {

/// "Not computed at this step": a NaN with a payload of its own, so that a measured NaN differs from it
/// (development/ui.md, SG8). Copying and storing keep the payload. Arithmetic does not: test before you compute.
inline constexpr uint32_t absent_bits = 0x7FC0AB5EU;
[[nodiscard]] inline float absent() {
    return std::bit_cast<float>(absent_bits);
}
[[nodiscard]] inline bool is_absent(float v) {
    return std::bit_cast<uint32_t>(v) == absent_bits;
}

/// What a signal needs to be computed, hence what it costs.
enum class SignalCost : uint8_t {
    free,         ///< computed from the row that exists anyway
    teacher_pass, ///< a teacher pass over delta (a KL probe); comes with every refresh
    mc_rows,      ///< N extra rows of the student's forward
};

/// What a value at step t speaks about.
enum class SignalAbout : uint8_t {
    next_token, ///< the row emitted after y_t was fed: the distribution of y_{t+1}
    token,      ///< the token y_t itself
    session,    ///< the state of the caches at boundary t
};

/// What a step offers to the signals. Absent parts are empty or NaN; plain numbers only.
struct SignalInputs {
    struct Row {
        double log_z, entropy_bits, top1_prob;
        bool finite;
        /// Variance of -log2 p under p, and the probability of the second likeliest token; NaN: not given.
        double varentropy_bits2 = std::numeric_limits<double>::quiet_NaN();
        double top2_prob = std::numeric_limits<double>::quiet_NaN();
    };
    struct Mc {
        double variance, variance_sd, mutual_information_bits, mean_entropy_bits, mean_entropy_sd_bits;
    };
    std::optional<Row> row; ///< the decoding model's row
    std::optional<Mc> mc;
    std::optional<double> kl_nats;         ///< KL(teacher || student) of this position's rows
    std::optional<double> acceptance;      ///< sum of min(p_T, p_S) of these rows
    std::optional<double> same_top1;       ///< 1 if these rows have one arg max, else 0
    std::optional<double> kl_mean_nats;    ///< mean of it over [P, S.len) at this boundary
    std::optional<double> logprob;         ///< ln p(y_t) under the row it was drawn from
    std::optional<double> teacher_logprob; ///< ln p_T(y_t | x, y_<t), temperature 1
    std::optional<double> teacher_agrees;  ///< 1 if the teacher's arg max is y_t, else 0
    std::optional<double> teacher_rank;    ///< place of y_t in the teacher's row for it, from 1
    std::optional<double> top1_hit;        ///< 1 if y_t is the arg max of the row it was chosen by, else 0
    std::optional<double> task_score;      ///< 1 right, 0 wrong; nothing where the task does not score y_t
    std::optional<double> drift; ///< mean over layers of (eK + eV)/2 of this position at its refresh
    std::optional<double>
        last_kl_nats; ///< kl_nats of the newest position that the teacher had read before boundary t
    std::optional<double> last_drift; ///< mean drift of the delta of the last refresh before boundary t
    /// S.len - P at boundary t, before a refresh there; negative: not defined (a back-fill of other values, a record
    /// without a boundary).
    int64_t steps_since_refresh = 0;
    /// Per layer of the decoding model: mean over the query heads of -sum a log2 a of this step's attention row; absent() in
    /// layers without. Empty: not measured.
    std::span<const float> attention_entropy_bits;
};

/// One named number per step, or per step and layer. A new signal is a new file in engine/signals/defined and one line in
/// signal_list.h; it can then be plotted, used as a trigger, coloured onto the text, exported and swept. Where other
/// signals have their number, a layered signal has the mean over its layers.
struct Signal {
    std::string_view name;        ///< snake_case, also in traces, CSV and policies
    std::string_view label;       ///< sentence case, without unit
    std::string_view unit;        ///< "bits", "nats", "logit^2", "tokens", ""
    std::string_view description; ///< one sentence: definition and source
    std::string_view cost_hint;   ///< shown beside the option; "free" or what is paid
    SignalCost cost = SignalCost::free;
    SignalAbout about = SignalAbout::next_token;
    double min = 0, max = 0; ///< usual range for sliders; max 0 = depends on the vocabulary (log2 V) or open
    double default_threshold = 0;
    char letter = 0;          ///< of refresh markers whose trigger uses it; 0 = cannot trigger
    bool back_filled = false; ///< may be written after its step's record was published
    std::string_view band;    ///< name of the signal that is its +-1 sd band, or empty
    std::optional<double> (*value)(const SignalInputs&) =
        nullptr; ///< of a layered signal: the mean over the layers
    bool layered = false;
    bool attention = false; ///< needs the attention probabilities of the step
    /// Of a layered signal: appends [layers] to `out`; nothing where the step did not measure it.
    void (*layer_values)(const SignalInputs&, std::vector<float>& out) = nullptr;
};

/// All signals, in display order. The index is the signal's id inside one process (traces use names).
[[nodiscard]] std::span<const Signal> signals();
[[nodiscard]] std::optional<size_t> signal_id(std::string_view name);
/// As signal_id, but throws Error{bad_input} naming the nearest known names.
[[nodiscard]] size_t require_signal(std::string_view name, const std::string& where);
/// The same in the table of a run (Recording::signals()), which may have more than the registry.
[[nodiscard]] std::optional<size_t> find_signal(std::span<const Signal> table, std::string_view name);
[[nodiscard]] size_t require_signal(std::span<const Signal> table, std::string_view name,
                                    const std::string& where);

inline constexpr size_t max_signals = 32; ///< room in a StepRecord

/// Fills out[id] for every signal that these inputs define; the others keep what they had.
/// \param layers  takes the values of layered signals; null: only their means are wanted
void evaluate_signals(const SignalInputs& in, std::span<float> out, LayerValues* layers = nullptr);

} // namespace refreshlab
