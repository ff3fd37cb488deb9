#pragma once

#include <string>
#include <string_view>

namespace refreshlab {

/// The text as one word of a POSIX shell: as it is where no character of it means something there, else in single quotes.
[[nodiscard]] std::string shell_word(std::string_view text);

} // namespace refreshlab
