#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace refreshlab {

/// Edits (insert, delete, replace, swap of neighbours; case ignored) that turn `a` into `b`: the optimal string
/// alignment distance. Cost O(|a| * |b|).
[[nodiscard]] size_t edit_distance(std::string_view a, std::string_view b);

/// The known names a person may have meant, nearest first, at most `limit`: within a third of the length of the name
/// (at least 2 edits), or with the name as a part ("entropy" of "entropy_bits"). May be empty.
[[nodiscard]] std::vector<std::string_view>
nearest_names(std::string_view name, std::span<const std::string_view> known, size_t limit = 3);

/// A hint for an error: "did you mean a or b?", or "known signals: a, b, c" when nothing is near.
/// \param kind  what the names are, in the plural: "signals"
[[nodiscard]] std::string name_hint(std::string_view name, std::span<const std::string_view> known,
                                    std::string_view kind);

} // namespace refreshlab
