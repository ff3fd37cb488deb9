#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace refreshlab {

/// FNV-1a with 128 bits over a series of fields; each field carries its length, so that two fields never read as one.
/// It tells apart files that differ by accident. It does not protect against a forger.
/// Source: Fowler, Noll, Vo; RFC 9923.
class Digest {
public:
    void add(std::string_view text) {
        add(static_cast<uint64_t>(text.size()));
        for (const char c : text)
            byte(static_cast<unsigned char>(c));
    }
    void add(uint64_t number) {
        for (int shift = 0; shift < 64; shift += 8)
            byte(static_cast<unsigned char>(number >> shift));
    }
    [[nodiscard]] std::string hex() const {
        return fmt::format("{:016x}{:016x}", static_cast<uint64_t>(m_state >> 64),
                           static_cast<uint64_t>(m_state));
    }

private:
    __extension__ using Wide = unsigned __int128;
    void byte(unsigned char value) { m_state = (m_state ^ value) * prime; }

    static constexpr Wide prime = (Wide{1} << 88) + 0x13B;
    Wide m_state = (Wide{0x6C62272E07BB0142} << 64) | 0x62B821756295C58D;
};

} // namespace refreshlab
