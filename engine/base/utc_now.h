#pragma once

#include <string>

namespace refreshlab {

[[nodiscard]] std::string utc_now(); ///< ISO 8601, seconds

} // namespace refreshlab
