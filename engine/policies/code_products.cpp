#include "engine/policies/code_products.h"

#include "engine/base/check.h"
#include "engine/policies/code_lanes.h"

#include <algorithm>
#include <array>
#include <bit>
#include <vector>

#ifdef __x86_64__
#include "kernels/cpu/fold_avx512.h"

// GCC 12's own AVX-512 header passes deliberately undefined registers to its masked builtins.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"

/// Story: four rows at a time, as in the kernels' products: sixteen codes of each become numbers in a register, and meet sixteen channels of
/// up to four queries, whose 16 partial sums are registers too. A sum has 64 channels of up to four queries in registers instead.
namespace refreshlab {

namespace {

using namespace code_lanes;
namespace fold = kernels::cpu::avx512;

constexpr int64_t at_once = 4; // rows, queries
constexpr int64_t most_sixteens = 64, most_queries = 8;

/// How sixteen codes become numbers. `at` is a place in a row; Reader::make() comes before the first sixteen of some rows, and before those
/// from which on numbers change.
template <int64_t bits>
struct RowTables { ///< a table for each row and group of its codes
    const float* pairs;
    int64_t stride;
    std::array<int32_t, most_sixteens> pair_of; ///< of each sixteen
    [[nodiscard]] RL_INLINE bool changes(int64_t at) const {
        const auto k = static_cast<size_t>(at / lanes);
        return pair_of[k] != pair_of[k - 1];
    }
    template <int N>
    struct Reader {
        const RowTables& of;
        Sixteen table[N] = {};
        RL_INLINE void make(const int64_t (&rows)[N], int64_t at) {
#pragma GCC unroll 4
            for (int o = 0; o < N; ++o) {
                const float* const pair =
                    of.pairs + rows[o] * of.stride + 2 * of.pair_of[static_cast<size_t>(at / lanes)];
                std::memcpy(&table[o], repeated<bits>.data(), sizeof(Sixteen));
                table[o] = table[o] * pair[0] + pair[1];
            }
        }
        RL_INLINE void numbers(Codes& codes, int o, Sixteen& to) const {
            to = __builtin_shuffle(table[o], codes);
        }
    };
};
template <int64_t bits>
struct LevelTables { ///< one for each row
    const float* levels;
    const float* factors;
    [[nodiscard]] RL_INLINE bool changes(int64_t) const { return false; }
    template <int N>
    struct Reader {
        const LevelTables& of;
        Sixteen table[N] = {};
        RL_INLINE void make(const int64_t (&rows)[N], int64_t) {
#pragma GCC unroll 4
            for (int o = 0; o < N; ++o) {
                std::memcpy(&table[o], of.levels, sizeof(Sixteen));
                table[o] *= of.factors[rows[o]];
            }
        }
        RL_INLINE void numbers(Codes& codes, int o, Sixteen& to) const {
            to = __builtin_shuffle(table[o], codes);
        }
    };
};
template <int64_t bits>
struct ChannelScales { ///< the same for all rows
    const float *scales, *minima;
    [[nodiscard]] RL_INLINE bool changes(int64_t) const { return true; }
    template <int N>
    struct Reader {
        const ChannelScales& of;
        Sixteen scale = {}, min = {};
        RL_INLINE void make(const int64_t (&)[N], int64_t at) {
            std::memcpy(&scale, of.scales + at, sizeof(scale));
            std::memcpy(&min, of.minima + at, sizeof(min));
        }
        RL_INLINE void numbers(Codes& codes, int, Sixteen& to) const {
            cut<bits>(codes);
            to = __builtin_convertvector(codes, Sixteen) * scale + min;
        }
    };
};

struct Signs {
    const uint8_t* first; ///< of row 0
    int64_t n;
    const float* factors;
};

template <int R, int64_t bits, bool has_signs, typename Numbers>
RL_AVX512 void dots(const CodeRows& c, const Numbers& numbers, const Signs& signs, const CodeDots& d,
                    int64_t query) {
    const uint8_t* const bytes = c.bytes.data() + c.first * bits / 8;
    const int64_t row_bytes = c.row_bits / 8, n = static_cast<int64_t>(c.rows.size());
    const float* const x = d.x + query * d.x_stride;
    for (int64_t i = 0; i < n; i += at_once) {
        typename Numbers::template Reader<at_once> reader{numbers};
        int64_t rows[at_once];
        const uint8_t* from[at_once];
        __m512 acc[R][at_once];
#pragma GCC unroll 4
        for (int o = 0; o < at_once; ++o) {
            rows[o] = std::min(i + o, n - 1); // past the end: computed again, not stored
            from[o] = bytes + c.rows[static_cast<size_t>(rows[o])] * row_bytes;
#pragma GCC unroll 4
            for (int r = 0; r < R; ++r)
                acc[r][o] = _mm512_setzero_ps();
        }
        for (int64_t at = 0; at < c.n; at += lanes) {
            if (at == 0 || numbers.changes(at)) reader.make(rows, at);
            __m512 w[at_once];
#pragma GCC unroll 4
            for (int o = 0; o < at_once; ++o) {
                Codes codes;
                unpack<bits>(from[o] + at * bits / 8, codes);
                Sixteen number;
                reader.numbers(codes, o, number);
                w[o] = reinterpret_cast<__m512>(number);
            }
#pragma GCC unroll 4
            for (int r = 0; r < R; ++r) {
                const __m512 xv = _mm512_loadu_ps(x + r * d.x_stride + at);
#pragma GCC unroll 4
                for (int o = 0; o < at_once; ++o)
                    acc[r][o] = _mm512_fmadd_ps(xv, w[o], acc[r][o]);
            }
        }
        if constexpr (has_signs) {
            __m512 plus[at_once], minus[at_once];
#pragma GCC unroll 4
            for (int o = 0; o < at_once; ++o) {
                plus[o] = _mm512_set1_ps(signs.factors[rows[o]]);
                minus[o] = _mm512_set1_ps(-signs.factors[rows[o]]);
                from[o] = signs.first + c.rows[static_cast<size_t>(rows[o])] * row_bytes;
            }
            for (int64_t at = 0; at < signs.n; at += lanes) {
                __m512 w[at_once];
#pragma GCC unroll 4
                for (int o = 0; o < at_once; ++o)
                    w[o] = _mm512_mask_blend_ps(static_cast<__mmask16>(half_word(from[o] + at / 8)), minus[o],
                                                plus[o]);
#pragma GCC unroll 4
                for (int r = 0; r < R; ++r) {
                    const __m512 xv = _mm512_loadu_ps(x + r * d.x_stride + c.n + at);
#pragma GCC unroll 4
                    for (int o = 0; o < at_once; ++o)
                        acc[r][o] = _mm512_fmadd_ps(xv, w[o], acc[r][o]);
                }
            }
        }
        const auto outs = static_cast<__mmask8>(n - i < at_once ? (1U << (n - i)) - 1U : 15U);
        float* const y = d.y + query * d.y_stride + i;
        if constexpr (R == 4) {
            fold::store_rows<4>(fold::fold_rows(&acc[0]), y, d.y_stride, outs);
        } else {
#pragma GCC unroll 4
            for (int r = 0; r < R; ++r)
                _mm_mask_storeu_ps(y + r * d.y_stride, outs, fold::fold_four(acc[r]));
        }
    }
}

/// V sixteens of channels from `channel` on.
template <int R, int64_t bits, int V, typename Numbers>
RL_AVX512 void sums(const CodeRows& c, const Numbers& numbers, const CodeSums& s, int64_t query,
                    int64_t channel) {
    const uint8_t* const bytes = c.bytes.data() + (c.first + channel) * bits / 8;
    const int64_t row_bytes = c.row_bits / 8, n = static_cast<int64_t>(c.rows.size());
    const float* const p = s.p + query * s.p_stride;
    float* const to = s.acc + query * s.acc_stride + channel;
    __m512 acc[R][V];
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
        for (int v = 0; v < V; ++v)
            acc[r][v] = _mm512_loadu_ps(to + r * s.acc_stride + lanes * v);
    }
    typename Numbers::template Reader<1> reader{numbers};
    for (int64_t i = 0; i < n; ++i) {
        const uint8_t* const from = bytes + c.rows[static_cast<size_t>(i)] * row_bytes;
        const int64_t rows[1] = {i};
        __m512 w[V];
#pragma GCC unroll 4
        for (int v = 0; v < V; ++v) {
            const int64_t at = channel + lanes * v;
            if (v == 0 || numbers.changes(at)) reader.make(rows, at);
            Codes codes;
            unpack<bits>(from + lanes * v * bits / 8, codes);
            Sixteen number;
            reader.numbers(codes, 0, number);
            w[v] = reinterpret_cast<__m512>(number);
        }
#pragma GCC unroll 4
        for (int r = 0; r < R; ++r) {
            const __m512 pv = _mm512_set1_ps(p[r * s.p_stride + i]);
#pragma GCC unroll 4
            for (int v = 0; v < V; ++v)
                acc[r][v] = _mm512_fmadd_ps(pv, w[v], acc[r][v]);
        }
    }
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
        for (int v = 0; v < V; ++v)
            _mm512_storeu_ps(to + r * s.acc_stride + lanes * v, acc[r][v]);
    }
}

