#pragma once

#include "ui/base/colour.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace refreshlab::ui {

/// A whole PNG file, RGBA. \param rgba  [height][width], 0xAABBGGRR
[[nodiscard]] std::string png_bytes(int64_t width, int64_t height, std::span<const uint32_t> rgba);

/// The same text as characters that a file may hold: U+FFFD where bytes are no UTF-8, and for controls.
[[nodiscard]] std::string drawable_text(std::string_view bytes);

} // namespace refreshlab::ui
