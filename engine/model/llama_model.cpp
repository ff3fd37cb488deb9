#include "engine/model/llama_model.h"

#include "engine/base/check.h"
#include "engine/base/error.h"
#include "engine/cache/kv_cache.h"
#include "engine/model/checkpoint/llama_weights.h"
#include "engine/model/checkpoint/weight_checks.h"
#include "engine/model/forward/cpu_forward.h"
#include "engine/model/forward/cuda_forward.h"
#include "engine/model/forward/plain_forward.h"
#include "engine/model/forward/rope_table.h"
#include "engine/model/model_source.h"
#include "kernels/blocks/blocks.h"
#include "kernels/cuda/decode/decoder.h"
#include "kernels/cuda/rows/cache_work.h"
#include "kernels/execution/cuda_devices.h"
#include "kernels/ops/weight_type.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <c10/core/InferenceMode.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <mutex>
#include <utility>

namespace refreshlab {

namespace {
constexpr int64_t bf16_bytes = 2;
}

struct LlamaModel::Impl {
    ModelConfig config;
    at::Device device = at::kCPU;
    at::ScalarType dtype = at::kFloat;
    bool keeps_blocks = false;
    LlamaWeights weights;
    /// Grows with the positions asked for, by whichever session of the model comes first.
    RopeTable rope;
    std::mutex rope_mutex;
    std::unique_ptr<Forward> forward;
    std::shared_ptr<kernels::DeviceCacheWork> cache_work; ///< of dense caches
};

LlamaModel::LlamaModel(std::unique_ptr<Impl> impl)
    : m_impl(std::move(impl)) {
    make_forward();
}
LlamaModel::~LlamaModel() = default;

void LlamaModel::make_forward() {
    if (m_impl->device.is_cpu()) {
        m_impl->forward = std::make_unique<CpuForward>(*this);
#if REFRESHLAB_CUDA
    } else if (m_impl->device.is_cuda() && kernels::runs_own_kernels(m_impl->device.index())) {
        m_impl->forward = std::make_unique<CudaForward>(*this, kernels::cuda::make_decoder);
        use_cache_work(kernels::cuda::make_cache_work);
#endif
    } else {
        m_impl->forward = std::make_unique<PlainForward>(*this);
    }
}

void LlamaModel::use_forward(std::unique_ptr<Forward> forward) {
    RL_ASSERT(forward != nullptr && &forward->model() == this);
    m_impl->forward = std::move(forward);
}

void LlamaModel::use_cache_work(kernels::MakeCacheWork make) {
    const auto type = kernels::weight_type(m_impl->dtype);
    const ModelConfig& config = m_impl->config;
    // What the kernels do not have goes through ATen (kernels/cuda/rows/row_kernels.h).
    const bool covered = make != nullptr && type && config.head_dim % 8 == 0 && config.head_dim <= 256;
    m_impl->cache_work.reset();
    if (covered) m_impl->cache_work = make({*type, config.num_layers, config.num_kv_heads, config.head_dim});
}

void LlamaModel::keep_vocabulary(int64_t rows) {
    RL_ASSERT(rows > 0 && rows <= m_impl->config.vocab_size);
    const c10::InferenceMode guard;
    m_impl->config.vocab_size = rows;
    at::Tensor& head = m_impl->weights.head;
    if (!kernels::is_blocks(head)) {
        head = head.narrow(0, 0, rows);
    } else if (rows % kernels::block_rows == 0) {
        head = head.narrow(0, 0, rows / kernels::block_rows);
    } else { // cut within a tile: unpacked
        head = kernels::block_values(head).narrow(0, 0, rows).to(m_impl->device, m_impl->dtype).contiguous();
    }
    make_forward(); // a plan holds the head as it was
}

const ModelConfig& LlamaModel::config() const {
    return m_impl->config;
}
at::Device LlamaModel::device() const {
    return m_impl->device;
}
at::ScalarType LlamaModel::dtype() const {
    return m_impl->dtype;
}
int64_t LlamaModel::weight_bytes() const {
    return m_impl->weights.bytes;
}

std::unique_ptr<KvCache> LlamaModel::make_cache(int64_t capacity, CacheLayout layout) const {
    const ModelConfig& config = m_impl->config;
    try {
        return std::make_unique<KvCache>(config.num_layers, config.num_kv_heads, capacity, config.head_dim,
                                         m_impl->dtype, m_impl->device, layout, m_impl->cache_work);
    } catch (const c10::Error& error) {
        throw Error("allocating a KV cache of", std::to_string(capacity) + " positions",
                    error.what_without_backtrace(), "is there enough memory on " + m_impl->device.str() + "?",
                    ErrorKind::failure);
    }
}

bool LlamaModel::keeps_blocks() const {
    return m_impl->keeps_blocks;
}

const Forward& LlamaModel::forward() const {
    return *m_impl->forward;
}
const LlamaWeights& LlamaModel::weights() const {
    return m_impl->weights;
}
std::pair<at::Tensor, at::Tensor> LlamaModel::rope_rows(Rope rope, int64_t context, int64_t first_pos,
                                                        int64_t n) const {
    const std::lock_guard lock(m_impl->rope_mutex);
    return m_impl->rope.rows(rope, context, first_pos, n);
}

std::unique_ptr<LlamaModel> LlamaModel::from_weights(
    const ModelConfig& config,
    const std::function<at::Tensor(const std::string& name, at::IntArrayRef shape)>& weight,
    at::Device device, at::ScalarType dtype) {
    const c10::InferenceMode guard;
    return of_weights(config, LlamaWeights::gather(config, weight, device, dtype), device, dtype);
}

std::unique_ptr<LlamaModel> LlamaModel::of_weights(const ModelConfig& config, LlamaWeights weights,
                                                   at::Device device, at::ScalarType dtype,
                                                   bool keeps_blocks) {
    const c10::InferenceMode guard;
    auto impl = std::make_unique<Impl>();
    impl->config = config;
    impl->device = device;
    impl->dtype = dtype;
    impl->keeps_blocks = keeps_blocks;
    impl->weights = std::move(weights);
    impl->rope = RopeTable(config, device);
    return std::unique_ptr<LlamaModel>(new LlamaModel(std::move(impl)));
}

std::unique_ptr<LlamaModel> LlamaModel::load(const std::filesystem::path& path, at::Device device,
                                             at::ScalarType dtype, const LoadProgress& progress,
                                             bool keep_blocks) {
    return load(*ModelSource::open(path), device, dtype, progress, keep_blocks);
}

std::unique_ptr<LlamaModel> LlamaModel::load(const ModelSource& source, at::Device device,
                                             at::ScalarType dtype, const LoadProgress& progress,
                                             bool keep_blocks) {
    const std::string path = source.path().string();
    const auto report = [&](double fraction, const std::string& what) {
        if (progress && !progress(fraction, what)) {
            throw Error("loading", path, "cancelled", {}, ErrorKind::failure);
        }
    };
    report(0.0, source.config_name());
    const ModelConfig config = source.config();
    const std::unique_ptr<WeightStore> weights = source.weights(config);
    const auto total = static_cast<double>(std::max<int64_t>(weights->total_bytes(), 1));
    int64_t bytes = 0;
    const auto read = [&](const std::string& name, at::IntArrayRef shape) {
        report(std::min(1.0, static_cast<double>(bytes) / total), name);
        at::Tensor tensor = keep_blocks && LlamaWeights::multiplier(config, name) == 1
                                ? weights->read_blocks(name, shape)
                                : at::Tensor();
        if (!tensor.defined() || !kernels::blocks_are_finite(tensor)) {
            tensor = weights->read(name, shape, dtype);
            require_finite(*weights, name, tensor, dtype);
        }
        bytes += weights->stored_bytes(name);
        return tensor;
    };
    try {
        auto model = from_weights(config, read, device, dtype);
        model->m_impl->keeps_blocks = keep_blocks;
        report(1.0, "ready");
        return model;
    } catch (const c10::Error& error) {
        throw Error("loading", path, error.what_without_backtrace(),
                    "is there enough memory on " + device.str() + "?", ErrorKind::failure);
    }
}

int64_t LlamaModel::weight_bytes_in_blocks(const ModelSource& source, const ModelConfig& config) {
    const std::unique_ptr<WeightStore> weights = source.weights(config);
    int64_t bytes = 0;
    LlamaWeights{}.visit(config, [&](const WeightPlace& place, const at::Tensor&) {
        int64_t elements = 1;
        for (const int64_t width : place.held)
            elements *= width;
        const bool in_blocks = LlamaWeights::multiplier(config, place.name) == 1 &&
                               weights->stays_in_blocks(place.name, place.stored);
        bytes += in_blocks ? weights->stored_bytes(place.name) : elements * bf16_bytes;
    });
    return bytes;
}

std::unique_ptr<LlamaModel> random_llama(const ModelConfig& config, uint64_t seed, at::Device device,
                                         at::ScalarType dtype) {
    constexpr double deviation = 0.02; // initializer_range of the Llama configurations
    at::Generator generator = at::detail::createCPUGenerator(seed);
    const auto source = [&](const std::string& name, at::IntArrayRef shape) {
        const auto options = at::TensorOptions().dtype(at::kFloat);
        if (name.find("norm.weight") != std::string::npos) return at::ones(shape, options);
        return at::empty(shape, options).normal_(0.0, deviation, generator);
    };
    return LlamaModel::from_weights(config, source, device, dtype);
}

} // namespace refreshlab
