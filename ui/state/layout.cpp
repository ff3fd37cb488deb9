#include "ui/state/layout.h"

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
constexpr std::string_view open_key = "Open=", front_key = "Front=", dock_key = "DockId=";

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
/// 300 %: below, words are cut. In order of importance: of panels of one size that come to share a place the first one is in front.
struct Need {
    std::string_view panel;
    Extent least, most;
};
constexpr Need needs[] = {
    {"Signals", {26, 17}, {unbounded, unbounded}},
    {"Text", {15, 10}, {unbounded, unbounded}},
    {"Policy", {17, 10}, {30, unbounded}},
    {"Sampling", {17, 10}, {30, unbounded}},
    {"Measure", {17, 10}, {30, unbounded}},
    {"Inspector", {15, 10}, {30, unbounded}},
    {"Landscape", {17, 12}, {unbounded, unbounded}},
    {"Attention", {17, 12}, {unbounded, unbounded}},
    {"Cache", {13, 12}, {unbounded, unbounded}},
    {"Distribution", {17, 12}, {unbounded, unbounded}},
    {"Events", {11, 10}, {unbounded, unbounded}},
    {"Runs", {13, 10}, {unbounded, unbounded}},
    {"Performance", {11, 10}, {unbounded, unbounded}},
    {"Timeline", {20, 5}, {unbounded, 8}},
};

/// What panels put up with before two of them share a place instead: narrower ones shorten their words, but a lower one
/// soon has no room for its map.
constexpr Extent squeeze{0.9F, 0.97F};

struct DockNode {
    std::string line; ///< as it stood in the file
    Extent size{};    ///< as it stood, then as it is to be
    char split = 0;   ///< X, Y; 0: a leaf with tabs
    std::vector<std::string> children;
    std::vector<std::string> tabs; ///< titles of a leaf's panels, in order
    Extent least{1, 1}, most{unbounded, unbounded};
    Extent folded{1, 1}; ///< least when all of it shares one place
    bool gone = false;   ///< its panels are in another node now
};
using DockTree = std::map<std::string, DockNode, std::less<>>; // by id, as written

/// The dock node of "DockId=0x52460005,0".
std::string_view docked_in(std::string_view line) {
    line.remove_prefix(dock_key.size());
    return line.substr(0, std::min(line.find(','), line.size()));
}

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

/// Needs of a leaf from its panels, of a split from its two halves.
void sum_needs(DockTree& tree, DockNode& node, float em) {
    node.least = {1, 1};
    Extent most{0, 0}; // what the widest of them can use
    for (const std::string& title : node.tabs) {
        const auto* need = std::ranges::find(needs, title, &Need::panel);
        if (need == std::end(needs)) continue;
        for (const size_t axis : {0U, 1U}) {
            node.least[axis] = std::max(node.least[axis], need->least[axis] * em);
            most[axis] = std::max(most[axis], need->most[axis] * em);
        }
    }
    for (const size_t axis : {0U, 1U})
        node.most[axis] = most[axis] > 0 ? most[axis] : unbounded;
    node.folded = node.least;
    if (node.children.empty()) return;
    const size_t along = node.split == 'X' ? 0 : 1, across = 1 - along;
    node.least = node.most = {0, 0};
    for (const std::string& id : node.children) {
        DockNode& child = tree.find(id)->second;
        sum_needs(tree, child, em);
        node.least[along] += child.least[along];
        node.most[along] += child.most[along];
        node.least[across] = std::max(node.least[across], child.least[across]);
        node.most[across] = std::max(node.most[across], child.most[across]);
        for (const size_t axis : {0U, 1U})
            node.folded[axis] = std::max(node.folded[axis], child.folded[axis]);
    }
}

/// The leaf below `node` that the file makes smallest: what has to give way goes there, and the large panels stay alone.
std::string smallest_leaf(const DockTree& tree, const std::string& id) {
    const DockNode& node = tree.find(id)->second;
    if (node.children.empty()) return id;
    const std::string a = smallest_leaf(tree, node.children[0]), b = smallest_leaf(tree, node.children[1]);
    const auto area = [&](const std::string& leaf) {
        const Extent& size = tree.find(leaf)->second.size;
        return size[0] * size[1];
    };
    return area(a) <= area(b) ? a : b;
}

void take_tabs(DockTree& tree, const std::string& from, std::vector<std::string>& tabs) {
    DockNode& node = tree.find(from)->second;
    for (const std::string& child : node.children)
        take_tabs(tree, child, tabs);
    tabs.insert(tabs.end(), node.tabs.begin(), node.tabs.end());
    node.gone = true;
}

