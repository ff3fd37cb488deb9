#include "engine/policies/entry_codec.h"

#include "engine/base/check.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace refreshlab {

namespace {

uint16_t to_bfloat16(float value) {
    const auto bits = std::bit_cast<uint32_t>(value);
    if (std::isnan(value)) return static_cast<uint16_t>((bits >> 16) | 0x40U);
    return static_cast<uint16_t>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16);
}

/// IEEE half: 5 bits of exponent, 10 of fraction. Halves below 2^-14 are multiples of 2^-24.
uint16_t to_float16(float value) {
    const auto sign = static_cast<uint16_t>(std::signbit(value) ? 0x8000 : 0);
    if (std::isnan(value)) return static_cast<uint16_t>(sign | 0x7E00);
    const double size = std::fabs(static_cast<double>(value));
    if (size == 0) return sign;
    if (size >= 65520) return static_cast<uint16_t>(sign | 0x7C00); // rounds to infinity
    int exponent = 0;
    std::frexp(size, &exponent); // size in [2^(exponent - 1), 2^exponent)
    const int step = std::max(exponent - 11, -24);
    const auto units = static_cast<int64_t>(std::nearbyint(std::ldexp(size, -step))); // ties to even
    // 1024 units or more carry into the exponent, which is how it comes to its value.
    const int64_t bits = (static_cast<int64_t>(step + 24) << 10) + units;
    return static_cast<uint16_t>(sign | bits);
}
float from_float16(uint16_t bits) {
    const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16, exponent = (bits >> 10) & 31U,
                   fraction = bits & 1023U;
    if (exponent == 0) {
        const float size = static_cast<float>(fraction) * 0x1p-24F;
        return sign != 0 ? -size : size;
    }
    const uint32_t wide = exponent == 31 ? 255 : exponent + 112;
    return std::bit_cast<float>(sign | wide << 23 | fraction << 13);
}

} // namespace

void EntryCodec::decode(const EncodedBlock& block, const BlockShape& shape, std::span<float> rows) const {
    RL_ASSERT(std::ssize(rows) == shape.numbers());
    decode(block, shape, {0, shape.n, 0, shape.head_dim}, rows.data());
}

void round_numbers(std::span<float> numbers, StoredAs type) {
    if (type == StoredAs::bfloat16)
        for (float& number : numbers)
            number = std::bit_cast<float>(static_cast<uint32_t>(to_bfloat16(number)) << 16);
    if (type == StoredAs::float16)
        for (float& number : numbers)
            number = from_float16(to_float16(number));
}

void put_number(std::vector<uint8_t>& bytes, float value, StoredAs type) {
    const auto put = [&bytes](auto bits) {
        const size_t at = bytes.size();
        bytes.resize(at + sizeof(bits));
        std::memcpy(bytes.data() + at, &bits, sizeof(bits));
    };
    switch (type) {
    case StoredAs::float32:
        return put(value);
    case StoredAs::bfloat16:
        return put(to_bfloat16(value));
    case StoredAs::float16:
        return put(to_float16(value));
    }
}

float number_at(std::span<const uint8_t> bytes, int64_t index, StoredAs type) {
    const auto at = static_cast<size_t>(index * bytes_of(type));
    RL_ASSERT(at + static_cast<size_t>(bytes_of(type)) <= bytes.size());
    if (type == StoredAs::float32) {
        float value = 0;
        std::memcpy(&value, bytes.data() + at, sizeof(value));
        return value;
    }
    uint16_t bits = 0;
    std::memcpy(&bits, bytes.data() + at, sizeof(bits));
    return type == StoredAs::float16 ? from_float16(bits)
                                     : std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

} // namespace refreshlab
