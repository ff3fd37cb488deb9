#include "kernels/ops/dense.h"

#include <ATen/ATen.h>

namespace refreshlab::kernels::reference {

at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
    const at::Tensor b = bias.defined() ? bias.to(x.scalar_type()) : at::Tensor();
    return at::linear(x, weight.to(x.scalar_type()), b);
}

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps, int64_t width) {
    const at::Tensor wide = x.to(at::kFloat);
    const double row_width = static_cast<double>(width > 0 ? width : x.size(1));
    const at::Tensor mean = wide.square().sum(-1, /*keepdim=*/true) / row_width;
    return (wide * at::rsqrt(mean + eps) * weight.to(at::kFloat)).to(x.scalar_type());
}

at::Tensor gated(Activation activation, const at::Tensor& gate, const at::Tensor& up) {
    return (activation == Activation::silu ? at::silu(gate) : at::gelu(gate, "tanh")) * up;
}

void soft_cap_(at::Tensor& x, double cap) {
    x.div_(cap).tanh_().mul_(cap);
}

void rope_(at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin) {
    const int64_t half = cos.size(1);
    const at::Tensor first = x.narrow(2, 0, half).to(at::kFloat);
    const at::Tensor second = x.narrow(2, half, half).to(at::kFloat);
    const at::Tensor c = cos.to(at::kFloat).unsqueeze(1);
    const at::Tensor s = sin.to(at::kFloat).unsqueeze(1);
    const at::Tensor rotated = at::cat({first * c - second * s, second * c + first * s}, 2);
    x.narrow(2, 0, 2 * half).copy_(rotated);
}

} // namespace refreshlab::kernels::reference
