#pragma once

#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/half.h"

#include <bit>
#include <cmath>
#include <cstdint>

/// Inner loops written once, as loops over 16 (or 8) lanes that a compiler turns into vector code. They are forced
/// inline into functions with a target attribute (RL_DEFINE_LANE_KERNELS). So each instruction set gets its own copy,
/// and the linker cannot use one set's copy for another set. There are no fused operations (-ffp-contract=off): the
/// copies agree bit for bit.
#define RL_INLINE [[gnu::always_inline]] inline

namespace refreshlab::kernels::cpu::lanes {

constexpr int64_t width = 16;       // fp32 lanes
constexpr int64_t double_width = 8; // double lanes

/// e^x within 3.1 ulp (a search through the floats from -87.3 to 88 found 3.02); 0 below -87.3 (subnormal results are flushed), NaN stays
/// NaN. Not for x > 88. Cody-Waite reduction, degree-6 polynomial: two thirds of the error are the terms that it leaves out.
RL_INLINE float exp_one(float x) {
    constexpr float magic = 12582912.0F; // 1.5 * 2^23: adding it rounds to an integer in the low bits
    const float clamped = x < -87.3F ? -87.3F : x;
    const float shifted = clamped * 1.44269504F + magic;
    const float n = shifted - magic;
    const float r = (clamped - n * 0.693359375F) - n * -2.12194440e-4F;
    float poly = 1.0F / 720.0F;
    poly = poly * r + 1.0F / 120.0F;
    poly = poly * r + 1.0F / 24.0F;
    poly = poly * r + 1.0F / 6.0F;
    poly = poly * r + 0.5F;
    poly = poly * r + 1.0F;
    poly = poly * r + 1.0F;
    const uint32_t exponent = (std::bit_cast<uint32_t>(shifted) - std::bit_cast<uint32_t>(magic) + 127U)
                              << 23;
    const float result = poly * std::bit_cast<float>(exponent);
    return x < -87.3F ? 0.0F : result;
}

/// e^x for x <= 700, double, about 1 ulp; 0 below -708.
RL_INLINE double exp_one(double x) {
    constexpr double magic = 6755399441055744.0; // 1.5 * 2^52
    const double clamped = x < -708.0 ? -708.0 : x;
    const double shifted = clamped * 1.44269504088896340736 + magic;
    const double n = shifted - magic;
    const double r = (clamped - n * 6.93147180369123816490e-01) - n * 1.90821492927058770002e-10;
    double poly = 1.0 / 479001600.0;
    poly = poly * r + 1.0 / 39916800.0;
    poly = poly * r + 1.0 / 3628800.0;
    poly = poly * r + 1.0 / 362880.0;
    poly = poly * r + 1.0 / 40320.0;
    poly = poly * r + 1.0 / 5040.0;
    poly = poly * r + 1.0 / 720.0;
    poly = poly * r + 1.0 / 120.0;
    poly = poly * r + 1.0 / 24.0;
    poly = poly * r + 1.0 / 6.0;
    poly = poly * r + 0.5;
    poly = poly * r + 1.0;
    poly = poly * r + 1.0;
    const uint64_t exponent = (std::bit_cast<uint64_t>(shifted) - std::bit_cast<uint64_t>(magic) + 1023U)
                              << 52;
    const double result = poly * std::bit_cast<double>(exponent);
    return x < -708.0 ? 0.0 : result;
}

/// ln x for normal x > 0; exactly 0 at 1. atanh series on [sqrt(1/2), sqrt(2)).
RL_INLINE double log_one(double x) {
    constexpr uint64_t sqrt_half = 0x3FE6A09E667F3BCDULL;
    constexpr double magic = 4503599627370496.0; // 2^52: small integers in its low bits
    const uint64_t bits =
        std::bit_cast<uint64_t>(x) - sqrt_half + (1024ULL << 52); // exponent field = e + 1024
    const double e = std::bit_cast<double>((bits >> 52) | 0x4330000000000000ULL) - magic - 1024.0;
    const double m = std::bit_cast<double>((bits & 0x000FFFFFFFFFFFFFULL) + sqrt_half);
    const double s = (m - 1.0) / (m + 1.0);
    const double s2 = s * s;
    double poly = 1.0 / 21.0;
    poly = poly * s2 + 1.0 / 19.0;
    poly = poly * s2 + 1.0 / 17.0;
    poly = poly * s2 + 1.0 / 15.0;
    poly = poly * s2 + 1.0 / 13.0;
    poly = poly * s2 + 1.0 / 11.0;
    poly = poly * s2 + 1.0 / 9.0;
    poly = poly * s2 + 1.0 / 7.0;
    poly = poly * s2 + 1.0 / 5.0;
    poly = poly * s2 + 1.0 / 3.0;
    poly = poly * s2 + 1.0;
    return e * shared::ln2 + 2.0 * s * poly;
}

/// Folds 16 lanes in the one order of all reductions: l + (l + 8), + 4, + 2, + 1.
RL_INLINE float fold(const float (&lane)[width]) {
    float a[8], b[4];
    for (int l = 0; l < 8; ++l)
        a[l] = lane[l] + lane[l + 8];
    for (int l = 0; l < 4; ++l)
        b[l] = a[l] + a[l + 4];
    return (b[0] + b[2]) + (b[1] + b[3]);
}

RL_INLINE double fold(const double (&lane)[double_width]) {
    double a[4];
    for (int l = 0; l < 4; ++l)
        a[l] = lane[l] + lane[l + 4];
    return (a[0] + a[2]) + (a[1] + a[3]);
}

/// sum[l] += the elements l, l + 8, l + 16, ...
RL_INLINE void add_lanes(const double* __restrict x, int64_t n, double (&sum)[double_width]) {
    const int64_t whole = n / double_width * double_width;
    for (int64_t i = 0; i < whole; i += double_width) {
        for (int64_t l = 0; l < double_width; ++l)
            sum[l] += x[i + l];
    }
    for (int64_t i = whole; i < n; ++i)
        sum[i - whole] += x[i];
}

RL_INLINE void softmax(float* __restrict s, int64_t n, float scale) {
    if (n <= 0) return;
    const int64_t padded = (n + width - 1) / width * width;
    for (int64_t i = n; i < padded; ++i)
        s[i] = -INFINITY;
    float top[width];
    for (int64_t l = 0; l < width; ++l)
        top[l] = -INFINITY;
    for (int64_t i = 0; i < padded; i += width) {
        for (int64_t l = 0; l < width; ++l) {
            const float z = s[i + l] * scale;
            top[l] = z > top[l] ? z : top[l];
        }
    }
    float max = -INFINITY;
    for (int64_t l = 0; l < width; ++l)
        max = top[l] > max ? top[l] : max;
    float sum[width] = {};
    for (int64_t i = 0; i < padded; i += width) {
        for (int64_t l = 0; l < width; ++l) {
            const float e = exp_one(s[i + l] * scale - max);
            s[i + l] = e;
            sum[l] += e;
        }
    }
    const float inverse = 1.0F / fold(sum);
    for (int64_t i = 0; i < padded; i += width) {
        for (int64_t l = 0; l < width; ++l)
            s[i + l] *= inverse;
    }
}

RL_INLINE void rms_norm(const float* __restrict x, const float* __restrict weight, int64_t n,
                        double row_width, double eps, float* __restrict y) {
    float sum[width] = {};
    const int64_t whole = n / width * width;
    for (int64_t i = 0; i < whole; i += width) {
        for (int64_t l = 0; l < width; ++l)
            sum[l] += x[i + l] * x[i + l];
    }
    for (int64_t i = whole; i < n; ++i)
        sum[i - whole] += x[i] * x[i];
    const double mean = static_cast<double>(fold(sum)) / row_width;
    const float factor = static_cast<float>(1.0 / std::sqrt(mean + eps));
    for (int64_t i = 0; i < whole; i += width) {
        for (int64_t l = 0; l < width; ++l)
            y[i + l] = x[i + l] * factor * weight[i + l];
    }
    for (int64_t i = whole; i < n; ++i)
        y[i] = x[i] * factor * weight[i];
}

RL_INLINE float silu_one(float g) {
    // e^-|g| never overflows: g / (1 + e^-g) for g >= 0, g e^g / (1 + e^g) below.
    const float e = exp_one(g < 0.0F ? g : -g);
    return (g < 0.0F ? g * e : g) / (1.0F + e);
}

RL_INLINE void silu_mul(const float* __restrict gate, const float* __restrict up, int64_t n,
                        float* __restrict y) {
    for (int64_t i = 0; i < n; ++i)
        y[i] = silu_one(gate[i]) * up[i];
}

/// g / (1 + e^-2u): the same fraction as silu's, of another argument.
RL_INLINE float gelu_tanh_one(float g) {
    constexpr float twice_root = 1.5957691216057308F, cubic = 0.044715F; // 2 sqrt(2 / pi)
    const float u = twice_root * (g + cubic * g * g * g);
    const float e = exp_one(u < 0.0F ? u : -u);
    return (u < 0.0F ? g * e : g) / (1.0F + e);
}

RL_INLINE void gelu_mul(const float* __restrict gate, const float* __restrict up, int64_t n,
                        float* __restrict y) {
    for (int64_t i = 0; i < n; ++i)
        y[i] = gelu_tanh_one(gate[i]) * up[i];
}

/// tanh x = (1 - e^-2|x|) / (1 + e^-2|x|) with x's sign; near 0 the difference loses digits, so there the series does it.
RL_INLINE float tanh_one(float x) {
    const float size = x < 0.0F ? -x : x, square = x * x;
    const float e = exp_one(-2.0F * size);
    const float far = (1.0F - e) / (1.0F + e);
    const float near =
        size * (1.0F + square * (-1.0F / 3.0F + square * (2.0F / 15.0F + square * (-17.0F / 315.0F))));
    const float result = size < 0.2F ? near : far;
    return x < 0.0F ? -result : result;
}

RL_INLINE void soft_cap(float* __restrict z, int64_t n, float scale, float cap) {
    const float by = scale / cap;
    for (int64_t i = 0; i < n; ++i)
        z[i] = cap * tanh_one(z[i] * by);
}

RL_INLINE void rope(float* __restrict x, const float* __restrict cos, const float* __restrict sin,
                    int64_t half) {
    const int64_t whole = half / width * width;
    for (int64_t i = 0; i < whole; i += width) {
        float first[width], second[width];
        for (int64_t l = 0; l < width; ++l) {
            first[l] = x[i + l] * cos[i + l] - x[half + i + l] * sin[i + l];
            second[l] = x[half + i + l] * cos[i + l] + x[i + l] * sin[i + l];
        }
        for (int64_t l = 0; l < width; ++l)
            x[i + l] = first[l];
        for (int64_t l = 0; l < width; ++l)
            x[half + i + l] = second[l];
    }
    for (int64_t i = whole; i < half; ++i) {
        const float first = x[i] * cos[i] - x[half + i] * sin[i];
        x[half + i] = x[half + i] * cos[i] + x[i] * sin[i];
        x[i] = first;
    }
}

/// Sixteen Philox calls side by side: factor[i] = kept ? scale : 0 for the 128 elements of mask block `block`.
/// Plain form; the instruction-set files have their own (compilers do not vectorise 32 x 32 -> 64 bit products well).
RL_INLINE void mask_factors(const shared::MaskStream& stream, uint32_t block, float scale,
                            float* __restrict factor) {
    uint32_t w0[width], w1[width], w2[width], w3[width];
    for (uint32_t l = 0; l < width; ++l) {
        w0[l] = block * shared::mask_lanes + l;
        w1[l] = stream.high;
        w2[l] = stream.position;
        w3[l] = stream.tag;
    }
    uint32_t k0 = stream.key_0;
    uint32_t k1 = stream.key_1;
    for (int round = 0; round < shared::philox_rounds; ++round) {
        for (int64_t l = 0; l < width; ++l) {
            const uint64_t p0 = static_cast<uint64_t>(shared::philox_multiplier_0) * w0[l];
            const uint64_t p1 = static_cast<uint64_t>(shared::philox_multiplier_1) * w2[l];
            w0[l] = static_cast<uint32_t>(p1 >> 32) ^ w1[l] ^ k0;
            w1[l] = static_cast<uint32_t>(p1);
            w2[l] = static_cast<uint32_t>(p0 >> 32) ^ w3[l] ^ k1;
            w3[l] = static_cast<uint32_t>(p0);
        }
        k0 += shared::philox_weyl_0;
        k1 += shared::philox_weyl_1;
    }
    const uint32_t threshold = stream.threshold;
    const uint32_t* const words[4] = {w0, w1, w2, w3};
    for (int64_t w = 0; w < 4; ++w) {
        const uint32_t* const word = words[w];
        float* const low = factor + 2 * w * width;
        float* const high = low + width;
        for (int64_t l = 0; l < width; ++l)
            low[l] = (word[l] & 0xFFFFU) >= threshold ? scale : 0.0F;
        for (int64_t l = 0; l < width; ++l)
            high[l] = (word[l] >> 16) >= threshold ? scale : 0.0F;
    }
}

using MaskFactors = void (*)(const shared::MaskStream& stream, uint32_t block, float scale, float* factor);

RL_INLINE void dropout(float* __restrict x, int64_t n, const shared::MaskStream& stream, uint32_t first,
                       float scale, MaskFactors factors) {
    alignas(64) float factor[shared::mask_block];
    int64_t i = 0;
    while (i < n) {
        const uint32_t element = first + static_cast<uint32_t>(i);
        const int64_t skip = element % shared::mask_block;
        factors(stream, element / shared::mask_block, scale, factor);
        const int64_t count = n - i < shared::mask_block - skip ? n - i : shared::mask_block - skip;
        for (int64_t j = 0; j < count; ++j)
            x[i + j] *= factor[skip + j];
        i += count;
    }
}

/// One pass over memory in blocks that stay in the first cache: largest of the block, then the sums against the running
/// maximum. Lane l takes elements l, l + 8, ...
RL_INLINE shared::SoftmaxSums softmax_sums(const float* __restrict z, int64_t n, int64_t first_id) {
    constexpr int64_t block = 512;
    alignas(64) double e[block], weighted_e[block], squared_e[block];
    shared::SoftmaxSums sums;
    for (int64_t start = 0; start < n; start += block) {
        const int64_t count = n - start < block ? n - start : block;
        const float* const b = z + start;
        float top[width];
        int32_t bad[width] = {};
        for (int64_t l = 0; l < width; ++l)
            top[l] = -INFINITY;
        const int64_t whole = count / width * width;
        for (int64_t i = 0; i < whole; i += width) {
            for (int64_t l = 0; l < width; ++l) {
                top[l] = b[i + l] > top[l] ? b[i + l] : top[l];
                bad[l] |= b[i + l] - b[i + l] == 0.0F ? 0 : 1;
            }
        }
        for (int64_t i = whole; i < count; ++i) {
            top[i - whole] = b[i] > top[i - whole] ? b[i] : top[i - whole];
            bad[i - whole] |= b[i] - b[i] == 0.0F ? 0 : 1;
        }
        float max = -INFINITY;
        int32_t any_bad = 0;
        for (int64_t l = 0; l < width; ++l) {
            max = top[l] > max ? top[l] : max;
            any_bad |= bad[l];
        }
        if (any_bad != 0) {
            ++sums.num_bad;
            continue;
        }
        shared::SoftmaxSums part;
        part.max = static_cast<double>(max);
        for (int64_t i = 0; i < count; ++i) {
            if (b[i] == max) {
                part.argmax = first_id + start + i;
                break;
            }
        }
        const double reference = part.max > sums.max ? part.max : sums.max;
        if (reference > sums.max) {
            sums.rescale(reference);
            sums.max = reference;
            sums.argmax = part.argmax;
        }
        for (int64_t i = 0; i < count; ++i) {
            const double d = static_cast<double>(b[i]) - reference;
            e[i] = exp_one(d);
            weighted_e[i] = e[i] * d;
            squared_e[i] = weighted_e[i] * d;
        }
        double sum[double_width] = {};
        double weighted[double_width] = {};
        double squared[double_width] = {};
        add_lanes(e, count, sum);
        add_lanes(weighted_e, count, weighted);
        add_lanes(squared_e, count, squared);
        sums.sum += fold(sum);
        sums.weighted += fold(weighted);
        sums.squared += fold(squared);
    }
    return sums;
}

RL_INLINE void maxima(const float* __restrict z, int64_t n, float* __restrict of_lanes) {
    float top[width];
    for (int64_t l = 0; l < width; ++l)
        top[l] = -INFINITY;
    const int64_t whole = n / width * width;
    for (int64_t i = 0; i < whole; i += width) {
        for (int64_t l = 0; l < width; ++l)
            top[l] = z[i + l] > top[l] ? z[i + l] : top[l];
    }
    for (int64_t i = whole; i < n; ++i)
        top[i - whole] = z[i] > top[i - whole] ? z[i] : top[i - whole];
    for (int64_t l = 0; l < width; ++l)
        of_lanes[l] = top[l];
}

RL_INLINE float max(const float* __restrict z, int64_t n) {
    float top[width];
    maxima(z, n, top);
    float result = -INFINITY;
    for (int64_t l = 0; l < width; ++l)
        result = top[l] > result ? top[l] : result;
    return result;
}

/// Lane l takes the elements l, l + 8, ...
RL_INLINE double entropy(const float* __restrict p, int64_t n) {
    constexpr int64_t block = 512;
    alignas(64) double term[block];
    double sum[double_width] = {};
    for (int64_t start = 0; start < n; start += block) {
        const int64_t count = n - start < block ? n - start : block;
        for (int64_t i = 0; i < count; ++i) {
            const double x = static_cast<double>(p[start + i]);
            term[i] = x * log_one(x > 0.0 ? x : 1.0);
        }
        add_lanes(term, count, sum);
    }
    return 0.0 - fold(sum);
}

RL_INLINE void to_half(const float* __restrict from, int64_t n, F16* __restrict to) {
    for (int64_t i = 0; i < n; ++i)
        to[i] = cpu::to_half(from[i]);
}

RL_INLINE double sampling_weights(const float* __restrict z, int64_t n, double top, double temperature,
                                  double* __restrict w) {
    for (int64_t i = 0; i < n; ++i)
        w[i] = exp_one((static_cast<double>(z[i]) - top) / temperature);
    double sum[double_width] = {};
    add_lanes(w, n, sum);
    return fold(sum);
}

RL_INLINE shared::KlSums kl_sums(const float* __restrict p, const float* __restrict q, int64_t n) {
    constexpr int64_t block = 512;
    alignas(64) double p_e[block], u_e[block], q_e[block];
    shared::KlSums sums;
    for (int64_t start = 0; start < n; start += block) {
        const int64_t count = n - start < block ? n - start : block;
        const float* const bp = p + start;
        const float* const bq = q + start;
        int32_t any_bad = 0;
        for (int64_t i = 0; i < count; ++i)
            any_bad |= (bp[i] - bp[i]) + (bq[i] - bq[i]) == 0.0F ? 0 : 1;
        if (any_bad != 0) {
            ++sums.num_bad;
            continue;
        }
        const double p_top = static_cast<double>(max(bp, count));
        const double q_top = static_cast<double>(max(bq, count));
        if (p_top > sums.p_max) sums.rescale_p(p_top);
        if (q_top > sums.q_max) sums.rescale_q(q_top);
        const double p_max = sums.p_max;
        const double q_max = sums.q_max;
        for (int64_t i = 0; i < count; ++i) {
            const double zp = static_cast<double>(bp[i]);
            const double zq = static_cast<double>(bq[i]);
            p_e[i] = exp_one(zp - p_max);
            u_e[i] = p_e[i] * (zp - zq);
            q_e[i] = exp_one(zq - q_max);
        }
        double p_sum[double_width] = {}, u[double_width] = {}, q_sum[double_width] = {};
        add_lanes(p_e, count, p_sum);
        add_lanes(u_e, count, u);
        add_lanes(q_e, count, q_sum);
        sums.p_sum += fold(p_sum);
        sums.u += fold(u);
        sums.q_sum += fold(q_sum);
    }
    return sums;
}

/// shared::push_mc_column over blocks of columns, pass by pass.
RL_INLINE void mc_columns(const McColumns& c) {
    constexpr int64_t block = 128;
    alignas(64) double mean[block], top[block], w[block], t[block], squares[block];
    const double n = static_cast<double>(c.passes);
    for (int64_t start = 0; start < c.columns; start += block) {
        const int64_t count = c.columns - start < block ? c.columns - start : block;
        const float* const __restrict z0 = c.row0 + start;
        for (int64_t j = 0; j < count; ++j) {
            mean[j] = w[j] = t[j] = 0.0;
            top[j] = -INFINITY;
        }
        for (int64_t i = 0; i < c.passes; ++i) {
            const float* const __restrict z = c.rows + i * c.row_stride + start;
            const double log_z = c.log_z[i];
            for (int64_t j = 0; j < count; ++j) {
                mean[j] += static_cast<double>(z[j]) - static_cast<double>(z0[j]);
                const double log_p = static_cast<double>(z[j]) - log_z;
                top[j] = log_p > top[j] ? log_p : top[j];
            }
        }
        for (int64_t j = 0; j < count; ++j)
            mean[j] /= n;
        for (int64_t i = 0; i < c.passes; ++i) {
            const float* const __restrict z = c.rows + i * c.row_stride + start;
            const double log_z = c.log_z[i];
            for (int64_t j = 0; j < count; ++j) {
                const double d = (static_cast<double>(z[j]) - static_cast<double>(z0[j])) - mean[j];
                squares[j] = d * d;
                const double log_p = (static_cast<double>(z[j]) - log_z) - top[j];
                const double e = exp_one(log_p);
                w[j] += e;
                t[j] += e * log_p;
            }
            double sum[double_width] = {};
            add_lanes(squares, count, sum);
            c.squares[i] += fold(sum);
        }
        for (int64_t j = 0; j < count; ++j)
            t[j] = exp_one(top[j]) * (t[j] - w[j] * log_one(w[j] / n));
        double sum[double_width] = {};
        add_lanes(t, count, sum);
        *c.disagreement += fold(sum);
    }
}

} // namespace refreshlab::kernels::cpu::lanes

