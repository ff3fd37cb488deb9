#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace refreshlab::ui {

/// Numbers for people. No ImGui in here.

/// Three significant digits, without exponent between 0.001 and a million: "5.2", "0.0312", "1250", "1.2e-05".
/// "nan", "inf", "-inf" as such. Trailing zeros are kept only on request (columns that must not jump).
[[nodiscard]] std::string format_number(double value, bool keep_zeros = false);
/// "5.2 bits"; without the space and unit when the unit is empty.
[[nodiscard]] std::string format_value(double value, std::string_view unit);
/// A unit as it is written on the screen: "logit²" of "logit^2".
[[nodiscard]] std::string shown_unit(std::string_view unit);
/// "0.62 MB", "5.2 GB", 1 MB = 10^6 bytes.
[[nodiscard]] std::string format_bytes(int64_t bytes);
/// "7.46 M" parameters.
[[nodiscard]] std::string format_count(int64_t count);
/// The shortest text that reads back as the same double, for values that go into a command.
[[nodiscard]] std::string exact_number(double value);

} // namespace refreshlab::ui
