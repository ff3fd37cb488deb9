#pragma once

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace refreshlab {

/// RoPE scaling block of config.json. Source: Llama 3.1 ("llama3"), Chen et al. 2023 ("linear").
struct RopeScaling {
    enum class Kind { none, linear, llama3 } kind = Kind::none;
    double factor = 1.0;
    double low_freq_factor = 1.0;
    double high_freq_factor = 4.0;
    int64_t original_max_position = 8192;
};

/// What a checkpoint's config.json says, checked: every field positive, heads a multiple of kv_heads, head_dim explicit
/// or hidden/heads. Unknown families are refused with the list of supported ones.
struct ModelConfig {
    std::string model_type;
    int64_t vocab_size = 0, hidden_size = 0, intermediate_size = 0;
    int64_t num_layers = 0, num_heads = 0, num_kv_heads = 0, head_dim = 0;
    int64_t max_position = 0; ///< max_position_embeddings
    double rms_norm_eps = 1e-6, rope_theta = 10000.0;
    RopeScaling rope_scaling;
    bool tied_head = false, attention_bias = false, mlp_bias = false;
    std::vector<int32_t> eos_ids; ///< from generation_config.json if present, else config.json
    std::optional<int32_t> bos_id;
    std::string stored_dtype; ///< torch_dtype / dtype, "" if absent
    /// Dropout the checkpoint was trained with; only declared keys are set (attention_dropout; resid_dropout is our own
    /// key). All absent or 0: MC variance is labelled "uncalibrated".
    std::optional<double> attention_dropout, resid_dropout;

    [[nodiscard]] static ModelConfig load(const std::filesystem::path& folder);
    [[nodiscard]] static ModelConfig parse(const nlohmann::json& config, const std::string& file);
    [[nodiscard]] int64_t num_parameters() const;
};

/// First field in which two KV geometries differ (layers, kv_heads, head_dim, rope...), or nothing: then a splice is
/// allowed (reference/refresh.md, section 4).
[[nodiscard]] std::optional<std::string> geometry_difference(const ModelConfig& teacher,
                                                             const ModelConfig& student);

} // namespace refreshlab
