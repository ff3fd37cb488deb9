#include "kernels/execution/cuda_devices.h"

#include "kernels/decode/kernel_resources.h"

#if REFRESHLAB_CUDA
#include <ATen/detail/CUDAHooksInterface.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <stdexcept>
#include <string>
#endif

namespace refreshlab::kernels {

#if REFRESHLAB_CUDA

int cuda_devices() {
    static const int devices = [] {
        int count = 0;
        if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) return 0; // no driver, or no GPU
        // Its operators register themselves.
        if (dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL) == nullptr)
            throw std::runtime_error(std::string("loading libtorch's CUDA half: ") + dlerror());
        return static_cast<int>(at::detail::getCUDAHooks().deviceCount());
    }();
    return devices;
}

std::vector<CudaDevice> describe_cuda_devices() {
    std::vector<CudaDevice> result;
    const int count = cuda_devices();
    for (int device = 0; device < count; ++device) {
        cudaDeviceProp properties{};
        if (cudaGetDeviceProperties(&properties, device) != cudaSuccess) continue;
        CudaDevice& of = result.emplace_back();
        of.name = properties.name;
        of.architecture = properties.major * 10 + properties.minor;
        of.memory_bytes = static_cast<int64_t>(properties.totalGlobalMem);
        for (int other = 0; other < count; ++other) {
            int reads = 0;
            if (other != device && cudaDeviceCanAccessPeer(&reads, device, other) == cudaSuccess &&
                reads != 0)
                of.peers.push_back(other);
        }
    }
    return result;
}

bool runs_own_kernels(int device) {
    static const std::vector<bool> runs = [] {
        std::vector<bool> result;
        for (int d = 0; d < cuda_devices(); ++d) {
            int major = 0, minor = 0;
            const bool known =
                cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, d) == cudaSuccess &&
                cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, d) == cudaSuccess;
            result.push_back(known && major * 10 + minor >= oldest_architecture);
        }
        return result;
    }();
    return runs.at(static_cast<size_t>(device));
}

#else

int cuda_devices() {
    return 0;
}
std::vector<CudaDevice> describe_cuda_devices() {
    return {};
}
bool runs_own_kernels(int) {
    return false;
}

#endif

} // namespace refreshlab::kernels
