// What people read of a derivation.
#include "engine/base/error.h"
#include "engine/base/model_path.h"
#include "engine/control/derive/derive_spec.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cctype>

namespace refreshlab {

namespace {

std::string joined(const std::vector<std::string>& parts, const char* with) {
    return fmt::format("{}", fmt::join(parts, with));
}

std::string percent(double share) {
    return fmt::format("{:.4g} %", 100 * share);
}

std::string left_out(const DeriveSpec& spec) {
    std::vector<std::string> parts;
    if (!spec.skip_attention.empty())
        parts.push_back(fmt::format("{} attention", spec.skip_attention.size()));
    if (!spec.skip_mlp.empty()) parts.push_back(fmt::format("{} MLP", spec.skip_mlp.size()));
    if (spec.skip_auto > 0) parts.push_back(fmt::format("{} chosen", spec.skip_auto));
    return parts.empty() ? std::string() : "without " + joined(parts, ", ");
}

/// Where a file's name says of which type its weights are, "X.Q4_1" is written "X Q4_1".
std::string with_type_apart(std::string name) {
    const size_t dot = name.rfind('.');
    if (dot == std::string::npos || dot == 0) return name;
    const auto digit = [&](size_t at) {
        return at < name.size() && std::isdigit(static_cast<unsigned char>(name[at])) != 0;
    };
    const std::string_view type = std::string_view(name).substr(dot + 1);
    const bool known = type == "F32" || type == "F16" || type == "BF16" ||
                       (type.starts_with('Q') && digit(dot + 2)) ||
                       (type.starts_with("IQ") && digit(dot + 3));
    if (known) name[dot] = ' ';
    return name;
}

} // namespace

std::string derive_name(const DeriveSpec& spec) {
    const std::string where = spec.only == DeriveSpec::Only::mlp         ? " MLP"
                              : spec.only == DeriveSpec::Only::attention ? " attention"
                                                                         : "";
    std::vector<std::string> parts;
    if (spec.bits > 0)
        parts.push_back(
            fmt::format("{}-bit g{}{}{}", spec.bits, spec.group, spec.symmetric ? " symmetric" : "", where));
    if (spec.ffn < 1) parts.push_back("FFN " + percent(spec.ffn));
    if (const std::string text = left_out(spec); !text.empty()) parts.push_back(text);
    if (spec.noise > 0) parts.push_back(fmt::format("noise {}{}", spec.noise, spec.bits > 0 ? "" : where));
    return parts.empty() ? "the teacher itself" : joined(parts, " + ");
}

std::string describe(const DeriveSpec& spec) {
    const std::string of = spec.only == DeriveSpec::Only::mlp         ? "MLP weights"
                           : spec.only == DeriveSpec::Only::attention ? "attention weights"
                                                                      : "weights of all layers";
    const std::string on = spec.text.empty() ? "the prompt" : spec.text;
    std::vector<std::string> parts;
    if (spec.ffn < 1)
        parts.push_back(fmt::format("{} of the MLP channels kept, chosen on {}", percent(spec.ffn), on));
    if (spec.noise > 0)
        parts.push_back(fmt::format("{} with noise of {} times their root mean square (seed {})", of,
                                    spec.noise, spec.seed));
    if (spec.bits > 0)
        parts.push_back(fmt::format("{} rounded to {} bits in groups of {}{}", of, spec.bits, spec.group,
                                    spec.symmetric ? ", symmetric" : ""));
    const auto layers = [](const std::vector<int32_t>& list) {
        return fmt::format("layer{} {}", list.size() == 1 ? "" : "s", fmt::join(list, ", "));
    };
    if (!spec.skip_attention.empty())
        parts.push_back("without the attention of " + layers(spec.skip_attention));
    if (!spec.skip_mlp.empty()) parts.push_back("without the MLP of " + layers(spec.skip_mlp));
    if (spec.skip_auto > 0)
        parts.push_back(fmt::format("without {} {}sublayer{} whose loss costs the least KL on {}",
                                    spec.skip_auto,
                                    spec.skip_attention.empty() && spec.skip_mlp.empty() ? "" : "more ",
                                    spec.skip_auto == 1 ? "" : "s", on));
    return parts.empty() ? "nothing is changed" : joined(parts, "; ");
}

std::string shown_model(const std::string& model) {
    if (!is_derivation(model)) return with_type_apart(model_name(model));
    try {
        return derive_name(derivation_of(model));
    } catch (const Error&) { // of a trace that says what this program does not know
        return model;
    }
}

std::string pair_name(const std::string& teacher, const std::string& student) {
    if (teacher.empty() || student.empty()) return shown_model(teacher.empty() ? student : teacher);
    return shown_model(teacher) + " > " + shown_model(student);
}

} // namespace refreshlab
