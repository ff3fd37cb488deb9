#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

/// What the suites say to the machine that runs kernels on the host, and what it tells them. It is a checker: a kernel that
/// reads or writes what it must not, or whose result hangs on the order of its threads, ends with a Fault
/// (docs/development/simt.md says what is found and what cannot be).
namespace refreshlab::simt {

/// What a kernel did that it must not. The message has one line: kernel, block, thread, file and line, and what was wrong.
class Fault : public std::runtime_error {
public:
    explicit Fault(const std::string& message)
        : std::runtime_error(message) {}
};

/// How the machine runs grids, and what it lets pass. Of the whole process: one grid runs at a time.
struct Settings {
    uint64_t order = 0; ///< seed of the order of blocks, and of threads between two barriers; 0 = ascending
    int architecture =
        90; ///< compute capability times 10: limits of a launch, dependent launches and clusters from 90 on
};
/// \return the settings that stood
Settings set_settings(const Settings& settings);

/// Runs `body` in the order of threads and blocks that each of `orders` seeds gives, ascending order first, and puts the settings back.
void in_orders(int orders, const std::function<void(uint64_t order)>& body);

/// Global memory as kernels may see it. Addresses outside of all of them end a kernel.
enum class Contents : uint8_t {
    unwritten, ///< a kernel that reads a byte before it was written ends
    written,
    read_only, ///< and a kernel that writes ends
};
/// Lets kernels see memory of the host, while it lives. Not to overlap with another (asserted).
class Visible {
public:
    Visible(const void* at, size_t bytes, Contents contents, std::string name);
    ~Visible();
    Visible(const Visible&) = delete;
    Visible& operator=(const Visible&) = delete;

private:
    const void* m_at;
};
/// The host has written these bytes of visible memory; or nobody has: they are as unwritten again.
void note_written(const void* at, size_t bytes);
void note_unwritten(const void* at, size_t bytes);

/// Global memory of `n` numbers, 256 bytes aligned, exactly as long as asked for.
template <typename T>
class Array {
    static_assert(std::is_trivially_copyable_v<T>);

public:
    /// Unwritten. \param name  what a Fault calls it
    Array(size_t n, const std::string& name)
        : Array(n, name, Contents::unwritten) {}
    Array(std::span<const T> values, const std::string& name, Contents contents = Contents::written)
        : Array(values.size(), name, contents) {
        if (!values.empty()) __builtin_memcpy(m_data, values.data(), values.size_bytes());
    }
    Array(const std::vector<T>& values, const std::string& name, Contents contents = Contents::written)
        : Array(std::span<const T>(values), name, contents) {}

    [[nodiscard]] T* data() const { return m_data; }
    [[nodiscard]] size_t size() const { return m_n; }
    /// A copy; unwritten numbers are as they lie there.
    [[nodiscard]] std::vector<T> values() const { return {m_data, m_data + m_n}; }

private:
    Array(size_t n, const std::string& name, Contents contents)
        : m_n(n)
        , m_memory(aligned_bytes(n * sizeof(T)))
        , m_data(static_cast<T*>(m_memory.get()))
        , m_visible(m_data, n * sizeof(T), contents, name) {}
    static std::shared_ptr<void> aligned_bytes(size_t bytes);

    size_t m_n;
    std::shared_ptr<void> m_memory;
    T* m_data;
    Visible m_visible;
};
/// Poisoned memory, 256 bytes aligned; under AddressSanitizer its ends are guarded.
[[nodiscard]] std::shared_ptr<void> make_memory(size_t bytes);
template <typename T>
std::shared_ptr<void> Array<T>::aligned_bytes(size_t bytes) {
    return make_memory(bytes);
}

/// A launch as it was asked for.
struct LaunchRecord {
    std::string kernel; ///< without namespaces, arguments of the function and of templates kept
    uint32_t grid[3], block[3];
    size_t shared_bytes = 0; ///< dynamic
    bool dependent = false;
    uint32_t cluster = 1; ///< blocks, beside each other along x
};
/// What the device answers instead of doing as it is told, once or from then on.
struct PlantedFault {
    enum class Call : uint8_t {
        launch,     ///< of a kernel or a graph: nothing runs, cudaErrorLaunchFailure
        allocation, ///< of device or pinned memory: cudaErrorMemoryAllocation
    } call = Call::launch;
    int64_t after = 0; ///< such calls that go well first
    bool late =
        false; ///< a launch: the call itself says that all is well, and the next question about the stream does not
    bool dead = false; ///< and every later call fails, as after an illegal access
};
/// \return whether the one that was planted before has come true
bool plant_fault(const std::optional<PlantedFault>& fault);

/// What was asked of the device since the last call of this. Launches inside of a graph count when the graph runs.
struct Activity {
    std::vector<LaunchRecord> launches;
    int64_t graph_launches = 0, device_waits = 0, stream_waits = 0, event_waits = 0;
    int64_t allocations = 0, frees = 0, pageable_copies = 0, other_copies = 0, fills = 0;
};
[[nodiscard]] Activity take_activity();

/// Each access to memory is looked at: kernels were compiled for it. Without (under AddressSanitizer), faults of memory are
/// that sanitizer's to find, and races are found by nobody.
[[nodiscard]] bool looks_at_memory();

} // namespace refreshlab::simt
