#pragma once

#include "engine/signals/registry.h"

#include <cstdint>
#include <optional>
#include <span>

namespace refreshlab::ui {

struct ValueRange {
    double min = 0, max = 1;
    [[nodiscard]] double span() const { return max - min; }
    friend bool operator==(const ValueRange&, const ValueRange&) = default;
};

/// The y range of a plot: data and thresholds with some room, rounded outward to round numbers so that it does not
/// change with every step. A threshold more than 3 data ranges away from the data stays outside (its tag then sits at
/// the edge).
/// \param data        finite extent in sight; nothing = no data: the thresholds and `usual` alone
/// \param thresholds  finite ones count
/// \param usual       the signal's usual range; its minimum is kept when the data does not go below
[[nodiscard]] ValueRange auto_range(std::optional<ValueRange> data, std::span<const double> thresholds,
                                    ValueRange usual);

/// The same on a logarithmic axis: what is above 0 with some room, rounded outward to 1, 2 or 5 times a power of ten, to whole
/// decades where there are more than three; distances are ratios. No more than 12 decades below the largest value.
/// \param data        extent of the values above 0 in sight; nothing = there are none
/// \param thresholds  those above 0 count
[[nodiscard]] ValueRange log_auto_range(std::optional<ValueRange> data, std::span<const double> thresholds,
                                        ValueRange usual);

/// The usual range of a signal: the registry's, log2 V bits where it depends on the vocabulary.
[[nodiscard]] ValueRange usual_range(const Signal& signal, int64_t vocab_size);

/// Smallest of 1, 1.5, 2, 2.5, 3, 4, 5, 6, 8 times a power of ten that is not below value (> 0).
[[nodiscard]] double round_up_nice(double value);

/// The top of an axis of counts: a round number with some room above the largest count; on a logarithmic axis a power of ten, or
/// 2 or 5 times one, so that its label is the axis' end.
[[nodiscard]] double count_top(double largest, bool logarithmic);

/// A range for colours: widens at once, narrows only when asked (a live map must not flicker).
class ColourRange {
public:
    void include(double value); ///< non-finite values are ignored
    void reset() { m_any = false; }
    [[nodiscard]] ValueRange range() const; ///< rounded outward; 0 .. 1 before the first value
private:
    bool m_any = false;
    double m_min = 0, m_max = 0;
};

} // namespace refreshlab::ui
