#include "engine/control/run_config.h"

#include "engine/base/error.h"
#include "engine/control/parameter_json.h"
#include "engine/control/parameters.h"
#include "engine/control/stored_config.h"
#include "engine/policies/outside_policy.h"
#include "engine/refresh/json_fields.h"

#include <fmt/format.h>

#include <array>
#include <limits>

namespace refreshlab {

namespace {

constexpr std::array<std::string_view, 3> mode_names = {"teacher", "student", "overfill"};
constexpr std::array<std::string_view, 4> dtype_names = {"f32", "bf16", "f16", "native"};
constexpr std::array<std::string_view, 5> kernel_set_names = {"auto", "portable", "avx2", "avx512",
                                                              "reference"};

constexpr int64_t no_context = int64_t{1} << 40; ///< the models' context is not known here
constexpr int64_t max_threads = 4096;

void read_ids(const nlohmann::json& json, JsonFields& fields, std::vector<int32_t>& ids) {
    if (!json.is_array()) fields.fail("given_ids", "must be a list of token ids [...], not " + shown(json));
    for (const nlohmann::json& id : json) {
        const bool good = id.is_number_integer() && id.get<int64_t>() >= 0 &&
                          id.get<int64_t>() <= std::numeric_limits<int32_t>::max();
        if (!good) fields.fail("given_ids", "must hold token ids from 0, not " + shown(id));
        ids.push_back(id.get<int32_t>());
    }
}

void read_task(const nlohmann::json& json, const std::string& what, TaskConfig& task) {
    JsonFields fields(json, what, "task");
    fields.text("kind", task.kind);
    fields.text("reference", task.reference);
    fields.text("almanac", task.almanac);
    fields.finish();
}

nlohmann::json json_of(const RunConfig& config, ParameterNames names) {
    nlohmann::json json = {{"teacher_dir", config.teacher_dir},
                           {"student_dir", config.student_dir},
                           {"device", config.device},
                           {"teacher_device", config.teacher_device},
                           {"student_device", config.student_device},
                           {"dtype", to_string(config.dtype)},
                           {"threads", config.threads},
                           {"mode", to_string(config.mode)},
                           {"prompt", config.prompt},
                           {"raw_prompt", config.raw_prompt},
                           {"given_text", config.given_text},
                           {"task",
                            {{"kind", config.task.kind},
                             {"reference", config.task.reference},
                             {"almanac", config.task.almanac}}},
                           {"policy", policy_to_json(config.policy)}};
    write_parameters(config, json, names);
    // Left out where nothing is chosen: earlier programs read such a configuration, and ids of sweep runs stay.
    if (!config.student_cache.is_full()) json["student_cache"] = to_json(config.student_cache);
    if (!config.teacher_cache.is_full()) json["teacher_cache"] = to_json(config.teacher_cache);
    if (!config.given_ids.empty()) json["given_ids"] = config.given_ids; // earlier programs know no such key
    if (!config.prompt_cache.empty()) json["prompt_cache"] = config.prompt_cache;
    if (!config.bridge.digest.empty()) json["bridge_digest"] = config.bridge.digest;
    return json;
}

} // namespace

nlohmann::json to_json(const RunConfig& config) {
    return json_of(config, ParameterNames::present);
}

nlohmann::json stored_json(const RunConfig& config) {
    return json_of(config, ParameterNames::earlier);
}

RunConfig run_config_from_json(const nlohmann::json& json, const std::string& what) {
    RunConfig config;
    JsonFields fields(json, what);
    fields.text("teacher_dir", config.teacher_dir);
    fields.text("student_dir", config.student_dir);
    fields.text("device", config.device);
    fields.text("teacher_device", config.teacher_device);
    fields.text("student_device", config.student_device);
    if (const auto dtype = fields.choice("dtype", {dtype_names.begin(), dtype_names.end()})) {
        config.dtype = static_cast<Dtype>(*dtype);
    }
    fields.integer("threads", config.threads, 0, max_threads);
    if (const auto mode = fields.choice("mode", {mode_names.begin(), mode_names.end()})) {
        config.mode = static_cast<Mode>(*mode);
    }
    fields.text("prompt", config.prompt);
    fields.boolean("raw_prompt", config.raw_prompt);
    fields.text("given_text", config.given_text);
    if (const nlohmann::json* ids = fields.find("given_ids")) read_ids(*ids, fields, config.given_ids);
    fields.text("prompt_cache", config.prompt_cache);
    if (const nlohmann::json* task = fields.find("task")) read_task(*task, what, config.task);
    read_parameters(fields, what, config);              // before the policy: mc.every also sets a trigger's
    fields.text("bridge_digest", config.bridge.digest); // after the parameter, which forgets it
    if (const nlohmann::json* policy = fields.find("policy")) {
        config.policy = policy_from_json(*policy, what + ", policy", Thresholds::any_finite);
    }
    for (const auto& [key, cache] : {std::pair{"student_cache", &config.student_cache},
                                     std::pair{"teacher_cache", &config.teacher_cache}}) {
        if (const nlohmann::json* json_cache = fields.find(key))
            *cache = cache_policy_from_json(*json_cache, what, key);
    }
    fields.finish();
    return config;
}

void check_verification(const RunConfig& config, const std::string& what) {
    if (!verifies(config.policy) || !config.reads_given() || config.mode != Mode::overfill) return;
    throw Error(
        "checking the configuration of", what,
        "on_fire verify on a given text: verification needs tokens that were drawn from the student's row",
        "set on_fire to keep, or let the run draw its tokens");
}

void check_scope(const RunConfig& config, const ScopeModel& model, const std::string& what) {
    const RefreshScope& scope = config.policy.scope;
    if (scope.whole() || config.mode != Mode::overfill) return;
    const auto refuse = [&](const std::string& problem, const std::string& hint) {
        throw Error("checking the scope of the refreshes of", what, problem, hint);
    };
    if (const std::string why = why_not_in_model(scope, model.layers, model.kv_heads); !why.empty())
        refuse(why, "set refresh.layers and refresh.kv_heads to what it has, or to all");
    if (model.rebuild)
        refuse(fmt::format("{}: the pair's caches differ, so no entries are copied that could be chosen",
                           scope_text(scope)),
               "leave out the refresh.* settings");
    if (config.student_cache.policy == "kv_direct" && !scope.whole_entries()) {
        refuse(fmt::format(
                   "{}: kv_direct computes entries again from their tokens, all of a position by one model",
                   scope_text(scope)),
               "choose positions alone, or another cache policy");
    }
}

void check_run_config(const RunConfig& config, const std::string& what) {
    check_policy(config.policy, what);
    check_verification(config, what);
    check_cache_policy(config.student_cache, no_context, what + ", student_cache");
    check_cache_policy(config.teacher_cache, no_context, what + ", teacher_cache");
    RunConfig copy = config;
    for (const Parameter& parameter : parameters()) {
        if (parameter.of_policy) continue;
        // A value that its own parameter would not take is out of range.
        const std::optional<std::string> value = parameter_value(config, parameter.key);
        if (value && !is_outside_policy(*value)) set_parameter(copy, parameter.key, *value);
    }
    if (config.threads < 0 || config.threads > max_threads) {
        throw Error("checking the configuration of", what, "threads is out of range",
                    "0 (all cores) to 4096");
    }
}

std::string_view to_string(Mode m) {
    return mode_names[static_cast<size_t>(m)];
}
std::string_view to_string(Dtype d) {
    return dtype_names[static_cast<size_t>(d)];
}
std::string_view to_string(KernelSet k) {
    return kernel_set_names[static_cast<size_t>(k)];
}

} // namespace refreshlab
