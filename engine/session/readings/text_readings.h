#pragma once

#include "engine/cache/kv_cache.h"
#include "engine/landscape/landscape.h"
#include "engine/model/llama_model.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace refreshlab {

/// What a model's rows say of a given text: one number for each of y_2 .. y_N. y_1 is drawn from the prefill's row, by whoever
/// makes it, and would compare prompts instead of caches. A number has the bits that a session records for it (CPU).
struct TextNumbers {
    std::vector<float> logprob;      ///< ln p of the token, nats
    std::vector<float> entropy_bits; ///< of the row
    std::vector<float> kl_nats, acceptance,
        same_top1; ///< against the teacher's row of the place; empty for the teacher

    [[nodiscard]] double nll() const; ///< mean of -logprob, nats a token
};

struct ModelPair;

/// A given text as the teacher reads it, once: its cache over prompt and text, and its rows.
class TeacherText {
public:
    /// Throws Error{bad_input}: an empty prompt, fewer than three tokens, beyond the context, ids outside the vocabulary.
    /// Cost: one prefill; keeps (N - 1) * vocab fp32 on the host.
    TeacherText(const LlamaModel& teacher, std::vector<int32_t> prompt, std::vector<int32_t> text);
    /// The same, for the pair's student: cache() is what it can read, mapped where the pair has a bridge.
    TeacherText(const ModelPair& pair, std::vector<int32_t> prompt, std::vector<int32_t> text);

    [[nodiscard]] const std::vector<int32_t>& prompt() const { return m_prompt; }           ///< L ids
    [[nodiscard]] const std::vector<int32_t>& text() const { return m_text; }               ///< y_1 .. y_N
    [[nodiscard]] int64_t steps() const { return static_cast<int64_t>(m_text.size()) - 1; } ///< N - 1
    [[nodiscard]] const TextNumbers& numbers() const { return m_numbers; }
    [[nodiscard]] const KvCache& cache() const { return *m_cache; } ///< columns of x and of y_1 .. y_{N-1}
    [[nodiscard]] const at::Tensor& rows() const { return m_rows; } ///< [N - 1, vocab] fp32, host
    [[nodiscard]] float first_logprob() const { return m_first; }   ///< of y_1

private:
    std::vector<int32_t> m_prompt, m_text;
    std::unique_ptr<KvCache> m_cache;
    at::Tensor m_rows;
    TextNumbers m_numbers;
    float m_first = 0;
};

/// A student on such a text, with refreshes at any boundaries, without decoding it token by token. On a given text a refresh
/// erases history, so what stands between two refreshes depends on the teacher's columns before it and on nothing else: all rows
/// of a text go through the student in a few forwards, each row with the teacher's columns up to its last refresh and a tail of
/// the student's own behind them (AttentionInputs::tails).
///
/// Threads  one; under the ExecutionScope of the caller.
/// Memory   twice the text's columns.
class StudentReadings {
public:
    /// Both outlive this. One KV geometry, one vocabulary                                              (asserted)
    StudentReadings(const LlamaModel& student, const TeacherText& text);

    /// On the teacher's prompt cache, refreshed at these boundaries, ascending, each in 1 .. N - 2       (asserted)
    /// Cost: N - 1 rows of the student.
    [[nodiscard]] TextNumbers refreshed(std::span<const int64_t> boundaries);
    /// Boundaries R, 2 R, ... below N - 1: where a periodic policy refreshes.
    [[nodiscard]] std::vector<int64_t> every(int64_t period) const;
    /// The student reads prompt and text by itself.
    [[nodiscard]] TextNumbers alone();

    struct Gate {
        double threshold = 0; ///< bits
        std::vector<int64_t> boundaries;
        TextNumbers numbers;
    };
    /// An entropy gate at every token, without a cool-down, whose threshold is set on this text so that it makes as nearly
    /// `refreshes` refreshes as any threshold that was tried. Refreshes are those of a session with this policy, exactly: the
    /// planner decides (walk_policy()), on rows that are computed where a walk comes by.
    /// \param guess  entropies of rows on this text, bits: thresholds are taken from them; not empty      (asserted)
    /// Cost: some 4 to 8 times N rows.
    [[nodiscard]] Gate entropy_gate(int64_t refreshes, std::span<const float> guess);

private:
    struct Stand;
    [[nodiscard]] TextNumbers rows(std::span<const Stand> stands, bool compare);
    [[nodiscard]] std::vector<int64_t> walk(double threshold);
    void compute_row(int64_t boundary, int64_t steps);

    const LlamaModel& m_student;
    const TeacherText& m_text;
    std::unique_ptr<KvCache> m_cache; ///< the teacher's columns; scratch behind them
    Landscape m_cells;                ///< rows that a gate came by, NaN where they were not needed
    std::vector<int64_t> m_computed;  ///< [rows]: steps of each that are computed
};

} // namespace refreshlab
