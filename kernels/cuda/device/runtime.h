#pragma once

#include "kernels/cuda/build.h"
#include "kernels/shared/device_failure.h"

#include <cuda_runtime.h>

#include <cstddef>
#include <memory>
#include <string>
#include <utility>

/// What the device's runtime gives out, owned: memory, streams, graphs. Every call throws DeviceFailure with CUDA's words.
namespace refreshlab::kernels::RL_GPU {

inline void check(cudaError_t status, const char* what) {
    if (status == cudaSuccess) return;
    throw DeviceFailure(std::string("CUDA: ") + what + ": " + cudaGetErrorString(status));
}

/// Device memory, 256 bytes aligned, not cleared.
class DeviceMemory {
public:
    DeviceMemory() = default;
    explicit DeviceMemory(size_t bytes) {
        void* at = nullptr;
        check(cudaMalloc(&at, bytes), "taking device memory");
        m_at.reset(at);
    }
    [[nodiscard]] void* data() const { return m_at.get(); }

private:
    struct Free {
        void operator()(void* at) const { (void)cudaFree(at); }
    };
    std::unique_ptr<void, Free> m_at;
};

/// Host memory that the device copies from and to without a detour, and that kernels may read.
class PinnedMemory {
public:
    PinnedMemory() = default;
    explicit PinnedMemory(size_t bytes) {
        void* at = nullptr;
        check(cudaHostAlloc(&at, bytes, cudaHostAllocMapped), "taking pinned memory");
        m_at.reset(at);
    }
    [[nodiscard]] void* data() const { return m_at.get(); }

private:
    struct Free {
        void operator()(void* at) const { (void)cudaFreeHost(at); }
    };
    std::unique_ptr<void, Free> m_at;
};

/// Where the device sees it.
[[nodiscard]] inline void* seen_by_device(const PinnedMemory& memory) {
    void* seen = nullptr;
    check(cudaHostGetDevicePointer(&seen, memory.data(), 0), "mapping pinned memory");
    return seen;
}

struct DestroyStream {
    void operator()(cudaStream_t stream) const { (void)cudaStreamDestroy(stream); }
};
using DeviceStream = std::unique_ptr<std::remove_pointer_t<cudaStream_t>, DestroyStream>;
[[nodiscard]] inline DeviceStream make_stream() {
    cudaStream_t stream = nullptr;
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "making a stream");
    return DeviceStream(stream);
}

struct DestroyEvent {
    void operator()(cudaEvent_t event) const { (void)cudaEventDestroy(event); }
};
/// Orders streams, and tells the host when one has come so far; measures no time.
using DeviceEvent = std::unique_ptr<std::remove_pointer_t<cudaEvent_t>, DestroyEvent>;
[[nodiscard]] inline DeviceEvent make_event() {
    cudaEvent_t event = nullptr;
    check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "making an event");
    return DeviceEvent(event);
}

struct DestroyGraph {
    void operator()(cudaGraph_t graph) const { (void)cudaGraphDestroy(graph); }
    void operator()(cudaGraphExec_t graph) const { (void)cudaGraphExecDestroy(graph); }
};
using RunnableGraph = std::unique_ptr<std::remove_pointer_t<cudaGraphExec_t>, DestroyGraph>;

/// A graph of what `launches` gives to the stream; nothing of it runs. Only this thread's calls are watched, so that others may take
/// memory meanwhile (development/performance.md, 6).
template <typename Launches>
[[nodiscard]] RunnableGraph capture(cudaStream_t stream, const Launches& launches) {
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "beginning a graph");
    cudaGraph_t graph = nullptr;
    try {
        launches();
    } catch (...) {
        (void)cudaStreamEndCapture(stream, &graph); // the stream can be used again
        if (graph != nullptr) (void)cudaGraphDestroy(graph);
        throw;
    }
    check(cudaStreamEndCapture(stream, &graph), "ending a graph");
    const std::unique_ptr<std::remove_pointer_t<cudaGraph_t>, DestroyGraph> owned(graph);
    cudaGraphExec_t runnable = nullptr;
    check(cudaGraphInstantiate(&runnable, graph, 0), "making a graph ready to run");
    return RunnableGraph(runnable);
}

} // namespace refreshlab::kernels::RL_GPU
