#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

namespace refreshlab {

/// Keys and values of all layers of a model, every position in the column of its number. Which columns are in use, its owner knows.
///
/// Storage  K, V: [layers, kv_heads, capacity, head_dim]; allocated once, never moved. In builds without NDEBUG columns read as NaN
///          until they are written.
/// Errors   shapes and positions are its caller's: checked in debug builds where raw memory is written, else by ATen.
class DenseColumns {
public:
    DenseColumns() = default; ///< of no layer
    /// All sizes positive. \param options  dtype and device
    DenseColumns(int64_t layers, int64_t kv_heads, int64_t capacity, int64_t head_dim,
                 const at::TensorOptions& options);

    /// One layer, [kv_heads, capacity, head_dim]; views. Throws std::out_of_range.
    [[nodiscard]] const at::Tensor& keys(int64_t layer) const;
    [[nodiscard]] const at::Tensor& values(int64_t layer) const;
    /// Columns [first_pos, first_pos + n) of all layers, [layers, kv_heads, n, head_dim]; views.
    [[nodiscard]] at::Tensor keys(int64_t first_pos, int64_t n) const;
    [[nodiscard]] at::Tensor values(int64_t first_pos, int64_t n) const;
    /// What every KV head holds where n <= capacity columns are in use: 0 .. n - 1.
    [[nodiscard]] std::span<const int64_t> positions(int64_t n) const;
    /// Columns of one KV head: [2, n, head_dim], K then V, on the host; a copy.
    [[nodiscard]] at::Tensor read(int64_t layer, int64_t kv_head, std::span<const int64_t> positions) const;

    /// One layer's columns [first_pos, first_pos + n). k, v: [n, kv_heads, head_dim], any float dtype (rounded on store).
    void write(int64_t layer, int64_t first_pos, const at::Tensor& k, const at::Tensor& v);
    /// Columns [first_pos, first_pos + n) of all layers, bit for bit. k, v: [layers, kv_heads, n, head_dim] of this dtype, any device.
    void overwrite(int64_t first_pos, const at::Tensor& k, const at::Tensor& v);
    /// In builds without NDEBUG: columns that hold nothing read as NaN, so that any use of them shows in the logits.
    void poison(int64_t first_pos, int64_t n);

    [[nodiscard]] int64_t bytes() const; ///< of K and V

private:
    at::Tensor m_k, m_v;
    std::vector<at::Tensor> m_layer_k, m_layer_v; ///< views of each layer
    std::vector<int64_t> m_every;                 ///< [capacity]: 0, 1, 2, ...
};

} // namespace refreshlab
