#pragma once

#include "kernels/decode/launch_shapes.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace refreshlab::kernels {

/// Most columns that one splice takes: so many of them stand in memory of the device on their way to the host's.
inline constexpr int64_t most_spliced_columns = 256;

/// What dense caches of one model have in common.
struct CacheShape {
    WeightType type{};
    int64_t layers = 0, kv_heads = 0, head_dim = 0; ///< head_dim: a multiple of 8, of 4 in f32 (asserted)

    /// K and V of n columns in all layers.
    [[nodiscard]] constexpr int64_t bytes(int64_t n) const {
        return 2 * layers * kv_heads * n * head_dim * bytes_of(type);
    }
};

/// Columns of a dense cache on the device: K, V [layers, kv_heads, capacity, head_dim], from column `first` on.
struct DeviceColumns {
    void *k = nullptr, *v = nullptr;
    int64_t capacity = 0, first = 0;
};

/// Entries of a cache: of columns and KV heads that are listed, keys, values or both.
struct SelectedColumns {
    std::span<const int32_t>
        columns; ///< from DeviceColumns::first on, ascending; 1 to most_spliced_columns of them (asserted)
    std::span<const uint16_t> heads; ///< layer * kv_heads + head, ascending, at least one
    bool keys = true, values = true;
};

/// Columns as a splice found them, in pinned memory of the host. It goes back to the work that gave it, which may end before it.
class SavedColumns {
public:
    SavedColumns() = default;
    SavedColumns(const SavedColumns&) = delete;
    SavedColumns& operator=(const SavedColumns&) = delete;
    virtual ~SavedColumns() = default;
    [[nodiscard]] virtual int64_t bytes() const = 0; ///< of the host
};

/// What a refresh does to the dense caches of one model on their device (kernels/cuda/rows/splice.cu, splice_some.cu): one launch for K and V of all
/// layers, of listed entries one for every 512 KV heads. Columns that are replaced are copied to the host on a stream of their own, so that no decode step waits for the bus.
///
/// Memory   of the device: bytes(most_spliced_columns), taken with the first splice. Pinned: what is saved, in blocks of powers of two
///          that are used again
/// Waits    calls put their work behind what `stream` has been given, and the host waits for nothing, except in distances()
/// Threads  any; callers on several of them take turns
/// Errors   DeviceFailure (kernels/shared/device_failure.h) with CUDA's words
class DeviceCacheWork {
public:
    DeviceCacheWork() = default;
    DeviceCacheWork(const DeviceCacheWork&) = delete;
    DeviceCacheWork& operator=(const DeviceCacheWork&) = delete;
    virtual ~DeviceCacheWork() = default;

    /// n columns of `to` become those of `from` bit for bit; 0 < n <= most_spliced_columns (asserted). \return what stood there
    [[nodiscard]] virtual std::shared_ptr<const SavedColumns>
    splice(const DeviceColumns& to, const DeviceColumns& from, int64_t n, void* stream) = 0;
    /// The same of listed entries. \param packed  `from` has them alone: [heads, from.capacity, head_dim], column j of the list at j
    [[nodiscard]] virtual std::shared_ptr<const SavedColumns> splice(const DeviceColumns& to,
                                                                     const DeviceColumns& from, bool packed,
                                                                     const SelectedColumns& which,
                                                                     void* stream) = 0;
    /// What that gave of the first of its columns, of the same heads and halves, stands in `to` again.
    virtual void restore(const DeviceColumns& to, const SavedColumns& saved, const SelectedColumns& which,
                         void* stream) = 0;
    /// The first n of the saved columns, at most so many as there are (asserted), stand in `to` again.
    virtual void restore(const DeviceColumns& to, const SavedColumns& saved, int64_t n, void* stream) = 0;
    /// How far n columns of `a` are from those of `b`, [layers, n, 6] fp32: sum |a - b|^2, sum b^2, max |a - b| (NaN once one is) over heads
    /// and channels of K, then of V (reference/refresh.md, 6.2). Waits for the device.
    [[nodiscard]] virtual std::vector<float> distances(const DeviceColumns& a, const DeviceColumns& b,
                                                       int64_t n, void* stream) = 0;
};

/// Makes the work of one build: of kernels/cuda for the current device (cuda::make_cache_work), or for the suites' machine on the host.
using MakeCacheWork = std::unique_ptr<DeviceCacheWork> (*)(const CacheShape& shape);

} // namespace refreshlab::kernels
