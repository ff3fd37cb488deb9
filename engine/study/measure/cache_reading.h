#pragma once

#include "engine/model/llama_model.h"
#include "engine/policies/cache_policy_config.h"
#include "engine/session/policies/policy_runner.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace refreshlab {

/// The end of a text, read token by token under a cache policy that acts on what stands before it.
struct CacheReading {
    std::vector<double>
        logprob; ///< of each token of the end, nats; the first one comes from the prompt's row
    std::vector<uint8_t> first_choice; ///< of each of them: 1 where it was the likeliest
    std::vector<double> kl_nats;       ///< of each row but that one: KL(everything read || under the policy)
    double entries_read = 0;           ///< per step, mean over steps, layers and KV heads
    double bytes_held =
        0; ///< after a step, mean over steps: keys and values as they are stored, and where they stand
    std::vector<double> full_step_share; ///< [layers]; empty where the policy has no such signal

    [[nodiscard]] double nll() const;      ///< nats per token
    [[nodiscard]] double kl() const;       ///< mean, nats
    [[nodiscard]] double accuracy() const; ///< share of first choices
    [[nodiscard]] double
    stride() const; ///< steps per full step, over all layers; 0: no signal or no full step
};

using PolicyAidsFor = std::function<PolicyAids(const CachePolicyConfig& policy)>;

/// Reads one text under each of these policies. The prompt is read once for all of them; the last token is not fed. Policy oracle is first shown what the end attends to in a pass of its own, with
/// everything held.
/// \param prompt    tokens of the prompt, 1 .. tokens.size() - 2                                      (asserted)
/// \param policies  checked; full is allowed, one that borrows (PolicyNeeds) is not                     (asserted)
/// \param aids_for  gates and profile of a policy; null: it needs none
/// Threads  one; under the ExecutionScope of the caller. Memory: (tokens - prompt) * vocab fp32, and caches of 2 GiB together, but two at least.
/// Cost: a token is read under up to 32 policies at once (Forward::step_together).
[[nodiscard]] std::vector<CacheReading> read_under_policies(const LlamaModel& model,
                                                            std::span<const int32_t> tokens, int64_t prompt,
                                                            std::span<const CachePolicyConfig> policies,
                                                            uint64_t seed,
                                                            const PolicyAidsFor& aids_for = {});

[[nodiscard]] nlohmann::json to_json(const CacheReading& reading);
/// Throws Error{bad_input} naming `what`.
[[nodiscard]] CacheReading cache_reading_from_json(const nlohmann::json& json, const std::string& what);

} // namespace refreshlab
