#pragma once

#include "engine/policies/cache_method.h"

#include <string_view>

namespace refreshlab {

/// A cache policy that is no method of the program: whoever asks for a run brings it with the request (RunRequest::cache_policy). Its name in
/// a configuration says so, "python:HeavyHitters(budget=64)", and all that the program knows of it is that name.
[[nodiscard]] bool is_outside_policy(std::string_view name);
/// Behind the colon: "HeavyHitters(budget=64)"; a name of another kind as it is.
[[nodiscard]] std::string_view outside_policy_name(std::string_view name);
/// What find_cache_method() gives for all of them. It is in no list, and what it makes says what such a policy may need, and does nothing.
[[nodiscard]] const CacheMethod& outside_method();

} // namespace refreshlab
