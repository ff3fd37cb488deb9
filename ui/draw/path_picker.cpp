#include "ui/draw/path_picker.h"

#include "engine/base/model_path.h"
#include "ui/draw/text_entry.h"
#include "ui/draw/widgets.h"

#include <algorithm>

namespace refreshlab::ui {

namespace fs = std::filesystem;

PathPicker::PathPicker(const UiContext& ctx, Want want, std::string kind, const std::string& name,
                       std::string extension)
    : m_want(want)
    , m_kind(std::move(kind))
    , m_text(ctx.paths.start(m_kind, name))
    , m_first(m_text)
    , m_extension(std::move(extension)) {}

fs::path PathPicker::path() const {
    fs::path chosen = m_text;
    if (m_text == "~" || m_text.starts_with("~/"))
        chosen = home_folder() / m_text.substr(std::min<size_t>(2, m_text.size()));
    if (m_want == Want::save_file && chosen.has_filename() && !chosen.has_extension()) chosen += m_extension;
    return chosen;
}

std::string PathPicker::problem() const {
    std::error_code error;
    const fs::path chosen = path();
    if (m_text.empty()) return "No path yet";
    const bool folder = fs::is_directory(chosen, error);
    switch (m_want) {
    case Want::open_file:
        if (folder) return "This is a folder";
        if (!fs::exists(chosen, error)) return "No such file";
        return {};
    case Want::save_file:
        if (folder || !chosen.has_filename()) return "A file name is missing";
        if (!m_extension.empty() && chosen.extension() != m_extension)
            return "The name must end in " + m_extension;
        if (chosen.has_parent_path() && !fs::is_directory(chosen.parent_path(), error))
            return "No such folder";
        return {};
    case Want::folder:
        if (fs::exists(chosen, error) && !folder) return "This is a file";
        return {};
    case Want::model:
        return may_be_model(chosen) ? "" : "No model here: a folder with config.json, or a .gguf file";
    }
    return {};
}

bool PathPicker::would_overwrite() const {
    std::error_code error;
    if (m_want == Want::folder) return fs::exists(path(), error) && !fs::is_empty(path(), error);
    return m_want == Want::save_file && fs::is_regular_file(path(), error);
}

void PathPicker::put_aside(UiContext& ctx) const {
    if (m_text != m_first) ctx.paths.typed[m_kind] = m_text;
}

bool PathPicker::listed(const Entry& entry, const fs::path& path) const {
    if (entry.name.starts_with('.')) return false;
    if (entry.folder) return true;
    switch (m_want) {
    case Want::folder:
        return false;
    case Want::model:
        return entry.model;
    default:
        return m_all || m_extension.empty() || path.extension() == m_extension;
    }
}

void PathPicker::list_folder() {
    std::error_code error;
    fs::path folder = path();
    // A model's own folder is a thing to choose, not one to go into.
    if (!fs::is_directory(folder, error) || (m_want == Want::model && may_be_model(folder)))
        folder = folder.parent_path();
    if (folder == m_listed && m_all == m_listed_all) return;
    m_listed = folder;
    m_listed_all = m_all;
    m_entries.clear();
    for (fs::directory_iterator it(folder, fs::directory_options::skip_permission_denied, error), end;
         !error && it != end; it.increment(error)) {
        Entry entry{it->path().filename().string(), it->is_directory(error)};
        entry.model = m_want == Want::model && may_be_model(it->path());
        if (listed(entry, it->path())) m_entries.push_back(std::move(entry));
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
    if (text_entry("##path", &m_text, ImGuiInputTextFlags_EnterReturnsTrue | ImGuiInputTextFlags_ElideLeft))
        chosen = problem().empty();
    list_folder();
    draw_list(ctx, height, chosen);
    if (m_want == Want::open_file && !m_extension.empty())
        ImGui::Checkbox(("All files, not only " + m_extension).c_str(), &m_all);
    return chosen;
}

void PathPicker::draw_list(const UiContext& ctx, float height, bool& chosen) {
    if (ImGui::BeginChild("files", ImVec2(0, height), ImGuiChildFlags_Borders)) {
        const auto go = [&](const fs::path& to) { m_text = to.string(); };
        if (m_listed.has_parent_path() && m_listed != m_listed.root_path() &&
            ImGui::Selectable("..", false)) {
            const std::string name = m_want == Want::save_file ? fs::path(m_text).filename().string() : "";
            go(m_listed.parent_path() / name);
        }
        for (const Entry& entry : m_entries) {
            const bool file = !entry.folder || entry.model;
            const bool selected = file && path().filename() == entry.name;
            const std::string label = entry.folder ? entry.name + "/" : entry.name;
            if (!ImGui::Selectable(label.c_str(), selected, ImGuiSelectableFlags_AllowDoubleClick)) continue;
            if (!file && m_want == Want::save_file)
                go(m_listed / entry.name / fs::path(m_text).filename());
            else if (!file)
                go(m_listed / entry.name / "");
            else
                go(m_listed / entry.name);
            if (file && ImGui::IsMouseDoubleClicked(ImGuiMouseButton_Left)) chosen = problem().empty();
        }
        if (m_entries.empty()) {
            const bool some = m_want == Want::model || (!m_extension.empty() && !m_all);
            muted_text(ctx, !some                   ? "Empty folder"
                            : m_want == Want::model ? "No model here"
                                                    : "Nothing with " + m_extension + " here");
        }
    }
    ImGui::EndChild();
}

} // namespace refreshlab::ui
