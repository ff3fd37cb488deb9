#pragma once

#include "kernels/shared/host_device.h"

#include <cmath>
#include <cstdint>

/// Running sums over a row of logits, read once. Each accumulator has push() for one element and merge() for two parts
/// of the row (the second part being the one with the higher ids); merge is exact up to rounding, so a row may be cut
/// anywhere. Sums are double: the entropy of a peaked row lives in the tail, and fp32 differences z - max would cost it
/// six digits.
namespace refreshlab::kernels::shared {

inline constexpr double ln2 = 0.69314718055994530942;

RL_HOST_DEVICE inline bool is_finite_bits(float z) {
    // By value: z - z is 0 for finite numbers and NaN for the rest. Holds on host and device without <cmath> variants.
    return z - z == 0.0F;
}

/// m = max z, s = sum e^(z-m), t = sum e^(z-m) (z-m), u = sum e^(z-m) (z-m)^2. Then ln Z = m + ln s, and the entropy
/// ln s - t/s (nats) is a sum of two non-negative numbers: nothing cancels, whatever constant the row carries. The
/// variance of -ln p is u/s - (t/s)^2.
/// Source: online softmax, Milakov and Gimelshein 2018.
struct SoftmaxSums {
    double max = -INFINITY;
    double sum = 0;
    double weighted = 0;
    double squared = 0;
    int64_t argmax = -1;
    int64_t num_bad = 0; ///< NaN and infinite elements; the other fields speak of the rest

    RL_HOST_DEVICE void push(float value, int64_t id) {
        if (!is_finite_bits(value)) {
            ++num_bad;
            return;
        }
        const double z = static_cast<double>(value);
        if (z > max) {
            rescale(z);
            max = z;
            argmax = id;
        }
        const double d = z - max;
        const double e = exp(d);
        sum += e;
        weighted += e * d;
        squared += e * d * d;
    }

    RL_HOST_DEVICE void merge(const SoftmaxSums& higher_ids) {
        SoftmaxSums other = higher_ids;
        num_bad += other.num_bad;
        if (other.argmax < 0) return;
        if (other.max > max) {
            rescale(other.max);
            max = other.max;
            argmax = other.argmax;
        } else {
            other.rescale(max);
        }
        sum += other.sum;
        weighted += other.weighted;
        squared += other.squared;
    }

    /// Expresses the sums relative to new_max >= max (max itself is left).
    RL_HOST_DEVICE void rescale(double new_max) {
        if (argmax < 0) return; // nothing pushed yet: -inf - (-inf) would be NaN
        const double d = max - new_max;
        const double f = exp(d);
        squared = f * (squared + d * (2.0 * weighted + sum * d));
        weighted = f * (weighted + sum * d);
        sum = f * sum;
    }

    RL_HOST_DEVICE bool finite() const { return num_bad == 0 && argmax >= 0; }
    RL_HOST_DEVICE double log_z() const { return max + log(sum); }
    RL_HOST_DEVICE double entropy_nats() const { return log(sum) - weighted / sum; }
    RL_HOST_DEVICE double top1_prob() const { return 1.0 / sum; }
    /// Variance of -ln p, nats^2; clamped at 0 against rounding.
    RL_HOST_DEVICE double varentropy_nats2() const {
        const double mean = weighted / sum;
        const double variance = squared / sum - mean * mean;
        return variance > 0 ? variance : 0.0;
    }
};

/// KL(p || q) of two rows of logits in one pass: with u = sum e^(zp-mp) (zp - zq),
/// KL = u / s_p - ln Z_p + ln Z_q (nats).
struct KlSums {
    double p_max = -INFINITY, p_sum = 0, u = 0;
    double q_max = -INFINITY, q_sum = 0;
    int64_t num_bad = 0;

    RL_HOST_DEVICE void push(float p_value, float q_value) {
        if (!is_finite_bits(p_value) || !is_finite_bits(q_value)) {
            ++num_bad;
            return;
        }
        const double zp = static_cast<double>(p_value);
        const double zq = static_cast<double>(q_value);
        if (zp > p_max) rescale_p(zp);
        if (zq > q_max) rescale_q(zq);
        const double e = exp(zp - p_max);
        p_sum += e;
        u += e * (zp - zq);
        q_sum += exp(zq - q_max);
    }

    RL_HOST_DEVICE void merge(const KlSums& other_part) {
        KlSums other = other_part;
        num_bad += other.num_bad;
        if (!(other.p_sum > 0)) return;
        if (other.p_max > p_max)
            rescale_p(other.p_max);
        else
            other.rescale_p(p_max);
        if (other.q_max > q_max)
            rescale_q(other.q_max);
        else
            other.rescale_q(q_max);
        p_sum += other.p_sum;
        u += other.u;
        q_sum += other.q_sum;
    }

