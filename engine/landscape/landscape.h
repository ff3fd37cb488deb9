#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace refreshlab {

/// MC dropout of a landscape's cells: the same rows as a session measures them with this seed.
struct LandscapeMc {
    int32_t samples = 0; ///< rows a cell; 0: no value needs them
    float p = 0;
    uint64_t seed = 0;
    bool residual = false; ///< also on the branches' outputs (McRequest)

    friend bool operator==(const LandscapeMc&, const LandscapeMc&) = default;
};

/// What a landscape is of, and what it measures. Plain data, set before the first row.
struct LandscapeInfo {
    std::vector<int32_t> prompt_ids; ///< x, L of them
    std::vector<int32_t> tokens;     ///< y_1 .. y_N, N >= 2
    /// What every cell holds: names of the signal registry, `logprob` first, each once. Where a signal speaks of a token
    /// (SignalAbout::token) the cell of step i has what it says of y_{i+1}: the token that the cell's row predicts.
    std::vector<std::string> values{"logprob"};
    std::vector<float> teacher_logprob; ///< [N]: ln p_T of y_1, y_2, ...; the same whatever was refreshed
    std::string teacher, student;       ///< digests of the models; empty: not known
    std::string device, dtype, kernel_set;
    LandscapeMc mc;
    /// Student rows that a session keeps for the KL of a later teacher pass: an older row leaves its KL missing there, so a
    /// policy that is walked here must not see it either.
    int64_t kept_rows = 256;

    friend bool operator==(const LandscapeInfo&, const LandscapeInfo&) = default;
};

/// One row: the last refresh was at boundary `row` (0: none, the prompt's hand-over).
struct LandscapeRow {
    int64_t row = 0;
    /// [values][N - 1 - row]: the cells of steps row + 1 .. N - 1.
    std::vector<std::vector<float>> planes;
};

/// What every possible refresh is worth on a given text: row j is the last refresh, column i is step i, and cell (j, i) holds
/// what the student's row of step i says when columns [0, L + j) are the teacher's and the rest it wrote itself. A refresh with
/// unlimited window and no lag erases history, so any policy on this text is a staircase through these cells.
///
/// It is of one text: another refresh in a free run would have written another text.
///
/// Rows may be missing: a coarse landscape has every s-th one. Row 0 comes first.
/// Threads  immutable once shared; a copy shares its rows, so a finer landscape is a cheap copy with more rows.
/// Memory   4 B a value and cell, N^2 / 2 cells when every row is there.
class Landscape {
public:
    /// Throws Error{bad_input}: fewer than two tokens, values that are no signals or not one per name.
    explicit Landscape(LandscapeInfo info);

    [[nodiscard]] const LandscapeInfo& info() const { return m_info; }
    [[nodiscard]] int64_t num_tokens() const { return static_cast<int64_t>(m_info.tokens.size()); } ///< N
    [[nodiscard]] int64_t num_steps() const { return num_tokens() - 1; } ///< columns 1 .. N - 1
    /// Rows that a landscape of this text can have: boundaries 0 .. N - 2.
    [[nodiscard]] int64_t num_rows() const { return num_tokens() - 1; }
    [[nodiscard]] bool has_row(int64_t j) const { return m_rows[static_cast<size_t>(j)] != nullptr; }
    [[nodiscard]] std::vector<int64_t> rows() const; ///< those that are there, ascending
    [[nodiscard]] bool complete() const { return m_present == num_rows(); }
    /// The computed row that stands nearest below boundary j, j included: what a coarse landscape shows there.
    [[nodiscard]] int64_t row_at_or_below(int64_t j) const;

    /// Index of a value, or nothing where the landscape does not hold it.
    [[nodiscard]] std::optional<size_t> value_index(std::string_view name) const;
    /// Cells of steps j + 1 .. N - 1. The row is there                                              (asserted)
    [[nodiscard]] std::span<const float> plane(size_t value, int64_t j) const;
    [[nodiscard]] float cell(size_t value, int64_t j, int64_t step) const;
    /// -ln p_S(y_{i+1}) of row j at step i, nats; infinite where the model's row was not finite.
    [[nodiscard]] double loss(int64_t j, int64_t step) const;
    /// The same of the teacher, which no refresh changes.
    [[nodiscard]] double teacher_loss(int64_t step) const;
    /// Mean loss in nats over y_2 .. y_N of the teacher, and of the student without any refresh (row 0).
    [[nodiscard]] double mean_teacher_loss() const;
    [[nodiscard]] double mean_loss_without_refresh() const;

    /// Adds or replaces a row. Its planes fit the landscape                                          (asserted)
    void put_row(std::shared_ptr<const LandscapeRow> row);
    [[nodiscard]] std::shared_ptr<const LandscapeRow> row(int64_t j) const {
        return m_rows[static_cast<size_t>(j)];
    }
    [[nodiscard]] size_t bytes() const; ///< of the cells that are there

private:
    LandscapeInfo m_info;
    std::vector<std::shared_ptr<const LandscapeRow>> m_rows; ///< [num_rows()]; null where missing
    int64_t m_present = 0;
};

/// True where a value needs MC rows, which multiply a landscape's cost by 1 + samples.
[[nodiscard]] bool needs_mc(std::span<const std::string> values);
/// Why a signal cannot be a value of a landscape; empty where it can.
[[nodiscard]] std::string why_no_landscape_value(std::string_view signal);
/// What a landscape holds unless told otherwise: what the student's row says by itself, and KL and acceptance beside the
/// teacher's, from which every objective is read.
[[nodiscard]] std::vector<std::string> default_landscape_values();
/// `logprob` and then `wanted` ("a,b,c"; empty: the defaults), each once. Throws Error{bad_input} naming the nearest signals, or
/// why the signal is no value of a cell.
[[nodiscard]] std::vector<std::string> landscape_values(std::string_view wanted);

/// How far the rows that are computed first stand apart: 32, in a long text so far that some twenty of them go over all of it.
[[nodiscard]] int64_t coarsest_stride(int64_t num_rows);
/// The order in which rows are computed: every coarsest_stride()-th, then those half way between, and so on down to every
/// `every`-th. So a person sees the whole triangle early. Each list is ascending; together they have each row once.
[[nodiscard]] std::vector<std::vector<int64_t>> landscape_levels(int64_t num_rows, int64_t every);

} // namespace refreshlab
