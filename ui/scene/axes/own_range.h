#pragma once

#include "ui/scene/axes/auto_range.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace refreshlab::ui {

/// Ranges of colours that a person chose, by a name of what is coloured: a signal, a quantity.
using OwnRanges = std::map<std::string, ValueRange, std::less<>>;
[[nodiscard]] std::optional<ValueRange> own_range(const OwnRanges& ranges, std::string_view of);
/// Nothing gives the automatic range back; what is no range changes nothing.
void set_own_range(OwnRanges& ranges, std::string_view of, const std::optional<ValueRange>& range);

/// As a settings file has them: low and high by name. What is no range is left out.
using StoredRanges = std::map<std::string, std::pair<double, double>>;
[[nodiscard]] OwnRanges own_ranges(const StoredRanges& stored);
[[nodiscard]] StoredRanges stored_ranges(const OwnRanges& ranges);

/// A range can hold colours: finite numbers, the first below the second.
[[nodiscard]] bool is_usable(ValueRange range);

/// Which end of a range a person may move by itself.
enum class RangeKind : uint8_t {
    free,      ///< both
    has_signs, ///< the range is even about 0: both go together
    from_zero, ///< the low one follows from the high one: 0, or what a logarithmic scale still shows
};
enum class RangeEnd : uint8_t { low, high };
/// The range with one end at `value`. An end that would meet or pass the other one (with signs, from 0: 0) stays just before it.
[[nodiscard]] ValueRange moved_end(ValueRange range, RangeKind kind, RangeEnd end, double value);
/// The range after a person typed an end. Throws Error{bad_input} where the number leaves no range.
[[nodiscard]] ValueRange typed_end(ValueRange range, RangeKind kind, RangeEnd end, double value);

} // namespace refreshlab::ui
