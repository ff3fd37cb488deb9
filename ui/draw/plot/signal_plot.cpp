#include "ui/draw/plot/signal_plot.h"

#include "ui/base/value_format.h"
#include "ui/draw/screen_canvas.h"
#include "ui/draw/widgets.h"
#include "ui/figure/paint/note_paint.h"
#include "ui/scene/axes/time_view.h"

#include <fmt/format.h>
#include <implot.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

namespace refreshlab::ui {
namespace {

/// Labels only at whole steps, with thousands apart, and none beyond the last step that `last` (a double) names.
int step_label(double value, char* buffer, int size, void* last) {
    const double whole = std::round(value);
    const bool shown =
        std::fabs(value - whole) < 1e-6 && whole >= 0 && whole <= *static_cast<const double*>(last);
    const std::string text = shown ? format_thousands(static_cast<int64_t>(whole)) : std::string();
    return std::snprintf(buffer, static_cast<size_t>(size), "%s", text.c_str());
}

// ImPlot asks for places and values of an axis that is not linear.
double axis_forward(double value, void* axis) {
    return static_cast<const ValueAxis*>(axis)->forward(value);
}
double axis_inverse(double place, void* axis) {
    return static_cast<const ValueAxis*>(axis)->inverse(place);
}

constexpr double wheel_zoom = 1.2; // of the width per event, as ImPlot zooms beside the line

} // namespace

/// What the labels of a y axis must know.
struct SignalPlot::ValueLabels {
    float least_width = 0; ///< pixels: threshold tags need it, so the gutter is never narrower
    std::span<const ThresholdLine>
        thresholds; ///< a tag covers the label behind it: better none than half of one
    const ValueAxis& axis;
    double covered = 0;  ///< by a tag to either side of its middle, as a share of the axis
    double step = 0;     ///< between the ticks of a linear axis
    bool layers = false; ///< ticks are layers
    bool right = false;  ///< the axis is on the right
};

/// As many digits as neighbours need to differ, padded outwards to the gutter's width.
int SignalPlot::label(double value, char* buffer, int size, void* user) {
    const auto& labels = *static_cast<const ValueLabels*>(user);
    const bool hidden = std::ranges::any_of(labels.thresholds, [&](const ThresholdLine& line) {
        return std::fabs(labels.axis.share(value) - std::clamp(labels.axis.share(line.value), 0.0, 1.0)) <
               labels.covered;
    });
    std::string text = hidden ? std::string() : format_tick(value, labels.step);
    if (labels.layers) text.insert(0, 1, 'L');
    const float missing = labels.least_width - ImGui::CalcTextSize(text.c_str()).x;
    if (missing > 0) {
        const auto spaces = static_cast<size_t>(std::ceil(missing / ImGui::CalcTextSize(" ").x));
        text.insert(labels.right ? text.size() : 0, spaces, ' ');
    }
    return std::snprintf(buffer, static_cast<size_t>(size), "%s", text.c_str());
}

float SignalPlot::header_height() {
    return ImGui::GetTextLineHeight() + 6;
}

void SignalPlot::begin_frame(UiContext& ctx, size_t signal) {
    m_signal = signal;
    m_info = &ctx.signals()[signal];
    const LayerPick pick = ctx.layer_pick(*m_info);
    if (pick != m_pick) m_auto_y = true;
    m_pick = pick;
    m_guest = nullptr;
    m_on_right = false;
}

void SignalPlot::set_guest(SignalPlot& guest) {
    m_guest = &guest;
    guest.m_on_right = true;
}

std::vector<ThresholdLine> SignalPlot::threshold_lines_here(const UiContext& ctx) const {
    if (m_pick.strip) return {};
    return lines_of_pick(threshold_lines(ctx.drafts, info().name), m_pick);
}

void SignalPlot::forget_run() {
    m_strip.clear();
    m_differences.clear();
    m_rejected = {};
    m_auto_y = true;
    m_box_from.reset();
    m_pressed = false;
}

/// \param height  of the plot area, pixels, near enough
void SignalPlot::fit_values(const UiContext& ctx, PlotStack& stack, const Lines& lines, float height) {
    if (m_pick.strip) { // one row a layer, layer 0 at the top as in every map
        const int64_t layers = ctx.recording ? ctx.recording->info().layers : 1;
        m_axis = {.scale = AxisScale::linear, .min = -0.5, .max = static_cast<double>(layers) - 0.5};
        return;
    }
    std::vector<double> thresholds;
    for (const ThresholdLine& line : lines)
        thresholds.push_back(line.value);
    const int64_t vocab = ctx.recording ? ctx.recording->info().vocab_size : ctx.status->student.vocab_size;
    const ValueRange usual = usual_range(info(), vocab);
    fit_axis(m_axis, ctx.views.signals.of(info().name).scale, seen_of_all(ctx, stack), thresholds, usual);
    const float room = ImGui::GetFontSize() * 0.3F; // a curve is less than a tenth of it thick
    clear_floor(m_axis, usual, static_cast<double>(room / std::max(height, 4 * room)));
}

/// What a frame of the plot knows before and after its drawing.
struct SignalPlot::Frame {
    ValueLabels labels;               ///< until EndPlot
    std::optional<ValueLabels> right; ///< the same of the axis on the right
    double last_label = 0;            ///< step; beyond it stands the name of the axis
    TimeView time;                    ///< as set: what differs after the plot was moved by a person
    ValueRange values;
    ImVec2 mouse;
    bool x_labels = false;  ///< the lowest plot names the steps
    bool on_labels = false; ///< the mouse is on the y labels
    bool hovered = false;
    ValueRange right_values = {};
    bool on_right = false; ///< the mouse is on the labels on the right
};

/// Range and scale of this frame. \param height  of the plot area, pixels, near enough
void SignalPlot::advance_axis(const UiContext& ctx, PlotStack& stack, const Lines& lines, float height) {
    if (shows_rejected(ctx)) m_rejected.update(*ctx.recording, info().name);
    const AxisScale scale = m_pick.strip ? AxisScale::linear : ctx.views.signals.of(info().name).scale;
    if (stack.fit || m_axis.scale != scale) m_auto_y = true;
    if (m_auto_y && !m_held) fit_values(ctx, stack, lines, height);
    // ImPlot writes a linked axis back when a plot ends, so a range that a drag widened is set before the next one.
    m_axis.widen(std::exchange(m_grow_down, 0.0), std::exchange(m_grow_up, 0.0));
}

/// The mouse is on the labels of this axis and not on a tag: there alone it moves the values, a drag on the curve pans time.
bool SignalPlot::over_labels(ImVec2 mouse) const {
    const float reach = 10 * ImGui::GetFontSize(), right = m_box.x + m_box.width;
    const bool beside = m_on_right ? mouse.x > right && mouse.x < right + reach
                                   : mouse.x < m_box.x && mouse.x > m_box.x - reach;
    return beside && m_tag_hovered == none && ImGui::IsWindowHovered() && mouse.y >= m_box.y &&
           mouse.y < m_box.y + m_box.height;
}

void SignalPlot::draw(UiContext& ctx, PlotStack& stack, float height, bool x_labels) {
    ImGui::PushID(static_cast<int>(m_signal));
    m_header_button = 0;
    const Lines lines = threshold_lines_here(ctx);
    const Lines right_lines = m_guest ? m_guest->threshold_lines_here(ctx) : Lines();
    draw_header(ctx, stack, lines);
    const ImVec2 below_header = ImGui::GetCursorScreenPos();
    const size_t strips = num_strips(stack, height);
    const float strips_height = strips > 0 ? strip_height() * static_cast<float>(strips) + 2 : 0;
    ImGui::SetCursorScreenPos({below_header.x, below_header.y + strips_height});
    height -= strips_height;
    for (const ThresholdLine& line : lines)
        stack.gutter = std::max(stack.gutter, threshold_tag_width(line.value));

    for (const ThresholdLine& line : right_lines)
        stack.right_gutter = std::max(stack.right_gutter, threshold_tag_width(line.value));
    const float area = height - header_height();
    advance_axis(ctx, stack, lines, area);
    if (m_guest) m_guest->advance_axis(ctx, stack, right_lines, area);
    const double covered = static_cast<double>(ImGui::GetTextLineHeight() / std::max(1.0F, area));
    Frame f{.labels = {stack.gutter, lines, m_axis, covered, 0, m_pick.strip, false},
            .right = {},
            .last_label = stack.last_label,
            .time = ctx.time,
            .values = {m_axis.min, m_axis.max},
            .mouse = ImGui::GetMousePos()};
    f.x_labels = x_labels;
    hold_tags(ctx, stack, lines);
    f.on_labels = over_labels(f.mouse);
    if (m_guest) {
        f.right.emplace(
            ValueLabels{stack.right_gutter, right_lines, m_guest->m_axis, covered, 0, false, true});
        f.right_values = {m_guest->m_axis.min, m_guest->m_axis.max};
        ImGui::PushID("right");
        m_guest->hold_tags(ctx, stack, right_lines);
        ImGui::PopID();
        f.on_right = m_guest->over_labels(f.mouse);
    }
    bool menu = false;
    ImPlot::PushStyleVar(ImPlotStyleVar_PlotPadding, ImVec2(10, 5));
    ImPlot::PushStyleVar(ImPlotStyleVar_LabelPadding, ImVec2(5, 3));
    // The label of the last tick is centred on it: room for its half beyond the plot, else it is cut.
    const float label_half =
        ImGui::CalcTextSize(format_thousands(std::max<int64_t>(100, ctx.steps)).c_str()).x / 2;
    const ImVec2 size(std::min(-1.0F, 10 - label_half), height - header_height());
    if (ImPlot::BeginPlot("##plot", size,
                          ImPlotFlags_NoTitle | ImPlotFlags_NoLegend | ImPlotFlags_NoMouseText |
                              ImPlotFlags_NoMenus | ImPlotFlags_NoBoxSelect)) {
        set_up_axes(ctx, stack, f, height);
        draw_contents(ctx, stack, lines, right_lines);
        f.hovered = ImPlot::IsPlotHovered();
        menu = zoom_by_box(ctx, f.hovered);
        ImPlot::EndPlot();
    }
    ImPlot::PopStyleVar(2);
    move_view(ctx, f);
    draw_tags(ctx, lines);
    if (m_guest) m_guest->draw_tags(ctx, right_lines);
    draw_strips(ctx, stack, below_header, strips);
    if (ctx.recording && ctx.steps > 0 && !has_data(stack.series) && seen_of_all(ctx, stack).finite == 0)
        draw_empty_hint(ctx);
    if (menu) ImGui::OpenPopup("##plot menu");
    draw_menu(ctx, stack, lines);
    ImGui::PopID();
}

void SignalPlot::set_up_axes(UiContext& ctx, PlotStack& stack, Frame& f, float height) {
    ImPlot::SetupAxis(ImAxis_X1, nullptr,
                      ImPlotAxisFlags_NoMenus | ImPlotAxisFlags_NoSideSwitch | ImPlotAxisFlags_NoInitialFit |
                          ImPlotAxisFlags_NoHighlight |
                          (f.x_labels ? ImPlotAxisFlags_None : ImPlotAxisFlags_NoTickLabels));
    ImPlot::SetupAxisLinks(ImAxis_X1, &ctx.time.x_min, &ctx.time.x_max);
    ImPlot::SetupAxisFormat(ImAxis_X1, step_label, &f.last_label);
    ImPlot::SetupAxisZoomConstraints(ImAxis_X1, min_time_width, 1e9);
    // Of two axes each has the colour of its curve.
    if (m_guest)
        ImPlot::PushStyleColor(ImPlotCol_AxisText, ImGui::ColorConvertU32ToFloat4(curve_colour(ctx, stack)));
    set_up_values(ctx, f.labels, stack.gutter, height, f.on_labels);
    if (!m_guest) return;
    ImPlot::PopStyleColor();
    ImPlot::PushStyleColor(ImPlotCol_AxisText,
                           ImGui::ColorConvertU32ToFloat4(m_guest->curve_colour(ctx, stack)));
    m_guest->set_up_values(ctx, *f.right, stack.right_gutter, height, f.on_right);
    ImPlot::PopStyleColor();
}

/// The axis of this signal's values. ImPlot's own ticks are too many for a low plot: their labels would touch.
/// \param gutter  becomes wide enough for the labels. \param moves  a person may drag the axis
void SignalPlot::set_up_values(UiContext& ctx, ValueLabels& values, float& gutter, float height, bool moves) {
    const ImAxis axis = m_on_right ? ImAxis_Y2 : ImAxis_Y1;
    ImPlot::SetupAxis(axis, nullptr,
                      ImPlotAxisFlags_NoMenus | ImPlotAxisFlags_NoSideSwitch | ImPlotAxisFlags_NoInitialFit |
                          (m_on_right ? ImPlotAxisFlags_AuxDefault : ImPlotAxisFlags_None) |
                          (moves ? ImPlotAxisFlags_None : ImPlotAxisFlags_Lock) |
                          (m_pick.strip ? ImPlotAxisFlags_Invert : ImPlotAxisFlags_None));
    ImPlot::SetupAxisLinks(axis, &m_axis.min, &m_axis.max);
    if (m_axis.scale != AxisScale::linear) ImPlot::SetupAxisScale(axis, axis_forward, axis_inverse, &m_axis);
    if (m_axis.scale == AxisScale::log) ImPlot::SetupAxisLimitsConstraints(axis, 1e-30, 1e30);
    ImPlot::SetupAxisFormat(axis, label, &values);
    const auto labels = static_cast<int>((height - header_height()) / (1.7F * ImGui::GetTextLineHeight()));
    std::vector<double> ticks =
        m_pick.strip ? axis_ticks(m_axis, std::max(2, labels)) : labelled_ticks(m_axis, std::max(2, labels));
    if (m_pick.strip) std::erase_if(ticks, [](double tick) { return tick != std::round(tick); });
    if (m_axis.scale == AxisScale::linear && ticks.size() > 1) values.step = ticks[1] - ticks[0];
    for (const double tick : ticks)
        gutter = std::max(gutter, ImGui::CalcTextSize(format_tick(tick, values.step).c_str()).x);
    if (ticks.empty()) return;
    ImPlot::SetupAxisTicks(axis, ticks.data(), static_cast<int>(ticks.size()), nullptr, false);
    ctx.landmarks.set_text([&] { return format_tick(ticks.back(), values.step); }, "signals/top/{}",
                           info().name);
}

void SignalPlot::draw_contents(UiContext& ctx, PlotStack& stack, const Lines& lines,
                               const Lines& right_lines) {
    const ImVec2 pos = ImPlot::GetPlotPos(), area = ImPlot::GetPlotSize();
    m_box = {pos.x, pos.y, area.x, area.y};
    stack.left = pos.x;
    stack.width = area.x;
    stack.bottom = pos.y + area.y;
    ctx.landmarks.set(m_box, "signals/plot/{}", info().name);
    const auto width = static_cast<double>(area.x);
    // What the guest draws goes by its own axis.
    const auto on_right = [&](auto draw) {
        if (!m_guest) return;
        ImPlot::SetAxes(ImAxis_X1, ImAxis_Y2);
        ImGui::PushID("right");
        draw(*m_guest);
        ImGui::PopID();
        ImPlot::SetAxes(ImAxis_X1, ImAxis_Y1);
    };

    if (m_pick.strip) draw_strip(ctx, width);
    if (!m_pick.strip && ctx.marks.count(MarkLane::note) > 0)
        paint_note_bands(ScreenPen(ctx, ImPlot::GetPlotDrawList()), ctx.marks,
                         {static_cast<double>(pos.x), width, ctx.time.x_min, ctx.time.x_max},
                         figure_rect(m_box), false);
    draw_refresh_lines(ctx, stack);
    on_right([&](SignalPlot& right) {
        right.m_box = m_box;
        ctx.landmarks.set(m_box, "signals/right/{}", right.info().name);
        right.draw_overlays(ctx, stack, width);
        right.draw_curve(ctx, stack, width);
    });
    if (!m_pick.strip) draw_overlays(ctx, stack, width);
    if (!m_pick.strip) draw_curve(ctx, stack, width);
    draw_step_lines(ctx);
    draw_ring(ctx, stack);
    on_right([&](SignalPlot& right) {
        right.draw_ring(ctx, stack);
        right.draw_thresholds(ctx, stack, right_lines);
    });
    draw_thresholds(ctx, stack, lines);
    handle_mouse(ctx, stack);
}

/// After the plot: what a person did to time or values by mouse and wheel.
void SignalPlot::move_view(UiContext& ctx, const Frame& f) {
    if (ImGui::IsMouseDoubleClicked(ImGuiMouseButton_Left) && (f.hovered || f.on_labels || f.on_right)) {
        // All axes: the whole run, automatic range. ImPlot's own fit sees only what was drawn and is overruled here.
        m_auto_y = true;
        if (m_guest) m_guest->m_auto_y = true;
        if (f.hovered) ctx.time.fit_request = true;
        ctx.time.x_min = f.time.x_min;
        ctx.time.x_max = f.time.x_max;
        if (m_pressed) ctx.selection.step = m_selection_before_click;
        m_pressed = false;
    } else {
        note_user_view(ctx.time, f.time.x_min, f.time.x_max, ctx.steps);
        if (const auto to = std::exchange(m_zoom_to, std::nullopt))
            set_time_range(ctx.time, to->min, to->max, ctx.steps);
        const float wheel = m_guest && m_wheel == 0 ? m_guest->m_wheel : m_wheel;
        if (wheel != 0 && m_box.width > 0) {
            const double share = static_cast<double>((f.mouse.x - m_box.x) / m_box.width);
            zoom_time_view(ctx.time, wheel > 0 ? 1 / wheel_zoom : wheel_zoom,
                           ctx.time.x_min + share * (ctx.time.x_max - ctx.time.x_min), ctx.steps);
        }
        if (f.on_labels && (m_axis.min != f.values.min || m_axis.max != f.values.max)) m_auto_y = false;
        if (f.on_right &&
            (m_guest->m_axis.min != f.right_values.min || m_guest->m_axis.max != f.right_values.max))
            m_guest->m_auto_y = false;
    }
}

} // namespace refreshlab::ui
