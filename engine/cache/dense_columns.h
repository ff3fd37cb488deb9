#pragma once

#include "engine/base/entry_selection.h"
#include "kernels/decode/device_cache_work.h"
#include "kernels/ops/column_distance.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace refreshlab {

/// Columns of all layers as they stood before a change, on the host. Nobody writes into them, so copies share them.
struct KeptColumns {
    at::Tensor k, v; ///< [layers, kv_heads, n, head_dim] on the CPU, cache dtype
    std::shared_ptr<const kernels::SavedColumns> by_device; ///< instead of them, where kernels wrote them
    [[nodiscard]] bool empty() const { return !k.defined() && by_device == nullptr; }
    [[nodiscard]] int64_t bytes() const;
};

/// Some entries as they stood before a change, on the host. Nobody writes into them, so copies share them.
struct KeptEntries {
    std::vector<int64_t> heads; ///< layer * kv_heads + head, ascending
    EntryHalves halves;         ///< that changed
    at::Tensor k,
        v; ///< [heads, positions, head_dim] on the CPU, cache dtype; undefined where that half did not change
    std::shared_ptr<const kernels::SavedColumns> by_device; ///< instead of them, where kernels wrote them
    [[nodiscard]] bool empty() const { return !k.defined() && !v.defined() && by_device == nullptr; }
    [[nodiscard]] int64_t bytes() const;
};

/// How far columns of one cache are from those of another, K and V apart; on the host.
struct ColumnDistances {
    kernels::ColumnDistance k, v;
};

/// Keys and values of all layers of a model, every position in the column of its number. Which columns are in use, its owner knows.
///
/// Storage  K, V: [layers, kv_heads, capacity, head_dim]; allocated once, never moved. In builds without NDEBUG columns read as NaN
///          until they are written.
/// Device   with a DeviceCacheWork, columns are replaced, put back and measured by its kernels, in one launch for all layers; ATen does
///          so without, and under the kernel set `reference`.
/// Errors   shapes and positions are its caller's: checked in debug builds where raw memory is written, else by ATen.
class DenseColumns {
public:
    DenseColumns() = default; ///< of no layer
    /// All sizes positive. \param options  dtype and device
    /// \param work  of that device and of this geometry, or null
    DenseColumns(int64_t layers, int64_t kv_heads, int64_t capacity, int64_t head_dim,
                 const at::TensorOptions& options, std::shared_ptr<kernels::DeviceCacheWork> work = {});

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
    /// Columns [first_pos, first_pos + n), n <= most_replaced(), become those of `other`, bit for bit. \return what stood there
    [[nodiscard]] KeptColumns replace(int64_t first_pos, int64_t n, const DenseColumns& other);
    [[nodiscard]] int64_t most_replaced() const; ///< at a time
    /// The same of a selection of entries, at most most_replaced() positions.
    [[nodiscard]] KeptEntries replace(const EntrySelection& selection, const DenseColumns& other);
    /// The first n of what replace() gave stand at first_pos again.
    void put_back(int64_t first_pos, int64_t n, const KeptColumns& kept);
    /// What replace() gave of the first of its positions stands there again.
    void put_back(std::span<const int64_t> positions, const KeptEntries& kept);
    /// Columns [first_pos, first_pos + n) against those of `other`, which is the teacher's (kernels/ops/column_distance.h). Waits for the
    /// device.
    [[nodiscard]] ColumnDistances distances(const DenseColumns& other, int64_t first_pos, int64_t n) const;
    [[nodiscard]] const std::shared_ptr<kernels::DeviceCacheWork>& work() const { return m_work; }
    /// In builds without NDEBUG: columns that hold nothing read as NaN, so that any use of them shows in the logits.
    void poison(int64_t first_pos, int64_t n);

    [[nodiscard]] int64_t bytes() const; ///< of K and V

private:
    [[nodiscard]] bool by_kernels() const;
    /// Columns as the kernels of a device read them: in place, or a copy where the cache is on another one (peer to peer where the driver
    /// allows it, which is ATen's to know).
    struct ReadColumns {
        at::Tensor k, v; ///< what `columns` points into
        kernels::DeviceColumns columns;
    };
    [[nodiscard]] ReadColumns columns_on(at::Device device, int64_t first_pos, int64_t n) const;
    at::Tensor m_k, m_v;
    std::vector<at::Tensor> m_layer_k, m_layer_v; ///< views of each layer
    std::vector<int64_t> m_every;                 ///< [capacity]: 0, 1, 2, ...
    std::shared_ptr<kernels::DeviceCacheWork> m_work;
};

} // namespace refreshlab
