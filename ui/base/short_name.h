#pragma once

#include <filesystem>
#include <span>
#include <string>

namespace refreshlab::ui {

/// The file's name, with as many folders in front as it takes to tell it from others of the list: "b/day.rlw" beside "a/day.rlw".
[[nodiscard]] std::string short_name(const std::filesystem::path& file,
                                     std::span<const std::filesystem::path> list);

} // namespace refreshlab::ui
