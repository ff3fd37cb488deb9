#pragma once

#include "engine/control/run_config.h"
#include "engine/model/model_config.h"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace refreshlab {

/// A model that is about to be loaded or used, and what it will be asked to hold.
struct ModelNeed {
    std::string name; ///< for the messages: "teacher", "student"
    ModelConfig config;
    Dtype dtype = Dtype::f32;
    std::string device = "cpu"; ///< "cpu" or "cuda:<number>", as at::Device::str() says it
    int64_t capacity = 0;       ///< positions of its KV cache; 0 = no cache
    int64_t caches = 1;         ///< of that capacity
    int64_t bridge_bytes = 0;   ///< of a bridge (engine/model/bridge) onto it that is still to be read
    int64_t step_rows = 1;      ///< of its decode steps: the token's and MC rows
    int64_t logit_rows = 1;     ///< fp32 rows of the vocabulary that are held at once, rings included
    /// Of weights, where another model holds the rest; nothing: all of them.
    std::optional<int64_t> own_elements{};
    /// Of weights that stay in blocks: their bytes. Nothing: as many as elements and dtype say.
    std::optional<int64_t> weight_bytes{};
    bool loaded =
        false; ///< its weights are on the device already, and `available` does not count that memory
};

/// What the models of one device still need, beyond what they hold already, and what the device has. All numbers are
/// bytes.
///
/// Weights and caches are exact (zero padding of odd widths included): what LlamaModel::weight_bytes() and
/// KvCache::bytes_reserved() will say. The working space is an upper estimate: activations of one chunk of a prefill,
/// logit rows, on a GPU what the kernels hold (kernels/decode/scratch.h) and the columns of a splice on their way to the host, and the host's copy of the largest tensor while it is loaded. Not in it: the undo journal of a cache, which
/// grows with the columns that refreshes overwrite, and libraries (a CUDA context takes some 0.5 GB before `available`
/// is asked for the first time).
struct MemoryEstimate {
    std::string device;
    int64_t weights = 0, cache = 0, workspace = 0;
    int64_t cache_per_position = 0;   ///< of all caches on the device together
    std::optional<int64_t> available; ///< nothing: the machine does not say; then nothing is refused
    bool wide = false;                ///< a model in f32 is among them: half precision would help

    [[nodiscard]] int64_t needed() const; ///< the three together; saturates
    [[nodiscard]] bool fits() const;
    [[nodiscard]] std::string advice() const; ///< what would help; empty where it fits
    /// "cpu: 9.8 GB needed (weights 6.4 GB, caches 2.9 GB, working space 0.5 GB), 14.2 GB available"
    [[nodiscard]] std::string line() const;
};

/// Bytes that a process on this host can still allocate without swapping: MemAvailable of /proc/meminfo, lowered to what
/// the control groups of the process leave (v2 and v1; pages of files count as free). Nothing where neither is readable.
/// \param root  the folder that holds proc/ and sys/
[[nodiscard]] std::optional<int64_t> host_memory_available(const std::filesystem::path& root = "/");

/// The same for "cpu" or "cuda:<number>": free memory of the device and what the allocator keeps for reuse.
[[nodiscard]] std::optional<int64_t> device_memory_available(const std::string& device);

/// How many bytes can still be allocated on a device; nothing where nobody knows. device_memory_available(), or what a
/// test says.
using MemoryQuery = std::function<std::optional<int64_t>(const std::string& device)>;

/// One estimate per device, in the order in which the needs name them: models on one device are added up.
[[nodiscard]] std::vector<MemoryEstimate>
estimate_memory(std::span<const ModelNeed> needs, const MemoryQuery& available = device_memory_available);

/// Throws Error{failure} with line() and advice() of the first device that cannot hold its part.
void require_memory(std::span<const MemoryEstimate> estimates);

} // namespace refreshlab
