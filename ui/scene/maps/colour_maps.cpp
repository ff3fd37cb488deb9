#include "ui/scene/maps/colour_maps.h"

#include "engine/base/error.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace refreshlab::ui {
namespace {

#include "ui/scene/maps/colour_tables.inc"

struct Entry {
    std::string_view name;
    std::span<const uint32_t> colours;
};
constexpr std::array<Entry, 5> entries{{{"viridis", viridis_table},
                                        {"cividis", cividis_table},
                                        {"rdbu", rdbu_table},
                                        {"rdbu_dark", rdbu_dark_table},
                                        {"greys", greys_table}}};
constexpr std::array<std::string_view, 5> entry_names{entries[0].name, entries[1].name, entries[2].name,
                                                      entries[3].name, entries[4].name};

const Entry& require_entry(std::string_view name) {
    const auto found = std::ranges::find(entries, name, &Entry::name);
    if (found == entries.end())
        throw Error("choosing a colour map", std::string(name), "no such map",
                    fmt::format("there are {}", fmt::join(entry_names, ", ")));
    return *found;
}

} // namespace

std::span<const uint32_t> colour_map(std::string_view name) {
    return require_entry(name).colours;
}

std::span<const std::string_view> colour_map_names() {
    return entry_names;
}

double ColourScale::fraction(double value) const {
    if (std::isnan(value)) return value;
    if (!(max > min)) return 0;
    if (log && min < 0) {
        const double top = std::max(-min, max), unit = top * signed_linear;
        return std::clamp(0.5 + 0.5 * std::asinh(value / unit) / std::asinh(top / unit), 0.0, 1.0);
    }
    double f = (value - min) / (max - min);
    if (log && min > 0) {
        if (value <= min) return 0; // also zero and below, which have no logarithm
        f = std::log(value / min) / std::log(max / min);
    }
    return std::clamp(f, 0.0, 1.0);
}

uint32_t ColourScale::colour(double fraction) const {
    if (std::isnan(fraction)) return nan_colour;
    const auto last = static_cast<double>(map.size() - 1);
    return map[static_cast<size_t>(std::lround(std::clamp(fraction, 0.0, 1.0) * last))];
}

double ColourScale::value_at(double fraction) const {
    if (log && min > 0 && max > min) return min * std::pow(max / min, fraction);
    if (log && min < 0) {
        const double top = std::max(-min, max), unit = top * signed_linear;
        return std::sinh((2 * fraction - 1) * std::asinh(top / unit)) * unit;
    }
    return min + fraction * (max - min);
}

std::string three_digits(double value) {
    if (value != 0 && std::isfinite(value) && std::abs(value) >= 1000 && std::abs(value) < 1e6)
        return fmt::format("{:.0f}", value);
    return fmt::format("{:.3g}", value);
}

} // namespace refreshlab::ui
