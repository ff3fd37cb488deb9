#include "ui/draw/range_bar.h"

#include "ui/base/format.h"
#include "ui/base/value_format.h"
#include "ui/draw/text.h"
#include "ui/draw/widgets.h"
#include "ui/scene/text/token_colours.h"

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

float entry_width(double end) {
    return std::max(3 * ImGui::GetFontSize(),
                    text_width(three_digits(end)) + 2 * ImGui::GetStyle().FramePadding.x);
}

/// The low end of a range that follows from the high one.
std::string floor_words(const ShownRange& shown) {
    return fmt::format("{:.2g}", shown.scale.min);
}

float low_width(const ShownRange& shown) {
    return shown.kind == RangeKind::from_zero ? text_width(floor_words(shown)) : entry_width(shown.scale.min);
}

ImU32 colour_at(const ShownRange& shown, double fraction) {
    return shown.tokens ? shown.tokens->at(fraction).background : shown.scale.colour(fraction);
}

/// Arrows where values lie beyond, in the colour that those have.
void draw_caps(ImDrawList* list, const ShownRange& shown, ImVec2 low, ImVec2 high) {
    const float cap = cap_width(), middle = (low.y + high.y) / 2;
    if (shown.below)
        list->AddTriangleFilled({low.x, low.y}, {low.x, high.y}, {low.x - cap, middle}, colour_at(shown, 0));
    if (shown.above)
        list->AddTriangleFilled({high.x, low.y}, {high.x + cap, middle}, {high.x, high.y},
                                colour_at(shown, 1));
}

} // namespace

float RangeBar::numbers_width(const ShownRange& shown) {
    const float gap = ImGui::GetStyle().ItemInnerSpacing.x;
    const std::string unit(shown_unit(shown.unit));
    return low_width(shown) + entry_width(shown.scale.max) + 2 * cap_width() + 2 * gap +
           (unit.empty() ? 0 : gap + text_width(unit));
}

float RangeBar::shortest_bar() {
    return 2 * ImGui::GetFontSize();
}

bool RangeBar::draw(UiContext& ctx, OwnRanges& own, const ShownRange& shown, float most) {
    const float gap = ImGui::GetStyle().ItemInnerSpacing.x;
    const std::string unit(shown_unit(shown.unit));
    const float others = numbers_width(shown), shortest = shortest_bar();
    if (ImGui::GetContentRegionAvail().x < others + shortest) ImGui::NewLine();
    const float width =
        std::clamp(ImGui::GetContentRegionAvail().x - others, shortest, std::max(shortest, most));
    if (shown.kind == RangeKind::from_zero) {
        ImGui::AlignTextToFramePadding();
        ImGui::TextDisabled("%s", floor_words(shown).c_str());
    } else {
        draw_end(ctx, own, shown, RangeEnd::low, low_width(shown));
    }
    ImGui::SameLine(0, gap);
    draw_bar(ctx, own, shown, width);
    const bool fit = draw_menu(own, shown);
    ImGui::SameLine(0, gap);
    draw_end(ctx, own, shown, RangeEnd::high, entry_width(shown.scale.max));
    if (!unit.empty()) {
        ImGui::SameLine(0, gap);
        ImGui::AlignTextToFramePadding();
        ImGui::TextDisabled("%s", unit.c_str());
    }
    return fit;
}

void RangeBar::begin(const OwnRanges& own, const ShownRange& shown) {
    m_given_up = false;
    m_before = shown.range();
    m_own_before = own_range(own, shown.of);
}

/// While an item is held. \return whether the mouse still counts
bool RangeBar::follow(UiContext& ctx, OwnRanges& own, const ShownRange& shown) {
    // With keyboard navigation Dear ImGui lets go of the item when Esc is pressed, before it is seen here.
    const bool held = ImGui::IsItemActive(), let_go = ImGui::IsItemDeactivated();
    if (held) ctx.host.keep_awake(0.5);
    if ((held || let_go) && ImGui::IsKeyPressed(ImGuiKey_Escape, false)) {
        set_own_range(own, shown.of, m_own_before);
        m_given_up = true;
    }
    return !m_given_up;
}

void RangeBar::draw_end(UiContext& ctx, OwnRanges& own, const ShownRange& shown, RangeEnd end, float width) {
    const ValueRange range = shown.range();
    double value = end == RangeEnd::low ? range.min : range.max;
    ImGui::SetNextItemWidth(width);
    const bool changed = ImGui::DragScalar(end == RangeEnd::low ? "##low" : "##high", ImGuiDataType_Double,
                                           &value, static_cast<float>(range.span() / drag_steps), nullptr,
                                           nullptr, format_of(value), ImGuiSliderFlags_NoRoundToFormat);
    if (ImGui::IsItemActivated()) begin(own, shown);
    const bool counts = follow(ctx, own, shown);
    const bool dragged = ImGui::IsMouseDown(ImGuiMouseButton_Left) && !ImGui::GetIO().WantTextInput;
    if (changed && counts && dragged)
        set_own_range(
            own, shown.of,
            moved_end(range, shown.kind, end, round_to(value, drag_quantum(m_before.span(), drag_steps))));
    else if (changed && counts) // typed
        try_edit(ctx, [&] { set_own_range(own, shown.of, typed_end(range, shown.kind, end, value)); });
    if (ImGui::IsItemHovered(ImGuiHoveredFlags_DelayNormal | ImGuiHoveredFlags_NoSharedDelay) && !dragged)
        ImGui::SetTooltip("%s%sDrag sideways, or double click to type", shown.words.c_str(),
                          shown.words.empty() ? "" : "\n");
}

