#include "ui/draw/signal_plot.h"

#include "ui/base/colour.h"
#include "ui/base/format.h"
#include "ui/base/value_format.h"
#include "ui/draw/tooltips.h"
#include "ui/scene/axes/time_view.h"
#include "ui/scene/text/token_colours.h"
#include "ui/widgets/widgets.h"

#include <fmt/format.h>
#include <implot.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

namespace refreshlab::ui {
namespace {

/// Labels only at whole steps, with thousands apart.
int step_label(double value, char* buffer, int size, void*) {
    const double whole = std::round(value);
    const bool shown = std::fabs(value - whole) < 1e-6 && whole >= 0;
    const std::string text = shown ? format_thousands(static_cast<int64_t>(whole)) : std::string();
    return std::snprintf(buffer, static_cast<size_t>(size), "%s", text.c_str());
}

/// What the labels of a y axis must know.
struct ValueLabels {
    float least_width = 0; ///< pixels: threshold tags need it, so the gutter is never narrower
    std::span<const ThresholdLine>
        thresholds; ///< a tag covers the label behind it: better none than half of one
    const ValueAxis& axis;
    double covered = 0; ///< by a tag to either side of its middle, as a share of the axis
    double step = 0;    ///< between the ticks of a linear axis
};

/// As many digits as neighbours need to differ, padded on the left to the gutter's width.
int value_label(double value, char* buffer, int size, void* user) {
    const auto& labels = *static_cast<const ValueLabels*>(user);
    const bool hidden = std::ranges::any_of(labels.thresholds, [&](const ThresholdLine& line) {
        return std::fabs(labels.axis.share(value) - std::clamp(labels.axis.share(line.value), 0.0, 1.0)) <
               labels.covered;
    });
    std::string text = hidden ? std::string() : format_tick(value, labels.step);
    const float missing = labels.least_width - ImGui::CalcTextSize(text.c_str()).x;
    if (missing > 0)
        text.insert(0, static_cast<size_t>(std::ceil(missing / ImGui::CalcTextSize(" ").x)), ' ');
    return std::snprintf(buffer, static_cast<size_t>(size), "%s", text.c_str());
}

// ImPlot asks for places and values of an axis that is not linear.
double axis_forward(double value, void* axis) {
    return static_cast<const ValueAxis*>(axis)->forward(value);
}
double axis_inverse(double place, void* axis) {
    return static_cast<const ValueAxis*>(axis)->inverse(place);
}

constexpr float click_slop = 4;    // pixels the mouse may move within a click
constexpr double wheel_zoom = 1.2; // of the width per event, as ImPlot zooms beside the line

} // namespace

ValueRange usual_range(const Signal& signal, int64_t vocab_size) {
    if (signal.max > signal.min) return {signal.min, signal.max};
    if (signal.unit == "bits" && vocab_size > 1)
        return {signal.min, std::log2(static_cast<double>(vocab_size))};
    return {signal.min, signal.min + 1};
}

float SignalPlot::header_height() {
    return ImGui::GetTextLineHeight() + 6;
}

void SignalPlot::forget_run() {
    m_auto_y = true;
    m_box_from.reset();
    m_pressed = false;
}

void SignalPlot::fit_values(const UiContext& ctx, PlotStack& stack, const std::vector<ThresholdLine>& lines) {
    const auto first = static_cast<int64_t>(std::floor(std::clamp(ctx.time.x_min, 0.0, 1e15)));
    const auto last = static_cast<int64_t>(std::ceil(std::clamp(ctx.time.x_max, 0.0, 1e15)));
    SeriesSummary seen = stack.series.series(m_signal).summary(first, last);
    if (seen.finite > 0) {
        if (const SeriesSet::Band* band = stack.series.band(m_signal)) {
            const SeriesSummary low = band->low.summary(first, last), high = band->high.summary(first, last);
            if (low.finite > 0) seen.min = std::min(seen.min, low.min);
            if (low.min_positive > 0 && seen.min_positive > 0)
                seen.min_positive = std::min(seen.min_positive, low.min_positive);
            if (high.finite > 0) seen.max = std::max(seen.max, high.max);
        }
    }
    std::vector<double> thresholds;
    for (const ThresholdLine& line : lines)
        thresholds.push_back(line.value);
    const int64_t vocab = ctx.recording ? ctx.recording->info().vocab_size : ctx.status->student.vocab_size;
    fit_axis(m_axis, ctx.plots.scale[m_signal], seen, thresholds, usual_range(info(), vocab));
}

void SignalPlot::draw(UiContext& ctx, PlotStack& stack, float height, bool x_labels) {
    ImGui::PushID(static_cast<int>(m_signal));
    m_header_button = 0;
    const std::vector<ThresholdLine> lines = threshold_lines(ctx.drafts, info().name);
    draw_header(ctx, stack, lines);
    for (const ThresholdLine& line : lines)
        stack.gutter = std::max(stack.gutter, threshold_tag_width(line.value));

    if (stack.fit) m_auto_y = true;
    if (m_axis.scale != ctx.plots.scale[m_signal]) m_auto_y = true;
    if (m_auto_y && !m_held) fit_values(ctx, stack, lines);
    // ImPlot writes a linked axis back when a plot ends, so a range that a drag widened is set before the next one.
    m_axis.widen(std::exchange(m_grow_down, 0.0), std::exchange(m_grow_up, 0.0));
    // The y axis moves only under the mouse on its own labels; a drag on the curve pans time alone.
    const ImVec2 mouse = ImGui::GetMousePos();
    const bool on_labels = ImGui::IsWindowHovered() && mouse.x < m_box.x &&
                           mouse.x > m_box.x - 10 * ImGui::GetFontSize() && mouse.y >= m_box.y &&
                           mouse.y < m_box.y + m_box.height;
    const ImPlotAxisFlags common =
        ImPlotAxisFlags_NoMenus | ImPlotAxisFlags_NoSideSwitch | ImPlotAxisFlags_NoInitialFit;
    const double set_min = ctx.time.x_min, set_max = ctx.time.x_max, set_low = m_axis.min,
                 set_high = m_axis.max;
    bool menu = false, hovered = false;
    ValueLabels value_labels{
        stack.gutter, lines, m_axis,
        static_cast<double>(ImGui::GetTextLineHeight() / std::max(1.0F, height - header_height())),
        0}; // until EndPlot

    ImPlot::PushStyleVar(ImPlotStyleVar_PlotPadding, ImVec2(10, 5));
    ImPlot::PushStyleVar(ImPlotStyleVar_LabelPadding, ImVec2(5, 3));
    // The label of the last tick is centred on it: room for its half beyond the plot, else it is cut.
    const float label_half =
        ImGui::CalcTextSize(format_thousands(std::max<int64_t>(100, ctx.steps)).c_str()).x / 2;
    const ImVec2 size(std::min(-1.0F, 10 - label_half), height - header_height());
    if (ImPlot::BeginPlot("##plot", size,
                          ImPlotFlags_NoTitle | ImPlotFlags_NoLegend | ImPlotFlags_NoMouseText |
                              ImPlotFlags_NoMenus | ImPlotFlags_NoBoxSelect)) {
        ImPlot::SetupAxis(ImAxis_X1, nullptr,
                          common | ImPlotAxisFlags_NoHighlight |
                              (x_labels ? 0 : ImPlotAxisFlags_NoTickLabels));
        ImPlot::SetupAxis(ImAxis_Y1, nullptr,
                          common | (on_labels ? ImPlotAxisFlags_None : ImPlotAxisFlags_Lock));
        ImPlot::SetupAxisLinks(ImAxis_X1, &ctx.time.x_min, &ctx.time.x_max);
        ImPlot::SetupAxisLinks(ImAxis_Y1, &m_axis.min, &m_axis.max);
        if (m_axis.scale != AxisScale::linear)
            ImPlot::SetupAxisScale(ImAxis_Y1, axis_forward, axis_inverse, &m_axis);
        if (m_axis.scale == AxisScale::log) ImPlot::SetupAxisLimitsConstraints(ImAxis_Y1, 1e-30, 1e30);
        ImPlot::SetupAxisFormat(ImAxis_X1, step_label, nullptr);
        ImPlot::SetupAxisFormat(ImAxis_Y1, value_label, &value_labels);
        ImPlot::SetupAxisZoomConstraints(ImAxis_X1, min_time_width, 1e9);
        // ImPlot's own ticks are too many for a low plot: their labels would touch.
        const auto labels =
            static_cast<int>((height - header_height()) / (1.7F * ImGui::GetTextLineHeight()));
        const std::vector<double> ticks = axis_ticks(m_axis, std::max(2, labels));
        if (m_axis.scale == AxisScale::linear && ticks.size() > 1) value_labels.step = ticks[1] - ticks[0];
        for (const double tick : ticks)
            stack.gutter =
                std::max(stack.gutter, ImGui::CalcTextSize(format_tick(tick, value_labels.step).c_str()).x);
        if (!ticks.empty())
            ImPlot::SetupAxisTicks(ImAxis_Y1, ticks.data(), static_cast<int>(ticks.size()), nullptr, false);

        const ImVec2 pos = ImPlot::GetPlotPos(), area = ImPlot::GetPlotSize();
        m_box = {pos.x, pos.y, area.x, area.y};
        stack.left = pos.x;
        stack.width = area.x;
        stack.bottom = pos.y + area.y;
        ctx.landmarks.set(fmt::format("signals/plot/{}", info().name), m_box);

        draw_refresh_lines(ctx, stack);
        draw_curve(ctx, stack, static_cast<double>(area.x));
        draw_step_lines(ctx);
        draw_thresholds(ctx, stack, lines);
        handle_mouse(ctx, stack);
        hovered = ImPlot::IsPlotHovered();
        menu = zoom_by_box(ctx, hovered);
        ImPlot::EndPlot();
    }
    ImPlot::PopStyleVar(2);

    if (ImGui::IsMouseDoubleClicked(ImGuiMouseButton_Left) && (hovered || on_labels)) {
        // Both axes: the whole run, automatic range. ImPlot's own fit sees only what was drawn and is overruled here.
        m_auto_y = true;
        if (hovered) ctx.time.fit_request = true;
        ctx.time.x_min = set_min;
        ctx.time.x_max = set_max;
        if (m_pressed) ctx.selection.step = m_selection_before_click;
        m_pressed = false;
    } else {
        note_user_view(ctx.time, set_min, set_max, ctx.steps);
        if (const auto to = std::exchange(m_zoom_to, std::nullopt))
            set_time_range(ctx.time, to->min, to->max, ctx.steps);
        if (m_wheel != 0 && m_box.width > 0) {
            const double share = static_cast<double>((mouse.x - m_box.x) / m_box.width);
            zoom_time_view(ctx.time, m_wheel > 0 ? 1 / wheel_zoom : wheel_zoom,
                           ctx.time.x_min + share * (ctx.time.x_max - ctx.time.x_min), ctx.steps);
        }
        if (on_labels && (m_axis.min != set_low || m_axis.max != set_high)) m_auto_y = false;
    }
    draw_tags(ctx, lines);
    if (ctx.recording && ctx.steps > 0 && !has_data(stack.series)) draw_empty_hint(ctx);
    if (menu) ImGui::OpenPopup("##plot menu");
    draw_menu(ctx, lines);
    ImGui::PopID();
}

void SignalPlot::draw_folded(UiContext& ctx, PlotStack& stack) {
    ImGui::PushID(static_cast<int>(m_signal));
    m_box = {};
    m_held = m_pressed = false;
    m_box_from.reset();
    const std::vector<ThresholdLine> lines = threshold_lines(ctx.drafts, info().name);
    const EmptyHint hint = empty_hint(ctx);
    const ImVec2 at = ImGui::GetCursorScreenPos();
    const float right = at.x + ImGui::GetContentRegionAvail().x;
    const float padding = 2 * ImGui::GetStyle().FramePadding.x;
    m_header_button = hint.key ? ImGui::CalcTextSize(hint.action).x + padding + 2 : 0;
    draw_header(ctx, stack, lines);
    const ImVec2 below = ImGui::GetCursorScreenPos();
    if (hint.key) {
        ImGui::SetCursorScreenPos({right - m_header_button, at.y + 3});
        if (ImGui::SmallButton(hint.action))
            try_edit(ctx, [&] { ctx.drafts.edit(ctx.engine, hint.key, "true"); });
        ImGui::SetItemTooltip("%s\nCost: %s", hint.why.c_str(), std::string(info().cost_hint).c_str());
    }
    ctx.landmarks.set(fmt::format("signals/folded/{}", info().name),
                      {at.x, at.y, right - at.x, header_height()});
    ImGui::SetCursorScreenPos(below);
    draw_menu(ctx, lines);
    ImGui::PopID();
}

void SignalPlot::draw_header(UiContext& ctx, PlotStack& stack, const std::vector<ThresholdLine>& lines) {
    ImDrawList* list = ImGui::GetWindowDrawList();
    const ImVec2 at = ImGui::GetCursorScreenPos();
    const float line = ImGui::GetTextLineHeight(), right = at.x + ImGui::GetContentRegionAvail().x;
    const ImU32 colour = ctx.theme.signal(info().name);
    const float middle = at.y + 3 + line / 2;
    list->AddRectFilled({at.x + 2, middle - 2}, {at.x + 2 + line, middle + 2}, colour, 2);
    float x = at.x + line + 9;
    const auto text = [&](ImU32 ink, const std::string& s) {
        const float width = ImGui::CalcTextSize(s.c_str()).x;
        if (x + width > right - m_header_button) return; // whole or not at all
        list->AddText({x, at.y + 3}, ink, s.c_str());
        x += width + line * 0.7F;
    };
    text(ctx.theme.text, with_unit(info().label, info().unit));
    if (const AxisScale scale = ctx.plots.scale[m_signal]; scale != AxisScale::linear)
        text(ctx.theme.text_muted, std::string(to_string(scale)));

    // The raw value at the step that everything looks at: under the mouse, selected, or the newest.
    const int64_t step = ctx.hovered_step.value_or(ctx.shown_step());
    if (ctx.recording && ctx.steps > 0) {
        const float value = stack.series.value(step, m_signal);
        const Verdicts* words = verdicts_of(info().name);
        if (words && !std::isnan(value)) {
            text(verdict_colour(value >= 0.5F), std::string(value >= 0.5F ? words->yes : words->no));
        } else if (words) {
            text(ctx.theme.text_muted, std::string(words->neither));
        } else if (!is_absent(value)) {
            text(colour, format_signal(value));
        } else if (const auto last = stack.series.series(m_signal).finite_at_or_before(step)) {
            text(ctx.theme.text_muted,
                 fmt::format("{} at step {}", format_signal(stack.series.value(*last, m_signal)),
                             format_thousands(*last)));
        } else {
            text(ctx.theme.text_muted, "not measured");
        }
    }
    // Right of it the what-if count of a threshold that is being moved, wherever it is moved.
    const auto moved = std::ranges::find_if(
        lines, [&](const ThresholdLine& l) { return !l.key.empty() && l.key == ctx.drafts.edited_key(); });
    float note_right = right - 2 - m_header_button;
    if (moved != lines.end() && ctx.recording && ctx.steps > 0) {
        if (const WhatIf* answer = stack.preview.answer()) {
            std::string words = what_if_text(*answer, moved->value, info().unit);
            const std::string more = words + ", " + what_if_detail(*answer);
            const float room = note_right - x - line;
            if (ImGui::CalcTextSize(more.c_str()).x < room) words = more;
            const float width = ImGui::CalcTextSize(words.c_str()).x + line;
            const float left =
                std::max(x, std::min(note_right - width, stack.left + stack.width / 2 - width / 2));
            list->AddRectFilled({left, at.y + 1}, {left + width, at.y + line + 5}, ctx.theme.card,
                                line * 0.3F);
            list->AddRect({left, at.y + 1}, {left + width, at.y + line + 5}, colour, line * 0.3F);
            list->AddText({left + line / 2, at.y + 3}, ctx.theme.text, words.c_str());
            ctx.landmarks.set(fmt::format("signals/what_if/{}", info().name),
                              {left, at.y + 1, width, line + 4});
        }
    } else {
        const auto note = [&](const char* s) {
            const float width = ImGui::CalcTextSize(s).x;
            if (note_right - width < x) return;
            list->AddText({note_right - width, at.y + 3}, ctx.theme.text_muted, s);
            note_right -= width + line;
        };
        if (!lines.empty() && m_locked) note("line locked");
        if (!lines.empty() && std::ranges::none_of(lines, &ThresholdLine::enabled)) note("trigger off");
        if (info().cost == SignalCost::mc_rows && !ctx.status->student.name.empty() &&
            !ctx.status->student.mc_calibrated)
            note("uncalibrated");
    }
    ImGui::SetNextItemAllowOverlap(); // a folded plot has its button in this line
    ImGui::InvisibleButton("##header", {std::max(1.0F, right - at.x), header_height()});
    ImGui::SetItemTooltip("%s\nCost: %s", std::string(info().description).c_str(),
                          std::string(info().cost_hint).c_str());
    if (ImGui::IsItemHovered() && ImGui::IsMouseReleased(ImGuiMouseButton_Right))
        ImGui::OpenPopup("##plot menu");
    // The plot begins right below; the style's spacing would only take room from it.
    ImGui::SetCursorScreenPos({at.x, at.y + header_height()});
}

void SignalPlot::handle_mouse(UiContext& ctx, PlotStack& stack) {
    const ImGuiIO& io = ImGui::GetIO();
    const bool hovered = ImPlot::IsPlotHovered();
    if (hovered && ctx.steps > 0 && stack.drag.key().empty()) {
        const auto step = static_cast<int64_t>(std::llround(ImPlot::GetPlotMousePos().x));
        ctx.next_hovered_step = std::clamp<int64_t>(step, 1, ctx.steps);
        const bool still =
            !ImGui::IsMouseDown(ImGuiMouseButton_Left) && !ImGui::IsMouseDown(ImGuiMouseButton_Right);
        if (still && !stack.pressed_on_line && step >= 1 && step <= ctx.steps && !stack.hovered_marks)
            step_tooltip(ctx, step);
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
    if ((hovered || m_on_line) && ImGui::IsMouseClicked(button)) m_box_from = here;
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
            // Behind EndPlot the time view is seen to have moved, as after a zoom by the wheel.
            const double from = std::clamp(*m_box_from, ctx.time.x_min, ctx.time.x_max),
                         to = std::clamp(here, ctx.time.x_min, ctx.time.x_max);
            m_zoom_to = ValueRange{std::min(from, to), std::max(from, to)};
        }
        clicked = !dragged && ImGui::IsMouseReleased(button);
        m_box_from.reset();
    } else if (dragged) {
        ctx.host.keep_awake(0.5);
        const float from = ImPlot::PlotToPixels(*m_box_from, 0.0).x, to = ImGui::GetMousePos().x;
        const ImVec2 low(std::clamp(std::min(from, to), m_box.x, m_box.x + m_box.width), m_box.y),
            high(std::clamp(std::max(from, to), m_box.x, m_box.x + m_box.width), m_box.y + m_box.height);
        ImDrawList* list = ImPlot::GetPlotDrawList();
        list->AddRectFilled(low, high, with_alpha(ctx.theme.selection, 0.16F));
        list->AddRect(low, high, with_alpha(ctx.theme.selection, 0.8F));
        ctx.landmarks.set("signals/zoom_box", {low.x, low.y, high.x - low.x, high.y - low.y});
    }
    return clicked;
}

