#include "ui/state/layout.h"

#include "engine/base/json_file.h"

#include <algorithm>
#include <cctype>
#include <utility>

namespace refreshlab::ui {

namespace {

constexpr std::string_view section = "[RefreshLab][Panels]";
constexpr std::string_view open_key = "Open=", front_key = "Front=";

/// In pixels as the layouts were drawn up; shares say the same for every size.
Place left_of(float left, float right, Place a, Place b) {
    return beside(left / (left + right), std::move(a), std::move(b));
}
Place above(float upper, float lower, Place a, Place b) {
    return stacked(upper / (upper + lower), std::move(a), std::move(b));
}

Place controls() {
    return tabs({"Policy", "Sampling", "Measure", "Inspector"});
}
/// Everything but the Timeline stands above it.
Place over_timeline(Place rest) {
    return above(828, 96, std::move(rest), tabs({"Timeline"}));
}

Place explore() {
    Place upper = left_of(420, 836, tabs({"Text"}), tabs({"Signals"}));
    Place right = left_of(372, 324, tabs({"Cache"}), tabs({"Performance", "Distribution", "Events", "Log"}));
    Place lower = left_of(560, 696, tabs({"Attention", "Landscape", "Runs", "Notes"}), std::move(right));
    return over_timeline(left_of(1256, 344, above(500, 328, std::move(upper), std::move(lower)), controls()));
}

Place tune() {
    Place lower = left_of(720, 516, tabs({"Text"}),
                          tabs({"Distribution", "Runs", "Performance", "Events", "Notes", "Log"}));
    return over_timeline(
        left_of(1236, 364, above(600, 228, tabs({"Signals"}), std::move(lower)), controls()));
}

Place present() {
    return left_of(620, 980, tabs({"Text"}), tabs({"Signals"}));
}

Place landscape() {
    Place lower = left_of(420, 816, tabs({"Text"}), tabs({"Signals"}));
    return over_timeline(
        left_of(1236, 364, above(540, 288, tabs({"Landscape"}), std::move(lower)), controls()));
}

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

/// Name and places; the order is the menu's.
const std::vector<std::pair<std::string, Place>>& layouts() {
    static const std::vector<std::pair<std::string, Place>> all = {
        {"Explore", explore()}, {"Tune", tune()}, {"Present", present()}, {"Landscape", landscape()}};
    return all;
}

} // namespace

const std::vector<std::string>& layout_names() {
    static const std::vector<std::string> names = [] {
        std::vector<std::string> list;
        for (const auto& [name, place] : layouts())
            list.push_back(name);
        return list;
    }();
    return names;
}

const Place& bundled_layout(std::string_view name) {
    for (const auto& [known, place] : layouts())
        if (known == name) return place;
    return layouts().front().second;
}

Arrangement parse_arrangement(std::string_view text) {
    Arrangement arrangement;
    bool ours = false;
    while (!text.empty()) {
        const size_t end = std::min(text.find('\n'), text.size());
        std::string_view line = text.substr(0, end);
        text.remove_prefix(std::min(end + 1, text.size()));
        if (line.ends_with('\r')) line.remove_suffix(1);
        if (line.starts_with('[')) ours = line == section;
        if (!ours) {
            arrangement.ini.append(line).push_back('\n');
            continue;
        }
        if (line.starts_with(open_key)) arrangement.open_panels = split_list(line.substr(open_key.size()));
        if (line.starts_with(front_key)) arrangement.front_panels = split_list(line.substr(front_key.size()));
    }
    return arrangement;
}

std::string arrangement_text(const Arrangement& arrangement) {
    std::string text(section);
    text.append("\n").append(open_key).append(joined(arrangement.open_panels));
    if (!arrangement.front_panels.empty())
        text.append("\n").append(front_key).append(joined(arrangement.front_panels));
    return text.append("\n\n").append(arrangement.ini);
}

Arrangement read_arrangement(const std::filesystem::path& file) {
    return parse_arrangement(read_file(file, 1 << 20));
}

std::filesystem::path arrangement_file(const std::filesystem::path& user_folder, std::string_view layout) {
    std::string lower(layout);
    std::ranges::transform(lower, lower.begin(),
                           [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return user_folder / ("layout-" + lower + ".ini");
}

} // namespace refreshlab::ui
