#include "kernels/cpu/cpu_lanes.h"

#if defined(__x86_64__)

#include "kernels/cpu/fold_avx512.h"

#include <vector>

// GCC 12's own AVX-512 header passes deliberately undefined registers to its masked builtins.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"

/// AVX-512 inner loops. Story: the dot products of a block of 6 rows x 4 outputs live in 24 of the 32 registers; per 16
/// elements that is 24 multiply-adds for 10 loads, so large row counts are bound by arithmetic (one 512-bit multiply-add
/// a cycle on Zen 4, two on Sapphire Rapids) and one row is bound by reading the weights. Left to the hardware,
/// rows of weights that are read side by side came in at half of the memory's speed: so a block asks for the lines of the
/// block after the next while it works (1.5 times as fast on Zen 5, from memory and from the third cache). Keys of a cache
/// come 8 at a time to one row, to have 8 independent chains. Every function carries its target, the file none: nothing of it may be emitted as
/// a shared inline function (development/performance.md, 5.6).

namespace refreshlab::kernels::cpu {
namespace {

using namespace avx512;

/// High and low halves of sixteen 32 x 32-bit products.
struct Products {
    __m512i high, low;
};
RL_AVX512_INLINE Products multiply(__m512i a, __m512i b) {
    const __m512i even = _mm512_mul_epu32(a, b);
    const __m512i odd = _mm512_mul_epu32(_mm512_srli_epi64(a, 32), b);
    return {_mm512_mask_blend_epi32(0xAAAA, _mm512_srli_epi64(even, 32), odd),
            _mm512_mask_blend_epi32(0xAAAA, even, _mm512_slli_epi64(odd, 32))};
}

RL_AVX512 void mask_factors(const shared::MaskStream& stream, uint32_t block, float scale, float* factor) {
    const auto all = [](uint32_t value) { return static_cast<int>(value); };
    const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __m512i multiplier_0 = _mm512_set1_epi32(all(shared::philox_multiplier_0));
    const __m512i multiplier_1 = _mm512_set1_epi32(all(shared::philox_multiplier_1));
    __m512i word[4] = {_mm512_add_epi32(lane, _mm512_set1_epi32(all(block * shared::mask_lanes))),
                       _mm512_set1_epi32(all(stream.high)), _mm512_set1_epi32(all(stream.position)),
                       _mm512_set1_epi32(all(stream.tag))};
    uint32_t key_0 = stream.key_0;
    uint32_t key_1 = stream.key_1;
    for (int round = 0; round < shared::philox_rounds; ++round) {
        const Products p0 = multiply(word[0], multiplier_0);
        const Products p1 = multiply(word[2], multiplier_1);
        word[0] = _mm512_xor_si512(_mm512_xor_si512(p1.high, word[1]), _mm512_set1_epi32(all(key_0)));
        word[1] = p1.low;
        word[2] = _mm512_xor_si512(_mm512_xor_si512(p0.high, word[3]), _mm512_set1_epi32(all(key_1)));
        word[3] = p0.low;
        key_0 += shared::philox_weyl_0;
        key_1 += shared::philox_weyl_1;
    }
    const __m512i threshold = _mm512_set1_epi32(all(stream.threshold));
    const __m512 kept = _mm512_set1_ps(scale);
    for (int w = 0; w < 4; ++w) {
        const __m512i low = _mm512_and_si512(word[w], _mm512_set1_epi32(0xFFFF));
        const __m512i high = _mm512_srli_epi32(word[w], 16);
        _mm512_storeu_ps(factor + 32 * w, _mm512_maskz_mov_ps(_mm512_cmpge_epu32_mask(low, threshold), kept));
        _mm512_storeu_ps(factor + 32 * w + 16,
                         _mm512_maskz_mov_ps(_mm512_cmpge_epu32_mask(high, threshold), kept));
    }
}

RL_DEFINE_LANE_KERNELS(RL_AVX512)

RL_AVX512_INLINE __m512 load(const float* p) {
    return _mm512_loadu_ps(p);
}
RL_AVX512_INLINE __m512 load(const float* p, __mmask16 mask) {
    return _mm512_maskz_loadu_ps(mask, p);
}
RL_AVX512_INLINE __m512 widen(__m256i bits) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
}
RL_AVX512_INLINE __m512 load(const Bf16* p) {
    return widen(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
RL_AVX512_INLINE __m512 load(const Bf16* p, __mmask16 mask) {
    return widen(_mm256_maskz_loadu_epi16(mask, p));
}
RL_AVX512_INLINE __m512 load(const F16* p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
RL_AVX512_INLINE __m512 load(const F16* p, __mmask16 mask) {
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(mask, p));
}

/// R rows x O outputs (O = 4 or 8): the 16 partial sums of each.
/// \tparam Step   elements i of a row of weights stand at Step * i (4: in a panel)
/// \param ahead  where the weights that come later begin; they are asked for as fast as these are used. Null: not.
template <int R, int O, bool Ahead, int Step = 1, typename W>
RL_AVX512_INLINE void accumulate(const float* x, int64_t x_stride, const W* const* w, int64_t n,
                                 [[maybe_unused]] const char* ahead, __m512 (&acc)[R][O]) {
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
        for (int o = 0; o < O; ++o)
            acc[r][o] = _mm512_setzero_ps();
    }
    int64_t i = 0;
    for (; i + 16 <= n; i += 16) {
        if constexpr (Ahead) {
            constexpr int lines = O * 16 * static_cast<int>(sizeof(W)) / 64;
#pragma GCC unroll 8
            for (int line = 0; line < lines; ++line)
                _mm_prefetch(ahead + 64 * line, _MM_HINT_T0);
            ahead += 64 * lines;
        }
        __m512 wv[O];
#pragma GCC unroll 8
        for (int o = 0; o < O; ++o)
            wv[o] = load(w[o] + Step * i);
#pragma GCC unroll 8
        for (int r = 0; r < R; ++r) {
            const __m512 xv = load(x + r * x_stride + i);
#pragma GCC unroll 8
            for (int o = 0; o < O; ++o)
                acc[r][o] = _mm512_fmadd_ps(xv, wv[o], acc[r][o]);
        }
    }
    if (i < n) {
        const __mmask16 mask = static_cast<__mmask16>((1U << (n - i)) - 1U);
        __m512 wv[O];
#pragma GCC unroll 8
        for (int o = 0; o < O; ++o)
            wv[o] = load(w[o] + Step * i, mask);
#pragma GCC unroll 8
        for (int r = 0; r < R; ++r) {
            const __m512 xv = load(x + r * x_stride + i, mask);
#pragma GCC unroll 8
            for (int o = 0; o < O; ++o)
                acc[r][o] = _mm512_fmadd_ps(xv, wv[o], acc[r][o]);
        }
    }
}

/// The bias of up to 4 outputs, in every quarter.
RL_AVX512_INLINE __m512 bias_quarters(const float* bias, __mmask8 outs) {
    return _mm512_broadcast_f32x4(_mm_maskz_loadu_ps(outs, bias));
}

/// Six rows x up to 4 outputs.
template <bool Ahead, int Step, typename W>
RL_AVX512 void dot_six(const Dots& d, int64_t row, const W* const* w, int64_t out, int64_t num_outs) {
    __m512 acc[6][4];
    const W* const ahead = w[0] + 4 * d.w_stride;
    accumulate<6, 4, Ahead, Step>(d.x + row * d.x_stride, d.x_stride, w, d.in,
                                  reinterpret_cast<const char*>(ahead), acc);
    const auto outs = static_cast<__mmask8>((1U << num_outs) - 1U);
    __m512 four = fold_rows(&acc[0]), two = fold_two_rows(&acc[4]);
    if (d.bias != nullptr) {
        const __m512 bias = bias_quarters(d.bias + out, outs);
        four = _mm512_add_ps(four, bias);
        two = _mm512_add_ps(two, bias);
    }
    float* const y = d.y + row * d.y_stride + out;
    store_rows<4>(four, y, d.y_stride, outs);
    store_rows<2>(two, y + 4 * d.y_stride, d.y_stride, outs);
}

template <int R, int O, bool Ahead, typename W>
RL_AVX512 void dot_rows(const Dots& d, int64_t row, const W* const* w, int64_t out, int64_t num_outs) {
    constexpr int64_t page = 4096 / sizeof(W); // short rows, keys of a cache
    const int64_t block = O * d.w_stride;
    const W* const ahead = w[0] + (block > page ? block : page);
    __m512 acc[R][O];
    accumulate<R, O, Ahead>(d.x + row * d.x_stride, d.x_stride, w, d.in, reinterpret_cast<const char*>(ahead),
                            acc);
    if constexpr (O == 4 && (R == 4 || R == 2)) {
        const auto outs = static_cast<__mmask8>((1U << num_outs) - 1U);
        __m512 all = R == 4 ? fold_rows(&acc[0]) : fold_two_rows(&acc[0]);
        if (d.bias != nullptr) all = _mm512_add_ps(all, bias_quarters(d.bias + out, outs));
        return store_rows<R>(all, d.y + row * d.y_stride + out, d.y_stride, outs);
    }
    float sums[R * O];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
        for (int o = 0; o < O; o += 4)
            _mm_storeu_ps(sums + r * O + o, fold_four(&acc[r][o]));
    }
    for (int r = 0; r < R; ++r) {
        float* const y = d.y + (row + r) * d.y_stride + out;
        if (d.bias != nullptr) {
            for (int64_t o = 0; o < num_outs; ++o)
                y[o] = sums[r * O + o] + d.bias[out + o];
        } else if (num_outs == O) {
            for (int o = 0; o < O; ++o)
                y[o] = sums[r * O + o];
        } else {
            for (int64_t o = 0; o < num_outs; ++o)
                y[o] = sums[r * O + o];
        }
    }
}

/// All rows against O outputs. Ahead: the first block of rows asks for the weights that come next.
template <int O, bool Ahead, typename W>
RL_AVX512 void dot_outputs(const Dots& d, const W* const* w, int64_t out, int64_t num_outs) {
    if constexpr (O == 4) {
        int64_t row = 0;
        if (Ahead && d.rows >= 6) {
            dot_six<true, 1>(d, 0, w, out, num_outs);
            row = 6;
        }
        for (; row + 6 <= d.rows; row += 6)
            dot_six<false, 1>(d, row, w, out, num_outs);
        switch (d.rows - row) {
        case 5:
            return dot_rows<5, 4, Ahead, W>(d, row, w, out, num_outs);
        case 4:
            return dot_rows<4, 4, Ahead, W>(d, row, w, out, num_outs);
        case 3:
            return dot_rows<3, 4, Ahead, W>(d, row, w, out, num_outs);
        case 2:
            return dot_rows<2, 4, Ahead, W>(d, row, w, out, num_outs);
        case 1:
            return dot_rows<1, 4, Ahead, W>(d, row, w, out, num_outs);
        default:
            return;
        }
    } else {
        dot_rows<1, O, Ahead, W>(d, 0, w, out, num_outs);
    }
}

/// Asks for the rows of outputs [out, out + O) of a list.
template <int O, typename W>
RL_AVX512_INLINE void ask_for_listed(const Dots& d, const W* base, int64_t out) {
    constexpr int64_t line = 64 / sizeof(W);
    for (int64_t o = out; o < out + O && o < d.outs; ++o) {
        for (int64_t i = 0; i < d.in; i += line)
            _mm_prefetch(reinterpret_cast<const char*>(base + d.w_index[o] * d.w_stride + i), _MM_HINT_T0);
    }
}

template <int O, bool Ahead, typename W>
RL_AVX512 void dots_by(const Dots& d) {
    const W* const base = static_cast<const W*>(d.w);
    for (int64_t out = 0; out < d.outs; out += O) {
        const int64_t num_outs = d.outs - out < O ? d.outs - out : O;
        const W* w[O];
        for (int64_t o = 0; o < O; ++o) {
            const int64_t real =
                out + (o < num_outs ? o : num_outs - 1); // past the end: computed again, not stored
            w[o] = base + (d.w_index != nullptr ? d.w_index[real] : real) * d.w_stride;
        }
        if (d.w_index != nullptr) ask_for_listed<O>(d, base, out + 2 * O);
        dot_outputs<O, Ahead, W>(d, w, out, num_outs);
    }
}

/// Where the rows of outputs [out, out + 4) stand. Past the end: the last one, computed again and not stored.
template <typename W>
RL_AVX512_INLINE void rows_of(const Dots& d, int64_t out, const W* (&w)[4]) {
    const W* const base = static_cast<const W*>(d.w);
    for (int64_t o = 0; o < 4; ++o)
        w[o] = base + (out + o < d.outs ? out + o : d.outs - 1) * d.w_stride;
}

/// The 16 partial sums of one output.
template <typename W>
RL_AVX512_INLINE __m512 chain(const float* x, const W* w, int64_t n) {
    __m512 acc = _mm512_setzero_ps();
    int64_t i = 0;
#pragma GCC unroll 4
    for (; i + 16 <= n; i += 16)
        acc = _mm512_fmadd_ps(load(x + i), load(w + i), acc);
    if (i < n) {
        const auto mask = static_cast<__mmask16>((1U << (n - i)) - 1U);
        acc = _mm512_fmadd_ps(load(x + i, mask), load(w + i, mask), acc);
    }
    return acc;
}

/// One row against a matrix, one output after the other: so the weights come as one stream, which the processor fetches in front of
/// its use at the speed of a plain reading. Several outputs side by side did not reach it, with prefetches or without. The chain of one
/// output is short enough to overlap with the next.
template <typename W>
RL_AVX512 void one_row_of_matrix(const Dots& d) {
    for (int64_t out = 0; out < d.outs; out += 4) {
        const W* w[4];
        rows_of(d, out, w);
        __m512 acc[4];
#pragma GCC unroll 4
        for (int o = 0; o < 4; ++o)
            acc[o] = chain(d.x, w[o], d.in);
        const auto outs = static_cast<__mmask8>(d.outs - out < 4 ? (1U << (d.outs - out)) - 1U : 15U);
        __m128 sums = fold_four(acc);
        if (d.bias != nullptr) sums = _mm_add_ps(sums, _mm_maskz_loadu_ps(outs, d.bias + out));
        _mm_mask_storeu_ps(d.y + out, outs, sums);
    }
}

/// Rows [row, row + 6) against all outputs of a matrix.
template <bool Ahead, typename W>
RL_AVX512 void six_rows(const Dots& d, int64_t row) {
    for (int64_t out = 0; out < d.outs; out += 4) {
        const W* w[4];
        rows_of(d, out, w);
        dot_six<Ahead, 1>(d, row, w, out, d.outs - out < 4 ? d.outs - out : 4);
    }
}

/// Long fp32 rows of a matrix, copied so that 4 of them lie side by side, 16 elements of each in turn: [outs / 4][in / 16][4][16].
/// Four streams that lie some pages apart came in at two thirds of the speed of this one.
struct Panels {
    const float* first;
    int64_t stride;
};
RL_AVX512 Panels pack_panels(const Dots& d) {
    static thread_local std::vector<float> memory;
    const int64_t stride = (d.in + 15) / 16 * 64;
    memory.resize(static_cast<size_t>((d.outs + 3) / 4 * stride + 16));
    float* const first =
        memory.data() + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64) % 64 / sizeof(float);
    for (int64_t out = 0; out < d.outs; out += 4) {
        const float* w[4];
        rows_of(d, out, w);
        float* to = first + out / 4 * stride;
        int64_t i = 0;
        for (; i + 16 <= d.in; i += 16, to += 64) {
#pragma GCC unroll 4
            for (int o = 0; o < 4; ++o) {
                _mm_prefetch(reinterpret_cast<const char*>(w[o] + 4 * d.w_stride + i), _MM_HINT_T0);
                _mm512_store_ps(to + 16 * o, load(w[o] + i));
            }
        }
        for (int o = 0; i < d.in && o < 4; ++o)
            _mm512_store_ps(to + 16 * o, load(w[o] + i, static_cast<__mmask16>((1U << (d.in - i)) - 1U)));
    }
    return {first, stride};
}
RL_AVX512 void six_rows(const Dots& d, int64_t row, const Panels& panels) {
    for (int64_t out = 0; out < d.outs; out += 4) {
        const float* const panel = panels.first + out / 4 * panels.stride;
        const float* const w[4] = {panel, panel + 16, panel + 32, panel + 48};
        dot_six<false, 4>(d, row, w, out, d.outs - out < 4 ? d.outs - out : 4);
    }
}

