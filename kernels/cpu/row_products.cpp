#include "kernels/cpu/row_products.h"

#include "kernels/blocks/block_kernels.h"
#include "kernels/blocks/blocks.h"
#include "kernels/cpu/cpu_tensors.h"
#include "kernels/cpu/row_statistics_cpu.h"
#include "kernels/execution/isa.h"
#include "kernels/execution/thread_pool.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <atomic>
#include <memory>

namespace refreshlab::kernels::cpu {
namespace {

constexpr int64_t unit = RowMatrix::unit;
constexpr int64_t products_of_a_microsecond =
    24 * 1024; // ~1 us; tasks of a quarter or twice as much were no faster

int64_t units_of(const RowMatrix& matrix) {
    return (matrix.out() + unit - 1) / unit;
}
/// Units that are worth a task, where each reads `in` inputs of every row.
int64_t grain_of(const RowInput& x, int64_t in) {
    return std::max<int64_t>(products_of_a_microsecond / std::max<int64_t>(unit * in * x.rows(), 1), 1);
}

} // namespace

RowMatrix::RowMatrix(const at::Tensor& weight, const at::Tensor& bias)
    : m_weight(weight)
    , m_bias(bias.defined() ? bias.to(at::kFloat).contiguous() : at::Tensor())
    , m_blocks(is_blocks(weight)) {
    RL_ASSERT(weight.is_cpu() && weight.is_contiguous());
    if (m_blocks) {
        const BlockShape shape = block_shape(weight);
        m_in = shape.in;
        m_out = shape.out;
        m_block_type = shape.type;
        m_unit_bytes = shape.in / block_width * tile_bytes(shape.type);
        static_assert(unit == block_rows);
    } else {
        m_out = weight.size(0);
        m_in = weight.size(1);
        m_type = element_type(weight);
        m_unit_bytes = unit * m_in * element_bytes(m_type);
    }
    RL_ASSERT(!bias.defined() || (bias.dim() == 1 && bias.size(0) == m_out));
    m_data = static_cast<const std::byte*>(weight.const_data_ptr());
    if (m_bias.defined()) m_bias_data = m_bias.const_data_ptr<float>();
}

void RowMatrix::multiply(const RowInput& x, int64_t first, int64_t n, float* y) const {
    const std::byte* const weights = m_data + first / unit * m_unit_bytes;
    const float* const bias = m_bias_data != nullptr ? m_bias_data + first : nullptr;
    if (m_blocks) {
        BlockDots d;
        d.type = m_block_type;
        d.x = x.data();
        d.x_stride = m_in;
        d.rows = x.rows();
        d.sums = x.sums();
        d.tiles = weights;
        d.outs = n;
        d.in = m_in;
        d.bias = bias;
        d.y = y + first;
        d.y_stride = m_out;
        block_dots(d);
        return;
    }
    Dots d;
    d.x = x.data();
    d.x_stride = m_in;
    d.rows = x.rows();
    d.w = weights;
    d.w_type = m_type;
    d.w_stride = m_in;
    d.outs = n;
    d.in = m_in;
    d.bias = bias;
    d.y = y + first;
    d.y_stride = m_out;
    kernels().dots(d);
}

RowInput::RowInput(int64_t rows, int64_t width)
    : m_values(at::empty({rows, width}, at::TensorOptions().dtype(at::kFloat)))
    , m_rows(rows)
    , m_data(m_values.mutable_data_ptr<float>())
    , m_sums(static_cast<size_t>(rows * (width / block_width))) {}

void RowInput::prepare(std::initializer_list<const RowMatrix*> matrices) {
    const bool needed = std::ranges::any_of(matrices, [](const RowMatrix* m) { return m->needs_sums(); });
    if (needed) block_input_sums(m_data, static_cast<int64_t>(m_sums.size()), m_sums.data());
}

void multiply(const RowInput& x, std::span<const RowProduct> products) {
    int64_t units = 0;
    for (const RowProduct& p : products)
        units += units_of(*p.matrix);
    if (units == 0) return;
    parallel_for(units, grain_of(x, products[0].matrix->in()), [&](int64_t begin, int64_t end) {
        int64_t before = 0; // units of the matrices passed
        for (const RowProduct& p : products) {
            const int64_t own = units_of(*p.matrix);
            const int64_t first = std::max<int64_t>(begin - before, 0) * unit;
            const int64_t last = std::min(std::min(end - before, own) * unit, p.matrix->out());
            if (first < last) p.matrix->multiply(x, first, last - first, p.y);
            before += own;
        }
    });
}

void multiply_onto(const RowInput& x, const RowMatrix& matrix, float* y, float* residual) {
    parallel_for(units_of(matrix), grain_of(x, matrix.in()), [&](int64_t begin, int64_t end) {
        const int64_t first = begin * unit, last = std::min(end * unit, matrix.out());
        matrix.multiply(x, first, last - first, y);
        for (int64_t row = 0; row < x.rows() * matrix.out(); row += matrix.out()) {
            for (int64_t i = row + first; i < row + last; ++i)
                residual[i] += y[i];
        }
    });
}

void multiply_gated(Activation activation, const RowInput& x, const RowMatrix& gate, const RowMatrix& up,
                    float* gate_y, float* up_y, float* inner) {
    RL_ASSERT(gate.out() == up.out());
    const auto gated = kernels().gated(activation);
    parallel_for(units_of(gate), grain_of(x, 2 * gate.in()), [&](int64_t begin, int64_t end) {
        const int64_t first = begin * unit, last = std::min(end * unit, gate.out());
        gate.multiply(x, first, last - first, gate_y);
        up.multiply(x, first, last - first, up_y);
        for (int64_t row = 0; row < x.rows(); ++row) {
            const int64_t at = row * gate.out() + first;
            gated(gate_y + at, up_y + at, last - first, inner + at);
        }
    });
}

RowSummary multiply_summarized(const RowInput& x, const RowMatrix& head, float* y, int64_t top_k,
                               int64_t token) {
    static_assert(RowSegments::length % unit == 0);
    constexpr int64_t length = RowSegments::length;
    RowSegments segments(y, head.out(), top_k);
    // Outputs that each segment still waits for; who brings the last ones sums it.
    const auto waiting = std::make_unique<std::atomic<int64_t>[]>(static_cast<size_t>(segments.count()));
    for (int64_t s = 0; s < segments.count(); ++s)
        waiting[static_cast<size_t>(s)].store(std::min(length, head.out() - s * length),
                                              std::memory_order_relaxed); // parallel_for publishes it
    parallel_for(units_of(head), grain_of(x, head.in()), [&](int64_t begin, int64_t end) {
        const int64_t last = std::min(end * unit, head.out());
        for (int64_t first = begin * unit; first < last;) {
            const int64_t segment = first / length, n = std::min((segment + 1) * length, last) - first;
            head.multiply(x, first, n, y);
            first += n;
            // Released by those who made other outputs of the segment, acquired by who sums it.
            auto& left = waiting[static_cast<size_t>(segment)];
            if (left.fetch_sub(n, std::memory_order_acq_rel) == n) segments.sum(segment);
        }
    });
    return segments.finish(token);
}

} // namespace refreshlab::kernels::cpu
