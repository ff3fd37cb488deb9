#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace refreshlab::ui {

// Numbers beside plots and tokens, on top of ui/base/format.h. No ImGui in here.

/// A signal's value as recorded, three significant digits: "5.2"; not measured is "-", a measured NaN "nan".
[[nodiscard]] std::string format_signal(float value);
/// "5.2 bits"; the unit only where there is a number.
[[nodiscard]] std::string format_signal(float value, std::string_view unit);
/// "12,300".
[[nodiscard]] std::string format_thousands(int64_t value);
/// "1 step", "12,300 refreshes". \param one  an English noun whose plural has s, or es after sh
[[nodiscard]] std::string format_count(int64_t n, std::string_view one);
/// "Entropy (bits)", "Top-1 probability".
[[nodiscard]] std::string with_unit(std::string_view label, std::string_view unit);

/// The step of a dragged value whose `range` covers `pixels`: a power of ten, not larger than two pixels, so that the
/// mouse reaches round numbers.
[[nodiscard]] double drag_quantum(double range, double pixels);
/// Round numbers within [min, max], 1, 2 or 5 times a power of ten apart, no more than fit; ascending. Empty for an empty
/// or infinite range.
[[nodiscard]] std::vector<double> value_ticks(double min, double max, int at_most);
/// A tick's label: three digits, or as many more as neighbours that are `step` apart need to differ.
[[nodiscard]] std::string format_tick(double value, double step);
[[nodiscard]] double round_to(double value, double quantum);

} // namespace refreshlab::ui
