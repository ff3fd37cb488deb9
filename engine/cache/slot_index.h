#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>

#include <cstdint>
#include <iterator>
#include <span>

namespace refreshlab {

/// Free slots of a pool that are not worth a copy of it.
inline constexpr int64_t spare_slots = 256;

/// \return [slots] int64 on the device. On the CPU it is a view: `slots` outlives it.
[[nodiscard]] inline at::Tensor index_of(std::span<const int64_t> slots, at::Device device) {
    // from_blob wants a writable pointer; index operations only read.
    return at::from_blob(const_cast<int64_t*>(slots.data()), {std::ssize(slots)}, at::kLong).to(device);
}

} // namespace refreshlab
