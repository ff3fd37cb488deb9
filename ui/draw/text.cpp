#include "ui/draw/text.h"

#include <algorithm>

namespace refreshlab::ui {

std::string shortened(const std::string& text, float width) {
    if (text_width(text) <= width) return text;
    const float dots = text_width("...");
    const char* end = text.data();
    ImGui::GetFont()->CalcTextSizeA(ImGui::GetFontSize(), std::max(width - dots, 0.0F), 0, text.data(),
                                    text.data() + text.size(), &end);
    return std::string(text.data(), end) + "...";
}

} // namespace refreshlab::ui
