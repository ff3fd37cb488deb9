#include "engine/model/model_config.h"

#include "engine/base/check.h"
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
constexpr int64_t default_max_window_layers = 28;

/// What a model may have beside Llama's block, and who computes it (Kernels; the CPU and ATen compute all of it).
struct Difference {
    std::string_view name;
    bool (*has)(const ModelConfig&);
    bool gpu = false, training = false, sinks = true;
};
constexpr std::array<Difference, 12> differences = {{
    {"norms of what attention and MLP add", [](const ModelConfig& c) { return c.branch_norms; }},
    {"no norms of what attention and MLP read", [](const ModelConfig& c) { return !c.pre_norms; }},
    {"q/k norms over the whole width", [](const ModelConfig& c) { return c.qk_norm_whole; }},
    {"norms by 1 + weight", [](const ModelConfig& c) { return c.norm_offset != 0; }},
    {"a scaled embedding", [](const ModelConfig& c) { return c.embedding_scale != 1; }},
    {"scaled queries", [](const ModelConfig& c) { return c.query_scale != 1; }},
    {"soft caps", [](const ModelConfig& c) { return c.attention_cap > 0 || c.logit_cap > 0; }},
    {"another activation than silu",
     [](const ModelConfig& c) { return c.activation != kernels::Activation::silu; }},
    {"heads that turn in part", [](const ModelConfig& c) { return c.rotary() != c.head_dim; }, false, false,
     false},
    {"RoPE of two kinds", [](const ModelConfig& c) { return c.local_rope_theta > 0; }, false, false, false},
    {"RoPE that depends on the context's length",
     [](const ModelConfig& c) { return c.rope_scaling.by_context(); }, true, true, false},
    {"routed experts", [](const ModelConfig& c) { return c.experts.count > 0; }},
}};

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

constexpr double max_theta = 1e15;
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
    fields.fail("model_type", short_dump(json(*model_type)) + " is not supported",
                "supported: " + known_families() + "; docs/howto/add-a-family.md says how to add one");
}

/// The context that a model was trained with before its RoPE was scaled.
int64_t original_context(const Fields& fields, const Fields& rope, int64_t silent) {
    constexpr const char* key = "original_max_position_embeddings";
    return fields.optional_size(key, max_context)
        .value_or(rope.optional_size(key, max_context).value_or(silent));
}

