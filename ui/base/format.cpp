#include "ui/base/format.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

namespace refreshlab::ui {

std::string format_number(double value, bool keep_zeros) {
    if (std::isnan(value)) return "nan";
    if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
    if (value == 0) return keep_zeros ? "0.00" : "0";
    const double magnitude = std::abs(value);
    if (magnitude < 0.0009995 || magnitude >= 999999.5) {
        std::string text = fmt::format("{:.2e}", value);
        size_t end = text.find('e');
        const size_t exponent = end;
        while (!keep_zeros && text[end - 1] == '0')
            --end;
        if (text[end - 1] == '.') --end;
        return text.erase(end, exponent - end);
    }
    // Digits after the point so that three are significant; rounding may carry into the next decade (9.996 -> 10.0).
    int decimals = std::max(0, 2 - static_cast<int>(std::floor(std::log10(magnitude))));
    std::string text = fmt::format("{:.{}f}", value, decimals);
    const double rounded = std::abs(std::stod(text));
    const int carried = std::max(0, 2 - static_cast<int>(std::floor(std::log10(rounded))));
    if (carried < decimals) text = fmt::format("{:.{}f}", value, carried);
    if (keep_zeros || text.find('.') == std::string::npos) return text;
    while (text.back() == '0')
        text.pop_back();
    if (text.back() == '.') text.pop_back();
    return text;
}

std::string format_value(double value, std::string_view unit) {
    return unit.empty() ? format_number(value) : fmt::format("{} {}", format_number(value), shown_unit(unit));
}

std::string shown_unit(std::string_view unit) {
    std::string text(unit);
    for (const auto& [plain, raised] : {std::pair{"^2", "²"}, std::pair{"^3", "³"}})
        if (const size_t at = text.find(plain); at != std::string::npos) text.replace(at, 2, raised);
    return text;
}

namespace {
std::string with_prefix(double value, const char* const (&prefixes)[5], std::string_view unit) {
    size_t prefix = 0;
    while (std::abs(value) >= 999.5 && prefix + 1 < std::size(prefixes)) {
        value /= 1000;
        ++prefix;
    }
    return fmt::format("{} {}{}", format_number(value), prefixes[prefix], unit);
}
} // namespace

std::string format_bytes(int64_t bytes) {
    return with_prefix(static_cast<double>(bytes), {"", "k", "M", "G", "T"}, "B");
}

std::string format_count(int64_t count) {
    if (count < 1000) return fmt::format("{}", count);
    return with_prefix(static_cast<double>(count), {"", "k", "M", "G", "T"}, "");
}

std::string exact_number(double value) {
    return fmt::format("{}", value);
}

} // namespace refreshlab::ui
