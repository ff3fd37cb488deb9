#include "kernels/blocks/block_kernels.h"

#if defined(__x86_64__)

#include <immintrin.h>

// GCC 12's own AVX-512 header passes deliberately undefined registers to its masked builtins.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"

/// Story: the 16 rows of a tile are the 16 lanes. A number of four bits becomes fp32 by one shift and one look-up in a register of 16
/// floats (a permutation looks at the low four bits of each lane). So the weights are used exactly, at three operations for 16 of
/// them. Products of bytes (VNNI, activations rounded to 8 bits) take a third of that, and at two threads both read at the memory's
/// speed: on Zen 5 47 GB/s of 48. More rows share what was unpacked.
/// Many rows are bound by arithmetic: panels of two tile rows, 5 rows at a time. The four chains of a block run one after the other, so
/// that ten sums stand in registers and not forty. Rows are laid out without strides. Tried and dropped: chains side by side (0.5), 6, 8 and 12 rows, three and four tile rows, asking for the next rows early.
/// The file holds nothing but kernels (development/performance.md, 5.6).
#define RL_AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,f16c")))
#define RL_AVX512_INLINE RL_AVX512 __attribute__((always_inline)) inline

namespace refreshlab::kernels::cpu {
namespace {

constexpr int64_t ahead_bytes = 4096; // how far in front memory is asked for: 8 to 14 tiles

RL_AVX512_INLINE __m512 table_of(BlockType type) {
    const __m512 numbers = _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    return type == BlockType::q4_0 ? _mm512_sub_ps(numbers, _mm512_set1_ps(8)) : numbers;
}

RL_AVX512_INLINE __m512 halves(const std::byte* p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}

/// Numbers k of a tile's 16 rows.
template <BlockType Type>
RL_AVX512_INLINE __m512 number(const std::byte* numbers, int k, __m512 table) {
    if constexpr (Type == BlockType::q8_0) {
        const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(numbers + 16 * k));
        return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes));
    } else {
        const __m512i word = _mm512_loadu_si512(numbers + 64 * (k / 8));
        return _mm512_permutexvar_ps(_mm512_srli_epi32(word, static_cast<unsigned>(4 * (k % 8))), table);
    }
}

/// R rows against one tile row: 16 outputs.
template <BlockType Type, int R>
RL_AVX512 void tile_row(const BlockDots& d, int64_t row, const std::byte* tile, float* y, const float* bias) {
    const __m512 table = table_of(Type);
    const int64_t blocks = d.in / block_width;
    const float* const x = d.x + row * d.x_stride;
    __m512 acc[R];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r)
        acc[r] = _mm512_setzero_ps();
    for (int64_t b = 0; b < blocks; ++b, tile += tile_bytes(Type)) {
        constexpr int lines = static_cast<int>((tile_bytes(Type) + 63) / 64);
        for (int line = 0; line < lines; ++line)
            _mm_prefetch(reinterpret_cast<const char*>(tile) + ahead_bytes + 64 * line, _MM_HINT_T0);
        const float* const xb = x + b * block_width;
        __m512 chain[R][4];
#pragma GCC unroll 8
        for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
            for (int c = 0; c < 4; ++c)
                chain[r][c] = _mm512_setzero_ps();
        }
#pragma GCC unroll 32
        for (int k = 0; k < block_width; ++k) {
            const __m512 w = number<Type>(tile + tile_head_bytes(Type), k, table);
#pragma GCC unroll 8
            for (int r = 0; r < R; ++r)
                chain[r][k % 4] = _mm512_fmadd_ps(w, _mm512_set1_ps(xb[r * d.x_stride + k]), chain[r][k % 4]);
        }
        const __m512 scale = halves(tile);