    RL_HOST_DEVICE void rescale_p(double new_max) {
        const double f = p_sum > 0 ? exp(p_max - new_max) : 0.0;
        p_sum *= f;
        u *= f;
        p_max = new_max;
    }
    RL_HOST_DEVICE void rescale_q(double new_max) {
        q_sum *= q_sum > 0 ? exp(q_max - new_max) : 0.0;
        q_max = new_max;
    }

    RL_HOST_DEVICE bool finite() const { return num_bad == 0 && p_sum > 0; }
    /// Clamped at 0 against rounding.
    RL_HOST_DEVICE double kl_nats() const {
        const double kl = u / p_sum - (p_max + log(p_sum)) + (q_max + log(q_sum));
        return kl > 0 ? kl : 0.0;
    }
};

/// What one pass over a teacher's row p, beside a row q of the student's and a token, finds out (kernels/ops/row_reading.h).
struct RowReadingSums {
    SoftmaxSums p, q; ///< q, kl: nothing was pushed where there is no other row
    KlSums kl;
    int64_t above = 0; ///< logits that stand before the token's
    double logit = 0;  ///< of the token

    RL_HOST_DEVICE void merge(const RowReadingSums& higher_ids) {
        p.merge(higher_ids.p);
        q.merge(higher_ids.q);
        kl.merge(higher_ids.kl);
        above += higher_ids.above;
        logit = higher_ids.logit;
    }
};

/// One column j of N Monte-Carlo rows. `value(i)` gives z_ij, `log_z[i]` the row's ln Z, z0 the deterministic logit.
/// Adds (z_ij - mean_i z_ij)^2 to squares[i] and returns sum_i p_ij (ln p_ij - ln mean_k p_kj) in nats.
///
/// Deviations are taken from z0 and then from their mean, so that equal rows give exactly 0. The second number is
/// computed as e^M (T - W ln(W/N)) with l_i = z_ij - ln Z_i, M = max l_i, W = sum e^(l_i - M), T = sum e^(l_i - M)
/// (l_i - M): non-negative, and exactly 0 for equal rows, where entropies subtracted from one another would leave noise.
template <typename Value>
RL_HOST_DEVICE inline double push_mc_column(const Value& value, double z0, const double* log_z,
                                            int64_t passes, double* squares) {
    const double n = static_cast<double>(passes);
    double mean = 0;
    double top = -INFINITY;
    for (int64_t i = 0; i < passes; ++i) {
        const double z = static_cast<double>(value(i));
        mean += z - z0;
        const double l = z - log_z[i];
        top = l > top ? l : top;
    }
    mean /= n;
    double w = 0;
    double t = 0;
    for (int64_t i = 0; i < passes; ++i) {
        const double z = static_cast<double>(value(i));
        const double d = (z - z0) - mean;
        squares[i] += d * d;
        const double l = (z - log_z[i]) - top;
        const double e = exp(l);
        w += e;
        t += e * l;
    }
    return exp(top) * (t - w * log(w / n));
}

/// U and its jackknife standard error from squares[i] = sum_j (z_ij - mean_k z_kj)^2:
///   U = Q / ((N-1) V),  Q = sum_i squares[i];  without pass i:  U_-i = (Q - N/(N-1) squares[i]) / ((N-2) V).
/// Source: Efron and Stein 1981.
RL_HOST_DEVICE inline double mc_variance(const double* squares, int64_t passes, int64_t vocab) {
    double q = 0;
    for (int64_t i = 0; i < passes; ++i)
        q += squares[i];
    return q / (static_cast<double>(passes - 1) * static_cast<double>(vocab));
}

RL_HOST_DEVICE inline double mc_variance_sd(const double* squares, int64_t passes, int64_t vocab) {
    if (passes < 3) return NAN;
    const double n = static_cast<double>(passes);
    // U_-i - mean_k U_-k = (N/(N-1)) (mean squares - squares[i]) / ((N-2) V)
    double mean = 0;
    for (int64_t i = 0; i < passes; ++i)
        mean += squares[i];
    mean /= n;
    double spread = 0;
    for (int64_t i = 0; i < passes; ++i)
        spread += (squares[i] - mean) * (squares[i] - mean);
    const double factor = n / ((n - 1) * (n - 2) * static_cast<double>(vocab));
    return factor * sqrt((n - 1) / n * spread);
}

} // namespace refreshlab::kernels::shared
