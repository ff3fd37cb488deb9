#include "engine/control/cache_choice.h"

#include "engine/base/error.h"

#include <fmt/format.h>

#include <limits>
#include <string_view>

namespace refreshlab {

const CachePolicyConfig& deciding_cache(const RunConfig& config) {
    return config.mode == Mode::teacher ? config.teacher_cache : config.student_cache;
}

bool selects_per_query_head(const CachePolicyConfig& policy) {
    const auto found = policy.values.find("compat_per_query_head");
    return found != policy.values.end() && found->second != 0;
}

void check_cache_choice(const RunConfig& config, const CacheFacts& facts) {
    const auto refuse = [](std::string_view whose, const std::string& problem, const std::string& hint) {
        throw Error("starting a run", fmt::format("the {}'s cache policy", whose), problem, hint);
    };
    if (config.mode == Mode::overfill && !config.teacher_cache.is_full()) {
        refuse("teacher",
               fmt::format(
                   "{} cannot act in mode overfill: the teacher hands its entries over and keeps all of them",
                   config.teacher_cache.policy),
               "give it to the student, or take mode teacher");
    }
    const CachePolicyConfig& policy = deciding_cache(config);
    if (policy.is_full()) return;
    const std::string_view whose = config.mode == Mode::teacher ? "teacher" : "student";
    check_cache_policy(policy, facts.context > 0 ? facts.context : std::numeric_limits<int64_t>::max(),
                       fmt::format("the {}'s cache policy", whose));
    if (config.mode == Mode::overfill && !facts.geometry_difference.empty()) {
        refuse("student",
               fmt::format("{} needs entries that can be copied, and the KV geometries differ ({})",
                           policy.policy, facts.geometry_difference),
               "take a student with the teacher's KV geometry, or mode student");
    }
    if (find_cache_method(policy.policy)->given_text && !facts.given) {
        refuse(whose,
               fmt::format("{} has to know the text that will be read, and this run draws its own",
                           policy.policy),
               "give the text (--given-file), for example what a run without a cache policy has written");
    }
}

} // namespace refreshlab
