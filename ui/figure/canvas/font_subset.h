#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>

namespace refreshlab::ui {

/// A TrueType font with the glyphs of some characters alone, for a figure that carries its font. Characters that the font lacks
/// are left out. Empty where the font cannot be reduced.
[[nodiscard]] std::string font_subset(const std::string& font, const std::set<uint32_t>& characters);

/// RFC 4648, with padding.
[[nodiscard]] std::string base64(std::string_view bytes);

} // namespace refreshlab::ui
