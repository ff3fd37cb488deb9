#include "engine/session/pair/pair_check.h"

#include "engine/base/model_path.h"
#include "engine/model/derive/derive_student.h"
#include "engine/model/model_source.h"
#include "engine/text/tokenizer/tokenizer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <vector>

namespace refreshlab {

namespace {

std::string rope_text(const ModelConfig& c) {
    std::string text = fmt::format("theta {}", c.rope_theta);
    switch (c.rope_scaling.kind) {
    case RopeScaling::Kind::none:
        break;
    case RopeScaling::Kind::linear:
        text += fmt::format(", linear x{}", c.rope_scaling.factor);
        break;
    case RopeScaling::Kind::llama3:
        text +=
            fmt::format(", llama3 x{} ({}, {}, {})", c.rope_scaling.factor, c.rope_scaling.low_freq_factor,
                        c.rope_scaling.high_freq_factor, c.rope_scaling.original_max_position);
        break;
    case RopeScaling::Kind::yarn:
        text += fmt::format(", yarn x{} ({}, {} to {}, attention x{:.4g})", c.rope_scaling.factor,
                            c.rope_scaling.original_max_position, c.rope_scaling.beta_slow,
                            c.rope_scaling.beta_fast, c.rope_scaling.attention_factor);
        break;
    case RopeScaling::Kind::factors:
        text += fmt::format(", factors {:g} to {:g}", c.rope_scaling.factors.front(),
                            c.rope_scaling.factors.back());
        break;
    case RopeScaling::Kind::longrope:
        text += fmt::format(", longrope beyond {} (attention x{:.4g})", c.rope_scaling.original_max_position,
                            c.rope_scaling.attention_factor);
        break;
    case RopeScaling::Kind::dynamic:
        text += fmt::format(", dynamic x{} beyond {}", c.rope_scaling.factor,
                            c.rope_scaling.original_max_position);
        break;
    }
    if (c.rotary() != c.head_dim) text += fmt::format(", {} of {} channels", c.rotary(), c.head_dim);
    if (c.local_rope_theta > 0) text += fmt::format(", {} where a window slides", c.local_rope_theta);
    if (const auto still = std::ranges::count(c.layer_turns, false); still > 0)
        text += fmt::format(", not in {} of {} layers", still, c.num_layers);
    return text;
}

/// Sliding windows that the context reaches, with the layers that have them: "24", "24 in layers 0-1, 3", "none".
std::string window_text(const ModelConfig& c) {
    std::map<int64_t, std::vector<int64_t>> layers; // by window; 0: none
    for (int64_t i = 0; i < c.num_layers; ++i)
        layers[c.window(i) >= c.max_position ? 0 : c.window(i)].push_back(i);
    if (layers.size() == 1 || layers.empty())
        return layers.empty() || layers.begin()->first == 0 ? "none" : std::to_string(layers.begin()->first);
    std::vector<std::string> parts;
    for (const auto& [window, of] : layers) {
        if (window == 0) continue;
        std::string list;
        for (size_t i = 0; i < of.size();) {
            size_t last = i;
            while (last + 1 < of.size() && of[last + 1] == of[last] + 1)
                ++last;
            list += fmt::format("{}{}", list.empty() ? "" : ", ", of[i]);
            if (last > i) list += fmt::format("-{}", of[last]);
            i = last + 1;
        }
        parts.push_back(fmt::format("{} in layers {}", window, list));
    }
    return fmt::format("{}", fmt::join(parts, "; "));
}

/// Equal bytes need no parsing: a published tokenizer takes seconds to read.
std::shared_ptr<const Tokenizer> other_tokenizer(const ModelSource& teacher, const ModelSource& student,
                                                 const std::shared_ptr<const Tokenizer>& students) {
    if (same_model(teacher.path(), student.path()) ||
        teacher.tokenizer_digest() == student.tokenizer_digest())
        return students;
    return teacher.tokenizer();
}

} // namespace

PairCheck check_pair(const std::string& teacher, const std::string& student) {
    const auto of_teacher = ModelSource::open(teacher);
    if (is_derivation(student)) return check_pair(*of_teacher, derivation_of(student));
    return check_pair(*of_teacher, *ModelSource::open(student));
}

PairCheck check_pair(const ModelSource& teacher, const DeriveSpec& student) {
    const ModelConfig config =
        derived_config(teacher.config(), student); // refused before anything else is read
    PairCheck check = check_pair(teacher, teacher);
    check.student = config;
    for (PairFact& fact : check.facts) {
        if (fact.name == "MLP width") fact.student = std::to_string(config.intermediate_size);
    }
    check.facts.push_back({"derived", "-", describe(student), PairFact::Verdict::free});
    return check;
}

PairCheck check_pair(const ModelSource& teacher, const ModelSource& student) {
    PairCheck check;
    check.tokenizer = student.tokenizer();
    check.teacher = teacher.config();
    check.student = student.config();
    const auto teachers = other_tokenizer(teacher, student, check.tokenizer);
    const ModelConfig &t = check.teacher, &s = check.student;
    check.same_tokenizer =
        teachers->fingerprint() == check.tokenizer->fingerprint() &&
        (t.vocab_size == s.vocab_size || check.tokenizer->vocab_size() <= check.vocab_size());
    check.geometry_difference = geometry_difference(t, s);

    const auto must_agree = [&](const char* name, const std::string& a, const std::string& b) {
        check.facts.push_back({name, a, b, a == b ? PairFact::Verdict::equal : PairFact::Verdict::differs});
    };
    const auto may_differ = [&](const char* name, int64_t a, int64_t b) {
        check.facts.push_back({name, std::to_string(a), std::to_string(b), PairFact::Verdict::free});
    };
    const auto number = [&](const char* name, int64_t a, int64_t b) {
        must_agree(name, std::to_string(a), std::to_string(b));
    };
    must_agree("tokenizer", teachers->fingerprint().substr(0, 12),
               check.tokenizer->fingerprint().substr(0, 12));
    // Padded differently is no difference: the rows of the padding are left out.
    check.facts.push_back({"vocabulary", std::to_string(t.vocab_size), std::to_string(s.vocab_size),
                           t.vocab_size == s.vocab_size ? PairFact::Verdict::equal
                           : check.same_tokenizer       ? PairFact::Verdict::free
                                                        : PairFact::Verdict::differs});
    number("layers", t.num_layers, s.num_layers);
    number("KV heads", t.num_kv_heads, s.num_kv_heads);
    number("head size", t.head_dim, s.head_dim);
    must_agree("RoPE", rope_text(t), rope_text(s));
    number("context", t.max_position, s.max_position);
    // What only some families have is listed where one of the two has it.
    if (const std::string a = window_text(t), b = window_text(s); a != "none" || b != "none")
        must_agree("sliding window", a, b);
    const auto norm = [](const ModelConfig& c) {
        return !c.qk_norm ? "no" : c.qk_norm_whole ? "of all heads" : "yes";
    };
    if (t.qk_norm || s.qk_norm) must_agree("q/k norm", norm(t), norm(s));
    if (t.attention_cap > 0 || s.attention_cap > 0)
        must_agree("soft cap of scores", fmt::format("{}", t.attention_cap),
                   fmt::format("{}", s.attention_cap));
    check.facts.push_back({"family", t.model_type, s.model_type, PairFact::Verdict::free});
    may_differ("query heads", t.num_heads, s.num_heads);
    may_differ("hidden width", t.hidden_size, s.hidden_size);
    may_differ("MLP width", t.intermediate_size, s.intermediate_size);
    return check;
}

} // namespace refreshlab
