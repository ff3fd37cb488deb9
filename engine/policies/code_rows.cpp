#include "engine/policies/code_rows.h"

#include "engine/base/check.h"
#include "engine/policies/bit_codes.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>

/// Attention reads codes at every step, so sixteen are unpacked at once. The loops are written once, with vectors that a compiler turns
/// into those of an instruction set, and forced inline into a function for each (as kernels/cpu/cpu_lanes.h does).
#define RL_INLINE [[gnu::always_inline]] inline

namespace refreshlab {

namespace {

constexpr int64_t lanes = 16;
using Sixteen [[gnu::vector_size(lanes * sizeof(float))]] = float;
using Codes [[gnu::vector_size(lanes * sizeof(int32_t))]] = int32_t;
using Bytes [[gnu::vector_size(lanes)]] = uint8_t;

/// The first bytes, at most four, as a number. In registers: a copy of two or three bytes waits for its own stores.
template <int64_t bytes>
RL_INLINE int32_t word(const uint8_t* from) {
    uint32_t all = 0;
    if constexpr (bytes == 4)
        std::memcpy(&all, from, bytes);
    else
        for (int64_t i = 0; i < bytes; ++i)
            all |= static_cast<uint32_t>(from[i]) << (8 * i);
    return static_cast<int32_t>(all);
}

/// Sixteen codes that begin with a byte.
template <int64_t bits>
RL_INLINE void unpack(const uint8_t* from, Codes& codes) {
    if constexpr (bits == 8) {
        Bytes bytes;
        std::memcpy(&bytes, from, sizeof(bytes));
        codes = __builtin_convertvector(bytes, Codes);
    } else if constexpr (bits <= 2) { // all fit into a word
        const int32_t all = word<2 * bits>(from);
        constexpr int32_t s = bits;
        codes = ((Codes{} + all) >> Codes{0, s, 2 * s, 3 * s, 4 * s, 5 * s, 6 * s, 7 * s, 8 * s, 9 * s,
                                          10 * s, 11 * s, 12 * s, 13 * s, 14 * s, 15 * s}) &
                ((1 << bits) - 1);
    } else {
        static_assert(bits <= 4); // eight codes fit into a word
        const int32_t a = word<bits>(from), b = word<bits>(from + bits);
        constexpr int32_t s = bits;
        // Not one vector of a's and b's: gcc 12 would put it together in memory.
        constexpr Codes by{0, s, 2 * s, 3 * s, 4 * s, 5 * s, 6 * s, 7 * s,
                           0, s, 2 * s, 3 * s, 4 * s, 5 * s, 6 * s, 7 * s};
        constexpr int32_t m = (1 << bits) - 1;
        constexpr Codes first{m, m, m, m, m, m, m, m}, second = first ^ m;
        codes = (((Codes{} + a) >> by) & first) | (((Codes{} + b) >> by) & second);
    }
}

/// What a code becomes. `at` is the code's place in its row, `row` that of the row in the list.
struct ByChannel {
    const float *scales, *minima;
    RL_INLINE void sixteen(const Codes& codes, int64_t, int64_t at, Sixteen& to) const {
        Sixteen scale, min;
        std::memcpy(&scale, scales + at, sizeof(scale));
        std::memcpy(&min, minima + at, sizeof(min));
        to = __builtin_convertvector(codes, Sixteen) * scale + min;
    }
    RL_INLINE float one(uint32_t code, int64_t, int64_t at) const {
        return static_cast<float>(code) * scales[at] + minima[at];
    }
};
struct ByRow {
    const float* pairs;
    int64_t stride;
    RL_INLINE void sixteen(const Codes& codes, int64_t row, int64_t, Sixteen& to) const {
        to = __builtin_convertvector(codes, Sixteen) * pairs[row * stride] + pairs[row * stride + 1];
    }
    RL_INLINE float one(uint32_t code, int64_t row, int64_t) const {
        return static_cast<float>(code) * pairs[row * stride] + pairs[row * stride + 1];
    }
};
struct OfLevels {
    const float* levels; ///< [16]
    const float* factors;
    RL_INLINE void sixteen(const Codes& codes, int64_t row, int64_t, Sixteen& to) const {
        Sixteen all;
        std::memcpy(&all, levels, sizeof(all));
        to = __builtin_shuffle(all, codes) * factors[row];
    }
    RL_INLINE float one(uint32_t code, int64_t row, int64_t) const { return levels[code] * factors[row]; }
};

template <int64_t bits, typename Number>
RL_INLINE void whole_bytes(const CodeRows& c, Number number) { // a copy: what is written is no part of it
    const uint8_t* const bytes = c.bytes.data() + c.first * bits / 8;
    const int64_t whole = c.n / lanes * lanes;
    for (int64_t i = 0; i < static_cast<int64_t>(c.rows.size()); ++i) {
        const uint8_t* from = bytes + c.rows[static_cast<size_t>(i)] * c.row_bits / 8;
        float* const to = c.to + i * c.stride;
        for (int64_t at = 0; at < whole; at += lanes, from += lanes * bits / 8) {
            Codes codes;
            unpack<bits>(from, codes);
            Sixteen numbers;
            number.sixteen(codes, i, at, numbers);
            std::memcpy(to + at, &numbers, sizeof(numbers));
        }
    }
}

/// Codes from place `begin` of each row on, one by one.
template <typename Number>
RL_INLINE void one_by_one(const CodeRows& c, const Number& number, int64_t begin) {
    for (int64_t i = 0; i < static_cast<int64_t>(c.rows.size()); ++i) {
        for (int64_t at = begin; at < c.n; ++at) {
            const int64_t bit = c.rows[static_cast<size_t>(i)] * c.row_bits + (c.first + at) * c.bits;
            c.to[i * c.stride + at] = number.one(code_at_bit(c.bytes, bit, c.bits), i, at);
        }
    }
}

template <typename Number>
RL_INLINE void numbers(const CodeRows& c, const Number& number) {
    if (c.row_bits % 8 != 0 || c.first * c.bits % 8 != 0) return one_by_one(c, number, 0);
    switch (c.bits) {
    case 1:
        whole_bytes<1>(c, number);
        break;
    case 2:
        whole_bytes<2>(c, number);
        break;
    case 3:
        whole_bytes<3>(c, number);
        break;
    case 4:
        whole_bytes<4>(c, number);
        break;
    case 8:
        if constexpr (!std::is_same_v<Number, OfLevels>) {
            whole_bytes<8>(c, number);
            break;
        }
        [[fallthrough]];
    default:
        return one_by_one(c, number, 0);
    }
    one_by_one(c, number, c.n / lanes * lanes);
}

/// Without a branch. 2^112 makes up for the smaller bias of a half's exponent, of subnormal numbers as well.
RL_INLINE void sixteen_halves(const uint8_t* from, float* to) {
    using Halves [[gnu::vector_size(lanes * sizeof(uint16_t))]] = uint16_t;
    Halves halves;
    std::memcpy(&halves, from, sizeof(halves));
    const Codes bits = __builtin_convertvector(halves, Codes), size = bits & 0x7FFF;
    const Sixteen finite = reinterpret_cast<Sixteen>(size << 13) * 0x1p112F;
    const Codes special = 0x7F800000 | size << 13; // infinity, or not a number
    const Codes number = (bits & 0x8000) << 16 | (size >= 0x7C00 ? special : reinterpret_cast<Codes>(finite));
    std::memcpy(to, &number, sizeof(number));
}
RL_INLINE void all_halves(const uint8_t* from, int64_t n, float* to) {
    const int64_t whole = n / lanes * lanes;
    for (int64_t i = 0; i < whole; i += lanes)
        sixteen_halves(from + 2 * i, to + i);
    if (whole == n) return;
    uint8_t rest[2 * lanes] = {};
    float numbers[lanes];
    std::memcpy(rest, from + 2 * whole, static_cast<size_t>(2 * (n - whole)));
    sixteen_halves(rest, numbers);
    std::memcpy(to + whole, numbers, static_cast<size_t>(n - whole) * sizeof(float));
}

struct ToBfloat16 {
    RL_INLINE void sixteen(const Codes& bits, Codes& to) const {
        const Codes size = bits & 0x7FFFFFFF, rounded = bits + 0x7FFF + ((bits >> 16) & 1);
        to = (size > 0x7F800000 ? bits | 0x400000 : rounded) & static_cast<int32_t>(0xFFFF0000);
    }
};
struct ToHalf {
    RL_INLINE void sixteen(const Codes& bits, Codes& to) const {
        const Codes size = bits & 0x7FFFFFFF, sign = bits ^ size;
        const Codes normal = (size + 0xFFF + ((size >> 13) & 1)) & ~0x1FFF;
        // Below 2^-14 a half is a multiple of 2^-24, as a float from 1/2 to 1 is.
        const Sixteen small = reinterpret_cast<Sixteen>(size) + 0.5F - 0.5F;
        Codes result = size < 0x38800000 ? reinterpret_cast<Codes>(small) : normal;
        result = size >= 0x477FF000 ? Codes{} + 0x7F800000 : result; // 65520 and more
        result = size > 0x7F800000 ? size | 0x400000 : result;
        to = sign | result;
    }
};
template <typename Rounding>
RL_INLINE void round_all(float* numbers, int64_t n, const Rounding& rounding) {
    for (int64_t i = 0; i < n; i += lanes) {
        const auto bytes = static_cast<size_t>(std::min(lanes, n - i)) * sizeof(float);
        Codes bits{}, rounded;
        std::memcpy(&bits, numbers + i, bytes);
        rounding.sixteen(bits, rounded);
        std::memcpy(numbers + i, &rounded, bytes);
    }
}

/// One instruction set's copies.
struct Set {
    void (*by_channel)(const CodeRows&, const ByChannel&);
    void (*by_row)(const CodeRows&, const ByRow&);
    void (*of_levels)(const CodeRows&, const OfLevels&);
    void (*halves)(const uint8_t*, int64_t, float*);
    void (*to_bfloat16)(float*, int64_t);
    void (*to_half)(float*, int64_t);
};
#define RL_SET(NAME, TARGET)                                                                                 \
    TARGET void NAME##_by_channel(const CodeRows& c, const ByChannel& number) {                              \
        numbers(c, number);                                                                                  \
    }                                                                                                        \
    TARGET void NAME##_by_row(const CodeRows& c, const ByRow& number) {                                      \
        numbers(c, number);                                                                                  \
    }                                                                                                        \
    TARGET void NAME##_of_levels(const CodeRows& c, const OfLevels& number) {                                \
        numbers(c, number);                                                                                  \
    }                                                                                                        \
    TARGET void NAME##_halves(const uint8_t* from, int64_t n, float* to) {                                   \
        all_halves(from, n, to);                                                                             \
    }                                                                                                        \
    TARGET void NAME##_to_bfloat16(float* numbers, int64_t n) {                                              \
        round_all(numbers, n, ToBfloat16{});                                                                 \
    }                                                                                                        \
    TARGET void NAME##_to_half(float* numbers, int64_t n) {                                                  \
        round_all(numbers, n, ToHalf{});                                                                     \
    }                                                                                                        \
    constexpr Set NAME{NAME##_by_channel, NAME##_by_row,      NAME##_of_levels,                              \
                       NAME##_halves,     NAME##_to_bfloat16, NAME##_to_half};

RL_SET(portable, )
#ifdef __x86_64__
RL_SET(avx2, [[gnu::target("avx2")]])
RL_SET(avx512, [[gnu::target("avx512f,avx512bw,avx512vl,avx512dq")]])
#endif

const Set& widest() {
#ifdef __x86_64__
    static const Set set = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                                   __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq")
                               ? avx512
                           : __builtin_cpu_supports("avx2") ? avx2
                                                            : portable;
    return set;
#else
    return portable;
#endif
}

void check(const CodeRows& c) {
    RL_ASSERT(c.bits >= 1 && c.bits <= 8 && c.n >= 0);
    if (c.rows.empty()) return;
    const auto end = (std::ranges::max(c.rows) * c.row_bits + (c.first + c.n) * c.bits + 7) / 8;
    RL_ASSERT(std::ranges::min(c.rows) >= 0 && c.first >= 0 && end <= std::ssize(c.bytes));
}

} // namespace

