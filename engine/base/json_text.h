#pragma once

#include <nlohmann/json_fwd.hpp>

#include <string>

namespace refreshlab {

/// The text of any JSON value. Bytes that are not UTF-8 (the name of a folder, a text of a damaged trace) become
/// U+FFFD; json::dump() by itself would throw.
/// \param indent  columns per level; -1: all in one line
[[nodiscard]] std::string json_text(const nlohmann::json& value, int indent = -1);

} // namespace refreshlab
