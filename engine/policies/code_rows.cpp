#include "engine/policies/code_rows.h"

#include "engine/base/check.h"
#include "engine/policies/bit_codes.h"
#include "engine/policies/code_lanes.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstring>
#include <type_traits>
#include <vector>

#ifdef __x86_64__
#include <immintrin.h>
#endif

namespace refreshlab {

namespace {

using namespace code_lanes;

template <int64_t bits, bool permutes, typename Number>
RL_INLINE void whole_bytes(const CodeRows& c, Number number) { // a copy: what is written is no part of it
    const uint8_t* const bytes = c.bytes.data() + c.first * bits / 8;
    const int64_t whole = c.n / lanes * lanes, row_bytes = c.row_bits / 8;
    for (int64_t i = 0; i < static_cast<int64_t>(c.rows.size()); ++i) {
        const uint8_t* from = bytes + c.rows[static_cast<size_t>(i)] * row_bytes;
        float* const to = c.to + i * c.stride;
        auto of_row = number.template of_row<bits, permutes>(i);
        for (int64_t at = 0; at < whole; at += lanes, from += lanes * bits / 8) {
            Codes codes;
            unpack<bits>(from, codes);
            Sixteen numbers;
            of_row.sixteen(codes, at, numbers);
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

template <bool permutes, typename Number>
RL_INLINE void numbers(const CodeRows& c, const Number& number) {
    bool by_sixteen = c.row_bits % 8 == 0 && c.first * c.bits % 8 == 0;
    if constexpr (std::is_same_v<Number, ByRow>) by_sixteen = by_sixteen && number.by_sixteen();
    if (!by_sixteen) return one_by_one(c, number, 0);
    switch (c.bits) {
    case 1:
        whole_bytes<1, permutes>(c, number);
        break;
    case 2:
        whole_bytes<2, permutes>(c, number);
        break;
    case 3:
        whole_bytes<3, permutes>(c, number);
        break;
    case 4:
        whole_bytes<4, permutes>(c, number);
        break;
    case 8:
        if constexpr (!std::is_same_v<Number, OfLevels>) {
            whole_bytes<8, permutes>(c, number);
            break;
        }
        [[fallthrough]];
    default:
        return one_by_one(c, number, 0);
    }
    one_by_one(c, number, c.n / lanes * lanes);
}

struct OfSigns {
    const float* factors;
    RL_INLINE float one(uint32_t code, int64_t row, int64_t) const {
        return code != 0 ? factors[row] : -factors[row];
    }
};
RL_INLINE void signs(const CodeRows& c, const OfSigns& number) {
    if (c.row_bits % 8 != 0 || c.first % 8 != 0) return one_by_one(c, number, 0);
    const uint8_t* const bytes = c.bytes.data() + c.first / 8;
    const int64_t whole = c.n / lanes * lanes, row_bytes = c.row_bits / 8;
    for (int64_t i = 0; i < static_cast<int64_t>(c.rows.size()); ++i) {
        const uint8_t* from = bytes + c.rows[static_cast<size_t>(i)] * row_bytes;
        float* const to = c.to + i * c.stride;
        const Codes minus = Codes{} + std::bit_cast<int32_t>(-number.factors[i]);
        for (int64_t at = 0; at < whole; at += lanes, from += lanes / 8) {
            Codes numbers;
            sixteen_signs(from, minus, numbers);
            std::memcpy(to + at, &numbers, sizeof(numbers));
        }
    }
    one_by_one(c, number, whole);
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

/// Pairs, apart.
RL_INLINE void split_all(const float* pairs, int64_t n, float* first, float* second) {
    const int64_t whole = n / lanes * lanes;
    for (int64_t i = 0; i < whole; i += lanes) {
        Sixteen a, b;
        std::memcpy(&a, pairs + 2 * i, sizeof(a));
        std::memcpy(&b, pairs + 2 * i + lanes, sizeof(b));
        const Sixteen x =
            __builtin_shuffle(a, b, Codes{0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30});
        const Sixteen y =
            __builtin_shuffle(a, b, Codes{1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31});
        std::memcpy(first + i, &x, sizeof(x));
        std::memcpy(second + i, &y, sizeof(y));
    }
    for (int64_t i = whole; i < n; ++i) {
        first[i] = pairs[2 * i];
        second[i] = pairs[2 * i + 1];
    }
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
    kernels::Isa isa;
    void (*by_channel)(const CodeRows&, const ByChannel&);
    void (*by_row)(const CodeRows&, const ByRow&);
    void (*of_levels)(const CodeRows&, const OfLevels&);
    void (*of_signs)(const CodeRows&, const OfSigns&);
    void (*halves)(const uint8_t*, int64_t, float*);
    void (*split)(const float*, int64_t, float*, float*);
    void (*to_bfloat16)(float*, int64_t);
    void (*to_half)(float*, int64_t);
};
#define RL_SET(NAME, TARGET, PERMUTES)                                                                       \
    TARGET void NAME##_by_channel(const CodeRows& c, const ByChannel& number) {                              \
        numbers<PERMUTES>(c, number);                                                                        \
    }                                                                                                        \
    TARGET void NAME##_by_row(const CodeRows& c, const ByRow& number) {                                      \
        numbers<PERMUTES>(c, number);                                                                        \
    }                                                                                                        \
    TARGET void NAME##_of_levels(const CodeRows& c, const OfLevels& number) {                                \
        numbers<PERMUTES>(c, number);                                                                        \
    }                                                                                                        \
    TARGET void NAME##_of_signs(const CodeRows& c, const OfSigns& number) {                                  \
        signs(c, number);                                                                                    \
    }                                                                                                        \
    TARGET void NAME##_split(const float* pairs, int64_t n, float* first, float* second) {                   \
        split_all(pairs, n, first, second);                                                                  \
    }                                                                                                        \
    TARGET void NAME##_to_bfloat16(float* numbers, int64_t n) {                                              \
        round_all(numbers, n, ToBfloat16{});                                                                 \
    }                                                                                                        \
    TARGET void NAME##_to_half(float* numbers, int64_t n) {                                                  \
        round_all(numbers, n, ToHalf{});                                                                     \
    }                                                                                                        \
    constexpr Set NAME{kernels::Isa::NAME, NAME##_by_channel,  NAME##_by_row,                                \
                       NAME##_of_levels,   NAME##_of_signs,    NAME##_halves,                                \
                       NAME##_split,       NAME##_to_bfloat16, NAME##_to_half};

void portable_halves(const uint8_t* from, int64_t n, float* to) {
    all_halves(from, n, to);
}
RL_SET(portable, , false)
#ifdef __x86_64__
#define RL_ROWS_AVX2 [[gnu::target("avx2,f16c")]]
#define RL_ROWS_AVX512 [[gnu::target("avx512f,avx512bw,avx512vl,avx512dq")]]
RL_ROWS_AVX2 void avx2_halves(const uint8_t* from, int64_t n, float* to) {
    const int64_t whole = n / 8 * 8;
    for (int64_t i = 0; i < whole; i += 8)
        _mm256_storeu_ps(to + i,
                         _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from + 2 * i))));
    all_halves(from + 2 * whole, n - whole, to + whole);
}
RL_ROWS_AVX512 void avx512_halves(const uint8_t* from, int64_t n, float* to) {
    for (int64_t i = 0; i < n; i += lanes) {
        const auto some = static_cast<__mmask16>((1U << std::min(lanes, n - i)) - 1U);
        _mm512_mask_storeu_ps(to + i, some,
                              _mm512_maskz_cvtph_ps(some, _mm256_maskz_loadu_epi16(some, from + 2 * i)));
    }
}
RL_SET(avx2, RL_ROWS_AVX2, false)
RL_SET(avx512, RL_ROWS_AVX512, true)
#endif

