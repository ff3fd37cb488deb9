#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace refreshlab {

/// The 256 printable characters that stand for bytes in the vocabulary of a byte-level model.
/// Source: Radford et al. 2019, bytes_to_unicode() of GPT-2's encoder.
class ByteAlphabet {
public:
    /// The character of a byte, as UTF-8.
    [[nodiscard]] static const std::string& character(uint8_t byte);
    /// The bytes that a vocabulary entry stands for; nothing when a character of it is not of the alphabet.
    [[nodiscard]] static std::optional<std::string> bytes(std::string_view entry);
};

} // namespace refreshlab
