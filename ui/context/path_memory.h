#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>

namespace refreshlab::ui {

/// Where each kind of dialog ("trace", "picture", "model") was last, so that the next one begins there.
struct PathMemory {
    std::map<std::string, std::string, std::less<>> folders; ///< of the last file taken; kept in the settings
    std::map<std::string, std::string, std::less<>>
        typed; ///< in a dialog that was left with Esc; until the program ends

    /// What the entry of a dialog begins with: what was typed and left, else the last folder that is still there, else the home
    /// folder; then `name`.
    [[nodiscard]] std::string start(std::string_view kind, const std::string& name) const;
    void accept(std::string_view kind, const std::filesystem::path& path);
};

/// The home folder, else the present one.
[[nodiscard]] std::filesystem::path home_folder();

} // namespace refreshlab::ui
