#include "kernels/simt/runtime_api.h"

#include "kernels/shared/check.h"
#include "kernels/simt/harness.h"
#include "kernels/simt/machine.h"
#include "kernels/simt/place.h"

#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace refreshlab::simt {

/// What a graph does, in order.
struct Graph {
    std::vector<std::function<void()>> nodes;
};
struct RunnableGraph {
    std::vector<std::function<void()>> nodes;
};
struct Stream {
    std::unique_ptr<Graph> capture; ///< what it is being captured into
};
struct Event {};

namespace {

enum class Kind : uint8_t { device, host };
struct Allocation {
    std::shared_ptr<void> memory;
    std::unique_ptr<Visible> visible;
    Kind kind = Kind::device;
    size_t bytes = 0;
};

/// What the runtime has given out.
struct Book {
    std::mutex mutex;
    std::map<const void*, Allocation> allocations;
    cudaError_t last = cudaSuccess;
    int names = 0;
};
Book& book() {
    static Book the;
    return the;
}

/// The fault that a test has planted.
struct Faults {
    std::mutex mutex;
    std::optional<PlantedFault> planted;
    bool came = false;
    cudaError_t pending = cudaSuccess; ///< a late one, until somebody asks
    cudaError_t dead = cudaSuccess;    ///< what every call answers
};
Faults& faults() {
    static Faults the;
    return the;
}

/// What a call answers before it does anything.
cudaError_t fault_of(PlantedFault::Call call) {
    Faults& f = faults();
    const std::lock_guard lock(f.mutex);
    if (f.dead != cudaSuccess) return f.dead;
    if (!f.planted || f.came || f.planted->call != call || f.planted->after-- > 0) return cudaSuccess;
    f.came = true;
    const cudaError_t error =
        call == PlantedFault::Call::launch ? cudaErrorLaunchFailure : cudaErrorMemoryAllocation;
    if (f.planted->dead) f.dead = error;
    if (!f.planted->late) return error;
    f.pending = error;
    return cudaErrorNotReady; // to the launch: do nothing, and say that all is well
}

/// What a question about a stream or an event answers.
cudaError_t fault_so_far() {
    Faults& f = faults();
    const std::lock_guard lock(f.mutex);
    return f.dead != cudaSuccess ? f.dead : std::exchange(f.pending, cudaSuccess);
}

cudaError_t give(void** at, size_t bytes, Kind kind, Contents contents) {
    if (const cudaError_t error = fault_of(PlantedFault::Call::allocation)) return error;
    Book& b = book();
    const std::lock_guard lock(b.mutex);
    Allocation allocation;
    allocation.memory = make_memory(bytes);
    allocation.kind = kind;
    allocation.bytes = bytes;
    const std::string name =
        std::string(kind == Kind::device ? "device" : "host") + " allocation " + std::to_string(++b.names);
    allocation.visible = std::make_unique<Visible>(allocation.memory.get(), bytes, contents, name);
    *at = allocation.memory.get();
    b.allocations.emplace(*at, std::move(allocation));
    ++Machine::of_process().activity.allocations;
    return cudaSuccess;
}

cudaError_t take(void* at, Kind kind) {
    if (at == nullptr) return cudaSuccess;
    Book& b = book();
    const std::lock_guard lock(b.mutex);
    const auto found = b.allocations.find(at);
    if (found == b.allocations.end() || found->second.kind != kind) return cudaErrorInvalidValue;
    b.allocations.erase(found);
    ++Machine::of_process().activity.frees;
    return cudaSuccess;
}

/// The host's own memory, which the driver has to copy through a buffer of its own.
bool pageable(const void* at) {
    Book& b = book();
    const std::lock_guard lock(b.mutex);
    auto next = b.allocations.upper_bound(at);
    if (next == b.allocations.begin()) return true;
    --next;
    return static_cast<const std::byte*>(at) >=
           static_cast<const std::byte*>(next->first) + next->second.bytes;
}

/// Does it now, or when the graph runs.
cudaError_t enqueue(cudaStream_t stream, std::function<void()> work) {
    if (stream != nullptr && stream->capture != nullptr) {
        stream->capture->nodes.push_back(std::move(work));
    } else {
        work();
    }
    return cudaSuccess;
}

bool capturing(cudaStream_t stream) {
    return stream != nullptr && stream->capture != nullptr;
}

} // namespace

bool plant_fault(const std::optional<PlantedFault>& fault) {
    Faults& f = faults();
    const std::lock_guard lock(f.mutex);
    const bool came = f.came;
    f.planted = fault;
    f.came = false;
    f.pending = f.dead = cudaSuccess;
    return came;
}

cudaError_t launch(const Launch& launch, cudaStream_t stream) {
    if (!capturing(stream)) {
        const cudaError_t error = fault_of(PlantedFault::Call::launch);
        if (error != cudaSuccess) return error == cudaErrorNotReady ? cudaSuccess : error;
    }
    return enqueue(stream, [launch] { Machine::of_process().run(launch); });
}

cudaError_t set_attribute(const void* kernel, cudaFuncAttribute attribute, int value) {
    // Shared memory is checked against the architecture when the kernel is launched.
    if (attribute == cudaFuncAttributeNonPortableClusterSizeAllowed)
        Machine::of_process().allow_large_clusters(kernel, value != 0);
    return cudaSuccess;
}
bool runs_clusters(const void* kernel, unsigned blocks) {
    return blocks <= Machine::of_process().most_cluster_blocks(kernel);
}

} // namespace refreshlab::simt