const Set& set_of(kernels::Isa isa) {
#ifdef __x86_64__
    if (isa == kernels::Isa::avx512) return avx512;
    if (isa == kernels::Isa::avx2) return avx2;
#endif
    RL_ASSERT(isa == kernels::Isa::portable);
    return portable;
}
std::atomic<const Set*>& chosen() {
    static std::atomic<const Set*> set = &set_of(code_row_sets().back());
    return set;
}
const Set& set() {
    return *chosen().load(std::memory_order_relaxed);
}

} // namespace

std::vector<kernels::Isa> code_row_sets() {
    std::vector<kernels::Isa> sets = {kernels::Isa::portable};
#ifdef __x86_64__
    const auto has = [](auto... features) { return (features && ...); };
    if (has(__builtin_cpu_supports("avx2"), __builtin_cpu_supports("f16c")))
        sets.push_back(kernels::Isa::avx2);
    if (has(__builtin_cpu_supports("avx512f"), __builtin_cpu_supports("avx512bw"),
            __builtin_cpu_supports("avx512vl"), __builtin_cpu_supports("avx512dq")))
        sets.push_back(kernels::Isa::avx512);
#endif
    return sets;
}
void use_code_row_set(kernels::Isa isa) {
    chosen() = &set_of(isa);
}
kernels::Isa code_row_set() {
    return set().isa;
}

