#include "ui/colour_maps.h"

#include "engine/base/error.h"
#include "ui/theme.h"

#include <fmt/format.h>
#include <implot.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace refreshlab::ui {
namespace {

#include "ui/colour_tables.inc"

struct Entry {
    std::string_view name;
    std::span<const uint32_t> colours;
    const char* implot_name; ///< ImPlot has its own, coarser "Viridis", "RdBu" and "Greys"
};
constexpr std::array<Entry, 4> entries{{{"viridis", viridis_table, "refreshlab viridis"},
                                        {"cividis", cividis_table, "refreshlab cividis"},
                                        {"rdbu", rdbu_table, "refreshlab rdbu"},
                                        {"greys", greys_table, "refreshlab greys"}}};
constexpr std::array<std::string_view, 4> entry_names{entries[0].name, entries[1].name, entries[2].name,
                                                      entries[3].name};

const Entry& require_entry(std::string_view name) {
    const auto found = std::ranges::find(entries, name, &Entry::name);
    if (found == entries.end())
        throw Error("choosing a colour map", std::string(name), "no such map",
                    fmt::format("there are {}", fmt::join(entry_names, ", ")));
    return *found;
}

double linear_light(uint32_t channel) { // sRGB transfer function, IEC 61966-2-1
    const double c = static_cast<double>(channel & 0xFFU) / 255.0;
    return c <= 0.04045 ? c / 12.92 : std::pow((c + 0.055) / 1.055, 2.4);
}

} // namespace

std::span<const uint32_t> colour_map(std::string_view name) {
    return require_entry(name).colours;
}

std::span<const std::string_view> colour_map_names() {
    return entry_names;
}

double ColourScale::fraction(double value) const {
    if (std::isnan(value)) return value;
    if (!(max > min)) return 0;
    double f = (value - min) / (max - min);
    if (log && min > 0) {
        if (value <= min) return 0; // also zero and below, which have no logarithm
        f = std::log(value / min) / std::log(max / min);
    }
    return std::clamp(f, 0.0, 1.0);
}

uint32_t ColourScale::colour(double fraction) const {
    if (std::isnan(fraction)) return nan_colour;
    const auto last = static_cast<double>(map.size() - 1);
    return map[static_cast<size_t>(std::lround(std::clamp(fraction, 0.0, 1.0) * last))];
}

double ColourScale::value_at(double fraction) const {
    if (log && min > 0 && max > min) return min * std::pow(max / min, fraction);
    return min + fraction * (max - min);
}

uint32_t readable_on(uint32_t background) {
    const double luminance = 0.2126 * linear_light(background) + 0.7152 * linear_light(background >> 8U) +
                             0.0722 * linear_light(background >> 16U);
    // Contrast with black is (L + 0.05) / 0.05, with white 1.05 / (L + 0.05): equal at L = 0.179.
    return luminance > 0.179 ? 0xFF000000U : 0xFFFFFFFFU;
}

std::string three_digits(double value) {
    if (value != 0 && std::isfinite(value) && std::abs(value) >= 1000 && std::abs(value) < 1e6)
        return fmt::format("{:.0f}", value);
    return fmt::format("{:.3g}", value);
}

void draw_colour_bar(const char* id, const ColourScale& scale, float width, std::string_view unit) {
    const std::string low = fmt::format("{:.2g}", scale.min);
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
        list->AddRectFilled(ImVec2(x0 + a, y0), ImVec2(x0 + b, y0 + height),
                            scale.colour((static_cast<double>(i) + 0.5) / pieces));
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

void draw_absent(ImDrawList* list, const Theme& theme, ImVec2 min, ImVec2 max) {
    if (max.x <= min.x || max.y <= min.y) return;
    list->AddRectFilled(min, max, theme.absent_a);
    list->PushClipRect(min, max, true);
    const float height = max.y - min.y, step = std::max(5.0F, std::round(ImGui::GetFontSize() * 0.45F));
    // Lines start on absolute multiples of the step, so that neighbouring hatches join without a seam.
    const float first = std::floor((min.x - height) / step) * step;
    for (float x = first; x < max.x; x += step)
        list->AddLine(ImVec2(x, max.y), ImVec2(x + height, min.y), theme.absent_b, 1.0F);
    list->PopClipRect();
}

int implot_colour_map(std::string_view name) {
    const Entry& entry = require_entry(name);
    const ImPlotColormap known = ImPlot::GetColormapIndex(entry.implot_name);
    if (known >= 0) return known;
    return ImPlot::AddColormap(entry.implot_name, entry.colours.data(),
                               static_cast<int>(entry.colours.size()), false);
}

} // namespace refreshlab::ui
