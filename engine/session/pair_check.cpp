#include "engine/session/pair_check.h"

#include "engine/base/json_file.h"
#include "engine/text/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

namespace refreshlab {

namespace {

std::string rope_text(const ModelConfig& c) {
    std::string text = fmt::format("theta {:g}", c.rope_theta);
    switch (c.rope_scaling.kind) {
    case RopeScaling::Kind::none:
        break;
    case RopeScaling::Kind::linear:
        text += fmt::format(", linear x{:g}", c.rope_scaling.factor);
        break;
    case RopeScaling::Kind::llama3:
        text += fmt::format(", llama3 x{:g} ({:g}, {:g}, {})", c.rope_scaling.factor,
                            c.rope_scaling.low_freq_factor, c.rope_scaling.high_freq_factor,
                            c.rope_scaling.original_max_position);
        break;
    }
    return text;
}

/// Equal bytes need no parsing: a published tokenizer.json takes seconds to read.
std::shared_ptr<const Tokenizer> other_tokenizer(const std::string& teacher_dir,
                                                 const std::string& student_dir,
                                                 const std::shared_ptr<const Tokenizer>& students) {
    const std::filesystem::path a = std::filesystem::path(teacher_dir) / "tokenizer.json",
                                b = std::filesystem::path(student_dir) / "tokenizer.json";
    std::error_code ignored;
    if (std::filesystem::equivalent(a, b, ignored) || read_file(a) == read_file(b)) return students;
    return Tokenizer::load(teacher_dir);
}

} // namespace

PairCheck check_pair(const std::string& teacher_dir, const std::string& student_dir) {
    PairCheck check;
    check.tokenizer = Tokenizer::load(student_dir);
    check.teacher = ModelConfig::load(teacher_dir);
    check.student = ModelConfig::load(student_dir);
    const auto teachers = other_tokenizer(teacher_dir, student_dir, check.tokenizer);
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
    check.facts.push_back({"family", t.model_type, s.model_type, PairFact::Verdict::free});
    may_differ("query heads", t.num_heads, s.num_heads);
    may_differ("hidden width", t.hidden_size, s.hidden_size);
    may_differ("MLP width", t.intermediate_size, s.intermediate_size);
    // A field that only some families have (a sliding window, q/k norms): the geometry check names it.
    const bool listed = std::any_of(check.facts.begin(), check.facts.end(), [](const PairFact& fact) {
        return fact.verdict == PairFact::Verdict::differs;
    });
    if (check.geometry_difference && !listed) {
        check.facts.push_back({"KV geometry", *check.geometry_difference, "", PairFact::Verdict::differs});
    }
    return check;
}

} // namespace refreshlab
