#include "engine/refresh/weighted_signal.h"

#include "engine/base/error.h"
#include "engine/refresh/json_fields.h"
#include "engine/signals/registry.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace refreshlab {

namespace {

constexpr std::string_view letters = "XYZU"; ///< of markers, by the signal's place in its policy
constexpr double largest_weight = 1e9;

[[noreturn]] void refuse_weights(const std::string& what, const std::string& problem,
                                 const std::string& hint = {}) {
    throw Error("checking the weighted signals of", what, problem, hint);
}

/// A number, or {"weight": W, "absent_as": V}.
WeightedSignal::Term term_from_json(const std::string& name, const nlohmann::json& json, JsonFields& fields) {
    if (json.is_number()) return {name, json.get<double>(), {}};
    if (!json.is_object())
        fields.fail(
            "weights",
            fmt::format("the weight of {} is neither a number nor {{\"weight\": ..., \"absent_as\": ...}}",
                        name));
    WeightedSignal::Term term{name, 0, {}};
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

float weighted_value(const WeightedSignal& signal, const std::function<float(std::string_view)>& value) {
    double sum = signal.offset;
    for (const WeightedSignal::Term& term : signal.terms) {
        const float known = value(term.signal);
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
        return "it is known after a teacher pass alone";
    if (signal.about == SignalAbout::token) return "it speaks of a token and not of the step's row";
    return {};
}

PublishedSignal published_form(const WeightedSignal& signal, size_t index) {
    PublishedSignal published;
    published.name = signal.name;
    published.label = signal.name;
    std::ranges::replace(published.label, '_', ' ');
    published.label[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(published.label[0])));
    published.description = fmt::format("A weighted sum that the policy defines: {:.4g}", signal.offset);
    for (const WeightedSignal::Term& term : signal.terms)
        published.description +=
            fmt::format(" {} {:.4g} {}", term.weight < 0 ? '-' : '+', std::abs(term.weight), term.signal);
    published.description += ".";
    if (published.description.size() > 2000)
        published.description = "A weighted sum that the policy defines.";
    published.about = SignalAbout::next_token;
    published.letter = letters[std::min(index, letters.size() - 1)];
    return published;
}

std::vector<WeightedSignal> weighted_signals_from_json(const nlohmann::json& json, const std::string& what) {
    if (!json.is_array())
        refuse_weights(what, fmt::format("\"signals\" must be a list, not {}", shown(json)));
    std::vector<WeightedSignal> all;
    for (size_t i = 0; i < json.size(); ++i) {
        JsonFields fields(json[i], what, fmt::format("signals[{}]", i));
        WeightedSignal signal;
        fields.text("name", signal.name);
        fields.real("offset", signal.offset, -largest_weight, largest_weight);
        const nlohmann::json* weights = fields.find("weights");
        fields.finish();
        if (weights == nullptr || !weights->is_object())
            fields.fail("weights", "must name signals with their weights");
        for (const auto& [name, weight] : weights->items())
            signal.terms.push_back(term_from_json(name, weight, fields));
        all.push_back(std::move(signal));
    }
    return all;
}

void check_weighted_signals(std::span<const WeightedSignal> all, const std::string& what) {
    if (all.size() > most_weighted_signals)
        refuse_weights(
            what, fmt::format("{} are too many: a policy has at most {}", all.size(), most_weighted_signals));
    for (size_t i = 0; i < all.size(); ++i) {
        const WeightedSignal& signal = all[i];
        if (!is_signal_name(signal.name))
            refuse_weights(what, fmt::format("\"{}\" is not the name of a signal", signal.name));
        if (signal_id(signal.name))
            refuse_weights(what, fmt::format("{} is a signal of the program", signal.name),
                           "choose another name");
        for (size_t j = 0; j < i; ++j) {
            if (all[j].name == signal.name)
                refuse_weights(what, fmt::format("{} stands there twice", signal.name));
        }
        if (signal.terms.empty() || signal.terms.size() > most_terms)
            refuse_weights(what, fmt::format("{} has {} terms, and 1 to {} are allowed", signal.name,
                                             signal.terms.size(), most_terms));
        if (!std::isfinite(signal.offset))
            refuse_weights(what, fmt::format("the offset of {} is not a finite number", signal.name));
        for (const WeightedSignal::Term& term : signal.terms) {
            static_cast<void>(require_signal(term.signal, what));
            if (const std::string why = why_no_term(term.signal); !why.empty())
                refuse_weights(what,
                               fmt::format("{} cannot be a term of {}: {}", term.signal, signal.name, why));
            if (!in_range(term.weight))
                refuse_weights(
                    what, fmt::format("the weight of {} in {} is out of range", term.signal, signal.name));
            if (term.absent_as && !in_range(*term.absent_as))
                refuse_weights(
                    what, fmt::format("absent_as of {} in {} is out of range", term.signal, signal.name));
        }
    }
}

nlohmann::json weighted_signals_to_json(std::span<const WeightedSignal> all) {
    nlohmann::json list = nlohmann::json::array();
    for (const WeightedSignal& signal : all) {
        nlohmann::json weights = nlohmann::json::object();
        for (const WeightedSignal::Term& term : signal.terms) {
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
