#include "ui/draw/colour_bar.h"

#include "ui/base/format.h"

#include <fmt/format.h>
#include <implot.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

namespace refreshlab::ui {

namespace {

/// What stands at both ends. A floor is short; the two ends of a signed scale are one number.
std::pair<std::string, std::string> end_labels(const ColourScale& scale, std::string_view unit) {
    return {scale.min < 0 ? three_digits(scale.min) : fmt::format("{:.2g}", scale.min),
            unit.empty() ? three_digits(scale.max)
                         : fmt::format("{} {}", three_digits(scale.max), shown_unit(unit))};
}

} // namespace

void draw_fitting_colour_bar(const char* id, const ColourScale& scale, float most, std::string_view unit) {
    const auto [low, high] = end_labels(scale, unit);
    const float em = ImGui::GetFontSize(), line = ImGui::GetFrameHeight(),
                gap = ImGui::GetStyle().ItemInnerSpacing.x;
    const float low_width = ImGui::CalcTextSize(low.c_str()).x,
                high_width = ImGui::CalcTextSize(high.c_str()).x;
    const float labels = low_width + high_width + 2 * gap, shortest = 2 * em;
    if (ImGui::GetContentRegionAvail().x < labels + shortest) ImGui::NewLine();
    const float width =
        std::clamp(ImGui::GetContentRegionAvail().x - labels, shortest, std::max(shortest, most));
    const ImVec2 at = ImGui::GetCursorScreenPos();
    ImDrawList* list = ImGui::GetWindowDrawList();
    const float text_y = at.y + (line - ImGui::GetTextLineHeight()) * 0.5F;
    const ImU32 text = ImGui::GetColorU32(ImGuiCol_TextDisabled);
    list->AddText(ImVec2(at.x, text_y), text, low.c_str());
    const float x0 = at.x + low_width + gap, height = std::round(em * 0.75F);
    const float y0 = std::round(at.y + (line - height) * 0.5F);
    const int pieces = std::max(2, std::min(64, static_cast<int>(width)));
    for (int i = 0; i < pieces; ++i) {
        const float a = std::round(width * static_cast<float>(i) / static_cast<float>(pieces));
        const float b = std::round(width * static_cast<float>(i + 1) / static_cast<float>(pieces));
        list->AddRectFilled(ImVec2(x0 + a, y0), ImVec2(x0 + b, y0 + height),
                            scale.colour((static_cast<double>(i) + 0.5) / pieces));
    }
    list->AddText(ImVec2(x0 + width + gap, text_y), text, high.c_str());
    ImGui::PushID(id);
    ImGui::InvisibleButton("bar", ImVec2(labels + width, line));
    if (ImGui::IsItemHovered()) {
        const double f = std::clamp(static_cast<double>((ImGui::GetIO().MousePos.x - x0) / width), 0.0, 1.0);
        ImGui::SetTooltip("%s %s%s", three_digits(scale.value_at(f)).c_str(), shown_unit(unit).c_str(),
                          scale.log ? " (logarithmic)" : "");
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
