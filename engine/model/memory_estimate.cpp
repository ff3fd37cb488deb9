#include "engine/model/memory_estimate.h"

#include "engine/base/bytes_text.h"
#include "engine/base/check.h"
#include "engine/base/error.h"
#include "engine/model/checkpoint/llama_weights.h"
#include "engine/model/forward/held_experts.h"
#include "kernels/decode/device_cache_work.h"
#include "kernels/decode/scratch.h"
#include "kernels/execution/control_groups.h"

#include <ATen/DeviceAccelerator.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace refreshlab {

namespace {

/// Sizes of hostile configurations and of "as long as you like" capacities must not wrap around.
int64_t add(int64_t a, int64_t b) {
    int64_t sum = 0;
    return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

int64_t multiply(int64_t a, int64_t b) {
    int64_t product = 0;
    return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
}

int64_t element_bytes(Dtype dtype) {
    return dtype == Dtype::f32 ? 4 : 2;
}

/// Activations of one chunk of extend(), all alive at the same time at most: the residual, its norm and a branch; q, k, v,
/// the attention's result; gate, up and their product. Then the logit rows, and the host's copy of a tensor that is
/// being converted (f32 in the file at worst, unless the configuration says otherwise).
int64_t workspace_of(const ModelNeed& need) {
    const ModelConfig& c = need.config;
    const int64_t hidden = LlamaWeights::held_width(c.hidden_size);
    const int64_t inner = LlamaWeights::held_width(c.intermediate_size);
    const int64_t heads = 2 * c.num_heads + 2 * c.num_kv_heads;
    const int64_t per_row = 4 * (4 * hidden + 3 * inner + heads * c.head_dim);
    const bool half = c.stored_dtype == "bfloat16" || c.stored_dtype == "float16";
    const int64_t largest =
        std::max({c.vocab_size * hidden, inner * hidden, c.num_heads * c.head_dim * hidden});
    const int64_t logits = multiply(multiply(need.logit_rows, c.vocab_size), 4);
    const int64_t copy = need.loaded ? 0 : multiply(largest, half ? 2 : 4);
    return add(add(multiply(LlamaWeights::chunk_rows, per_row), logits), copy);
}

/// What decode steps, passes of many rows and splices hold on a GPU, as the code that takes it counts.
int64_t kernel_scratch(const ModelNeed& need) {
    if (need.capacity == 0 || need.device == "cpu") return 0;
    const ModelConfig& c = need.config;
    kernels::decode::DecodeShape shape;
    shape.hidden = LlamaWeights::held_width(c.hidden_size);
    shape.ffn = LlamaWeights::held_width(c.intermediate_size);
    shape.layers = c.num_layers;
    shape.heads = c.num_heads;
    shape.kv_heads = c.num_kv_heads;
    shape.head_dim = c.head_dim;
    shape.vocab = c.vocab_size;
    shape.branch_norms = c.branch_norms;
    shape.experts = held_experts(c);
    shape.type = need.dtype == Dtype::f32 ? kernels::WeightType::f32 : kernels::WeightType::bf16;
    // A longer cache does not fit anyway, and its numbers must not wrap around.
    shape.capacity = std::min(need.capacity, int64_t{1} << 24);
    shape.rows = need.step_rows;
    const int64_t step = kernels::decode::step_scratch(shape).bytes();
    shape.rows = std::min(shape.capacity, kernels::most_pass_rows);
    const kernels::CacheShape cache{shape.type, shape.layers, shape.kv_heads, shape.head_dim};
    return add(add(step, kernels::decode::pass_scratch(shape).bytes()),
               cache.bytes(kernels::most_spliced_columns));
}

struct GroupFiles {
    const char* limit;
    const char* usage;
    std::array<const char*, 2>
        file_pages; ///< lines of memory.stat: pages of files, which the kernel can drop
};
constexpr GroupFiles version_2 = {"memory.max", "memory.current", {"inactive_file", "active_file"}};
constexpr GroupFiles version_1 = {
    "memory.limit_in_bytes", "memory.usage_in_bytes", {"total_inactive_file", "total_active_file"}};

/// What one group leaves; nothing where it sets no limit.
std::optional<int64_t> left_in_group(const kernels::ControlGroup& group) {
    const GroupFiles& files = group.version == 2 ? version_2 : version_1;
    const auto limit = kernels::number_in(group.folder / files.limit);
    const auto usage = kernels::number_in(group.folder / files.usage);
    if (!limit || !usage) return std::nullopt;
    int64_t used = *usage;
    for (const char* line : files.file_pages)
        used -= kernels::number_after(group.folder / "memory.stat", line).value_or(0);
    return std::max<int64_t>(*limit - std::max<int64_t>(used, 0), 0);
}

} // namespace

int64_t MemoryEstimate::needed() const {
    return add(add(weights, cache), workspace);
}

bool MemoryEstimate::fits() const {
    return !available || needed() <= *available;
}

std::string MemoryEstimate::advice() const {
    if (fits()) return {};
    const int64_t rest = *available - add(weights, workspace);
    if (cache_per_position > 0 && rest >= cache_per_position)
        return fmt::format("at most {} positions of context fit", rest / cache_per_position);
    return wide ? "bf16 or f16 halves it" : "take a smaller model or another device";
}

std::string MemoryEstimate::line() const {
    return fmt::format("{}: {} needed (weights {}, caches {}, working space {}), {} available", device,
                       bytes_text(needed()), weights > 0 ? bytes_text(weights) : "loaded", bytes_text(cache),
                       bytes_text(workspace), available ? bytes_text(*available) : "an unknown amount");
}

std::vector<MemoryEstimate> estimate_memory(std::span<const ModelNeed> needs, const MemoryQuery& available) {
    std::vector<MemoryEstimate> result;
    for (const ModelNeed& need : needs) {
        RL_ASSERT(need.capacity >= 0 && need.logit_rows >= 0);
        auto it = std::find_if(result.begin(), result.end(),
                               [&](const MemoryEstimate& e) { return e.device == need.device; });
        if (it == result.end()) {
            it = result.emplace(result.end());
            it->device = need.device;
            it->available = available(need.device);
        }
        const ModelConfig& c = need.config;
        const int64_t bytes = element_bytes(need.dtype);
        if (!need.loaded) {
            const int64_t elements = need.own_elements.value_or(LlamaWeights::held_elements(c));
            it->weights = add(it->weights, need.weight_bytes.value_or(multiply(elements, bytes)));
        }
        it->weights = add(it->weights, need.bridge_bytes);
        it->wide = it->wide || need.dtype == Dtype::f32;
        const int64_t column = need.capacity > 0
                                   ? need.caches * 2 * c.num_layers * c.num_kv_heads * c.head_dim * bytes
                                   : int64_t{0};
        it->cache_per_position = add(it->cache_per_position, column);
        it->cache = add(it->cache, multiply(column, need.capacity));
        // Models are loaded one after the other and run one after the other, but their logit rows stay.
        it->workspace = add(add(it->workspace, workspace_of(need)), kernel_scratch(need));
    }
    return result;
}

void require_memory(std::span<const MemoryEstimate> estimates) {
    for (const MemoryEstimate& estimate : estimates) {
        if (!estimate.fits())
            throw Error("starting a run", {}, "not enough memory: " + estimate.line(), estimate.advice(),
                        ErrorKind::failure);
    }
}

std::optional<int64_t> host_memory_available(const std::filesystem::path& root) {
    const auto kilobytes = kernels::number_after(root / "proc/meminfo", "MemAvailable:");
    int64_t available = kilobytes ? multiply(*kilobytes, 1024) : INT64_MAX;
    for (const kernels::ControlGroup& group : kernels::control_groups("memory", root)) {
        if (const auto left = left_in_group(group)) available = std::min(available, *left);
    }
    return available == INT64_MAX ? std::nullopt : std::optional(available);
}

std::optional<int64_t> device_memory_available(const std::string& device) {
    const c10::Device parsed(device);
    if (parsed.is_cpu()) return host_memory_available();
    try {
        auto* const allocator = at::getDeviceAllocator(parsed.type());
        const auto index = parsed.has_index() ? parsed.index() : c10::DeviceIndex{0};
        const auto [free_bytes, total] = allocator->getMemoryInfo(index);
        const auto stats = allocator->getDeviceStats(index);
        constexpr size_t all = 0; // the aggregate of the pools
        const int64_t kept = stats.reserved_bytes[all].current - stats.allocated_bytes[all].current;
        return static_cast<int64_t>(free_bytes) + std::max<int64_t>(kept, 0);
    } catch (const c10::Error&) {
        return std::nullopt; // no such device: choosing it is refused elsewhere, with a message of its own
    }
}

} // namespace refreshlab
