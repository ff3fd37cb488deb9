#include "engine/base/bytes_text.h"

#include <fmt/format.h>

#include <array>

namespace refreshlab {

std::string bytes_text(int64_t bytes) {
    constexpr std::array<const char*, 5> units = {"kB", "MB", "GB", "TB", "PB"};
    if (bytes < 1000) return fmt::format("{} B", bytes);
    double value = static_cast<double>(bytes) / 1000.0;
    size_t unit = 0;
    while (value >= 999.95 && unit + 1 < units.size()) {
        value /= 1000.0;
        ++unit;
    }
    return fmt::format("{:.1f} {}", value, units[unit]);
}

} // namespace refreshlab
