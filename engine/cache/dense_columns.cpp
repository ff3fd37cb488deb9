#include "engine/cache/dense_columns.h"

#include "engine/base/check.h"
#include "kernels/cpu/convert_rows.h"
#include "kernels/cpu/cpu_tensors.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>

#include <cstddef>
#include <limits>
#include <numeric>

namespace refreshlab {

namespace {

/// rows of [n, kv_heads, head_dim] into [kv_heads, capacity, head_dim] at column `first`, rounded to its dtype. A decode step writes
/// a few hundred bytes per layer: there a strided copy_ costs microseconds.
void copy_columns(const at::Tensor& storage, const at::Tensor& rows, int64_t first) {
    const int64_t n = rows.size(0);
    RL_DEBUG_ASSERT(first >= 0 && first + n <= storage.size(1));
    RL_DEBUG_ASSERT(rows.size(1) == storage.size(0) && rows.size(2) == storage.size(2));
    namespace cpu = kernels::cpu;
    if (!cpu::has_element_type(storage) || !cpu::has_element_type(rows) ||
        (rows.size(2) > 1 && rows.stride(2) != 1)) {
        storage.narrow(1, first, n).copy_(rows.transpose(0, 1));
        return;
    }
    cpu::Conversion c;
    c.from_type = cpu::element_type(rows);
    c.from_stride = rows.stride(0);
    c.to_type = cpu::element_type(storage);
    c.to_stride = storage.stride(1);
    c.rows = n;
    c.width = rows.size(2);
    auto* const to = static_cast<std::byte*>(storage.mutable_data_ptr());
    for (int64_t h = 0; h < rows.size(1); ++h) {
        c.from = cpu::element(rows, h * rows.stride(1));
        c.to = to + (h * storage.stride(0) + first * storage.stride(1)) * cpu::element_bytes(c.to_type);
        cpu::convert_rows(c);
    }
}

} // namespace

DenseColumns::DenseColumns(int64_t layers, int64_t kv_heads, int64_t capacity, int64_t head_dim,
                           const at::TensorOptions& options)
    : m_k(at::empty({layers, kv_heads, capacity, head_dim}, options))
    , m_v(at::empty({layers, kv_heads, capacity, head_dim}, options))
    , m_layer_k(m_k.unbind(0))
    , m_layer_v(m_v.unbind(0))
    , m_every(static_cast<size_t>(capacity)) {
    std::iota(m_every.begin(), m_every.end(), 0);
    poison(0, capacity);
}

const at::Tensor& DenseColumns::keys(int64_t layer) const {
    return m_layer_k.at(static_cast<size_t>(layer));
}
const at::Tensor& DenseColumns::values(int64_t layer) const {
    return m_layer_v.at(static_cast<size_t>(layer));
}

at::Tensor DenseColumns::keys(int64_t first_pos, int64_t n) const {
    return m_k.narrow(2, first_pos, n);
}
at::Tensor DenseColumns::values(int64_t first_pos, int64_t n) const {
    return m_v.narrow(2, first_pos, n);
}

std::span<const int64_t> DenseColumns::positions(int64_t n) const {
    return std::span(m_every).first(static_cast<size_t>(n));
}

at::Tensor DenseColumns::read(int64_t layer, int64_t kv_head, std::span<const int64_t> positions) const {
    const at::Tensor index =
        at::tensor(c10::ArrayRef<int64_t>(positions.data(), positions.size()), at::kLong).to(m_k.device());
    return at::stack(
               {keys(layer)[kv_head].index_select(0, index), values(layer)[kv_head].index_select(0, index)})
        .cpu();
}

void DenseColumns::write(int64_t layer, int64_t first_pos, const at::Tensor& k, const at::Tensor& v) {
    copy_columns(keys(layer), k, first_pos);
    copy_columns(values(layer), v, first_pos);
}

void DenseColumns::overwrite(int64_t first_pos, const at::Tensor& k, const at::Tensor& v) {
    m_k.narrow(2, first_pos, k.size(2)).copy_(k);
    m_v.narrow(2, first_pos, v.size(2)).copy_(v);
}

void DenseColumns::poison(int64_t first_pos, int64_t n) {
#ifdef NDEBUG
    (void)first_pos;
    (void)n;
#else
    if (n == 0) return;
    m_k.narrow(2, first_pos, n).fill_(std::numeric_limits<double>::quiet_NaN());
    m_v.narrow(2, first_pos, n).fill_(std::numeric_limits<double>::quiet_NaN());
#endif
}

int64_t DenseColumns::bytes() const {
    return m_k.defined() ? static_cast<int64_t>(m_k.nbytes() + m_v.nbytes()) : 0;
}

} // namespace refreshlab