void SignalPlot::draw_axis_menu(UiContext& ctx) {
    AxisScale& scale = ctx.plots.scale[m_signal];
    for (const AxisScale choice : axis_scales) {
        const bool can = choice != AxisScale::log || can_be_logarithmic(info().name);
        if (ImGui::MenuItem(axis_label(choice), nullptr, scale == choice, can)) {
            scale = choice;
            m_auto_y = true;
        }
        if (!can)
            ImGui::SetItemTooltip("This signal is never above 0: \"%s\" shows it",
                                  axis_label(AxisScale::symlog));
    }
}

void SignalPlot::draw_menu(UiContext& ctx, const std::vector<ThresholdLine>& lines) {
    if (!ImGui::BeginPopup("##plot menu")) return;
    ImGui::TextDisabled("%s", with_unit(info().label, info().unit).c_str());
    if (ImGui::MenuItem("Fit the whole run", "F")) {
        ctx.time.fit_request = true;
        m_auto_y = true;
    }
    if (ImGui::MenuItem("Automatic range", nullptr, m_auto_y, !m_auto_y)) m_auto_y = true;
    ImGui::Separator();
    draw_axis_menu(ctx);
    ImGui::Separator();
    if (!lines.empty()) {
        ImGui::MenuItem("Lock the threshold line", nullptr, &m_locked);
        const std::string fallback = format_value(info().default_threshold, info().unit);
        if (ImGui::MenuItem(fmt::format("Default threshold, {}", fallback).c_str(), nullptr, false,
                            !m_locked))
            try_edit(ctx, [&] { ctx.drafts.edit(ctx.engine, lines[0].key, info().default_threshold); });
        if (ImGui::MenuItem("Copy the threshold"))
            ImGui::SetClipboardText(exact_number(lines[0].value).c_str());
    } else {
        const bool can = info().letter != 0;
        if (ImGui::MenuItem("Add a threshold", nullptr, false, can)) {
            RefreshPolicy policy = ctx.drafts.policy();
            policy.triggers.push_back(default_trigger(info().name));
            try_edit(ctx, [&] { ctx.drafts.set_policy(ctx.engine, policy); });
        }
        if (!can)
            ImGui::SetItemTooltip("This signal is known only after a refresh, so it cannot trigger one.");
    }
    if (ctx.recording && ctx.steps > 0) {
        const float value =
            ctx.recording->signal(std::clamp<int64_t>(ctx.shown_step(), 1, ctx.steps), m_signal);
        if (ImGui::MenuItem("Copy the value of the shown step", nullptr, false, !is_absent(value)))
            ImGui::SetClipboardText(exact_number(static_cast<double>(value)).c_str());
    }
    ImGui::Separator();
    if (ImGui::MenuItem("Export plotted values...")) ctx.run_action("export.plotted");
    if (ImGui::MenuItem("Hide this plot")) m_hide = true;
    ImGui::EndPopup();
}

