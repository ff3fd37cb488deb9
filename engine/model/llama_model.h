#pragma once

#include "engine/model/model_config.h"
#include "kernels/ops/dropout.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace refreshlab {

class KvCache;

/// Which attention probabilities a forward keeps: those of its last row, for the layers asked for.
struct AttentionCapture {
    std::vector<int32_t> layers; ///< empty = all
    at::Tensor rows;             ///< out: [layers asked, heads, n] fp32 CPU
};

/// The residual stream that a forward keeps: what every layer reads, and what the final norm reads. Off (null) it costs
/// nothing; on, one copy of layers * rows * hidden floats to the host.
struct HiddenCapture {
    bool padding =
        false; ///< keep the zero channels that odd widths are padded with (engine/model/llama_weights.h)
    at::Tensor states; ///< out: [layers + 1, rows, hidden] fp32 CPU; [0] are the embeddings
};

/// MC dropout rows of one step (reference/refresh.md, 6.3).
struct McRequest {
    int32_t passes = 0; ///< 0 = none
    uint64_t seed = 0;
    float p = 0.0F;
    bool attention = true, attention_output = false, mlp_output = false; ///< sites
};

/// A decode step that is wrong on purpose, for the exactness check (control/exactness.h).
struct StepFault {
    int64_t position_shift = 0; ///< the token is rotated (RoPE) as if it stood so many positions further
    int64_t mask_shift = 0;     ///< its query sees so many columns beyond its own
};

/// How loading goes on; return false to cancel (Error "cancelled" is thrown).
using LoadProgress = std::function<bool(double fraction, const std::string& what)>;

/// Weights and forward pass of a Llama-layout decoder: RMSNorm, RoPE, grouped-query attention, SwiGLU MLP, with the
/// differences between families that ModelConfig names (biases, q/k norm, sliding windows).
///
/// window  a sliding window is a mask: the cache keeps every position, and a query at position p reads (p - window, p] of
///         a sliding layer, in every pass below. Captured attention rows are 0 outside.
/// dtype   weights and KV have the dtype asked for (f32, bf16, f16). On the CPU activations are fp32 (kernels/ops/dense.h).
/// Threads const: sessions on several threads may share a model, each with a cache of its own. Forward allocates its
///         activations.
/// Parity  logits within 1e-4 of `transformers` in fp32.
class LlamaModel {
public:
    /// Reads a checkpoint folder; every stored float dtype becomes `dtype`. Progress is told before every tensor, as the
    /// fraction of bytes read, and can cancel there. Throws Error naming file and tensor; a folder that holds weights
    /// which the family has no place for is refused as well (they would change the model's numbers).
    [[nodiscard]] static std::unique_ptr<LlamaModel> load(const std::filesystem::path& folder,
                                                          at::Device device, at::ScalarType dtype,
                                                          const LoadProgress& progress = {});
    /// A model from given weights (name -> tensor, Hugging Face names), for tests and stand-ins.
    [[nodiscard]] static std::unique_ptr<LlamaModel>
    from_weights(const ModelConfig& config,
                 const std::function<at::Tensor(const std::string& name, at::IntArrayRef shape)>& weight,
                 at::Device device, at::ScalarType dtype);
    ~LlamaModel();

    /// Keeps the first `rows` rows of the head and of the vocabulary; config().vocab_size becomes `rows`. Checkpoints of one
    /// family pad one tokenizer's vocabulary differently (Qwen 2: 151,936 and 152,064), and a pair compares rows of one width.
    /// The weights stay where they are. To be called before the model is shared; 0 < rows <= vocab_size (asserted).
    void keep_vocabulary(int64_t rows);

    [[nodiscard]] const ModelConfig& config() const;
    [[nodiscard]] at::Device device() const;
    [[nodiscard]] at::ScalarType dtype() const;
    [[nodiscard]] int64_t weight_bytes() const; ///< held, padding of odd widths included

    /// A cache of this model's geometry, dtype and device. Throws Error{failure} when the memory is not there.
    [[nodiscard]] std::unique_ptr<KvCache> make_cache(int64_t capacity) const;

    enum class Rows { none, last, all };

    /// Feeds tokens at positions cache.length(), ... and appends their columns (origin given). Chunked inside; exact.
    /// Rows::none skips the head and what follows the last layer's K/V. An attention capture gets the last token's row; a
    /// hidden capture gets every token's and needs Rows::all                                             (asserted)
    /// \return logits [1 or tokens, vocab] fp32 on the model's device; undefined for Rows::none
    at::Tensor extend(KvCache& cache, std::span<const int32_t> tokens, Rows rows, uint8_t origin,
                      AttentionCapture* capture = nullptr, HiddenCapture* hidden = nullptr) const;

    /// One decode step: feeds `token` at position cache.length(), appends its column. With mc.passes = N, N more rows
    /// ride along with dropout: they see the prefix columns and a column of their own, and never touch the cache. Row 0
    /// has the same bits with and without them. Captures get row 0.
    struct StepRows {
        at::Tensor row; ///< [vocab] fp32, device
        at::Tensor mc;  ///< [N, vocab] fp32, device; undefined without MC
    };
    StepRows step(KvCache& cache, int32_t token, uint8_t origin, const McRequest& mc = {},
                  AttentionCapture* capture = nullptr, HiddenCapture* hidden = nullptr) const;

    /// step() with a fault; columns that the shifted mask reaches are read as they are. \return [vocab] fp32
    at::Tensor faulty_step(KvCache& cache, int32_t token, uint8_t origin, const StepFault& fault) const;

    /// Runs `token` at `position` again without writing: it attends the cache's own columns [0, position] as they are.
    /// Used by on_fire = redraw and to look again at an old step. \return [vocab] fp32
    [[nodiscard]] at::Tensor read_only_step(const KvCache& cache, int32_t token, int64_t position,
                                            AttentionCapture* capture = nullptr,
                                            HiddenCapture* hidden = nullptr) const;

private:
    struct Impl;
    explicit LlamaModel(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> m_impl;
};

/// A checkpoint folder's random stand-in: same code path, weights N(0, 0.02) from a seed. For machines without the pair.
[[nodiscard]] std::unique_ptr<LlamaModel> random_llama(const ModelConfig& config, uint64_t seed,
                                                       at::Device device, at::ScalarType dtype);

} // namespace refreshlab
