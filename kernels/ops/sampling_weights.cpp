#include "kernels/ops/sampling_weights.h"

#include "kernels/cpu/cpu_kernels.h"
#include "kernels/execution/isa.h"
#include "kernels/shared/check.h"

#include <algorithm>
#include <cmath>

namespace refreshlab::kernels {

double sampling_weights(std::span<const float> logits, double top, double temperature,
                        std::span<double> weights) {
    RL_ASSERT(weights.size() == logits.size() && temperature > 0.0);
    if (isa() != Isa::reference) {
        return cpu::kernels().sampling_weights(logits.data(), static_cast<int64_t>(logits.size()), top,
                                               temperature, weights.data());
    }
    double sum = 0;
    for (size_t i = 0; i < logits.size(); ++i)
        sum += weights[i] = std::exp((static_cast<double>(logits[i]) - top) / temperature);
    return sum;
}

void ids_from(std::span<const float> logits, float floor, std::vector<int32_t>& ids) {
    constexpr size_t block = 64; // few of them have any
    for (size_t begin = 0; begin < logits.size(); begin += block) {
        const auto part = logits.subspan(begin, std::min(block, logits.size() - begin));
        if (isa() != Isa::reference &&
            !(cpu::kernels().max(part.data(), static_cast<int64_t>(part.size())) >= floor))
            continue;
        for (size_t i = 0; i < part.size(); ++i) {
            if (part[i] >= floor) ids.push_back(static_cast<int32_t>(begin + i));
        }
    }
}

} // namespace refreshlab::kernels
