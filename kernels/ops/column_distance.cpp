#include "kernels/ops/column_distance.h"

#include "kernels/cpu/cpu_tensors.h"
#include "kernels/cpu/half.h"
#include "kernels/execution/isa.h"
#include "kernels/execution/thread_pool.h"
#include "kernels/shared/check.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

namespace refreshlab::kernels {
namespace {

struct Sums {
    double difference = 0; // sum (a - b)^2
    double norm = 0;       // sum b^2
    float max_abs = 0;     // NaN once an entry is NaN
};

float to_float(float value) {
    return value;
}
using cpu::to_float;

template <typename Element>
void add_run(const void* a_run, const void* b_run, int64_t n, Sums& sums) {
    const Element* const a = static_cast<const Element*>(a_run);
    const Element* const b = static_cast<const Element*>(b_run);
    for (int64_t i = 0; i < n; ++i) {
        const float x = to_float(a[i]);
        const float y = to_float(b[i]);
        const double d = static_cast<double>(x) - static_cast<double>(y);
        sums.difference += d * d;
        sums.norm += static_cast<double>(y) * static_cast<double>(y);
        const float distance = std::abs(x - y);
        if (!(distance <= sums.max_abs) && !std::isnan(sums.max_abs)) sums.max_abs = distance;
    }
}

void add_run(cpu::ElementType type, const void* a, const void* b, int64_t n, Sums& sums) {
    switch (type) {
    case cpu::ElementType::f32:
        return add_run<float>(a, b, n, sums);
    case cpu::ElementType::bf16:
        return add_run<cpu::Bf16>(a, b, n, sums);
    case cpu::ElementType::f16:
        return add_run<cpu::F16>(a, b, n, sums);
    }
}

/// Straight over the caches' own memory: views are not copied.
ColumnDistance column_distance_cpu(const at::Tensor& a, const at::Tensor& b) {
    const int64_t layers = a.size(0);
    const int64_t kv_heads = a.size(1);
    const int64_t n = a.size(2);
    const int64_t head_dim = a.size(3);
    ColumnDistance result{at::empty({layers, n}, at::kFloat), at::empty({layers, n}, at::kFloat)};
    float* const relative = result.relative.mutable_data_ptr<float>();
    float* const max_abs = result.max_abs.mutable_data_ptr<float>();
    const cpu::ElementType type = cpu::element_type(a);
    const int64_t column_size = std::max<int64_t>(kv_heads * head_dim, 1);
    parallel_for(layers * n, std::max<int64_t>(8192 / column_size, 1), [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
            Sums sums;
            for (int64_t h = 0; h < kv_heads; ++h) {
                add_run(type, cpu::element(a, i / n * a.stride(0) + h * a.stride(1) + i % n * a.stride(2)),
                        cpu::element(b, i / n * b.stride(0) + h * b.stride(1) + i % n * b.stride(2)),
                        head_dim, sums);
            }
            relative[i] =
                static_cast<float>(std::sqrt(sums.difference) / std::max(std::sqrt(sums.norm), 1e-12));
            max_abs[i] = sums.max_abs;
        }
    });
    return result;
}

} // namespace

ColumnDistance column_distance(const at::Tensor& a, const at::Tensor& b) {
    RL_ASSERT(a.dim() == 4 && a.sizes() == b.sizes() && a.device() == b.device());
    const bool dense = a.scalar_type() == b.scalar_type() && a.stride(3) == 1 && b.stride(3) == 1;
    return a.is_cpu() && dense && isa() != Isa::reference ? column_distance_cpu(a, b)
                                                          : reference::column_distance(a, b);
}

namespace reference {

ColumnDistance column_distance(const at::Tensor& a, const at::Tensor& b) {
    const at::Tensor difference = a.to(at::kDouble) - b.to(at::kDouble);
    const at::Tensor distance = difference.square().sum({1, 3}).sqrt();
    const at::Tensor norm = b.to(at::kDouble).square().sum({1, 3}).sqrt();
    return {(distance / norm.clamp_min(1e-12)).to(at::kFloat).cpu(),
            difference.abs().amax({1, 3}).to(at::kFloat).cpu()};
}

} // namespace reference
} // namespace refreshlab::kernels
