#pragma once

#include <cstdint>
#include <span>

namespace refreshlab {

/// 1 - unique/total over the token-id 3-grams; 0 for fewer than 3 tokens (reference/refresh.md, section 7).
[[nodiscard]] double repetition3(std::span<const int32_t> tokens);

} // namespace refreshlab
