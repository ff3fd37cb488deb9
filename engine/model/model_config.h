#pragma once

#include "kernels/shared/activation.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace refreshlab {

/// How RoPE's frequencies are scaled. Source: Llama 3.1 ("llama3"), Chen et al. 2023 ("linear"), Peng et al. 2023 ("yarn"),
/// Ding et al. 2024 ("longrope"), bloc97 and emozilla 2023 ("dynamic", NTK).
struct RopeScaling {
    enum class Kind { none, linear, llama3, yarn, factors, longrope, dynamic } kind = Kind::none;
    double factor = 1.0;
    double low_freq_factor = 1.0;
    double high_freq_factor = 4.0;
    int64_t original_max_position = 8192;
    double beta_fast = 32,
           beta_slow =
               1; ///< of yarn: turns within the original context, between which frequencies are blended
    bool truncate = true; ///< of yarn: the blend begins and ends at whole channel pairs
    double attention_factor =
        1; ///< of yarn and longrope: cosines and sines are this times as large, keys and queries with them
    /// What each frequency is divided by, [rotary dimension / 2]: of `factors` (GGUF files have them), and of longrope within the original context.
    std::vector<float> factors;
    std::vector<float> long_factors; ///< of longrope, the same for longer contexts
    /// The frequencies depend on how long the context is that a cache is made for (KvCache::context()).
    [[nodiscard]] bool by_context() const { return kind == Kind::longrope || kind == Kind::dynamic; }
};

/// Which rotations a layer has.
enum class Rope : uint8_t {
    still,  ///< none: it knows positions from the mask alone (NoPE)
    global, ///< those of ModelConfig::rope_theta and rope_scaling
    local,  ///< those of ModelConfig::local_rope_theta, not scaled
};

/// Routed experts in the place of an MLP: each token is sent to some of them.
struct Experts {
    int64_t count = 0; ///< 0: the model has none
    int64_t used = 0;  ///< of a token
    int64_t width = 0; ///< intermediate width of each
    bool normalised =
        true; ///< the weights of a token's experts sum to 1; else they are their shares among all
    bool numbered = false; ///< files call gate, up and down w1, w3 and w2, of a block_sparse_moe
};

/// Numbers that a model of the family granite multiplies by. They go into the weights when these are read
/// (LlamaWeights::gather), so no pass knows them: the residual is held as if `embedding` were 1, and rms_norm_eps is that of this residual.
struct Multipliers {
    double embedding =
        1; ///< of the embedding's rows: what is held is so many times smaller than the model's residual
    double branch = 1; ///< of o and down: residual_multiplier / embedding_multiplier
    double query = 1;  ///< of q: attention_multiplier * sqrt(head_dim)
    double logits = 1; ///< of the last norm: 1 / logits_scaling
    [[nodiscard]] bool any() const { return embedding != 1 || branch != 1 || query != 1 || logits != 1; }
};

struct ModelConfig;

/// The same numbers as files say them; 1: none.
struct GraniteNumbers {
    double embedding = 1, residual = 1; ///< embedding_multiplier, residual_multiplier
    double attention = 1;               ///< attention_multiplier: scores are multiplied by it
    double logits = 1;                  ///< logits_scaling: logits are divided by it
};
/// Sets config.multipliers, and the rms_norm_eps that belongs to them; once, with head_dim and rms_norm_eps set.
void set_multipliers(ModelConfig& config, const GraniteNumbers& numbers);

