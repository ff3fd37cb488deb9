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

void text_upward(ImDrawList* list, ImVec2 at, Colour colour, const std::string& text) {
    // Dear ImGui draws only from left to right: written at the screen's corner, where nothing of it is clipped, then turned.
    const ImVec2 corner = ImGui::GetMainViewport()->Pos, low = list->GetClipRectMin(),
                 high = list->GetClipRectMax();
    const float width = text_width(text), height = ImGui::GetTextLineHeight();
    at = ImVec2(std::round(at.x), std::round(at.y));
    // Whole or not at all: what is turned would not be clipped.
    if (at.x < low.x || at.x + height > high.x || at.y > high.y || at.y - width < low.y) return;
    list->PushClipRectFullScreen();
    const int first = list->VtxBuffer.Size;
    list->AddText(corner, colour, text.data(), text.data() + text.size());
    for (int i = first; i < list->VtxBuffer.Size; ++i) {
        ImVec2& p = list->VtxBuffer[i].pos;
        p = ImVec2(at.x + (p.y - corner.y), at.y - (p.x - corner.x));
    }
    list->PopClipRect();
}

} // namespace refreshlab::ui
