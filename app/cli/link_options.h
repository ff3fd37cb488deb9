#pragma once

#include <string>

namespace refreshlab::app {

/// First line of the file; empty where no file is given. Throws Error{bad_input}: it cannot be read, the line is empty or longer than
/// 1,000 bytes.
[[nodiscard]] std::string token_of(const std::string& file);

/// "ada@laptop", from $USER and the machine.
[[nodiscard]] std::string own_name();

} // namespace refreshlab::app
