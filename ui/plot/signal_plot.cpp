#include "ui/plot/signal_plot.h"

#include "engine/base/error.h"
#include "ui/format.h"
#include "ui/plot/time_view.h"
#include "ui/plot/token_colours.h"
#include "ui/plot/value_format.h"

#include <fmt/format.h>
#include <implot.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

namespace refreshlab::ui {
namespace {

ImVec4 rgba(ImU32 colour) {
    return ImGui::ColorConvertU32ToFloat4(colour);
}

/// Labels only at whole steps, with thousands apart.
int step_label(double value, char* buffer, int size, void*) {
    const double whole = std::round(value);
    const bool shown = std::fabs(value - whole) < 1e-6 && whole >= 0;
    const std::string text = shown ? format_thousands(static_cast<int64_t>(whole)) : std::string();
    return std::snprintf(buffer, static_cast<size_t>(size), "%s", text.c_str());
}

void edit_or_toast(UiContext& ctx, const std::function<void()>& work) {
    try {
        work();
    } catch (const Error& e) {
        ctx.toasts.add(Toasts::Level::error, e.what(), ImGui::GetTime());
    }
}

/// Three digits, padded on the left to at least the width that threshold tags need: the gutter is never too narrow.
int value_label(double value, char* buffer, int size, void* least_width) {
    std::string text = format_number(value);
    const float missing = *static_cast<const float*>(least_width) - ImGui::CalcTextSize(text.c_str()).x;
    if (missing > 0)
        text.insert(0, static_cast<size_t>(std::ceil(missing / ImGui::CalcTextSize(" ").x)), ' ');
    return std::snprintf(buffer, static_cast<size_t>(size), "%s", text.c_str());
}

/// Size of a threshold's tag left of the plot: text, room around it, the arrow's length.
float tag_width(double value) {
    return ImGui::CalcTextSize(format_number(value).c_str()).x + 8;
}
float tag_half_height() {
    return ImGui::GetTextLineHeight() / 2 + 1;
}
float tag_arrow() {
    return tag_half_height() * 0.7F;
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
    m_pressed = false;
}

ValueRange SignalPlot::wanted_range(const UiContext& ctx, PlotStack& stack,
                                    const std::vector<ThresholdLine>& lines) const {
    const auto first = static_cast<int64_t>(std::floor(std::clamp(ctx.time.x_min, 0.0, 1e15)));
    const auto last = static_cast<int64_t>(std::ceil(std::clamp(ctx.time.x_max, 0.0, 1e15)));
    SeriesSummary seen = stack.series.series(m_signal).summary(first, last);
    if (seen.finite > 0) {
        if (const SeriesSet::Band* band = stack.series.band(m_signal)) {
            const SeriesSummary low = band->low.summary(first, last), high = band->high.summary(first, last);
            if (low.finite > 0) seen.min = std::min(seen.min, low.min);
            if (high.finite > 0) seen.max = std::max(seen.max, high.max);
        }
    }
    std::vector<double> thresholds;
    for (const ThresholdLine& line : lines)
        thresholds.push_back(line.value);
    std::optional<ValueRange> data;
    if (seen.finite > 0) data = ValueRange{static_cast<double>(seen.min), static_cast<double>(seen.max)};
    const int64_t vocab = ctx.recording ? ctx.recording->info().vocab_size : ctx.status->student.vocab_size;
    return auto_range(data, thresholds, usual_range(info(), vocab));
}

void SignalPlot::draw(UiContext& ctx, PlotStack& stack, float height, bool x_labels) {
    ImGui::PushID(static_cast<int>(m_signal));
    const std::vector<ThresholdLine> lines = threshold_lines(ctx.drafts, info().name);
    draw_header(ctx, stack, lines);
    for (const ThresholdLine& line : lines)
        stack.gutter = std::max(stack.gutter, tag_width(line.value) + tag_arrow());

    if (stack.fit) m_auto_y = true;
    if (m_auto_y && !m_held) {
        const ValueRange range = wanted_range(ctx, stack, lines);
        m_y_min = range.min;
        m_y_max = range.max;
    }
    // ImPlot writes a linked axis back when a plot ends, so a range that a drag widened is set before the next one.
    m_y_max += std::exchange(m_grow_up, 0.0);
    m_y_min -= std::exchange(m_grow_down, 0.0);
    // The y axis moves only under the mouse on its own labels; a drag on the curve pans time alone.
    const ImVec2 mouse = ImGui::GetMousePos();
    const bool on_labels = ImGui::IsWindowHovered() && mouse.x < m_box.x &&
                           mouse.x > m_box.x - 10 * ImGui::GetFontSize() && mouse.y >= m_box.y &&
                           mouse.y < m_box.y + m_box.height;
    const ImPlotAxisFlags common =
        ImPlotAxisFlags_NoMenus | ImPlotAxisFlags_NoSideSwitch | ImPlotAxisFlags_NoInitialFit;
    const double set_min = ctx.time.x_min, set_max = ctx.time.x_max, set_low = m_y_min, set_high = m_y_max;
    bool menu = false, hovered = false;

    ImPlot::PushStyleVar(ImPlotStyleVar_PlotPadding, ImVec2(10, 5));
    ImPlot::PushStyleVar(ImPlotStyleVar_LabelPadding, ImVec2(5, 3));
    // The label of the last tick is centred on it: room for its half beyond the plot, else it is cut.
    const float label_half =
        ImGui::CalcTextSize(format_thousands(std::max<int64_t>(100, ctx.steps)).c_str()).x / 2;
    const ImVec2 size(std::min(-1.0F, 10 - label_half), height - header_height());
    if (ImPlot::BeginPlot("##plot", size,
                          ImPlotFlags_NoTitle | ImPlotFlags_NoLegend | ImPlotFlags_NoMouseText |
                              ImPlotFlags_NoMenus)) {
        ImPlot::SetupAxis(ImAxis_X1, nullptr,
                          common | ImPlotAxisFlags_NoHighlight |
                              (x_labels ? 0 : ImPlotAxisFlags_NoTickLabels));
        ImPlot::SetupAxis(ImAxis_Y1, nullptr,
                          common | (on_labels ? ImPlotAxisFlags_None : ImPlotAxisFlags_Lock));
        ImPlot::SetupAxisLinks(ImAxis_X1, &ctx.time.x_min, &ctx.time.x_max);
        ImPlot::SetupAxisLinks(ImAxis_Y1, &m_y_min, &m_y_max);
        ImPlot::SetupAxisFormat(ImAxis_X1, step_label, nullptr);
        ImPlot::SetupAxisFormat(ImAxis_Y1, value_label, &stack.gutter);
        ImPlot::SetupAxisZoomConstraints(ImAxis_X1, min_time_width, 1e9);
        // ImPlot's own ticks are too many for a low plot: their labels would touch.
        const auto labels =
            static_cast<int>((height - header_height()) / (1.7F * ImGui::GetTextLineHeight()));
        const std::vector<double> ticks = value_ticks(m_y_min, m_y_max, std::max(2, labels));
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
        menu = hovered && ImGui::IsMouseReleased(ImGuiMouseButton_Right) &&
               ImGui::GetIO().MouseDragMaxDistanceSqr[ImGuiMouseButton_Right] < click_slop * click_slop;
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
        if (m_wheel != 0 && m_box.width > 0) {
            const double share = static_cast<double>((mouse.x - m_box.x) / m_box.width);
            zoom_time_view(ctx.time, m_wheel > 0 ? 1 / wheel_zoom : wheel_zoom,
                           ctx.time.x_min + share * (ctx.time.x_max - ctx.time.x_min), ctx.steps);
        }
        if (on_labels && (m_y_min != set_low || m_y_max != set_high)) m_auto_y = false;
    }
    draw_tags(ctx, lines);
    if (ctx.recording && ctx.steps > 0 && !has_data(stack.series)) draw_empty_hint(ctx);
    if (menu) ImGui::OpenPopup("##plot menu");
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
        list->AddText({x, at.y + 3}, ink, s.c_str());
        x += ImGui::CalcTextSize(s.c_str()).x + line * 0.7F;
    };
    text(ctx.theme.text, with_unit(info().label, info().unit));

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
    float note_right = right - 2;
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
    ImGui::InvisibleButton("##header", {std::max(1.0F, right - at.x), header_height()});
    ImGui::SetItemTooltip("%s\nCost: %s", std::string(info().description).c_str(),
                          std::string(info().cost_hint).c_str());
    if (ImGui::IsItemHovered() && ImGui::IsMouseReleased(ImGuiMouseButton_Right))
        ImGui::OpenPopup("##plot menu");
    // The plot begins right below; the style's spacing would only take room from it.
    ImGui::SetCursorScreenPos({at.x, at.y + header_height()});
}

void SignalPlot::draw_curve(UiContext& ctx, PlotStack& stack, double width_px) {
    const SignalSeries& series = stack.series.series(m_signal);
    const ImU32 colour = ctx.theme.signal(info().name);
    if (const SeriesSet::Band* band = stack.series.band(m_signal)) {
        envelope(band->low, band->high, ctx.time.x_min, ctx.time.x_max, width_px, m_band_x, m_band_low,
                 m_band_high);
        ImPlotSpec fill;
        fill.FillColor = rgba(colour);
        fill.FillAlpha = 0.32F;
        // One piece per run of measured columns; a lone one becomes a whisker, which is all that is known there.
        for (size_t i = 0; i < m_band_x.size();) {
            size_t end = i;
            while (end < m_band_x.size() && std::isfinite(m_band_low[end]) && std::isfinite(m_band_high[end]))
                ++end;
            if (end - i == 1) {
                const ImVec2 low = ImPlot::PlotToPixels(m_band_x[i], m_band_low[i]);
                const ImVec2 high = ImPlot::PlotToPixels(m_band_x[i], m_band_high[i]);
                ImPlot::PushPlotClipRect();
                ImPlot::GetPlotDrawList()->AddLine(low, high, with_alpha(colour, 0.5F), 2);
                ImPlot::PopPlotClipRect();
            } else if (end - i > 1) {
                ImPlot::PlotShaded("##band", m_band_x.data() + i, m_band_low.data() + i,
                                   m_band_high.data() + i, static_cast<int>(end - i), fill);
            }
            i = std::max(end, i + 1);
        }
    }
    decimate(series, ctx.time.x_min, ctx.time.x_max, width_px, m_path);
    const float scale = std::max(1.0F, ImGui::GetFontSize() / 16);
    ImPlotSpec spec;
    spec.LineColor = rgba(with_alpha(colour, 0.45F));
    spec.LineWeight = scale;
    if (!m_path.stair_x.empty())
        ImPlot::PlotLine("##stair", m_path.stair_x.data(), m_path.stair_y.data(),
                         static_cast<int>(m_path.stair_x.size()), spec);
    spec.LineColor = rgba(colour);
    spec.LineWeight = 1.5F * scale;
    if (!m_path.x.empty())
        ImPlot::PlotLine("##line", m_path.x.data(), m_path.y.data(), static_cast<int>(m_path.x.size()), spec);
    if (!m_path.marker_x.empty()) {
        spec.Marker = ImPlotMarker_Circle;
        spec.MarkerSize = 3 * scale;
        spec.MarkerFillColor = spec.MarkerLineColor = rgba(colour);
        ImPlot::PlotScatter("##points", m_path.marker_x.data(), m_path.marker_y.data(),
                            static_cast<int>(m_path.marker_x.size()), spec);
    }
    // What is no number: NaN as ticks on the rug, infinities as triangles at their edge.
    ImPlot::PushPlotClipRect();
    ImDrawList* list = ImPlot::GetPlotDrawList();
    const float top = m_box.y, bottom = m_box.y + m_box.height, mark = 6 * scale;
    const auto pixel = [&](double x) { return ImPlot::PlotToPixels(x, 0.0).x; };
    for (const double x : m_path.nan_x)
        list->AddLine({pixel(x), bottom - 1.5F * mark}, {pixel(x), bottom}, ctx.theme.text_error, 2 * scale);
    for (const double x : m_path.pos_inf_x)
        list->AddTriangleFilled({pixel(x), top + 1}, {pixel(x) + mark, top + 1 + 1.5F * mark},
                                {pixel(x) - mark, top + 1 + 1.5F * mark}, colour);
    for (const double x : m_path.neg_inf_x)
        list->AddTriangleFilled({pixel(x), bottom - 1}, {pixel(x) - mark, bottom - 1 - 1.5F * mark},
                                {pixel(x) + mark, bottom - 1 - 1.5F * mark}, colour);
    ImPlot::PopPlotClipRect();
}

void SignalPlot::draw_refresh_lines(UiContext& ctx, PlotStack& stack) {
    if (!ctx.recording) return;
    const RefreshMarks marks =
        refreshes_in_sight(*ctx.recording, ctx.steps, ctx.time.x_min, ctx.time.x_max,
                           static_cast<double>(m_box.x), static_cast<double>(m_box.width));
    ImPlot::PushPlotClipRect();
    ImDrawList* list = ImPlot::GetPlotDrawList();
    const float top = m_box.y, bottom = m_box.y + m_box.height;
    const ImVec2 mouse = ImGui::GetMousePos();
    const bool hovered = ImPlot::IsPlotHovered();
    for (const MarkerGroup& group : merge_markers(marks.x_px, 3)) {
        const ImU32 colour = group_colour(ctx.theme, *ctx.recording, marks, group);
        const auto left = static_cast<float>(group.x_min), right = static_cast<float>(group.x_max);
        const bool near = hovered && mouse.x > left - 3 && mouse.x < right + 3;
        if (near) stack.hovered_marks = group;
        if (group.count() == 1) {
            list->AddLine({std::round(left) + 0.5F, top}, {std::round(left) + 0.5F, bottom},
                          with_alpha(colour, near ? 1.0F : 0.42F), near ? 2.0F : 1.0F);
        } else {
            list->AddRectFilled({left - 1, top}, {right + 1, bottom},
                                with_alpha(colour, near ? 0.5F : 0.28F));
        }
    }
    ImPlot::PopPlotClipRect();
}

void SignalPlot::draw_step_lines(UiContext& ctx) {
    ImPlot::PushPlotClipRect();
    ImDrawList* list = ImPlot::GetPlotDrawList();
    const auto vertical = [&](int64_t step, ImU32 colour, float thickness) {
        const float x = std::round(ImPlot::PlotToPixels(static_cast<double>(step), 0.0).x) + 0.5F;
        list->AddLine({x, m_box.y}, {x, m_box.y + m_box.height}, colour, thickness);
    };
    if (ctx.selection.step) vertical(*ctx.selection.step, ctx.theme.selection, 1.5F);
    if (ctx.hovered_step) {
        vertical(*ctx.hovered_step, ctx.theme.crosshair, 1);
        // A ring where the crosshair meets the curve, so that the value in the header has a place.
        const float value = ctx.recording && *ctx.hovered_step >= 1 && *ctx.hovered_step <= ctx.steps
                                ? ctx.recording->signal(*ctx.hovered_step, m_signal)
                                : absent();
        if (std::isfinite(value)) {
            const ImVec2 at =
                ImPlot::PlotToPixels(static_cast<double>(*ctx.hovered_step), static_cast<double>(value));
            list->AddCircleFilled(at, 3.5F, ctx.theme.plot_background);
            list->AddCircle(at, 3.5F, ctx.theme.signal(info().name), 0, 1.5F);
        }
    }
    ImPlot::PopPlotClipRect();
}

void SignalPlot::draw_thresholds(UiContext& ctx, PlotStack& stack, const std::vector<ThresholdLine>& lines) {
    m_held = false;
    m_wheel = 0;
    for (size_t i = 0; i < lines.size(); ++i) {
        const ThresholdLine& line = lines[i];
        const bool is_held = stack.held_key == line.key;
        if (!std::isfinite(line.value) || ((line.value < m_y_min || line.value > m_y_max) && !is_held))
            continue;
        const float scale = std::max(1.0F, ImGui::GetFontSize() / 16);
        const ImU32 colour = with_alpha(ctx.theme.signal(info().name), line.enabled ? 1.0F : 0.45F);
        double y = line.value;
        const bool no_input = m_locked || (!stack.held_key.empty() && !is_held);
        bool clicked = false, hovered = false, held = false;
        ImPlot::DragLineY(static_cast<int>(i), &y, rgba(colour), (is_held ? 2.0F : 1.4F) * scale,
                          ImPlotDragToolFlags_NoFit | ImPlotDragToolFlags_Delayed |
                              (no_input ? ImPlotDragToolFlags_NoInputs : ImPlotDragToolFlags_None),
                          &clicked, &hovered, &held);
        if (hovered || held) stack.pressed_on_line = true;
        if (hovered && !held) m_wheel = ImGui::GetIO().MouseWheel;
        if (!no_input) drag_threshold(ctx, stack, line, y, held);
        m_held |= held;
        const float y_px = ImPlot::PlotToPixels(0.0, line.value).y;
        ctx.landmarks.set(i == 0 ? fmt::format("signals/threshold/{}", info().name)
                                 : fmt::format("signals/threshold/{}/{}", info().name, i),
                          {m_box.x, y_px - 4, m_box.width, 8});
        if (ctx.drafts.edited_key() == line.key) draw_prediction(ctx, stack, line);
    }
}

void SignalPlot::drag_threshold(UiContext& ctx, PlotStack& stack, const ThresholdLine& line, double y,
                                bool held) {
    if (held && stack.held_key.empty()) {
        stack.held_key = line.key;
        m_cancelled = false;
        m_last_sent = line.value;
        edit_or_toast(ctx, [&] { ctx.drafts.begin_edit(line.key); });
    }
    if (stack.held_key != line.key) return;
    if (!held) {
        stack.held_key.clear();
        if (m_cancelled) return;
        // With keyboard navigation ImGui itself lets go of what is held when Esc is pressed, before it is seen here.
        const bool escaped = ImGui::IsKeyPressed(ImGuiKey_Escape, false);
        edit_or_toast(ctx, [&] {
            if (escaped)
                ctx.drafts.cancel(ctx.engine);
            else
                ctx.drafts.commit(line.key);
        });
        return;
    }
    ctx.host.keep_awake(0.5);
    if (m_cancelled) return; // until the button goes up
    if (ImGui::IsKeyPressed(ImGuiKey_Escape, false)) {
        m_cancelled = true;
        edit_or_toast(ctx, [&] { ctx.drafts.cancel(ctx.engine); });
        return;
    }
    if (!ImGui::IsMouseDragging(ImGuiMouseButton_Left)) return;
    // Beyond the edge the range grows under the mouse, so that every value can be reached.
    const float mouse = ImGui::GetMousePos().y;
    const DragLimits limits = drag_limits(line, info().name);
    const double range = m_y_max - m_y_min;
    if (mouse < m_box.y && m_y_max < limits.max) m_grow_up = 0.02 * range;
    if (mouse > m_box.y + m_box.height && m_y_min > limits.min) m_grow_down = 0.02 * range;
    double quantum = drag_quantum(range, static_cast<double>(m_box.height));
    if (info().unit == "tokens") quantum = std::max(1.0, quantum);
    const double low = std::max(limits.min, m_y_min), high = std::min(limits.max, m_y_max);
    const double value = std::clamp(round_to(std::clamp(y, low, high), quantum), limits.min, limits.max);
    if (value == m_last_sent) return;
    m_last_sent = value;
    edit_or_toast(ctx, [&] { ctx.drafts.edit(ctx.engine, line.key, value); });
}

void SignalPlot::draw_prediction(UiContext& ctx, PlotStack& stack, const ThresholdLine& line) {
    const WhatIf* answer = stack.preview.answer();
    if (!answer) return;
    const auto first =
        std::ranges::lower_bound(answer->fires, static_cast<int64_t>(std::floor(ctx.time.x_min)));
    std::vector<double> x_px;
    std::vector<int64_t> steps;
    for (auto it = first; it != answer->fires.end() && static_cast<double>(*it) <= ctx.time.x_max; ++it) {
        x_px.push_back(static_cast<double>(ImPlot::PlotToPixels(static_cast<double>(*it), 0.0).x));
        steps.push_back(*it);
    }
    const float y = ImPlot::PlotToPixels(0.0, line.value).y, size = ImGui::GetFontSize() * 0.3F;
    const ImU32 colour = ctx.theme.signal(info().name);
    ImPlot::PushPlotClipRect();
    ImDrawList* list = ImPlot::GetPlotDrawList();
    for (const MarkerGroup& group : merge_markers(x_px, 3)) {
        const auto x = static_cast<float>(group.x());
        // Solid as far as the prediction is exact, faint where the text itself would differ.
        const bool exact = !answer->exact_until || steps[group.first] <= *answer->exact_until;
        const ImU32 ink = with_alpha(colour, exact ? 0.9F : 0.45F);
        list->AddLine({x, m_box.y}, {x, m_box.y + m_box.height}, with_alpha(colour, exact ? 0.30F : 0.16F));
        list->AddTriangleFilled({x - size, y - 2 * size}, {x + size, y - 2 * size}, {x, y - 1}, ink);
    }
    ImPlot::PopPlotClipRect();
}

void SignalPlot::draw_tags(UiContext& ctx, const std::vector<ThresholdLine>& lines) {
    ImDrawList* list = ImGui::GetWindowDrawList();
    const float line_height = ImGui::GetTextLineHeight(), half = tag_half_height(), arrow = tag_arrow();
    for (const ThresholdLine& line : lines) {
        if (!std::isfinite(line.value)) continue;
        const ImU32 colour =
            mix(ctx.theme.plot_background, ctx.theme.signal(info().name), line.enabled ? 1.0F : 0.5F);
        const bool above = line.value > m_y_max, below = line.value < m_y_min;
        const double share = (m_y_max - line.value) / std::max(m_y_max - m_y_min, 1e-300);
        float y = m_box.y + static_cast<float>(std::clamp(share, 0.0, 1.0)) * m_box.height;
        y = std::round(
            std::clamp(y, m_box.y + (above ? half : 0), m_box.y + m_box.height - (below ? half : 0)));
        const std::string text = format_number(line.value);
        const float width = tag_width(line.value);
        const float tip = m_box.x - 1, right = tip - arrow, left = right - width;
        const ImVec2 shape[] = {
            {left, y - half}, {right, y - half}, {tip, y}, {right, y + half}, {left, y + half}};
        const bool hollow = line.pending;
        list->AddConvexPolyFilled(shape, 5, hollow ? ctx.theme.plot_background : colour);
        if (hollow) list->AddPolyline(shape, 5, colour, 1.5F, ImDrawFlags_Closed);
        list->AddText({left + 4, y - line_height / 2}, hollow ? colour : readable_on(colour), text.c_str());
        if (above || below) { // out of range: an arrow on the tag's top or bottom says where the line is
            const float x = (left + right) / 2, d = above ? -1.0F : 1.0F, edge = y + d * half;
            list->AddTriangleFilled({x - 5, edge}, {x + 5, edge}, {x, edge + d * 5}, colour);
        }
    }
}

void SignalPlot::handle_mouse(UiContext& ctx, PlotStack& stack) {
    const ImGuiIO& io = ImGui::GetIO();
    const bool hovered = ImPlot::IsPlotHovered();
    if (hovered && ctx.steps > 0 && stack.held_key.empty()) {
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

void SignalPlot::draw_menu(UiContext& ctx, const std::vector<ThresholdLine>& lines) {
    if (!ImGui::BeginPopup("##plot menu")) return;
    ImGui::TextDisabled("%s", with_unit(info().label, info().unit).c_str());
    if (ImGui::MenuItem("Fit the whole run", "F")) {
        ctx.time.fit_request = true;
        m_auto_y = true;
    }
    if (ImGui::MenuItem("Automatic range", nullptr, m_auto_y, !m_auto_y)) m_auto_y = true;
    ImGui::Separator();
    if (!lines.empty()) {
        ImGui::MenuItem("Lock the threshold line", nullptr, &m_locked);
        const std::string fallback = format_value(info().default_threshold, info().unit);
        if (ImGui::MenuItem(fmt::format("Default threshold, {}", fallback).c_str(), nullptr, false,
                            !m_locked))
            edit_or_toast(ctx, [&] { ctx.drafts.edit(ctx.engine, lines[0].key, info().default_threshold); });
        if (ImGui::MenuItem("Copy the threshold"))
            ImGui::SetClipboardText(exact_number(lines[0].value).c_str());
    } else {
        const bool can = info().letter != 0;
        if (ImGui::MenuItem("Add a threshold", nullptr, false, can)) {
            RefreshPolicy policy = ctx.drafts.policy();
            policy.triggers.push_back(default_trigger(info().name));
            edit_or_toast(ctx, [&] { ctx.drafts.set_policy(ctx.engine, policy); });
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
    if (ImGui::MenuItem("Hide this plot")) m_hide = true;
    ImGui::EndPopup();
}

void SignalPlot::draw_empty_hint(UiContext& ctx) {
    const char* why = "No value yet.";
    const char* key = nullptr;
    const char* action = "";
    if (info().cost == SignalCost::teacher_pass) {
        why = "Known where the teacher reads: at probes, at refreshes, or at every step in shadow mode.";
        if (ctx.status->applied.mode != Mode::overfill) {
            why = "Needs a student that decodes from the teacher's cache (mode OverFill).";
        } else if (ctx.drafts.value("shadow") == "true") {
            why = "Shadow mode is on: values come with the next step.";
        } else {
            key = "shadow";
            action = "Turn shadow mode on";
        }
    } else if (info().cost == SignalCost::mc_rows) {
        why = "MC dropout is not measured.";
        if (ctx.drafts.value("mc.measure") == "true") {
            why = "MC dropout is on: values come with its next stride.";
        } else {
            key = "mc.measure";
            action = "Measure MC dropout";
        }
    }
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
        if (ImGui::Button(action)) edit_or_toast(ctx, [&] { ctx.drafts.edit(ctx.engine, key, "true"); });
        ImGui::SetItemTooltip("%s", std::string(info().cost_hint).c_str());
        ImGui::SetCursorScreenPos(back);
    }
}

} // namespace refreshlab::ui
