#pragma once

namespace refreshlab::kernels {

/// GPUs that CUDA shows here; 0 in a build without CUDA. The first call that finds one loads libtorch's CUDA half, which takes 0.1 s:
/// so ask only where a GPU may be wanted, and before any other question to libtorch about CUDA.
[[nodiscard]] int cuda_devices();

} // namespace refreshlab::kernels
