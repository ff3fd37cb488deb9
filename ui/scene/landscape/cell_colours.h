#pragma once

#include "ui/scene/axes/own_range.h"
#include "ui/scene/landscape/cell_values.h"

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace refreshlab::ui {

/// How the finite values of a picture's cells are spread.
/// Threads  immutable once made; any thread.
class CellSpread {
public:
    CellSpread() = default; ///< no cells
    /// \param sample  finite values of cells, as they stand for all \param extent  least and largest of all, not of the sample alone
    CellSpread(std::vector<float> sample, ValueRange extent);

    [[nodiscard]] bool any() const { return !m_values.empty(); }
    [[nodiscard]] ValueRange extent() const { return m_extent; } ///< 0 .. 0 where there is none
    /// Value below which this share of the cells lies, 0 .. 1; 0 where there is none.
    [[nodiscard]] double at(double share) const;
    /// The same of their distances from 0.
    [[nodiscard]] double size_at(double share) const;
    /// Mean of the values, and of their distances from 0, without what the largest and the smallest twentieth have beyond the others.
    [[nodiscard]] double mean() const { return m_mean; }
    [[nodiscard]] double mean_size() const { return m_mean_size; }
    /// Share of the cells in the range, both ends included; 1 where there is none.
    [[nodiscard]] double within(ValueRange range) const;

private:
    std::vector<double> m_values, m_sizes; ///< sorted
    ValueRange m_extent{0, 0};
    double m_mean = 0, m_mean_size = 0;
};

/// The values that a picture's colours tell apart; those beyond an end have its colour.
struct CellColours {
    ValueRange range;
    bool has_signs = false;            ///< the range is even about 0, for a map with two arms
    bool own = false;                  ///< a person chose the range
    double within = 1;                 ///< share of the cells that are known and lie in it
    bool below = false, above = false; ///< there are cells beyond that end
    friend bool operator==(const CellColours&, const CellColours&) = default;
};

/// By itself a range ends where one cell in twenty lies beyond, or at three times the mean, if that is nearer; but it holds 85 % at an end. On real texts one token in
/// ten is lost altogether, ten nats in a whole column, and the others differ by some tenths: a range for all would show the former alone.
/// Where the values are spread evenly, or as a bell, the first rule holds.
/// \param own  a range of one's own; of values with signs the end that is farther from 0 holds for both
[[nodiscard]] CellColours cell_colours(const CellValue& value, const CellSpread& spread,
                                       const std::optional<ValueRange>& own);

/// "95 % of cells within ±0.9", "all cells within 0 to 4.5".
[[nodiscard]] std::string words_of(const CellColours& colours);

/// What the picture of a landscape shows and with which colours, as a person chose it: on screen and on paper.
struct CellChoice {
    CellValue value;  ///< its objective is the view's, see under()
    OwnRanges ranges; ///< by key_of()
    /// The value as it is shown under an objective.
    [[nodiscard]] CellValue under(Objective objective) const;
    [[nodiscard]] std::optional<ValueRange> own_range(Objective objective) const;
    /// Nothing gives the automatic one back.
    void set_own_range(Objective objective, const std::optional<ValueRange>& range);
    friend bool operator==(const CellChoice&, const CellChoice&) = default;
};
/// "loss_above_teacher", "gain", ..., or the signal's name: in the settings file. Under another objective than the loss "kl", "kl_gain", ...
[[nodiscard]] std::string key_of(const CellValue& value);
/// Of a value under the loss. Nothing where the key is empty. A name that no landscape holds is not known here.
[[nodiscard]] std::optional<CellValue> cell_value_of(std::string_view key);

} // namespace refreshlab::ui
