#pragma once

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace refreshlab {

/// How a student is made of its teacher's own weights: the tokenizer and the KV geometry stay the teacher's, so entries can be
/// spliced. The parts may be combined freely. They act in this order: `ffn`, `noise`, `bits`, the sublayers left out.
///
/// bits     every weight matrix of the layers is rounded to the nearest of 2^bits values between minimum and maximum of each
///          group of `group` neighbouring inputs. Scale and minimum of a group are f16 numbers, as a file would store them.
///          `symmetric`: between -max and max, without a minimum, 2^bits - 1 values. Embedding, head, norms and biases stay.
/// ffn      share of the MLP channels that is kept, the same number in every layer (in whole groups where `bits` rounds the
///          MLP): those with the largest norm of their activation, each row of it scaled to length 1, times the norm of
///          their column of down_proj. Source: GRIFFIN (Dong et al. 2024); the second factor as in Wanda (Sun et al. 2023).
/// skip     sublayers that add nothing to the residual. A skipped attention still writes its K and V. Source: Draft & Verify
///          (Zhang et al. 2023). `skip_auto` more are chosen greedily: each time the one whose loss costs the least KL.
/// noise    each weight gets noise * (root mean square of its matrix) * a standard normal number.
/// only     the matrices that `bits` and `noise` touch.
/// text     UTF-8 file on which `ffn` and `skip_auto` measure; empty: the prompt of the run, as the teacher reads it.
///
/// Plain data. Two forms: "bits=3,group=32" (short) and JSON of the same names.
struct DeriveSpec {
    enum class Only : uint8_t { all, mlp, attention };

    int32_t bits = 0; ///< min_bits..max_bits; 0: no rounding
    int32_t group = 32;
    bool symmetric = false;
    Only only = Only::all;
    double ffn = 1;                                ///< in (0, 1]; 1: all channels
    std::vector<int32_t> skip_attention, skip_mlp; ///< layers from 0, ascending, each once
    int32_t skip_auto = 0;
    double noise = 0;  ///< in [0, max_noise]
    uint64_t seed = 0; ///< of the noise
    std::string text;

    static constexpr int32_t min_bits = 2, max_bits = 8, max_group = 1 << 16, max_layer = 4095,
                             max_skips = 4096;
    static constexpr double max_noise = 10;

    /// Something has to be measured on a text before the student can be made.
    [[nodiscard]] bool measures() const { return ffn < 1 || skip_auto > 0; }
    /// Another prompt makes another student.
    [[nodiscard]] bool depends_on_prompt() const { return measures() && text.empty(); }
    [[nodiscard]] bool rounds_mlp() const { return bits > 0 && only != Only::attention; }
    [[nodiscard]] bool rounds_attention() const { return bits > 0 && only != Only::mlp; }

    friend bool operator==(const DeriveSpec&, const DeriveSpec&) = default;
};

/// What a derivation has to know of a model.
struct ModelShape {
    int64_t layers = 0, hidden = 0, intermediate = 0, heads = 0, kv_heads = 0, head_dim = 0, vocab = 0;
};

/// The first thing that is wrong with a derivation.
struct DeriveFault {
    std::string field;   ///< "bits", "group", "ffn", "skip_attention", ...: the name of the part
    std::string problem; ///< "must be a whole number from 2 to 8, not 9"
};
/// \param teacher  null: only what is wrong with every teacher
[[nodiscard]] std::optional<DeriveFault> derive_fault(const DeriveSpec& spec,
                                                      const ModelShape* teacher = nullptr);
/// Throws Error{bad_input} with derive_fault() in it.
void check_derive(const DeriveSpec& spec, const ModelShape* teacher = nullptr);

/// Whether a model path is no path but a derivation: "derive:SPEC".
[[nodiscard]] bool is_derivation(std::string_view model);
/// The derivation that stands in the place of a student's path. Throws Error{bad_input}; is_derivation(model) (asserted).
[[nodiscard]] DeriveSpec derivation_of(std::string_view model);
/// What a person typed, as it is kept: FILE.json of "derive:FILE.json" read, `text` an absolute path, the short form. What is no
/// derivation stays as it is. Throws Error{bad_input}.
/// \param find  where a file of that name lies; null: as the name says, from the current folder
[[nodiscard]] std::string settled_model(const std::string& model,
                                        const std::function<std::string(const std::string& file)>& find = {});
/// The path that stands for a derivation: "derive:" and derive_text().
[[nodiscard]] std::string derivation_path(const DeriveSpec& spec);

/// Parts in any order, separated by commas: bits=N, group=G, only=mlp|attention, symmetric, ffn=RATIO, skip_attention=LIST,
/// skip_mlp=LIST, skip=auto:N, noise=SIGMA, seed=S, text=FILE. A LIST is layers and ranges joined by + (3+5+8-11); a FILE with a
/// comma in its name stands in double quotes. Throws Error{bad_input} naming the part; what it gives passes derive_fault().
[[nodiscard]] DeriveSpec parse_derive(std::string_view text);
/// The one short form of a derivation, without what is left at its default; "" for one that changes nothing.
[[nodiscard]] std::string derive_text(const DeriveSpec& spec);
/// {"bits": 3, "group": 32, "skip_mlp": [3, 5], "skip_auto": 2, ...}. \param what  for messages
[[nodiscard]] DeriveSpec derive_from_json(const nlohmann::json& json, const std::string& what);
[[nodiscard]] nlohmann::json derive_to_json(const DeriveSpec& spec);

/// "3-bit g32", "FFN 50 % + noise 0.02": what stands in the pair's name.
[[nodiscard]] std::string derive_name(const DeriveSpec& spec);
/// "weights of all layers rounded to 3 bits in groups of 32; 50 % of the MLP channels kept": one line for people.
[[nodiscard]] std::string describe(const DeriveSpec& spec);

/// "SmolLM2-135M-Instruct Q4_1", "3-bit g32": what a person calls the model at a path or of a derivation.
[[nodiscard]] std::string shown_model(const std::string& model);
/// "SmolLM2-135M-Instruct Q4_1 > 3-bit g32"; one name where the other is missing.
[[nodiscard]] std::string pair_name(const std::string& teacher, const std::string& student);

/// MLP channels that a derivation keeps of `intermediate`.
[[nodiscard]] int64_t kept_channels(const DeriveSpec& spec, int64_t intermediate);

/// What one token has to read and what the student holds, in bytes. Computed, not measured: nothing runs faster here for it.
struct DeriveCost {
    /// Of weights that one decode step reads: rounded matrices at their bits with scale and minimum in f16, all others in 16
    /// bits; the head whole, one row of the embedding. Sublayers that skip_auto will choose count as read.
    int64_t token_bytes = 0;
    int64_t teacher_token_bytes = 0; ///< the same of the teacher, all in 16 bits
    int64_t own_bytes = 0; ///< of tensors that the student does not share with its teacher, in memory
};
/// \param element_bytes  of the dtype in which weights are held: 4 or 2
[[nodiscard]] DeriveCost derive_cost(const DeriveSpec& spec, const ModelShape& teacher,
                                     int64_t element_bytes);

/// What came of a derivation.
struct DerivedFacts {
    DeriveSpec spec;                               ///< as asked for
    std::vector<int32_t> skip_attention, skip_mlp; ///< all that are left out, those that skip_auto chose too
    int64_t own_bytes = 0, shared_bytes = 0; ///< of its tensors: made for it; the teacher's own, held once
    int64_t token_bytes = 0;                 ///< as DeriveCost
    int64_t teacher_token_bytes = 0;
    int64_t changed_tensors = 0; ///< that differ from the teacher's
    /// Every weight and every sublayer is the teacher's: a refresh changes nothing.
    [[nodiscard]] bool is_teacher() const {
        return changed_tensors == 0 && skip_attention.empty() && skip_mlp.empty();
    }
    friend bool operator==(const DerivedFacts&, const DerivedFacts&) = default;
};
[[nodiscard]] nlohmann::json to_json(const DerivedFacts& facts);
/// Reads what to_json() writes. Throws Error{bad_input} naming `what` and the key.
[[nodiscard]] DerivedFacts derived_facts_from_json(const nlohmann::json& json, const std::string& what);

} // namespace refreshlab
