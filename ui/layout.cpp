#include "ui/layout.h"

#include "engine/base/json_file.h"

#include <algorithm>
#include <cctype>

namespace refreshlab::ui {

namespace {

constexpr std::string_view section = "[RefreshLab][Panels]";
constexpr std::string_view open_key = "Open=";

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
        if (!line.starts_with(open_key)) continue;
        line.remove_prefix(open_key.size());
        while (!line.empty()) {
            const size_t comma = std::min(line.find(','), line.size());
            if (comma > 0) layout.open_panels.emplace_back(line.substr(0, comma));
            line.remove_prefix(std::min(comma + 1, line.size()));
        }
    }
    return layout;
}

std::string layout_text(const Layout& layout) {
    std::string text(section);
    text.append("\n").append(open_key);
    for (size_t i = 0; i < layout.open_panels.size(); ++i)
        text.append(i ? "," : "").append(layout.open_panels[i]);
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