/// Many rows against a matrix: 6 of them against all outputs, then the next 6. So the rows stay in the first cache, and the
/// weights come from the second.
template <typename W>
RL_AVX512 void dots_of_matrix(const Dots& d) {
    constexpr int64_t long_row = 1024, rows_for_panels = 48;
    int64_t row = 0;
    if (sizeof(W) == sizeof(float) && d.in >= long_row && d.rows >= rows_for_panels) {
        const Panels panels = pack_panels(d);
        for (; row + 6 <= d.rows; row += 6)
            six_rows(d, row, panels);
    } else {
        six_rows<true, W>(d, 0);
        for (row = 6; row + 6 <= d.rows; row += 6)
            six_rows<false, W>(d, row);
    }
    if (row == d.rows) return;
    Dots rest = d;
    rest.x += row * d.x_stride;
    rest.y += row * d.y_stride;
    rest.rows -= row;
    dots_by<4, false, W>(rest);
}

template <typename W>
RL_AVX512 void dots_of(const Dots& d) {
    // Rows of weights that stand in one stretch: a matrix. Else keys of a cache, which are there already.
    if (d.w_index == nullptr && d.w_stride == d.in && !d.near)
        return d.rows == 1   ? one_row_of_matrix<W>(d)
               : d.rows < 12 ? dots_by<4, true, W>(d)
                             : dots_of_matrix<W>(d);
    return d.rows == 1 ? dots_by<8, false, W>(d) : dots_by<4, false, W>(d);
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

/// R rows x 16 Q channels; masks cover the channels past the width. Ahead: asks for values that come later, listed or not.
template <int R, int Q, bool Ahead, typename V>
RL_AVX512 void sum_block(const WeightedSum& s, int64_t row, int64_t channel) {
    __mmask16 mask[Q];
    for (int64_t q = 0; q < Q; ++q) {
        const int64_t left = s.width - channel - 16 * q;
        mask[q] = left >= 16  ? __mmask16{0xFFFF}
                  : left <= 0 ? __mmask16{0}
                              : static_cast<__mmask16>((1U << left) - 1U);
    }
    float* const acc_base = s.acc + row * s.acc_stride + channel;
    __m512 acc[R][Q];
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
        for (int q = 0; q < Q; ++q)
            acc[r][q] = load(acc_base + r * s.acc_stride + 16 * q, mask[q]);
    }
    constexpr int64_t ahead = 16; // positions
    const int64_t left = s.width - channel;
    [[maybe_unused]] const int64_t bytes = (left < 16 * Q ? left : 16 * Q) * static_cast<int64_t>(sizeof(V));
    const V* const base = static_cast<const V*>(s.v) + channel;
    const float* const p = s.p + row * s.p_stride;
    for (int64_t c = s.begin; c < s.end; ++c) {
        const V* const v = base + (s.v_index != nullptr ? s.v_index[c] : c) * s.v_stride;
        if constexpr (Ahead) {
            const int64_t later = c + ahead < s.end ? c + ahead : c;
            const V* const to = base + (s.v_index != nullptr ? s.v_index[later] : later) * s.v_stride;
            for (int64_t byte = 0; byte < bytes; byte += 64)
                _mm_prefetch(reinterpret_cast<const char*>(to) + byte, _MM_HINT_T0);
        }
        __m512 vv[Q];
#pragma GCC unroll 4
        for (int q = 0; q < Q; ++q)
            vv[q] = load(v + 16 * q, mask[q]);
#pragma GCC unroll 4
        for (int r = 0; r < R; ++r) {
            const __m512 pv = _mm512_set1_ps(p[r * s.p_stride + c]);
#pragma GCC unroll 4
            for (int q = 0; q < Q; ++q)
                acc[r][q] = _mm512_fmadd_ps(pv, vv[q], acc[r][q]);
        }
    }
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
        for (int q = 0; q < Q; ++q)
            _mm512_mask_storeu_ps(acc_base + r * s.acc_stride + 16 * q, mask[q], acc[r][q]);
    }
}

