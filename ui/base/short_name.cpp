#include "ui/base/short_name.h"

#include <algorithm>

namespace refreshlab::ui {

std::string short_name(const std::filesystem::path& file, std::span<const std::filesystem::path> list) {
    std::filesystem::path name;
    for (auto part = file.end(); part != file.begin();) {
        name = name.empty() ? *--part : *--part / name;
        const std::string ending = "/" + name.string();
        if (std::ranges::none_of(list, [&](const std::filesystem::path& other) {
                return other != file && other.string().ends_with(ending);
            }))
            break;
    }
    return name.string();
}

} // namespace refreshlab::ui
