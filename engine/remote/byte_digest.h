#pragma once

#include <cstdint>
#include <span>

namespace refreshlab::remote {

/// FNV-1a, 64 bits: tells apart bytes that came from different states of a file. No protection against somebody who wants them equal.
class ByteDigest {
public:
    void add(std::span<const uint8_t> bytes) {
        for (const uint8_t byte : bytes)
            m_hash = (m_hash ^ byte) * 0x100000001B3ULL;
    }
    [[nodiscard]] uint64_t value() const { return m_hash; }

private:
    uint64_t m_hash = 0xCBF29CE484222325ULL;
};

} // namespace refreshlab::remote
