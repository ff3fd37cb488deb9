#include "ui/base/value_format.h"

#include "engine/signals/registry.h"
#include "ui/base/format.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace refreshlab::ui {

std::string format_signal(float value) {
    return is_absent(value) ? "-" : format_number(static_cast<double>(value));
}

std::string format_signal(float value, std::string_view unit) {
    if (is_absent(value) || !std::isfinite(value) || unit.empty()) return format_signal(value);
    return fmt::format("{} {}", format_signal(value), shown_unit(unit));
}

std::string format_count(int64_t n, std::string_view one) {
    return fmt::format("{} {}{}", format_thousands(n), one, n == 1 ? "" : one.ends_with("sh") ? "es" : "s");
}

std::string format_thousands(int64_t value) {
    const std::string digits = fmt::format("{}", value < 0 ? -value : value);
    std::string text(value < 0 ? 1 : 0, '-');
    for (size_t i = 0; i < digits.size(); ++i) {
        if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
        text += digits[i];
    }
    return text;
}

std::string with_unit(std::string_view label, std::string_view unit) {
    return unit.empty() ? std::string(label) : fmt::format("{} ({})", label, shown_unit(unit));
}

double drag_quantum(double range, double pixels) {
    const double two_pixels = 2 * std::fabs(range) / std::max(pixels, 1.0);
    if (!(two_pixels > 0) || !std::isfinite(two_pixels)) return 1e-3;
    return std::pow(10.0, std::floor(std::log10(two_pixels)));
}

std::vector<double> value_ticks(double min, double max, int at_most) {
    std::vector<double> ticks;
    if (!(max > min) || !std::isfinite(max - min) || at_most < 1) return ticks;
    // From one decade below what could do, upward.
    const auto first = static_cast<int>(std::floor(std::log10((max - min) / at_most))) - 1;
    for (int power = first; power < first + 4; ++power) {
        for (const double digit : {1.0, 2.0, 5.0}) {
            const double step = digit * std::pow(10.0, power);
            const double low = std::ceil(min / step - 1e-9), high = std::floor(max / step + 1e-9);
            if (high - low + 1 > at_most) continue;
            for (double i = low; i <= high; ++i)
                ticks.push_back(i * step + 0.0);
            return ticks;
        }
    }
    return ticks;
}

std::string format_tick(double value, double step) {
    const double size = std::fabs(value);
    if (!(step > 0) || size < step || size / step < 100) return format_number(value);
    const auto decimals = static_cast<int>(std::ceil(-std::log10(step) - 1e-9));
    return fmt::format("{:.{}f}", value, std::clamp(decimals, 0, 9));
}

double round_to(double value, double quantum) {
    // Dividing by the inverse keeps 5.2 from becoming 5.2000000000000002 for the powers of ten below one.
    return quantum < 1 ? std::round(value / quantum) / std::round(1 / quantum)
                       : std::round(value / quantum) * quantum;
}

} // namespace refreshlab::ui
