#pragma once

#include <array>
#include <string_view>

namespace refreshlab::bench {

/// What `refreshlab bench` measures with loaded models, in the order in which it runs.
inline constexpr std::array<std::string_view, 7> section_names = {
    "bandwidth", "first_token", "decode", "refreshed_run", "probes", "refresh", "cache_policies"};

} // namespace refreshlab::bench
