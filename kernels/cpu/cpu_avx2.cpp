#include "kernels/cpu/cpu_lanes.h"

#if defined(__x86_64__)

#include <immintrin.h>

/// AVX2 + FMA + F16C inner loops, bit for bit those of AVX-512: 16 partial sums are two registers of 8. Story: with 16
/// registers a block of 3 rows x 4 outputs fits only for half of the lanes, so the block is run twice, first for lanes
/// 0-7, then for lanes 8-15 (its operands are in the first cache by then). One row takes both halves at once: there the
/// weights must be read once. Every function carries its target, the file none (development/performance.md, 5.6).
#define RL_AVX2 __attribute__((target("avx2,fma,f16c")))
#define RL_AVX2_INLINE RL_AVX2 __attribute__((always_inline)) inline

namespace refreshlab::kernels::cpu {
namespace {

/// High and low halves of eight 32 x 32-bit products.
struct Products {
    __m256i high, low;
};
RL_AVX2_INLINE Products multiply(__m256i a, __m256i b) {
    const __m256i even = _mm256_mul_epu32(a, b);
    const __m256i odd = _mm256_mul_epu32(_mm256_srli_epi64(a, 32), b);
    return {_mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xAA),
            _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xAA)};
}

RL_AVX2 void mask_factors(const shared::MaskStream& stream, uint32_t block, float scale, float* factor) {
    const __m256i multiplier_0 = _mm256_set1_epi32(static_cast<int>(shared::philox_multiplier_0));
    const __m256i multiplier_1 = _mm256_set1_epi32(static_cast<int>(shared::philox_multiplier_1));
    // Draws and threshold are at most 65536: a signed "threshold > draw" tells the dropped ones.
    const __m256i threshold = _mm256_set1_epi32(static_cast<int>(stream.threshold));
    const __m256 kept = _mm256_set1_ps(scale);
    for (int half = 0; half < 2; ++half) {
        const int first = static_cast<int>(block * shared::mask_lanes) + 8 * half;
        __m256i word[4] = {
            _mm256_add_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), _mm256_set1_epi32(first)),
            _mm256_set1_epi32(static_cast<int>(stream.high)),
            _mm256_set1_epi32(static_cast<int>(stream.position)),
            _mm256_set1_epi32(static_cast<int>(stream.tag))};
        uint32_t key_0 = stream.key_0;
        uint32_t key_1 = stream.key_1;
        for (int round = 0; round < shared::philox_rounds; ++round) {
            const Products p0 = multiply(word[0], multiplier_0);
            const Products p1 = multiply(word[2], multiplier_1);
            word[0] = _mm256_xor_si256(_mm256_xor_si256(p1.high, word[1]),
                                       _mm256_set1_epi32(static_cast<int>(key_0)));
            word[1] = p1.low;
            word[2] = _mm256_xor_si256(_mm256_xor_si256(p0.high, word[3]),
                                       _mm256_set1_epi32(static_cast<int>(key_1)));
            word[3] = p0.low;
            key_0 += shared::philox_weyl_0;
            key_1 += shared::philox_weyl_1;
        }
        for (int w = 0; w < 4; ++w) {
            const __m256i low = _mm256_and_si256(word[w], _mm256_set1_epi32(0xFFFF));
            const __m256i high = _mm256_srli_epi32(word[w], 16);
            float* const out = factor + 32 * w + 8 * half;
            const __m256 low_dropped = _mm256_castsi256_ps(_mm256_cmpgt_epi32(threshold, low));
            const __m256 high_dropped = _mm256_castsi256_ps(_mm256_cmpgt_epi32(threshold, high));
            _mm256_storeu_ps(out, _mm256_andnot_ps(low_dropped, kept));
            _mm256_storeu_ps(out + 16, _mm256_andnot_ps(high_dropped, kept));
        }
    }
}

RL_DEFINE_LANE_KERNELS(RL_AVX2)

RL_AVX2_INLINE __m256 load(const float* p) {
    return _mm256_loadu_ps(p);
}
RL_AVX2_INLINE __m256 load(const Bf16* p) {
    const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
}
RL_AVX2_INLINE __m256 load(const F16* p) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}

/// The first `count` elements, at least 1 and of more the first 8, zeros after them.
template <typename T>
RL_AVX2_INLINE __m256 load_part(const T* p, int64_t count) {
    if (count >= 8) return load(p);
    T part[8] = {};
    for (int64_t i = 0; i < count; ++i)
        part[i] = p[i];
    return load(part);
}
/// Of floats the processor leaves out what is behind them: rows of any length are as fast as whole ones.
RL_AVX2_INLINE __m256 load_part(const float* p, int64_t count) {
    alignas(64) static constexpr int32_t mask[16] = {-1, -1, -1, -1, -1, -1, -1, -1};
    if (count >= 8) return load(p);
    return _mm256_maskload_ps(p, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(mask + 8 - count)));
}

RL_AVX2_INLINE __m128 fold_to_4(__m256 low, __m256 high) {
    const __m256 b = _mm256_add_ps(low, high);
    return _mm_add_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
}

