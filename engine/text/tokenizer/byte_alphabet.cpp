#include "engine/text/tokenizer/byte_alphabet.h"

#include "engine/text/utf8.h"

namespace refreshlab {

namespace {

struct Tables {
    std::array<std::string, 256> characters;
    std::array<int16_t, 0x144> bytes{}; ///< by code point; -1: not of the alphabet

    Tables() {
        bytes.fill(-1);
        char32_t spare = 0x100; // bytes that do not print get the characters from here on
        for (unsigned byte = 0; byte < 256; ++byte) {
            const bool prints =
                (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
            const char32_t character = prints ? byte : spare++;
            append_utf8(characters[byte], character);
            bytes[character] = static_cast<int16_t>(byte);
        }
    }
};

const Tables& tables() {
    static const Tables made;
    return made;
}

} // namespace

const std::string& ByteAlphabet::character(uint8_t byte) {
    return tables().characters[byte];
}

std::optional<std::string> ByteAlphabet::bytes(std::string_view entry) {
    const auto& bytes = tables().bytes;
    std::string out;
    out.reserve(entry.size());
    for (size_t at = 0; at < entry.size();) {
        const Utf8Step step = utf8_step(entry, at);
        if (step.kind != Utf8Step::Kind::character || step.code_point >= bytes.size()) return std::nullopt;
        const int16_t byte = bytes[step.code_point];
        if (byte < 0) return std::nullopt;
        out += static_cast<char>(byte);
        at += step.length;
    }
    return out;
}

} // namespace refreshlab
