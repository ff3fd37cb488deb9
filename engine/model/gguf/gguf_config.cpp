#include "engine/model/gguf/gguf_config.h"

#include "engine/base/error.h"
#include "engine/base/json_text.h"
#include "engine/model/config/families.h"
#include "engine/model/forward/rope_table.h"
#include "engine/text/utf8.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

namespace refreshlab {

namespace {

/// What files of an architecture have that their keys do not say.
struct Architecture {
    std::string_view name;
    std::string_view family;      ///< ModelConfig::model_type
    bool pairs = false;           ///< rows of q and k stand in pairs that turn together
    bool scales = false;          ///< embedding_scale and its like are granite's multipliers
    bool attention_scale = false; ///< attention.scale is computed
    int64_t still_every = 0;      ///< every n-th layer turns nothing; 0: all turn
    bool windows =
        false; ///< attention.sliding_window holds for all layers; else see full_every, or it is refused
    int64_t full_every = 0;  ///< every n-th layer does not slide, where no pattern is said
    int64_t wide_layers = 0; ///< a model of so many layers divides scores by the root of hidden / heads
    bool caps = false;       ///< the keys of soft caps are computed
};
constexpr std::array<Architecture, 10> architectures = {{
    {.name = "llama", .family = "llama", .pairs = true, .windows = true},
    {.name = "qwen2", .family = "qwen2"},
    {.name = "qwen3", .family = "qwen3"},
    {.name = "granite", .family = "granite", .pairs = true, .scales = true, .attention_scale = true},
    {.name = "smollm3", .family = "smollm3", .pairs = true, .still_every = 4},
    {.name = "olmo2", .family = "olmo2"},
    {.name = "phi3", .family = "phi3", .windows = true},
    {.name = "gemma2", .family = "gemma2", .full_every = 2, .wide_layers = 46, .caps = true},
    {.name = "gemma3", .family = "gemma3_text", .full_every = 6, .wide_layers = 62, .caps = true},
    {.name = "qwen3moe", .family = "qwen3_moe"},
}};
constexpr const char *rope_factors_short = "rope_factors_short.weight",
                     *rope_factors_long = "rope_factors_long.weight";
constexpr double unlimited = std::numeric_limits<double>::infinity();

/// The keys of one architecture: "llama." + name.
class Keys {
public:
    Keys(const GgufFile& file, std::string_view architecture)
        : m_file(file)
        , m_prefix(std::string(architecture) + ".") {}

