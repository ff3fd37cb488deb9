#include "engine/study/studies/cache_rows.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace refreshlab {

namespace {

/// \param settings  of what the method has; keys that it lacks are left out
CachePolicyConfig policy_with(std::string_view method,
                              const std::vector<std::pair<std::string_view, double>>& settings) {
    CachePolicyConfig config = cache_policy_defaults(method, "a study");
    for (const auto& [key, value] : settings) {
        if (const auto found = config.values.find(key); found != config.values.end()) found->second = value;
    }
    return config;
}

} // namespace

std::vector<NamedPolicy> compared_policies(int64_t budget) {
    const auto k = static_cast<double>(budget);
    constexpr double group_max = 0;
    const auto refreshkv = [&](double every, std::vector<std::pair<std::string_view, double>> more = {}) {
        more.emplace_back("partial", k);
        more.emplace_back("check_every", every);
        return policy_with("refreshkv", more);
    };
    std::vector<NamedPolicy> rows{
        {"vanilla", policy_with("full", {})},
        {"SnapKV", policy_with("snapkv", {{"budget", k}, {"window", 1}, {"group", group_max}})},
        {"H2O", policy_with("h2o", {{"budget", k}, {"group", group_max}})},
        {"StreamingLLM", policy_with("streaming_llm", {{"budget", k}})},
        {"RefreshKV, stride 5", refreshkv(5)},
        {"RefreshKV, stride 10", refreshkv(10)},
        {"RefreshKV, fixed 10", refreshkv(10, {{"schedule", 1}})},
        {"RefreshKV, stride 5, without refresh", refreshkv(5, {{"rebuild", 0}})},
        {"RefreshKV, stride 5, group mean", refreshkv(5, {{"group", 1}})},
        {"TOVA", policy_with("tova", {{"budget", k}})},
        {"Quest", policy_with("quest", {{"budget", k}})},
        {"random", policy_with("random", {{"budget", k}})},
        {"oracle", policy_with("oracle", {{"budget", k}})}};
    return rows;
}

std::vector<NamedPolicy> few_policies(int64_t budget) {
    std::vector<NamedPolicy> rows = compared_policies(budget);
    std::erase_if(rows, [](const NamedPolicy& p) {
        return p.name == "RefreshKV, fixed 10" || p.name.ends_with("group mean");
    });
    return rows;
}
std::vector<NamedPolicy> writing_policies(int64_t budget) {
    std::vector<NamedPolicy> rows = few_policies(budget);
    std::erase_if(rows, [](const NamedPolicy& p) { return p.name == "oracle"; });
    return rows;
}

} // namespace refreshlab
