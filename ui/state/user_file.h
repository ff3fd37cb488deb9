#pragma once

#include "engine/base/json_file.h"

#include <filesystem>
#include <string_view>
#include <system_error>

namespace refreshlab::ui {

/// Writes a file of the person's own folders (settings, layouts, recent files), whose folder is made at the first start. Throws Error, also where it
/// cannot be made.
inline void write_user_file(const std::filesystem::path& file, std::string_view text) {
    std::error_code error; // write_file() says what is wrong
    std::filesystem::create_directories(file.parent_path(), error);
    write_file(file, text);
}

} // namespace refreshlab::ui
