#include "engine/policies/cache_policy_config.h"

#include "engine/base/check.h"
#include "engine/base/error.h"
#include "engine/refresh/json_fields.h"
#include "engine/signals/nearest_name.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace refreshlab {

namespace {

using Kind = CacheParameter::Kind;

std::map<std::string, double, std::less<>> defaults_of(const CacheMethod& method) {
    std::map<std::string, double, std::less<>> values;
    for (const CacheParameter& parameter : method.parameters)
        values.emplace(parameter.key, parameter.fallback);
    return values;
}

std::map<std::string, PolicyFile, std::less<>> no_files_of(const CacheMethod& method) {
    std::map<std::string, PolicyFile, std::less<>> files;
    for (const CacheFile& file : method.files)
        files.emplace(file.key, PolicyFile{});
    return files;
}

std::string digest_key(std::string_view key) {
    return std::string(key) + "_digest";
}

void read_value(JsonFields& fields, const CacheParameter& parameter, double& value) {
    switch (parameter.kind) {
    case Kind::integer: {
        auto whole = static_cast<int64_t>(value);
        fields.integer(parameter.key, whole, static_cast<int64_t>(parameter.min),
                       static_cast<int64_t>(parameter.max));
        value = static_cast<double>(whole);
        return;
    }
    case Kind::real:
        fields.real(parameter.key, value, parameter.min, parameter.max);
        return;
    case Kind::boolean: {
        bool flag = value != 0;
        fields.boolean(parameter.key, flag);
        value = flag ? 1 : 0;
        return;
    }
    case Kind::choice:
        if (const auto index = fields.choice(parameter.key, parameter.choices))
            value = static_cast<double>(*index);
        return;
    }
}

} // namespace

CachePolicyConfig cache_policy_defaults(std::string_view name, const std::string& what) {
    const CacheMethod* method = find_cache_method(name);
    if (method == nullptr) {
        std::vector<std::string_view> names;
        for (const CacheMethod& known : cache_methods())
            names.push_back(known.name);
        throw Error("reading " + what, std::string(name), "there is no such cache policy",
                    name_hint(name, names, "cache policies"));
    }
    return {std::string(name), defaults_of(*method), no_files_of(*method)};
}

nlohmann::json to_json(const CachePolicyConfig& config) {
    nlohmann::json json = {{"policy", config.policy}};
    const CacheMethod* method = find_cache_method(config.policy);
    RL_ASSERT(method != nullptr);
    for (const CacheParameter& parameter : method->parameters) {
        const double value = config.values.find(parameter.key)->second;
        nlohmann::json& field = json[std::string(parameter.key)];
        switch (parameter.kind) {
        case Kind::integer:
            field = static_cast<int64_t>(value);
            break;
        case Kind::real:
            field = value;
            break;
        case Kind::boolean:
            field = value != 0;
            break;
        case Kind::choice:
            field = parameter.choices[static_cast<size_t>(value)];
            break;
        }
    }
    for (const auto& [key, file] : config.files) { // earlier programs know no such keys
        if (!file.path.empty()) json[key] = file.path;
        if (!file.digest.empty()) json[digest_key(key)] = file.digest;
    }
    return json;
}

CachePolicyConfig cache_policy_from_json(const nlohmann::json& json, const std::string& what,
                                         const std::string& path) {
    JsonFields fields(json, what, path);
    std::string name;
    fields.text("policy", name);
    if (name.empty()) fields.fail("policy", "must name a cache policy", "refreshlab policies lists them");
    CachePolicyConfig config = cache_policy_defaults(name, what);
    for (const CacheParameter& parameter : find_cache_method(name)->parameters)
        read_value(fields, parameter, config.values.find(parameter.key)->second);
    for (auto& [key, file] : config.files) {
        fields.text(key, file.path);
        fields.text(digest_key(key), file.digest);
    }
    fields.finish();
    return config;
}

void check_cache_policy(const CachePolicyConfig& config, int64_t context, const std::string& what) {
    const CacheMethod* method = find_cache_method(config.policy);
    if (method == nullptr) static_cast<void>(cache_policy_defaults(config.policy, what)); // throws
    const auto refuse = [&](std::string_view key, const std::string& problem, const std::string& hint = {}) {
        throw Error("checking " + what, fmt::format("{} of cache policy {}", key, config.policy), problem,
                    hint);
    };
    for (const CacheParameter& parameter : method->parameters) {
        const auto found = config.values.find(parameter.key);
        if (found == config.values.end()) refuse(parameter.key, "is missing");
        const double value = found->second;
        if (!(value >= parameter.min && value <= parameter.max))
            refuse(parameter.key, fmt::format("{} is out of range", value),
                   fmt::format("{} to {}", parameter.min, parameter.max));
        if (parameter.kind != Kind::real && value != std::floor(value))
            refuse(parameter.key, fmt::format("{} is not a whole number", value));
        if (parameter.key == "kernel" && std::fmod(value, 2) == 0)
            refuse(parameter.key, fmt::format("{} is even", value), "a pooling kernel has a middle: 5 or 7");
        const bool chosen = value != parameter.fallback; // a default above the context keeps everything
        if (chosen && (parameter.key == "budget" || parameter.key == "partial") &&
            value > static_cast<double>(context))
            refuse(parameter.key,
                   fmt::format("{} entries are more than the {} that the run can reach", value, context),
                   "the models' context, or prompt and max_tokens, set the limit");
    }
    for (const auto& [key, value] : config.values) {
        const auto known = [&](const CacheParameter& parameter) { return parameter.key == key; };
        if (std::ranges::none_of(method->parameters, known)) refuse(key, "there is no such parameter");
    }
    if (no_files_of(*method).size() != config.files.size()) refuse("files", "are not those of the method");
    for (const auto& [key, file] : config.files) {
        if (std::ranges::find(method->files, key, &CacheFile::key) == method->files.end())
            refuse(key, "there is no such file");
    }
}

bool has_full_steps(const CachePolicyConfig& config) {
    PolicyContext context; // the answer is the method's
    context.layers = context.heads = context.kv_heads = context.prompt_length = 1;
    context.head_dim = 2;
    context.rope_frequencies = {1};
    if (find_cache_method(config.policy)->profile != nullptr)
        context.profile = std::make_shared<CacheProfile>(even_profile(config.policy, context));
    return make_cache_policy(config, context)->full_step_now();
}

std::unique_ptr<CachePolicy> make_cache_policy(const CachePolicyConfig& config,
                                               const PolicyContext& context) {
    const CacheMethod* method = find_cache_method(config.policy);
    RL_ASSERT(method != nullptr);
    return method->make(CacheValues(config.values), context);
}

} // namespace refreshlab