template <int Q, typename V>
void sum_rows(const WeightedSum& s, int64_t channel) {
    int64_t row = 0;
    for (; row + 4 <= s.rows; row += 4)
        row == 0 && !s.near ? sum_block<4, Q, true, V>(s, row, channel)
                            : sum_block<4, Q, false, V>(s, row, channel);
    // What is left in one go: values are read once for all of the query heads that share them.
    if (s.rows - row == 3) sum_block<3, Q, true, V>(s, row, channel);
    if (s.rows - row == 2) sum_block<2, Q, true, V>(s, row, channel);
    if (s.rows - row == 1) sum_block<1, Q, true, V>(s, row, channel);
}

template <typename V>
void weighted_sum_of(const WeightedSum& s) {
    for (int64_t channel = 0; channel < s.width; channel += 64)
        s.width - channel > 32 ? sum_rows<4, V>(s, channel) : sum_rows<2, V>(s, channel);
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

const CpuKernels* avx512_kernels() {
    static const CpuKernels table{dots, weighted_sum, RL_LANE_KERNELS};
    static const bool here = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                             __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
                             avx2_kernels() != nullptr;
    return here ? &table : nullptr;
}

} // namespace refreshlab::kernels::cpu

#else

namespace refreshlab::kernels::cpu {
const CpuKernels* avx512_kernels() {
    return nullptr;
}
} // namespace refreshlab::kernels::cpu

#endif
