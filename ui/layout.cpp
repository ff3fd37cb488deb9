#include "ui/layout.h"

#include "engine/base/json_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <optional>

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

// --- fitting to a window ---

using Extent = std::array<float, 2>; // x, y
constexpr float unbounded = std::numeric_limits<float>::infinity();

/// What the contents of a panel need and can use, in ems, tabs and padding included. Found by looking at each at 75 to
/// 300 %: below, words are cut.
struct Need {
    std::string_view panel;
    Extent least, most;
};
constexpr Need needs[] = {
    {"Text", {15, 10}, {unbounded, unbounded}},
    {"Signals", {26, 17}, {unbounded, unbounded}},
    {"Policy", {17, 10}, {30, unbounded}},
    {"Sampling", {17, 10}, {30, unbounded}},
    {"Attention", {17, 12}, {unbounded, unbounded}},
    {"Cache", {13, 12}, {unbounded, unbounded}},
    {"Performance", {11, 10}, {unbounded, unbounded}},
    {"Timeline", {20, 5}, {unbounded, 8}},
};

struct DockNode {
    std::string line; ///< as it stood in the file
    Extent size{};    ///< as it stood, then as it is to be
    char split = 0;   ///< X, Y; 0: a leaf with tabs
    std::vector<std::string> children;
    Extent least{1, 1}, most{unbounded, unbounded};
};
using DockTree = std::map<std::string, DockNode, std::less<>>; // by id, as written

/// The value of "Key=value" in a line; empty when it is not there.
std::string_view field(std::string_view line, std::string_view key) {
    for (size_t at = line.find(key); at != std::string_view::npos; at = line.find(key, at + 1)) {
        const bool whole = at > 0 && line[at - 1] == ' ' && line.substr(at + key.size()).starts_with('=');
        if (!whole) continue;
        std::string_view value = line.substr(at + key.size() + 1);
        return value.substr(0, std::min(value.find(' '), value.size()));
    }
    return {};
}

std::optional<Extent> parse_extent(std::string_view text) {
    const size_t comma = text.find(',');
    int x = 0, y = 0;
    if (comma == std::string_view::npos) return std::nullopt;
    const char* end = text.data() + text.size();
    if (std::from_chars(text.data(), text.data() + comma, x).ptr != text.data() + comma ||
        std::from_chars(text.data() + comma + 1, end, y).ptr != end || x < 1 || y < 1)
        return std::nullopt;
    return Extent{static_cast<float>(x), static_cast<float>(y)};
}

void sum_needs(DockTree& tree, DockNode& node) {
    if (node.children.empty()) return;
    const size_t along = node.split == 'X' ? 0 : 1, across = 1 - along;
    node.least = {0, 0};
    node.most = {0, 0};
    for (const std::string& id : node.children) {
        DockNode& child = tree.find(id)->second;
        sum_needs(tree, child);
        node.least[along] += child.least[along];
        node.most[along] += child.most[along];
        node.least[across] = std::max(node.least[across], child.least[across]);
        node.most[across] = std::max(node.most[across], child.most[across]);
    }
}

void share_out(DockTree& tree, DockNode& node, Extent size) {
    if (node.children.size() != 2) {
        node.size = size;
        return;
    }
    DockNode &a = tree.find(node.children[0])->second, &b = tree.find(node.children[1])->second;
    const size_t along = node.split == 'X' ? 0 : 1;
    const float all = size[along];
    float share = all * a.size[along] / (a.size[along] + b.size[along]);
    if (a.least[along] + b.least[along] > all) {
        share = all * a.least[along] / (a.least[along] + b.least[along]);
    } else {
        share = std::min(share, a.most[along]);
        share = std::max(share, all - b.most[along]);
        share = std::clamp(share, a.least[along], all - b.least[along]);
    }
    Extent first = size, second = size;
    first[along] = std::round(share);
    second[along] = all - first[along];
    share_out(tree, a, first);
    share_out(tree, b, second);
    node.size = size;
}

std::vector<std::string> split_lines(const std::string& text) {
    std::vector<std::string> lines;
    for (size_t at = 0; at < text.size();) {
        const size_t end = std::min(text.find('\n', at), text.size());
        lines.push_back(text.substr(at, end - at));
        at = end + 1;
    }
    return lines;
}

} // namespace

std::string fit_layout(const std::string& ini, float width, float height, float em) {
    DockTree tree;
    std::string root, panel;
    std::map<std::string, std::vector<std::string>> tabs; // of a dock node
    const std::vector<std::string> lines = split_lines(ini);
    for (const std::string& line : lines) {
        if (line.starts_with("[Window][")) panel = line.substr(9, line.size() - 10);
        if (line.starts_with("DockId="))
            tabs[line.substr(7, std::min(line.find(','), line.size()) - 7)].push_back(panel);
        const bool space = line.starts_with("DockSpace ");
        const size_t text = line.find_first_not_of(' ');
        const bool inner = text != std::string::npos && line.compare(text, 9, "DockNode ") == 0;
        if (!space && !inner) continue;
        const std::string id(field(line, "ID"));
        const auto size = parse_extent(field(line, space ? "Size" : "SizeRef"));
        const std::string_view split = field(line, "Split");
        if (id.empty() || !size) return ini;
        tree[id] = {line, *size, split.empty() ? '\0' : split[0], {}, {1, 1}, {unbounded, unbounded}};
        if (space) {
            root = id;
        } else {
            const auto parent = tree.find(field(line, "Parent"));
            if (parent == tree.end()) return ini;
            parent->second.children.push_back(id);
        }
    }
    if (root.empty()) return ini;
    for (auto& [id, node] : tree) {
        if (!node.children.empty() && (node.children.size() != 2 || node.split == 0)) return ini;
        for (const std::string& title : tabs[id]) {
            const auto* need = std::ranges::find(needs, title, &Need::panel);
            if (need == std::end(needs)) continue;
            for (const size_t axis : {0U, 1U}) {
                node.least[axis] = std::max(node.least[axis], need->least[axis] * em);
                node.most[axis] = std::min(node.most[axis], need->most[axis] * em);
            }
        }
    }
    sum_needs(tree, tree.find(root)->second);
    share_out(tree, tree.find(root)->second, {width, height});
    std::string text;
    for (const std::string& line : lines) {
        const auto node =
            std::ranges::find_if(tree, [&](const auto& entry) { return entry.second.line == line; });
        std::string fitted = line;
        if (node != tree.end()) {
            const std::string_view old = field(line, node->first == root ? "Size" : "SizeRef");
            const Extent& size = node->second.size;
            fitted.replace(static_cast<size_t>(old.data() - line.data()), old.size(),
                           fmt::format("{:.0f},{:.0f}", size[0], size[1]));
        }
        text.append(fitted).push_back('\n');
    }
    return text;
}

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
