#include "engine/model/model_config.h"

#include <fmt/format.h>

#include <string_view>

namespace refreshlab {

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
    const auto rope_name = [](Rope rope) {
        return std::string_view(rope == Rope::still ? "no" : rope == Rope::global ? "yes" : "local");
    };
    const auto norm_name = [](const ModelConfig& c) -> std::string_view {
        return !c.qk_norm ? "no" : c.qk_norm_whole ? "of all heads" : "yes";
    };
    compare("q/k norm", norm_name(teacher), norm_name(student));
    compare("soft cap of scores", teacher.attention_cap, student.attention_cap);
    compare("max_position", teacher.max_position, student.max_position);
    for (int64_t i = 0; !difference && i < teacher.num_layers; ++i)
        if (teacher.rope(i) != student.rope(i))
            difference = fmt::format("RoPE of layer {}: teacher {}, student {}", i,
                                     rope_name(teacher.rope(i)), rope_name(student.rope(i)));
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