    [[nodiscard]] std::string of(std::string_view name) const { return m_prefix + std::string(name); }
    [[noreturn]] void fail(std::string_view name, const std::string& problem,
                           const std::string& hint = {}) const {
        m_file.fail_key(of(name), problem, hint);
    }
    [[nodiscard]] std::optional<int64_t> optional_size(std::string_view name, int64_t high) const {
        return m_file.integer(of(name), 1, high);
    }
    [[nodiscard]] int64_t size(std::string_view name, int64_t high) const {
        const auto value = optional_size(name, high);
        if (!value) fail(name, "is missing");
        return *value;
    }
    [[nodiscard]] std::optional<double> number(std::string_view name, double low, double high) const {
        return m_file.number(of(name), low, high);
    }
    [[nodiscard]] const GgufFile& file() const { return m_file; }

private:
    const GgufFile& m_file;
    std::string m_prefix;
};

const Architecture& architecture_of(const GgufFile& file) {
    constexpr const char* key = "general.architecture";
    const auto name = file.text(key);
    if (!name) file.fail_key(key, "is missing");
    const auto* found = std::ranges::find(architectures, *name, &Architecture::name);
    if (found != architectures.end()) return *found;
    std::string known;
    for (const Architecture& architecture : architectures)
        known += (known.empty() ? "" : ", ") + std::string(architecture.name);
    file.fail_key(key, "is " + visible_text(*name, 60) + ", which is not supported",
                  "supported: " + known + "; docs/howto/add-a-family.md says how to add one");
}

/// Keys that change the forward pass and that we do not compute; `neutral` means that nothing is changed.
void refuse_foreign_keys(const Architecture& architecture, const Keys& keys, const ModelConfig& config) {
    const bool scales = architecture.scales, caps = architecture.caps;
    struct Number {
        std::string_view name;
        double neutral = 0;
        bool known = false;
    };
    const Number numbers[] = {
        {"expert_shared_count"},
        {"expert_weights_scale", 1},
        {"expert_group_count", 1},
        {"logit_scale", 1, scales},
        {"residual_scale", 1, scales},
        {"embedding_scale", 1, scales},
        {"attention.max_alibi_bias"},
        {"attention.clamp_kqv"},
        {"attn_logit_softcapping", 0, caps},
        {"final_logit_softcapping", 0, caps},
        {"rope.scaling.attn_factor", 1, config.rope_scaling.kind == RopeScaling::Kind::longrope},
        {"rope.scaling.yarn_attn_factor", 1},
        {"rope.scaling.yarn_log_multiplier"},
        {"attention.temperature_length"},
        {"no_rope_layer_interval"}};
    for (const auto& [name, neutral, known] : numbers) {
        if (known) continue;
        const auto value = keys.number(name, -unlimited, unlimited);
        if (value && *value != neutral && *value != 0)
            keys.fail(
                name,
                fmt::format("is {}, which changes the forward pass in a way that is not supported", *value));
    }
    constexpr std::pair<std::string_view, bool> flags[] = {{"attention.causal", true},
                                                           {"use_parallel_residual", false}};
    for (const auto& [name, neutral] : flags) {
        if (keys.file().flag(keys.of(name)).value_or(neutral) != neutral)
            keys.fail(name, fmt::format("is {}, which is not supported", !neutral));
    }
}

void read_attention_shape(const Architecture& architecture, const Keys& keys, ModelConfig& config) {
    config.num_heads = keys.size("attention.head_count", ModelConfig::max_heads);
    config.num_kv_heads =
        keys.optional_size("attention.head_count_kv", ModelConfig::max_heads).value_or(config.num_heads);
    if (config.num_heads % config.num_kv_heads != 0)
        keys.fail("attention.head_count",
                  fmt::format("({}) must be a multiple of attention.head_count_kv ({})", config.num_heads,
                              config.num_kv_heads));
    if (const auto length = keys.optional_size("attention.key_length", ModelConfig::max_head_dim)) {
        config.head_dim = *length;
    } else {
        if (config.hidden_size % config.num_heads != 0 ||
            config.hidden_size / config.num_heads > ModelConfig::max_head_dim)
            keys.fail("embedding_length",
                      fmt::format("({}) gives no head size with {} heads, and attention.key_length is absent",
                                  config.hidden_size, config.num_heads));
        config.head_dim = config.hidden_size / config.num_heads;
    }
    if (config.head_dim % 2 != 0)
        keys.fail("attention.key_length",
                  fmt::format("({}) must be even: rotary embedding turns pairs", config.head_dim));
    const bool in_part = config.fused_projections; // the family that has heads that turn in part
    for (const char* name : {"attention.value_length", "rope.dimension_count"}) {
        const auto width = keys.optional_size(name, INT64_MAX);
        if (!width || *width == config.head_dim) continue;
        const bool turned = in_part && std::string_view(name) == "rope.dimension_count";
        if (!turned || *width > config.head_dim || *width % 2 != 0)
            keys.fail(name, fmt::format("is {}, and the head size is {}: they must be equal", *width,
                                        config.head_dim));
        config.rotary_dim = *width;
    }
    if (architecture.attention_scale) return;
    // scores are divided by sqrt(head_dim): the key says so where it is there
    const auto scale = keys.number("attention.scale", -unlimited, unlimited);
    const double usual = 1.0 / std::sqrt(static_cast<double>(config.head_dim));
    if (scale && *scale != 0 && std::abs(*scale - usual) > 1e-6 * usual)
        keys.fail("attention.scale", fmt::format("is {}, which is not supported", *scale));
}

/// Whether the factors are those of Llama 3.1's rule with these settings. A converter computes them in fp32.
bool same_factors(const ModelConfig& config, const std::vector<float>& factors) {
    ModelConfig plain = config;
    plain.rope_scaling = {};
    const std::vector<float> bare = rope_frequencies(plain), scaled = rope_frequencies(config);
    for (size_t i = 0; i < factors.size(); ++i) {
        const double factor = static_cast<double>(bare[i]) / static_cast<double>(scaled[i]);
        if (std::abs(factor - static_cast<double>(factors[i])) > 1e-5 * factor) return false;
    }
    return true;
}

/// A list of factors, one for each pair that turns.
std::vector<float> factors_of(const GgufTensor& tensor, const Keys& keys, const ModelConfig& config) {
    const GgufFile& file = keys.file();
    const int64_t pairs = config.rotary() / 2;
    if (tensor.shape != std::vector<int64_t>{pairs} || tensor.type->name != "F32")
        file.fail_tensor(tensor.name, fmt::format("must be {} values of type F32", pairs));
    std::vector<float> factors(static_cast<size_t>(pairs));
    tensor.type->unpack(tensor.bytes.data(), pairs, factors.data());
    for (const float factor : factors) {
        if (!(factor >= 1e-3F && factor <= 1e6F))
            file.fail_tensor(tensor.name, fmt::format("holds the factor {}, outside 0.001 .. 1e6", factor));
    }
    return factors;
}

/// rope_freqs.weight: what every frequency is divided by. The factors of published Llama 3 models are recognised, and then
/// the configuration is the one of their config.json, bit for bit.
void read_rope_factors(const GgufTensor& tensor, const Keys& keys, ModelConfig& config) {
    std::vector<float> factors = factors_of(tensor, keys, config);
    RopeScaling& scaling = config.rope_scaling;
    if (scaling.kind != RopeScaling::Kind::none)
        keys.file().fail_tensor(tensor.name,
                                "stands beside " + keys.of("rope.scaling.type") + ": one of the two can be");
    if (std::all_of(factors.begin(), factors.end(), [](float factor) { return factor == 1.0F; })) return;
    scaling.kind = RopeScaling::Kind::llama3; // low and high factor: 1 and 4, as in every published one
    scaling.factor = static_cast<double>(factors.back());
    const int64_t said =
        keys.optional_size("rope.scaling.original_context_length", ModelConfig::max_context).value_or(0);
    for (const int64_t original : {int64_t{8192}, said}) {
        scaling.original_max_position = original;
        if (original > 0 && scaling.factor > 1.0 && same_factors(config, factors)) return;
    }
    scaling = {};
    scaling.kind = RopeScaling::Kind::factors;
    scaling.factors = std::move(factors);
}

/// As llama.cpp reads it: attention grows by 0.1 ln(factor), and the blend is truncated.
void read_yarn(const Keys& keys, double factor, ModelConfig& config) {
    RopeScaling& scaling = config.rope_scaling;
    scaling.kind = RopeScaling::Kind::yarn;
    if (config.rope_theta <= 1) keys.fail("rope.freq_base", "must be above 1 with rope.scaling.type yarn");
    scaling.factor = factor;
    scaling.original_max_position =
        keys.optional_size("rope.scaling.original_context_length", ModelConfig::max_context)
            .value_or(config.max_position);
    scaling.attention_factor = 1 + 0.1 * std::log(factor);
    scaling.beta_fast = keys.number("rope.scaling.yarn_beta_fast", 1e-6, 1e6).value_or(scaling.beta_fast);
    scaling.beta_slow = keys.number("rope.scaling.yarn_beta_slow", 1e-6, 1e6).value_or(scaling.beta_slow);
    const auto blend = keys.number("rope.scaling.yarn_ext_factor", -unlimited, unlimited);
    if (blend && *blend >= 0 && *blend != 1)
        keys.fail("rope.scaling.yarn_ext_factor", fmt::format("is {}, which is not supported", *blend));
}

/// Two tensors of factors, and how much longer they make keys and queries.
void read_longrope(const GgufTensor& within, const GgufTensor& beyond, const Keys& keys,
                   ModelConfig& config) {
    RopeScaling& scaling = config.rope_scaling;
    if (scaling.kind != RopeScaling::Kind::none)
        keys.file().fail_tensor(within.name,
                                "stands beside " + keys.of("rope.scaling.type") + ": one of the two can be");
    scaling.kind = RopeScaling::Kind::longrope;
    scaling.factors = factors_of(within, keys, config);
    scaling.long_factors = factors_of(beyond, keys, config);
    scaling.original_max_position =
        keys.optional_size("rope.scaling.original_context_length", ModelConfig::max_context)
            .value_or(config.max_position);
    scaling.factor =
        static_cast<double>(config.max_position) / static_cast<double>(scaling.original_max_position);
    scaling.attention_factor = keys.number("rope.scaling.attn_factor", 1e-3, 1e3).value_or(1);
}

void read_rope(const Keys& keys, ModelConfig& config) {
    config.rope_theta = keys.number("rope.freq_base", 1.0, 1e15).value_or(10000.0);
    if (config.local_rope_theta > 0)
        config.local_rope_theta =
            keys.number("rope.freq_base_swa", 1.0, 1e15).value_or(config.local_rope_theta);
    const std::string type_key = keys.of("rope.scaling.type");
    const std::string_view type = keys.file().text(type_key).value_or("none");
    std::optional<double> factor = keys.number("rope.scaling.factor", 0.0, 1e6);
    if (type == "none" || type.empty()) {
        factor = keys.number("rope.scale_linear", 0.0, 1e6); // of old files, which have no type
    } else if (type == "longrope") {
        factor.reset(); // the tensors say it
    } else if (type != "linear" && type != "yarn") {
        keys.file().fail_key(type_key, "is " + visible_text(type, 60) + ", which is not supported",
                             "supported: none, linear, yarn, longrope");
    } else if (!factor) {
        keys.fail("rope.scaling.factor", "is missing");
    }
    if (factor && *factor != 0 && *factor != 1) {
        if (*factor < 1) keys.fail("rope.scaling.factor", fmt::format("must be 1 or more, not {}", *factor));
        if (type == "yarn") {
            read_yarn(keys, *factor, config);
        } else {
            config.rope_scaling.kind = RopeScaling::Kind::linear;
            config.rope_scaling.factor = *factor;
        }
    }
    if (const GgufTensor* factors = keys.file().tensor("rope_freqs.weight"))
        read_rope_factors(*factors, keys, config);
    const GgufTensor *const within = keys.file().tensor(rope_factors_short), *const beyond =
                                                                                 keys.file().tensor(
                                                                                     rope_factors_long);
    if (within != nullptr && beyond != nullptr) {
        read_longrope(*within, *beyond, keys, config);
    } else if (within != nullptr || beyond != nullptr || type == "longrope") {
        keys.file().fail_tensor(within != nullptr ? rope_factors_long : rope_factors_short, "missing");
    }
}

/// One window for all layers, as Mistral has it, or for those of a pattern. Which layers of a Qwen model slide is not in the file.
void read_window(const Architecture& architecture, const Keys& keys, ModelConfig& config) {
    constexpr const char* name = "attention.sliding_window";
    constexpr const char* pattern = "attention.sliding_window_pattern";
    const auto window = keys.file().integer(keys.of(name), 0, UINT32_MAX);
    const bool alternates = architecture.full_every > 0;
    if (alternates && (!window || *window == 0)) keys.fail(name, "is missing");
    // Where windows also choose the RoPE of a layer, one that hides nothing counts.
    if (!window || *window == 0 || (!alternates && *window >= config.max_position)) return;
    if (!alternates && !architecture.windows)
        keys.fail(name, fmt::format("is {}, and the file does not say which layers of a {} model slide",
                                    *window, config.model_type));
    config.layer_windows.assign(static_cast<size_t>(config.num_layers), *window);
    if (!alternates) return;
    const auto every = keys.optional_size(pattern, ModelConfig::max_layers).value_or(architecture.full_every);
    for (int64_t i = every - 1; i < config.num_layers; i += every)
        config.layer_windows[static_cast<size_t>(i)] = 0;
}

/// The numbers of granite, under the names of llama.cpp.
void read_scales(const Keys& keys, ModelConfig& config) {
    const auto number = [&](const char* name) { // 0 and absent: none
        const double value = keys.number(name, 0, 1e6).value_or(0);
        return value > 0 ? value : 1;
    };
    const double scale = keys.number("attention.scale", 0, 1e6).value_or(0);
    const double usual = 1 / std::sqrt(static_cast<double>(config.head_dim));
    set_multipliers(config, {.embedding = number("embedding_scale"),
                             .residual = number("residual_scale"),
                             .attention = scale > 0 ? scale : usual,
                             .logits = number("logit_scale")});
}

/// Of the Gemma families: what the keys do not say is what llama.cpp computes.
void read_gemma(const Architecture& architecture, const Keys& keys, ModelConfig& config) {
    config.embedding_scale = std::sqrt(static_cast<double>(config.hidden_size));
    if (config.num_layers == architecture.wide_layers) {
        const auto width = static_cast<double>(config.hidden_size) / static_cast<double>(config.num_heads);
        config.query_scale = std::sqrt(static_cast<double>(config.head_dim) / width);
    }
    const auto cap = [&](const char* name, double silent) {
        return keys.number(name, 0, 1e6).value_or(silent);
    };
    if (config.attention_cap > 0) config.attention_cap = cap("attn_logit_softcapping", config.attention_cap);
    config.logit_cap = cap("final_logit_softcapping", config.logit_cap);
}

int64_t num_experts(const Keys& keys) {
    return keys.file().integer(keys.of("expert_count"), 0, max_experts).value_or(0);
}

void read_experts(const Keys& keys, ModelConfig& config) {
    Experts& experts = config.experts;
    experts.count = num_experts(keys);
    if (experts.count == 0) return;
    experts.used = keys.size("expert_used_count", experts.count);
    experts.normalised = keys.file().flag(keys.of("expert_weights_norm")).value_or(true);
    experts.width = keys.optional_size("expert_feed_forward_length", ModelConfig::max_width)
                        .value_or(config.intermediate_size);
    const int64_t gating = keys.file().integer(keys.of("expert_gating_func"), 0, 100).value_or(1);
    if (gating > 1)
        keys.fail("expert_gating_func", fmt::format("is {}: only softmax (1) is supported", gating));
}

/// Rows of the embedding: the vocabulary that the weights have.
int64_t vocabulary(const Keys& keys) {
    const GgufFile& file = keys.file();
    constexpr const char* name = "token_embd.weight";
    const GgufTensor* embedding = file.tensor(name);
    if (embedding == nullptr) file.fail_tensor(name, "missing");
    const int64_t rows = embedding->shape.front();
    if (embedding->shape.size() != 2 || rows > ModelConfig::max_vocab)
        file.fail_tensor(name, fmt::format("must be a matrix of at most {} rows", ModelConfig::max_vocab));
    if (const auto said = keys.optional_size("vocab_size", INT64_MAX); said && *said != rows)
        keys.fail("vocab_size", fmt::format("is {}, and {} has {} rows", *said, name, rows));
    return rows;
}

} // namespace

std::vector<int32_t> gguf_end_ids(const GgufFile& file, int64_t vocab_size) {
    std::vector<int32_t> ids;
    const auto add = [&](int64_t id) {
        const auto checked = static_cast<int32_t>(id);
        if (std::find(ids.begin(), ids.end(), checked) == ids.end()) ids.push_back(checked);
    };
    for (const char* key :
         {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"}) {
        if (const auto id = file.integer(key, 0, vocab_size - 1)) add(*id);
    }
    // llama.cpp stops at these as well: many files name one end token of two.
    constexpr std::array<std::string_view, 6> names = {"<|im_end|>", "<|endoftext|>", "<|eot_id|>",
                                                       "<|end|>",    "<end_of_turn>", "</s>"};
    constexpr int64_t control = 3;
    const auto tokens = file.texts("tokenizer.ggml.tokens");
    const auto types = file.integers("tokenizer.ggml.token_type");
    if (!tokens || !types) return ids;
    const size_t count = std::min({tokens->size(), types->size(), static_cast<size_t>(vocab_size)});
    for (size_t i = 0; i < count; ++i) {
        if ((*types)[i] == control && std::find(names.begin(), names.end(), (*tokens)[i]) != names.end())
            add(static_cast<int64_t>(i));
    }
    return ids;
}

ModelConfig gguf_config(const GgufFile& file) {
    const Architecture& architecture = architecture_of(file);
    const Keys keys(file, architecture.name);
    // Files of Mixtral's models name the architecture of Llama's.
    const bool mixtral = architecture.family == "llama" && num_experts(keys) > 0;
    ModelConfig config = config_of_family(mixtral ? "mixtral" : architecture.family);
    config.num_layers = keys.size("block_count", ModelConfig::max_layers);
    config.hidden_size = keys.size("embedding_length", ModelConfig::max_width);
    config.intermediate_size = keys.size("feed_forward_length", ModelConfig::max_width);
    config.max_position = keys.size("context_length", ModelConfig::max_context);
    config.vocab_size = vocabulary(keys);
    read_attention_shape(architecture, keys, config);
    const auto eps = keys.number("attention.layer_norm_rms_epsilon", 1e-30, 1.0);
    if (!eps) keys.fail("attention.layer_norm_rms_epsilon", "is missing");
    config.rms_norm_eps = *eps;
    read_rope(keys, config);
    refuse_foreign_keys(architecture, keys, config);
    read_window(architecture, keys, config);
    if (architecture.scales) read_scales(keys, config);
    if (architecture.caps) read_gemma(architecture, keys, config);
    read_experts(keys, config);
    for (int64_t i = 1; architecture.still_every > 0 && i <= config.num_layers; ++i)
        config.layer_turns.push_back(i % architecture.still_every != 0);
    if (std::ranges::all_of(config.layer_turns, [](bool turns) { return turns; })) config.layer_turns.clear();

    const auto has = [&](const char* tensor) { return file.tensor(tensor) != nullptr; };
    config.tied_head = !has("output.weight");
    config.qkv_bias = config.model_type == "qwen2" || has("blk.0.attn_q.bias");
    config.output_bias = has("blk.0.attn_output.bias");
    config.mlp_bias = has("blk.0.ffn_gate.bias") || has("blk.0.ffn_up.bias") || has("blk.0.ffn_down.bias");

    config.eos_ids = gguf_end_ids(file, config.vocab_size);
    if (const auto bos = file.integer("tokenizer.ggml.bos_token_id", 0, config.vocab_size - 1))
        config.bos_id = static_cast<int32_t>(*bos);
    return config;
}

bool gguf_rows_in_pairs(const GgufFile& file) {
    return architecture_of(file).pairs;
}

std::string gguf_config_json(const ModelConfig& config, const std::string& dtype, const std::string& file) {
    const auto refuse = [&](const char* what) {
        throw Error("writing the config.json of", file, std::string("it cannot say ") + what,
                    "take a checkpoint folder of the model as the teacher");
    };
    nlohmann::json scaling = nullptr;
    if (config.rope_scaling.kind == RopeScaling::Kind::linear) {
        scaling = {{"rope_type", "linear"}, {"factor", config.rope_scaling.factor}};
    } else if (config.rope_scaling.kind == RopeScaling::Kind::yarn) {
        scaling = {{"rope_type", "yarn"},
                   {"factor", config.rope_scaling.factor},
                   {"original_max_position_embeddings", config.rope_scaling.original_max_position},
                   {"beta_fast", config.rope_scaling.beta_fast},
                   {"beta_slow", config.rope_scaling.beta_slow},
                   {"attention_factor", config.rope_scaling.attention_factor}};
    } else if (config.rope_scaling.kind != RopeScaling::Kind::none) {
        refuse("the RoPE factors of this file (rope_freqs.weight)");
    }
    for (const int64_t window : config.layer_windows) {
        if (window > 0 && window < config.max_position) refuse("the sliding window of this file");
    }
    const bool simple =
        config.model_type == "llama" || config.model_type == "qwen2" || config.model_type == "qwen3";
    if (!simple) refuse("what is special in the files of this architecture");
    if (config.model_type == "llama" && config.qkv_bias != config.output_bias)
        refuse("that only some of q, k, v and o have a bias");
    std::string family = config.model_type;
    family[0] = static_cast<char>(family[0] - 'a' + 'A');
    nlohmann::json object = {{"architectures", {family + "ForCausalLM"}},
                             {"model_type", config.model_type},
                             {"vocab_size", config.vocab_size},
                             {"hidden_size", config.hidden_size},
                             {"intermediate_size", config.intermediate_size},
                             {"num_hidden_layers", config.num_layers},
                             {"num_attention_heads", config.num_heads},
                             {"num_key_value_heads", config.num_kv_heads},
                             {"head_dim", config.head_dim},
                             {"hidden_act", "silu"},
                             {"max_position_embeddings", config.max_position},
                             {"rms_norm_eps", config.rms_norm_eps},
                             {"rope_theta", config.rope_theta},
                             {"rope_scaling", scaling},
                             {"tie_word_embeddings", config.tied_head},
                             {"eos_token_id", config.eos_ids},
                             {"torch_dtype", dtype}};
    if (config.bos_id) object["bos_token_id"] = *config.bos_id;
    if (config.model_type == "llama") {
        object["attention_bias"] = config.qkv_bias;
        object["mlp_bias"] = config.mlp_bias;
    } else {
        object["use_sliding_window"] = false;
    }
    return json_text(object, 2) + "\n";
}

} // namespace refreshlab
