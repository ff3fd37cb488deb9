#include "kernels/cpu/convert_rows.h"
#include "kernels/cpu/half.h"

#include <bit>
#include <cstring>

/// Story: loops without a branch inside, which the compiler turns into vector code of the baseline. Reading and writing memory for
/// the first time takes longer than the arithmetic.
namespace refreshlab::kernels::cpu {
namespace {

[[gnu::always_inline]] inline float to_float(float x) {
    return x;
}

template <typename To>
To from_float(float x);

template <>
[[gnu::always_inline]] inline float from_float<float>(float x) {
    return x;
}

template <>
[[gnu::always_inline]] inline Bf16 from_float<Bf16>(float x) {
    const auto bits = std::bit_cast<uint32_t>(x);
    const uint32_t rounded = (bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16;
    const bool is_nan = (bits & 0x7FFFFFFFU) > 0x7F800000U;
    return {static_cast<uint16_t>(is_nan ? 0x7FC0U : rounded)};
}

template <>
[[gnu::always_inline]] inline F16 from_float<F16>(float x) {
    return to_half(x);
}

template <typename From, typename To>
void rows_of(const Conversion& c) {
    for (int64_t r = 0; r < c.rows; ++r) {
        const From* const from = static_cast<const From*>(c.from) + r * c.from_stride;
        To* const to = static_cast<To*>(c.to) + r * c.to_stride;
        for (int64_t i = 0; i < c.width; ++i)
            to[i] = from_float<To>(to_float(from[i]));
    }
}

/// One dtype on both sides: bytes.
void copy_rows(const Conversion& c, int64_t element_bytes) {
    for (int64_t r = 0; r < c.rows; ++r)
        std::memcpy(static_cast<char*>(c.to) + r * c.to_stride * element_bytes,
                    static_cast<const char*>(c.from) + r * c.from_stride * element_bytes,
                    static_cast<size_t>(c.width * element_bytes));
}

template <typename From>
void rows_from(const Conversion& c) {
    switch (c.to_type) {
    case ElementType::f32:
        return rows_of<From, float>(c);
    case ElementType::bf16:
        return rows_of<From, Bf16>(c);
    case ElementType::f16:
        return rows_of<From, F16>(c);
    }
}

} // namespace

void convert_rows(const Conversion& c) {
    if (c.from_type == c.to_type) return copy_rows(c, c.from_type == ElementType::f32 ? 4 : 2);
    switch (c.from_type) {
    case ElementType::f32:
        return rows_from<float>(c);
    case ElementType::bf16:
        return rows_from<Bf16>(c);
    case ElementType::f16:
        return rows_from<F16>(c);
    }
}

} // namespace refreshlab::kernels::cpu
