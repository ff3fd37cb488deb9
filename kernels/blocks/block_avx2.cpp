#include "kernels/blocks/block_kernels.h"

#if defined(__x86_64__)

#include <immintrin.h>

/// The AVX-512 loops with two registers of 8 rows: first the upper half of a tile's rows for all blocks, then the lower, whose
/// lines are near by then. Many rows: panels of one tile row, 3 rows at a time. Bit for bit the same results. Nothing but kernels here (development/performance.md, 5.6).
#define RL_AVX2 __attribute__((target("avx2,fma,f16c")))
#define RL_AVX2_INLINE RL_AVX2 __attribute__((always_inline)) inline

namespace refreshlab::kernels::cpu {
namespace {

constexpr int half_rows = 8;

RL_AVX2_INLINE __m256 halves(const std::byte* p) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}

/// Numbers k of 8 rows, the first of which is `first` of the tile.
template <BlockType Type>
RL_AVX2_INLINE __m256 number(const std::byte* numbers, int first, int k) {
    if constexpr (Type == BlockType::q8_0) {
        const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(numbers + 16 * k + first));
        return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes));
    } else {
        const __m256i word =
            _mm256_loadu_si256(reinterpret_cast<const __m256i*>(numbers + 64 * (k / 8) + 4 * first));
        const __m256i q = _mm256_and_si256(_mm256_srli_epi32(word, 4 * (k % 8)), _mm256_set1_epi32(15));
        const __m256 value = _mm256_cvtepi32_ps(q);
        return Type == BlockType::q4_0 ? _mm256_sub_ps(value, _mm256_set1_ps(8)) : value;
    }
}

/// R rows against 8 outputs of a tile row.
template <BlockType Type, int R>
RL_AVX2 void half_tile_row(const BlockDots& d, int64_t row, const std::byte* tile, int first, float* y,
                           const float* bias) {
    const int64_t blocks = d.in / block_width;
    const float* const x = d.x + row * d.x_stride;
    __m256 acc[R];
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r)
        acc[r] = _mm256_setzero_ps();
    for (int64_t b = 0; b < blocks; ++b, tile += tile_bytes(Type)) {
        const float* const xb = x + b * block_width;
        __m256 chain[R][4];
#pragma GCC unroll 4
        for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
            for (int c = 0; c < 4; ++c)
                chain[r][c] = _mm256_setzero_ps();
        }
#pragma GCC unroll 32
        for (int k = 0; k < block_width; ++k) {
            const __m256 w = number<Type>(tile + tile_head_bytes(Type), first, k);
#pragma GCC unroll 4
            for (int r = 0; r < R; ++r)
                chain[r][k % 4] = _mm256_fmadd_ps(w, _mm256_set1_ps(xb[r * d.x_stride + k]), chain[r][k % 4]);
        }
        const __m256 scale = halves(tile + 2 * first);
#pragma GCC unroll 4
        for (int r = 0; r < R; ++r) {
            const __m256 s = _mm256_add_ps(_mm256_add_ps(chain[r][0], chain[r][1]),
                                           _mm256_add_ps(chain[r][2], chain[r][3]));
            acc[r] = _mm256_fmadd_ps(scale, s, acc[r]);
            if constexpr (Type == BlockType::q4_1) {
                const float sum = d.sums[(row + r) * blocks + b];
                acc[r] = _mm256_fmadd_ps(halves(tile + 32 + 2 * first), _mm256_set1_ps(sum), acc[r]);
            }
        }
    }
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
        if (bias != nullptr) acc[r] = _mm256_add_ps(acc[r], _mm256_loadu_ps(bias + first));
        _mm256_storeu_ps(y + (row + r) * d.y_stride + first, acc[r]);
    }
}

template <BlockType Type, int R>
RL_AVX2 void tile_row(const BlockDots& d, int64_t row, const std::byte* tile, float* y, const float* bias) {
    half_tile_row<Type, R>(d, row, tile, 0, y, bias);
    half_tile_row<Type, R>(d, row, tile, half_rows, y, bias);
}

template <BlockType Type>
RL_AVX2 void unpack(const std::byte* tile, int64_t blocks, BlockPanel& panel) {
    for (int64_t b = 0; b < blocks; ++b, tile += tile_bytes(Type)) {
        for (int first = 0; first < block_rows; first += half_rows) {
#pragma GCC unroll 32
            for (int k = 0; k < block_width; ++k)
                _mm256_store_ps(panel.number[b][k] + first,
                                number<Type>(tile + tile_head_bytes(Type), first, k));
            _mm256_store_ps(panel.scale[b] + first, halves(tile + 2 * first));
            if constexpr (Type == BlockType::q4_1)
                _mm256_store_ps(panel.minimum[b] + first, halves(tile + 32 + 2 * first));
        }
    }
}

