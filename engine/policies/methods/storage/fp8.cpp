#include "engine/policies/methods/storage/fp8.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace refreshlab {

namespace {

constexpr float largest_e4m3 = 448;

std::array<float, 256> numbers_of_e4m3() {
    std::array<float, 256> numbers{};
    for (int code = 0; code < 256; ++code) {
        const int exponent = (code >> 3) & 15, fraction = code & 7;
        float size = exponent == 0 ? std::ldexp(static_cast<float>(fraction), -9)
                                   : std::ldexp(static_cast<float>(8 + fraction), exponent - 10);
        if ((code & 127) == 127) size = std::numeric_limits<float>::quiet_NaN();
        numbers[static_cast<size_t>(code)] = code > 127 ? -size : size;
    }
    return numbers;
}

} // namespace

uint8_t to_e4m3(float value) {
    const int sign = std::signbit(value) ? 128 : 0;
    if (std::isnan(value)) return static_cast<uint8_t>(sign | 127);
    const float size = std::min(std::abs(value), largest_e4m3);
    if (size == 0) return static_cast<uint8_t>(sign);
    int exponent = 0;
    std::frexp(size, &exponent);                                 // size in [2^(exponent - 1), 2^exponent)
    const int step = std::max(exponent - 4, -9);                 // numbers below 2^-6 are multiples of 2^-9
    const float units = std::nearbyint(std::ldexp(size, -step)); // ties to even
    // 8 units or more carry into the exponent, which is how it comes to its value.
    return static_cast<uint8_t>(sign | (((step + 9) << 3) + static_cast<int>(units)));
}

float from_e4m3(uint8_t code) {
    static const std::array<float, 256> numbers = numbers_of_e4m3();
    return numbers[code];
}

EncodedBlock Fp8Rows::encode(std::span<const float> rows, const BlockShape& shape) const {
    EncodedBlock block;
    block.payload.reserve(rows.size());
    const auto d = static_cast<size_t>(shape.head_dim);
    for (size_t first = 0; first < rows.size(); first += d) {
        float largest = 0;
        for (const float x : rows.subspan(first, d))
            largest = std::max(largest, std::abs(x));
        const float scale = largest / largest_e4m3;
        put_number(block.metadata, scale, StoredAs::float32);
        for (const float x : rows.subspan(first, d))
            block.payload.push_back(to_e4m3(scale > 0 ? x / scale : 0));
    }
    return block;
}

void Fp8Rows::decode(const EncodedBlock& block, const BlockShape& shape, const BlockPart& part,
                     float* to) const {
    for (const int64_t row : part.rows) {
        const float scale = number_at(block.metadata, row, StoredAs::float32);
        const uint8_t* const codes = block.payload.data() + row * shape.head_dim + part.first_channel;
        for (int64_t c = 0; c < part.channels; ++c)
            *to++ = from_e4m3(codes[c]) * scale;
    }
}

} // namespace refreshlab