/// Wraps every lane kernel in a function of the given target and lists them, in the order of CpuKernels after
/// `weighted_sum`, as RL_LANE_KERNELS. Used once per instruction-set file, inside its anonymous namespace, after that
/// file's function `mask_factors`.
#define RL_DEFINE_LANE_KERNELS(TARGET)                                                                       \
    TARGET void lane_softmax(float* s, int64_t n, float scale) {                                             \
        lanes::softmax(s, n, scale);                                                                         \
    }                                                                                                        \
    TARGET void lane_rms_norm(const float* x, const float* w, int64_t n, double width, double eps,           \
                              float* y) {                                                                    \
        lanes::rms_norm(x, w, n, width, eps, y);                                                             \
    }                                                                                                        \
    TARGET void lane_silu_mul(const float* g, const float* u, int64_t n, float* y) {                         \
        lanes::silu_mul(g, u, n, y);                                                                         \
    }                                                                                                        \
    TARGET void lane_gelu_mul(const float* g, const float* u, int64_t n, float* y) {                         \
        lanes::gelu_mul(g, u, n, y);                                                                         \
    }                                                                                                        \
    TARGET void lane_soft_cap(float* z, int64_t n, float scale, float cap) {                                 \
        lanes::soft_cap(z, n, scale, cap);                                                                   \
    }                                                                                                        \
    TARGET void lane_rope(float* x, const float* c, const float* s, int64_t half) {                          \
        lanes::rope(x, c, s, half);                                                                          \
    }                                                                                                        \
    TARGET void lane_dropout(float* x, int64_t n, const shared::MaskStream& m, uint32_t first,               \
                             float scale) {                                                                  \
        lanes::dropout(x, n, m, first, scale, mask_factors);                                                 \
    }                                                                                                        \
    TARGET shared::SoftmaxSums lane_softmax_sums(const float* z, int64_t n, int64_t first_id) {              \
        return lanes::softmax_sums(z, n, first_id);                                                          \
    }                                                                                                        \
    TARGET shared::KlSums lane_kl_sums(const float* p, const float* q, int64_t n) {                          \
        return lanes::kl_sums(p, q, n);                                                                      \
    }                                                                                                        \
    TARGET void lane_mc_columns(const McColumns& c) {                                                        \
        lanes::mc_columns(c);                                                                                \
    }                                                                                                        \
    TARGET float lane_max(const float* z, int64_t n) {                                                       \
        return lanes::max(z, n);                                                                             \
    }                                                                                                        \
    TARGET void lane_maxima(const float* z, int64_t n, float* of_lanes) {                                    \
        lanes::maxima(z, n, of_lanes);                                                                       \
    }                                                                                                        \
    TARGET double lane_entropy(const float* p, int64_t n) {                                                  \
        return lanes::entropy(p, n);                                                                         \
    }                                                                                                        \
    TARGET void lane_to_half(const float* from, int64_t n, F16* to) {                                        \
        lanes::to_half(from, n, to);                                                                         \
    }                                                                                                        \
    TARGET double lane_sampling_weights(const float* z, int64_t n, double top, double temperature,           \
                                        double* w) {                                                         \
        return lanes::sampling_weights(z, n, top, temperature, w);                                           \
    }

#define RL_LANE_KERNELS                                                                                      \
    lane_softmax, lane_rms_norm, lane_silu_mul, lane_gelu_mul, lane_soft_cap, lane_rope, lane_dropout,       \
        lane_softmax_sums, lane_kl_sums, lane_mc_columns, lane_max, lane_maxima, lane_entropy, lane_to_half, \
        lane_sampling_weights