void check_code_rows(const CodeRows& c) {
    RL_ASSERT(c.bits >= 1 && c.bits <= 8 && c.n >= 0);
    if (c.rows.empty()) return;
    const int64_t before = std::ssize(c.bytes) * 8 - (c.first + c.n) * c.bits; // where a row may begin
    RL_ASSERT(c.first >= 0 && before >= 0 && c.row_bits > 0);
    int64_t wrong = 0; // below 0 where a row is below 0 or behind the last one
    for (const int64_t last = before / c.row_bits; const int64_t row : c.rows)
        wrong |= row | (last - row);
    RL_ASSERT(wrong >= 0);
}
void split_pairs(std::span<const float> pairs, std::span<float> first, std::span<float> second) {
    RL_ASSERT(pairs.size() == 2 * first.size() && first.size() == second.size());
    set().split(pairs.data(), std::ssize(first), first.data(), second.data());
}
std::array<float, 16> repeated_levels(std::span<const float> levels) {
    std::array<float, 16> all;
    for (size_t i = 0; i < all.size(); ++i)
        all[i] = levels[i & (levels.size() - 1)];
    return all;
}

void numbers_by_channel(const CodeRows& codes, std::span<const float> pairs) {
    static thread_local std::vector<float> scales, minima;
    check_code_rows(codes);
    RL_ASSERT(std::ssize(pairs) == 2 * codes.n);
    scales.resize(static_cast<size_t>(codes.n));
    minima.resize(static_cast<size_t>(codes.n));
    split_pairs(pairs, scales, minima);
    set().by_channel(codes, {scales.data(), minima.data()});
}
void numbers_by_row(const CodeRows& codes, std::span<const float> pairs, int64_t group) {
    check_code_rows(codes);
    if (codes.rows.empty()) return;
    const int64_t stride = std::ssize(pairs) / std::ssize(codes.rows);
    RL_ASSERT(group > 0 && 2 * ((codes.first + codes.n + group - 1) / group) <= stride);
    set().by_row(codes, {pairs.data(), stride, group, codes.first});
}
void numbers_of_levels(const CodeRows& codes, std::span<const float> levels, std::span<const float> factors) {
    check_code_rows(codes);
    RL_ASSERT(std::ssize(levels) == int64_t{1} << codes.bits && factors.size() == codes.rows.size());
    const auto table = repeated_levels(levels);
    set().of_levels(codes, {codes.bits <= 4 ? table.data() : levels.data(), factors.data()});
}

void numbers_of_signs(const CodeRows& codes, std::span<const float> factors) {
    check_code_rows(codes);
    RL_ASSERT(codes.bits == 1 && factors.size() == codes.rows.size());
    set().of_signs(codes, {factors.data()});
}

void numbers_of_halves(std::span<const uint8_t> bytes, std::span<float> to) {
    RL_ASSERT(bytes.size() == 2 * to.size());
    set().halves(bytes.data(), std::ssize(to), to.data());
}

void round_to_bfloat16(std::span<float> numbers) {
    set().to_bfloat16(numbers.data(), std::ssize(numbers));
}
void round_to_half(std::span<float> numbers) {
    set().to_half(numbers.data(), std::ssize(numbers));
}

} // namespace refreshlab
