#pragma once

#include <imgui.h>

#include <filesystem>
#include <string>
#include <vector>

namespace refreshlab::ui {

/// The window's typefaces. Use PushFont(fonts.medium, 0) for emphasis (0 keeps the size) and
/// PushFont(nullptr, style.FontSizeBase * k) for another size; never GetFontSize(), which would scale twice.
struct Fonts {
    ImFont* regular = nullptr; ///< Roboto, then DejaVu Sans, then a CJK font of the system
    ImFont* medium = nullptr;  ///< headings, numbers that matter
    ImFont* mono = nullptr;    ///< raw bytes, JSON, paths
};

/// Adds the fonts to the atlas, sized at draw time (ImGui >= 1.92: no glyph ranges, sharp at every scale). A font file
/// that is missing is replaced by ImGui's own, and `problems` gets one line for each. Cost: reading 2 MB.
[[nodiscard]] Fonts load_fonts(const std::filesystem::path& assets, std::vector<std::string>& problems);

} // namespace refreshlab::ui
