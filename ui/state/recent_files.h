#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace refreshlab::ui {

/// The traces and workspaces that were opened or saved last, the newest first: recent.json in the state folder. Several windows may
/// share it: each reads it again before it changes it. No ImGui.
class RecentFiles {
public:
    static constexpr size_t most = 10;

    /// \param folder  the state folder; empty: nothing is kept beyond this window
    /// A file that is missing or damaged counts as an empty list.
    explicit RecentFiles(std::filesystem::path folder = {});

    [[nodiscard]] const std::vector<std::filesystem::path>& files() const { return m_files; } ///< absolute
    /// Puts a file first. Throws Error where the list cannot be written.
    void add(const std::filesystem::path& file);
    void clear(); ///< throws as add()

private:
    void load();
    void store() const;

    std::filesystem::path m_folder;
    std::vector<std::filesystem::path> m_files;
};

} // namespace refreshlab::ui
