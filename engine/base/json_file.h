#pragma once

#include <nlohmann/json.hpp>

#include <filesystem>
#include <string>
#include <string_view>

namespace refreshlab {

/// Parses JSON text. Errors name line and column (1-based): "line 3, column 14: ...". Duplicate keys, comments,
/// trailing text and nesting deeper than 256 are refused.
/// \param what  what the text is, for the message: a path or "--policy"
[[nodiscard]] nlohmann::json parse_json(std::string_view text, const std::string& what);

/// Reads and parses a whole file (at most `max_bytes`). Throws Error{bad_input}.
[[nodiscard]] nlohmann::json read_json_file(const std::filesystem::path& path,
                                            size_t max_bytes = size_t{1} << 30);

/// Reads a whole regular file as bytes. Throws Error{bad_input} for a missing file, for what is no regular file (a folder, a
/// pipe, a device), and for more than max_bytes: see RegularFile.
[[nodiscard]] std::string read_file(const std::filesystem::path& path, size_t max_bytes = size_t{1} << 30);

/// Writes text to path through a temporary file and rename, so that a failure leaves the old file. Throws Error.
void write_file(const std::filesystem::path& path, std::string_view text);

/// A free name beside `path`, which no other call returns. A writer makes its file or folder there and then renames it.
/// So two writers of one path never meet, and no file of the user is in the way.
[[nodiscard]] std::filesystem::path temporary_beside(const std::filesystem::path& path);

} // namespace refreshlab
