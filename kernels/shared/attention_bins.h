#pragma once

#include "kernels/shared/host_device.h"

#include <cstdint>

/// Bins of an attention row, as it is shown and recorded: a row of many keys is kept as sums over neighbours, whose number is bounded. The one
/// definition, for the CPU, the device, and whoever reads a recording.
namespace refreshlab::kernels::shared {

/// Keys of a bin: the smallest power of two with which a row of `keys` numbers has `bins` bins at most; 1 where bins is 0. As it is a power of
/// two, the bins of a growing row stay where they are until they would be too many, and then two become one.
RL_HOST_DEVICE constexpr int64_t bin_width(int64_t keys, int64_t bins) {
    int64_t width = 1;
    while (bins > 0 && (keys + width - 1) / width > bins)
        width *= 2;
    return width;
}
/// The last one may have fewer keys.
RL_HOST_DEVICE constexpr int64_t num_bins(int64_t keys, int64_t width) {
    return (keys + width - 1) / width;
}
/// The width with which a row of `keys` has `n` bins. \return 0: there is none
RL_HOST_DEVICE constexpr int64_t width_of_bins(int64_t keys, int64_t n) {
    const int64_t width = n > 0 ? bin_width(keys, n) : 1;
    return num_bins(keys, width) == n ? width : 0;
}
/// What a bin holds: weight(begin) + ... + weight(end - 1) in fp32, ascending.
template <typename Weight>
RL_HOST_DEVICE inline float bin_sum(int64_t begin, int64_t end, const Weight& weight) {
    float sum = 0;
    for (int64_t i = begin; i < end; ++i)
        sum += weight(i);
    return sum;
}

} // namespace refreshlab::kernels::shared
