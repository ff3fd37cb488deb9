#include "kernels/cpu/cpu_lanes.h"
#include "kernels/cpu/half.h"

#include <algorithm>
#include <vector>

/// Plain C++ for every processor. GCC's vector type of four floats keeps the 16 partial sums in registers on anything
/// with 128-bit vectors; there is no fused multiply-add. Weights are widened to fp32 once per output row.
namespace refreshlab::kernels::cpu {
namespace {

typedef float Float4 __attribute__((vector_size(16), aligned(4), may_alias));

void mask_factors(const shared::MaskStream& stream, uint32_t block, float scale, float* factor) {
    lanes::mask_factors(stream, block, scale, factor);
}

RL_DEFINE_LANE_KERNELS()

const float* widen(const void* rows, ElementType type, int64_t stride, int64_t row, int64_t n,
                   float* scratch) {
    const int64_t offset = row * stride;
    switch (type) {
    case ElementType::f32:
        return static_cast<const float*>(rows) + offset;
    case ElementType::bf16: {
        const Bf16* const source = static_cast<const Bf16*>(rows) + offset;
        for (int64_t i = 0; i < n; ++i)
            scratch[i] = to_float(source[i]);
        break;
    }
    case ElementType::f16: {
        const F16* const source = static_cast<const F16*>(rows) + offset;
        for (int64_t i = 0; i < n; ++i)
            scratch[i] = to_float(source[i]);
        break;
    }
    }
    return scratch;
}

/// R rows against one row of weights.
template <int R>
void dot_rows(const float* x, int64_t x_stride, const float* w, int64_t n, float* sums) {
    Float4 acc[R][4] = {};
    const int64_t whole = n / lanes::width * lanes::width;
    for (int64_t i = 0; i < whole; i += lanes::width) {
        const Float4* const wv = reinterpret_cast<const Float4*>(w + i);
        for (int r = 0; r < R; ++r) {
            const Float4* const xv = reinterpret_cast<const Float4*>(x + r * x_stride + i);
            for (int q = 0; q < 4; ++q)
                acc[r][q] += xv[q] * wv[q];
        }
    }
    for (int r = 0; r < R; ++r) {
        float lane[lanes::width];
        for (int l = 0; l < lanes::width; ++l)
            lane[l] = acc[r][l / 4][l % 4];
        for (int64_t i = whole; i < n; ++i)
            lane[i - whole] += x[r * x_stride + i] * w[i];
        sums[r] = lanes::fold(lane);
    }
}

void dots(const Dots& d) {
    thread_local std::vector<float> scratch;
    scratch.resize(static_cast<size_t>(d.in));
    for (int64_t o = 0; o < d.outs; ++o) {
        const float* const w =
            widen(d.w, d.w_type, d.w_stride, d.w_index != nullptr ? d.w_index[o] : o, d.in, scratch.data());
        const float bias = d.bias != nullptr ? d.bias[o] : 0.0F;
        int64_t r = 0;
        while (r < d.rows) {
            const float* const x = d.x + r * d.x_stride;
            float sums[2];
            const int count = d.rows - r >= 2 ? 2 : 1;
            if (count == 2)
                dot_rows<2>(x, d.x_stride, w, d.in, sums);
            else
                dot_rows<1>(x, d.x_stride, w, d.in, sums);
            for (int i = 0; i < count; ++i)
                d.y[(r + i) * d.y_stride + o] = d.bias != nullptr ? sums[i] + bias : sums[i];
            r += count;
        }
    }
}

void weighted_sum(const WeightedSum& s) {
    thread_local std::vector<float> scratch;
    scratch.resize(static_cast<size_t>(s.width));
    for (int64_t c = s.begin; c < s.end; ++c) {
        const float* const v = widen(s.v, s.v_type, s.v_stride, s.v_index != nullptr ? s.v_index[c] : c,
                                     s.width, scratch.data());
        for (int64_t r = 0; r < s.rows; ++r) {
            const float p = s.p[r * s.p_stride + c];
            float* const acc = s.acc + r * s.acc_stride;
            int64_t i = 0;
            for (; i + 4 <= s.width; i += 4) {
                Float4* const a = reinterpret_cast<Float4*>(acc + i);
                *a += p * *reinterpret_cast<const Float4*>(v + i);
            }
            for (; i < s.width; ++i)
                acc[i] += p * v[i];
        }
    }
}

} // namespace

const CpuKernels* portable_kernels() {
    static const CpuKernels table{dots, weighted_sum, RL_LANE_KERNELS};
    return &table;
}

} // namespace refreshlab::kernels::cpu
