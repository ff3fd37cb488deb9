// What the mouse does in a plot: the crosshair, clicks, a zoom by the right button, the menu.
#include "ui/base/colour.h"
#include "ui/base/format.h"
#include "ui/base/value_format.h"
#include "ui/draw/note_item.h"
#include "ui/draw/plot/layer_choice.h"
#include "ui/draw/plot/signal_plot.h"
#include "ui/draw/tooltips.h"
#include "ui/draw/widgets.h"

#include <fmt/format.h>
#include <implot.h>

#include <algorithm>
#include <cmath>

namespace refreshlab::ui {
namespace {

constexpr float click_slop = 4; // pixels the mouse may move within a click

} // namespace

void SignalPlot::handle_mouse(UiContext& ctx, PlotStack& stack) {
    const ImGuiIO& io = ImGui::GetIO();
    const bool hovered = ImPlot::IsPlotHovered();
    if (hovered && ctx.steps > 0 && stack.drag.key().empty()) {
        const auto step = static_cast<int64_t>(std::llround(ImPlot::GetPlotMousePos().x));
        ctx.next_hovered_step = std::clamp<int64_t>(step, 1, ctx.steps);
        const bool still =
            !ImGui::IsMouseDown(ImGuiMouseButton_Left) && !ImGui::IsMouseDown(ImGuiMouseButton_Right);
        if (still && !stack.pressed_on_line && step >= 1 && step <= ctx.steps && !stack.hovered_marks) {
            if (m_pick.strip)
                strip_tooltip(ctx, stack, step, ImPlot::GetPlotMousePos().y);
            else
                step_tooltip(ctx, step, stack.tips,
                             stack.overlays ? stack.overlays->columns_at(ctx, step)
                                            : std::vector<TipColumn>());
        }
    }
    if (hovered && ImGui::IsMouseClicked(ImGuiMouseButton_Left) && !stack.pressed_on_line) {
        m_pressed = true;
        m_view_at_press = ctx.time;
        if (io.MouseClickedCount[ImGuiMouseButton_Left] == 1) m_selection_before_click = ctx.selection.step;
    }
    if (m_pressed && ImGui::IsMouseReleased(ImGuiMouseButton_Left) && io.MouseClickedLastCount[0] < 2) {
        if (io.MouseDragMaxDistanceSqr[0] < click_slop * click_slop && ctx.steps > 0) {
            // A click, not a drag: the pixel or two that the plot moved are taken back.
            const auto step = static_cast<int64_t>(std::llround(ImPlot::GetPlotMousePos().x));
            if (ctx.time.follow != m_view_at_press.follow) ctx.time = m_view_at_press;
            ctx.select_step(std::clamp<int64_t>(step, 1, ctx.steps));
        }
    }
    if (!ImGui::IsMouseDown(ImGuiMouseButton_Left)) m_pressed = m_pressed && ImGui::IsMouseReleased(0);
}

/// A drag with the right button shows its steps alone. Not ImPlot's own: that one cannot begin on a threshold line, which
/// hides the plot from the mouse; the lines themselves take only the left button.
bool SignalPlot::zoom_by_box(UiContext& ctx, bool hovered) {
    constexpr auto button = ImGuiMouseButton_Right;
    const double here = ImPlot::GetPlotMousePos().x;
    const bool on_line = m_on_line || (m_guest && m_guest->m_on_line);
    if ((hovered || on_line) && ImGui::IsMouseClicked(button)) m_box_from = here;
    if (!m_box_from) return false;
    bool clicked = false;
    const bool given_up =
        ImGui::IsKeyPressed(ImGuiKey_Escape, false) || ImGui::IsMouseClicked(ImGuiMouseButton_Left);
    const bool dragged =
        ImGui::GetIO().MouseDragMaxDistanceSqr[button] >= click_slop * click_slop && here != *m_box_from;
    if (given_up) {
        m_box_from.reset();
    } else if (ImGui::IsMouseReleased(button) || !ImGui::IsMouseDown(button)) {
        if (dragged && ImGui::IsMouseReleased(button)) {
            // After EndPlot the time view is seen to have moved, as after a zoom by the wheel.
            const double from = std::clamp(*m_box_from, ctx.time.x_min, ctx.time.x_max),
                         to = std::clamp(here, ctx.time.x_min, ctx.time.x_max);
            m_zoom_to = ValueRange{std::min(from, to), std::max(from, to)};
        }
        clicked = !dragged && ImGui::IsMouseReleased(button);
        if (clicked) m_menu_step = std::llround(here);
        m_box_from.reset();
    } else if (dragged) {
        draw_zoom_box(ctx);
    }
    return clicked;
}

void SignalPlot::draw_zoom_box(UiContext& ctx) {
    ctx.host.keep_awake(0.5);
    const float from = ImPlot::PlotToPixels(*m_box_from, 0.0).x, to = ImGui::GetMousePos().x;
    const ImVec2 low(std::clamp(std::min(from, to), m_box.x, m_box.x + m_box.width), m_box.y),
        high(std::clamp(std::max(from, to), m_box.x, m_box.x + m_box.width), m_box.y + m_box.height);
    ImDrawList* list = ImPlot::GetPlotDrawList();
    list->AddRectFilled(low, high, with_alpha(ctx.theme.selection, 0.16F));
    list->AddRect(low, high, with_alpha(ctx.theme.selection, 0.8F));
    ctx.landmarks.set("signals/zoom_box", {low.x, low.y, high.x - low.x, high.y - low.y});
}

void SignalPlot::draw_axis_menu(UiContext& ctx) {
    PlotChoice& plot = ctx.views.signals.choose(info().name);
    if (info().layered && ImGui::BeginMenu("Layers")) {
        draw_layer_items(ctx, plot.layers);
        ImGui::EndMenu();
    }
    if (m_pick.strip) return; // its axis is the layers
    AxisScale& scale = plot.scale;
    for (const AxisScale choice : axis_scales) {
        const bool can = choice != AxisScale::log || can_be_logarithmic(info());
        if (ImGui::MenuItem(axis_label(choice), nullptr, scale == choice, can)) {
            scale = choice;
            m_auto_y = true;
        }
        if (!can)
            ImGui::SetItemTooltip("This signal is never above 0: \"%s\" shows it",
                                  axis_label(AxisScale::symlog));
    }
}

void SignalPlot::draw_menu(UiContext& ctx, const PlotStack& stack, const Lines& lines) {
    if (!ImGui::BeginPopup("##plot menu")) return;
    ImGui::TextDisabled("%s", with_unit(info().label, info().unit).c_str());
    if (ImGui::MenuItem("Fit the whole run", ctx.key_of("view.fit").c_str())) {
        ctx.time.fit_request = true;
        m_auto_y = true;
    }
    if (ImGui::MenuItem("Automatic range", nullptr, m_auto_y, !m_auto_y)) m_auto_y = true;
    ImGui::Separator();
    draw_axis_menu(ctx);
    ImGui::Separator();
    draw_threshold_menu(ctx, lines);
    note_item(ctx, m_menu_step);
    draw_copy_item(ctx, stack);
    ImGui::Separator();
    draw_right_menu(ctx, stack);
    ImGui::Separator();
    if (ImGui::MenuItem("Export figure...")) ctx.run_action("export.figure");
    if (ImGui::MenuItem("Export plotted values...")) ctx.run_action("export.plotted");
    if (ImGui::MenuItem("Hide this plot")) m_hide = true;
    ImGui::EndPopup();
}

void SignalPlot::draw_copy_item(UiContext& ctx, const PlotStack& stack) {
    if (!ctx.recording || ctx.steps == 0) return;
    const float value =
        stack.series.value(std::clamp<int64_t>(ctx.shown_step(), 1, ctx.steps), m_signal, m_pick);
    if (ImGui::MenuItem("Copy the value of the shown step", nullptr, false, !is_absent(value)))
        ImGui::SetClipboardText(exact_number(static_cast<double>(value)).c_str());
}

/// Which signal has its axis on the right, and what can be done with that one.
void SignalPlot::draw_right_menu(UiContext& ctx, const PlotStack& stack) {
    if (ImGui::BeginMenu("Right axis", !m_pick.strip)) {
        if (ImGui::MenuItem("None", nullptr, m_guest == nullptr) && m_guest)
            put_beside(ctx.views.signals, m_guest->info().name, {});
        ImGui::Separator();
        for (const Signal& signal : ctx.signals()) {
            const bool is_guest = m_guest && m_guest->info().name == signal.name;
            if (signal.name == info().name || (!is_guest && ctx.layer_pick(signal).strip)) continue;
            if (ImGui::MenuItem(with_unit(signal.label, signal.unit).c_str(), nullptr, is_guest))
                put_beside(ctx.views.signals, signal.name, info().name);
        }
        ImGui::EndMenu();
    }
    if (!m_guest) return;
    SignalPlot& right = *m_guest;
    const std::string name = with_unit(right.info().label, right.info().unit);
    if (!ImGui::BeginMenu(fmt::format("{}###right signal", name).c_str())) return;
    if (ImGui::MenuItem("Automatic range", nullptr, right.m_auto_y, !right.m_auto_y)) right.m_auto_y = true;
    right.draw_axis_menu(ctx);
    ImGui::Separator();
    right.draw_threshold_menu(ctx, right.threshold_lines_here(ctx));
    right.draw_copy_item(ctx, stack);
    ImGui::Separator();
    if (ImGui::MenuItem("Plot of its own")) put_beside(ctx.views.signals, right.info().name, {});
    if (ImGui::MenuItem("Hide it")) right.m_hide = true;
    ImGui::EndMenu();
}

void SignalPlot::draw_threshold_menu(UiContext& ctx, const Lines& lines) {
    if (!lines.empty()) {
        ImGui::MenuItem("Lock the threshold line", nullptr, &m_locked);
        const double normal =
            lines[0].trigger == ThresholdLine::of_cache ? lines[0].fallback : info().default_threshold;
        const std::string fallback = format_value(normal, info().unit);
        if (ImGui::MenuItem(fmt::format("Default threshold, {}", fallback).c_str(), nullptr, false,
                            !m_locked))
            try_edit(ctx, [&] { ctx.drafts.edit(ctx.engine, lines[0].key, normal); });
        if (ImGui::MenuItem("Copy the threshold"))
            ImGui::SetClipboardText(exact_number(lines[0].value).c_str());
        if (ImGui::MenuItem("Verify this threshold")) ctx.run_action("run.verify");
        ImGui::SetItemTooltip(
            "Makes a run with the present thresholds; Runs shows the estimate beside the outcome");
    } else {
        const bool elsewhere = !threshold_lines(ctx.drafts, info().name).empty();
        const bool can = info().letter != 0 && !m_pick.strip && !elsewhere;
        if (ImGui::MenuItem("Add a threshold", nullptr, false, can)) {
            RefreshPolicy policy = ctx.drafts.policy();
            policy.triggers.push_back(default_trigger(info(), m_pick));
            try_edit(ctx, [&] { ctx.drafts.set_policy(ctx.engine, policy); });
        }
        if (!can)
            ImGui::SetItemTooltip(
                "%s", elsewhere ? "Its trigger compares another number of the layers: see Policy"
                      : m_pick.strip
                          ? "Choose one number of the layers first"
                          : "This signal is known only after a refresh, so it cannot trigger one.");
    }
}

} // namespace refreshlab::ui
