#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

/// The harness of the host machine (kernels/simt/harness.h) over a GPU, so that the same suites of kernels run there: this one is found
/// instead of that one where test_device is compiled. Arrays are exactly as long as asked for, in memory that host and device see; what the
/// machine looks for in their accesses, compute-sanitizer looks for here (scripts/gpu_check.sh).
namespace refreshlab::simt {

inline void on_device(cudaError_t status, const char* what) {
    if (status != cudaSuccess)
        throw std::runtime_error(std::string("CUDA: ") + what + ": " + cudaGetErrorString(status));
}

/// Of the machine: a GPU has the architecture that it has.
struct Settings {
    uint64_t order = 0;
    int architecture = 0;
};
inline Settings set_settings(const Settings& settings) {
    return settings;
}

/// A GPU's order is its own, and another one each time: `body` runs as often as the machine would run it.
inline void in_orders(int orders, const std::function<void(uint64_t order)>& body) {
    for (int order = 0; order < orders; ++order)
        body(static_cast<uint64_t>(order));
}

enum class Contents : uint8_t { unwritten, written, read_only };
inline void note_written(const void*, size_t) {}
inline void note_unwritten(const void*, size_t) {}

/// Global memory of `n` numbers. Unwritten ones are NaN, or far outside as an index.
template <typename T>
class Array {
    static_assert(std::is_trivially_copyable_v<T>);

public:
    Array(size_t n, const std::string&)
        : m_n(n)
        , m_memory(taken(n * sizeof(T))) {
        std::memset(m_memory.get(), 0xFF, n * sizeof(T));
    }
    Array(std::span<const T> values, const std::string& name, Contents = Contents::written)
        : Array(values.size(), name) {
        if (!values.empty()) std::memcpy(m_memory.get(), values.data(), values.size_bytes());
    }
    Array(const std::vector<T>& values, const std::string& name, Contents contents = Contents::written)
        : Array(std::span<const T>(values), name, contents) {}

    /// Waits for the device, so that the host may read it.
    [[nodiscard]] T* data() const {
        on_device(cudaDeviceSynchronize(), "waiting for kernels");
        return static_cast<T*>(m_memory.get());
    }
    [[nodiscard]] size_t size() const { return m_n; }
    [[nodiscard]] std::vector<T> values() const {
        const T* const begin = data();
        return {begin, begin + m_n};
    }

private:
    static std::shared_ptr<void> taken(size_t bytes) {
        void* at = nullptr;
        on_device(cudaMallocManaged(&at, bytes > 0 ? bytes : 1), "taking memory");
        return {at, [](void* memory) {
                    (void)cudaDeviceSynchronize(); // a kernel may still use it
                    (void)cudaFree(memory);
                }};
    }

    size_t m_n;
    std::shared_ptr<void> m_memory;
};

/// Nobody counts what a GPU is asked for: cases about that run on the machine.
[[nodiscard]] constexpr bool looks_at_memory() {
    return false;
}

} // namespace refreshlab::simt
