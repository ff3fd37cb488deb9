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
    enum class Want : uint8_t {
        open_file,
        save_file,
        folder, ///< to write into
        model   ///< a model folder or a .gguf file
    };
    /// \param kind  of UiContext::paths: where it begins
    /// \param name  offered for a file that is written; "" for one that is opened
    /// \param extension  ".png": only such files are listed, and a name that is written gets it where it has none
    PathPicker(const UiContext& ctx, Want want, std::string kind, const std::string& name,
               std::string extension = {});

    /// Entry and list; `height` pixels for the list. \return true when a file was chosen by double click or Enter
    bool draw(const UiContext& ctx, float height);
    [[nodiscard]] std::filesystem::path path() const; ///< "~/" at the start means the home folder
    /// Why this path cannot be taken; empty when it can.
    [[nodiscard]] std::string problem() const;
    [[nodiscard]] bool would_overwrite() const;
    /// The path was taken: the next dialog of its kind begins in its folder.
    void accept(UiContext& ctx) const { ctx.paths.accept(m_kind, path()); }
    /// The dialog was left: what was typed is there again when it comes back.
    void put_aside(UiContext& ctx) const;

private:
    struct Entry {
        std::string name;
        bool folder = false;
        bool model = false;
    };
    void list_folder();
    void draw_list(const UiContext& ctx, float height, bool& chosen);
    [[nodiscard]] bool listed(const Entry& entry, const std::filesystem::path& path) const;

    Want m_want;
    std::string m_kind, m_text, m_first, m_extension;
    bool m_all = false; ///< files of other extensions too
    std::filesystem::path m_listed;
    bool m_listed_all = false;
    std::vector<Entry> m_entries;
    bool m_focus = true;
};

} // namespace refreshlab::ui
