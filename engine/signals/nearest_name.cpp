#include "engine/signals/nearest_name.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <utility>

namespace refreshlab {

namespace {

char lower(char c) {
    return static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
}

/// Longer names are never a slip of one of ours, and the distance is quadratic.
constexpr size_t max_compared = 64;

} // namespace

size_t edit_distance(std::string_view a, std::string_view b) {
    // Three rows of the table: a swap looks two rows back.
    std::vector<size_t> before_last(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
    for (size_t j = 0; j <= b.size(); ++j)
        row[j] = j;
    for (size_t i = 1; i <= a.size(); ++i) {
        std::swap(before_last, last);
        std::swap(last, row);
        row[0] = i;
        for (size_t j = 1; j <= b.size(); ++j) {
            const bool equal = lower(a[i - 1]) == lower(b[j - 1]);
            row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (equal ? 0 : 1)});
            if (i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) && lower(a[i - 2]) == lower(b[j - 1])) {
                row[j] = std::min(row[j], before_last[j - 2] + 1);
            }
        }
    }
    return row[b.size()];
}

std::vector<std::string_view> nearest_names(std::string_view name, std::span<const std::string_view> known,
                                            size_t limit) {
    if (name.empty() || name.size() > max_compared) return {};
    std::vector<std::pair<size_t, std::string_view>> near;
    const size_t reach = std::max<size_t>(2, name.size() / 3);
    for (const std::string_view candidate : known) {
        size_t distance = edit_distance(name, candidate);
        const bool part = name.size() >= 3 && candidate.find(name) != std::string_view::npos;
        // A part of the name is a likelier meaning than as many edits would make it.
        if (part) distance = std::min(distance, reach);
        if (distance <= reach) near.emplace_back(distance, candidate);
    }
    std::stable_sort(near.begin(), near.end(),
                     [](const auto& x, const auto& y) { return x.first < y.first; });
    std::vector<std::string_view> names;
    for (size_t i = 0; i < std::min(limit, near.size()); ++i)
        names.push_back(near[i].second);
    return names;
}

std::string name_hint(std::string_view name, std::span<const std::string_view> known, std::string_view kind) {
    const std::vector<std::string_view> near = nearest_names(name, known);
    if (!near.empty()) return fmt::format("did you mean {}?", fmt::join(near, " or "));
    return fmt::format("known {}: {}", kind, fmt::join(known, ", "));
}

} // namespace refreshlab
