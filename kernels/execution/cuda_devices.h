#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace refreshlab::kernels {

/// One GPU as CUDA describes it.
struct CudaDevice {
    std::string name;
    int architecture = 0; ///< compute capability times 10
    int64_t memory_bytes = 0;
    std::vector<int> peers; ///< GPUs whose memory it reads without a detour
};

/// GPUs that CUDA shows here; 0 in a build without CUDA. The first call that finds one loads libtorch's CUDA half, which takes 0.1 s:
/// so ask only where a GPU may be wanted, and before any other question to libtorch about CUDA.
[[nodiscard]] int cuda_devices();
/// All of them, in CUDA's order.
[[nodiscard]] std::vector<CudaDevice> describe_cuda_devices();
/// GPU `device`, one of cuda_devices(), has the compute capability that the project's own kernels need; others compute by plain ATen.
[[nodiscard]] bool runs_own_kernels(int device);

} // namespace refreshlab::kernels
