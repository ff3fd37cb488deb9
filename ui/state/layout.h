#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace refreshlab::ui {

/// Docking layouts as text: Dear ImGui's settings format, with one section of ours on top that lists the open panels
/// and those in front of their tabs ("[RefreshLab][Panels]" / "Open=Text,Policy,Sampling" / "Front=Text,Policy"). Dear ImGui skips sections that it does not know. No ImGui in here.

/// Bundled layouts, in menu order; each is assets/layouts/<name in lower case>.ini, drawn up for 1600 x 1000.
[[nodiscard]] const std::vector<std::string>& layout_names();

struct Layout {
    std::vector<std::string> open_panels;
    std::vector<std::string>
        front_panels; ///< the selected tab of each group; panels that stand alone may be here too
    std::string ini;  ///< what Dear ImGui reads
};
/// Throws Error{bad_input} naming the file.
[[nodiscard]] Layout read_layout(const std::filesystem::path& file);
/// Splits one text into the two parts. A text without our section opens nothing and is kept as it is.
[[nodiscard]] Layout parse_layout(std::string_view text);
[[nodiscard]] std::string layout_text(const Layout& layout);
/// Fits the docked panels to a window of this size. They keep the shares of the file, but no panel gets narrower or
/// lower than its contents need (Policy's cards, the Timeline's strip), nor wider than they can use. Where the needs do
/// not fit beside each other, not even with a little less, panels share a place as tabs. Then the panels of the smaller
/// half of a split join the smallest panel of the other half, and the largest front panel stays in front. Text
/// in, text out: Dear ImGui then only reads sizes and places. A text without docking, or with docking that is not
/// understood, is returned as it is.
/// \param width, height  of the dock space, pixels; em: font size, pixels
[[nodiscard]] Layout fit_layout(const Layout& layout, float width, float height, float em);
/// The layout with the front tabs that a person has chosen since it was put up: a panel that was drawn takes the place
/// of the one that the layout names.
/// \param drawn  panels that were in front
[[nodiscard]] Layout keep_front(const Layout& layout, const std::vector<std::string>& drawn);
/// True when nobody has moved a panel between these two texts of Dear ImGui: the same places with the same tabs, and
/// the same shares up to rounding. False where one of them has no docking. Which panels are open is not in these texts.
[[nodiscard]] bool same_arrangement(const std::string& a, const std::string& b);
/// The bundled file of a layout.
[[nodiscard]] std::filesystem::path bundled_layout(const std::filesystem::path& assets,
                                                   std::string_view name);
/// The person's own arrangement of that layout.
[[nodiscard]] std::filesystem::path user_layout(const std::filesystem::path& user_folder,
                                                std::string_view name);

} // namespace refreshlab::ui