RL_AVX2_INLINE __m128 fold_four(const __m256* low, const __m256* high) {
    __m128 a = fold_to_4(low[0], high[0]);
    __m128 b = fold_to_4(low[1], high[1]);
    __m128 c = fold_to_4(low[2], high[2]);
    __m128 d = fold_to_4(low[3], high[3]);
    _MM_TRANSPOSE4_PS(a, b, c, d);
    return _mm_add_ps(_mm_add_ps(a, c), _mm_add_ps(b, d));
}

/// Partial sums of H halves (1: lanes [lane, lane + 8); 2: all 16) of R rows x 4 outputs; acc[h][r][o].
template <int H, int R, typename W>
RL_AVX2_INLINE void accumulate(const float* x, int64_t x_stride, const W* const* w, int64_t n, int64_t lane,
                               __m256 (&acc)[H][R][4]) {
#pragma GCC unroll 2
    for (int h = 0; h < H; ++h) {
#pragma GCC unroll 4
        for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
            for (int o = 0; o < 4; ++o)
                acc[h][r][o] = _mm256_setzero_ps();
        }
    }
    int64_t i = lane;
    const int64_t whole = n / 16 * 16;
    for (; i < whole; i += 16) {
#pragma GCC unroll 2
        for (int h = 0; h < H; ++h) {
            __m256 xv[R];
#pragma GCC unroll 4
            for (int r = 0; r < R; ++r)
                xv[r] = load(x + r * x_stride + i + 8 * h);
#pragma GCC unroll 4
            for (int o = 0; o < 4; ++o) {
                const __m256 wv = load(w[o] + i + 8 * h);
#pragma GCC unroll 4
                for (int r = 0; r < R; ++r)
                    acc[h][r][o] = _mm256_fmadd_ps(xv[r], wv, acc[h][r][o]);
            }
        }
    }
#pragma GCC unroll 2
    for (int h = 0; h < H; ++h) {
        const int64_t left = n - i - 8 * h;
        if (left <= 0) break;
#pragma GCC unroll 4
        for (int o = 0; o < 4; ++o) {
            const __m256 wv = load_part(w[o] + i + 8 * h, left);
#pragma GCC unroll 4
            for (int r = 0; r < R; ++r) {
                acc[h][r][o] =
                    _mm256_fmadd_ps(load_part(x + r * x_stride + i + 8 * h, left), wv, acc[h][r][o]);
            }
        }
    }
}

/// Asks for the lines of memory that the next outputs need.
RL_AVX2_INLINE void ask_ahead(const void* data, int64_t size_bytes) {
    for (int64_t i = 0; i < size_bytes; i += 64)
        _mm_prefetch(static_cast<const char*>(data) + i, _MM_HINT_T0);
}

template <int R, typename W>
RL_AVX2 void dot_rows(const Dots& d, int64_t row, const W* const* w, int64_t out, int64_t num_outs) {
    float sums[R * 4];
    const float* const x = d.x + row * d.x_stride;
    if constexpr (R == 1) {
        __m256 acc[2][1][4];
        if (d.w_index == nullptr && !d.near)
            ask_ahead(w[0] + 4 * d.w_stride, 4 * d.in * static_cast<int64_t>(sizeof(W)));
        accumulate<2, 1, W>(x, d.x_stride, w, d.in, 0, acc);
        _mm_storeu_ps(sums, fold_four(acc[0][0], acc[1][0]));
    } else {
        __m256 low[1][R][4];
        __m256 high[1][R][4];
        accumulate<1, R, W>(x, d.x_stride, w, d.in, 0, low);
        accumulate<1, R, W>(x, d.x_stride, w, d.in, 8, high);
        for (int r = 0; r < R; ++r)
            _mm_storeu_ps(sums + 4 * r, fold_four(low[0][r], high[0][r]));
    }
    for (int r = 0; r < R; ++r) {
        float* const y = d.y + (row + r) * d.y_stride + out;
        for (int64_t o = 0; o < num_outs; ++o) {
            y[o] = d.bias != nullptr ? sums[4 * r + o] + d.bias[out + o] : sums[4 * r + o];
        }
    }
}

template <typename W>
RL_AVX2 void dots_of(const Dots& d) {
    const W* const base = static_cast<const W*>(d.w);
    for (int64_t out = 0; out < d.outs; out += 4) {
        const int64_t num_outs = d.outs - out < 4 ? d.outs - out : 4;
        const W* w[4];
        for (int64_t o = 0; o < 4; ++o) {
            const int64_t real =
                out + (o < num_outs ? o : num_outs - 1); // past the end: computed again, not stored
            w[o] = base + (d.w_index != nullptr ? d.w_index[real] : real) * d.w_stride;
        }
        // Keys of a cache: short rows, listed or not.
        constexpr int64_t short_row = 1024 / sizeof(W), ahead = 8;
        for (int64_t o = out + ahead; d.in <= short_row && o < out + ahead + 4 && o < d.outs && !d.near; ++o)
            ask_ahead(base + (d.w_index != nullptr ? d.w_index[o] : o) * d.w_stride,
                      d.in * static_cast<int64_t>(sizeof(W)));
        int64_t row = 0;
        for (; row + 3 <= d.rows; row += 3)
            dot_rows<3, W>(d, row, w, out, num_outs);
        if (d.rows - row == 2)
            dot_rows<2, W>(d, row, w, out, num_outs);
        else if (d.rows - row == 1)
            dot_rows<1, W>(d, row, w, out, num_outs);
    }
}

