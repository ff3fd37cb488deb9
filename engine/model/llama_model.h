#pragma once

#include "engine/cache/cache_layout.h"
#include "engine/model/forward.h"
#include "engine/model/model_config.h"
#include "kernels/decode/device_cache_work.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>

namespace refreshlab {

class KvCache;
class ModelSource;
struct LlamaWeights;

/// How loading goes on; return false to cancel (Error "cancelled" is thrown).
using LoadProgress = std::function<bool(double fraction, const std::string& what)>;

/// Weights of a Llama-layout decoder: RMSNorm, RoPE, grouped-query attention, gated MLP, with the differences between
/// families that ModelConfig names (biases, norms, sliding windows, experts). forward() runs its passes.
///
/// window  a sliding window is a mask: the cache keeps every position, and a query at position p reads (p - window, p] of
///         a sliding layer, in every pass.
/// dtype   weights and KV have the dtype asked for (f32, bf16, f16). On the CPU activations are fp32 (kernels/ops/dense.h).
/// Threads const: sessions on several threads may share a model, each with a cache of its own.
class LlamaModel {
public:
    /// Reads the weights of a model; every stored type becomes `dtype`. With keep_blocks a matrix of a GGUF file stays in the
    /// blocks that kernels/blocks/blocks.h multiplies, if it has them. Progress is told before every tensor, as the fraction
    /// of bytes read, and can cancel there. Throws Error naming file and tensor; also for weights that the family has
    /// no place for (they would change the model's numbers).
    [[nodiscard]] static std::unique_ptr<LlamaModel> load(const ModelSource& source, at::Device device,
                                                          at::ScalarType dtype,
                                                          const LoadProgress& progress = {},
                                                          bool keep_blocks = false);
    /// The same for the path of a checkpoint folder or a GGUF file.
    [[nodiscard]] static std::unique_ptr<LlamaModel> load(const std::filesystem::path& path,
                                                          at::Device device, at::ScalarType dtype,
                                                          const LoadProgress& progress = {},
                                                          bool keep_blocks = false);
    /// What weight_bytes() of a model loaded with keep_blocks will say; reads no weight.
    [[nodiscard]] static int64_t weight_bytes_in_blocks(const ModelSource& source, const ModelConfig& config);
    /// A model from given weights (name -> tensor, Hugging Face names), for tests.
    [[nodiscard]] static std::unique_ptr<LlamaModel>
    from_weights(const ModelConfig& config,
                 const std::function<at::Tensor(const std::string& name, at::IntArrayRef shape)>& weight,
                 at::Device device, at::ScalarType dtype);
    /// A model of weights that are there already, on their device and in their dtype; tensors are shared with whoever has them.
    [[nodiscard]] static std::unique_ptr<LlamaModel> of_weights(const ModelConfig& config,
                                                                LlamaWeights weights, at::Device device,
                                                                at::ScalarType dtype,
                                                                bool keeps_blocks = false);
    ~LlamaModel();

    /// Keeps the first `rows` rows of the head and of the vocabulary; config().vocab_size becomes `rows`. Checkpoints of one
    /// family pad one tokenizer's vocabulary differently (Qwen 2: 151,936 and 152,064), and a pair compares rows of one width.
    /// The weights stay where they are. To be called before the model is shared; 0 < rows <= vocab_size (asserted).
    void keep_vocabulary(int64_t rows);

    [[nodiscard]] const ModelConfig& config() const;
    [[nodiscard]] at::Device device() const;
    [[nodiscard]] at::ScalarType dtype() const;
    [[nodiscard]] int64_t
    weight_bytes() const; ///< held, padding of odd widths included; without what another model holds

    /// A cache of this model's geometry, dtype and device. Throws Error{failure} when the memory is not there.
    [[nodiscard]] std::unique_ptr<KvCache> make_cache(int64_t capacity,
                                                      CacheLayout layout = CacheLayout::dense) const;

    /// Prefill, decode steps and read-only passes (engine/model/forward.h). Lives as long as the model.
    [[nodiscard]] const Forward& forward() const;

    /// Passes run by another forward from now on; for comparisons. To be called before the model is shared.
    void use_forward(std::unique_ptr<Forward> forward);

    /// Dense caches made from now on are spliced, rewound and measured by these kernels; null: by ATen. As use_forward().
    void use_cache_work(kernels::MakeCacheWork make);

    /// It was loaded with keep_blocks, or made of such a model, whether or not there are any.
    [[nodiscard]] bool keeps_blocks() const;

    // --- for forwards ---
    [[nodiscard]] const LlamaWeights& weights() const;
    /// cos and sin of positions [first_pos, first_pos + n), [n, rotary dimension / 2] fp32 on the device; see RopeTable::rows().
    /// \param context  of the cache that keys are written to
    /// Threads  any; the table grows under a mutex.
    [[nodiscard]] std::pair<at::Tensor, at::Tensor> rope_rows(Rope rope, int64_t context, int64_t first_pos,
                                                              int64_t n) const;

private:
    struct Impl;
    explicit LlamaModel(std::unique_ptr<Impl> impl);
    void make_forward();
    std::unique_ptr<Impl> m_impl;
};

/// A model with random weights, N(0, 0.02) from a seed, through the same code path. For tests without a checkpoint.
[[nodiscard]] std::unique_ptr<LlamaModel> random_llama(const ModelConfig& config, uint64_t seed,
                                                       at::Device device, at::ScalarType dtype);

} // namespace refreshlab