/// One half of a split goes into a leaf of the other, whose place the node takes.
void fold(DockTree& tree, DockNode& node) {
    const size_t along = node.split == 'X' ? 0 : 1;
    const bool first =
        tree.find(node.children[0])->second.size[along] >= tree.find(node.children[1])->second.size[along];
    const std::string kept = node.children[first ? 0 : 1], dropped = node.children[first ? 1 : 0];
    const std::string leaf = smallest_leaf(tree, kept);
    take_tabs(tree, dropped, tree.find(leaf)->second.tabs);
    DockNode& stays = tree.find(kept)->second;
    stays.gone = true;
    node.split = stays.split;
    node.children = stays.children;
    node.tabs = stays.tabs;
}

/// Makes panels share places until what is left beside each other fits, each node into its `size`.
void fold_to_fit(DockTree& tree, DockNode& node, Extent size, float em, bool is_root) {
    while (!node.children.empty()) {
        const size_t along = node.split == 'X' ? 0 : 1;
        DockNode &a = tree.find(node.children[0])->second, &b = tree.find(node.children[1])->second;
        sum_needs(tree, node, em);
        // Halves that would fit if each were one place: then they stay beside each other and fold inside.
        if (!is_root && (a.folded[along] + b.folded[along]) * squeeze[along] > size[along]) {
            fold(tree, node);
            continue;
        }
        const float all = size[along];
        const bool whole = a.least[along] + b.least[along] <= all;
        const float least_a = whole ? a.least[along] : a.folded[along],
                    least_b = whole ? b.least[along] : b.folded[along];
        const float wanted = all * a.size[along] / (a.size[along] + b.size[along]);
        const float share = least_a + least_b > all ? all * least_a / (least_a + least_b)
                                                    : std::clamp(wanted, least_a, all - least_b);
        Extent first = size, second = size;
        first[along] = share;
        second[along] = all - share;
        fold_to_fit(tree, a, first, em, false);
        fold_to_fit(tree, b, second, em, false);
        break;
    }
    sum_needs(tree, node, em);
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

/// The area that the file gives to a panel: what a layout is about has the largest.
using Areas = std::map<std::string, float, std::less<>>;
Areas areas_of(const DockTree& tree) {
    Areas areas;
    for (const auto& [id, node] : tree) {
        for (const std::string& title : node.tabs)
            areas[title] = node.size[0] * node.size[1];
    }
    return areas;
}

/// Of panels that share a place one is in front: of those that were the largest, of equal ones the most important.
std::vector<std::string> front_of_each(const DockTree& tree, const Areas& areas,
                                       const std::vector<std::string>& front) {
    const auto rank = [&](const std::string& title) {
        const auto area = areas.find(title);
        return std::pair(area == areas.end() ? 0.0F : -area->second,
                         std::ranges::find(needs, title, &Need::panel) - std::begin(needs));
    };
    std::vector<std::string> chosen = front;
    for (const auto& [id, node] : tree) {
        if (node.gone) continue;
        std::string best;
        for (const std::string& title : node.tabs) {
            const bool was = std::ranges::find(front, title) != front.end();
            if (was && (best.empty() || rank(title) < rank(best))) best = title;
        }
        std::erase_if(chosen, [&](const std::string& title) {
            return title != best && std::ranges::find(node.tabs, title) != node.tabs.end();
        });
    }
    return chosen;
}

/// The text with the tree's sizes, and with its places where panels were folded.
std::string rewritten(const std::vector<std::string>& lines, const DockTree& tree, const std::string& root) {
    std::map<std::string, std::string, std::less<>> parents, places; // of a node; of a panel
    for (const auto& [id, node] : tree) {
        if (node.gone) continue;
        for (const std::string& child : node.children)
            parents[child] = id;
        for (size_t i = 0; i < node.tabs.size(); ++i)
            places[node.tabs[i]] = fmt::format("{}{},{}", dock_key, id, i);
    }
    std::string text, panel;
    for (const std::string& line : lines) {
        if (line.starts_with("[Window][")) panel = line.substr(9, line.size() - 10);
        const auto place = places.find(panel);
        std::string fitted = line.starts_with(dock_key) && place != places.end() ? place->second : line;
        const auto found =
            std::ranges::find_if(tree, [&](const auto& entry) { return entry.second.line == line; });
        if (found != tree.end()) {
            const auto& [id, node] = *found;
            if (node.gone) continue;
            const auto replace = [&](std::string_view key, const std::string& value) {
                const std::string_view old = field(fitted, key);
                if (!old.empty())
                    fitted.replace(static_cast<size_t>(old.data() - fitted.data()), old.size(), value);
            };
            replace(id == root ? "Size" : "SizeRef",
                    fmt::format("{:.0f},{:.0f}", node.size[0], node.size[1]));
            if (const auto parent = parents.find(id); parent != parents.end())
                replace("Parent", parent->second);
            if (node.split != 0)
                replace("Split", std::string(1, node.split));
            else if (const size_t split = fitted.find(" Split="); split != std::string::npos)
                fitted.erase(split, 8);
        }
        text.append(fitted).push_back('\n');
    }
    return text;
}

struct Docking {
    DockTree tree;
    std::string root;
};

/// Nothing where there is no docking in the text, or one that is not understood.
std::optional<Docking> parse_docking(const std::vector<std::string>& lines) {
    Docking docking;
    std::string panel;
    std::map<std::string, std::vector<std::string>> tabs; // of a dock node
    for (const std::string& line : lines) {
        if (line.starts_with("[Window][")) panel = line.substr(9, line.size() - 10);
        if (line.starts_with(dock_key)) tabs[std::string(docked_in(line))].push_back(panel);
        const bool space = line.starts_with("DockSpace ");
        const size_t text = line.find_first_not_of(' ');
        const bool inner = text != std::string::npos && line.compare(text, 9, "DockNode ") == 0;
        if (!space && !inner) continue;
        const std::string id(field(line, "ID"));
        const auto size = parse_extent(field(line, space ? "Size" : "SizeRef"));
        const std::string_view split = field(line, "Split");
        if (id.empty() || !size) return std::nullopt;
        DockNode& node = docking.tree[id];
        node.line = line;
        node.size = *size;
        node.split = split.empty() ? '\0' : split[0];
        if (space) {
            docking.root = id;
        } else {
            const auto parent = docking.tree.find(field(line, "Parent"));
            if (parent == docking.tree.end()) return std::nullopt;
            parent->second.children.push_back(id);
        }
    }
    if (docking.root.empty()) return std::nullopt;
    for (auto& [id, node] : docking.tree) {
        if (!node.children.empty() && (node.children.size() != 2 || node.split == 0)) return std::nullopt;
        node.tabs = tabs[id];
    }
    return docking;
}

/// What the first half of a split has of it, 0 .. 1.
float first_share(const DockTree& tree, const DockNode& node) {
    const size_t along = node.split == 'X' ? 0 : 1;
    const float a = tree.find(node.children[0])->second.size[along],
                b = tree.find(node.children[1])->second.size[along];
    return a / (a + b);
}

/// A border that was dragged moves by more; rounding to pixels moves it by less.
constexpr float moved_share = 0.02F;

} // namespace

