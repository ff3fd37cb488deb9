#include "engine/model/model_config.h"

#include "engine/base/error.h"
#include "engine/base/json_file.h"
#include "engine/model/config/config_fields.h"
#include "engine/model/config/families.h"
#include "engine/model/config/read_rope.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

namespace refreshlab {

namespace {

using nlohmann::json;

constexpr int64_t default_max_window_layers = 28;

/// Keys of related architectures that change the forward pass and that we do not compute. null, false, 0, an empty list
/// and `neutral` mean that nothing is changed.
struct ForeignSetting {
    const char* key;
    double neutral = 0.0;
    /// The family computes it.
    bool (*known)(const Family& family) = [](const Family&) { return false; };
};
constexpr auto routes = [](const Family& f) { return f.routed != Family::Routed::none; };
constexpr auto is_gemma = [](const Family& f) { return f.gemma; };
constexpr auto multiplies = [](const Family& f) { return f.multipliers; };
constexpr std::array<ForeignSetting, 20> foreign_settings = {{
    {"num_experts", 1.0, routes},
    {"num_local_experts", 1.0, routes},
    {"n_routed_experts", 1.0},
    {"attn_logit_softcapping", 0, is_gemma},
    {"final_logit_softcapping", 0, is_gemma},
    {"query_pre_attn_scalar", 0, is_gemma},
    {"attention_multiplier", 0, multiplies},
    {"embedding_multiplier", 1.0, multiplies},
    {"residual_multiplier", 1.0, multiplies},
    {"logits_scaling", 1.0, multiplies},
    {"logit_scale", 1.0},
    {"clip_qkv"},
    {"no_rope_layers", 0, [](const Family& f) { return f.no_rope_layers; }},
    {"attention_chunk_size"},
    {"attn_temperature_tuning"},
    {"use_bidirectional_attention"},
    {"is_encoder_decoder"},
    {"add_cross_attention"},
    {"use_parallel_residual"},
    {"alibi"},
}};

constexpr int64_t max_layers = ModelConfig::max_layers, max_heads = ModelConfig::max_heads,
                  max_head_dim = ModelConfig::max_head_dim, max_context = ModelConfig::max_context,
                  max_width = ModelConfig::max_width, max_vocab = ModelConfig::max_vocab;

const Family& family_of(const Fields& fields) {
    const auto model_type = fields.text("model_type");
    if (!model_type) fields.fail("model_type", "is missing", "is this the config.json of a language model?");
    if (const Family* const family = find_family(*model_type)) return *family;
    fields.fail("model_type", short_dump(json(*model_type)) + " is not supported",
                "supported: " + known_families() + "; docs/howto/add-a-family.md says how to add one");
}

void read_attention_shape(const Fields& fields, const Family& family, ModelConfig& config) {
    config.num_heads = fields.size("num_attention_heads", max_heads);
    const int64_t silent =
        family.kv_heads && !fields.has("num_key_value_heads") ? *family.kv_heads : config.num_heads;
    config.num_kv_heads = fields.optional_size("num_key_value_heads", max_heads).value_or(silent);
    if (config.num_heads % config.num_kv_heads != 0) {
        fields.fail("num_attention_heads", fmt::format("({}) must be a multiple of num_key_value_heads ({})",
                                                       config.num_heads, config.num_kv_heads));
    }
    if (const auto explicit_dim = fields.optional_size("head_dim", max_head_dim)) {
        config.head_dim = *explicit_dim;
    } else if (family.head_dim) {
        config.head_dim = *family.head_dim;
    } else {
        if (config.hidden_size % config.num_heads != 0) {
            fields.fail("hidden_size",
                        fmt::format("({}) must be a multiple of num_attention_heads ({}) where head_dim "
                                    "is absent",
                                    config.hidden_size, config.num_heads));
        }
        config.head_dim = config.hidden_size / config.num_heads;
        if (config.head_dim > max_head_dim) {
            fields.fail("hidden_size",
                        fmt::format("gives a head size of {}, above {}", config.head_dim, max_head_dim));
        }
    }
    if (config.head_dim % 2 != 0) {
        fields.fail("head_dim",
                    fmt::format("({}) must be even: rotary embedding turns pairs", config.head_dim));
    }
}

/// The sliding window under the rules of the family: Mistral's is one for all layers and on unless null; Qwen's is off
/// unless use_sliding_window, and then slides the layers from max_window_layers on, or those that layer_types names; Gemma's slides
/// all but every n-th layer.
void read_windows(const Fields& fields, const Family& family, ModelConfig& config) {
    int64_t window = 0;
    int64_t first_sliding = 0;
    if (family.window == Family::Window::upper_layers) {
        if (const json* layers = fields.find("max_window_layers")) {
            first_sliding = fields.integer("max_window_layers", *layers, 0, INT32_MAX);
        } else {
            first_sliding = default_max_window_layers;
        }
    }
    const bool flagged =
        family.window == Family::Window::upper_layers || family.window == Family::Window::if_used;
    const bool on =
        flagged ? fields.flag("use_sliding_window", false) : family.window != Family::Window::none;
    if (on) {
        const int64_t silent = fields.has("sliding_window") ? 0 : family.silent_window; // null: none
        window = fields.optional_size("sliding_window", max_context).value_or(silent);
    }
    const bool alternating = family.window == Family::Window::alternating;
    if (alternating && window == 0) fields.fail("sliding_window", "must be a number in this family");
    const int64_t full_every =
        fields.optional_size("sliding_window_pattern", max_layers).value_or(family.full_every);
    std::vector<int64_t> windows(static_cast<size_t>(config.num_layers), 0);
    if (window > 0) {
        for (int64_t i = first_sliding; i < config.num_layers; ++i)
            windows[static_cast<size_t>(i)] = alternating && (i + 1) % full_every == 0 ? 0 : window;
    }
    if (const json* types = fields.find("layer_types")) {
        if (!types->is_array() || types->size() != windows.size()) {
            fields.fail("layer_types",
                        fmt::format("must be a list of num_hidden_layers ({}) names", config.num_layers));
        }
        for (size_t i = 0; i < windows.size(); ++i) {
            const json& type = (*types)[i];
            const bool slides = type == "sliding_attention";
            if (!slides && type != "full_attention") {
                fields.fail("layer_types", "names " + short_dump(type) + ", which is not supported",
                            "supported: full_attention, sliding_attention");
            }
            if (slides && window == 0)
                fields.fail("layer_types", "names sliding_attention, but no window is on");
            const bool all =
                family.window == Family::Window::all_layers || family.window == Family::Window::if_used;
            if (!slides && all && window > 0) {
                fields.fail("layer_types", "names full_attention, but the sliding window of " +
                                               std::string(family.model_type) + " is one for all layers");
            }
            windows[i] = slides ? window : 0;
        }
    }
    if (std::any_of(windows.begin(), windows.end(), [](int64_t w) { return w > 0; }))
        config.layer_windows = std::move(windows);
}

/// Which layers turn queries and keys. \pre  of a family that has layers that do not
void read_turns(const Fields& fields, ModelConfig& config) {
    if (fields.flag("use_sliding_window", false))
        fields.fail("use_sliding_window", "is true, which is not supported in this family");
    config.layer_turns.assign(static_cast<size_t>(config.num_layers), true);
    if (const json* listed = fields.find("no_rope_layers")) {
        if (!listed->is_array() || listed->size() < config.layer_turns.size())
            fields.fail("no_rope_layers",
                        fmt::format("must be a list of num_hidden_layers ({}) numbers", config.num_layers));
        for (size_t i = 0; i < config.layer_turns.size(); ++i)
            config.layer_turns[i] = fields.integer("no_rope_layers", (*listed)[i], 0, 1) == 1;
    } else {
        const int64_t each = fields.optional_size("no_rope_layer_interval", max_layers).value_or(4);
        for (int64_t i = each - 1; i < config.num_layers; i += each)
            config.layer_turns[static_cast<size_t>(i)] = false;
    }
    if (std::ranges::all_of(config.layer_turns, [](bool turns) { return turns; })) config.layer_turns.clear();
}

void read_multipliers(const Fields& fields, ModelConfig& config) {
    const auto number = [&](const char* key) { return fields.optional_number(key, 1e-6, 1e6).value_or(1); };
    set_multipliers(config, {number("embedding_multiplier"), number("residual_multiplier"),
                             number("attention_multiplier"), number("logits_scaling")});
}

/// Queries and soft caps of the Gemma families.
void read_gemma(const Fields& fields, const Family& family, ModelConfig& config) {
    const double scalar = fields.optional_number("query_pre_attn_scalar", 1e-6, 1e6).value_or(256);
    config.query_scale = std::sqrt(static_cast<double>(config.head_dim) / scalar);
    const auto cap = [&](const char* key, double silent) { // null: none
        return fields.optional_number(key, 0, 1e6).value_or(fields.has(key) ? 0 : silent);
    };
    // Gemma 3 norms queries and keys instead: `transformers` reads its key and caps nothing.
    if (family.attention_cap > 0) config.attention_cap = cap("attn_logit_softcapping", family.attention_cap);
    config.logit_cap = cap("final_logit_softcapping", family.logit_cap);
}

void read_experts(const Fields& fields, const Family& family, ModelConfig& config) {
    Experts& experts = config.experts;
    const bool by_step = family.routed == Family::Routed::by_step;
    const char* const key =
        by_step && fields.find("num_experts") != nullptr ? "num_experts" : "num_local_experts";
    experts.count = fields.optional_size(key, max_experts).value_or(by_step ? 128 : 8);
    experts.used = fields.optional_size("num_experts_per_tok", max_experts).value_or(by_step ? 8 : 2);
    if (experts.used > experts.count)
        fields.fail("num_experts_per_tok", fmt::format("({}) must not be above the number of experts ({})",
                                                       experts.used, experts.count));
    experts.width = config.intermediate_size;
    experts.numbered = !by_step;
    if (!by_step) return;
    experts.width = fields.optional_size("moe_intermediate_size", max_width).value_or(768);
    experts.normalised = fields.flag("norm_topk_prob", false);
    const int64_t step = fields.optional_size("decoder_sparse_step", max_layers).value_or(1);
    config.layer_routed.assign(static_cast<size_t>(config.num_layers), false);
    for (int64_t i = step - 1; i < config.num_layers; i += step)
        config.layer_routed[static_cast<size_t>(i)] = true;
    if (const json* listed = fields.find("mlp_only_layers")) {
        if (!listed->is_array()) fields.fail("mlp_only_layers", "must be a list of layers");
        for (const json& layer : *listed) {
            const int64_t i = fields.integer("mlp_only_layers", layer, 0, max_layers);
            if (i < config.num_layers) config.layer_routed[static_cast<size_t>(i)] = false;
        }
    }
    if (std::ranges::all_of(config.layer_routed, [](bool routed) { return routed; }))
        config.layer_routed.clear();
    if (std::ranges::none_of(config.layer_routed, [](bool routed) { return routed; }) &&
        !config.layer_routed.empty())
        experts = {};
}

void refuse_foreign_settings(const Fields& fields, const Family& family) {
    for (const ForeignSetting& setting : foreign_settings) {
        if (setting.known(family)) continue;
        const json* value = fields.find(setting.key);
        if (value == nullptr) continue;
        const bool neutral = *value == false || *value == 0 || *value == setting.neutral ||
                             (value->is_structured() && value->empty());
        if (!neutral) {
            fields.fail(setting.key, "is " + short_dump(*value) +
                                         ", which changes the forward pass in a way that is not supported");
        }
    }
}

void require_activation(const Fields& fields, const Family& family) {
    const bool gelu = family.gemma;
    const char* const key = gelu ? "hidden_activation" : "hidden_act";
    const std::string_view usual = gelu ? "gelu_pytorch_tanh" : "silu";
    const std::string name = fields.text(key).value_or(std::string(usual));
    if (name != usual && (gelu || name != "swish"))
        fields.fail(key, short_dump(json(name)) + " is not supported", "supported: " + std::string(usual));
}

} // namespace

void set_multipliers(ModelConfig& config, const GraniteNumbers& numbers) {
    Multipliers& m = config.multipliers;
    m.embedding = numbers.embedding;
    m.branch = numbers.residual / m.embedding;
    m.query = numbers.attention * std::sqrt(static_cast<double>(config.head_dim));
    m.logits = 1 / numbers.logits;
    config.rms_norm_eps /= m.embedding * m.embedding;
}

ModelConfig ModelConfig::parse(const json& object, const std::string& file) {
    if (!object.is_object()) throw Error("reading", file, "must hold a JSON object");
    const Fields fields(object, file);
    const Family& family = family_of(fields);
    if (fields.find("quantization_config") != nullptr) {
        fields.fail("quantization_config", "is set: quantised checkpoints are not supported",
                    "take the f32, bf16 or f16 checkpoint of the model");
    }

    ModelConfig config;
    set_family(family, config);
    config.vocab_size = fields.size("vocab_size", max_vocab);
    config.hidden_size = fields.size("hidden_size", max_width);
    config.intermediate_size = fields.size("intermediate_size", max_width);
    config.num_layers = fields.size("num_hidden_layers", max_layers);
    config.max_position = fields.size("max_position_embeddings", max_context);
    read_attention_shape(fields, family, config);
    read_windows(fields, family, config);
    refuse_foreign_settings(fields, family);
    require_activation(fields, family);
    config.rms_norm_eps = fields.optional_number("rms_norm_eps", 1e-30, 1.0).value_or(family.rms_norm_eps);
    if (family.gemma) {
        config.embedding_scale = std::sqrt(static_cast<double>(config.hidden_size));
        read_gemma(fields, family, config);
    }
    if (family.routed != Family::Routed::none) read_experts(fields, family, config);
    if (family.multipliers) read_multipliers(fields, config);
    read_rope(fields, family, config);
    if (family.no_rope_layers) read_turns(fields, config);
    config.tied_head = fields.flag("tie_word_embeddings", family.tied_head);
    const bool by_key = family.attention_bias == Family::AttentionBias::by_key;
    config.output_bias = by_key && fields.flag("attention_bias", false);
    config.qkv_bias = config.output_bias || family.attention_bias == Family::AttentionBias::qkv;
    config.mlp_bias = family.mlp_bias_key && fields.flag("mlp_bias", false);

    config.eos_ids = fields.ids("eos_token_id", config.vocab_size);
    const std::vector<int32_t> bos = fields.ids("bos_token_id", config.vocab_size);
    if (!bos.empty()) config.bos_id = bos.front();
    const auto older = fields.text("torch_dtype");
    config.stored_dtype = fields.text("dtype").value_or(older.value_or(""));
    constexpr double below_one = 0.999;
    config.attention_dropout = fields.optional_number("attention_dropout", 0.0, below_one);
    config.resid_dropout = fields.optional_number("resid_dropout", 0.0, below_one);
    return config;
}

ModelConfig ModelConfig::load(const std::filesystem::path& folder) {
    const std::filesystem::path path = folder / "config.json";
    constexpr size_t max_bytes = size_t{16} << 20;
    std::error_code ignored;
    if (!std::filesystem::is_directory(folder, ignored)) {
        throw Error("reading", folder.string(), "there is no such model folder",
                    "a model is a folder with config.json, tokenizer.json and *.safetensors");
    }
    ModelConfig config = parse(read_json_file(path, max_bytes), path.string());

    const std::filesystem::path generation = folder / "generation_config.json";
    if (std::filesystem::exists(generation, ignored)) {
        const json object = read_json_file(generation, max_bytes);
        if (!object.is_object()) throw Error("reading", generation.string(), "must hold a JSON object");
        const Fields fields(object, generation.string());
        if (fields.find("eos_token_id") != nullptr)
            config.eos_ids = fields.ids("eos_token_id", config.vocab_size);
    }
    return config;
}

int64_t ModelConfig::num_parameters() const {
    const int64_t q_width = num_heads * head_dim;
    const int64_t kv_width = num_kv_heads * head_dim;
    int64_t layer = hidden_size * (2 * q_width + 2 * kv_width);
    layer += 2 * hidden_size * ((pre_norms ? 1 : 0) + (branch_norms ? 1 : 0));
    if (qkv_bias) layer += q_width + 2 * kv_width;
    if (output_bias) layer += hidden_size;
    if (qk_norm) layer += qk_norm_whole ? q_width + kv_width : 2 * head_dim;
    int64_t mlp = 3 * hidden_size * intermediate_size;
    if (mlp_bias) mlp += 2 * intermediate_size + hidden_size;
    const int64_t routed_mlp = experts.count * hidden_size * (1 + 3 * experts.width);
    int64_t mlps = 0;
    for (int64_t i = 0; i < num_layers; ++i)
        mlps += routed(i) ? routed_mlp : mlp;
    return num_layers * layer + mlps + (tied_head ? 1 : 2) * vocab_size * hidden_size + hidden_size;
}

int64_t ModelConfig::window(int64_t layer) const {
    return layer_windows.empty() ? 0 : layer_windows.at(static_cast<size_t>(layer));
}

} // namespace refreshlab