void read_yarn(const Fields& fields, const Fields& rope, ModelConfig& config) {
    RopeScaling& scaling = config.rope_scaling;
    scaling.kind = RopeScaling::Kind::yarn;
    if (config.rope_theta <= 1) rope.fail("rope_type", "is yarn, which needs a rope_theta above 1");
    scaling.original_max_position = original_context(fields, rope, config.max_position);
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

/// What each frequency is divided by, a number for each pair that turns.
std::vector<float> read_factors(const Fields& rope, const char* key, int64_t pairs) {
    const json* listed = rope.find(key);
    if (listed == nullptr) rope.fail(key, "is missing");
    const bool numbers =
        listed->is_array() && std::all_of(listed->begin(), listed->end(), [](const json& factor) {
            return factor.is_number() && factor.get<double>() >= 1e-3 && factor.get<double>() <= 1e6;
        });
    if (!numbers || std::ssize(*listed) != pairs)
        rope.fail(key, fmt::format("must be a list of {} numbers in 0.001 .. 1000000", pairs));
    return listed->get<std::vector<float>>();
}

void read_longrope(const Fields& fields, const Fields& rope, const Family& family, ModelConfig& config) {
    RopeScaling& scaling = config.rope_scaling;
    scaling.kind = RopeScaling::Kind::longrope;
    scaling.factors = read_factors(rope, "short_factor", config.rotary() / 2);
    scaling.long_factors = read_factors(rope, "long_factor", config.rotary() / 2);
    const int64_t silent = family.original_context > 0 ? family.original_context : config.max_position;
    scaling.original_max_position = original_context(fields, rope, silent);
    const auto original = static_cast<double>(scaling.original_max_position);
    scaling.factor = rope.optional_number("factor", 1e-3, 1e6)
                         .value_or(static_cast<double>(config.max_position) / original);
    const double usual =
        scaling.factor > 1 && original > 1 ? std::sqrt(1 + std::log(scaling.factor) / std::log(original)) : 1;
    scaling.attention_factor = rope.optional_number("attention_factor", 1e-3, 1e3).value_or(usual);
}

/// Beyond the context that max_position_embeddings names theta grows with the length, up to `factor` contexts.
void read_dynamic(const Fields& rope, ModelConfig& config) {
    RopeScaling& scaling = config.rope_scaling;
    scaling.kind = RopeScaling::Kind::dynamic;
    scaling.factor = rope.number("factor", 1.0, 1e6);
    scaling.original_max_position = config.max_position;
    const double longest = std::floor(static_cast<double>(config.max_position) * scaling.factor);
    config.max_position = std::min(max_context, static_cast<int64_t>(longest));
}

/// Theta and scaling of one block. \param fields  the file's own
void read_rope_block(const Fields& fields, const Fields& rope, const Family& family, ModelConfig& config) {
    if (const auto theta = rope.optional_number("rope_theta", 1.0, max_theta)) config.rope_theta = *theta;
    const std::string key = rope.find("rope_type") != nullptr ? "rope_type" : "type";
    std::string type = rope.text(key).value_or("default");
    // Files of this family from before its scaling had a name.
    if (family.phi_rope && (type == "su" || type == "yarn")) type = "longrope";
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
        scaling.original_max_position = original_context(fields, rope, config.max_position);
    } else if (type == "yarn") {
        read_yarn(fields, rope, config);
    } else if (type == "longrope") {
        read_longrope(fields, rope, family, config);
    } else if (type == "dynamic") {
        read_dynamic(rope, config);
    } else {
        rope.fail(key, short_dump(json(type)) + " is not supported",
                  "supported: default, linear, llama3, yarn, longrope, dynamic");
    }
}

/// A block for the layers that slide and one for those that do not, of a family whose layers have RoPE of two kinds.
void read_two_ropes(const Fields& fields, const Fields& both, const json& block, const Family& family,
                    ModelConfig& config) {
    for (const auto& [key, value] : block.items()) {
        if (!value.is_object()) continue; // some files have the keys of one block as well, which nobody reads
        const Fields rope(value, fields.file(), "rope_parameters." + key + ".");
        if (key == "full_attention") {
            read_rope_block(fields, rope, family, config);
        } else if (key == "sliding_attention") {
            if (rope.text("rope_type").value_or("default") != "default")
                rope.fail("rope_type", "must be default: only layers that do not slide are scaled");
            config.local_rope_theta =
                rope.optional_number("rope_theta", 1.0, max_theta).value_or(config.local_rope_theta);
        } else {
            both.fail(key, "is no layer type", "full_attention and sliding_attention are");
        }
    }
}

/// Channels that turn: all, or a share of them in a family that has the key.
void read_rotary(const Fields& fields, const Fields& rope, const Family& family, ModelConfig& config) {
    constexpr const char* key = "partial_rotary_factor";
    const auto inside = rope.optional_number(key, 0.0, 1.0);
    const double share = inside.value_or(fields.optional_number(key, 0.0, 1.0).value_or(1.0));
    if (share == 1.0) return;
    const Fields& where = inside ? rope : fields;
    if (!family.phi_rope) where.fail(key, "below 1 is not supported");
    config.rotary_dim = static_cast<int64_t>(static_cast<double>(config.head_dim) * share);
    if (config.rotary_dim < 2 || config.rotary_dim % 2 != 0)
        where.fail(key, fmt::format("gives {} channels of {}, which are no pairs", config.rotary_dim,
                                    config.head_dim));
}

