#include "ui/panels/landscape/range_bar.h"

#include "engine/base/error.h"
#include "ui/base/format.h"
#include "ui/base/value_format.h"
#include "ui/draw/text.h"
#include "ui/draw/widgets.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace refreshlab::ui {

namespace {

constexpr double drag_steps = 100; ///< a dragged end moves by round numbers, some hundred to a range

const char* format_of(double value) {
    return std::abs(value) >= 1000 ? "%.0f" : "%.3g";
}

float cap_width() {
    return std::round(0.5F * ImGui::GetFontSize());
}

/// Arrows where cells lie beyond, in the colour that those have.
void draw_caps(ImDrawList* list, const ColourScale& scale, const CellColours& colours, ImVec2 low,
               ImVec2 high) {
    const float cap = cap_width(), middle = (low.y + high.y) / 2;
    if (colours.below)
        list->AddTriangleFilled({low.x, low.y}, {low.x, high.y}, {low.x - cap, middle}, scale.colour(0));
    if (colours.above)
        list->AddTriangleFilled({high.x, low.y}, {high.x + cap, middle}, {high.x, high.y}, scale.colour(1));
}

} // namespace

void RangeBar::draw(UiContext& ctx, const CellValue& value, const ColourScale& scale,
                    const CellColours& colours, const CellSpread& spread, float most) {
    m_value = value;
    const float em = ImGui::GetFontSize(), gap = ImGui::GetStyle().ItemInnerSpacing.x;
    const std::string unit(shown_unit(unit_of(m_value)));
    const auto entry_width = [&](double end) {
        return std::max(3 * em, text_width(three_digits(end)) + 2 * ImGui::GetStyle().FramePadding.x);
    };
    const float low = entry_width(colours.range.min), high = entry_width(colours.range.max);
    const float others = low + high + 2 * cap_width() + 2 * gap + (unit.empty() ? 0 : gap + text_width(unit));
    const float shortest = 2 * em;
    if (ImGui::GetContentRegionAvail().x < others + shortest) ImGui::NewLine();
    const float width =
        std::clamp(ImGui::GetContentRegionAvail().x - others, shortest, std::max(shortest, most));
    draw_end(ctx, "##low", colours, RangeEnd::low, low);
    ImGui::SameLine(0, gap);
    draw_bar(ctx, scale, colours, width);
    draw_menu(ctx, colours, spread);
    ImGui::SameLine(0, gap);
    draw_end(ctx, "##high", colours, RangeEnd::high, high);
    if (unit.empty()) return;
    ImGui::SameLine(0, gap);
    ImGui::AlignTextToFramePadding();
    ImGui::TextDisabled("%s", unit.c_str());
}

void RangeBar::begin(const UiContext& ctx, ValueRange shown) {
    m_given_up = false;
    m_before = shown;
    m_own_before = ctx.views.landscape.cells.own_range(m_value.objective);
}

/// While an item is held. \return whether the mouse still counts
bool RangeBar::follow(UiContext& ctx) {
    // With keyboard navigation Dear ImGui lets go of the item when Esc is pressed, before it is seen here.
    const bool held = ImGui::IsItemActive(), let_go = ImGui::IsItemDeactivated();
    if (held) ctx.host.keep_awake(0.5);
    if ((held || let_go) && ImGui::IsKeyPressed(ImGuiKey_Escape, false)) {
        ctx.views.landscape.cells.set_own_range(m_value.objective, m_own_before);
        m_given_up = true;
    }
    return !m_given_up;
}

void RangeBar::draw_end(UiContext& ctx, const char* id, const CellColours& colours, RangeEnd end,
                        float width) {
    const ValueRange shown = colours.range;
    double value = end == RangeEnd::low ? shown.min : shown.max;
    ImGui::SetNextItemWidth(width);
    const bool changed =
        ImGui::DragScalar(id, ImGuiDataType_Double, &value, static_cast<float>(shown.span() / drag_steps),
                          nullptr, nullptr, format_of(value), ImGuiSliderFlags_NoRoundToFormat);
    if (ImGui::IsItemActivated()) begin(ctx, shown);
    const bool counts = follow(ctx);
    const bool dragged = ImGui::IsMouseDown(ImGuiMouseButton_Left) && !ImGui::GetIO().WantTextInput;
    if (changed && counts && dragged) {
        ctx.views.landscape.cells.set_own_range(
            m_value.objective, moved_end(shown, colours.has_signs, end,
                                         round_to(value, drag_quantum(m_before.span(), drag_steps))));
    } else if (changed && counts) { // typed
        try_edit(ctx, [&] {
            const ValueRange typed = colours.has_signs      ? ValueRange{-std::abs(value), std::abs(value)}
                                     : end == RangeEnd::low ? ValueRange{value, shown.max}
                                                            : ValueRange{shown.min, value};
            if (!is_usable(typed))
                throw Error("setting the colour range", format_number(value),
                            colours.has_signs
                                ? "leaves no range about 0"
                                : fmt::format("the ends would be {} and {}", format_number(typed.min),
                                              format_number(typed.max)));
            ctx.views.landscape.cells.set_own_range(m_value.objective, typed);
        });
    }
    if (ImGui::IsItemHovered(ImGuiHoveredFlags_DelayNormal | ImGuiHoveredFlags_NoSharedDelay) && !dragged)
        ImGui::SetTooltip("%s\nDrag sideways, or double click to type", words_of(colours).c_str());
}

