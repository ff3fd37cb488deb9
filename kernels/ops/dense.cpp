#include "kernels/ops/dense.h"

#include "kernels/blocks/blocks.h"
#include "kernels/cpu/dense_cpu.h"
#include "kernels/cuda/blocks_cuda.h"
#include "kernels/execution/isa.h"
#include "kernels/shared/check.h"

#include <vector>

namespace refreshlab::kernels {
namespace {

bool on_own_cpu_code(const at::Tensor& x) {
    return x.is_cpu() && isa() != Isa::reference;
}

} // namespace

at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
    if (is_blocks(weight)) {
        RL_ASSERT(x.dim() == 2 && x.size(1) == block_shape(weight).in);
        RL_ASSERT(!bias.defined() || (bias.dim() == 1 && bias.size(0) == block_shape(weight).out));
#if REFRESHLAB_CUDA
        if (x.is_cuda()) return cuda::block_linear(x, weight, bias);
#endif
        return on_own_cpu_code(x) ? block_linear(x, weight, bias)
                                  : reference::linear(x, block_values(weight), bias);
    }
    RL_ASSERT(x.dim() == 2 && weight.dim() == 2 && x.size(1) == weight.size(1));
    RL_ASSERT(weight.is_contiguous());
    RL_ASSERT(!bias.defined() || (bias.dim() == 1 && bias.size(0) == weight.size(0)));
    return on_own_cpu_code(x) ? cpu::linear(x, weight, bias) : reference::linear(x, weight, bias);
}

at::Tensor embedded(const at::Tensor& packed, std::span<const int32_t> ids) {
#if REFRESHLAB_CUDA
    if (packed.is_cuda()) return cuda::block_rows_of(packed, ids);
#endif
    return block_values(packed, std::vector<int64_t>(ids.begin(), ids.end()));
}

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps, int64_t width) {
    RL_ASSERT(x.dim() == 2 && weight.dim() == 1 && weight.size(0) == x.size(1));
    RL_ASSERT(width >= 0 && width <= x.size(1));
    return on_own_cpu_code(x) ? cpu::rms_norm(x, weight, eps, width)
                              : reference::rms_norm(x, weight, eps, width);
}

at::Tensor gated(Activation activation, const at::Tensor& gate, const at::Tensor& up) {
    RL_ASSERT(gate.sizes() == up.sizes());
    return on_own_cpu_code(gate) ? cpu::gated(activation, gate, up) : reference::gated(activation, gate, up);
}

void soft_cap_(at::Tensor& x, double cap) {
    RL_ASSERT(cap > 0 && x.is_contiguous());
    if (on_own_cpu_code(x))
        cpu::soft_cap_(x, cap);
    else
        reference::soft_cap_(x, cap);
}

void rope_(at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin) {
    RL_ASSERT(x.dim() == 3 && x.size(2) % 2 == 0);
    RL_ASSERT(cos.dim() == 2 && cos.size(0) == x.size(0) && cos.size(1) <= x.size(2) / 2);
    RL_ASSERT(sin.sizes() == cos.sizes());
    if (on_own_cpu_code(x))
        cpu::rope_(x, cos, sin);
    else
        reference::rope_(x, cos, sin);
}

} // namespace refreshlab::kernels
