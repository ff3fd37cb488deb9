#pragma once

#include "kernels/blocks/block_types.h"
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/ops/row_summary.h"

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

/// The products of a decode step: matrices that are looked at once, when a model is loaded, and then multiply a row, or a few, again and
/// again. What follows a product (residual, gate, statistics) is done by the thread that made its outputs, while they are in the
/// first cache. Nothing is allocated per call but what the statistics give.
///
/// The bits are those of linear() and of the operations that follow it (kernels/ops). One job per function; any kernel set but
/// `reference`.
namespace refreshlab::kernels::cpu {

class RowInput;

/// A matrix [out, in] with its bias, of a dtype or in blocks (kernels/blocks/blocks.h). Keeps both alive.
class RowMatrix {
public:
    RowMatrix() = default;
    /// \param bias  [out] or undefined; held in fp32
    RowMatrix(const at::Tensor& weight, const at::Tensor& bias);

    [[nodiscard]] int64_t in() const { return m_in; }
    [[nodiscard]] int64_t out() const { return m_out; }
    /// It reads the sums of each block's inputs.
    [[nodiscard]] bool needs_sums() const { return m_blocks && m_block_type == BlockType::q4_1; }
    /// Outputs [first, first + n) of every row, one thread; first and n are multiples of `unit`, but for the last ones.
    /// \param y  [rows, out]
    void multiply(const RowInput& x, int64_t first, int64_t n, float* y) const;

    static constexpr int64_t unit = 16;

private:
    at::Tensor m_weight, m_bias;
    int64_t m_in = 0, m_out = 0;
    bool m_blocks = false;
    ElementType m_type = ElementType::f32;
    BlockType m_block_type = BlockType::q8_0;
    const std::byte* m_data = nullptr;
    int64_t m_unit_bytes = 0; ///< of `unit` rows
    const float* m_bias_data = nullptr;
};

/// The rows that matrices read.
class RowInput {
public:
    RowInput(int64_t rows, int64_t width);
    [[nodiscard]] int64_t rows() const { return m_rows; }
    [[nodiscard]] float* data() { return m_data; }
    [[nodiscard]] const float* data() const { return m_data; }
    [[nodiscard]] const at::Tensor& tensor() const {
        return m_values;
    } ///< [rows, width]; the values themselves
    /// After the values have changed, before a product with any of `matrices`.
    void prepare(std::initializer_list<const RowMatrix*> matrices);
    [[nodiscard]] const float* sums() const { return m_sums.data(); }

private:
    at::Tensor m_values;
    int64_t m_rows;
    float* m_data;
    std::vector<float> m_sums; ///< [rows, width / 32]
};

/// y = matrix x, for each of them.
struct RowProduct {
    const RowMatrix* matrix;
    float* y; ///< [rows, out]
};
void multiply(const RowInput& x, std::span<const RowProduct> products);
/// residual += matrix x. \param y  room for the product; both [rows, out]
void multiply_onto(const RowInput& x, const RowMatrix& matrix, float* y, float* residual);
/// inner = f(gate x) * (up x). \param gate_y, up_y  room for the products; all [rows, out]
void multiply_gated(Activation activation, const RowInput& x, const RowMatrix& gate, const RowMatrix& up,
                    float* gate_y, float* up_y, float* inner);
/// y = head x, [rows, out], and what is asked of the first row of logits: no KL. Each segment is summed by the thread that completes it.
[[nodiscard]] RowSummary multiply_summarized(const RowInput& x, const RowMatrix& head, float* y,
                                             int64_t top_k, int64_t token = -1);

} // namespace refreshlab::kernels::cpu
