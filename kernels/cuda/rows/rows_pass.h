#pragma once

#include "kernels/cuda/build.h"
#include "kernels/cuda/decode/decode_kernels.h"
#include "kernels/cuda/decode/expert_tables.h"
#include "kernels/cuda/device/runtime.h"
#include "kernels/cuda/rows/row_kernels.h"
#include "kernels/decode/device_decoder.h"

#include <cstddef>
#include <cstdint>

namespace refreshlab::kernels::RL_GPU {

/// Passes of many rows of one model: the launches of kernels/cuda/rows, and the buffers that they work in.
class RowsPass {
public:
    /// \param model, tables  outlive this
    RowsPass(const DeviceModel& model, const ExpertTables& tables)
        : m_model(model)
        , m_tables(tables) {}

    /// DeviceDecoder::extend().
    void run(const DeviceCache& cache, const DevicePass& pass, cudaStream_t stream);

private:
    void reserve(int64_t rows, int64_t capacity, cudaStream_t stream);
    void run_layer(const DeviceCache& cache, const DevicePass& pass, size_t index, cudaStream_t stream);
    /// h = norm of the rows from `first` on.
    void norm(const void* weight, int64_t first, cudaStream_t stream);
    /// A layer's part of a cache's keys or values.
    [[nodiscard]] std::byte* of_layer(void* of_all, const DeviceCache& cache, size_t index) const {
        return static_cast<std::byte*>(of_all) +
               index * static_cast<size_t>(m_model.kv_heads * cache.capacity * m_model.head_dim *
                                           bytes_of(m_model.type));
    }
    /// x += o * attention, rows from `first` on.
    void attend(const DeviceCache& cache, const DevicePass& pass, size_t index, int64_t first,
                cudaStream_t stream);
    /// q, k and v of h, side by side, or in parts; or k and v.
    void project(const DeviceModel::Layer& layer, bool with_q, cudaStream_t stream) const;
    /// x += matrix * in, or with `norm_of_it` that norm, rows from `first` on; `in` begins with that row. Where it is left in parts, or gets a
    /// norm, the next norm adds them.
    void onto(const DeviceMatrix& matrix, const void* norm_of_it, const void* in, int64_t first,
              cudaStream_t stream);
    /// x += the MLP, rows from `first` on.
    void run_mlp(const DeviceModel::Layer& layer, int64_t first, cudaStream_t stream);
    void run_experts(size_t index, int64_t first, cudaStream_t stream);
    /// Of a product with that many inputs and outputs; they stand in m_parts.
    [[nodiscard]] ProductParts parts_of(int64_t inputs, int64_t outputs) const;
    /// Of q | k | v. Keys and values alone have as many: their bits are the same. Norms over all heads are made of whole sums.
    [[nodiscard]] ProductParts qkv_parts() const {
        return m_model.qk_norm_whole ? ProductParts{} : parts_of(m_model.hidden, columns());
    }
    [[nodiscard]] float* x(int64_t row) const {
        return static_cast<float*>(m_x.data()) + row * m_model.hidden;
    }
    [[nodiscard]] float* qkv(int64_t row) const {
        return static_cast<float*>(m_qkv.data()) + row * columns();
    }
    [[nodiscard]] int64_t columns(bool with_q = true) const {
        return ((with_q ? m_model.heads : 0) + 2 * m_model.kv_heads) * m_model.head_dim;
    }

    const DeviceModel& m_model;
    const ExpertTables& m_tables;
    RoutedRows m_routed;
    int64_t m_rows = 0, m_capacity = 0; ///< of the buffers
    int64_t m_pass_rows = 0;            ///< of the pass under way
    DeviceMemory m_tokens, m_x, m_h, m_qkv, m_attended, m_inner;
    DeviceMemory m_parts; ///< of attention, or of a product: one follows the other
    /// What x has still to get: parts of a product, or one with a norm; count 0: nothing.
    struct Onto {
        int64_t parts = 0;
        const void *bias = nullptr, *norm = nullptr; ///< of the parts, of their sum
    } m_onto;
};

} // namespace refreshlab::kernels::RL_GPU
