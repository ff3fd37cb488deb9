#pragma once

#include <array>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace refreshlab {

inline constexpr size_t num_attributes = 3;
/// Heads of the lists in a text, in the order of Almanac's words.
inline constexpr std::array<std::string_view, num_attributes> attribute_heads{"Homes", "Colors", "Animals"};

/// Facts about made-up names: home, colour, animal.
using Almanac = std::map<std::string, std::array<std::string, num_attributes>, std::less<>>;

/// {"Ashute": {"home": "farm", "colour": "wooden", "animal": "bear"}, ...}. Throws Error{bad_input}.
[[nodiscard]] Almanac read_almanac(const std::filesystem::path& file);

} // namespace refreshlab
