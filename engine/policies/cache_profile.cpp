#include "engine/policies/cache_profile.h"

#include "engine/base/check.h"
#include "engine/base/error.h"
#include "engine/policies/cache_method.h"
#include "engine/refresh/json_fields.h"

#include <fmt/format.h>

#include <cmath>
#include <set>

namespace refreshlab {

namespace {

constexpr int64_t profile_version = 1;

std::vector<ProfilePart> parts_of(std::string_view method, const PolicyContext& context) {
    const CacheMethod* found = find_cache_method(method);
    RL_ASSERT(found != nullptr && found->profile != nullptr);
    return found->profile(context);
}

std::vector<double> read_part(JsonFields& fields, const ProfilePart& part) {
    const nlohmann::json* list = fields.find(part.name);
    if (list == nullptr || !list->is_array() || std::ssize(*list) != part.count)
        fields.fail(part.name, fmt::format("must be a list of {} numbers", part.count),
                    "is it the profile of a model of another size?");
    std::vector<double> numbers;
    for (const nlohmann::json& value : *list) {
        const double number = value.is_number() ? value.get<double>() : -1;
        if (!(number >= 0 && number <= part.most) || (part.index && number != std::floor(number)))
            fields.fail(part.name, fmt::format("{} is not one of 0 to {}", shown(value), part.most));
        numbers.push_back(number);
    }
    if (part.index && std::set<double>(numbers.begin(), numbers.end()).size() != numbers.size())
        fields.fail(part.name, "names one of them twice");
    return numbers;
}

} // namespace

const std::vector<double>& CacheProfile::of(size_t layer, std::string_view name) const {
    RL_ASSERT(layer < layers.size());
    const auto found = layers[layer].find(name);
    RL_ASSERT(found != layers[layer].end());
    return found->second;
}

nlohmann::json to_json(const CacheProfile& profile) {
    nlohmann::json layers = nlohmann::json::array();
    for (const CacheProfile::Numbers& numbers : profile.layers) {
        nlohmann::json& layer = layers.emplace_back(nlohmann::json::object());
        for (const auto& [name, values] : numbers) {
            nlohmann::json& list = layer[name] = nlohmann::json::array();
            for (const double value : values) // whole numbers as such
                list.push_back(value == std::floor(value) ? nlohmann::json(static_cast<int64_t>(value))
                                                          : nlohmann::json(value));
        }
    }
    return {{"profile", profile.method},        {"version", profile_version}, {"model", profile.model},
            {"model_name", profile.model_name}, {"recipe", profile.recipe},   {"layers", std::move(layers)}};
}

CacheProfile cache_profile_from_json(const nlohmann::json& json, const std::string& what,
                                     std::string_view method, const PolicyContext& context) {
    CacheProfile profile;
    JsonFields fields(json, what);
    fields.text("profile", profile.method);
    if (profile.method.empty()) fields.fail("profile", "is missing", "refreshlab profile makes one");
    if (profile.method != method)
        fields.fail("profile", fmt::format("is of {}, not of {}", profile.method, method));
    int64_t version = 0;
    fields.integer("version", version, 0, 1 << 20);
    if (version != profile_version)
        fields.fail("version", fmt::format("is {}, this program reads {}", version, profile_version),
                    "measure it again with this program");
    fields.text("model", profile.model);
    fields.text("model_name", profile.model_name);
    fields.text("recipe", profile.recipe);
    const nlohmann::json* layers = fields.find("layers");
    if (layers == nullptr || !layers->is_array() || std::ssize(*layers) != context.layers)
        fields.fail("layers", fmt::format("must be a list of the {} layers of the model", context.layers),
                    "is it the profile of another model?");
    for (size_t i = 0; i < layers->size(); ++i) {
        JsonFields of_layer((*layers)[i], what, fmt::format("layers[{}]", i));
        CacheProfile::Numbers& numbers = profile.layers.emplace_back();
        for (const ProfilePart& part : parts_of(method, context))
            numbers.emplace(part.name, read_part(of_layer, part));
        of_layer.finish();
    }
    fields.finish();
    return profile;
}

CacheProfile even_profile(std::string_view method, const PolicyContext& context) {
    CacheProfile profile;
    profile.method = method;
    profile.layers.resize(static_cast<size_t>(context.layers));
    for (CacheProfile::Numbers& numbers : profile.layers) {
        for (const ProfilePart& part : parts_of(method, context)) {
            std::vector<double> values(static_cast<size_t>(part.count), part.most / 2);
            for (size_t i = 0; part.index && i < values.size(); ++i)
                values[i] = static_cast<double>(i);
            numbers.emplace(part.name, std::move(values));
        }
    }
    return profile;
}

} // namespace refreshlab
