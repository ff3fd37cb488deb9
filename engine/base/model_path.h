#pragma once

#include <filesystem>
#include <string>

namespace refreshlab {

/// What a person calls the model at a path; the path itself is not opened: the folder's name, or the file's without
/// ".gguf".
[[nodiscard]] std::string model_name(const std::filesystem::path& path);

/// Whether two paths are one folder or file; false where one of them is not there.
[[nodiscard]] bool same_model(const std::filesystem::path& a, const std::filesystem::path& b);

/// Whether a model may be at a path: a folder with a config.json, or a file that begins as a GGUF file does. It may
/// still be unreadable. Opens only regular files, and throws nothing. For lists, pickers and files dropped on a window.
[[nodiscard]] bool may_be_model(const std::filesystem::path& path);

/// Where the pair that comes with the program lies.
struct BundledPair {
    std::string teacher, student;
};
/// \param assets  the program's assets folder
[[nodiscard]] BundledPair bundled_pair(const std::filesystem::path& assets);

} // namespace refreshlab
