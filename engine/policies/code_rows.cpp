#include "engine/policies/code_rows.h"

#include "engine/base/check.h"
#include "engine/policies/bit_codes.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <type_traits>
#include <vector>

#ifdef __x86_64__
#include <immintrin.h>
#endif

/// Attention reads codes at every step, so sixteen are unpacked at once. The loops are written once, with vectors that a compiler turns
/// into those of an instruction set, and forced inline into a function for each (as kernels/cpu/cpu_lanes.h does).
#define RL_INLINE [[gnu::always_inline]] inline

namespace refreshlab {

namespace {

constexpr int64_t lanes = 16;
using Sixteen [[gnu::vector_size(lanes * sizeof(float))]] = float;
using Codes [[gnu::vector_size(lanes * sizeof(int32_t))]] = int32_t;
using Bytes [[gnu::vector_size(lanes)]] = uint8_t;

RL_INLINE int32_t word(const uint8_t* from) {
    int32_t all = 0;
    std::memcpy(&all, from, sizeof(all));
    return all;
}

/// Sixteen codes that begin with a byte, each in the lowest bits of a lane; what stands above them is left there, unless of 8 bits.
template <int64_t bits>
RL_INLINE void unpack(const uint8_t* from, Codes& codes) {
    constexpr int32_t s = bits;
    if constexpr (bits == 8) {
        Bytes bytes;
        std::memcpy(&bytes, from, sizeof(bytes));
        codes = __builtin_convertvector(bytes, Codes);
    } else if constexpr (bits <= 2) { // all fit into a word, or into two bytes
        int32_t all = 0;
        if constexpr (bits == 2)
            all = word(from);
        else
            all = from[0] | from[1] << 8;
        codes = (Codes{} + all) >> Codes{0,     s,     2 * s,  3 * s,  4 * s,  5 * s,  6 * s,  7 * s,
                                         8 * s, 9 * s, 10 * s, 11 * s, 12 * s, 13 * s, 14 * s, 15 * s};
    } else {
        static_assert(bits == 3 ||
                      bits ==
                          4); // eight codes fit into a word; the second one of 3 bits begins in its middle
        const int32_t a = word(from), b = bits == 4 ? word(from + 4) : word(from + 2) >> 8;
        constexpr Codes by{0, s, 2 * s, 3 * s, 4 * s, 5 * s, 6 * s, 7 * s,
                           0, s, 2 * s, 3 * s, 4 * s, 5 * s, 6 * s, 7 * s};
        // Not one vector of a's and b's: gcc 12 would put it together in memory.
        constexpr Codes second{0, 0, 0, 0, 0, 0, 0, 0, -1, -1, -1, -1, -1, -1, -1, -1};
        codes = (second ? Codes{} + b : Codes{} + a) >> by;
    }
}
/// Nothing above them.
template <int64_t bits>
RL_INLINE void cut(Codes& codes) {
    if constexpr (bits < 8) codes &= (1 << bits) - 1;
}
/// 0, 1, ... 2^bits - 1, again and again: a table of sixteen that is repeated needs no codes that are cut.
template <int64_t bits>
constexpr std::array<float, lanes> repeated = [] {
    std::array<float, lanes> all{};
    for (size_t i = 0; i < all.size(); ++i)
        all[i] = static_cast<float>(i % (size_t{1} << bits));
    return all;
}();

// What a code becomes. `at` is the code's place in its row, `row` that of the row in the list. of_row() is what sixteen codes after sixteen
// codes of one row become; `permutes`: the instruction set finds sixteen numbers of a table at once.

struct ByChannel {
    const float *scales, *minima;
    template <int64_t bits>
    struct Row {
        const float *scales, *minima;
        RL_INLINE void sixteen(Codes& codes, int64_t at, Sixteen& to) const {
            Sixteen scale, min;
            std::memcpy(&scale, scales + at, sizeof(scale));
            std::memcpy(&min, minima + at, sizeof(min));
            cut<bits>(codes);
            to = __builtin_convertvector(codes, Sixteen) * scale + min;
        }
    };
    template <int64_t bits, bool>
    [[nodiscard]] RL_INLINE Row<bits> of_row(int64_t) const {
        return {scales, minima};
    }
    RL_INLINE float one(uint32_t code, int64_t, int64_t at) const {
        return static_cast<float>(code) * scales[at] + minima[at];
    }
};
struct ByRow {
    const float* pairs;
    int64_t stride, group, first;
    template <int64_t bits, bool permutes>
    struct Row {
        static constexpr bool by_table = permutes && bits <= 4;
        const float* pair;
        int64_t group, left; ///< codes until the next pair; both are multiples of sixteen
        Sixteen table{};
        RL_INLINE void make_table() {
            if constexpr (!by_table) return;
            std::memcpy(&table, repeated<bits>.data(), sizeof(table));
            table = table * pair[0] + pair[1];
        }
        RL_INLINE void sixteen(Codes& codes, int64_t, Sixteen& to) {
            if (left == 0) {
                pair += 2;
                left = group;
                make_table();
            }
            left -= lanes;
            if constexpr (by_table) {
                to = __builtin_shuffle(table, codes);
            } else {
                cut<bits>(codes);
                to = __builtin_convertvector(codes, Sixteen) * pair[0] + pair[1];
            }
        }
    };
    template <int64_t bits, bool permutes>
    [[nodiscard]] RL_INLINE Row<bits, permutes> of_row(int64_t row) const {
        Row<bits, permutes> result{pair_of(row, 0), group, group - first % group};
        result.make_table();
        return result;
    }
    RL_INLINE float one(uint32_t code, int64_t row, int64_t at) const {
        const float* const pair = pair_of(row, at);
        return static_cast<float>(code) * pair[0] + pair[1];
    }
    [[nodiscard]] RL_INLINE const float* pair_of(int64_t row, int64_t at) const {
        return pairs + row * stride + 2 * ((first + at) / group);
    }
    [[nodiscard]] RL_INLINE bool by_sixteen() const { return group % lanes == 0 && first % lanes == 0; }
};
struct OfLevels {
    const float* levels; ///< [16], repeated
    const float* factors;
    template <int64_t bits>
    struct Row {
        Sixteen table;
        RL_INLINE void sixteen(const Codes& codes, int64_t, Sixteen& to) const {
            if constexpr (bits == 1)
                to = (codes & 1) != 0 ? table[1] - Sixteen{} : table[0] - Sixteen{}; // -0 - 0 is -0
            else
                to = __builtin_shuffle(table, codes);
        }
    };
    template <int64_t bits, bool>
    [[nodiscard]] RL_INLINE Row<bits> of_row(int64_t row) const {
        Row<bits> result;
        std::memcpy(&result.table, levels, sizeof(result.table));
        result.table *= factors[row];
        return result;
    }
    RL_INLINE float one(uint32_t code, int64_t row, int64_t) const { return levels[code] * factors[row]; }
};

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
    void (*by_channel)(const CodeRows&, const ByChannel&);
    void (*by_row)(const CodeRows&, const ByRow&);
    void (*of_levels)(const CodeRows&, const OfLevels&);
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
    TARGET void NAME##_split(const float* pairs, int64_t n, float* first, float* second) {                   \
        split_all(pairs, n, first, second);                                                                  \
    }                                                                                                        \
    TARGET void NAME##_to_bfloat16(float* numbers, int64_t n) {                                              \
        round_all(numbers, n, ToBfloat16{});                                                                 \
    }                                                                                                        \
    TARGET void NAME##_to_half(float* numbers, int64_t n) {                                                  \
        round_all(numbers, n, ToHalf{});                                                                     \
    }                                                                                                        \
    constexpr Set NAME{NAME##_by_channel, NAME##_by_row,      NAME##_of_levels, NAME##_halves,               \
                       NAME##_split,      NAME##_to_bfloat16, NAME##_to_half};

void portable_halves(const uint8_t* from, int64_t n, float* to) {
    all_halves(from, n, to);
}
RL_SET(portable, , false)
#ifdef __x86_64__
#define RL_AVX2 [[gnu::target("avx2,f16c")]]
#define RL_AVX512 [[gnu::target("avx512f,avx512bw,avx512vl,avx512dq")]]
RL_AVX2 void avx2_halves(const uint8_t* from, int64_t n, float* to) {
    const int64_t whole = n / 8 * 8;
    for (int64_t i = 0; i < whole; i += 8)
        _mm256_storeu_ps(to + i,
                         _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from + 2 * i))));
    all_halves(from + 2 * whole, n - whole, to + whole);
}
RL_AVX512 void avx512_halves(const uint8_t* from, int64_t n, float* to) {
    for (int64_t i = 0; i < n; i += lanes) {
        const auto some = static_cast<__mmask16>((1U << std::min(lanes, n - i)) - 1U);
        _mm512_mask_storeu_ps(to + i, some,
                              _mm512_maskz_cvtph_ps(some, _mm256_maskz_loadu_epi16(some, from + 2 * i)));
    }
}
RL_SET(avx2, RL_AVX2, false)
RL_SET(avx512, RL_AVX512, true)
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

