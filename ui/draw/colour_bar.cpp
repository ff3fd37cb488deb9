#include "ui/draw/colour_bar.h"

#include "ui/scene/text/token_colours.h"

#include <fmt/format.h>
#include <implot.h>

#include <algorithm>
#include <cmath>

namespace refreshlab::ui {

void draw_colour_bar(const char* id, const ColourScale& scale, float width, std::string_view unit,
                     const TokenColours* tokens) {
    // A floor is short; the two ends of a signed scale are one number.
    const std::string low = scale.min < 0 ? three_digits(scale.min) : fmt::format("{:.2g}", scale.min);
    const std::string high =
        unit.empty() ? three_digits(scale.max) : fmt::format("{} {}", three_digits(scale.max), unit);
    const float line = ImGui::GetFrameHeight(), gap = ImGui::GetStyle().ItemInnerSpacing.x;
    const float low_width = ImGui::CalcTextSize(low.c_str()).x,
                high_width = ImGui::CalcTextSize(high.c_str()).x;
    const ImVec2 at = ImGui::GetCursorScreenPos();
    ImDrawList* list = ImGui::GetWindowDrawList();
    const float text_y = at.y + (line - ImGui::GetTextLineHeight()) * 0.5F;
    const ImU32 text = ImGui::GetColorU32(ImGuiCol_TextDisabled);
    list->AddText(ImVec2(at.x, text_y), text, low.c_str());
    const float x0 = at.x + low_width + gap, height = std::round(ImGui::GetFontSize() * 0.75F);
    const float y0 = std::round(at.y + (line - height) * 0.5F);
    const int pieces = std::max(2, std::min(64, static_cast<int>(width)));
    for (int i = 0; i < pieces; ++i) {
        const float a = std::round(width * static_cast<float>(i) / static_cast<float>(pieces));
        const float b = std::round(width * static_cast<float>(i + 1) / static_cast<float>(pieces));
        const double fraction = (static_cast<double>(i) + 0.5) / pieces;
        const ImU32 colour = tokens ? tokens->at(fraction).background : scale.colour(fraction);
        list->AddRectFilled(ImVec2(x0 + a, y0), ImVec2(x0 + b, y0 + height), colour);
        if (tokens) // as under a token
            list->AddRectFilled(ImVec2(x0 + a, y0 + height), ImVec2(x0 + b, y0 + height + token_underline),
                                tokens->at(fraction).underline);
    }
    list->AddText(ImVec2(x0 + width + gap, text_y), text, high.c_str());
    ImGui::PushID(id);
    ImGui::InvisibleButton("bar", ImVec2(low_width + gap + width + gap + high_width, line));
    if (ImGui::IsItemHovered()) {
        const double f = std::clamp(static_cast<double>((ImGui::GetIO().MousePos.x - x0) / width), 0.0, 1.0);
        ImGui::SetTooltip("%s %.*s%s", three_digits(scale.value_at(f)).c_str(), static_cast<int>(unit.size()),
                          unit.data(), scale.log ? " (logarithmic)" : "");
    }
    ImGui::PopID();
}

int implot_colour_map(std::string_view name) {
    const auto colours = colour_map(name);
    const std::string own_name =
        fmt::format("refreshlab {}", name); // ImPlot has coarser maps called "Viridis", "RdBu"
    const ImPlotColormap known = ImPlot::GetColormapIndex(own_name.c_str());
    if (known >= 0) return known;
    return ImPlot::AddColormap(own_name.c_str(), colours.data(), static_cast<int>(colours.size()), false);
}

} // namespace refreshlab::ui
