#pragma once

#include "kernels/shared/host_device.h"

#include <cmath>

namespace refreshlab::kernels::shared {

/// Running softmax-weighted sum of one channel over keys: after all pushes, value() = sum_c softmax(s)_c v_c. Parts of
/// a row (fixed split size, merged in index order) give the whole row up to rounding. fp32, as attention states.
/// Source: Milakov and Gimelshein 2018; Dao et al. 2022.
struct OnlineSoftmax {
    float max = -INFINITY;
    float sum = 0;
    float acc = 0;

    RL_HOST_DEVICE void push(float score, float v) {
        if (score > max) {
            const float f = sum > 0 ? expf(max - score) : 0.0F;
            sum *= f;
            acc *= f;
            max = score;
        }
        const float e = expf(score - max);
        sum += e;
        acc += e * v;
    }

    RL_HOST_DEVICE void merge(const OnlineSoftmax& other) {
        if (!(other.sum > 0)) return;
        const float top = other.max > max ? other.max : max;
        const float mine = sum > 0 ? expf(max - top) : 0.0F;
        const float theirs = expf(other.max - top);
        sum = sum * mine + other.sum * theirs;
        acc = acc * mine + other.acc * theirs;
        max = top;
    }

    /// 0 when nothing was pushed.
    RL_HOST_DEVICE float value() const { return sum > 0 ? acc / sum : 0.0F; }
};

} // namespace refreshlab::kernels::shared
