#pragma once

#include "engine/control/cache_choice.h"
#include "engine/control/engine_link.h"
#include "ui/scene/policy/drafts.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace refreshlab::ui {

/// Whose cache policy acts in a mode.
[[nodiscard]] constexpr CacheOwner deciding_owner(Mode mode) {
    return mode == Mode::teacher ? CacheOwner::teacher : CacheOwner::student;
}
[[nodiscard]] const CachePolicyConfig& cache_of(const RunConfig& config, CacheOwner owner);
[[nodiscard]] CachePolicyConfig& cache_of(RunConfig& config, CacheOwner owner);
/// Before the key of a parameter: "student_cache.".
[[nodiscard]] std::string cache_prefix(CacheOwner owner);

/// "H2O", or its name where this version does not know it.
[[nodiscard]] std::string cache_label(const CachePolicyConfig& cache);
/// "H2O, budget 64": with what differs from the defaults.
[[nodiscard]] std::string cache_words(const CachePolicyConfig& cache);
[[nodiscard]] bool is_modified(const CachePolicyConfig& cache);
/// One value as text: "64", "true", "max".
[[nodiscard]] std::string value_text(const CacheParameter& parameter, double value);

/// Why the model's cache policy has no part in a mode; empty where it has.
[[nodiscard]] std::string why_no_cache_policy(Mode mode, CacheOwner owner);

/// One value set from text, and the policy checked. Throws Error{bad_input} in one line. \param context  0 = not known
[[nodiscard]] CachePolicyConfig with_value(const RunConfig& config, CacheOwner owner, std::string_view key,
                                           std::string_view text, int64_t context);

/// How many entries of a KV head a run can have; 0 = not known.
struct RunReach {
    int64_t prompt = 0; ///< after the prompt
    int64_t whole = 0;  ///< at its end, as far as its cap and the context say
};
/// \param prompt  tokens of the prompt; 0 = not known
[[nodiscard]] RunReach reach_of(const RunConfig& config, int64_t prompt, int64_t context);
/// A method that a person has just chosen: its defaults, but a budget that the run would never reach is a quarter of what it
/// reaches. Else the choice would show nothing.
[[nodiscard]] CachePolicyConfig chosen_cache(std::string_view method, const RunReach& reach);
/// The policy that a run is compared with: chosen_cache(), with the budget of the run's own policy where both have one, so that the
/// method alone is another.
/// \param own  of the run
[[nodiscard]] CachePolicyConfig compared_cache(std::string_view method, const CachePolicyConfig& own,
                                               const RunReach& reach);
/// `run` with another cache policy of the model that decodes; all else stays.
[[nodiscard]] RunConfig with_cache_policy(RunConfig run, const CachePolicyConfig& cache);
/// Says that the run stays within the policy's budget; empty where it does not, or is not known.
[[nodiscard]] std::string budget_note(const CachePolicyConfig& cache, const RunReach& reach);

/// What the engine's loaded models say of the cache policies of a run with these models.
[[nodiscard]] CacheFacts cache_facts(const RunConfig& config, const EngineStatus& status);
/// Why a start with these cache policies would be refused, one line; empty where it would not.
[[nodiscard]] std::string cache_refusal(const RunConfig& config, const CacheFacts& facts);

} // namespace refreshlab::ui
