#include "ui/context/style.h"

#include "engine/base/error.h"
#include "engine/base/json_file.h"
#include "ui/base/colour.h"

#include <fmt/format.h>
#include <implot.h>

#include <algorithm>
#include <type_traits>

namespace refreshlab::ui {

namespace {

static_assert(std::is_same_v<Colour, ImU32> && rgba(1, 2, 3, 4) == IM_COL32(1, 2, 3, 4));

/// Looks `name` up among the `count` style colours of a library; -1 when it has none of that name.
template <class NameOf>
int find_colour(const std::string& name, int count, NameOf name_of) {
    for (int i = 0; i < count; ++i)
        if (name == name_of(i)) return i;
    return -1;
}

void set_metrics(ImGuiStyle& style) {
    style.WindowPadding = {10, 8};
    style.WindowRounding = 0;
    style.WindowBorderSize = 0;
    style.WindowMenuButtonPosition = ImGuiDir_None; // the tab's own menu is enough; the arrow is noise
    style.ChildRounding = 4;
    style.ChildBorderSize = 1;
    style.PopupRounding = 6;
    style.PopupBorderSize = 1;
    style.FramePadding = {8, 4};
    style.FrameRounding = 4;
    style.FrameBorderSize = 0;
    style.ItemSpacing = {8, 6};
    style.ItemInnerSpacing = {6, 4};
    style.CellPadding = {6, 3};
    style.IndentSpacing = 16;
    style.ScrollbarSize = 11;
    style.ScrollbarRounding = 6;
    style.GrabMinSize = 10;
    style.GrabRounding = 3;
    style.TabRounding = 0;
    style.TabBorderSize = 0;
    style.TabBarBorderSize = 0;
    style.TabBarOverlineSize = 2;
    style.SeparatorTextBorderSize = 1;
    style.SeparatorTextPadding = {0, 3}; // headings of lists stand no further right than what they head
    style.DockingNodeHasCloseButton = false;
    style.DockingSeparatorSize = 3;
    style.HoverStationaryDelay = 0.10F;
    style.HoverDelayNormal = 0.35F;
}

void set_plot_metrics(ImPlotStyle& style, float scale) {
    const auto scaled = [scale](float x, float y) { return ImVec2(x * scale, y * scale); };
    style.PlotMinSize = scaled(80, 50);
    style.PlotBorderSize = 1;
    style.MinorAlpha = 0.4F;
    style.MajorTickLen = scaled(4, 4);
    style.MinorTickLen = scaled(2, 2);
    style.PlotPadding = scaled(6, 6);
    style.LabelPadding = scaled(5, 3);
    style.LegendPadding = scaled(6, 4);
    style.LegendInnerPadding = scaled(5, 3);
    style.LegendSpacing = scaled(8, 2);
    style.MousePosPadding = scaled(8, 6);
    style.AnnotationPadding = scaled(4, 2);
    style.FitPadding = ImVec2(0, 0.08F);
}

} // namespace

void apply_theme(const std::filesystem::path& assets, const Theme& theme, float scale) {
    const auto path = assets / "themes" / (theme.name + ".json");
    const nlohmann::json json = read_json_file(path, 1 << 20);
    const auto colours = [&](const char* section, int count, auto name_of, ImVec4* out) {
        const auto found = json.find(section);
        if (found == json.end() || !found->is_object())
            throw Error("reading a theme", path.string(), fmt::format("\"{}\" is missing", section));
        for (const auto& [field, value] : found->items()) {
            const int index = find_colour(field, count, name_of);
            if (index < 0 || !value.is_string())
                throw Error("reading a theme", path.string(),
                            fmt::format("{}.{} is no known colour", section, field));
            out[index] = ImGui::ColorConvertU32ToFloat4(parse_colour(
                value.template get<std::string>(), fmt::format("{}: {}.{}", path.string(), section, field)));
        }
    };

    ImGuiStyle style; // from scratch: ScaleAllSizes() must not be applied twice
    if (theme.dark)
        ImGui::StyleColorsDark(&style);
    else
        ImGui::StyleColorsLight(&style);
    set_metrics(style);
    colours(
        "imgui", ImGuiCol_COUNT, [](int i) { return ImGui::GetStyleColorName(i); }, style.Colors);
    style.ScaleAllSizes(scale);
    // Below 100 % it makes borders of a pixel vanish, and a child window without a border has no padding.
    for (float ImGuiStyle::*border : {&ImGuiStyle::ChildBorderSize, &ImGuiStyle::PopupBorderSize,
                                      &ImGuiStyle::SeparatorSize, &ImGuiStyle::SeparatorTextBorderSize})
        style.*border = std::max(1.0F, style.*border);
    style.FontSizeBase = 15;
    style.FontScaleMain = scale;
    ImGui::GetStyle() = style;

    ImPlotStyle plot_style;
    set_plot_metrics(plot_style, scale);
    for (ImVec4& colour : plot_style.Colors)
        colour = ImVec4(0, 0, 0, -1); // automatic, unless the file says otherwise
    colours(
        "implot", ImPlotCol_COUNT, [](int i) { return ImPlot::GetStyleColorName(i); }, plot_style.Colors);
    plot_style.Colormap = ImPlotColormap_Viridis;
    ImPlot::GetStyle() = plot_style;
}

} // namespace refreshlab::ui
