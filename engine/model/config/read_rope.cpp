#include "engine/model/config/read_rope.h"

#include <algorithm>
#include <cmath>
#include <string_view>

namespace refreshlab {

namespace {

using nlohmann::json;

constexpr double max_theta = 1e15;
constexpr int64_t max_context = ModelConfig::max_context;

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

} // namespace

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

} // namespace refreshlab