void check(const CodeRows& c) {
    RL_ASSERT(c.bits >= 1 && c.bits <= 8 && c.n >= 0);
    if (c.rows.empty()) return;
    uint64_t last = 0; // a row below 0 is a large one
    for (const int64_t row : c.rows)
        last = std::max(last, static_cast<uint64_t>(row));
    const int64_t before = std::ssize(c.bytes) * 8 - (c.first + c.n) * c.bits; // where a row may begin
    RL_ASSERT(c.first >= 0 && before >= 0 && c.row_bits > 0 &&
              last <= static_cast<uint64_t>(before / c.row_bits));
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

void numbers_by_channel(const CodeRows& codes, std::span<const float> pairs) {
    static thread_local std::vector<float> scales, minima;
    check(codes);
    RL_ASSERT(std::ssize(pairs) == 2 * codes.n);
    scales.resize(static_cast<size_t>(codes.n));
    minima.resize(static_cast<size_t>(codes.n));
    set().split(pairs.data(), codes.n, scales.data(), minima.data());
    set().by_channel(codes, {scales.data(), minima.data()});
}
void numbers_by_row(const CodeRows& codes, std::span<const float> pairs, int64_t group) {
    check(codes);
    if (codes.rows.empty()) return;
    const int64_t stride = std::ssize(pairs) / std::ssize(codes.rows);
    RL_ASSERT(group > 0 && 2 * ((codes.first + codes.n + group - 1) / group) <= stride);
    set().by_row(codes, {pairs.data(), stride, group, codes.first});
}
void numbers_of_levels(const CodeRows& codes, std::span<const float> levels, std::span<const float> factors) {
    check(codes);
    RL_ASSERT(std::ssize(levels) == int64_t{1} << codes.bits && factors.size() == codes.rows.size());
    std::array<float, lanes> repeated;
    for (size_t i = 0; i < repeated.size() && levels.size() <= repeated.size(); ++i)
        repeated[i] = levels[i % levels.size()];
    set().of_levels(codes,
                    {levels.size() <= repeated.size() ? repeated.data() : levels.data(), factors.data()});
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
