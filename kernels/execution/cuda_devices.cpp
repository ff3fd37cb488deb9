#include "kernels/execution/cuda_devices.h"

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

#else

int cuda_devices() {
    return 0;
}

#endif

} // namespace refreshlab::kernels
