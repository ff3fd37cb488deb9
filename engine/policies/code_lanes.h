#pragma once

#include <array>
#include <cstdint>
#include <cstring>

/// Attention reads codes at every step, so sixteen are unpacked at once. The loops are written once, with vectors that a compiler turns
/// into those of an instruction set, and forced inline into a function for each (as kernels/cpu/cpu_lanes.h does).
#define RL_INLINE [[gnu::always_inline]] inline

namespace refreshlab::code_lanes {

constexpr int64_t lanes = 16;
using Sixteen [[gnu::vector_size(lanes * sizeof(float))]] = float;
using Codes [[gnu::vector_size(lanes * sizeof(int32_t))]] = int32_t;
using Bytes [[gnu::vector_size(lanes)]] = uint8_t;

RL_INLINE int32_t word(const uint8_t* from) {
    int32_t all = 0;
    std::memcpy(&all, from, sizeof(all));
    return all;
}
RL_INLINE int32_t half_word(const uint8_t* from) {
    uint16_t all = 0;
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
        codes = (Codes{} + (bits == 2 ? word(from) : half_word(from))) >>
                Codes{0,     s,     2 * s,  3 * s,  4 * s,  5 * s,  6 * s,  7 * s,
                      8 * s, 9 * s, 10 * s, 11 * s, 12 * s, 13 * s, 14 * s, 15 * s};
    } else {
        static_assert(bits == 3 ||
                      bits ==
                          4); // eight codes fit into a word; the second one of 3 bits begins in its middle
        constexpr int32_t middle = bits == 4 ? 0 : 8;
        const int32_t a = word(from), b = word(from + (bits == 4 ? 4 : 2));
        constexpr Codes by{0,
                           s,
                           2 * s,
                           3 * s,
                           4 * s,
                           5 * s,
                           6 * s,
                           7 * s,
                           middle,
                           middle + s,
                           middle + 2 * s,
                           middle + 3 * s,
                           middle + 4 * s,
                           middle + 5 * s,
                           middle + 6 * s,
                           middle + 7 * s};
        // Not one vector of a's and b's: gcc 12 would put it together in memory.
        constexpr Codes second{0, 0, 0, 0, 0, 0, 0, 0, -1, -1, -1, -1, -1, -1, -1, -1};
        codes = (second ? Codes{} + b : Codes{} + a) >> by;
    }
}
/// Bits of `minus` where a code of one bit is 0, and with another sign where it is 1.
RL_INLINE void sixteen_signs(const uint8_t* from, const Codes& minus, Codes& to) {
    constexpr Codes to_top{31, 30, 29, 28, 27, 26, 25, 24, 23, 22, 21, 20, 19, 18, 17, 16};
    to = (((Codes{} + half_word(from)) << to_top) & INT32_MIN) ^ minus;
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

} // namespace refreshlab::code_lanes
