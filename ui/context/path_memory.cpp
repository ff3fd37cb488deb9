#include "ui/context/path_memory.h"

#include <cstdlib>

namespace refreshlab::ui {

namespace fs = std::filesystem;

fs::path home_folder() {
    const char* home = std::getenv("HOME");
    std::error_code error;
    if (home && fs::is_directory(home, error)) return home;
    return fs::current_path(error);
}

std::string PathMemory::start(std::string_view kind, const std::string& name) const {
    if (const auto left = typed.find(kind); left != typed.end()) return left->second;
    std::error_code error;
    const auto last = folders.find(kind);
    const bool there = last != folders.end() && fs::is_directory(last->second, error);
    return ((there ? fs::path(last->second) : home_folder()) / name).string();
}

void PathMemory::accept(std::string_view kind, const fs::path& path) {
    std::error_code error;
    fs::path folder = path.parent_path();
    if (folder.empty()) folder = fs::current_path(error);
    folders[std::string(kind)] = folder.string();
    if (const auto left = typed.find(kind); left != typed.end()) typed.erase(left);
}

} // namespace refreshlab::ui
