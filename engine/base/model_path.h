#pragma once

#include <filesystem>
#include <string>

namespace refreshlab {

/// What a person calls the model at a path, without looking at it: the folder's name, or the file's without ".gguf".
[[nodiscard]] std::string model_name(const std::filesystem::path& path);

/// Whether two paths are one folder or file; false where one of them is not there.
[[nodiscard]] bool same_model(const std::filesystem::path& a, const std::filesystem::path& b);

/// Whether a model may be at a path: a folder with a config.json, or a file that begins as a GGUF file does. Says nothing about
/// whether it can be read; opens nothing but regular files, and throws nothing. For lists, pickers and files dropped on a window.
[[nodiscard]] bool may_be_model(const std::filesystem::path& path);

} // namespace refreshlab
