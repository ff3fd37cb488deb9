#include "ui/scene/axes/own_range.h"

#include "engine/base/error.h"
#include "ui/base/format.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace refreshlab::ui {

std::optional<ValueRange> own_range(const OwnRanges& ranges, std::string_view of) {
    const auto found = ranges.find(of);
    return found == ranges.end() ? std::nullopt : std::optional(found->second);
}

void set_own_range(OwnRanges& ranges, std::string_view of, const std::optional<ValueRange>& range) {
    if (!range)
        ranges.erase(std::string(of));
    else if (is_usable(*range))
        ranges.insert_or_assign(std::string(of), *range);
}

OwnRanges own_ranges(const StoredRanges& stored) {
    OwnRanges ranges;
    for (const auto& [of, ends] : stored)
        set_own_range(ranges, of, ValueRange{ends.first, ends.second});
    return ranges;
}

StoredRanges stored_ranges(const OwnRanges& ranges) {
    StoredRanges stored;
    for (const auto& [of, range] : ranges)
        stored[of] = {range.min, range.max};
    return stored;
}

bool is_usable(ValueRange range) {
    return std::isfinite(range.min) && std::isfinite(range.max) && range.max > range.min &&
           std::isfinite(range.span());
}

ValueRange moved_end(ValueRange range, RangeKind kind, RangeEnd end, double value) {
    if (!std::isfinite(value)) return range;
    constexpr double least_part = 1e-3; // of the range as it was
    const double least = least_part * range.span();
    switch (kind) {
    case RangeKind::has_signs: {
        const double size = std::max(end == RangeEnd::high ? value : -value, least / 2);
        return {-size, size};
    }
    case RangeKind::from_zero:
        return {0, std::max(end == RangeEnd::high ? value : range.max, least)};
    case RangeKind::free:
        break;
    }
    if (end == RangeEnd::high) return {range.min, std::max(value, range.min + least)};
    return {std::min(value, range.max - least), range.max};
}

ValueRange typed_end(ValueRange range, RangeKind kind, RangeEnd end, double value) {
    const ValueRange typed = kind == RangeKind::has_signs   ? ValueRange{-std::abs(value), std::abs(value)}
                             : kind == RangeKind::from_zero ? ValueRange{0, value}
                             : end == RangeEnd::low         ? ValueRange{value, range.max}
                                                            : ValueRange{range.min, value};
    if (is_usable(typed)) return typed;
    throw Error(
        "setting the colour range", format_number(value),
        kind == RangeKind::free
            ? fmt::format("the ends would be {} and {}", format_number(typed.min), format_number(typed.max))
            : std::string(kind == RangeKind::has_signs ? "leaves no range about 0"
                                                       : "leaves no range above 0"));
}

} // namespace refreshlab::ui
