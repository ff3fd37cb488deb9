#include "kernels/ops/probabilities.h"

#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/half.h"
#include "kernels/execution/isa.h"
#include "kernels/execution/thread_pool.h"
#include "kernels/shared/attention_bins.h"
#include "kernels/shared/check.h"
#include "kernels/shared/half_types.h"
#include "kernels/shared/row_accumulators.h"

#include <algorithm>
#include <cmath>

namespace refreshlab::kernels {

double entropy_bits(std::span<const float> p) {
    if (isa() != Isa::reference)
        return cpu::kernels().entropy(p.data(), static_cast<int64_t>(p.size())) / shared::ln2;
    double sum = 0;
    for (const float x : p) {
        if (x > 0) sum -= static_cast<double>(x) * std::log2(static_cast<double>(x));
    }
    return sum;
}

void to_half(std::span<const float> from, std::span<uint16_t> to) {
    RL_ASSERT(from.size() == to.size());
    static_assert(sizeof(cpu::F16) == sizeof(uint16_t) && alignof(cpu::F16) == alignof(uint16_t));
    const bool reference = isa() == Isa::reference;
    constexpr int64_t grain = 32 * 1024;
    parallel_for(static_cast<int64_t>(from.size()), grain, [&](int64_t begin, int64_t end) {
        auto* const out = reinterpret_cast<cpu::F16*>(to.data()); // a struct of one uint16_t
        if (!reference) {
            cpu::kernels().to_half(from.data() + begin, end - begin, out + begin);
            return;
        }
        for (int64_t i = begin; i < end; ++i)
            out[i] = cpu::to_half(from[static_cast<size_t>(i)]);
    });
}

void to_half_bins(std::span<const float> from, int64_t first, int64_t width, std::span<uint16_t> to) {
    const auto n = static_cast<int64_t>(to.size()), end = first + static_cast<int64_t>(from.size());
    RL_ASSERT(first >= 0 && width > 0 && shared::num_bins(end, width) <= n);
    for (int64_t bin = 0; bin < n; ++bin)
        to[static_cast<size_t>(bin)] = shared::float_to_half(
            shared::bin_sum(std::max(bin * width, first), std::min((bin + 1) * width, end),
                            [&](int64_t key) { return from[static_cast<size_t>(key - first)]; }));
}

void rows_to_half(std::span<const float> from, int64_t rows, int64_t width, std::span<uint16_t> to) {
    if (width == 1) return to_half(from, to);
    const size_t keys = from.size() / static_cast<size_t>(rows), bins = to.size() / static_cast<size_t>(rows);
    RL_ASSERT(shared::num_bins(static_cast<int64_t>(keys), width) == static_cast<int64_t>(bins));
    for (size_t row = 0; row < static_cast<size_t>(rows); ++row)
        to_half_bins(from.subspan(row * keys, keys), 0, width, to.subspan(row * bins, bins));
}

} // namespace refreshlab::kernels
