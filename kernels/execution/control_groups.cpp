#include "kernels/execution/control_groups.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>

namespace refreshlab::kernels {

namespace fs = std::filesystem;

namespace {

void add_with_parents(const fs::path& mount, std::string path, int version,
                      std::vector<ControlGroup>& groups) {
    for (;;) {
        groups.push_back({path.empty() ? mount : mount / path, version});
        if (path.empty()) return;
        const size_t slash = path.rfind('/');
        path.resize(slash == std::string::npos ? 0 : slash);
    }
}

} // namespace

std::vector<ControlGroup> control_groups(std::string_view controller, const fs::path& root) {
    const fs::path mount = root / "sys/fs/cgroup";
    const std::string listed = "," + std::string(controller) + ",";
    std::vector<ControlGroup> groups;
    // Lines "hierarchy:controllers:/path"; hierarchy 0 without controllers is version 2.
    std::ifstream lines(root / "proc/self/cgroup");
    for (std::string line; std::getline(lines, line);) {
        const size_t first = line.find(':');
        const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
        if (second == std::string::npos) continue;
        const std::string controllers = line.substr(first + 1, second - first - 1);
        std::string path = line.substr(second + 1);
        path.erase(0, std::min(path.find_first_not_of('/'), path.size()));
        if (path.find("..") != std::string::npos) path.clear(); // a group above our namespace
        if (controllers.empty()) {
            add_with_parents(mount, path, 2, groups);
            add_with_parents(mount / "unified", path, 2, groups);
        } else if (("," + controllers + ",").find(listed) != std::string::npos) {
            add_with_parents(mount / controller, path, 1, groups);
        }
    }
    return groups;
}

std::optional<int64_t> number_in(const fs::path& file) {
    std::ifstream in(file);
    int64_t value = 0;
    return in >> value && value >= 0 ? std::optional(value) : std::nullopt;
}

std::optional<int64_t> number_after(const fs::path& file, std::string_view key) {
    std::ifstream lines(file);
    for (std::string line; std::getline(lines, line);) {
        std::istringstream words(line);
        std::string word;
        int64_t value = 0;
        if (words >> word && word == key && words >> value) return value;
    }
    return std::nullopt;
}

} // namespace refreshlab::kernels
