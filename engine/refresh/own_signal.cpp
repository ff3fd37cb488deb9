#include "engine/refresh/own_signal.h"

#include "engine/base/error.h"
#include "engine/refresh/json_fields.h"
#include "engine/signals/nearest_name.h"
#include "engine/signals/registry.h"
#include "engine/text/utf8.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace refreshlab {

namespace {

constexpr std::string_view letters = "XYZU"; ///< of markers, by the signal's place in its policy
constexpr double largest_weight = 1e9;

[[noreturn]] void refuse_signals(const std::string& what, const std::string& problem,
                                 const std::string& hint = {}) {
    throw Error("checking the signals of", what, problem, hint);
}

/// A number, or {"weight": W, "absent_as": V}.
OwnSignal::Term term_from_json(const std::string& name, const nlohmann::json& json, JsonFields& fields) {
    if (json.is_number()) return {name, json.get<double>(), {}};
    if (!json.is_object())
        fields.fail(
            "weights",
            fmt::format("the weight of {} is neither a number nor {{\"weight\": ..., \"absent_as\": ...}}",
                        name));
    OwnSignal::Term term{name, 0, {}};
    for (const auto& [key, number] : json.items()) {
        if (key != "weight" && key != "absent_as")
            fields.fail("weights", fmt::format("the term {} has an unknown field \"{}\" (weight, absent_as)",
                                               name, key));
        if (!number.is_number()) fields.fail("weights", fmt::format("{} of {} is no number", key, name));
        if (key == "weight")
            term.weight = number.get<double>();
        else
            term.absent_as = number.get<double>();
    }
    if (!json.contains("weight")) fields.fail("weights", fmt::format("the term {} has no weight", name));
    return term;
}

bool in_range(double number) {
    return std::isfinite(number) && std::abs(number) <= largest_weight;
}

} // namespace

std::vector<std::string_view> OwnSignal::reads() const {
    if (expression) return {expression->signals().begin(), expression->signals().end()};
    std::vector<std::string_view> names;
    for (const Term& term : terms)
        names.push_back(term.signal);
    return names;
}

float own_value(const OwnSignal& signal, int64_t step,
                const std::function<float(std::string_view, int64_t)>& read) {
    if (signal.expression) return signal.expression->value(step, read);
    double sum = signal.offset;
    for (const OwnSignal::Term& term : signal.terms) {
        const float known = read(term.signal, step);
        if (is_absent(known) && !term.absent_as) return absent();
        sum += term.weight * (is_absent(known) ? *term.absent_as : static_cast<double>(known));
    }
    return std::isnan(sum) ? std::numeric_limits<float>::quiet_NaN() : static_cast<float>(sum);
}

std::string why_no_term(std::string_view name) {
    const auto id = signal_id(name);
    if (!id) return "it is no signal of the program";
    const Signal& signal = signals()[*id];
    if (signal.cost == SignalCost::teacher_pass || signal.back_filled)
        return "it is known only after a teacher pass";
    if (signal.about == SignalAbout::token) return "it describes a token and not the step's row";
    return {};
}

SignalExpression read_expression(std::string_view text, const std::string& what, const std::string& path) {
    const auto why = [](std::string_view name) -> std::string {
        const auto id = signal_id(name);
        if (!id) {
            std::vector<std::string_view> able;
            for (const Signal& signal : signals())
                if (why_no_term(signal.name).empty()) able.push_back(signal.name);
            return fmt::format("there is no signal \"{}\"\n{}", visible_text(name, 60),
                               name_hint(name, able, "signals"));
        }
        const std::string reason = why_no_term(name);
        return reason.empty() ? reason : fmt::format("{} cannot stand here: {}", name, reason);
    };
    try {
        return {text, why};
    } catch (const ExpressionError& e) {
        throw Error("reading", what,
                    fmt::format("{}column {}: {}", path.empty() ? "" : path + ": ", e.column(), e.what()),
                    e.hint());
    }
}

OwnSignal own_signal_from_text(std::string_view text, const std::string& what) {
    const size_t equals = text.find('=');
    if (equals == std::string_view::npos)
        throw Error("reading", what, fmt::format("\"{}\" has no \"=\"", visible_text(text, 60)),
                    "NAME = EXPRESSION, such as rise = entropy_bits - mean(entropy_bits, 16)");
    OwnSignal signal;
    signal.name = text.substr(0, equals);
    std::erase_if(signal.name, [](char c) { return c == ' ' || c == '\t'; });
    // Columns are those of the whole text.
    signal.expression =
        read_expression(std::string(equals + 1, ' ') + std::string(text.substr(equals + 1)), what, {});
    check_own_signals(std::span(&signal, 1), what);
    return signal;
}

