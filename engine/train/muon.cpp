#include "engine/train/muon.h"

#include "engine/base/check.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace refreshlab {

namespace {

constexpr double momentum = 0.95;

} // namespace

at::Tensor orthogonalised(const at::Tensor& matrix, at::ScalarType products) {
    constexpr double a = 3.4445, b = -4.7750, c = 2.0315;
    const bool tall = matrix.size(-2) > matrix.size(-1);
    at::Tensor x = tall ? matrix.transpose(-2, -1) : matrix;
    x = (x / (at::linalg_vector_norm(x, 2, at::IntArrayRef{-2, -1}, true) + 1e-7)).to(products);
    for (int step = 0; step < 5; ++step) {
        const at::Tensor squared = at::matmul(x, x.transpose(-2, -1));
        const at::Tensor turned = b * squared + c * at::matmul(squared, squared);
        x = a * x + at::matmul(turned, x);
    }
    return (tall ? x.transpose(-2, -1) : x).to(at::kFloat);
}

Muon::Muon(std::vector<at::Tensor> matrices, double weight_decay, at::ScalarType products)
    : m_matrices(std::move(matrices))
    , m_decay(weight_decay)
    , m_products(products) {
    for (const at::Tensor& matrix : m_matrices) {
        RL_ASSERT(matrix.dim() == 2);
        m_momenta.push_back(at::zeros_like(matrix).detach());
    }
}

void Muon::step(double rate) {
    const c10::AutoGradMode off(false);
    for (size_t i = 0; i < m_matrices.size(); ++i) {
        at::Tensor matrix = m_matrices[i];
        const at::Tensor gradient = matrix.grad();
        if (!gradient.defined()) continue;
        m_momenta[i].lerp_(gradient, 1 - momentum);
        const at::Tensor update = orthogonalised(gradient.lerp(m_momenta[i], momentum), m_products);
        const auto size = static_cast<double>(std::max(matrix.size(0), matrix.size(1)));
        matrix.mul_(1 - rate * m_decay).add_(update, -rate * 0.2 * std::sqrt(size));
    }
}

} // namespace refreshlab
