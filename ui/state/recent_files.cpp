#include "ui/state/recent_files.h"

#include "engine/base/error.h"
#include "engine/base/json_file.h"
#include "engine/base/json_text.h"
#include "ui/state/user_file.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <system_error>
#include <utility>

namespace refreshlab::ui {

namespace fs = std::filesystem;

RecentFiles::RecentFiles(fs::path folder)
    : m_folder(std::move(folder)) {
    load();
}

void RecentFiles::load() {
    std::error_code error;
    const fs::path file = m_folder / "recent.json";
    if (m_folder.empty() || !fs::exists(file, error)) return;
    try {
        std::vector<fs::path> files;
        const nlohmann::json list = read_json_file(file, 1 << 20);
        for (const auto& path : list.at("files"))
            files.emplace_back(path.get<std::string>());
        if (files.size() > most) files.resize(most);
        m_files = std::move(files);
    } catch (const Error&) { // a list of conveniences: the next file that is opened begins another
    } catch (const nlohmann::json::exception&) {
    }
}

void RecentFiles::store() const {
    if (m_folder.empty()) return;
    nlohmann::json list;
    list["files"] = nlohmann::json::array();
    for (const fs::path& path : m_files)
        list["files"].push_back(path.string());
    write_user_file(m_folder / "recent.json", json_text(list, 2) + "\n");
}

void RecentFiles::add(const fs::path& file) {
    const fs::path path = fs::absolute(file).lexically_normal();
    load();
    std::erase(m_files, path);
    m_files.insert(m_files.begin(), path);
    if (m_files.size() > most) m_files.resize(most);
    store();
}

void RecentFiles::clear() {
    m_files.clear();
    store();
}

} // namespace refreshlab::ui
