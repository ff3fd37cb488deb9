#pragma once

#include "ui/state/places.h"

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace refreshlab::ui {

/// Bundled layouts, in menu order.
[[nodiscard]] const std::vector<std::string>& layout_names();
/// Its places, drawn up for 1600 x 1000. A name that is not listed gets the first layout's.
[[nodiscard]] const Place& bundled_layout(std::string_view name);

/// How a person has arranged the panels of a layout: a text in Dear ImGui's settings format, which has floating windows as well, with
/// one section of ours on top that lists the open panels and those in front of their tabs ("[RefreshLab][Panels]" /
/// "Open=Text,Policy,Sampling" / "Front=Text,Policy"). Dear ImGui skips sections that it does not know.
struct Arrangement {
    std::vector<std::string> open_panels;
    std::vector<std::string>
        front_panels; ///< the selected tab of each group; panels that stand alone may be here too
    std::string ini;  ///< what Dear ImGui reads
};
/// Throws Error{bad_input} naming the file.
[[nodiscard]] Arrangement read_arrangement(const std::filesystem::path& file);
/// Splits one text into the two parts. A text without our section opens nothing and is kept as it is.
[[nodiscard]] Arrangement parse_arrangement(std::string_view text);
[[nodiscard]] std::string arrangement_text(const Arrangement& arrangement);
/// The file of the person's own arrangement of that layout.
[[nodiscard]] std::filesystem::path arrangement_file(const std::filesystem::path& user_folder,
                                                     std::string_view layout);

} // namespace refreshlab::ui