SignalPlot::EmptyHint SignalPlot::empty_hint(const UiContext& ctx) const {
    if (ctx.recording && ctx.engine.recording() != ctx.recording) return {"Not measured in this run"};
    if (info().cost == SignalCost::teacher_pass) {
        if (ctx.status->applied.mode != Mode::overfill)
            return {"Needs a student that decodes from the teacher's cache (mode OverFill)"};
        if (ctx.drafts.value("shadow") == "true")
            return {"Shadow mode is on: values come with the next step"};
        return {"Known where the teacher reads: at probes, at refreshes, or at every step in shadow mode",
                "shadow", "Turn shadow mode on"};
    }
    if (info().cost == SignalCost::mc_rows) {
        if (ctx.drafts.value("mc.measure") == "true")
            return {"MC dropout is on: values come with its next stride"};
        return {"MC dropout is not measured", "mc.measure", "Measure MC dropout"};
    }
    return {ctx.recording && ctx.recording->end() ? "The run ended before there was a value"
                                                  : "No value yet"};
}

void SignalPlot::draw_empty_hint(UiContext& ctx) {
    const EmptyHint hint = empty_hint(ctx);
    const char *why = hint.why.c_str(), *key = hint.key, *action = hint.action;
    const float line = ImGui::GetTextLineHeight();
    const float text_width = ImGui::CalcTextSize(why).x;
    const float button_width =
        key ? ImGui::CalcTextSize(action).x + 2 * ImGui::GetStyle().FramePadding.x + line / 2 : 0;
    const ImVec2 back = ImGui::GetCursorScreenPos();
    const bool one_line = text_width + button_width < m_box.width - line;
    const float height = one_line || !key ? ImGui::GetFrameHeight() : 2 * ImGui::GetFrameHeight() + 2;
    float x = m_box.x +
              (m_box.width - (one_line ? text_width + button_width : std::min(text_width, m_box.width))) / 2;
    const float y = m_box.y + (m_box.height - height) / 2;
    ImDrawList* list = ImGui::GetWindowDrawList();
    list->PushClipRect({m_box.x, m_box.y}, {m_box.x + m_box.width, m_box.y + m_box.height}, true);
    // On a card of its own: refresh lines run behind it, not through the words.
    const float card_half =
        (one_line ? text_width + button_width : std::max(text_width, button_width)) / 2 + line;
    const float centre = m_box.x + m_box.width / 2;
    list->AddRectFilled({centre - card_half, y - 3}, {centre + card_half, y + height + 3},
                        ctx.theme.plot_background, line * 0.3F);
    ctx.landmarks.set(fmt::format("signals/empty/{}", info().name),
                      {centre - card_half, y - 3, 2 * card_half, height + 6});
    list->AddText({x, y + ImGui::GetStyle().FramePadding.y}, ctx.theme.text_muted, why);
    list->PopClipRect();
    if (key) {
        x = one_line ? x + text_width + line / 2 : m_box.x + (m_box.width - button_width) / 2;
        ImGui::SetCursorScreenPos({x, one_line ? y : y + ImGui::GetFrameHeight() + 2});
        if (ImGui::Button(action)) try_edit(ctx, [&] { ctx.drafts.edit(ctx.engine, key, "true"); });
        ImGui::SetItemTooltip("%s", std::string(info().cost_hint).c_str());
        ImGui::SetCursorScreenPos(back);
    }
}

} // namespace refreshlab::ui