#pragma GCC unroll 8
        for (int r = 0; r < R; ++r) {
            const __m512 s = _mm512_add_ps(_mm512_add_ps(chain[r][0], chain[r][1]),
                                           _mm512_add_ps(chain[r][2], chain[r][3]));
            acc[r] = _mm512_fmadd_ps(scale, s, acc[r]);
            if constexpr (Type == BlockType::q4_1) {
                const float sum = d.sums[(row + r) * blocks + b];
                acc[r] = _mm512_fmadd_ps(halves(tile + 32), _mm512_set1_ps(sum), acc[r]);
            }
        }
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
        if (bias != nullptr) acc[r] = _mm512_add_ps(acc[r], _mm512_loadu_ps(bias));
        _mm512_storeu_ps(y + (row + r) * d.y_stride, acc[r]);
    }
}

template <BlockType Type>
RL_AVX512 void unpack(const std::byte* tile, int64_t blocks, BlockPanel& panel) {
    const __m512 table = table_of(Type);
    for (int64_t b = 0; b < blocks; ++b, tile += tile_bytes(Type)) {
#pragma GCC unroll 32
        for (int k = 0; k < block_width; ++k)
            _mm512_store_ps(panel.number[b][k], number<Type>(tile + tile_head_bytes(Type), k, table));
        _mm512_store_ps(panel.scale[b], halves(tile));
        if constexpr (Type == BlockType::q4_1) _mm512_store_ps(panel.minimum[b], halves(tile + 32));
    }
}

/// R rows x T tile rows against block b of their panels: s of the order of sums (block_kernels.h).
template <int R, int T>
RL_AVX512_INLINE void block_sums(const PanelDots& d, int64_t b, __m512 (&s)[R][T]) {
    __m512 early[R][T], third[R][T]; // c0 + c1, and c2
#pragma GCC unroll 4
    for (int chain = 0; chain < 4; ++chain) {
#pragma GCC unroll 8
        for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
            for (int t = 0; t < T; ++t)
                s[r][t] = _mm512_setzero_ps();
        }
#pragma GCC unroll 8
        for (int k = chain; k < block_width; k += 4) {
            __m512 w[T];
#pragma GCC unroll 2
            for (int t = 0; t < T; ++t)
                w[t] = _mm512_load_ps(d.panels[t].number[b][k]);
#pragma GCC unroll 8
            for (int r = 0; r < R; ++r) {
                const __m512 x = _mm512_set1_ps(d.x[r * LaidOutRows::x_stride + b * block_width + k]);
#pragma GCC unroll 2
                for (int t = 0; t < T; ++t)
                    s[r][t] = _mm512_fmadd_ps(w[t], x, s[r][t]);
            }
        }
#pragma GCC unroll 8
        for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
            for (int t = 0; t < T; ++t) {
                if (chain == 0) early[r][t] = s[r][t];
                if (chain == 1) early[r][t] = _mm512_add_ps(early[r][t], s[r][t]);
                if (chain == 2) third[r][t] = s[r][t];
                if (chain == 3) s[r][t] = _mm512_add_ps(early[r][t], _mm512_add_ps(third[r][t], s[r][t]));
            }
        }
    }
}

/// R rows x T tile rows.
template <BlockType Type, int R, int T>
RL_AVX512 void panel_rows(const PanelDots& d) {
    for (int64_t b = 0; b < d.blocks; ++b) {
        __m512 s[R][T];
        block_sums<R, T>(d, b, s);
#pragma GCC unroll 8
        for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
            for (int t = 0; t < T; ++t) {
                float* const y = d.y + r * LaidOutRows::y_stride + t * block_rows;
                __m512 sum =
                    _mm512_fmadd_ps(_mm512_load_ps(d.panels[t].scale[b]), s[r][t], _mm512_load_ps(y));
                if constexpr (Type == BlockType::q4_1)
                    sum = _mm512_fmadd_ps(_mm512_load_ps(d.panels[t].minimum[b]),
                                          _mm512_set1_ps(d.sums[r * d.sums_stride + b]), sum);
                _mm512_store_ps(y, sum);
            }
        }
    }
}

