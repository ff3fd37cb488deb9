#pragma once

#include "kernels/cuda/build.h"
#include "kernels/decode/device_cache_work.h"

namespace refreshlab::kernels::RL_GPU {

/// On the device that is the current one in each call.
[[nodiscard]] RL_LAUNCHER std::unique_ptr<DeviceCacheWork> make_cache_work(const CacheShape& shape);

} // namespace refreshlab::kernels::RL_GPU
