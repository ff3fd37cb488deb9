#include "engine/control/parameter_json.h"

#include "engine/control/parameter_table.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>

namespace refreshlab {

namespace {

using Kind = Parameter::Kind;

/// "sampler", "top_k" of "sampler.top_k"; no group of "seed".
struct Place {
    std::string_view group, name;
};
Place place_of(const ParameterEntry& entry) {
    const std::string_view key = entry.parameter.key;
    const size_t dot = key.find('.');
    if (dot == std::string_view::npos) return {{}, key};
    return {key.substr(0, dot), key.substr(dot + 1)};
}

/// Of a text that a parameter gave itself.
template <typename T>
T number_of(std::string_view text) {
    T value{};
    std::from_chars(text.data(), text.data() + text.size(), value);
    return value;
}

/// A seed, whose range no int64_t holds.
bool is_64_bits(const Parameter& parameter) {
    return parameter.max > 9e18;
}

nlohmann::json value_of(const Parameter& parameter, std::string_view text) {
    if (parameter.optional && text == "none") return nullptr;
    switch (parameter.kind) {
    case Kind::boolean:
        return text == "true";
    case Kind::integer:
        if (is_64_bits(parameter)) return number_of<uint64_t>(text);
        return number_of<int64_t>(text);
    case Kind::real:
        return number_of<double>(text);
    case Kind::list: {
        nlohmann::json list = nlohmann::json::array();
        while (!text.empty() && text != parameter.choices.front()) {
            const size_t comma = std::min(text.find(','), text.size() - 1);
            list.push_back(number_of<int64_t>(text));
            text.remove_prefix(comma + 1);
        }
        return list;
    }
    case Kind::choice:
    case Kind::text:
        break;
    }
    return std::string(text);
}

void read_list(JsonFields& fields, std::string_view name, const Parameter& p, const nlohmann::json& given,
               std::vector<int64_t>& list) {
    if (!given.is_array()) fields.fail(name, "must be a list of whole numbers [...], not " + shown(given));
    for (const nlohmann::json& number : given) {
        const bool good =
            number.is_number_integer() && number.get<double>() >= p.min && number.get<double>() <= p.max;
        if (!good)
            fields.fail(name, fmt::format("must hold whole numbers from {} to {}, not {}", p.min, p.max,
                                          shown(number)));
        list.push_back(number.get<int64_t>());
    }
}

/// Sets the parameter from the key `name` of its group, if it is there.
void read_one(JsonFields& fields, std::string_view name, const ParameterEntry& entry, RunConfig& config) {
    const Parameter& p = entry.parameter;
    const nlohmann::json* given = fields.find(name);
    if (given == nullptr) return;
    ParameterValue value;
    const bool none = given->is_null() || (entry.earlier_none && *given == *entry.earlier_none);
    if (p.optional && none) {
        value.none = true;
        return entry.set(config, value);
    }
    switch (p.kind) {
    case Kind::boolean:
        fields.boolean(name, value.flag);
        break;
    case Kind::integer:
        if (is_64_bits(p)) {
            fields.unsigned_integer(name, value.whole);
        } else {
            fields.integer(name, value.whole, static_cast<int64_t>(p.min), static_cast<int64_t>(p.max));
        }
        value.number = static_cast<double>(value.whole);
        break;
    case Kind::real:
        fields.real(name, value.number, p.min, p.max);
        break;
    case Kind::choice:
        value.choice = *fields.choice(name, p.choices);
        break;
    case Kind::list:
        read_list(fields, name, p, *given, value.list);
        break;
    case Kind::text:
        if (!given->is_string() || !entry.reads(given->get_ref<const std::string&>()))
            fields.fail(name, fmt::format("must be {}, not {}", p.form, shown(*given)));
        value.text = given->get_ref<const std::string&>();
        break;
    }
    entry.set(config, value);
}

void read_entry(JsonFields& fields, const ParameterEntry& entry, RunConfig& config) {
    const std::string_view name = place_of(entry).name, earlier = entry.earlier_name;
    if (!earlier.empty()) {
        if (fields.find(name) != nullptr && fields.find(earlier) != nullptr)
            fields.fail(earlier, fmt::format("is the earlier name of {}; give one of them", name));
        read_one(fields, earlier, entry, config);
    }
    read_one(fields, name, entry, config);
}

} // namespace

void write_parameters(const RunConfig& config, nlohmann::json& out, ParameterNames names) {
    static const RunConfig defaults;
    for (const ParameterEntry& entry : parameter_table()) {
        if (!entry.of_run) continue;
        const std::string text = *entry.get(config);
        if (entry.newer && text == *entry.get(defaults)) continue;
        const Place place = place_of(entry);
        nlohmann::json& group = place.group.empty() ? out : out[place.group];
        const bool earlier = names == ParameterNames::earlier && !entry.earlier_name.empty();
        group[earlier ? entry.earlier_name : place.name] = value_of(entry.parameter, text);
    }
}

void read_parameters(JsonFields& fields, const std::string& what, RunConfig& config) {
    std::vector<std::string_view> groups;
    for (const ParameterEntry& entry : parameter_table()) {
        if (!entry.of_run) continue;
        const std::string_view group = place_of(entry).group;
        if (group.empty()) {
            read_entry(fields, entry, config);
        } else if (std::ranges::find(groups, group) == groups.end()) {
            groups.push_back(group);
        }
    }
    for (const std::string_view group : groups) {
        const nlohmann::json* given = fields.find(group);
        if (given == nullptr) continue;
        JsonFields within(*given, what, std::string(group));
        for (const ParameterEntry& entry : parameter_table())
            if (entry.of_run && place_of(entry).group == group) read_entry(within, entry, config);
        within.finish();
    }
}

} // namespace refreshlab
