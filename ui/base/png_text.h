#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace refreshlab::ui {

/// CRC-32 of PNG chunks (ISO 3309; PNG specification 3rd edition, annex D).
[[nodiscard]] uint32_t png_crc(std::string_view bytes);

/// A copy of `png` with one more text, an uncompressed iTXt chunk in front of the last chunk (IEND). So a picture keeps
/// where it comes from (run, command line, policy, seed, version).
/// \param png      a whole PNG file, else Error{failure}
/// \param keyword  1-79 Latin-1 characters without leading, trailing or double spaces                     (asserted)
/// \param text     UTF-8
[[nodiscard]] std::string with_png_text(std::string_view png, std::string_view keyword,
                                        std::string_view text);

/// The text under `keyword`, from an uncompressed iTXt chunk; nothing if there is none or its CRC is wrong.
[[nodiscard]] std::optional<std::string> png_text(std::string_view png, std::string_view keyword);

} // namespace refreshlab::ui
