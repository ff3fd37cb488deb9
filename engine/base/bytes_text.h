#pragma once

#include <cstdint>
#include <string>

namespace refreshlab {

/// "812 B", "3.4 MB", "12.1 GB": decimal units.
[[nodiscard]] std::string bytes_text(int64_t bytes);

} // namespace refreshlab
