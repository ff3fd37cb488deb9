#include "ui/base/colour.h"
#include "ui/base/format.h"
#include "ui/base/value_format.h"
#include "ui/draw/badge.h"
#include "ui/draw/change_ticks.h"
#include "ui/draw/offer_run.h"
#include "ui/draw/plot/layer_choice.h"
#include "ui/draw/plot/run_overlays.h"
#include "ui/draw/plot/signal_plot.h"
#include "ui/draw/rug.h"
#include "ui/draw/screen_canvas.h"
#include "ui/draw/text.h"
#include "ui/draw/tooltips.h"
#include "ui/figure/paint/note_paint.h"
#include "ui/panels/panel.h"
#include "ui/scene/axes/plot_stack.h"
#include "ui/scene/axes/time_view.h"
#include "ui/scene/text/rug.h"
#include "ui/scene/text/step_marks.h"
#include "ui/scene/text/token_label.h"
#include "ui/scene/theme/run_colours.h"

#include <fmt/format.h>
#include <implot.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace refreshlab::ui {
namespace {

/// Stacked plots of chosen signals on one time axis, with the refreshes in a lane above them.
class SignalsPanel final : public Panel {
public:
    [[nodiscard]] std::string_view title() const override { return "Signals"; }
    void recording_changed(UiContext& ctx) override {
        for (auto& [name, plot] : m_plots)
            plot.forget_run();
        m_preview.clear();
        if (ctx.recording) show_gate_signals(ctx.views.signals, *ctx.recording);
        m_gutter = m_right_gutter = 0;
        // A rewound run keeps the view; one that is shorter than the view's start begins again.
        if (ctx.time.follow || ctx.time.x_min > static_cast<double>(ctx.steps)) ctx.time.fit_request = true;
    }
    void draw(UiContext& ctx) override;

private:
    void draw_toolbar(UiContext& ctx);
    void draw_signal_list(UiContext& ctx);
    static void draw_place(UiContext& ctx, const Signal& signal, float width);
    [[nodiscard]] std::vector<SignalPlot*> chosen_plots(UiContext& ctx);
    void ask_what_if(UiContext& ctx, const std::vector<SignalPlot*>& plots);
    void draw_stack(UiContext& ctx, PlotStack& stack, const std::vector<SignalPlot*>& plots, float left);
    [[nodiscard]] static float place_x_name(const UiContext& ctx, PlotStack& stack, float left);
    static void draw_to_come(UiContext& ctx, const PlotStack& stack);
    /// Rows of the lane above the plots, pixels; 0 where a run has none.
    struct LaneRows {
        float badges = 0, rug = 0, blocked = 0, cuts = 0, notes = 0;
        [[nodiscard]] float height() const { return badges + rug + blocked + cuts + notes; }
    };
    void draw_lane(UiContext& ctx, const PlotStack& stack, ImVec2 at, const LaneRows& rows);
    void draw_rug_row(UiContext& ctx, const PlotStack& stack, const LaneMarks& marks, float top, float height,
                      const char* name) const;
    void draw_badges(UiContext& ctx, const PlotStack& stack, const LaneMarks& marks, ImVec2 at, float height,
                     bool over);
    void ask_marks(UiContext& ctx, const LaneMarks& marks, const MarkerGroup& group) const;

