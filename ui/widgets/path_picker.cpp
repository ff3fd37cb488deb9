#include "ui/widgets/path_picker.h"

#include "ui/widgets/widgets.h"

#include <misc/cpp/imgui_stdlib.h>

#include <algorithm>
#include <cstdlib>

namespace refreshlab::ui {

namespace fs = std::filesystem;

fs::path start_folder() {
    const char* home = std::getenv("HOME");
    std::error_code error;
    if (home && fs::is_directory(home, error)) return home;
    return fs::current_path(error);
}

PathPicker::PathPicker(Want want, fs::path start, std::string extension)
    : m_want(want)
    , m_text(start.string())
    , m_extension(std::move(extension)) {}

fs::path PathPicker::path() const {
    if (m_text == "~" || m_text.starts_with("~/"))
        return start_folder() / m_text.substr(std::min<size_t>(2, m_text.size()));
    return m_text;
}

std::string PathPicker::problem() const {
    std::error_code error;
    const fs::path chosen = path();
    if (chosen.empty()) return "No path yet";
    const bool folder = fs::is_directory(chosen, error);
    switch (m_want) {
    case Want::open_file:
        if (folder) return "This is a folder";
        if (!fs::exists(chosen, error)) return "No such file";
        return {};
    case Want::save_file:
        if (folder || !chosen.has_filename()) return "A file name is missing";
        if (chosen.has_parent_path() && !fs::is_directory(chosen.parent_path(), error))
            return "No such folder";
        return {};
    case Want::folder:
        if (fs::exists(chosen, error) && !folder) return "This is a file";
        return {};
    }
    return {};
}

bool PathPicker::would_overwrite() const {
    std::error_code error;
    if (m_want == Want::folder) return fs::exists(path(), error) && !fs::is_empty(path(), error);
    return m_want == Want::save_file && fs::is_regular_file(path(), error);
}

void PathPicker::list_folder() {
    std::error_code error;
    fs::path folder = path();
    if (!fs::is_directory(folder, error)) folder = folder.parent_path();
    if (folder == m_listed) return;
    m_listed = folder;
    m_entries.clear();
    for (fs::directory_iterator it(folder, fs::directory_options::skip_permission_denied, error), end;
         !error && it != end; it.increment(error)) {
        Entry entry{it->path().filename().string(), it->is_directory(error)};
        if (entry.name.starts_with('.')) continue;
        if (!entry.folder &&
            (m_want == Want::folder || (!m_extension.empty() && it->path().extension() != m_extension)))
            continue;
        m_entries.push_back(std::move(entry));
    }
    std::ranges::sort(m_entries, [](const Entry& a, const Entry& b) {
        return a.folder != b.folder ? a.folder : a.name < b.name;
    });
}

bool PathPicker::draw(const UiContext& ctx, float height) {
    bool chosen = false;
    if (m_focus) ImGui::SetKeyboardFocusHere();
    m_focus = false;
    ImGui::SetNextItemWidth(-1);
    if (ImGui::InputText("##path", &m_text,
                         ImGuiInputTextFlags_EnterReturnsTrue | ImGuiInputTextFlags_ElideLeft))
        chosen = problem().empty();
    list_folder();
    if (ImGui::BeginChild("files", ImVec2(0, height), ImGuiChildFlags_Borders)) {
        const auto go = [&](const fs::path& to) { m_text = to.string(); };
        if (m_listed.has_parent_path() && m_listed != m_listed.root_path() &&
            ImGui::Selectable("..", false)) {
            const std::string name = m_want == Want::save_file ? path().filename().string() : std::string();
            go(m_listed.parent_path() / name);
        }
        for (const Entry& entry : m_entries) {
            const bool selected = !entry.folder && path().filename() == entry.name;
            const std::string label = entry.folder ? entry.name + "/" : entry.name;
            if (!ImGui::Selectable(label.c_str(), selected, ImGuiSelectableFlags_AllowDoubleClick)) continue;
            if (entry.folder && m_want == Want::save_file)
                go(m_listed / entry.name / path().filename());
            else if (entry.folder)
                go(m_listed / entry.name / "");
            else
                go(m_listed / entry.name);
            if (!entry.folder && ImGui::IsMouseDoubleClicked(ImGuiMouseButton_Left))
                chosen = problem().empty();
        }
        if (m_entries.empty())
            muted_text(ctx, m_extension.empty() ? "Empty folder" : "Nothing with " + m_extension + " here");
    }
    ImGui::EndChild();
    return chosen;
}

} // namespace refreshlab::ui