PublishedSignal published_form(const OwnSignal& signal, size_t index) {
    PublishedSignal published;
    published.name = signal.name;
    published.label = signal.name;
    std::ranges::replace(published.label, '_', ' ');
    published.label[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(published.label[0])));
    published.about = SignalAbout::next_token;
    published.letter = letters[std::min(index, letters.size() - 1)];
    if (signal.expression) {
        published.description = fmt::format("Defined by the policy: {}", signal.expression->text());
        return published;
    }
    published.description = fmt::format("A weighted sum that the policy defines: {:.4g}", signal.offset);
    for (const OwnSignal::Term& term : signal.terms)
        published.description +=
            fmt::format(" {} {:.4g} {}", term.weight < 0 ? '-' : '+', std::abs(term.weight), term.signal);
    published.description += ".";
    if (published.description.size() > 2000)
        published.description = "A weighted sum that the policy defines.";
    return published;
}

std::vector<OwnSignal> own_signals_from_json(const nlohmann::json& json, const std::string& what) {
    if (!json.is_array())
        refuse_signals(what, fmt::format("\"signals\" must be a list, not {}", shown(json)));
    std::vector<OwnSignal> all;
    for (size_t i = 0; i < json.size(); ++i) {
        JsonFields fields(json[i], what, fmt::format("signals[{}]", i));
        OwnSignal signal;
        fields.text("name", signal.name);
        fields.real("offset", signal.offset, -largest_weight, largest_weight);
        std::string expression;
        fields.text("expression", expression);
        const nlohmann::json* weights = fields.find("weights");
        const bool written = fields.find("expression") != nullptr;
        if (written && (weights != nullptr || fields.find("offset") != nullptr))
            fields.fail("expression", "stands in place of offset and weights");
        fields.finish();
        if (written) {
            signal.expression = read_expression(expression, what, fields.path("expression"));
            all.push_back(std::move(signal));
            continue;
        }
        if (weights == nullptr || !weights->is_object())
            fields.fail("weights", "must name signals with their weights",
                        "or \"expression\" says what it is");
        for (const auto& [name, weight] : weights->items())
            signal.terms.push_back(term_from_json(name, weight, fields));
        all.push_back(std::move(signal));
    }
    return all;
}

void check_own_signals(std::span<const OwnSignal> all, const std::string& what) {
    if (all.size() > most_own_signals)
        refuse_signals(what,
                       fmt::format("{} are too many: a policy has at most {}", all.size(), most_own_signals));
    for (size_t i = 0; i < all.size(); ++i) {
        const OwnSignal& signal = all[i];
        if (!is_signal_name(signal.name))
            refuse_signals(what, fmt::format("\"{}\" is not the name of a signal", signal.name));
        if (signal_id(signal.name))
            refuse_signals(what, fmt::format("{} is a signal of the program", signal.name),
                           "choose another name");
        for (size_t j = 0; j < i; ++j) {
            if (all[j].name == signal.name)
                refuse_signals(what, fmt::format("{} stands there twice", signal.name));
        }
        if (signal.expression) continue; // it is checked when it is made
        if (signal.terms.empty() || signal.terms.size() > most_terms)
            refuse_signals(what, fmt::format("{} has {} terms, and 1 to {} are allowed", signal.name,
                                             signal.terms.size(), most_terms));
        if (!std::isfinite(signal.offset))
            refuse_signals(what, fmt::format("the offset of {} is not a finite number", signal.name));
        for (const OwnSignal::Term& term : signal.terms) {
            static_cast<void>(require_signal(term.signal, what));
            if (const std::string why = why_no_term(term.signal); !why.empty())
                refuse_signals(what,
                               fmt::format("{} cannot be a term of {}: {}", term.signal, signal.name, why));
            if (!in_range(term.weight))
                refuse_signals(
                    what, fmt::format("the weight of {} in {} is out of range", term.signal, signal.name));
            if (term.absent_as && !in_range(*term.absent_as))
                refuse_signals(
                    what, fmt::format("absent_as of {} in {} is out of range", term.signal, signal.name));
        }
    }
}

nlohmann::json own_signals_to_json(std::span<const OwnSignal> all) {
    nlohmann::json list = nlohmann::json::array();
    for (const OwnSignal& signal : all) {
        if (signal.expression) {
            list.push_back({{"name", signal.name}, {"expression", signal.expression->text()}});
            continue;
        }
        nlohmann::json weights = nlohmann::json::object();
        for (const OwnSignal::Term& term : signal.terms) {
            if (term.absent_as)
                weights[term.signal] = {{"weight", term.weight}, {"absent_as", *term.absent_as}};
            else
                weights[term.signal] = term.weight;
        }
        list.push_back({{"name", signal.name}, {"offset", signal.offset}, {"weights", std::move(weights)}});
    }
    return list;
}

} // namespace refreshlab