void numbers_by_channel(const CodeRows& codes, std::span<const float> scales, std::span<const float> minima) {
    check(codes);
    RL_ASSERT(std::ssize(scales) >= codes.n && std::ssize(minima) >= codes.n);
    widest().by_channel(codes, {scales.data(), minima.data()});
}
void numbers_by_row(const CodeRows& codes, std::span<const float> pairs, int64_t stride) {
    check(codes);
    RL_ASSERT(codes.rows.empty() || (std::ssize(codes.rows) - 1) * stride + 2 <= std::ssize(pairs));
    widest().by_row(codes, {pairs.data(), stride});
}
void numbers_of_levels(const CodeRows& codes, std::span<const float> levels, std::span<const float> factors) {
    check(codes);
    RL_ASSERT(std::ssize(levels) == int64_t{1} << codes.bits && factors.size() == codes.rows.size());
    std::array<float, 256> all{};
    std::ranges::copy(levels, all.begin());
    widest().of_levels(codes, {all.data(), factors.data()});
}

void numbers_of_halves(std::span<const uint8_t> bytes, std::span<float> to) {
    RL_ASSERT(bytes.size() == 2 * to.size());
    widest().halves(bytes.data(), std::ssize(to), to.data());
}

void round_to_bfloat16(std::span<float> numbers) {
    widest().to_bfloat16(numbers.data(), std::ssize(numbers));
}
void round_to_half(std::span<float> numbers) {
    widest().to_half(numbers.data(), std::ssize(numbers));
}

} // namespace refreshlab
