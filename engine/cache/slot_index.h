#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/index_fill.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <limits>
#include <span>

namespace refreshlab {

/// Free slots of a pool that are not worth a copy of it.
inline constexpr int64_t spare_slots = 256;

/// \return [slots] int64 on the device. On the CPU it is a view: `slots` outlives it.
[[nodiscard]] inline at::Tensor index_of(std::span<const int64_t> slots, at::Device device) {
    // from_blob wants a writable pointer; index operations only read.
    return at::from_blob(const_cast<int64_t*>(slots.data()), {std::ssize(slots)}, at::kLong).to(device);
}

/// Slots of a pool, [slots, width], that nobody holds any more read as NaN.
inline void poison_slots(const at::Tensor& pool, std::span<const int64_t> slots) {
    at::Tensor rows = pool;
    if (!rows.is_cpu()) {
        rows.index_fill_(0, index_of(slots, rows.device()), std::numeric_limits<double>::quiet_NaN());
        return;
    }
    // All bits set is a NaN in fp32, bf16 and fp16 alike.
    const auto bytes = static_cast<size_t>(rows.element_size() * rows.size(1));
    auto* const out = static_cast<std::byte*>(rows.mutable_data_ptr());
    for (const int64_t slot : slots)
        std::memset(out + bytes * static_cast<size_t>(slot), 0xFF, bytes);
}

} // namespace refreshlab