void RangeBar::draw_bar(UiContext& ctx, OwnRanges& own, const ShownRange& shown, float width) {
    const float line = ImGui::GetFrameHeight(), cap = cap_width();
    const ImVec2 at = ImGui::GetCursorScreenPos();
    const float left = at.x + cap, height = std::round(ImGui::GetFontSize() * 0.75F);
    const float top = std::round(at.y + (line - height) * 0.5F);
    ImDrawList* list = ImGui::GetWindowDrawList();
    const int pieces = std::max(2, std::min(64, static_cast<int>(width)));
    for (int i = 0; i < pieces; ++i) {
        const float a = std::round(width * static_cast<float>(i) / static_cast<float>(pieces));
        const float b = std::round(width * static_cast<float>(i + 1) / static_cast<float>(pieces));
        const double fraction = (static_cast<double>(i) + 0.5) / pieces;
        list->AddRectFilled({left + a, top}, {left + b, top + height}, colour_at(shown, fraction));
        if (shown.tokens) // as under a token
            list->AddRectFilled({left + a, top + height}, {left + b, top + height + token_underline},
                                shown.tokens->at(fraction).underline);
    }
    draw_caps(list, shown, {left, top}, {left + width, top + height});
    ImGui::InvisibleButton("##scale", {width + 2 * cap, line});
    ctx.landmarks.set({left, top, width, height}, "{}/scale", shown.name);
    drag_bar(ctx, own, shown, left, width);
    if (ImGui::IsItemHovered() && !ImGui::IsItemActive()) {
        const double f =
            std::clamp(static_cast<double>((ImGui::GetIO().MousePos.x - left) / width), 0.0, 1.0);
        ImGui::SetMouseCursor(ImGuiMouseCursor_ResizeEW);
        ImGui::SetTooltip(
            "%s %s%s\n%s%s%s", three_digits(shown.scale.value_at(f)).c_str(), shown_unit(shown.unit).c_str(),
            shown.scale.log ? " (logarithmic)" : "", shown.words.c_str(), shown.words.empty() ? "" : "\n",
            shown.kind == RangeKind::from_zero ? "Drag to move the upper end; double click: automatic"
                                               : "Drag either half to move its end; double click: automatic");
    }
}

/// The half that was pressed says which end: it goes where the mouse takes it, on the scale as it was at the press.
void RangeBar::drag_bar(UiContext& ctx, OwnRanges& own, const ShownRange& shown, float left, float width) {
    const ImGuiIO& io = ImGui::GetIO();
    if (ImGui::IsItemActivated()) {
        begin(own, shown);
        m_held = shown.kind != RangeKind::from_zero && io.MousePos.x < left + width / 2 ? RangeEnd::low
                                                                                        : RangeEnd::high;
    }
    if (ImGui::IsItemHovered() && ImGui::IsMouseDoubleClicked(ImGuiMouseButton_Left)) {
        set_own_range(own, shown.of, std::nullopt);
        m_given_up = true;
    }
    if (!follow(ctx, own, shown) || !ImGui::IsItemActive() || !ImGui::IsMouseDragging(ImGuiMouseButton_Left))
        return;
    const double moved = static_cast<double>((io.MousePos.x - io.MouseClickedPos[0].x) / width);
    const double from = m_held == RangeEnd::low ? m_before.min : m_before.max;
    const double to =
        round_to(from + moved * m_before.span(), drag_quantum(m_before.span(), static_cast<double>(width)));
    set_own_range(own, shown.of, moved_end(m_before, shown.kind, m_held, to));
}

bool RangeBar::draw_menu(OwnRanges& own, const ShownRange& shown) {
    if (!ImGui::BeginPopupContextItem("##range menu")) return false;
    if (!shown.words.empty()) ImGui::TextDisabled("%s", shown.words.c_str());
    const bool is_own = own_range(own, shown.of).has_value();
    if (ImGui::MenuItem("Automatic range", nullptr, !is_own, is_own))
        set_own_range(own, shown.of, std::nullopt);
    const ValueRange range = shown.range();
    if (shown.all && ImGui::MenuItem("Range of all values", nullptr, false, shown.below || shown.above)) {
        const double end = std::max(std::abs(shown.all->min), std::abs(shown.all->max));
        set_own_range(own, shown.of,
                      shown.kind == RangeKind::has_signs   ? ValueRange{-end, end}
                      : shown.kind == RangeKind::from_zero ? ValueRange{0, end}
                                                           : ValueRange{std::min(shown.all->min, range.min),
                                                                        std::max(shown.all->max, range.max)});
    }
    const bool fit = shown.widens && ImGui::MenuItem("Fit range", nullptr, false, !is_own);
    if (shown.widens)
        ImGui::SetItemTooltip(
            "The range widens by itself and narrows only here, so that colours do not flicker.");
    if (ImGui::MenuItem("Copy the range"))
        ImGui::SetClipboardText(
            fmt::format("{} {}", exact_number(range.min), exact_number(range.max)).c_str());
    ImGui::EndPopup();
    return fit;
}

} // namespace refreshlab::ui
