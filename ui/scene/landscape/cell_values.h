#pragma once

#include "engine/landscape/landscape.h"
#include "engine/landscape/objective.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace refreshlab::ui {

/// What the picture of a landscape shows in a cell.
struct CellValue {
    enum class Kind : uint8_t {
        above_teacher, ///< the cell's cost above the teacher's: of the loss -ln p_S + ln p_T of the token that the row predicts
        loss,   ///< -ln p_S, whatever schedules are judged by
        gain,   ///< what a refresh at the cell's step saves over the steps that follow, refresh_gain()
        signal, ///< one of the landscape's values
    };
    Kind kind = Kind::above_teacher;
    std::string signal;                    ///< of Kind::signal
    Objective objective = Objective::loss; ///< of above_teacher and gain; of the others the loss

    friend bool operator==(const CellValue&, const CellValue&) = default;
};

/// What this landscape can show under an objective: the cost, the gain, the loss, then its values.
[[nodiscard]] std::vector<CellValue> cell_values(const Landscape& landscape, Objective objective);
/// "Loss above the teacher". Under tokens_a_pass a cell's cost is the chance that the draft has ended.
[[nodiscard]] std::string label_of(const CellValue& value);
[[nodiscard]] std::string unit_of(const CellValue& value); ///< "nats"
/// Amounts on both sides of 0 that mean opposite things: a gain, and the loss above the teacher, which is below it on a text that the
/// student wrote by itself.
[[nodiscard]] bool is_signed(const CellValue& value);

/// Steps behind a refresh over which a gain is summed: long enough for what a refresh changes, short enough that the next one is
/// not counted in. That of `fit-gate`.
inline constexpr int64_t gain_horizon = 32;

/// The picture's rows, one at a time. A row that was not computed is drawn as the computed one above it, as long as that is no
/// further away than rows usually are from each other; below it is absent.
/// Threads  reads an immutable landscape; any thread.
class CellRows {
public:
    CellRows(std::shared_ptr<const Landscape> landscape, CellValue value);

    [[nodiscard]] int64_t size() const { return m_landscape->num_rows(); } ///< rows, and columns
    /// Column c is step c + 1; columns below j are outside (absent).
    /// \param out  size() values
    void read(int64_t j, std::vector<float>& out) const;

private:
    void read_costs(int64_t j, int64_t row, std::vector<float>& out) const;
    void read_gain(int64_t j, int64_t row, std::vector<float>& out) const;
    /// Of a row, by step; nothing at and below its own.
    [[nodiscard]] std::vector<double> costs_of(int64_t row) const;

    std::shared_ptr<const Landscape> m_landscape;
    CellValue m_value;
    size_t m_plane = 0;           ///< of Kind::signal
    std::vector<int64_t> m_shown; ///< by row: the computed row that stands for it; -1 = none
    std::vector<double>
        m_after_refresh; ///< of Kind::gain, by row: its costs over the horizon; NaN where it is not computed
};

} // namespace refreshlab::ui
