#include "ui/scene/policy/cache_words.h"

#include "engine/base/error.h"
#include "engine/control/parameters.h"
#include "engine/policies/outside_policy.h"
#include "ui/base/value_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>

namespace refreshlab::ui {

const CachePolicyConfig& cache_of(const RunConfig& config, CacheOwner owner) {
    return owner == CacheOwner::teacher ? config.teacher_cache : config.student_cache;
}
CachePolicyConfig& cache_of(RunConfig& config, CacheOwner owner) {
    return owner == CacheOwner::teacher ? config.teacher_cache : config.student_cache;
}
std::string cache_prefix(CacheOwner owner) {
    return owner == CacheOwner::teacher ? "teacher_cache." : "student_cache.";
}

std::string cache_label(const CachePolicyConfig& cache) {
    if (is_outside_policy(cache.policy)) return std::string(outside_policy_name(cache.policy));
    const CacheMethod* method = find_cache_method(cache.policy);
    return method ? std::string(method->label) : cache.policy;
}

std::string value_text(const CacheParameter& parameter, double value) {
    using Kind = CacheParameter::Kind;
    if (parameter.kind == Kind::choice) return std::string(parameter.choices[static_cast<size_t>(value)]);
    if (parameter.kind == Kind::boolean) return value != 0 ? "true" : "false";
    return fmt::format("{}", value);
}

std::string cache_words(const CachePolicyConfig& cache) {
    if (cache.is_full()) return "Full cache";
    const CacheMethod* method = find_cache_method(cache.policy);
    std::string words = cache_label(cache);
    if (method == nullptr) return words;
    for (const CacheParameter& parameter : method->parameters) {
        const auto value = cache.values.find(parameter.key);
        // A budget says the most: it is told in any case.
        const bool says =
            parameter.key == "budget" || (value != cache.values.end() && value->second != parameter.fallback);
        if (value != cache.values.end() && says)
            words += fmt::format(", {} {}", parameter.key, value_text(parameter, value->second));
    }
    for (const auto& [key, file] : cache.files)
        if (!file.path.empty())
            words += fmt::format(", {} {}", key, std::filesystem::path(file.path).filename().string());
    return words;
}

bool is_modified(const CachePolicyConfig& cache) {
    const CacheMethod* method = find_cache_method(cache.policy);
    const auto moved = [&](const CacheParameter& parameter) {
        const auto value = cache.values.find(parameter.key);
        return value != cache.values.end() && value->second != parameter.fallback;
    };
    return method &&
           (std::ranges::any_of(method->parameters, moved) ||
            std::ranges::any_of(cache.files, [](const auto& file) { return !file.second.path.empty(); }));
}

std::string why_no_cache_policy(Mode mode, CacheOwner owner) {
    if (deciding_owner(mode) == owner) return {};
    if (mode == Mode::overfill) return "hands its entries over, and keeps all";
    return "has no part in this mode";
}

CachePolicyConfig with_value(const RunConfig& config, CacheOwner owner, std::string_view key,
                             std::string_view text, int64_t context) {
    RunConfig changed = config;
    set_parameter(changed, cache_prefix(owner) + std::string(key), text);
    const CachePolicyConfig& cache = cache_of(changed, owner);
    check_cache_policy(cache, context > 0 ? context : std::numeric_limits<int64_t>::max(),
                       owner == CacheOwner::teacher ? "the teacher's cache policy"
                                                    : "the student's cache policy");
    return cache;
}

RunReach reach_of(const RunConfig& config, int64_t prompt, int64_t context) {
    if (prompt <= 0) return {};
    const int64_t asked = prompt + config.max_tokens;
    return {prompt, context > 0 ? std::min(asked, context) : asked};
}

CachePolicyConfig chosen_cache(std::string_view method, const RunReach& reach) {
    constexpr int64_t step = 8; // a round number says that nobody has tuned it
    CachePolicyConfig cache = cache_policy_defaults(method, "a cache policy");
    if (budget_note(cache, reach).empty()) return cache;
    const int64_t quarter = find_cache_method(method)->prompt_only ? reach.prompt / 4 : reach.whole / 4;
    const int64_t budget = std::max(step, quarter / step * step);
    cache.values.find("budget")->second = static_cast<double>(budget);
    if (const auto last = cache.values.find("last_tokens"); last != cache.values.end())
        last->second = std::min(last->second, static_cast<double>(budget / 2));
    return cache;
}

CachePolicyConfig compared_cache(std::string_view method, const CachePolicyConfig& own,
                                 const RunReach& reach) {
    CachePolicyConfig cache = chosen_cache(method, reach);
    const auto budget_of = [](auto& policy) { // a method has one of the two
        const auto budget = policy.values.find("budget");
        return budget != policy.values.end() ? budget : policy.values.find("partial");
    };
    const auto mine = budget_of(own);
    const auto its = budget_of(cache);
    if (mine == own.values.end() || its == cache.values.end()) return cache;
    its->second = mine->second;
    if (const auto last = cache.values.find("last_tokens"); last != cache.values.end())
        last->second = std::min(last->second, std::floor(its->second / 2));
    return cache;
}

RunConfig with_cache_policy(RunConfig run, const CachePolicyConfig& cache) {
    cache_of(run, deciding_owner(run.mode)) = cache;
    return run;
}

std::string budget_note(const CachePolicyConfig& cache, const RunReach& reach) {
    const CacheMethod* method = find_cache_method(cache.policy);
    const auto budget = cache.values.find("budget");
    if (method == nullptr || budget == cache.values.end()) return {};
    if (const auto choose = cache.values.find("choose"); choose != cache.values.end() && choose->second == 0)
        return {}; // a threshold decides
    const int64_t entries = method->prompt_only ? reach.prompt : reach.whole;
    const auto last = cache.values.find("last_tokens"); // stay in any case
    const double within = budget->second + (last != cache.values.end() ? last->second : 0);
    if (entries <= 0 || within < static_cast<double>(entries)) return {};
    if (method->prompt_only)
        return fmt::format("The prompt has {}: within the budget, so all of them stay",
                           format_count(entries, "token"));
    return fmt::format("The run has {} entries at most: within the budget, so it keeps and reads all",
                       format_thousands(entries));
}

CacheFacts cache_facts(const RunConfig& config, const EngineStatus& status) {
    CacheFacts facts;
    facts.given = config.reads_given();
    const bool loaded =
        config.teacher_dir == status.applied.teacher_dir && config.student_dir == status.applied.student_dir;
    if (!loaded) return facts;
    for (const ModelSummary* model : {&status.teacher, &status.student})
        if (model->max_position > 0)
            facts.context =
                facts.context > 0 ? std::min(facts.context, model->max_position) : model->max_position;
    if (status.rebuild_mode) facts.geometry_difference = "the run is in rebuild mode";
    return facts;
}

std::string cache_refusal(const RunConfig& config, const CacheFacts& facts) {
    try {
        check_cache_choice(config, facts);
    } catch (const Error& e) {
        return e.what();
    }
    return {};
}

} // namespace refreshlab::ui
