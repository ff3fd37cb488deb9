#pragma once

#include "ui/context/context.h"

#include <filesystem>
#include <string>
#include <vector>

namespace refreshlab::ui {

/// Chooses a file or folder inside the window: a path entry and the list of what is there. (Native dialogs need a
/// desktop and cannot be tested.)
class PathPicker {
public:
    enum class Want : uint8_t { open_file, save_file, folder };
    PathPicker(Want want, std::filesystem::path start, std::string extension = {});

    /// Entry and list; `height` pixels for the list. \return true when a file was chosen by double click or Enter
    bool draw(const UiContext& ctx, float height);
    [[nodiscard]] std::filesystem::path path() const; ///< "~/" at the start means the home folder
    /// Why this path cannot be taken; empty when it can.
    [[nodiscard]] std::string problem() const;
    [[nodiscard]] bool would_overwrite() const;

private:
    struct Entry {
        std::string name;
        bool folder = false;
    };
    void list_folder();

    Want m_want;
    std::string m_text, m_extension;
    std::filesystem::path m_listed;
    std::vector<Entry> m_entries;
    bool m_focus = true;
};

/// Folder to begin with: the home folder, else the present one.
[[nodiscard]] std::filesystem::path start_folder();

} // namespace refreshlab::ui
