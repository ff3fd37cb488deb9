#pragma once

#include "kernels/simt/device.h"

#include <cstddef>
#include <functional>
#include <memory>

/// The part of the CUDA runtime that the project's launchers use. Work is done when it is asked for: a stream has an order and no
/// time of its own. What was asked is counted (harness.h, Activity).
/// Source: CUDA Runtime API 13.0.

namespace refreshlab::simt {
struct Stream;
struct Event;
struct Graph;
struct RunnableGraph;
} // namespace refreshlab::simt

using cudaStream_t = refreshlab::simt::Stream*; ///< null: the default stream
using cudaEvent_t = refreshlab::simt::Event*;
using cudaGraph_t = refreshlab::simt::Graph*;
using cudaGraphExec_t = refreshlab::simt::RunnableGraph*;

enum cudaError_t : int {
    cudaSuccess = 0,
    cudaErrorInvalidValue = 1,
    cudaErrorMemoryAllocation = 2,
    cudaErrorInvalidConfiguration = 9,
    cudaErrorInvalidResourceHandle = 400,
    cudaErrorNotReady = 600,
    cudaErrorLaunchFailure = 719,
    cudaErrorStreamCaptureUnsupported = 900,
    cudaErrorStreamCaptureInvalidated = 901,
};
enum cudaMemcpyKind : int {
    cudaMemcpyHostToHost,
    cudaMemcpyHostToDevice,
    cudaMemcpyDeviceToHost,
    cudaMemcpyDeviceToDevice,
    cudaMemcpyDefault
};
enum cudaStreamCaptureMode : int {
    cudaStreamCaptureModeGlobal,
    cudaStreamCaptureModeThreadLocal,
    cudaStreamCaptureModeRelaxed
};
enum cudaStreamCaptureStatus : int {
    cudaStreamCaptureStatusNone,
    cudaStreamCaptureStatusActive,
    cudaStreamCaptureStatusInvalidated
};
enum cudaFuncAttribute : int {
    cudaFuncAttributeMaxDynamicSharedMemorySize = 8,
    cudaFuncAttributeNonPortableClusterSizeAllowed = 13
};
enum cudaDeviceAttr : int {
    cudaDevAttrMultiProcessorCount = 16,
    cudaDevAttrComputeCapabilityMajor = 75,
    cudaDevAttrComputeCapabilityMinor = 76,
    cudaDevAttrMaxSharedMemoryPerBlockOptin = 97,
};
inline constexpr unsigned cudaHostAllocDefault = 0, cudaHostAllocPortable = 1, cudaHostAllocMapped = 2;
inline constexpr unsigned cudaStreamNonBlocking = 1;
inline constexpr unsigned cudaEventDisableTiming = 2;

const char* cudaGetErrorString(cudaError_t error);
cudaError_t cudaGetLastError();
cudaError_t cudaGetDevice(int* device);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device);
cudaError_t cudaDeviceSynchronize();

cudaError_t cudaMalloc(void** at, size_t bytes);
cudaError_t cudaFree(void* at);
cudaError_t cudaMallocAsync(void** at, size_t bytes, cudaStream_t stream);
cudaError_t cudaFreeAsync(void* at, cudaStream_t stream);
cudaError_t cudaHostAlloc(void** at, size_t bytes, unsigned flags);
cudaError_t cudaFreeHost(void* at);
cudaError_t cudaHostGetDevicePointer(void** device, void* host, unsigned flags);

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream);
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind);
cudaError_t cudaMemsetAsync(void* at, int value, size_t bytes, cudaStream_t stream);

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamQuery(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags = 0);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventQuery(cudaEvent_t event);

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph);
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* runnable, cudaGraph_t graph, unsigned long long flags = 0);
cudaError_t cudaGraphLaunch(cudaGraphExec_t runnable, cudaStream_t stream);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t runnable);

namespace refreshlab::simt {

/// A launch as the project's launch() asks for it (kernels/cuda/device/launch.cuh).
struct Launch {
    const void* kernel = nullptr; ///< its address, for its name
    dim3 grid, block;
    size_t shared_bytes = 0;
    bool dependent = false;
    unsigned cluster = 1;                   ///< blocks of a cluster, beside each other along x
    std::shared_ptr<const void> parameters; ///< copies, which kernels may read
    size_t parameter_bytes = 0;
    void (*body)(const void* parameters) = nullptr; ///< calls the kernel
};
/// Runs the grid, or puts it into the graph that the stream is being captured into. Throws Fault.
cudaError_t launch(const Launch& launch, cudaStream_t stream);
/// The block's dynamic shared memory; 16 bytes aligned.
[[nodiscard]] void* dynamic_shared();
cudaError_t set_attribute(const void* kernel, cudaFuncAttribute attribute, int value);
/// Whether the architecture runs clusters of so many blocks of the kernel.
[[nodiscard]] bool runs_clusters(const void* kernel, unsigned blocks);

} // namespace refreshlab::simt

template <typename Kernel>
cudaError_t cudaFuncSetAttribute(Kernel* kernel, cudaFuncAttribute attribute, int value) {
    return refreshlab::simt::set_attribute(reinterpret_cast<const void*>(kernel), attribute, value);
}
