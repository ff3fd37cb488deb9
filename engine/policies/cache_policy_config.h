#pragma once

#include "engine/policies/cache_method.h"

#include <nlohmann/json_fwd.hpp>

#include <map>
#include <memory>
#include <string>
#include <string_view>

namespace refreshlab {

/// A file that belongs to models: of a cache policy, or a bridge.
struct PolicyFile {
    std::string path; ///< empty: what lies beside the model (engine/control/model_files.h)
    std::string
        digest; ///< of the bytes that a recorded run read; empty: not known. A file of another digest is refused
    /// What is asked for. The digest says what was found.
    friend bool operator==(const PolicyFile& a, const PolicyFile& b) { return a.path == b.path; }
};

/// A cache policy as data: the name of a method and all its parameters. Plain data, JSON both ways:
/// {"policy": "snapkv", "budget": 256, "pool": "mean"}, {"policy": "trim_kv", "gate": "FILE", "gate_digest": "..."}.
struct CachePolicyConfig {
    std::string policy = "full";
    std::map<std::string, double, std::less<>>
        values; ///< every parameter of the method; booleans 0 or 1, choices an index
    std::map<std::string, PolicyFile, std::less<>> files = {}; ///< every file of the method
    [[nodiscard]] bool is_full() const { return policy == "full"; }
    friend bool operator==(const CachePolicyConfig&, const CachePolicyConfig&) = default;
};

/// A method with its defaults. Throws Error{bad_input} with the nearest names; `what` is what was read ("--student-cache").
[[nodiscard]] CachePolicyConfig cache_policy_defaults(std::string_view name, const std::string& what);

[[nodiscard]] nlohmann::json to_json(const CachePolicyConfig& config);
/// Throws Error{bad_input} naming `what` and the key: no or an unknown policy, unknown keys (with the nearest), values that are
/// no whole number or out of range. Absent keys have the method's defaults.
[[nodiscard]] CachePolicyConfig cache_policy_from_json(const nlohmann::json& json, const std::string& what,
                                                       const std::string& path = {});

/// Throws Error{bad_input} naming `what` where the method cannot work in a run with room for `context` positions: a budget larger
/// than that which is not the method's default, an even kernel, unknown or missing values (of a configuration made in code).
void check_cache_policy(const CachePolicyConfig& config, int64_t context, const std::string& what);

/// Whether a method knows full steps (CachePolicy::full_step_now).
[[nodiscard]] bool has_full_steps(const CachePolicyConfig& config);

/// A checked policy, ready for the first layer of the prompt.
[[nodiscard]] std::unique_ptr<CachePolicy> make_cache_policy(const CachePolicyConfig& config,
                                                             const PolicyContext& context);

} // namespace refreshlab
