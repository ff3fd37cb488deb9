#pragma once

#include "kernels/cuda/device/runtime.h"

#include <memory>
#include <stdexcept>
#include <string>
#include <tuple>

/// What every kernel's file begins with: launches, their errors, and what a block has.
namespace refreshlab::kernels::RL_GPU {

namespace detail {

#ifdef REFRESHLAB_SIMT
template <typename... P, typename... A>
void launch(bool dependent, void (*kernel)(P...), dim3 grid, dim3 block, size_t shared_bytes,
            cudaStream_t stream, A&&... arguments) {
    struct Parameters {
        void (*kernel)(P...);
        std::tuple<P...> values;
    };
    simt::Launch launch;
    launch.kernel = reinterpret_cast<const void*>(kernel);
    launch.grid = grid;
    launch.block = block;
    launch.shared_bytes = shared_bytes;
    launch.dependent = dependent;
    launch.parameters = std::make_shared<Parameters>(Parameters{kernel, {static_cast<P>(arguments)...}});
    launch.parameter_bytes = sizeof(Parameters);
    launch.body = [](const void* parameters) {
        const auto* const p = static_cast<const Parameters*>(parameters);
        std::apply(p->kernel, p->values);
    };
    check(simt::launch(launch, stream), "launching a kernel");
}
#else
/// Of the first device that was asked; those of one program are of a kind.
inline bool has_dependent_launches() {
    static const bool has = [] {
        int device = 0, major = 0;
        check(cudaGetDevice(&device), "asking for the device");
        check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device),
              "asking for the compute capability");
        return major >= 9;
    }();
    return has;
}

template <typename... P, typename... A>
void launch(bool dependent, void (*kernel)(P...), dim3 grid, dim3 block, size_t shared_bytes,
            cudaStream_t stream, A&&... arguments) {
    cudaLaunchConfig_t config{};
    config.gridDim = grid;
    config.blockDim = block;
    config.dynamicSmemBytes = shared_bytes;
    config.stream = stream;
    cudaLaunchAttribute attribute{};
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    config.attrs = &attribute;
    config.numAttrs = dependent && has_dependent_launches() ? 1 : 0;
    check(cudaLaunchKernelEx(&config, kernel, static_cast<P>(arguments)...), "launching a kernel");
}
#endif

} // namespace detail

/// Starts a kernel behind what the stream has been given. Arguments become the kernel's parameter types.
/// \param shared_bytes  dynamic shared memory; beyond 48 KB it must have been allowed (cudaFuncSetAttribute)
template <typename... P, typename... A>
void launch(void (*kernel)(P...), dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t stream,
            A&&... arguments) {
    detail::launch(false, kernel, grid, block, shared_bytes, stream, static_cast<A&&>(arguments)...);
}

/// As launch(), and the kernel may begin before the one in front of it has ended: what it reads or writes of that one's memory comes
/// after grid_dependency_wait(). Needs sm_90; before it the kernel begins later and is right all the same.
template <typename... P, typename... A>
void launch_dependent(void (*kernel)(P...), dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t stream,
                      A&&... arguments) {
    detail::launch(true, kernel, grid, block, shared_bytes, stream, static_cast<A&&>(arguments)...);
}

/// launch() or launch_dependent(); and dynamic shared memory beyond what a kernel has without asking is asked for.
template <typename... P, typename... A>
void launch_either(bool dependent, void (*kernel)(P...), dim3 grid, dim3 block, size_t shared_bytes,
                   cudaStream_t stream, A&&... arguments) {
    constexpr size_t always_there = 40 * 1024; // of 48 KB, the rest for static variables
    if (shared_bytes > always_there)
        check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                   static_cast<int>(shared_bytes)),
              "asking for shared memory");
    detail::launch(dependent, kernel, grid, block, shared_bytes, stream, static_cast<A&&>(arguments)...);
}

/// Of a dependent launch: until the kernels in front have ended and their memory is seen.
__device__ inline void grid_dependency_wait() {
#if defined(REFRESHLAB_SIMT) || (defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900)
    cudaGridDependencySynchronize();
#endif
}
/// A dependent kernel may begin when every block has said so, or has ended.
__device__ inline void grid_allow_dependents() {
#if defined(REFRESHLAB_SIMT) || (defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900)
    cudaTriggerProgrammaticLaunchCompletion();
#endif
}

/// Asks for the 128 bytes around an address: they come from memory into the second cache while the thread goes on.
__device__ inline void prefetch_l2(const void* global) {
#ifdef REFRESHLAB_SIMT
    (void)*static_cast<const volatile unsigned char*>(
        global); // must be there, and not be written by what nobody has waited for
#else
    asm volatile("prefetch.L2 [%0];\n" ::"l"(global));
#endif
}

/// The block's dynamic shared memory, 16 bytes aligned.
template <typename T>
__device__ T* dynamic_shared() {
#ifdef REFRESHLAB_SIMT
    return static_cast<T*>(simt::dynamic_shared());
#else
    extern __shared__ __align__(16) unsigned char rl_dynamic_shared[];
    return reinterpret_cast<T*>(rl_dynamic_shared);
#endif
}

} // namespace refreshlab::kernels::RL_GPU
