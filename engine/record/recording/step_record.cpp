#include "engine/record/recording/step_record.h"

#include <algorithm>
#include <bit>

namespace refreshlab {

int64_t DraftEvent::accepted() const {
    return std::ranges::find(tokens, false, &DraftToken::stays) - tokens.begin();
}

float half_to_float(uint16_t half) {
    const uint32_t sign = static_cast<uint32_t>(half & 0x8000U) << 16U;
    const uint32_t exponent = (half >> 10U) & 0x1FU;
    const uint32_t fraction = half & 0x3FFU;
    if (exponent == 0x1F)
        return std::bit_cast<float>(sign | 0x7F800000U | (fraction << 13U)); // infinity, NaN
    if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 112U) << 23U) | (fraction << 13U));
    // Zero and subnormals: fraction * 2^-24, exact in a float.
    const float magnitude = static_cast<float>(fraction) * 0x1p-24F;
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
}

uint16_t float_to_half(float value) {
    const auto bits = std::bit_cast<uint32_t>(value);
    const auto sign = static_cast<uint16_t>((bits >> 16U) & 0x8000U);
    const uint32_t magnitude = bits & 0x7FFFFFFFU;
    if (magnitude > 0x7F800000U) { // NaN: the quiet bit keeps it one when the payload's low bits go
        return static_cast<uint16_t>(sign | 0x7E00U | ((magnitude >> 13U) & 0x3FFU));
    }
    if (magnitude >= 0x477FF000U) return static_cast<uint16_t>(sign | 0x7C00U); // >= 65520 rounds to infinity
    uint32_t scaled = 0, dropped = 0, halfway = 0;
    if (magnitude >= 0x38800000U) { // >= 2^-14: normal
        scaled = (magnitude - 0x38000000U) >> 13U;
        dropped = magnitude & 0x1FFFU;
        halfway = 0x1000U;
    } else if (magnitude >= 0x33000000U) { // >= 2^-25: subnormal, or rounds up to the smallest one
        const uint32_t shift = 126U - (magnitude >> 23U);
        const uint32_t fraction = (magnitude & 0x7FFFFFU) | 0x800000U;
        scaled = fraction >> shift;
        dropped = fraction & ((1U << shift) - 1U);
        halfway = 1U << (shift - 1U);
    }
    // Ties to even; a carry runs into the exponent, as it should.
    if (dropped > halfway || (dropped == halfway && halfway != 0 && (scaled & 1U) != 0)) ++scaled;
    return static_cast<uint16_t>(sign | scaled);
}

} // namespace refreshlab
