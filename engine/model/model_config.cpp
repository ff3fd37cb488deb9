#include "engine/model/model_config.h"

#include "engine/base/error.h"
#include "engine/base/json_file.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

namespace refreshlab {

namespace {

using nlohmann::json;

/// What one family of checkpoints has that others have not, and what its reference configuration (`transformers` 5)
/// assumes where config.json is silent. The forward pass reads the fields of ModelConfig only, so a new family of the same
/// block is one more row here (and new ModelConfig fields where its block differs).
struct Family {
    enum class AttentionBias { none, qkv, by_key }; ///< by_key: attention_bias decides for q, k, v and o
    enum class Window { none, all_layers, upper_layers };

    std::string_view model_type;
    std::optional<int64_t>
        kv_heads; ///< where num_key_value_heads is absent (null: as many as heads); none: heads
    std::optional<int64_t> head_dim; ///< where head_dim is absent; none: hidden / heads
    AttentionBias attention_bias = AttentionBias::none;
    bool mlp_bias_key = false; ///< the key mlp_bias decides; otherwise there is none
    bool qk_norm = false;
    Window window = Window::none;
    bool multipliers = false; ///< embedding_multiplier and its like are computed; elsewhere they are refused
    bool no_rope_layers =
        false; ///< some layers turn nothing: no_rope_layers, or every no_rope_layer_interval-th
    double rope_theta = 10000.0; ///< where it is absent
    bool tied_head = false;      ///< where tie_word_embeddings is absent
};

constexpr std::array<Family, 6> families = {{
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
     .qk_norm = true,
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
}};
constexpr double default_rms_norm_eps = 1e-6;
constexpr int64_t default_sliding_window = 4096; // mistral and qwen
constexpr int64_t default_max_window_layers = 28;

/// Keys of related architectures that change the forward pass and that we do not compute. null, false, 0, an empty list
/// and `neutral` mean that nothing is changed.
struct ForeignSetting {
    const char* key;
    double neutral = 0.0;
    bool multiplier = false; ///< of a family that has Family::multipliers
};
constexpr std::array<ForeignSetting, 20> foreign_settings = {{
    {"num_experts", 1.0},
    {"num_local_experts", 1.0},
    {"n_routed_experts", 1.0},
    {"attn_logit_softcapping"},
    {"final_logit_softcapping"},
    {"query_pre_attn_scalar"},
    {"attention_multiplier", 0, true},
    {"embedding_multiplier", 1.0, true},
    {"residual_multiplier", 1.0, true},
    {"logits_scaling", 1.0, true},
    {"logit_scale", 1.0},
    {"clip_qkv"},
    {"no_rope_layers"},
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

std::string short_dump(const json& value) {
    std::string text = value.dump(-1, ' ', true, json::error_handler_t::replace);
    constexpr size_t longest = 60;
    if (text.size() > longest) {
        text.resize(longest - 3);
        text += "...";
    }
    return text;
}

/// One JSON object of a file, with the messages that name both. Absent and null mean the same.
class Fields {
public:
    Fields(const json& object, std::string file, std::string prefix = {})
        : m_object(object)
        , m_file(std::move(file))
        , m_prefix(std::move(prefix)) {}

    [[noreturn]] void fail(const std::string& key, const std::string& problem,
                           const std::string& hint = {}) const {
        throw Error("reading", m_file, m_prefix + key + " " + problem, hint);
    }

    [[nodiscard]] const json* find(const std::string& key) const {
        const auto it = m_object.find(key);
        return it == m_object.end() || it->is_null() ? nullptr : &*it;
    }

    [[nodiscard]] int64_t integer(const std::string& key, const json& value, int64_t low,
                                  int64_t high) const {
        if (!value.is_number_integer()) fail(key, "must be an integer, not " + short_dump(value));
        // Values beyond int64 are stored unsigned; they are above every limit.
        const bool huge = value.is_number_unsigned() && value.get<uint64_t>() > static_cast<uint64_t>(high);
        if (huge || value.get<int64_t>() < low || value.get<int64_t>() > high) {
            fail(key, fmt::format("must be in {} .. {}, not {}", low, high, short_dump(value)));
        }
        return value.get<int64_t>();
    }

    [[nodiscard]] int64_t size(const std::string& key, int64_t high) const {
        const json* value = find(key);
        if (value == nullptr) fail(key, "is missing", "is this the config.json of a language model?");
        return integer(key, *value, 1, high);
    }

    [[nodiscard]] std::optional<int64_t> optional_size(const std::string& key, int64_t high) const {
        const json* value = find(key);
        if (value == nullptr) return std::nullopt;
        return integer(key, *value, 1, high);
    }

    [[nodiscard]] std::optional<double> optional_number(const std::string& key, double low,
                                                        double high) const {
        const json* value = find(key);
        if (value == nullptr) return std::nullopt;
        if (!value->is_number()) fail(key, "must be a number, not " + short_dump(*value));
        const double number = value->get<double>();
        if (!(number >= low && number <= high)) {
            fail(key, fmt::format("must be in {} .. {}, not {}", low, high, short_dump(*value)));
        }
        return number;
    }

    [[nodiscard]] double number(const std::string& key, double low, double high) const {
        const auto value = optional_number(key, low, high);
        if (!value) fail(key, "is missing");
        return *value;
    }

    [[nodiscard]] bool flag(const std::string& key, bool fallback) const {
        const json* value = find(key);
        if (value == nullptr) return fallback;
        if (!value->is_boolean()) fail(key, "must be true or false, not " + short_dump(*value));
        return value->get<bool>();
    }

    [[nodiscard]] std::optional<std::string> text(const std::string& key) const {
        const json* value = find(key);
        if (value == nullptr) return std::nullopt;
        if (!value->is_string()) fail(key, "must be a string, not " + short_dump(*value));
        return value->get<std::string>();
    }

    /// One id or a list of ids.
    [[nodiscard]] std::vector<int32_t> ids(const std::string& key, int64_t vocab_size) const {
        const json* value = find(key);
        if (value == nullptr) return {};
        std::vector<int32_t> result;
        const auto add = [&](const json& id) {
            const auto checked = static_cast<int32_t>(integer(key, id, 0, vocab_size - 1));
            if (std::find(result.begin(), result.end(), checked) == result.end()) result.push_back(checked);
        };
        if (value->is_array()) {
            std::for_each(value->begin(), value->end(), add);
        } else {
            add(*value);
        }
        return result;
    }

    /// True where the key is there, be it null.
    [[nodiscard]] bool has(const std::string& key) const { return m_object.contains(key); }
    [[nodiscard]] const std::string& file() const { return m_file; }

private:
    const json& m_object;
    std::string m_file, m_prefix;
};

const Family& find_family(const Fields& fields) {
    const auto model_type = fields.text("model_type");
    if (!model_type) fields.fail("model_type", "is missing", "is this the config.json of a language model?");
    for (const Family& family : families) {
        if (family.model_type == *model_type) return family;
    }
    std::string known;
    for (const Family& family : families)
        known += (known.empty() ? "" : ", ") + std::string(family.model_type);
    fields.fail("model_type", short_dump(json(*model_type)) + " is not supported",
                "supported: " + known + "; docs/howto/add-a-family.md says how to add one");
}

/// The context that a model was trained with before its RoPE was scaled.
int64_t original_context(const Fields& fields, const Fields& rope, const ModelConfig& config) {
    return fields.optional_size("original_max_position_embeddings", max_context)
        .value_or(rope.optional_size("original_max_position_embeddings", max_context)
                      .value_or(config.max_position));
}

void read_yarn(const Fields& fields, const Fields& rope, ModelConfig& config) {
    RopeScaling& scaling = config.rope_scaling;
    scaling.kind = RopeScaling::Kind::yarn;
    if (config.rope_theta <= 1) rope.fail("rope_type", "is yarn, which needs a rope_theta above 1");
    scaling.original_max_position = original_context(fields, rope, config);
    scaling.factor = rope.optional_number("factor", 1.0, 1e6)
                         .value_or(static_cast<double>(config.max_position) /
                                   static_cast<double>(scaling.original_max_position));
    const auto turns = [&](const char* key, double usual) { // 0 counts as absent, as in transformers
        const double value = rope.optional_number(key, 0, 1e6).value_or(0);
        return value > 0 ? value : usual;
    };
    scaling.beta_fast = turns("beta_fast", 32);
    scaling.beta_slow = turns("beta_slow", 1);
    if (scaling.beta_fast < scaling.beta_slow) rope.fail("beta_fast", "must not be below beta_slow");
    if (rope.find("truncate") != nullptr) scaling.truncate = rope.flag("truncate", true);
    const auto grown = [&](double scale) { return 1 + 0.1 * scale * std::log(scaling.factor); };
    const double mscale = rope.optional_number("mscale", 0, 1e3).value_or(0),
                 mscale_all_dim = rope.optional_number("mscale_all_dim", 0, 1e3).value_or(0);
    const double usual = mscale > 0 && mscale_all_dim > 0 ? grown(mscale) / grown(mscale_all_dim) : grown(1);
    scaling.attention_factor = rope.optional_number("attention_factor", 1e-3, 1e3).value_or(usual);
}

/// The scaling block under its two spellings: `rope_scaling` beside rope_theta, and the newer `rope_parameters` that
/// holds rope_theta as well. Where a file has both, the older one wins, as in transformers.
void read_rope(const Fields& fields, const Family& family, ModelConfig& config) {
    constexpr double max_theta = 1e15;
    config.rope_theta = fields.optional_number("rope_theta", 1.0, max_theta).value_or(family.rope_theta);
    const json* block = nullptr;
    std::string name;
    for (const char* key : {"rope_scaling", "rope_parameters"}) {
        const json* found = fields.find(key);
        if (found == nullptr) continue;
        if (!found->is_object()) fields.fail(key, "must be an object, not " + short_dump(*found));
        if (block == nullptr && !found->empty()) {
            block = found;
            name = key;
        }
    }
    const auto refuse_partial = [](const Fields& where) {
        const auto part = where.optional_number("partial_rotary_factor", 0.0, 1.0);
        if (part && *part < 1.0) where.fail("partial_rotary_factor", "below 1 is not supported");
    };
    refuse_partial(fields);
    if (block == nullptr) return;

    const Fields rope(*block, fields.file(), name + ".");
    for (const auto& [key, value] : block->items()) {
        if (value.is_object())
            rope.fail(key, "is a block of its own: one RoPE per layer type is not supported");
    }
    refuse_partial(rope);
    if (const auto theta = rope.optional_number("rope_theta", 1.0, max_theta)) config.rope_theta = *theta;
    const std::string key = rope.find("rope_type") != nullptr ? "rope_type" : "type";
    const std::string type = rope.text(key).value_or("default");
    RopeScaling& scaling = config.rope_scaling;
    if (type == "default") return;
    if (type == "linear") {
        scaling.kind = RopeScaling::Kind::linear;
        scaling.factor = rope.number("factor", 1.0, 1e6);
    } else if (type == "llama3") {
        scaling.kind = RopeScaling::Kind::llama3;
        scaling.factor = rope.number("factor", 1.0, 1e6);
        scaling.low_freq_factor = rope.number("low_freq_factor", 1e-6, 1e6);
        scaling.high_freq_factor = rope.number("high_freq_factor", 1e-6, 1e6);
        if (scaling.high_freq_factor <= scaling.low_freq_factor) {
            rope.fail("high_freq_factor", "must be above low_freq_factor");
        }
        scaling.original_max_position = original_context(fields, rope, config);
    } else if (type == "yarn") {
        read_yarn(fields, rope, config);
    } else {
        rope.fail(key, short_dump(json(type)) + " is not supported",
                  "supported: default, linear, llama3, yarn");
    }
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
/// unless use_sliding_window, and then slides the layers from max_window_layers on, or those that layer_types names.
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
    const bool on =
        family.window == Family::Window::all_layers ||
        (family.window == Family::Window::upper_layers && fields.flag("use_sliding_window", false));
    if (on) {
        const int64_t silent = fields.has("sliding_window") ? 0 : default_sliding_window; // null: none
        window = fields.optional_size("sliding_window", max_context).value_or(silent);
    }
    std::vector<int64_t> windows(static_cast<size_t>(config.num_layers), 0);
    if (window > 0) {
        for (int64_t i = first_sliding; i < config.num_layers; ++i)
            windows[static_cast<size_t>(i)] = window;
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
            if (!slides && family.window == Family::Window::all_layers && window > 0) {
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
    Multipliers& m = config.multipliers;
    m.embedding = number("embedding_multiplier");
    m.branch = number("residual_multiplier") / m.embedding;
    m.query = number("attention_multiplier") * std::sqrt(static_cast<double>(config.head_dim));
    m.logits = 1 / number("logits_scaling");
    config.rms_norm_eps /= m.embedding * m.embedding;
}

void refuse_foreign_settings(const Fields& fields, const Family& family) {
    for (const ForeignSetting& setting : foreign_settings) {
        if (setting.multiplier && family.multipliers) continue;
        if (family.no_rope_layers && std::string_view(setting.key) == "no_rope_layers") continue;
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

} // namespace

ModelConfig ModelConfig::parse(const json& object, const std::string& file) {
    if (!object.is_object()) throw Error("reading", file, "must hold a JSON object");
    const Fields fields(object, file);
    const Family& family = find_family(fields);
    if (fields.find("quantization_config") != nullptr) {
        fields.fail("quantization_config", "is set: quantised checkpoints are not supported",
                    "take the f32, bf16 or f16 checkpoint of the model");
    }

    ModelConfig config;
    config.model_type = family.model_type;
    config.vocab_size = fields.size("vocab_size", max_vocab);
    config.hidden_size = fields.size("hidden_size", max_width);
    config.intermediate_size = fields.size("intermediate_size", max_width);
    config.num_layers = fields.size("num_hidden_layers", max_layers);
    config.max_position = fields.size("max_position_embeddings", max_context);
    read_attention_shape(fields, family, config);
    read_windows(fields, family, config);
    refuse_foreign_settings(fields, family);
    const std::string activation = fields.text("hidden_act").value_or("silu");
    if (activation != "silu" && activation != "swish") {
        fields.fail("hidden_act", short_dump(json(activation)) + " is not supported", "supported: silu");
    }
    config.rms_norm_eps = fields.optional_number("rms_norm_eps", 1e-30, 1.0).value_or(default_rms_norm_eps);
    if (family.multipliers) read_multipliers(fields, config);
    read_rope(fields, family, config);
    if (family.no_rope_layers) read_turns(fields, config);
    config.tied_head = fields.flag("tie_word_embeddings", family.tied_head);
    const bool by_key = family.attention_bias == Family::AttentionBias::by_key;
    config.output_bias = by_key && fields.flag("attention_bias", false);
    config.qkv_bias = config.output_bias || family.attention_bias == Family::AttentionBias::qkv;
    config.mlp_bias = family.mlp_bias_key && fields.flag("mlp_bias", false);
    config.qk_norm = family.qk_norm;

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
    int64_t layer =
        hidden_size * (2 * q_width + 2 * kv_width) + 3 * hidden_size * intermediate_size + 2 * hidden_size;
    if (qkv_bias) layer += q_width + 2 * kv_width;
    if (output_bias) layer += hidden_size;
    if (qk_norm) layer += 2 * head_dim;
    if (mlp_bias) layer += 2 * intermediate_size + hidden_size;
    return num_layers * layer + (tied_head ? 1 : 2) * vocab_size * hidden_size + hidden_size;
}

int64_t ModelConfig::window(int64_t layer) const {
    return layer_windows.empty() ? 0 : layer_windows.at(static_cast<size_t>(layer));
}

std::optional<std::string> geometry_difference(const ModelConfig& teacher, const ModelConfig& student) {
    std::optional<std::string> difference;
    const auto compare = [&](const char* field, auto a, auto b) {
        if (!difference && a != b) difference = fmt::format("{}: teacher {}, student {}", field, a, b);
    };
    const auto kind_name = [](RopeScaling::Kind kind) -> std::string_view {
        switch (kind) {
        case RopeScaling::Kind::none:
            return "none";
        case RopeScaling::Kind::linear:
            return "linear";
        case RopeScaling::Kind::llama3:
            return "llama3";
        case RopeScaling::Kind::yarn:
            return "yarn";
        case RopeScaling::Kind::factors:
            return "factors";
        }
        return "none";
    };
    compare("num_layers", teacher.num_layers, student.num_layers);
    compare("num_kv_heads", teacher.num_kv_heads, student.num_kv_heads);
    compare("head_dim", teacher.head_dim, student.head_dim);
    compare("rope_theta", teacher.rope_theta, student.rope_theta);
    const RopeScaling& a = teacher.rope_scaling;
    const RopeScaling& b = student.rope_scaling;
    compare("rope scaling", kind_name(a.kind), kind_name(b.kind));
    if (a.kind != RopeScaling::Kind::none) compare("rope scaling factor", a.factor, b.factor);
    if (a.kind == RopeScaling::Kind::llama3) {
        compare("rope low_freq_factor", a.low_freq_factor, b.low_freq_factor);
        compare("rope high_freq_factor", a.high_freq_factor, b.high_freq_factor);
        compare("rope original_max_position", a.original_max_position, b.original_max_position);
    }
    if (a.kind == RopeScaling::Kind::yarn) {
        compare("rope beta_fast", a.beta_fast, b.beta_fast);
        compare("rope beta_slow", a.beta_slow, b.beta_slow);
        compare("rope truncate", a.truncate, b.truncate);
        compare("rope attention_factor", a.attention_factor, b.attention_factor);
        compare("rope original_max_position", a.original_max_position, b.original_max_position);
    }
    if (a.kind == RopeScaling::Kind::factors && b.kind == a.kind && a.factors != b.factors && !difference)
        difference = "rope scaling factors differ";
    const auto yes_no = [](bool value) { return std::string_view(value ? "yes" : "no"); };
    compare("q/k norm", yes_no(teacher.qk_norm), yes_no(student.qk_norm));
    compare("max_position", teacher.max_position, student.max_position);
    for (int64_t i = 0; !difference && i < teacher.num_layers; ++i)
        if (teacher.turns(i) != student.turns(i))
            difference = fmt::format("RoPE of layer {}: teacher {}, student {}", i, yes_no(teacher.turns(i)),
                                     yes_no(student.turns(i)));
    for (int64_t i = 0; !difference && i < teacher.num_layers; ++i) {
        const auto effective = [i](const ModelConfig& config) {
            const int64_t window = config.window(i);
            return window >= config.max_position ? 0 : window;
        };
        const auto text = [](int64_t window) {
            return window == 0 ? std::string("none") : std::to_string(window);
        };
        compare(fmt::format("sliding window of layer {}", i).c_str(), text(effective(teacher)),
                text(effective(student)));
    }
    return difference;
}

} // namespace refreshlab