Layout fit_layout(const Layout& layout, float width, float height, float em) {
    const std::vector<std::string> lines = split_lines(layout.ini);
    auto docking = parse_docking(lines);
    if (!docking) return layout;
    auto& [tree, root] = *docking;
    const Areas areas = areas_of(tree);
    fold_to_fit(tree, tree.find(root)->second, {width, height}, em, true);
    share_out(tree, tree.find(root)->second, {width, height});
    return {layout.open_panels, front_of_each(tree, areas, layout.front_panels),
            rewritten(lines, tree, root)};
}

Layout keep_front(const Layout& layout, const std::vector<std::string>& drawn) {
    Layout kept = layout;
    const auto docking = parse_docking(split_lines(layout.ini));
    if (!docking) return kept;
    const auto was_drawn = [&](const std::string& title) {
        return std::ranges::find(drawn, title) != drawn.end();
    };
    for (const auto& [id, node] : docking->tree) {
        const auto chosen = std::ranges::find_if(node.tabs, was_drawn);
        if (chosen == node.tabs.end()) continue; // folded behind another panel: nobody chose here
        const auto named = std::ranges::find_if(kept.front_panels, [&](const std::string& title) {
            return std::ranges::find(node.tabs, title) != node.tabs.end();
        });
        if (named != kept.front_panels.end() && !was_drawn(*named)) *named = *chosen;
    }
    return kept;
}

bool same_arrangement(const std::string& a, const std::string& b) {
    const auto first = parse_docking(split_lines(a)), second = parse_docking(split_lines(b));
    if (!first || !second || first->tree.size() != second->tree.size()) return false;
    return std::ranges::all_of(first->tree, [&](const auto& entry) {
        const auto other = second->tree.find(entry.first);
        if (other == second->tree.end()) return false;
        const DockNode &x = entry.second, &y = other->second;
        if (x.split != y.split || x.children != y.children) return false;
        if (!std::ranges::is_permutation(x.tabs, y.tabs)) return false;
        return x.children.empty() ||
               std::abs(first_share(first->tree, x) - first_share(second->tree, y)) < moved_share;
    });
}

const std::vector<std::string>& layout_names() {
    static const std::vector<std::string> names = {"Explore", "Tune", "Present", "Landscape"};
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
