#pragma once

#include "kernels/cuda/device/launch.cuh"
#include "kernels/decode/device_decoder.h"

namespace refreshlab::kernels::RL_GPU {

/// Number of the first of n entries at `position` or behind it; n: there is none. Entries were written before the step's first kernel ended.
__device__ inline int first_from(const ListEntry* list, int n, int64_t position) {
    int low = 0;
    while (n > 0) {
        const int half = n / 2;
        const bool before = __ldcg(&list[low + half].position) < position;
        low = before ? low + half + 1 : low;
        n = before ? n - half - 1 : half;
    }
    return low;
}

} // namespace refreshlab::kernels::RL_GPU
