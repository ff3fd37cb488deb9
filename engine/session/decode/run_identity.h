#pragma once

#include <string>
#include <utility>
#include <vector>

namespace refreshlab {

[[nodiscard]] std::string new_run_id(); ///< 16 random hex digits; names a run, never enters its computation
[[nodiscard]] std::string utc_now();    ///< ISO 8601, seconds
[[nodiscard]] std::vector<std::pair<std::string, std::string>>
version_list(); ///< refreshlab, libtorch, compiler

} // namespace refreshlab