/// All rows against T tile rows.
template <BlockType Type, int T>
RL_AVX512 void dots_by_panels(const BlockDots& d, const LaidOutRows& rows, const std::byte* tile, float* y,
                              const float* bias) {
    const int64_t blocks = d.in / block_width;
    PanelDots p;
    p.panels = rows.panels;
    p.sums_stride = blocks;
    const float* x = rows.x; // of the panels' blocks
    for (int64_t b = 0; b < blocks; b += BlockPanel::blocks, x += d.rows * LaidOutRows::x_stride) {
        p.blocks = blocks - b < BlockPanel::blocks ? blocks - b : BlockPanel::blocks;
        for (int t = 0; t < T; ++t)
            unpack<Type>(tile + (t * blocks + b) * tile_bytes(Type), p.blocks, rows.panels[t]);
        for (int64_t row = 0; row < d.rows;) {
            p.x = x + row * LaidOutRows::x_stride;
            p.sums = d.sums != nullptr ? d.sums + row * blocks + b : nullptr;
            p.y = rows.y + row * LaidOutRows::y_stride;
            const int64_t left = d.rows - row;
            if (left >= 5)
                panel_rows<Type, 5, T>(p);
            else if (left >= 2)
                panel_rows<Type, 2, T>(p);
            else
                panel_rows<Type, 1, T>(p);
            row += left >= 5 ? 5 : left >= 2 ? 2 : 1;
        }
    }
    for (int64_t row = 0; row < d.rows; ++row) {
        for (int t = 0; t < T; ++t) {
            float* const from = rows.y + row * LaidOutRows::y_stride + t * block_rows;
            __m512 sum = _mm512_load_ps(from);
            _mm512_store_ps(from, _mm512_setzero_ps());
            if (bias != nullptr) sum = _mm512_add_ps(sum, _mm512_loadu_ps(bias + t * block_rows));
            _mm512_storeu_ps(y + row * d.y_stride + t * block_rows, sum);
        }
    }
}

template <BlockType Type>
RL_AVX512 void dots_of_many(const BlockDots& d) {
    const LaidOutRows rows = lay_out_rows(d);
    const int64_t tile_row_bytes = d.in / block_width * tile_bytes(Type);
    for (int64_t out = 0; out < d.outs;) {
        const std::byte* const tile = d.tiles + out / block_rows * tile_row_bytes;
        const float* const bias = d.bias != nullptr ? d.bias + out : nullptr;
        const bool two = d.outs - out >= 2 * block_rows;
        if (two)
            dots_by_panels<Type, 2>(d, rows, tile, d.y + out, bias);
        else
            dots_by_panels<Type, 1>(d, rows, tile, d.y + out, bias);
        out += (two ? 2 : 1) * block_rows;
    }
}

template <BlockType Type>
RL_AVX512 void dots_of(const BlockDots& d) {
    if (d.rows >= many_rows) return dots_of_many<Type>(d);
    const int64_t tile_row_bytes = d.in / block_width * tile_bytes(Type);
    for (int64_t out = 0; out < d.outs; out += block_rows) {
        const std::byte* const tile = d.tiles + out / block_rows * tile_row_bytes;
        const float* const bias = d.bias != nullptr ? d.bias + out : nullptr;
        float* const y = d.y + out;
        int64_t row = 0;
        for (; row + 6 <= d.rows; row += 6)
            tile_row<Type, 6>(d, row, tile, y, bias);
        switch (d.rows - row) {
        case 5:
            tile_row<Type, 5>(d, row, tile, y, bias);
            break;
        case 4:
            tile_row<Type, 4>(d, row, tile, y, bias);
            break;
        case 3:
            tile_row<Type, 3>(d, row, tile, y, bias);
            break;
        case 2:
            tile_row<Type, 2>(d, row, tile, y, bias);
            break;
        case 1:
            tile_row<Type, 1>(d, row, tile, y, bias);
            break;
        default:
            break;
        }
    }
}

} // namespace

void block_dots_avx512(const BlockDots& d) {
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
void block_dots_avx512(const BlockDots& d) {
    block_dots_portable(d);
}
} // namespace refreshlab::kernels::cpu

#endif