/// Calls work<R>(query) for R queries from `query` on, four at a time.
template <typename Work>
void by_fours(int64_t num, const Work& work) {
    int64_t query = 0;
    for (; query + 4 <= num; query += 4)
        work.template operator()<4>(query);
    if (num - query == 3) work.template operator()<3>(query);
    if (num - query == 2) work.template operator()<2>(query);
    if (num - query == 1) work.template operator()<1>(query);
}
template <int64_t bits, bool has_signs, typename Numbers>
void all_dots(const CodeRows& c, const Numbers& numbers, const Signs& signs, const CodeDots& d) {
    by_fours(d.num, [&]<int R>(int64_t query) { dots<R, bits, has_signs>(c, numbers, signs, d, query); });
}
template <int64_t bits, int V, typename Numbers>
void sums_of_channels(const CodeRows& c, const Numbers& numbers, const CodeSums& s, int64_t channel) {
    by_fours(s.num, [&]<int R>(int64_t query) { sums<R, bits, V>(c, numbers, s, query, channel); });
}
template <int64_t bits, typename Numbers>
void all_sums(const CodeRows& c, const Numbers& numbers, const CodeSums& s) {
    int64_t channel = 0;
    for (; channel + 4 * lanes <= c.n; channel += 4 * lanes)
        sums_of_channels<bits, 4>(c, numbers, s, channel);
    for (; channel < c.n; channel += lanes)
        sums_of_channels<bits, 1>(c, numbers, s, channel);
}

