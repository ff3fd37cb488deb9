#include "ui/layout.h"

#include "engine/base/json_file.h"

#include <algorithm>
#include <cctype>

namespace refreshlab::ui {

namespace {

constexpr std::string_view section = "[RefreshLab][Panels]";
constexpr std::string_view open_key = "Open=", front_key = "Front=";

std::vector<std::string> split_list(std::string_view list) {
    std::vector<std::string> names;
    while (!list.empty()) {
        const size_t comma = std::min(list.find(','), list.size());
        if (comma > 0) names.emplace_back(list.substr(0, comma));
        list.remove_prefix(std::min(comma + 1, list.size()));
    }
    return names;
}

std::string joined(const std::vector<std::string>& names) {
    std::string list;
    for (const std::string& name : names)
        list.append(list.empty() ? "" : ",").append(name);
    return list;
}

std::string file_name(std::string_view name) {
    std::string lower(name);
    std::ranges::transform(lower, lower.begin(),
                           [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return lower + ".ini";
}

} // namespace

const std::vector<std::string>& layout_names() {
    static const std::vector<std::string> names = {"Explore", "Tune", "Present"};
    return names;
}

Layout parse_layout(std::string_view text) {
    Layout layout;
    bool ours = false;
    while (!text.empty()) {
        const size_t end = std::min(text.find('\n'), text.size());
        std::string_view line = text.substr(0, end);
        text.remove_prefix(std::min(end + 1, text.size()));
        if (line.ends_with('\r')) line.remove_suffix(1);
        if (line.starts_with('[')) ours = line == section;
        if (!ours) {
            layout.ini.append(line).push_back('\n');
            continue;
        }
        if (line.starts_with(open_key)) layout.open_panels = split_list(line.substr(open_key.size()));
        if (line.starts_with(front_key)) layout.front_panels = split_list(line.substr(front_key.size()));
    }
    return layout;
}

std::string layout_text(const Layout& layout) {
    std::string text(section);
    text.append("\n").append(open_key).append(joined(layout.open_panels));
    if (!layout.front_panels.empty()) text.append("\n").append(front_key).append(joined(layout.front_panels));
    return text.append("\n\n").append(layout.ini);
}

Layout read_layout(const std::filesystem::path& file) {
    return parse_layout(read_file(file, 1 << 20));
}

std::filesystem::path bundled_layout(const std::filesystem::path& assets, std::string_view name) {
    return assets / "layouts" / file_name(name);
}

std::filesystem::path user_layout(const std::filesystem::path& user_folder, std::string_view name) {
    return user_folder / ("layout-" + file_name(name));
}

} // namespace refreshlab::ui
