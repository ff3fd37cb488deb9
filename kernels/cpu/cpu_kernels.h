#pragma once

#include "kernels/shared/activation.h"
#include "kernels/shared/philox.h"
#include "kernels/shared/row_accumulators.h"

#include <cstdint>

/// The inside of the CPU kernels: one table of single-threaded inner loops for each instruction set. The files
/// <op>_cpu.cpp cut the work into tasks, hand them to the thread pool and call the table; nothing in the table knows
/// threads or tensors.
///
/// Order of sums, the same for every caller and every blocking. A dot product keeps 16 partial sums. Lane l adds the
/// elements l, l + 16, l + 32, ... ascending. Then the lanes are folded: l + (l + 8), then + 4, + 2, + 1. A weighted
/// sum over positions is one chain per channel, positions ascending. So a result never depends on its neighbours.
namespace refreshlab::kernels::cpu {

enum class ElementType { f32, bf16, f16 };

struct Bf16 {
    uint16_t bits;
};
struct F16 {
    uint16_t bits;
};

/// rows x outs dot products: y[r, o] = sum_i x[r, i] * w[row(o), i] (+ bias[o]).
struct Dots {
    const float* x = nullptr;
    int64_t x_stride = 0; ///< elements between rows of x
    int64_t rows = 0;
    const void* w = nullptr;
    ElementType w_type = ElementType::f32;
    int64_t w_stride = 0;             ///< elements between rows of w
    const int64_t* w_index = nullptr; ///< row of w for output o; null: o itself
    int64_t outs = 0;
    int64_t in = 0;
    const float* bias = nullptr; ///< null: none
    bool near = false; ///< w has just been written: it is in the first cache, and nothing is asked for
    float* y = nullptr;
    int64_t y_stride = 0;
};

/// acc[r, d] += sum over c in [begin, end) of p[r, c] * v[row(c), d], c ascending, d in [0, width).
struct WeightedSum {
    const float* p = nullptr;
    int64_t p_stride = 0;
    int64_t rows = 0;
    const void* v = nullptr;
    ElementType v_type = ElementType::f32;
    int64_t v_stride = 0;
    const int64_t* v_index = nullptr; ///< row of v for position c; null: c itself
    int64_t begin = 0, end = 0;
    int64_t width = 0;
    bool near = false; ///< v has just been written
    float* acc = nullptr;
    int64_t acc_stride = 0;
};

/// Columns of Monte-Carlo logits, for mc_statistics.
struct McColumns {
    const float* row0 = nullptr; ///< [columns]
    const float* rows = nullptr; ///< [passes, columns]
    int64_t row_stride = 0;
    int64_t passes = 0;
    int64_t columns = 0;
    const double* log_z = nullptr; ///< [passes]
    double* squares = nullptr;     ///< [passes], added to: sum over columns of (z_i - mean_i z_i)^2
    double* disagreement =
        nullptr; ///< added to: sum over columns and passes of p_i (ln p_i - ln mean p), nats
};

struct CpuKernels {
    void (*dots)(const Dots& d);
    void (*weighted_sum)(const WeightedSum& s);
    /// In place over s[0, n): softmax of s * scale. Writes up to the next multiple of 16 (scratch must reach there).
    void (*softmax)(float* s, int64_t n, float scale);
    /// y = x * rsqrt(sum x^2 / width + eps) * weight.
    void (*rms_norm)(const float* x, const float* weight, int64_t n, double width, double eps, float* y);
    void (*silu_mul)(const float* gate, const float* up, int64_t n, float* y);
    void (*gelu_mul)(const float* gate, const float* up, int64_t n, float* y); ///< Activation::gelu_tanh
    /// In place: z = cap * tanh(z * scale / cap).
    void (*soft_cap)(float* z, int64_t n, float scale, float cap);
    [[nodiscard]] auto gated(Activation activation) const {
        return activation == Activation::silu ? silu_mul : gelu_mul;
    }
    void (*rope)(float* x, const float* cos, const float* sin, int64_t half);
    /// x[i] *= keep(first + i) ? scale : 0 for the elements [first, first + n) of one mask row.
    void (*dropout)(float* x, int64_t n, const shared::MaskStream& stream, uint32_t first, float scale);
    /// Statistics of z[0, n), ids from first_id on.
    shared::SoftmaxSums (*softmax_sums)(const float* z, int64_t n, int64_t first_id);
    shared::KlSums (*kl_sums)(const float* p, const float* q, int64_t n);
    void (*mc_columns)(const McColumns& c);
    /// Largest of z[0, n), NaN skipped; minus infinity when there is none.
    float (*max)(const float* z, int64_t n);
    /// Sixteen of them: of the elements l, l + 16, ... for each l.
    void (*maxima)(const float* z, int64_t n, float* of_lanes);
    /// -sum over [0, n) of p ln p in nats, 0 ln 0 = 0; p >= 0.
    double (*entropy)(const float* p, int64_t n);
    void (*to_half)(const float* from, int64_t n, F16* to);
    /// w[i] = e^((z[i] - top) / temperature), double, z <= top. \return their sum
    double (*sampling_weights)(const float* z, int64_t n, double top, double temperature, double* w);
};

/// Null where the processor lacks the instructions (or this is not an x86-64 build).
[[nodiscard]] const CpuKernels* avx512_kernels();
[[nodiscard]] const CpuKernels* avx2_kernels();
[[nodiscard]] const CpuKernels* portable_kernels();
/// The table of the current isa().
[[nodiscard]] const CpuKernels& kernels();

} // namespace refreshlab::kernels::cpu
