#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace refreshlab {

/// A matrix, or a stack of them, [..., m, n], with all singular values pushed to about 1 (0.7 to 1.2): U S V^T becomes nearly U V^T. Zero
/// rows and columns stay zero. Five steps of the quintic Newton-Schulz iteration with the published coefficients.
/// Source: Jordan et al. 2024, "Muon: an optimizer for hidden layers in neural networks" (kellerjordan.github.io/posts/muon).
/// \param products  bf16 as published, or fp32, where the processor has no products of bf16. \return fp32
[[nodiscard]] at::Tensor orthogonalised(const at::Tensor& matrix, at::ScalarType products);

/// Muon, for the matrices of hidden layers: Nesterov momentum of 0.95, made orthogonal. Embeddings, heads and vectors are not for it.
///
/// Update  w -= rate * (decay * w + 0.2 * sqrt(max(m, n)) * orthogonal), so that an update is as large as one of AdamW at the same rate.
/// Source: Jordan et al. 2024; the factor and the decay: Liu et al. 2025 (arXiv 2502.16982), equation 4.
class Muon {
public:
    /// \param matrices  [m, n] each, fp32, with or without gradients yet
    Muon(std::vector<at::Tensor> matrices, double weight_decay, at::ScalarType products);

    /// A matrix without a gradient stays as it is.
    void step(double rate);
    /// Of each matrix, as it stands; to be saved and written again.
    [[nodiscard]] const std::vector<at::Tensor>& momenta() const { return m_momenta; }

private:
    std::vector<at::Tensor> m_matrices, m_momenta;
    double m_decay;
    at::ScalarType m_products;
};

} // namespace refreshlab