/// Calls work with the bits of a code as a constant.
template <typename Work>
bool with_bits(int64_t bits, const Work& work) {
    switch (bits) {
    case 1:
        work(std::integral_constant<int64_t, 1>());
        return true;
    case 2:
        work(std::integral_constant<int64_t, 2>());
        return true;
    case 3:
        work(std::integral_constant<int64_t, 3>());
        return true;
    case 4:
        work(std::integral_constant<int64_t, 4>());
        return true;
    default:
        return false;
    }
}
bool can(const CodeRows& c, int64_t queries) {
    return code_row_set() == kernels::Isa::avx512 && c.bits <= 4 && c.n % lanes == 0 &&
           c.n <= lanes * most_sixteens && c.row_bits % 8 == 0 && c.first * c.bits % 8 == 0 &&
           queries <= most_queries; // codes are read again for every four
}
bool has_whole_groups(const CodeRows& c, int64_t group) {
    return group % lanes == 0 && c.first % lanes == 0;
}

template <int64_t bits>
RowTables<bits> tables_of(const CodeRows& c, std::span<const float> pairs, int64_t group) {
    RowTables<bits> tables{pairs.data(), std::ssize(pairs) / std::ssize(c.rows), {}};
    RL_ASSERT(2 * ((c.first + c.n + group - 1) / group) <= tables.stride);
    for (int64_t k = 0; k < c.n / lanes; ++k)
        tables.pair_of[static_cast<size_t>(k)] = static_cast<int32_t>((c.first + k * lanes) / group);
    return tables;
}

} // namespace

