#pragma once

#include "engine/model/model_config.h"

#include <cstdint>
#include <optional>
#include <string_view>

namespace refreshlab {

/// What one family of checkpoints has that others have not, and what its reference configuration (`transformers` 5)
/// assumes where config.json is silent. The forward pass reads the fields of ModelConfig only, so a new family of the same
/// block is one more row here (and new ModelConfig fields where its block differs).
struct Family {
    enum class AttentionBias { none, qkv, by_key }; ///< by_key: attention_bias decides for q, k, v and o
    enum class QkNorm { none, heads, whole };
    enum class Norms { before, after, both }; ///< of a sublayer: of what it reads, of what it adds
    enum class Window {
        none,
        all_layers,
        upper_layers, ///< with use_sliding_window, from max_window_layers on
        if_used,      ///< with use_sliding_window, all layers
        alternating,  ///< all but every n-th layer
    };
    enum class Routed {
        none,
        every_layer, ///< num_local_experts of intermediate_size
        by_step,     ///< num_experts of moe_intermediate_size, in the layers of decoder_sparse_step
    };

    std::string_view model_type;
    std::optional<int64_t>
        kv_heads; ///< where num_key_value_heads is absent (null: as many as heads); none: heads
    std::optional<int64_t> head_dim; ///< where head_dim is absent; none: hidden / heads
    AttentionBias attention_bias = AttentionBias::none;
    bool mlp_bias_key = false; ///< the key mlp_bias decides; otherwise there is none
    QkNorm qk_norm = QkNorm::none;
    Norms norms = Norms::before;
    double rms_norm_eps = 1e-6; ///< where it is absent
    Window window = Window::none;
    int64_t silent_window = 4096; ///< where sliding_window is absent; 0: none
    int64_t full_every = 0;       ///< n of alternating windows
    bool multipliers = false; ///< embedding_multiplier and its like are computed; elsewhere they are refused
    bool no_rope_layers =
        false; ///< some layers turn nothing: no_rope_layers, or every no_rope_layer_interval-th
    double rope_theta = 10000.0; ///< where it is absent
    double local_rope_theta = 0; ///< where rope_local_base_freq is absent; 0: the key is none of the family's
    bool phi_rope = false;       ///< partial_rotary_factor; longrope under three names
    int64_t original_context = 0; ///< where original_max_position_embeddings is absent; 0: the context
    bool tied_head = false;       ///< where tie_word_embeddings is absent
    bool fused_projections = false;
    Routed routed = Routed::none;
    /// Of the Gemma families: norms by 1 + weight, an embedding times the root of its width, gelu, query_pre_attn_scalar and soft caps.
    bool gemma = false;
    double attention_cap = 0, logit_cap = 0; ///< where the keys are absent; null: none
};

/// Of a layer. With ModelConfig's other limits no number of parameters leaves int64.
inline constexpr int64_t max_experts = 1 << 9;

/// The row of that model_type; null: there is none.
[[nodiscard]] const Family* find_family(std::string_view model_type);

/// Sets what the family fixes, whatever a file says.
void set_family(const Family& family, ModelConfig& config);

} // namespace refreshlab