/// R rows x one tile row.
template <BlockType Type, int R>
RL_AVX2 void panel_rows(const PanelDots& d) {
    for (int64_t b = 0; b < d.blocks; ++b) {
        __m256 s[R][2], early[R][2], third[R][2]; // c0 + c1, and c2
#pragma GCC unroll 4
        for (int chain = 0; chain < 4; ++chain) {
#pragma GCC unroll 4
            for (int r = 0; r < R; ++r)
                s[r][0] = s[r][1] = _mm256_setzero_ps();
#pragma GCC unroll 8
            for (int k = chain; k < block_width; k += 4) {
                const __m256 low = _mm256_load_ps(d.panels->number[b][k]);
                const __m256 high = _mm256_load_ps(d.panels->number[b][k] + half_rows);
#pragma GCC unroll 4
                for (int r = 0; r < R; ++r) {
                    const __m256 x = _mm256_set1_ps(d.x[r * LaidOutRows::x_stride + b * block_width + k]);
                    s[r][0] = _mm256_fmadd_ps(low, x, s[r][0]);
                    s[r][1] = _mm256_fmadd_ps(high, x, s[r][1]);
                }
            }
#pragma GCC unroll 4
            for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
                for (int h = 0; h < 2; ++h) {
                    if (chain == 0) early[r][h] = s[r][h];
                    if (chain == 1) early[r][h] = _mm256_add_ps(early[r][h], s[r][h]);
                    if (chain == 2) third[r][h] = s[r][h];
                    if (chain == 3) s[r][h] = _mm256_add_ps(early[r][h], _mm256_add_ps(third[r][h], s[r][h]));
                }
            }
        }
#pragma GCC unroll 4
        for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
            for (int h = 0; h < 2; ++h) {
                float* const y = d.y + r * LaidOutRows::y_stride + h * half_rows;
                __m256 sum = _mm256_fmadd_ps(_mm256_load_ps(d.panels->scale[b] + h * half_rows), s[r][h],
                                             _mm256_load_ps(y));
                if constexpr (Type == BlockType::q4_1)
                    sum = _mm256_fmadd_ps(_mm256_load_ps(d.panels->minimum[b] + h * half_rows),
                                          _mm256_set1_ps(d.sums[r * d.sums_stride + b]), sum);
                _mm256_store_ps(y, sum);
            }
        }
    }
}

/// All rows against one tile row.
template <BlockType Type>
RL_AVX2 void dots_by_panels(const BlockDots& d, const LaidOutRows& rows, const std::byte* tile, float* y,
                            const float* bias) {
    const int64_t blocks = d.in / block_width;
    PanelDots p;
    p.panels = rows.panels;
    p.sums_stride = blocks;
    const float* x = rows.x; // of the panel's blocks
    for (int64_t b = 0; b < blocks; b += BlockPanel::blocks, x += d.rows * LaidOutRows::x_stride) {
        p.blocks = blocks - b < BlockPanel::blocks ? blocks - b : BlockPanel::blocks;
        unpack<Type>(tile + b * tile_bytes(Type), p.blocks, *rows.panels);
        for (int64_t row = 0; row < d.rows;) {
            p.x = x + row * LaidOutRows::x_stride;
            p.sums = d.sums != nullptr ? d.sums + row * blocks + b : nullptr;
            p.y = rows.y + row * LaidOutRows::y_stride;
            const bool three = d.rows - row >= 3;
            if (three)
                panel_rows<Type, 3>(p);
            else
                panel_rows<Type, 1>(p);
            row += three ? 3 : 1;
        }
    }
    for (int64_t row = 0; row < d.rows; ++row) {
        for (int first = 0; first < block_rows; first += half_rows) {
            float* const from = rows.y + row * LaidOutRows::y_stride + first;
            __m256 sum = _mm256_load_ps(from);
            _mm256_store_ps(from, _mm256_setzero_ps());
            if (bias != nullptr) sum = _mm256_add_ps(sum, _mm256_loadu_ps(bias + first));
            _mm256_storeu_ps(y + row * d.y_stride + first, sum);
        }
    }
}

template <BlockType Type>
RL_AVX2 void dots_of(const BlockDots& d) {
    const int64_t tile_row_bytes = d.in / block_width * tile_bytes(Type);
    const LaidOutRows many = d.rows >= many_rows ? lay_out_rows(d) : LaidOutRows{};
    for (int64_t out = 0; out < d.outs; out += block_rows) {
        const std::byte* const tile = d.tiles + out / block_rows * tile_row_bytes;
        const float* const bias = d.bias != nullptr ? d.bias + out : nullptr;
        float* const y = d.y + out;
        if (d.rows >= many_rows) {
            dots_by_panels<Type>(d, many, tile, y, bias);
            continue;
        }
        int64_t row = 0;
        for (; row + 2 <= d.rows; row += 2)
            tile_row<Type, 2>(d, row, tile, y, bias);
        if (row < d.rows) tile_row<Type, 1>(d, row, tile, y, bias);
    }
}

} // namespace

void block_dots_avx2(const BlockDots& d) {
    switch (d.type) {
    case BlockType::q8_0:
        return dots_of<BlockType::q8_0>(d);
    case BlockType::q4_0:
        return dots_of<BlockType::q4_0>(d);
    case BlockType::q4_1:
        return dots_of<BlockType::q4_1>(d);
    }
}

} // namespace refreshlab::kernels::cpu

#else

namespace refreshlab::kernels::cpu {
void block_dots_avx2(const BlockDots& d) {
    block_dots_portable(d);
}
} // namespace refreshlab::kernels::cpu

#endif
