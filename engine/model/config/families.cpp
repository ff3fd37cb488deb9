#include "engine/model/config/families.h"

#include "engine/base/check.h"

#include <algorithm>
#include <array>
#include <string>

namespace refreshlab {

namespace {

constexpr std::array<Family, 12> families = {{
    {.model_type = "llama",
     .kv_heads = {},
     .head_dim = {},
     .attention_bias = Family::AttentionBias::by_key,
     .mlp_bias_key = true},
    {.model_type = "mistral", .kv_heads = 8, .head_dim = {}, .window = Family::Window::all_layers},
    {.model_type = "qwen2",
     .kv_heads = 32,
     .head_dim = {},
     .attention_bias = Family::AttentionBias::qkv,
     .window = Family::Window::upper_layers},
    {.model_type = "qwen3",
     .kv_heads = 32,
     .head_dim = 128,
     .attention_bias = Family::AttentionBias::by_key,
     .qk_norm = Family::QkNorm::heads,
     .window = Family::Window::upper_layers},
    {.model_type = "granite",
     .kv_heads = {},
     .head_dim = {},
     .attention_bias = Family::AttentionBias::by_key,
     .mlp_bias_key = true,
     .multipliers = true},
    {.model_type = "smollm3",
     .kv_heads = 4,
     .head_dim = {},
     .attention_bias = Family::AttentionBias::by_key,
     .mlp_bias_key = true,
     .no_rope_layers = true,
     .rope_theta = 2000000.0,
     .tied_head = true},
    {.model_type = "olmo2",
     .kv_heads = {},
     .head_dim = {},
     .attention_bias = Family::AttentionBias::by_key,
     .qk_norm = Family::QkNorm::whole,
     .norms = Family::Norms::after,
     .rms_norm_eps = 1e-5},
    {.model_type = "phi3",
     .kv_heads = {},
     .head_dim = {},
     .rms_norm_eps = 1e-5,
     .window = Family::Window::all_layers,
     .silent_window = 0,
     .phi_rope = true,
     .original_context = 4096,
     .fused_projections = true},
    {.model_type = "gemma2",
     .kv_heads = 4,
     .head_dim = 256,
     .attention_bias = Family::AttentionBias::by_key,
     .norms = Family::Norms::both,
     .window = Family::Window::alternating,
     .full_every = 2,
     .tied_head = true,
     .gemma = true,
     .attention_cap = 50,
     .logit_cap = 30},
    {.model_type = "gemma3_text",
     .kv_heads = 4,
     .head_dim = 256,
     .attention_bias = Family::AttentionBias::by_key,
     .qk_norm = Family::QkNorm::heads,
     .norms = Family::Norms::both,
     .window = Family::Window::alternating,
     .full_every = 6,
     .rope_theta = 1000000.0,
     .local_rope_theta = 10000.0,
     .tied_head = true,
     .gemma = true},
    {.model_type = "mixtral",
     .kv_heads = 8,
     .head_dim = {},
     .rms_norm_eps = 1e-5,
     .window = Family::Window::all_layers,
     .silent_window = 0,
     .rope_theta = 1000000.0,
     .routed = Family::Routed::every_layer},
    {.model_type = "qwen3_moe",
     .kv_heads = 4,
     .head_dim = {},
     .attention_bias = Family::AttentionBias::by_key,
     .qk_norm = Family::QkNorm::heads,
     .window = Family::Window::if_used,
     .routed = Family::Routed::by_step},
}};

/// What a model may have beside Llama's block, and who computes it (Kernels; the CPU and ATen compute all of it).
struct Difference {
    std::string_view name;
    bool (*has)(const ModelConfig&);
    bool gpu = false, training = false, sinks = true;
};
constexpr std::array<Difference, 13> differences = {{
    {"norms of what attention and MLP add", [](const ModelConfig& c) { return c.branch_norms; }, true},
    {"no norms of what attention and MLP read", [](const ModelConfig& c) { return !c.pre_norms; }, true},
    {"q/k norms over the whole width", [](const ModelConfig& c) { return c.qk_norm_whole; }, true},
    {"norms by 1 + weight", [](const ModelConfig& c) { return c.norm_offset != 0; }, true},
    {"a scaled embedding", [](const ModelConfig& c) { return c.embedding_scale != 1; }, true},
    {"scaled queries", [](const ModelConfig& c) { return c.query_scale != 1; }, true},
    {"soft caps", [](const ModelConfig& c) { return c.attention_cap > 0 || c.logit_cap > 0; }, true},
    {"another activation than silu",
     [](const ModelConfig& c) { return c.activation != kernels::Activation::silu; }, true},
    {"heads that turn in part", [](const ModelConfig& c) { return c.rotary() != c.head_dim; }, true, false,
     false},
    {"heads of which another number of channels turns than a multiple of 8",
     [](const ModelConfig& c) { return c.rotary() != c.head_dim && c.rotary() % 8 != 0; }, false, true},
    {"RoPE of two kinds", [](const ModelConfig& c) { return c.local_rope_theta > 0; }, true, false, false},
    {"RoPE that depends on the context's length",
     [](const ModelConfig& c) { return c.rope_scaling.by_context(); }, true, true, false},
    {"routed experts", [](const ModelConfig& c) { return c.experts.count > 0; }, true},
}};

} // namespace

const Family* find_family(std::string_view model_type) {
    const auto* const found = std::ranges::find(families, model_type, &Family::model_type);
    return found == families.end() ? nullptr : found;
}

void set_family(const Family& family, ModelConfig& config) {
    config.model_type = family.model_type;
    config.qk_norm = family.qk_norm != Family::QkNorm::none;
    config.qk_norm_whole = family.qk_norm == Family::QkNorm::whole;
    config.pre_norms = family.norms != Family::Norms::after;
    config.branch_norms = family.norms != Family::Norms::before;
    config.fused_projections = family.fused_projections;
    config.local_rope_theta = family.local_rope_theta;
    config.experts.numbered = family.routed == Family::Routed::every_layer;
    if (!family.gemma) return;
    config.norm_offset = 1;
    config.activation = kernels::Activation::gelu_tanh;
    config.attention_cap = family.attention_cap;
    config.logit_cap = family.logit_cap;
}

std::string known_families() {
    std::string known;
    for (const Family& family : families)
        known += (known.empty() ? "" : ", ") + std::string(family.model_type);
    return known;
}

ModelConfig config_of_family(std::string_view model_type) {
    const Family* const family = find_family(model_type);
    RL_ASSERT(family != nullptr);
    ModelConfig config;
    set_family(*family, config);
    return config;
}

std::optional<std::string_view> missing_in(Kernels kernels, const ModelConfig& config) {
    const auto misses = [&](const Difference& difference) {
        const bool computed = kernels == Kernels::gpu        ? difference.gpu
                              : kernels == Kernels::training ? difference.training
                                                             : difference.sinks;
        return !computed && difference.has(config);
    };
    const auto* const found = std::ranges::find_if(differences, misses);
    if (found != differences.end()) return found->name;
    return std::nullopt;
}

} // namespace refreshlab