void RangeBar::draw_bar(UiContext& ctx, const ColourScale& scale, const CellColours& colours, float width) {
    const float line = ImGui::GetFrameHeight(), cap = cap_width();
    const ImVec2 at = ImGui::GetCursorScreenPos();
    const float left = at.x + cap, height = std::round(ImGui::GetFontSize() * 0.75F);
    const float top = std::round(at.y + (line - height) * 0.5F);
    ImDrawList* list = ImGui::GetWindowDrawList();
    const int pieces = std::max(2, std::min(64, static_cast<int>(width)));
    for (int i = 0; i < pieces; ++i) {
        const float a = std::round(width * static_cast<float>(i) / static_cast<float>(pieces));
        const float b = std::round(width * static_cast<float>(i + 1) / static_cast<float>(pieces));
        list->AddRectFilled({left + a, top}, {left + b, top + height},
                            scale.colour((static_cast<double>(i) + 0.5) / pieces));
    }
    draw_caps(list, scale, colours, {left, top}, {left + width, top + height});
    ImGui::InvisibleButton("##scale", {width + 2 * cap, line});
    ctx.landmarks.set("landscape/scale", {left, top, width, height});
    drag_bar(ctx, colours, left, width);
    if (ImGui::IsItemHovered() && !ImGui::IsItemActive()) {
        const double f =
            std::clamp(static_cast<double>((ImGui::GetIO().MousePos.x - left) / width), 0.0, 1.0);
        ImGui::SetMouseCursor(ImGuiMouseCursor_ResizeEW);
        ImGui::SetTooltip("%s %s\n%s\nDrag either half to move its end; double click: automatic",
                          three_digits(scale.value_at(f)).c_str(), shown_unit(unit_of(m_value)).c_str(),
                          words_of(colours).c_str());
    }
}

/// The half that was pressed says which end: it goes where the mouse takes it, on the scale as it was at the press.
void RangeBar::drag_bar(UiContext& ctx, const CellColours& colours, float left, float width) {
    const ImGuiIO& io = ImGui::GetIO();
    if (ImGui::IsItemActivated()) {
        begin(ctx, colours.range);
        m_held = io.MousePos.x < left + width / 2 ? RangeEnd::low : RangeEnd::high;
    }
    if (ImGui::IsItemHovered() && ImGui::IsMouseDoubleClicked(ImGuiMouseButton_Left)) {
        ctx.views.landscape.cells.set_own_range(m_value.objective, std::nullopt);
        m_given_up = true;
    }
    if (!follow(ctx) || !ImGui::IsItemActive() || !ImGui::IsMouseDragging(ImGuiMouseButton_Left)) return;
    const double moved = static_cast<double>((io.MousePos.x - io.MouseClickedPos[0].x) / width);
    const double from = m_held == RangeEnd::low ? m_before.min : m_before.max;
    const double to =
        round_to(from + moved * m_before.span(), drag_quantum(m_before.span(), static_cast<double>(width)));
    ctx.views.landscape.cells.set_own_range(m_value.objective,
                                            moved_end(m_before, colours.has_signs, m_held, to));
}

void RangeBar::draw_menu(UiContext& ctx, const CellColours& colours, const CellSpread& spread) const {
    if (!ImGui::BeginPopupContextItem("##range menu")) return;
    ImGui::TextDisabled("%s", words_of(colours).c_str());
    if (ImGui::MenuItem("Automatic range", nullptr, !colours.own, colours.own))
        ctx.views.landscape.cells.set_own_range(m_value.objective, std::nullopt);
    if (ImGui::MenuItem("Range of all cells", nullptr, false, colours.below || colours.above)) {
        const ValueRange all = spread.extent();
        const double end = std::max(std::abs(all.min), std::abs(all.max));
        ctx.views.landscape.cells.set_own_range(
            m_value.objective, colours.has_signs ? ValueRange{-end, end}
                                                 : ValueRange{std::min(all.min, colours.range.min),
                                                              std::max(all.max, colours.range.max)});
    }
    if (ImGui::MenuItem("Copy the range"))
        ImGui::SetClipboardText(
            fmt::format("{} {}", exact_number(colours.range.min), exact_number(colours.range.max)).c_str());
    ImGui::EndPopup();
}

} // namespace refreshlab::ui