void dots(const Dots& d) {
    switch (d.w_type) {
    case ElementType::f32:
        return dots_of<float>(d);
    case ElementType::bf16:
        return dots_of<Bf16>(d);
    case ElementType::f16:
        return dots_of<F16>(d);
    }
}

/// R rows x 32 channels, all there.
template <int R, typename V>
RL_AVX2 void sum_block(const WeightedSum& s, int64_t row, int64_t channel) {
    float* const acc_base = s.acc + row * s.acc_stride + channel;
    __m256 acc[R][4];
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
        for (int q = 0; q < 4; ++q)
            acc[r][q] = load(acc_base + r * s.acc_stride + 8 * q);
    }
    constexpr int64_t ahead = 16; // positions
    const V* const base = static_cast<const V*>(s.v) + channel;
    const float* const p = s.p + row * s.p_stride;
    for (int64_t c = s.begin; c < s.end; ++c) {
        const V* const v = base + (s.v_index != nullptr ? s.v_index[c] : c) * s.v_stride;
        if (row == 0 && !s.near) { // values that come later, listed or not
            const int64_t later = c + ahead < s.end ? c + ahead : c;
            ask_ahead(base + (s.v_index != nullptr ? s.v_index[later] : later) * s.v_stride,
                      32 * static_cast<int64_t>(sizeof(V)));
        }
        __m256 pv[R];
#pragma GCC unroll 4
        for (int r = 0; r < R; ++r)
            pv[r] = _mm256_set1_ps(p[r * s.p_stride + c]);
#pragma GCC unroll 4
        for (int q = 0; q < 4; ++q) {
            const __m256 vv = load(v + 8 * q);
#pragma GCC unroll 4
            for (int r = 0; r < R; ++r)
                acc[r][q] = _mm256_fmadd_ps(pv[r], vv, acc[r][q]);
        }
    }
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
        for (int q = 0; q < 4; ++q)
            _mm256_storeu_ps(acc_base + r * s.acc_stride + 8 * q, acc[r][q]);
    }
}

/// One row, up to 8 channels at the end of the width.
template <typename V>
RL_AVX2 void sum_tail(const WeightedSum& s, int64_t row, int64_t channel) {
    const int64_t count = s.width - channel < 8 ? s.width - channel : 8;
    float* const acc_base = s.acc + row * s.acc_stride + channel;
    __m256 acc = load_part(acc_base, count);
    const V* const base = static_cast<const V*>(s.v) + channel;
    for (int64_t c = s.begin; c < s.end; ++c) {
        const V* const v = base + (s.v_index != nullptr ? s.v_index[c] : c) * s.v_stride;
        acc = _mm256_fmadd_ps(_mm256_set1_ps(s.p[row * s.p_stride + c]), load_part(v, count), acc);
    }
    alignas(32) float out[8];
    _mm256_store_ps(out, acc);
    for (int64_t i = 0; i < count; ++i)
        acc_base[i] = out[i];
}

template <typename V>
void weighted_sum_of(const WeightedSum& s) {
    const int64_t whole = s.width / 32 * 32;
    for (int64_t channel = 0; channel < whole; channel += 32) {
        int64_t row = 0;
        for (; s.rows - row == 3 || s.rows - row > 4; row += 3)
            sum_block<3, V>(s, row, channel);
        for (; row + 2 <= s.rows; row += 2)
            sum_block<2, V>(s, row, channel);
        if (row < s.rows) sum_block<1, V>(s, row, channel);
    }
    for (int64_t channel = whole; channel < s.width; channel += 8) {
        for (int64_t row = 0; row < s.rows; ++row)
            sum_tail<V>(s, row, channel);
    }
}

void weighted_sum(const WeightedSum& s) {
    if (s.begin >= s.end) return;
    switch (s.v_type) {
    case ElementType::f32:
        return weighted_sum_of<float>(s);
    case ElementType::bf16:
        return weighted_sum_of<Bf16>(s);
    case ElementType::f16:
        return weighted_sum_of<F16>(s);
    }
}

} // namespace

const CpuKernels* avx2_kernels() {
    static const CpuKernels table{dots, weighted_sum, RL_LANE_KERNELS};
    static const bool here =
        __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
    return here ? &table : nullptr;
}

} // namespace refreshlab::kernels::cpu

#else

namespace refreshlab::kernels::cpu {
const CpuKernels* avx2_kernels() {
    return nullptr;
}
} // namespace refreshlab::kernels::cpu

#endif
