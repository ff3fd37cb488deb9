#pragma once

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace refreshlab {

/// How RoPE's frequencies are scaled. Source: Llama 3.1 ("llama3"), Chen et al. 2023 ("linear"), Peng et al. 2023 ("yarn").
struct RopeScaling {
    enum class Kind { none, linear, llama3, yarn, factors } kind = Kind::none;
    double factor = 1.0;
    double low_freq_factor = 1.0;
    double high_freq_factor = 4.0;
    int64_t original_max_position = 8192;
    double beta_fast = 32,
           beta_slow =
               1; ///< of yarn: turns within the original context, between which frequencies are blended
    bool truncate = true; ///< of yarn: the blend begins and ends at whole channel pairs
    double attention_factor =
        1; ///< of yarn: cosines and sines are this times as large, keys and queries with them
    std::vector<float>
        factors; ///< of `factors` [head_dim / 2]: what each frequency is divided by (GGUF files have them)
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

/// What a checkpoint's config.json says, checked: every size positive, heads a multiple of kv_heads, head_dim explicit
/// or hidden / heads. (A GGUF file's metadata give the same: engine/model/gguf/gguf_config.h.) The families
/// (model_type) are llama, mistral, qwen2, qwen3, granite and smollm3: one block with the differences below. An absent key gets what
/// `transformers` 5 assumes for the family. Any other family is refused, with the list of what is supported, and so is
/// every setting that the forward pass would silently get wrong.
struct ModelConfig {
    std::string model_type;
    int64_t vocab_size = 0, hidden_size = 0, intermediate_size = 0;
    int64_t num_layers = 0, num_heads = 0, num_kv_heads = 0, head_dim = 0;
    int64_t max_position = 0; ///< max_position_embeddings
    double rms_norm_eps = 1e-6, rope_theta = 10000.0;
    Multipliers multipliers;
    /// All families turn channel pairs (i, i + head_dim/2) over the whole head: rotary dimension = head_dim.
    RopeScaling rope_scaling;
    /// Whether each layer turns queries and keys; one that does not knows positions from the mask alone (NoPE). Empty: all do.
    std::vector<bool> layer_turns;
    bool tied_head = false;
    bool qkv_bias = false, output_bias = false, mlp_bias = false; ///< of q, k, v; of o; of gate, up, down
    bool qk_norm = false; ///< RMSNorm over every head of q and k, before RoPE
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

    // Upper limits far above any published model; with them no product of sizes (elements, bytes, cache bytes) can leave
    // int64: layers * kv_heads * max_position * head_dim * 8 bytes * 2 <= 2^(10+12+24+12+4) = 2^62.
    static constexpr int64_t max_layers = 1 << 10, max_heads = 1 << 12, max_head_dim = 1 << 12,
                             max_context = 1 << 24;
    static constexpr int64_t max_width = 1 << 20; ///< hidden and intermediate
    static constexpr int64_t max_vocab = 1 << 24;
};

/// First field in which two KV geometries differ, or nothing: then a splice is allowed. Compared: layers, KV heads,
/// head_dim, RoPE (theta and the scaling block; pairing and rotary dimension are the same in all families), q/k norm,
/// sliding windows, maximum position. Families may differ, and so may query heads and widths.
///
/// Two of these are about meaning rather than shape. Keys that were normalised per head have another scale than keys that
/// were not, and a student's queries are made for one of the two: a splice would copy bits that its attention cannot
/// read. A window as long as the context or longer hides nothing and counts as none.
/// Source: reference/refresh.md, section 4.
[[nodiscard]] std::optional<std::string> geometry_difference(const ModelConfig& teacher,
                                                             const ModelConfig& student);

} // namespace refreshlab
