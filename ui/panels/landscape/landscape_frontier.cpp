// Loss against refreshes: what thresholds give, blind placement, and what nobody can go below.
#include "engine/base/error.h"
#include "engine/signals/registry.h"
#include "ui/base/colour.h"
#include "ui/base/format.h"
#include "ui/base/value_format.h"
#include "ui/draw/screen_canvas.h"
#include "ui/draw/text.h"
#include "ui/draw/tooltips.h"
#include "ui/draw/widgets.h"
#include "ui/figure/paint/landscape_paint.h"
#include "ui/panels/landscape/landscape_panel.h"
#include "ui/scene/landscape/objective_words.h"
#include "ui/scene/maps/heatmap.h"
#include "ui/scene/policy/thresholds.h"

#include <fmt/format.h>
#include <implot.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

namespace refreshlab::ui {

namespace {

int count_label(double value, char* buffer, int size, void*) {
    return std::snprintf(buffer, static_cast<size_t>(size), "%s",
                         format_thousands(std::llround(value)).c_str());
}

} // namespace

FrontierPicture LandscapePanel::frontier_picture(const Frame& f) {
    const auto* curves = m_frontiers.answer();
    return {f.teacher, curves ? std::span<const FrontierCurve>(*curves) : std::span<const FrontierCurve>(),
            m_bests.answer(), &m_stairs};
}

/// What the plot shows as long as nobody has zoomed.
void LandscapePanel::fit_frontier(const Frame& f) {
    const FrontierRange fit = fitted_frontier(*f.landscape, m_bests.answer(), m_stairs, f.objective());
    m_frontier_view.begin_frame(fit.refreshes, fit.loss);
}

/// Axes with names, whole numbers of refreshes, and losses with as many digits as they need to differ.
void LandscapePanel::set_up_frontier(const Frame& f, PixelBox place) {
    FrontierView& view = m_frontier_view;
    constexpr ImPlotAxisFlags flags =
        ImPlotAxisFlags_NoMenus | ImPlotAxisFlags_NoSideSwitch | ImPlotAxisFlags_NoInitialFit;
    ImPlot::SetupAxis(ImAxis_X1, "refreshes", flags);
    std::string upright = axis_label(f.objective());
    const float below = 3.6F * f.em; // labels and name of the other axis
    if (text_width(upright) > place.height - below) upright = axis_label(f.objective(), true);
    ImPlot::SetupAxis(ImAxis_Y1, upright.c_str(), flags);
    ImPlot::SetupAxisLinks(ImAxis_X1, &view.refreshes.min, &view.refreshes.max);
    ImPlot::SetupAxisLinks(ImAxis_Y1, &view.loss.min, &view.loss.max);
    const auto all = static_cast<double>(f.landscape->num_tokens());
    ImPlot::SetupAxisLimitsConstraints(ImAxis_X1, -0.05 * all, 1.05 * all);
    constexpr double closest = 1.5, least_loss = 1e-4, most_loss = 100; // of no use beyond
    ImPlot::SetupAxisZoomConstraints(ImAxis_X1, closest, 1.1 * all);
    ImPlot::SetupAxisZoomConstraints(ImAxis_Y1, least_loss, most_loss);
    const auto that_fit = [](float room, float one) { return std::max(2, static_cast<int>(room / one)); };
    std::vector<double> ticks;
    for (const int64_t count : whole_ticks(static_cast<int64_t>(std::ceil(view.refreshes.min)),
                                           static_cast<int64_t>(std::floor(view.refreshes.max)) + 1,
                                           that_fit(place.width, 4 * f.em)))
        if (count >= 0) ticks.push_back(static_cast<double>(count));
    ImPlot::SetupAxisFormat(ImAxis_X1, count_label);
    if (!ticks.empty())
        ImPlot::SetupAxisTicks(ImAxis_X1, ticks.data(), static_cast<int>(ticks.size()), nullptr, false);
    ticks = value_ticks(view.loss.min, view.loss.max, that_fit(place.height, 2.6F * f.em));
    if (ticks.size() < 2) return; // ImPlot's own then
    std::vector<std::string> words;
    for (const double tick : ticks)
        words.push_back(format_tick(tick, ticks[1] - ticks[0]));
    std::vector<const char*> labels;
    for (const std::string& word : words)
        labels.push_back(word.c_str());
    ImPlot::SetupAxisTicks(ImAxis_Y1, ticks.data(), static_cast<int>(ticks.size()), labels.data(), false);
}

void LandscapePanel::draw_frontier(UiContext& ctx, const Frame& f, PixelBox place) {
    const float em = f.em;
    const ScreenPen pen(ctx, ImGui::GetWindowDrawList());
    const auto legend = frontier_legend(ctx.theme, frontier_picture(f), ctx.signals());
    const auto width = static_cast<double>(place.width);
    float names = static_cast<float>(legend_height(pen, width, legend)) + 0.4F * em;
    if (place.height - names < 8 * em || names > 0.35F * place.height) names = 0; // tooltips tell them
    const ImVec2 size(place.width, place.height - names);
    if (size.x < 10 * em || size.y < 5 * em) return;
    fit_frontier(f);
    FrontierMouse mouse = FrontierMouse::nothing;
    PixelBox plot;
    ImGui::SetCursorScreenPos({place.x, place.y});
    ImPlot::PushStyleVar(ImPlotStyleVar_PlotPadding, ImVec2(4, 5));
    ImPlot::PushStyleVar(ImPlotStyleVar_LabelPadding, ImVec2(5, 3));
    if (ImPlot::BeginPlot("##frontier", size,
                          ImPlotFlags_NoTitle | ImPlotFlags_NoLegend | ImPlotFlags_NoMouseText |
                              ImPlotFlags_NoMenus)) {
        set_up_frontier(f, {place.x, place.y, size.x, size.y});
        ImPlot::SetupFinish();
        const ImVec2 low = ImPlot::GetPlotPos(), extent = ImPlot::GetPlotSize();
        plot = {low.x, low.y, extent.x, extent.y};
        ctx.landmarks.set("landscape/frontier", {low.x, low.y, extent.x, extent.y});
        draw_curves(ctx, f);
        hover_frontier(ctx, f);
        mouse = frontier_mouse();
        ImPlot::EndPlot();
    }
    ImPlot::PopStyleVar(2);
    answer_mouse(ctx, mouse);
    draw_frontier_menu(f);
    draw_fit_button(plot, em);
    ctx.views.landscape.frontier = m_frontier_view.own();
    ctx.landmarks.set_text(
        [&] {
            const ValueRange &x = m_frontier_view.refreshes, &y = m_frontier_view.loss;
            return fmt::format("{:.4g} {:.4g} {:.4g} {:.4g}", x.min, x.max, y.min, y.max);
        },
        "landscape/frontier");
    if (names > 0)
        draw_legend(pen, {static_cast<double>(place.x), static_cast<double>(place.y + size.y + 0.2F * em)},
                    width, legend);
}

/// Within the plot: what was done to it. Dragging, the box of the right button and the wheel are ImPlot's own.
LandscapePanel::FrontierMouse LandscapePanel::frontier_mouse() {
    constexpr float click_slop = 4; // pixels the mouse may move within a click
    const ImGuiIO& io = ImGui::GetIO();
    const auto still = [&](ImGuiMouseButton button) {
        return io.MouseDragMaxDistanceSqr[button] < click_slop * click_slop;
    };
    const bool on_plot = ImPlot::IsPlotHovered(),
               on_it = on_plot || ImPlot::IsAxisHovered(ImAxis_X1) || ImPlot::IsAxisHovered(ImAxis_Y1);
    if (on_it && ImGui::IsMouseDoubleClicked(ImGuiMouseButton_Left)) {
        m_frontier_pressed = false;
        return FrontierMouse::double_click;
    }
    if (on_plot && ImGui::IsMouseReleased(ImGuiMouseButton_Right) && still(ImGuiMouseButton_Right))
        return FrontierMouse::menu;
    if (on_plot && ImGui::IsMouseClicked(ImGuiMouseButton_Left)) {
        m_frontier_pressed = true;
        m_frontier_view.press();
    }
    if (ImGui::IsMouseDown(ImGuiMouseButton_Left)) return FrontierMouse::nothing;
    const bool clicked = std::exchange(m_frontier_pressed, false) &&
                         ImGui::IsMouseReleased(ImGuiMouseButton_Left) && still(ImGuiMouseButton_Left);
    return clicked ? FrontierMouse::click : FrontierMouse::nothing;
}

/// After the plot, which has written the view by now.
void LandscapePanel::answer_mouse(UiContext& ctx, FrontierMouse mouse) {
    m_frontier_view.end_frame(mouse == FrontierMouse::double_click);
    if (mouse == FrontierMouse::menu) ImGui::OpenPopup("##frontier menu");
    if (mouse != FrontierMouse::click) return;
    m_frontier_view.take_back();
    if (m_hit) take_point(ctx, *m_hit);
}

void LandscapePanel::draw_frontier_menu(const Frame& f) {
    if (!ImGui::BeginPopup("##frontier menu")) return;
    if (ImGui::MenuItem("Fit", nullptr, m_frontier_view.fitted(), !m_frontier_view.fitted()))
        m_frontier_view.fit();
    if (ImGui::MenuItem("Copy the frontiers as CSV")) ImGui::SetClipboardText(frontier_csv(f).c_str());
    ImGui::EndPopup();
}

/// In a corner of a plot that does not show what it shows by itself.
void LandscapePanel::draw_fit_button(PixelBox plot, float em) {
    if (m_frontier_view.fitted() || plot.width <= 0) return;
    const char* words = "Fit";
    const float width = text_width(words) + 2 * ImGui::GetStyle().FramePadding.x;
    ImGui::SetCursorScreenPos({plot.x + plot.width - width - 0.3F * em, plot.y + 0.3F * em});
    if (ImGui::SmallButton(words)) m_frontier_view.fit();
    ImGui::SetItemTooltip("Shows what fits the policy again (double click)");
}

/// The same drawing as a figure's, on ImPlot's axes.
void LandscapePanel::draw_curves(UiContext& ctx, const Frame& f) {
    const ImVec2 low = ImPlot::GetPlotPos(), extent = ImPlot::GetPlotSize();
    const ImPlotRect limits = ImPlot::GetPlotLimits();
    PlotArea area;
    area.rect = figure_rect({low.x, low.y, extent.x, extent.y});
    area.x_min = limits.X.Min;
    area.x_max = limits.X.Max;
    area.y.min = limits.Y.Min;
    area.y.max = limits.Y.Max;
    const ScreenPen pen(ctx, ImPlot::GetPlotDrawList());
    const FrontierPicture picture = frontier_picture(f);
    paint_frontier(pen, area, picture);
    for (const FrontierCurve& curve : picture.curves)
        for (size_t p = 0; curve.of_draft && p < curve.points.size(); ++p) {
            const FigurePoint at =
                area.at(static_cast<double>(curve.points[p].refreshes), curve.points[p].loss - f.teacher);
            ctx.landmarks.set({static_cast<float>(at.x), static_cast<float>(at.y), 1, 1},
                              "landscape/point/{}", p);
        }
}

void LandscapePanel::hover_frontier(UiContext& ctx, const Frame& f) {
    m_hit.reset();
    const auto* curves = m_frontiers.answer();
    const ImVec2 low = ImPlot::GetPlotPos(), extent = ImPlot::GetPlotSize();
    const ImVec2 mouse = ImGui::GetIO().MousePos;
    const bool dragged =
        ImGui::IsMouseDragging(ImGuiMouseButton_Left) || ImGui::IsMouseDown(ImGuiMouseButton_Right);
    const bool inside =
        mouse.x >= low.x && mouse.x < low.x + extent.x && mouse.y >= low.y && mouse.y < low.y + extent.y;
    if (curves == nullptr || !inside || dragged ||
        !ImGui::IsWindowHovered(ImGuiHoveredFlags_AllowWhenBlockedByActiveItem))
        return;
    const auto x_of = [](double count) { return static_cast<double>(ImPlot::PlotToPixels(count, 0).x); };
    const auto y_of = [&](double loss) {
        return static_cast<double>(ImPlot::PlotToPixels(0, loss - f.teacher).y);
    };
    m_hit = nearest_point(*curves, static_cast<double>(mouse.x), static_cast<double>(mouse.y),
                          static_cast<double>(f.em), x_of, y_of);
    if (!m_hit) return;
    const FrontierCurve& curve = (*curves)[m_hit->curve];
    const FrontierPoint& point = curve.points[m_hit->point];
    const ImVec2 at = ImPlot::PlotToPixels(static_cast<double>(point.refreshes), point.loss - f.teacher);
    ImPlot::GetPlotDrawList()->AddCircle(at, f.em * 0.45F, ctx.theme.text, 0, 1.5F);
    if (begin_plot_tip({low.x, low.y, extent.x, extent.y})) {
        const Signal* signal = ctx.find_signal_info(signal_of(curve));
        ImGui::TextUnformatted(fmt::format("{} at {}", label_of(curve, ctx.signals()),
                                           format_value(point.threshold, signal ? signal->unit : ""))
                                   .c_str());
        ImGui::TextUnformatted(
            fmt::format("{}: {} {}", format_count(point.refreshes, "refresh"),
                        format_number(told_value(f.objective(), f.teacher, point.loss,
                                                 f.landscape->num_steps(), point.refreshes)),
                        told_unit(f.objective()))
                .c_str());
        ImGui::TextDisabled(curve.of_draft ? "A click sets this threshold" : "A click makes this the policy");
        end_plot_tip();
    }
}

/// The threshold of the policy's own trigger, or another policy: one undo entry either way.
void LandscapePanel::take_point(UiContext& ctx, const FrontierHit& hit) {
    const FrontierCurve& curve = (*m_frontiers.answer())[hit.curve];
    const FrontierClick click = frontier_click(ctx.drafts.policy(), curve, curve.points[hit.point]);
    try_edit(ctx, [&] {
        if (!click.trigger) return ctx.drafts.set_policy(ctx.engine, click.policy);
        for (const ThresholdLine& line : threshold_lines(ctx.drafts, signal_of(curve)))
            if (line.trigger == *click.trigger) ctx.drafts.edit(ctx.engine, line.key, click.threshold);
    });
}

std::string LandscapePanel::frontier_csv(const Frame& f) {
    std::string text = fmt::format("policy,threshold,refreshes,{}\n", above_column(f.objective()));
    if (const auto* curves = m_frontiers.answer())
        for (const FrontierCurve& curve : *curves)
            for (const FrontierPoint& point : curve.points)
                text += fmt::format("{},{},{},{}\n", signal_of(curve), exact_number(point.threshold),
                                    point.refreshes, point.loss - f.teacher);
    if (const BestAnswer* found = m_bests.answer(); found && found->best)
        for (size_t k = 0; k < found->best->size(); ++k)
            text += fmt::format("best,,{},{}\n", k, (*found->best)[k].loss - f.teacher);
    return text;
}

} // namespace refreshlab::ui