/// What a checkpoint's config.json says, checked: every size positive, heads a multiple of kv_heads, head_dim explicit
/// or hidden / heads. (A GGUF file's metadata give the same: engine/model/gguf/gguf_config.h.) The families
/// (known_families()) have one block with the differences below. An absent key gets what `transformers` 5 assumes for the family. Any
/// other family is refused, with the list of what is supported, and so is every setting that the forward pass would silently get wrong.
struct ModelConfig {
    std::string model_type;
    int64_t vocab_size = 0, hidden_size = 0, intermediate_size = 0;
    int64_t num_layers = 0, num_heads = 0, num_kv_heads = 0, head_dim = 0;
    int64_t max_position = 0; ///< max_position_embeddings
    double rms_norm_eps = 1e-6, rope_theta = 10000.0;
    Multipliers multipliers;
    RopeScaling rope_scaling;
    /// Channels of a head that turn, in pairs (i, i + rotary/2); the others stay. 0: all of them.
    int64_t rotary_dim = 0;
    double local_rope_theta = 0; ///< of layers with a sliding window; 0: they turn as the others do
    /// Whether each layer turns queries and keys; one that does not knows positions from the mask alone (NoPE). Empty: all do.
    std::vector<bool> layer_turns;
    bool tied_head = false;
    bool qkv_bias = false, output_bias = false, mlp_bias = false; ///< of q, k, v; of o; of gate, up, down
    bool qk_norm = false;       ///< RMSNorm of q and k, before RoPE: over every head, or
    bool qk_norm_whole = false; ///< over all heads together
    bool pre_norms = true;      ///< RMSNorm of what attention and MLP read
    bool branch_norms = false;  ///< RMSNorm of what attention and MLP add to the residual
    double norm_offset = 0;     ///< norms multiply by this + their weight (gemma: 1)
    double embedding_scale = 1; ///< the residual begins as this times the embedding's row
    double query_scale = 1; ///< of queries before RoPE; scores are divided by sqrt(head_dim) in all families
    double attention_cap = 0; ///< scores s become cap * tanh(s / cap) before the softmax; 0: they stay
    double logit_cap = 0;     ///< the same of logits
    kernels::Activation activation = kernels::Activation::silu;
    bool fused_projections = false; ///< files hold q, k and v in one matrix, and gate and up in one
    Experts experts;
    std::vector<bool> layer_routed; ///< which layers have experts; empty: all, where there are any
    /// Sliding window of each layer: position p sees the keys in (p - window, p]. 0 = sees everything; an empty list means
    /// that no layer slides.
    std::vector<int64_t> layer_windows;
    std::vector<int32_t> eos_ids; ///< from generation_config.json if present, else config.json
    std::optional<int32_t> bos_id;
    std::string stored_dtype; ///< dtype / torch_dtype, "" if absent
    /// Dropout the checkpoint was trained with; only declared keys are set (attention_dropout; resid_dropout is our own
    /// key). All absent or 0: MC variance is labelled "uncalibrated".
    std::optional<double> attention_dropout, resid_dropout;

    [[nodiscard]] static ModelConfig load(const std::filesystem::path& folder);
    [[nodiscard]] static ModelConfig parse(const nlohmann::json& config, const std::string& file);
    /// Of the checkpoint, without the padding of odd widths; a tied head counts once.
    [[nodiscard]] int64_t num_parameters() const;
    /// layer_windows[layer], 0 where the list is empty.
    [[nodiscard]] int64_t window(int64_t layer) const;
    /// layer_turns[layer], true where the list is empty.
    [[nodiscard]] bool turns(int64_t layer) const {
        return layer_turns.empty() || layer_turns[static_cast<size_t>(layer)];
    }
    [[nodiscard]] Rope rope(int64_t layer) const {
        if (!turns(layer)) return Rope::still;
        return local_rope_theta > 0 && window(layer) > 0 ? Rope::local : Rope::global;
    }
    [[nodiscard]] int64_t rotary() const { return rotary_dim > 0 ? rotary_dim : head_dim; }
    [[nodiscard]] bool routed(int64_t layer) const {
        return experts.count > 0 && (layer_routed.empty() || layer_routed[static_cast<size_t>(layer)]);
    }

    // Upper limits far above any published model; with them no product of sizes (elements, bytes, cache bytes) can leave
    // int64: layers * kv_heads * max_position * head_dim * 8 bytes * 2 <= 2^(10+12+24+12+4) = 2^62.
    static constexpr int64_t max_layers = 1 << 10, max_heads = 1 << 12, max_head_dim = 1 << 12,
                             max_context = 1 << 24;
    static constexpr int64_t max_width = 1 << 20; ///< hidden and intermediate
    static constexpr int64_t max_vocab = 1 << 24;
};

/// The names of all families, in one line: "llama, mistral, ...".
[[nodiscard]] std::string known_families();
/// A configuration with what a family fixes (norms, activation, scales), and no sizes; the family is one of known_families() (asserted).
/// For files whose metadata do not say it.
[[nodiscard]] ModelConfig config_of_family(std::string_view model_type);

/// Who computes a pass beside the CPU and ATen, which compute every model.
enum class Kernels : uint8_t {
    gpu,      ///< the kernels of a GPU (kernels/cuda); without them passes go through ATen there
    training, ///< the forward with gradients (engine/train)
    sinks,    ///< rotations of keys that a cache policy turns further (StreamingLLM's re-indexed positions)
};
/// The first of a model's differences that these do not have, in words ("norms of what sublayers add"); nothing: they serve the model.
[[nodiscard]] std::optional<std::string_view> missing_in(Kernels kernels, const ModelConfig& config);

/// First field in which two KV geometries differ, or nothing: then a splice is allowed. Compared: layers, KV heads,
/// head_dim, RoPE (theta, the scaling block, rotary dimension, local theta), q/k norm, soft caps of scores,
/// sliding windows, maximum position. Families may differ, and so may query heads and widths.
///
/// Two of these are about meaning rather than shape. Keys that were normalised per head have another scale than keys that
/// were not, and a student's queries are made for one of the two: a splice would copy bits that its attention cannot
/// read. A window as long as the context or longer hides nothing and counts as none.
/// Source: reference/refresh.md, section 4.
[[nodiscard]] std::optional<std::string> geometry_difference(const ModelConfig& teacher,
                                                             const ModelConfig& student);

} // namespace refreshlab
