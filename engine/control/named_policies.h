#pragma once

#include "engine/policies/cache_policy_config.h"
#include "engine/refresh/policy.h"

#include <string>

namespace refreshlab {

/// The refresh policy that a person names: a preset, or a JSON file. Throws Error{bad_input}: neither, or what policy_from_json() refuses.
/// \param option  what the name was given for, for messages: "--policy"
[[nodiscard]] RefreshPolicy named_policy(const std::string& name, const std::string& option);

/// The same of a cache policy: a method with its defaults, a JSON object, or a JSON file.
[[nodiscard]] CachePolicyConfig named_cache_policy(const std::string& name, const std::string& option);

} // namespace refreshlab
