#pragma once

#include "kernels/cuda/device/runtime.h"

#include <array>
#include <atomic>
#include <memory>
#include <stdexcept>
#include <string>
#include <tuple>

/// What every kernel's file begins with: launches, their errors, and what a block has.
namespace refreshlab::kernels::RL_GPU {

/// How a kernel is launched, beside its arguments.
struct LaunchConfig {
    dim3 grid, block;
    size_t shared_bytes = 0; ///< dynamic; beyond 48 KB it must have been allowed (allow_shape)
    bool dependent = false;  ///< launch_dependent()
    unsigned cluster =
        1; ///< blocks of a cluster, beside each other along x (cluster.cuh); more than 8 must have been allowed, too
};

namespace detail {

#ifdef REFRESHLAB_SIMT
inline bool has_sm_90(const void* /*kernel*/) {
    int major = 0;
    check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0), "asking for the device");
    return major >= 9;
}
template <typename... P>
int clusters_at_once(void (*kernel)(P...), const LaunchConfig& config) {
    return simt::runs_clusters(reinterpret_cast<const void*>(kernel), config.cluster) ? 1 : 0;
}

template <typename... P, typename... A>
void launch(const LaunchConfig& config, void (*kernel)(P...), cudaStream_t stream, A&&... arguments) {
    struct Parameters {
        void (*kernel)(P...);
        std::tuple<P...> values;
    };
    simt::Launch launch;
    launch.kernel = reinterpret_cast<const void*>(kernel);
    launch.grid = config.grid;
    launch.block = config.block;
    launch.shared_bytes = config.shared_bytes;
    launch.dependent = config.dependent;
    launch.cluster = config.cluster;
    launch.parameters = std::make_shared<Parameters>(Parameters{kernel, {static_cast<P>(arguments)...}});
    launch.parameter_bytes = sizeof(Parameters);
    launch.body = [](const void* parameters) {
        const auto* const p = static_cast<const Parameters*>(parameters);
        std::apply(p->kernel, p->values);
    };
    check(simt::launch(launch, stream), "launching a kernel");
}
#else
/// Whether a kernel, on the present device, has dependent launches and clusters: the device does, and runs code that was compiled for it. Code
/// of an older architecture, which the driver has translated for a newer device, waits for no launch and has no clusters.
/// The first kernel of a device answers for all, as all kernels of a build are compiled for the same architectures.
inline bool has_sm_90(const void* kernel) {
    enum : int { unknown, no, yes };
    static std::array<std::atomic<int>, 16>
        answers{}; // of the first devices; those behind them are asked each time
    int device = 0;
    check(cudaGetDevice(&device), "asking for the device");
    const auto ask = [&] {
        constexpr int sm_90_ptx = 90;
        int major = 0;
        cudaFuncAttributes code{};
        check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device),
              "asking for the compute capability");
        check(cudaFuncGetAttributes(&code, kernel), "asking for a kernel's code");
        return major >= 9 && code.ptxVersion >= sm_90_ptx;
    };
    if (static_cast<size_t>(device) >= answers.size()) return ask();
    std::atomic<int>& answer = answers[static_cast<size_t>(device)];
    if (answer == unknown) answer = ask() ? yes : no;
    return answer == yes;
}

/// What the runtime is told, with attributes that must live as long.
struct RuntimeConfig {
    cudaLaunchAttribute attributes[2]{};
    cudaLaunchConfig_t config{};
    RuntimeConfig(const LaunchConfig& from, const void* kernel, cudaStream_t stream) {
        config.gridDim = from.grid;
        config.blockDim = from.block;
        config.dynamicSmemBytes = from.shared_bytes;
        config.stream = stream;
        config.attrs = attributes;
        if (from.dependent && has_sm_90(kernel)) {
            cudaLaunchAttribute& attribute = attributes[config.numAttrs++];
            attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
            attribute.val.programmaticStreamSerializationAllowed = 1;
        }
        if (from.cluster > 1) {
            cudaLaunchAttribute& attribute = attributes[config.numAttrs++];
            attribute.id = cudaLaunchAttributeClusterDimension;
            attribute.val.clusterDim.x = from.cluster;
            attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
        }
    }
    RuntimeConfig(const RuntimeConfig&) = delete;
    RuntimeConfig& operator=(const RuntimeConfig&) = delete;
};

/// 0: the device has no such clusters.
template <typename... P>
int clusters_at_once(void (*kernel)(P...), const LaunchConfig& config) {
    const RuntimeConfig asked(config, reinterpret_cast<const void*>(kernel), nullptr);
    int at_once = 0;
    return cudaOccupancyMaxActiveClusters(&at_once, kernel, &asked.config) == cudaSuccess ? at_once : 0;
}

template <typename... P, typename... A>
void launch(const LaunchConfig& config, void (*kernel)(P...), cudaStream_t stream, A&&... arguments) {
    const RuntimeConfig asked(config, reinterpret_cast<const void*>(kernel), stream);
    check(cudaLaunchKernelEx(&asked.config, kernel, static_cast<P>(arguments)...), "launching a kernel");
}
#endif

/// Asks for what a kernel does not have without asking: much dynamic shared memory, clusters of more blocks than every device has.
template <typename... P>
cudaError_t allow_shape(void (*kernel)(P...), const LaunchConfig& config) {
    constexpr size_t always_there = 40 * 1024; // of 48 KB, the rest for static variables
    constexpr unsigned portable_blocks = 8;
    cudaError_t status = cudaSuccess;
    if (config.shared_bytes > always_there)
        status = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                      static_cast<int>(config.shared_bytes));
    if (status == cudaSuccess && config.cluster > portable_blocks)
        status = cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
    return status;
}

} // namespace detail

/// Starts a kernel behind what the stream has been given. Arguments become the kernel's parameter types.
/// \param shared_bytes  dynamic shared memory; beyond 48 KB it must have been allowed (cudaFuncSetAttribute)
template <typename... P, typename... A>
void launch(void (*kernel)(P...), dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t stream,
            A&&... arguments) {
    detail::launch({grid, block, shared_bytes}, kernel, stream, static_cast<A&&>(arguments)...);
}

/// As launch(), and the kernel may begin before the one in front of it has ended: what it reads or writes of that one's memory comes
/// after grid_dependency_wait(). Needs sm_90, and code compiled for it; else the kernel begins later and is right all the same.
template <typename... P, typename... A>
void launch_dependent(void (*kernel)(P...), dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t stream,
                      A&&... arguments) {
    detail::launch({grid, block, shared_bytes, true}, kernel, stream, static_cast<A&&>(arguments)...);
}

/// As `config` says; what the kernel does not have without asking is asked for.
template <typename... P, typename... A>
void launch_as(const LaunchConfig& config, void (*kernel)(P...), cudaStream_t stream, A&&... arguments) {
    check(detail::allow_shape(kernel, config), "asking for shared memory or clusters");
    detail::launch(config, kernel, stream, static_cast<A&&>(arguments)...);
}

/// Whether the device runs the kernel in such clusters. Not before sm_90, and not code that was compiled for an older architecture.
template <typename... P>
[[nodiscard]] bool clusters_run(const LaunchConfig& config, void (*kernel)(P...)) {
    if (!detail::has_sm_90(reinterpret_cast<const void*>(kernel))) return false;
    const bool allowed =
        detail::allow_shape(kernel, config) == cudaSuccess && detail::clusters_at_once(kernel, config) > 0;
    if (!allowed) (void)cudaGetLastError(); // the next question is about something else
    return allowed;
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
