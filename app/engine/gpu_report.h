#pragma once

#include "kernels/execution/cuda_devices.h"

#include <span>
#include <string>

namespace refreshlab::app {

/// What `doctor` says of one GPU: which code runs there, and what it may do. \param built  kernels::built_architectures()
[[nodiscard]] std::string gpu_text(const kernels::CudaDevice& device, std::span<const int> built);
/// "8.0, 8.6, 9.0" of compute capabilities times 10.
[[nodiscard]] std::string capabilities_text(std::span<const int> architectures);

} // namespace refreshlab::app
