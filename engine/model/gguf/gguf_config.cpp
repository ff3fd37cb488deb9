#include "engine/model/gguf/gguf_config.h"

#include "engine/base/error.h"
#include "engine/base/json_text.h"
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

constexpr std::array<std::string_view, 3> architectures = {"llama", "qwen2", "qwen3"};
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

std::string_view architecture_of(const GgufFile& file) {
    constexpr const char* key = "general.architecture";
    const auto name = file.text(key);
    if (!name) file.fail_key(key, "is missing");
    const auto* found = std::find(architectures.begin(), architectures.end(), *name);
    if (found == architectures.end())
        file.fail_key(key, "is " + visible_text(*name, 60) + ", which is not supported",
                      "supported: llama, qwen2, qwen3");
    return *found;
}

/// Keys that change the forward pass and that we do not compute; `neutral` means that nothing is changed.
void refuse_foreign_keys(const Keys& keys) {
    constexpr std::pair<std::string_view, double> numbers[] = {{"expert_count", 0},
                                                               {"expert_used_count", 0},
                                                               {"logit_scale", 1},
                                                               {"residual_scale", 1},
                                                               {"embedding_scale", 1},
                                                               {"attention.max_alibi_bias", 0},
                                                               {"attention.clamp_kqv", 0},
                                                               {"attn_logit_softcapping", 0},
                                                               {"final_logit_softcapping", 0},
                                                               {"rope.scaling.attn_factor", 1},
                                                               {"rope.scaling.yarn_attn_factor", 1},
                                                               {"rope.scaling.yarn_log_multiplier", 0},
                                                               {"attention.temperature_length", 0},
                                                               {"no_rope_layer_interval", 0}};
    for (const auto& [name, neutral] : numbers) {
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

void read_attention_shape(const Keys& keys, ModelConfig& config) {
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
    for (const char* name : {"attention.value_length", "rope.dimension_count"}) {
        const auto width = keys.optional_size(name, INT64_MAX);
        if (width && *width != config.head_dim)
            keys.fail(name, fmt::format("is {}, and the head size is {}: they must be equal", *width,
                                        config.head_dim));
    }
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

/// rope_freqs.weight: what every frequency is divided by. The factors of published Llama 3 models are recognised, and then
/// the configuration is the one of their config.json, bit for bit.
void read_rope_factors(const GgufTensor& tensor, const Keys& keys, ModelConfig& config) {
    const GgufFile& file = keys.file();
    const int64_t pairs = config.head_dim / 2;
    if (tensor.shape != std::vector<int64_t>{pairs} || tensor.type->name != "F32")
        file.fail_tensor(tensor.name, fmt::format("must be {} values of type F32", pairs));
    std::vector<float> factors(static_cast<size_t>(pairs));
    tensor.type->unpack(tensor.bytes.data(), pairs, factors.data());
    for (const float factor : factors) {
        if (!(factor >= 1e-3F && factor <= 1e6F))
            file.fail_tensor(tensor.name, fmt::format("holds the factor {}, outside 0.001 .. 1e6", factor));
    }
    RopeScaling& scaling = config.rope_scaling;
    if (scaling.kind != RopeScaling::Kind::none)
        file.fail_tensor(tensor.name,
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

void read_rope(const Keys& keys, ModelConfig& config) {
    config.rope_theta = keys.number("rope.freq_base", 1.0, 1e15).value_or(10000.0);
    const std::string type_key = keys.of("rope.scaling.type");
    const std::string_view type = keys.file().text(type_key).value_or("none");
    std::optional<double> factor = keys.number("rope.scaling.factor", 0.0, 1e6);
    if (type == "none" || type.empty()) {
        factor = keys.number("rope.scale_linear", 0.0, 1e6); // of old files, which have no type
    } else if (type != "linear" && type != "yarn") {
        keys.file().fail_key(type_key, "is " + visible_text(type, 60) + ", which is not supported",
                             "supported: none, linear, yarn");
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
}

/// One window for all layers, as Mistral has it. Which layers of a Qwen model slide is not in the file.
void read_window(const Keys& keys, ModelConfig& config) {
    constexpr const char* name = "attention.sliding_window";
    const auto window = keys.file().integer(keys.of(name), 0, UINT32_MAX);
    if (!window || *window == 0 || *window >= config.max_position) return;
    if (config.model_type != "llama")
        keys.fail(name, fmt::format("is {}, and the file does not say which layers of a {} model slide",
                                    *window, config.model_type));
    config.layer_windows.assign(static_cast<size_t>(config.num_layers), *window);
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
    const std::string_view architecture = architecture_of(file);
    const Keys keys(file, architecture);
    ModelConfig config;
    config.model_type = architecture;
    config.num_layers = keys.size("block_count", ModelConfig::max_layers);
    config.hidden_size = keys.size("embedding_length", ModelConfig::max_width);
    config.intermediate_size = keys.size("feed_forward_length", ModelConfig::max_width);
    config.max_position = keys.size("context_length", ModelConfig::max_context);
    config.vocab_size = vocabulary(keys);
    read_attention_shape(keys, config);
    refuse_foreign_keys(keys);
    const auto eps = keys.number("attention.layer_norm_rms_epsilon", 1e-30, 1.0);
    if (!eps) keys.fail("attention.layer_norm_rms_epsilon", "is missing");
    config.rms_norm_eps = *eps;
    read_rope(keys, config);
    read_window(keys, config);

    const auto has = [&](const char* tensor) { return file.tensor(tensor) != nullptr; };
    config.tied_head = !has("output.weight");
    config.qkv_bias = config.model_type == "qwen2" || has("blk.0.attn_q.bias");
    config.output_bias = has("blk.0.attn_output.bias");
    config.mlp_bias = has("blk.0.ffn_gate.bias") || has("blk.0.ffn_up.bias") || has("blk.0.ffn_down.bias");
    config.qk_norm = config.model_type == "qwen3";

    config.eos_ids = gguf_end_ids(file, config.vocab_size);
    if (const auto bos = file.integer("tokenizer.ggml.bos_token_id", 0, config.vocab_size - 1))
        config.bos_id = static_cast<int32_t>(*bos);
    return config;
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