bool dots_by_channel(const CodeRows& c, std::span<const float> pairs, const CodeDots& d) {
    static thread_local std::vector<float> scales, minima;
    if (!can(c, d.num)) return false;
    check_code_rows(c);
    RL_ASSERT(std::ssize(pairs) == 2 * c.n);
    scales.resize(static_cast<size_t>(c.n));
    minima.resize(static_cast<size_t>(c.n));
    split_pairs(pairs, scales, minima);
    return with_bits(c.bits, [&](auto bits) {
        all_dots<bits, false>(c, ChannelScales<bits>{scales.data(), minima.data()}, {}, d);
    });
}
bool dots_by_row(const CodeRows& c, std::span<const float> pairs, int64_t group, const CodeDots& d) {
    if (!can(c, d.num) || !has_whole_groups(c, group)) return false;
    check_code_rows(c);
    return with_bits(c.bits,
                     [&](auto bits) { all_dots<bits, false>(c, tables_of<bits>(c, pairs, group), {}, d); });
}
bool dots_of_levels(const CodeRows& c, std::span<const float> levels, std::span<const float> factors,
                    const CodeSigns& signs, const CodeDots& d) {
    if (!can(c, d.num) || signs.first % 8 != 0 || signs.n % lanes != 0) return false;
    check_code_rows(c);
    const auto table = repeated_levels(levels);
    RL_ASSERT(std::ssize(levels) == int64_t{1} << c.bits && factors.size() == c.rows.size());
    if (signs.n == 0) {
        return with_bits(c.bits, [&](auto bits) {
            all_dots<bits, false>(c, LevelTables<bits>{table.data(), factors.data()}, {}, d);
        });
    }
    CodeRows of_signs = c;
    of_signs.bits = 1;
    of_signs.first = signs.first;
    of_signs.n = signs.n;
    check_code_rows(of_signs);
    RL_ASSERT(signs.factors.size() == c.rows.size());
    const Signs all{c.bytes.data() + signs.first / 8, signs.n, signs.factors.data()};
    return with_bits(c.bits, [&](auto bits) {
        all_dots<bits, true>(c, LevelTables<bits>{table.data(), factors.data()}, all, d);
    });
}
bool sums_by_row(const CodeRows& c, std::span<const float> pairs, int64_t group, const CodeSums& s) {
    if (!can(c, s.num) || !has_whole_groups(c, group)) return false;
    check_code_rows(c);
    return with_bits(c.bits, [&](auto bits) { all_sums<bits>(c, tables_of<bits>(c, pairs, group), s); });
}
bool sums_of_levels(const CodeRows& c, std::span<const float> levels, std::span<const float> factors,
                    const CodeSums& s) {
    if (!can(c, s.num)) return false;
    check_code_rows(c);
    RL_ASSERT(std::ssize(levels) == int64_t{1} << c.bits && factors.size() == c.rows.size());
    const auto table = repeated_levels(levels);
    return with_bits(c.bits, [&](auto bits) {
        all_sums<bits>(c, LevelTables<bits>{table.data(), factors.data()}, s);
    });
}

} // namespace refreshlab

#else

namespace refreshlab {
bool dots_by_channel(const CodeRows&, std::span<const float>, const CodeDots&) {
    return false;
}
bool dots_by_row(const CodeRows&, std::span<const float>, int64_t, const CodeDots&) {
    return false;
}
bool dots_of_levels(const CodeRows&, std::span<const float>, std::span<const float>, const CodeSigns&,
                    const CodeDots&) {
    return false;
}
bool sums_by_row(const CodeRows&, std::span<const float>, int64_t, const CodeSums&) {
    return false;
}
bool sums_of_levels(const CodeRows&, std::span<const float>, std::span<const float>, const CodeSums&) {
    return false;
}
} // namespace refreshlab

#endif