using namespace refreshlab::simt;

const char* cudaGetErrorString(cudaError_t error) {
    switch (error) {
    case cudaSuccess:
        return "no error";
    case cudaErrorInvalidValue:
        return "invalid argument";
    case cudaErrorMemoryAllocation:
        return "out of memory";
    case cudaErrorInvalidConfiguration:
        return "invalid configuration argument";
    case cudaErrorInvalidResourceHandle:
        return "invalid resource handle";
    case cudaErrorLaunchFailure:
        return "unspecified launch failure";
    case cudaErrorNotReady:
        return "device not ready";
    case cudaErrorStreamCaptureUnsupported:
        return "operation not permitted when stream is capturing";
    case cudaErrorStreamCaptureInvalidated:
        return "operation failed due to a previous error during capture";
    }
    return "unknown error";
}
cudaError_t cudaGetLastError() {
    return std::exchange(book().last, cudaSuccess);
}
cudaError_t cudaGetDevice(int* device) {
    *device = 0;
    return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
    return device == 0 ? cudaSuccess : cudaErrorInvalidValue;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
    const int architecture = Machine::of_process().settings.architecture;
    switch (attribute) {
    case cudaDevAttrMultiProcessorCount:
        *value = 4;
        return cudaSuccess;
    case cudaDevAttrComputeCapabilityMajor:
        *value = architecture / 10;
        return cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor:
        *value = architecture % 10;
        return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
        *value = static_cast<int>(most_shared_bytes(architecture));
        return cudaSuccess;
    }
    return cudaErrorInvalidValue;
}
cudaError_t cudaDeviceSynchronize() {
    ++Machine::of_process().activity.device_waits;
    Machine::of_process().forget_launches();
    return cudaSuccess;
}

cudaError_t cudaMalloc(void** at, size_t bytes) {
    return give(at, bytes, Kind::device, Contents::unwritten);
}
cudaError_t cudaFree(void* at) {
    return take(at, Kind::device);
}
cudaError_t cudaMallocAsync(void** at, size_t bytes, cudaStream_t stream) {
    if (capturing(stream)) return cudaErrorStreamCaptureUnsupported;
    return give(at, bytes, Kind::device, Contents::unwritten);
}
cudaError_t cudaFreeAsync(void* at, cudaStream_t stream) {
    if (capturing(stream)) return cudaErrorStreamCaptureUnsupported;
    return take(at, Kind::device);
}
cudaError_t cudaHostAlloc(void** at, size_t bytes, unsigned) {
    return give(at, bytes, Kind::host, Contents::written);
}
cudaError_t cudaFreeHost(void* at) {
    return take(at, Kind::host);
}
cudaError_t cudaHostGetDevicePointer(void** device, void* host, unsigned) {
    *device = host;
    return pageable(host) ? cudaErrorInvalidValue : cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind, cudaStream_t stream) {
    if (const cudaError_t error = fault_so_far()) return error;
    return enqueue(stream, [=] {
        Machine& machine = Machine::of_process();
        if (pageable(to) || pageable(from)) {
            ++machine.activity.pageable_copies;
        } else {
            ++machine.activity.other_copies;
        }
        std::memcpy(to, from, bytes);
        note_written(to, bytes);
        machine.forget_launches();
    });
}
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
    ++Machine::of_process().activity.stream_waits;
    return cudaMemcpyAsync(to, from, bytes, kind, nullptr);
}
cudaError_t cudaMemsetAsync(void* at, int value, size_t bytes, cudaStream_t stream) {
    return enqueue(stream, [=] {
        ++Machine::of_process().activity.fills;
        std::memset(at, value, bytes);
        note_written(at, bytes);
        Machine::of_process().forget_launches();
    });
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
    if (const cudaError_t error = fault_so_far()) return error;
    *stream = new Stream;
    return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    delete stream;
    return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    if (capturing(stream)) return cudaErrorStreamCaptureUnsupported;
    ++Machine::of_process().activity.stream_waits;
    Machine::of_process().forget_launches();
    return fault_so_far();
}
cudaError_t cudaStreamQuery(cudaStream_t) {
    return fault_so_far();
}
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) {
    return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
    *event = new Event;
    return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
    delete event;
    return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t) {
    return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t) {
    ++Machine::of_process().activity.event_waits;
    return fault_so_far();
}
cudaError_t cudaEventQuery(cudaEvent_t) {
    return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
    if (stream == nullptr || stream->capture != nullptr) return cudaErrorStreamCaptureUnsupported;
    stream->capture = std::make_unique<Graph>();
    return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
    if (!capturing(stream)) return cudaErrorInvalidValue;
    *graph = stream->capture.release();
    return cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
    *status = capturing(stream) ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
    return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* runnable, cudaGraph_t graph, unsigned long long) {
    *runnable = new RunnableGraph{graph->nodes};
    return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t runnable, cudaStream_t stream) {
    if (capturing(stream)) return cudaErrorStreamCaptureUnsupported;
    const cudaError_t error = fault_of(PlantedFault::Call::launch);
    if (error != cudaSuccess) return error == cudaErrorNotReady ? cudaSuccess : error;
    Machine& machine = Machine::of_process();
    ++machine.activity.graph_launches;
    machine.forget_launches(); // graphs of one stream run one after the other
    for (const auto& node : runnable->nodes)
        node();
    machine.forget_launches();
    return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
    delete graph;
    return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t runnable) {
    delete runnable;
    return cudaSuccess;
}
