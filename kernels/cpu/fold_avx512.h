#pragma once

#include <immintrin.h>

#include <cstdint>

/// What AVX-512 loops do with the 16 partial sums of dot products: fold them in the one order of cpu_kernels.h, several at once.
#define RL_AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,f16c")))
#define RL_AVX512_INLINE RL_AVX512 __attribute__((always_inline)) inline

namespace refreshlab::kernels::cpu::avx512 {

RL_AVX512_INLINE __m128 fold_to_4(__m512 a) {
    const __m256 b = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
    return _mm_add_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
}

/// Lane o of the result = the folded sum of acc[o].
RL_AVX512_INLINE __m128 fold_four(const __m512* acc) {
    __m128 a = fold_to_4(acc[0]);
    __m128 b = fold_to_4(acc[1]);
    __m128 c = fold_to_4(acc[2]);
    __m128 d = fold_to_4(acc[3]);
    _MM_TRANSPOSE4_PS(a, b, c, d);
    return _mm_add_ps(_mm_add_ps(a, c), _mm_add_ps(b, d));
}

/// [a's two lower quarters + its two upper ones, b's the same]: lanes l + (l + 8).
RL_AVX512_INLINE __m512 fold_8(__m512 a, __m512 b) {
    return _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xEE));
}
/// Of two results of fold_8: quarter by quarter the four lanes of each of their four sums.
RL_AVX512_INLINE __m512 fold_4(__m512 a, __m512 b) {
    return _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xDD));
}
/// Of two results of fold_4: in every quarter lanes 0 + 2 of a and b, then lanes 1 + 3 of a and b.
RL_AVX512_INLINE __m512 fold_2(__m512 a, __m512 b) {
    return _mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
}

/// Four rows x 4 outputs: quarter r of the result = the folded sums of acc[r].
RL_AVX512_INLINE __m512 fold_rows(const __m512 (*acc)[4]) {
    __m512 quarters[4]; // of output o: a quarter a row
#pragma GCC unroll 4
    for (int o = 0; o < 4; ++o)
        quarters[o] = fold_4(fold_8(acc[0][o], acc[1][o]), fold_8(acc[2][o], acc[3][o]));
    const __m512 low = fold_2(quarters[0], quarters[1]), high = fold_2(quarters[2], quarters[3]);
    return _mm512_add_ps(_mm512_shuffle_ps(low, high, 0x44), _mm512_shuffle_ps(low, high, 0xEE));
}

/// Two rows x 4 outputs, in the lower half of the result.
RL_AVX512_INLINE __m512 fold_two_rows(const __m512 (*acc)[4]) {
    const __m512 even = fold_4(fold_8(acc[0][0], acc[1][0]), fold_8(acc[0][1], acc[1][1]));
    const __m512 odd = fold_4(fold_8(acc[0][2], acc[1][2]), fold_8(acc[0][3], acc[1][3]));
    const __m512 pairs =
        fold_2(even, odd); // quarters: row 0 of outputs (0, 2), row 1, row 0 of (1, 3), row 1
    const __m512 sums = _mm512_add_ps(pairs, _mm512_shuffle_ps(pairs, pairs, 0x4E));
    return _mm512_permutexvar_ps(_mm512_setr_epi32(0, 8, 1, 9, 4, 12, 5, 13, 0, 0, 0, 0, 0, 0, 0, 0), sums);
}

/// Quarter r of `sums` to row r of y.
template <int R>
RL_AVX512_INLINE void store_rows(__m512 sums, float* y, int64_t y_stride, __mmask8 outs) {
    _mm_mask_storeu_ps(y, outs, _mm512_castps512_ps128(sums));
    if constexpr (R > 1) _mm_mask_storeu_ps(y + y_stride, outs, _mm512_extractf32x4_ps(sums, 1));
    if constexpr (R > 2) _mm_mask_storeu_ps(y + 2 * y_stride, outs, _mm512_extractf32x4_ps(sums, 2));
    if constexpr (R > 3) _mm_mask_storeu_ps(y + 3 * y_stride, outs, _mm512_extractf32x4_ps(sums, 3));
}

} // namespace refreshlab::kernels::cpu::avx512
