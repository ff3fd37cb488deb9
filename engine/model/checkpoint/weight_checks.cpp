#include "engine/model/checkpoint/weight_checks.h"

#include "engine/base/check.h"
#include "engine/model/checkpoint/llama_weights.h"
#include "engine/model/checkpoint/safetensors_header.h"
#include "kernels/execution/thread_pool.h"

#include <ATen/ops/aminmax.h>
#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <string_view>
#include <vector>

namespace refreshlab {

namespace {

/// Index of the first NaN or infinity in [begin, n), or -1: exponent bits all ones. Blocks of a fixed size without a branch inside,
/// which the compiler vectorises: about the speed of reading memory.
template <typename Bits>
int64_t first_not_finite_of(const Bits* values, int64_t begin, int64_t n, Bits exponent) {
    constexpr int64_t block = 4096;
    for (; begin + block <= n; begin += block) {
        Bits bad = 0;
        for (int64_t i = 0; i < block; ++i)
            bad = static_cast<Bits>(bad | static_cast<Bits>((values[begin + i] & exponent) == exponent));
        if (bad != 0) break;
    }
    for (; begin < n; ++begin) {
        if ((values[begin] & exponent) == exponent) return begin;
    }
    return -1;
}

/// The same over [0, n), by all threads: where the numbers are a file's, this is what reads it.
template <typename Bits>
int64_t first_not_finite(const Bits* values, int64_t n, Bits exponent) {
    constexpr int64_t least_elements = int64_t{1} << 17; // of a thread's piece
    std::atomic<int64_t> first{n}; // relaxed: parallel_for() ends after all of its threads
    kernels::parallel_for(n, least_elements, [&](int64_t begin, int64_t end) {
        const int64_t found = first_not_finite_of(values, begin, end, exponent);
        int64_t known = first.load(std::memory_order_relaxed);
        while (found >= 0 && found < known &&
               !first.compare_exchange_weak(known, found, std::memory_order_relaxed)) {
        }
    });
    const int64_t found = first.load(std::memory_order_relaxed);
    return found < n ? found : -1;
}

} // namespace

void refuse_unread_weights(const ModelConfig& config, const WeightStore& weights) {
    std::vector<std::string> read = LlamaWeights::names(config);
    std::sort(read.begin(), read.end());
    const std::vector<std::string> present = weights.names();
    const auto ends_with = [](const std::string& name, std::string_view suffix) {
        return name.size() >= suffix.size() &&
               std::string_view(name).substr(name.size() - suffix.size()) == suffix;
    };
    for (const std::string& name : present) {
        if (std::binary_search(read.begin(), read.end(), name)) continue;
        if (name.rfind("model.", 0) != 0 || !(ends_with(name, ".weight") || ends_with(name, ".bias")))
            continue;
        fail_tensor(weights.file_of(name).string(), weights.stored_name(name),
                    "has no place in a " + config.model_type + " model of the config.json beside it");
    }
}

void check_tensors(const ModelConfig& config, const WeightStore& weights) {
    const auto check = [&](const std::string& name, at::IntArrayRef shape) {
        weights.check(name, shape);
        return at::empty(shape, at::TensorOptions().device(at::kMeta)); // a shape without memory
    };
    static_cast<void>(LlamaWeights::gather(config, check, at::Device(at::kMeta), at::kFloat));
}

void require_finite(const WeightStore& weights, const std::string& name, const at::Tensor& tensor,
                    at::ScalarType dtype) {
    const void* const data = tensor.const_data_ptr();
    const int64_t n = tensor.numel();
    int64_t at = -1;
    switch (tensor.scalar_type()) {
    case at::kDouble:
        at = first_not_finite(static_cast<const uint64_t*>(data), n, uint64_t{0x7FF0000000000000});
        break;
    case at::kFloat:
        at = first_not_finite(static_cast<const uint32_t*>(data), n, uint32_t{0x7F800000});
        break;
    case at::kBFloat16:
        at = first_not_finite(static_cast<const uint16_t*>(data), n, uint16_t{0x7F80});
        break;
    case at::kHalf:
        at = first_not_finite(static_cast<const uint16_t*>(data), n, uint16_t{0x7C00});
        break;
    default:
        RL_ASSERT(false); // WeightStore::read gives no other
    }
    const std::string file = weights.file_of(name).string(), stored = weights.stored_name(name);
    if (at >= 0) {
        const auto value = tensor.flatten()[at].item<double>();
        fail_tensor(
            file, stored,
            fmt::format("value {} is {}: the file is damaged, or its training had diverged", at, value));
    }
    if (dtype != at::kHalf || tensor.scalar_type() == at::kHalf || n == 0) return;
    const auto [low, high] = at::aminmax(tensor);
    const double largest = std::max(-low.item<double>(), high.item<double>());
    constexpr double beyond_f16 = 65520; // from here on the nearest f16 is infinite
    if (largest >= beyond_f16)
        fail_tensor(file, stored,
                    fmt::format("holds {:g}, too large for f16: --dtype bf16 or f32 can hold it", largest));
}

} // namespace refreshlab