/// The scaling block under its two spellings: `rope_scaling` beside rope_theta, and the newer `rope_parameters` that
/// holds rope_theta as well. Where a file has both, the older one wins, as in transformers.
void read_rope(const Fields& fields, const Family& family, ModelConfig& config) {
    config.rope_theta = fields.optional_number("rope_theta", 1.0, max_theta).value_or(family.rope_theta);
    if (family.local_rope_theta > 0)
        config.local_rope_theta =
            fields.optional_number("rope_local_base_freq", 1.0, max_theta).value_or(family.local_rope_theta);
    const json nothing = json::object();
    const json* block = &nothing;
    std::string name;
    for (const char* key : {"rope_scaling", "rope_parameters"}) {
        const json* found = fields.find(key);
        if (found == nullptr) continue;
        if (!found->is_object()) fields.fail(key, "must be an object, not " + short_dump(*found));
        if (block->empty() && !found->empty()) {
            block = found;
            name = key;
        }
    }
    const Fields rope(*block, fields.file(), name + ".");
    for (const auto& [key, value] : block->items()) {
        if (!value.is_object()) continue;
        if (family.local_rope_theta > 0) return read_two_ropes(fields, rope, *block, family, config);
        rope.fail(key, "is a block of its own: one RoPE per layer type is not supported");
    }
    read_rotary(fields, rope, family, config);
    read_rope_block(fields, rope, family, config);
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
    config.attention_cap = cap("attn_logit_softcapping", family.attention_cap);
    config.logit_cap = cap("final_logit_softcapping", family.logit_cap);
}

void read_experts(const Fields& fields, const Family& family, ModelConfig& config) {
    constexpr int64_t most = 1 << 12;
    Experts& experts = config.experts;
    const bool by_step = family.routed == Family::Routed::by_step;
    const char* const key =
        by_step && fields.find("num_experts") != nullptr ? "num_experts" : "num_local_experts";
    experts.count = fields.optional_size(key, most).value_or(by_step ? 128 : 8);
    experts.used = fields.optional_size("num_experts_per_tok", most).value_or(by_step ? 8 : 2);
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

/// What the family fixes, whatever config.json says.
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

std::string known_families() {
    std::string known;
    for (const Family& family : families)
        known += (known.empty() ? "" : ", ") + std::string(family.model_type);
    return known;
}

ModelConfig config_of_family(std::string_view model_type) {
    const auto* const family = std::ranges::find(families, model_type, &Family::model_type);
    RL_ASSERT(family != families.end());
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

ModelConfig ModelConfig::parse(const json& object, const std::string& file) {
    if (!object.is_object()) throw Error("reading", file, "must hold a JSON object");
    const Fields fields(object, file);
    const Family& family = find_family(fields);
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
        case RopeScaling::Kind::longrope:
            return "longrope";
        case RopeScaling::Kind::dynamic:
            return "dynamic";
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
    // Of longrope it says no more than attention_factor, which files round.
    const bool longrope = a.kind == RopeScaling::Kind::longrope;
    if (a.kind != RopeScaling::Kind::none && !longrope) compare("rope scaling factor", a.factor, b.factor);
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
    if (a.kind == b.kind && (a.factors != b.factors || a.long_factors != b.long_factors) && !difference)
        difference = "rope scaling factors differ";
    if (longrope)
        compare("rope attention_factor", static_cast<float>(a.attention_factor),
                static_cast<float>(b.attention_factor));
    if (a.by_context())
        compare("rope original_max_position", a.original_max_position, b.original_max_position);
    compare("channels that turn", teacher.rotary(), student.rotary());
    compare("rope_theta of layers that slide", teacher.local_rope_theta, student.local_rope_theta);
    const auto yes_no = [](bool value) { return std::string_view(value ? "yes" : "no"); };
    const auto norm_name = [](const ModelConfig& c) -> std::string_view {
        return !c.qk_norm ? "no" : c.qk_norm_whole ? "of all heads" : "yes";
    };
    compare("q/k norm", norm_name(teacher), norm_name(student));
    compare("soft cap of scores", teacher.attention_cap, student.attention_cap);
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