    std::map<std::string, SignalPlot, std::less<>> m_plots; ///< by the signal's name
    SeriesSet m_series;
    RunOverlays m_overlays;
    WhatIfPreview m_preview;
    ThresholdDrag m_drag;
    float m_left = 0, m_width = 0; ///< of the plot areas in the last frame: the lane stands above them
    /// Only grows while type and plots stay the same: plots that follow do not shift sideways.
    float m_gutter = 0, m_right_gutter = 0;
    TipBox m_tips;                        ///< lane and plots in the last frame
    std::pair<float, size_t> m_gutter_of; ///< size of the type and number of plots that it was made for
};

/// In which plot the signal is drawn: its own, or that of another plotted one, with an axis on the right.
void SignalsPanel::draw_place(UiContext& ctx, const Signal& signal, float width) {
    const Signal* host = ctx.find_signal_info(ctx.views.signals.of(signal.name).beside);
    ImGui::SetNextItemWidth(width);
    const std::string shown = host ? fmt::format("right of {}", host->label) : std::string("its own");
    if (ImGui::BeginCombo("##place", shown.c_str())) {
        if (ImGui::Selectable("its own", !host)) ctx.views.signals.choose(signal.name).beside.clear();
        for (const PlotPair& pair : plot_pairs(ctx.views.signals, ctx.signals())) {
            const Signal& left = ctx.signals()[pair.left];
            if (left.name == signal.name || ctx.layer_pick(left).strip) continue;
            if (ImGui::Selectable(fmt::format("right of {}", left.label).c_str(), host == &left))
                put_beside(ctx.views.signals, signal.name, left.name);
        }
        ImGui::EndCombo();
    }
    ImGui::SetItemTooltip("A plot of its own, or an axis on the right of another plot");
}

void SignalsPanel::draw_signal_list(UiContext& ctx) {
    if (ImGui::Button("Choose signals")) ImGui::OpenPopup("##signals");
    if (!ImGui::BeginPopup("##signals")) return;
    float axes = 0; // where the choices of the y axis begin
    for (const Signal& signal : ctx.signals())
        axes = std::max(axes, ImGui::CalcTextSize(with_unit(signal.label, signal.unit).c_str()).x);
    axes += ImGui::GetFontSize() * 2 + ImGui::GetFrameHeight() + 2 * ImGui::GetStyle().ItemSpacing.x;
    const float axis_width = ImGui::CalcTextSize("symlog").x + 2 * ImGui::GetFrameHeight();
    ImGui::SetCursorPosX(axes);
    ImGui::TextDisabled("Y axis");
    const float beside = axes + axis_width + ImGui::GetStyle().ItemSpacing.x,
                beside_width = ImGui::GetFontSize() * 9;
    ImGui::SameLine(beside);
    ImGui::TextDisabled("Plot");
    if (std::ranges::any_of(ctx.signals(), &Signal::layered)) {
        ImGui::SameLine(beside + beside_width + ImGui::GetStyle().ItemSpacing.x);
        ImGui::TextDisabled("Layers");
    }
    ImGui::Checkbox("Rejected drafts, fainter", &ctx.views.signals.rejected);
    ImGui::SetItemTooltip(
        "What drafted tokens had that verification rejected: log-probabilities and acceptance");
    for (size_t id = 0; id < ctx.signals().size(); ++id) {
        const Signal& signal = ctx.signals()[id];
        PlotChoice& choice = ctx.views.signals.choose(signal.name);
        const float size = ImGui::GetFontSize() * 0.5F;
        const ImVec2 at = ImGui::GetCursorScreenPos();
        ImGui::GetWindowDrawList()->AddRectFilled(
            {at.x, at.y + ImGui::GetFrameHeight() / 2 - size / 2},
            {at.x + size, at.y + ImGui::GetFrameHeight() / 2 + size / 2}, ctx.theme.signal(signal.name),
            size * 0.2F);
        ImGui::Dummy({size, size});
        ImGui::SameLine();
        ImGui::PushID(static_cast<int>(id));
        ImGui::Checkbox(with_unit(signal.label, signal.unit).c_str(), &choice.shown);
        ImGui::SetItemTooltip("%s\nCost: %s", std::string(signal.description).c_str(),
                              std::string(signal.cost_hint).c_str());
        ImGui::SameLine(axes);
        ImGui::SetNextItemWidth(axis_width);
        if (ImGui::BeginCombo("##axis", std::string(to_string(choice.scale)).c_str())) {
            for (const AxisScale scale : axis_scales) {
                if (scale == AxisScale::log && !can_be_logarithmic(signal)) continue;
                if (ImGui::Selectable(std::string(to_string(scale)).c_str(), scale == choice.scale))
                    choice.scale = scale;
            }
            ImGui::EndCombo();
        }
        ImGui::SetItemTooltip("Y axis of this signal's plot");
        ImGui::SameLine();
        draw_place(ctx, signal, beside_width);
        if (signal.layered) {
            ImGui::SameLine();
            draw_layer_choice(ctx, choice.layers, axis_width);
        }
        ImGui::PopID();
    }
    ImGui::Separator();
    if (ImGui::MenuItem("Signal of your own...")) ctx.run_action("policy.own_signal");
    ImGui::SetItemTooltip("Arithmetic over these signals, of a new run or of a recorded one that is shown");
    ImGui::EndPopup();
}

void SignalsPanel::draw_toolbar(UiContext& ctx) {
    draw_signal_list(ctx);
    // What the numbers beside the plots belong to.
    const float right = ImGui::GetCursorScreenPos().x + ImGui::GetContentRegionAvail().x;
    const int64_t fresh = new_steps(ctx.time, ctx.steps);
    const std::string end = fresh > 0 ? "End, " + format_count(fresh, "new step") : "End";
    const float padding = 2 * ImGui::GetStyle().FramePadding.x, spacing = ImGui::GetStyle().ItemSpacing.x;
    const float fit_width = ImGui::CalcTextSize("Fit").x + padding,
                end_width = ImGui::CalcTextSize(end.c_str()).x + padding;
    const float buttons = right - fit_width - (ctx.time.follow ? 0 : end_width + spacing);
    if (ctx.recording && ctx.steps > 0) {
        ImGui::SameLine();
        ImGui::AlignTextToFramePadding();
        const ImVec2 at = ImGui::GetCursorScreenPos();
        const int64_t step = std::clamp<int64_t>(ctx.hovered_step.value_or(ctx.shown_step()), 0, ctx.steps);
        ImGui::PushClipRect(at, {buttons - spacing, at.y + ImGui::GetFrameHeight()}, true);
        ImGui::PushStyleColor(ImGuiCol_Text, ctx.theme.text_muted);
        ImGui::TextUnformatted(step_caption(*ctx.recording, ctx.steps, step).c_str());
        ImGui::PopStyleColor();
        ImGui::PopClipRect();
    }
    ImGui::SameLine();
    ImGui::SetCursorScreenPos({buttons, ImGui::GetCursorScreenPos().y});
    if (!ctx.time.follow) {
        ImGui::PushStyleColor(ImGuiCol_Text, ctx.theme.accent_ink);
        if (ImGui::Button(fmt::format("{}###end", end).c_str())) follow_newest(ctx.time, ctx.steps);
        ImGui::PopStyleColor();
        ImGui::SetItemTooltip("%s", ctx.with_key("Follow the newest step again", "view.follow").c_str());
        ImGui::SameLine();
    }
    if (ImGui::Button("Fit")) ctx.time.fit_request = true;
    ImGui::SetItemTooltip("Show the whole run (F, or a double click on a plot)");
}

std::vector<SignalPlot*> SignalsPanel::chosen_plots(UiContext& ctx) {
    std::vector<SignalPlot*> plots;
    const auto begin = [&](size_t id) -> SignalPlot& {
        SignalPlot& plot = m_plots[std::string(ctx.signals()[id].name)];
        plot.begin_frame(ctx, id);
        return plot;
    };
    for (const PlotPair& pair : plot_pairs(ctx.views.signals, ctx.signals())) {
        SignalPlot& plot = begin(pair.left);
        if (pair.right) plot.set_guest(begin(*pair.right));
        plots.push_back(&plot);
    }
    return plots;
}

/// The threshold that is moved may be held here or on its card: the count is the same.
void SignalsPanel::ask_what_if(UiContext& ctx, const std::vector<SignalPlot*>& plots) {
    const auto asks = [&](const SignalPlot* plot) {
        return plot && std::ranges::any_of(plot->threshold_lines_here(ctx), [&](const ThresholdLine& l) {
                   return plot->asks_what_if(ctx, l);
               });
    };
    const bool threshold_moves =
        std::ranges::any_of(plots, [&](const SignalPlot* plot) { return asks(plot) || asks(plot->guest()); });
    if (!threshold_moves || !ctx.recording) {
        m_preview.clear();
        return;
    }
    m_preview.ask(ctx.recording, ctx.steps, ctx.drafts.policy());
    if (m_preview.busy()) ctx.wait_for_jobs();
}

void SignalsPanel::draw(UiContext& ctx) {
    m_series.begin_frame(ctx.recording, ctx.steps);
    m_overlays.begin_frame(ctx);
    PlotStack stack{m_series, m_preview, m_drag};
    stack.overlays = &m_overlays;
    stack.fit = ctx.time.fit_request;
    stack.left = m_left;
    stack.width = m_width;
    stack.gutter = m_gutter;
    stack.right_gutter = m_right_gutter;
    advance_time_view(ctx.time, ctx.steps);
    draw_toolbar(ctx);
    if (!ctx.recording || ctx.steps == 0) {
        offer_run(ctx,
                  "The signals of a run appear here, one plot each, as soon as it makes its first step.");
        offer_recent(ctx);
    }
    const std::vector<SignalPlot*> plots = chosen_plots(ctx);
    if (const std::pair of(ImGui::GetFontSize(), plots.size()); of != m_gutter_of || stack.fit) {
        m_gutter_of = of;
        stack.gutter = stack.right_gutter = 0;
    }
    if (plots.empty()) {
        ImGui::TextDisabled("No signal is chosen.");
        return;
    }
    ask_what_if(ctx, plots);
    m_overlays.draw_legend(ctx);
    const float em = ImGui::GetFontSize();
    const LaneRows rows{.badges = std::round(em * 1.25F),
                        .rug =
                            ctx.marks.count(MarkLane::refresh) >= many_refreshes ? std::round(em * 0.75F) : 0,
                        .blocked = ctx.marks.count(MarkLane::blocked) > 0 ? std::round(em * 0.5F) : 0,
                        .cuts = ctx.marks.count(MarkLane::cut) > 0 ? std::round(em * 0.5F) : 0,
                        .notes = ctx.marks.count(MarkLane::note) > 0 ? std::round(em * 0.5F) : 0};
    const ImVec2 lane = ImGui::GetCursorScreenPos();
    ImGui::SetCursorScreenPos({lane.x, lane.y + rows.height()});
    stack.tips = m_tips;
    if (ImGui::BeginChild("##stack", {0, 0}, ImGuiChildFlags_None, ImGuiWindowFlags_NoBackground))
        draw_stack(ctx, stack, plots, lane.x);
    ImGui::EndChild();
    m_left = stack.left;
    m_width = stack.width;
    m_gutter = stack.gutter;
    m_right_gutter = stack.right_gutter;
    m_tips = {stack.left, lane.y, stack.width, stack.bottom - lane.y};
    draw_lane(ctx, stack, lane, rows);
    m_drag.end_frame(ctx);
}

/// The name of the x axis stands left of its first label; where the gutter is narrow it takes the place of the last ones.
/// \param left  edge of the panel's contents. \return where it begins
float SignalsPanel::place_x_name(const UiContext& ctx, PlotStack& stack, float left) {
    const float name = text_width("step"), space = text_width(" "),
                label_half = text_width(format_thousands(ctx.steps)) / 2;
    const bool before = left + name + space + text_width("0") / 2 <= stack.left;
    const float taken = before ? -1.0F : name + label_half + 2 * space;
    const double step_px =
        (ctx.time.x_max - ctx.time.x_min) / static_cast<double>(std::max(stack.width, 1.0F));
    stack.last_label = ctx.time.x_max - static_cast<double>(taken) * step_px;
    return before ? left : stack.left + stack.width - name;
}

/// \param left  edge of the panel's contents
void SignalsPanel::draw_stack(UiContext& ctx, PlotStack& stack, const std::vector<SignalPlot*>& plots,
                              float left) {
    const float labels = ImGui::GetTextLineHeight() + 6; // of the x axis, under the lowest plot
    const float room = std::max(0.0F, ImGui::GetContentRegionAvail().y - labels - 1);
    std::array<bool, max_signals> has_data{}; // of the plots
    for (size_t i = 0; i < plots.size(); ++i)
        has_data[i] = ctx.steps == 0 || plots[i]->has_data(m_series);
    const StackHeights heights = stack_heights(std::span(has_data).first(plots.size()), ctx.steps > 0, room,
                                               SignalPlot::header_height(), ImGui::GetFontSize());
    const float x_name = place_x_name(ctx, stack, left);
    ImGui::PushStyleVar(ImGuiStyleVar_ItemSpacing, {ImGui::GetStyle().ItemSpacing.x, 0});
    if (ImPlot::BeginAlignedPlots("##aligned", true)) {
        for (size_t i = 0; i < plots.size(); ++i) {
            const bool last = static_cast<int>(i) == heights.lowest;
            if (heights.plots[i] <= 0)
                plots[i]->draw_folded(ctx, stack);
            else
                plots[i]->draw(ctx, stack, heights.plots[i] + (last ? labels : 0), last);
            const SignalPlot* right = plots[i]->guest();
            const SignalPlot* hidden = plots[i]->wants_hiding()         ? plots[i]
                                       : right && right->wants_hiding() ? right
                                                                        : nullptr;
            if (hidden) {
                const std::string name(hidden->info().name);
                ctx.views.signals.choose(name).shown = false;
                m_plots.erase(name); // it is not used again
                break;
            }
        }
        ImPlot::EndAlignedPlots();
    }
    ImGui::PopStyleVar();
    draw_to_come(ctx, stack);
    if (heights.lowest < 0) return;
    text_at(ImGui::GetWindowDrawList(), {x_name, stack.bottom + 4}, ctx.theme.text_muted, "step");
    ctx.landmarks.set("signals/x_name",
                      {x_name, stack.bottom + 4, text_width("step"), ImGui::GetTextLineHeight()});
}

/// Played back: what has not happened yet lies under a veil.
void SignalsPanel::draw_to_come(UiContext& ctx, const PlotStack& stack) {
    if (!ctx.playback.playing() || stack.width <= 0 || ctx.time.x_max <= ctx.time.x_min) return;
    const double share =
        (static_cast<double>(ctx.shown_step()) + 0.5 - ctx.time.x_min) / (ctx.time.x_max - ctx.time.x_min);
    const float x = stack.left + stack.width * static_cast<float>(std::clamp(share, 0.0, 1.0));
    const float right = stack.left + stack.width, top = ImGui::GetWindowPos().y;
    if (x >= right) return;
    ImGui::GetWindowDrawList()->AddRectFilled({x, top}, {right, stack.bottom},
                                              with_alpha(ctx.theme.plot_background, 0.72F));
    ctx.landmarks.set("signals/to_come", {x, top, right - x, stack.bottom - top});
}

/// Letters of the refreshes, of many of them a rug below, a paler rug of those that a limit prevented, one of drafts that were cut, and
/// one of notes.
void SignalsPanel::draw_lane(UiContext& ctx, const PlotStack& stack, ImVec2 at, const LaneRows& rows) {
    if (stack.width <= 0 || !ctx.recording) return;
    const float left = stack.left, right = stack.left + stack.width;
    const auto in_sight = [&](MarkLane lane) {
        return ctx.marks.in_sight(lane, ctx.time.x_min, ctx.time.x_max, static_cast<double>(left),
                                  static_cast<double>(stack.width));
    };
    const LaneMarks marks = in_sight(MarkLane::refresh);
    const bool over = ImGui::IsWindowHovered(ImGuiHoveredFlags_ChildWindows);
    draw_badges(ctx, stack, marks, at, rows.badges, over);
    draw_rug_row(ctx, stack, marks, at.y + rows.badges, rows.rug, "signals/rug");
    draw_rug_row(ctx, stack, in_sight(MarkLane::blocked), at.y + rows.badges + rows.rug, rows.blocked,
                 "signals/blocked");
    draw_rug_row(ctx, stack, in_sight(MarkLane::cut), at.y + rows.height() - rows.notes - rows.cuts,
                 rows.cuts, "signals/cuts");
    const float notes = at.y + rows.height() - rows.notes;
    if (rows.notes > 0)
        paint_note_spans(
            ScreenPen(ctx, ImGui::GetWindowDrawList()), ctx.marks,
            {static_cast<double>(left), static_cast<double>(stack.width), ctx.time.x_min, ctx.time.x_max},
            static_cast<double>(notes), static_cast<double>(rows.notes - 1));
    draw_rug_row(ctx, stack, in_sight(MarkLane::note), notes, rows.notes, "signals/notes");
    const float foot = at.y + rows.height();
    draw_change_ticks(ctx, {left, right, foot, ctx.time.x_min, ctx.time.x_max}, over, m_tips, "signals");
    if (!stack.hovered_marks || !m_drag.key().empty() || ImGui::IsMouseDown(ImGuiMouseButton_Left)) return;
    if (stack.hovered_marks->count() == 1) {
        step_tooltip(ctx, ctx.marks.step(marks.lane, marks.index[stack.hovered_marks->first]), m_tips);
    } else {
        marks_tooltip(ctx, marks, *stack.hovered_marks, m_tips);
    }
}

void SignalsPanel::draw_rug_row(UiContext& ctx, const PlotStack& stack, const LaneMarks& marks, float top,
                                float height, const char* name) const {
    if (height <= 0) return;
    const RugRow row{stack.left,       stack.left + stack.width, top,
                     top + height - 1, ctx.time.x_min,           ctx.time.x_max};
    draw_rug(ImGui::GetWindowDrawList(), ctx, marks, row);
    ctx.landmarks.set(name, {row.left, row.top, stack.width, row.bottom - row.top});
    const auto column = rug_under(marks, row, ImGui::GetMousePos());
    if (column && ImGui::IsWindowHovered(ImGuiHoveredFlags_ChildWindows)) ask_marks(ctx, marks, *column);
}

void SignalsPanel::draw_badges(UiContext& ctx, const PlotStack& stack, const LaneMarks& marks, ImVec2 at,
                               float height, bool over) {
    ImDrawList* list = ImGui::GetWindowDrawList();
    const float left = stack.left, right = stack.left + stack.width, middle = at.y + height / 2;
    const float badge = std::round(ImGui::GetFontSize() * 1.0F);
    // Badges merge where they would cover each other; the lines below stay apart down to 3 pixels.
    const auto groups = badge_groups(marks, badge);
    const ImVec2 mouse = ImGui::GetMousePos();
    const char* name = "refreshes";
    const float name_end = at.x + ImGui::CalcTextSize(name).x;
    if (groups.empty() || static_cast<float>(groups.front().x_min) - badge > name_end)
        list->AddText({at.x, middle - ImGui::GetTextLineHeight() / 2}, ctx.theme.text_muted, name);
    list->PushClipRect({left - badge, at.y}, {right + badge, at.y + height}, true);
    for (const MarkerGroup& group : groups) {
        const auto box =
            draw_group_badge(list, ctx, {static_cast<float>(group.x()), middle}, badge, marks, group);
        for (size_t i = group.first; i <= group.last; ++i)
            ctx.landmarks.set(box, "signals/marker/{}", marks.index[i]);
        const bool on_badge = over && mouse.x >= box.x && mouse.x < box.x + box.width && mouse.y >= at.y &&
                              mouse.y < at.y + height;
        if (on_badge) ask_marks(ctx, marks, group);
    }
    list->PopClipRect();
}

/// The mouse is on these marks: their story, and a click goes to the first.
void SignalsPanel::ask_marks(UiContext& ctx, const LaneMarks& marks, const MarkerGroup& group) const {
    marks_tooltip(ctx, marks, group, m_tips);
    const int64_t step = ctx.marks.step(marks.lane, marks.index[group.first]);
    ctx.next_hovered_step = step;
    if (ImGui::IsMouseClicked(ImGuiMouseButton_Left)) ctx.select_step(step);
}

} // namespace

std::unique_ptr<Panel> make_signals_panel() {
    return std::make_unique<SignalsPanel>();
}

} // namespace refreshlab::ui
