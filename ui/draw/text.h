#pragma once

#include "ui/base/colour.h"

#include <imgui.h>

#include <cmath>
#include <string>

namespace refreshlab::ui {

/// Width in the present font, pixels.
[[nodiscard]] inline float text_width(const std::string& text) {
    return ImGui::CalcTextSize(text.data(), text.data() + text.size()).x;
}

/// Paints on whole pixels, so that the text is sharp.
inline void text_at(ImDrawList* list, ImVec2 at, Colour colour, const std::string& text) {
    list->AddText(ImVec2(std::round(at.x), std::round(at.y)), colour, text.data(), text.data() + text.size());
}

/// As much of the text from its beginning as the width has room for, with "..." where something is missing.
[[nodiscard]] std::string shortened(const std::string& text, float width);

} // namespace refreshlab::ui
