#include "ui/base/colour.h"
#include "ui/base/format.h"
#include "ui/base/value_format.h"
#include "ui/draw/badge.h"
#include "ui/draw/change_ticks.h"
#include "ui/draw/copy_menu.h"
#include "ui/draw/note_item.h"
#include "ui/draw/offer_run.h"
#include "ui/draw/rug.h"
#include "ui/draw/screen_canvas.h"
#include "ui/draw/text.h"
#include "ui/draw/tooltips.h"
#include "ui/figure/paint/note_paint.h"
#include "ui/panels/panel.h"
#include "ui/scene/axes/auto_range.h"
#include "ui/scene/axes/time_view.h"
#include "ui/scene/policy/command_words.h"
#include "ui/scene/series/series_set.h"
#include "ui/scene/text/rug.h"
#include "ui/scene/text/step_marks.h"
#include "ui/scene/text/tip_place.h"
#include "ui/scene/theme/run_colours.h"

#include <fmt/format.h>
#include <imgui.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

namespace refreshlab::ui {
namespace {

/// Distance of axis labels: 1, 2 or 5 times a power of ten, whole steps.
int64_t tick_distance(double steps_per_label) {
    int64_t power = 1;
    while (static_cast<double>(power * 10) <= steps_per_label)
        power *= 10;
    for (const int64_t times : {1, 2, 5})
        if (static_cast<double>(power * times) >= steps_per_label) return power * times;
    return power * 10;
}

/// Lanes that have a row of ticks under the chart, and the names of their landmarks.
constexpr std::array small_marks = {std::pair{MarkLane::blocked, "timeline/blocked"},
                                    std::pair{MarkLane::cut, "timeline/cuts"},
                                    std::pair{MarkLane::note, "timeline/notes"}};

/// The whole run in one strip: entropy, refreshes, the selected step to drag, the visible range to drag.
class TimelinePanel final : public Panel {
public:
    [[nodiscard]] std::string_view title() const override { return "Timeline"; }
    void recording_changed(UiContext&) override { m_colour_range.reset(); }
    void draw(UiContext& ctx) override;

private:
    /// Where things are in this frame, pixels.
    struct Strip {
        float left, right, marks, chart, axis, bottom; ///< tops of the three rows
        float chart_end;                               ///< of the chart: above the rows of small marks
        float row;                                     ///< height of one of these
        double x_max;                                  ///< step at the right end; the left end is step 0
        [[nodiscard]] float x(double step) const {
            return left + static_cast<float>(step / x_max) * (right - left);
        }
        [[nodiscard]] TipBox tips() const { return {left, marks, right - left, axis - marks}; }
        [[nodiscard]] double step(float px) const {
            return static_cast<double>((px - left) / (right - left)) * x_max;
        }
    };
    using Caption = std::vector<std::pair<ImU32, std::string>>; ///< lines and their colours
    static Caption caption_of(const UiContext& ctx);
    static void draw_caption(const Caption& rows, ImVec2 at, float height);
    void draw_buttons(UiContext& ctx, ImVec2 at, float width, float height);
    void draw_live_button(UiContext& ctx, ImVec2 at, float width, float height);
    void draw_playback(UiContext& ctx, ImVec2 at, float width, float height);
    void draw_playback_options(UiContext& ctx);
    void draw_chart(UiContext& ctx, const Strip& strip);
    void draw_value_labels(UiContext& ctx, const Strip& strip) const;
    void draw_axis(UiContext& ctx, const Strip& strip);
    void draw_marks(UiContext& ctx, const Strip& strip, bool hovered);
    static void draw_mark_lines(const UiContext& ctx, const Strip& strip, const LaneMarks& marks);
    void draw_mark_rug(UiContext& ctx, const Strip& strip, const LaneMarks& marks, bool hovered);
    void draw_rug_row(UiContext& ctx, const Strip& strip, const LaneMarks& marks, const RugRow& row,
                      bool hovered, const char* name);
    void draw_mark_letters(UiContext& ctx, const Strip& strip, const LaneMarks& marks, bool hovered);
    void draw_cursor(UiContext& ctx, const Strip& strip);
    [[nodiscard]] std::vector<CopyItem> copy_items(const UiContext& ctx, const Strip& strip) const;
    void scrub(UiContext& ctx, const Strip& strip);
    void drag_range(UiContext& ctx, const Strip& strip);

    enum class Grip : uint8_t { none, left, right, body };
    SeriesSet m_series;
    ColourRange m_colour_range; ///< height of the chart: widens at once, never jumps back within a run
    std::vector<double> m_x, m_low, m_high;
    Grip m_grip = Grip::none;
    CopyMenu m_menu;
    int64_t m_menu_step = 0; ///< under the mouse when the menu was opened
    double m_grip_offset = 0;
    bool m_on_mark = false;
};

void TimelinePanel::draw(UiContext& ctx) {
    m_series.begin_frame(ctx.recording, ctx.steps);
    advance_time_view(ctx.time, ctx.steps);
    if (!ctx.recording) {
        offer_run(ctx, "The whole run appears here, from its first step to its newest.");
        return;
    }
    const ImVec2 at = ImGui::GetCursorScreenPos(), room = ImGui::GetContentRegionAvail();
    const float font = ImGui::GetFontSize(), line = ImGui::GetTextLineHeight();
    const Caption rows = caption_of(ctx);
    float caption = std::max(text_width("step 10,000 of 10,000"), font * 9);
    for (const auto& [ink, text] : rows)
        caption = std::max(caption, text_width(text));
    caption = std::min(caption, room.x * 0.3F) + font + text_width("step"); // the name of the axis ends it
    const float button = ImGui::CalcTextSize("Play back...").x + 4 * ImGui::GetStyle().FramePadding.x + 2;
    const float height = std::max(room.y, font);
    Strip strip{};
    strip.left = at.x + caption;
    strip.right = std::max(strip.left + 50, at.x + room.x - button - font * 0.75F);
    strip.bottom = at.y + height;
    // A very low strip goes without its axis, then without the row of letters: the marks stand in the chart anyway.
    strip.axis = height > font * 2.2F ? strip.bottom - line - 2 : strip.bottom;
    strip.marks = at.y;
    strip.chart = height > font * 3.3F ? at.y + std::round(font * 1.05F) : at.y;
    strip.row = std::round(font * 0.3F);
    const auto small = static_cast<float>(std::ranges::count_if(
        small_marks, [&](const auto& mark) { return ctx.marks.count(mark.first) > 0; }));
    strip.chart_end =
        strip.axis - strip.chart > font * (0.8F + 0.3F * small) ? strip.axis - small * strip.row : strip.axis;
    strip.x_max = fitted_max(ctx.steps);
    draw_caption(rows, at, height);
    draw_buttons(ctx, {strip.right + font * 0.75F, at.y}, button, height);
    ctx.landmarks.set("timeline/bar",
                      {strip.left, strip.chart, strip.right - strip.left, strip.axis - strip.chart});

    ImGui::SetCursorScreenPos({strip.left, strip.marks});
    ImGui::InvisibleButton("##scrub", {strip.right - strip.left, strip.axis - strip.marks});
    const bool hovered = ImGui::IsItemHovered(), active = ImGui::IsItemActive();
    if (hovered && ImGui::IsMouseDoubleClicked(ImGuiMouseButton_Left)) ctx.time.fit_request = true;
    const bool menu = m_menu.draw(
        "##timeline menu",
        [&] {
            m_menu_step = std::llround(strip.step(ImGui::GetMousePos().x));
            return copy_items(ctx, strip);
        },
        [&] { note_item(ctx, m_menu_step); });
    draw_chart(ctx, strip);
    draw_value_labels(ctx, strip);
    m_on_mark = false;
    draw_marks(ctx, strip, hovered && !active && !menu);
    if ((hovered && !menu) || active) scrub(ctx, strip);
    draw_cursor(ctx, strip);

    if (strip.axis < strip.bottom) {
        ImGui::SetCursorScreenPos({strip.left, strip.axis});
        ImGui::InvisibleButton("##range", {strip.right - strip.left, strip.bottom - strip.axis});
        drag_range(ctx, strip);
        draw_axis(ctx, strip);
    }
    ImGui::SetCursorScreenPos(at);
    ImGui::Dummy({room.x, height});
}

/// Of the step under the mouse, and of the shown one.
std::vector<CopyItem> TimelinePanel::copy_items(const UiContext& ctx, const Strip& strip) const {
    const auto step = static_cast<int64_t>(std::llround(strip.step(ImGui::GetMousePos().x)));
    std::vector<CopyItem> items;
    if (step >= 1 && step <= ctx.steps)
        items.push_back({fmt::format("Copy step {}", format_thousands(step)), fmt::format("{}", step)});
    std::string refreshes;
    for (size_t i = 0, n = ctx.recording->refreshes().size(); i < n; ++i)
        refreshes += fmt::format("{}{}", i > 0 ? "," : "", ctx.recording->refreshes()[i].step);
    if (!refreshes.empty()) items.push_back({"Copy the steps of all refreshes", refreshes});
    return items;
}

TimelinePanel::Caption TimelinePanel::caption_of(const UiContext& ctx) {
    const auto& info = ctx.recording->info();
    Caption rows;
    rows.emplace_back(ctx.theme.text, fmt::format("step {} of {}", format_thousands(ctx.shown_step()),
                                                  format_thousands(ctx.steps)));
    if (info.fork_step <= 0 && !ctx.recording->end())
        rows.emplace_back(ctx.theme.text_muted,
                          "prompt " + format_count(ctx.recording->prompt_length(), "token"));
    if (info.fork_step > 0)
        rows.emplace_back(ctx.theme.text_muted,
                          fmt::format("branch at step {}", format_thousands(info.fork_step + 1)));
    else if (const auto end = ctx.recording->end())
        rows.emplace_back(ctx.theme.text_muted, "ended: " + stop_text(end->stop_reason));
    if (const Signal* entropy = ctx.find_signal_info("entropy_bits")) // what the chart's height is
        rows.emplace_back(ctx.theme.text_muted, with_unit(entropy->label, entropy->unit));
    return rows;
}

void TimelinePanel::draw_caption(const Caption& rows, ImVec2 at, float height) {
    const float line = ImGui::GetTextLineHeight();
    float y = at.y;
    for (const auto& [ink, text] : rows) {
        if (y + line > at.y + height + 1) break;
        ImGui::GetWindowDrawList()->AddText({at.x, y}, ink, text.c_str());
        y += line + 2;
    }
}

void TimelinePanel::draw_buttons(UiContext& ctx, ImVec2 at, float width, float height) {
    const float gap = std::round(ImGui::GetFontSize() * 0.25F);
    const float row = std::floor(std::min(ImGui::GetFrameHeight(), (height - gap) / 2));
    if (row < ImGui::GetTextLineHeight()) // a very low strip: playing back is in the menu
        return draw_live_button(ctx, at, width, height);
    ImGui::PushStyleVar(ImGuiStyleVar_FramePadding, {ImGui::GetStyle().FramePadding.x * 0.5F, 0});
    draw_live_button(ctx, at, width, row);
    draw_playback(ctx, {at.x, at.y + row + gap}, width, row);
    ImGui::PopStyleVar();
    draw_playback_options(ctx);
}

void TimelinePanel::draw_playback(UiContext& ctx, ImVec2 at, float width, float height) {
    const float more = ImGui::CalcTextSize("...").x + 4 * ImGui::GetStyle().FramePadding.x;
    ImGui::SetCursorScreenPos(at);
    ImGui::BeginDisabled(ctx.steps < 2);
    if (ImGui::Button(ctx.playback.playing() ? "Pause###play back" : "Play back###play back",
                      {width - more - 2, height}))
        ctx.run_action("select.play_back");
    ImGui::EndDisabled();
    ImGui::SetItemTooltip("The selected step moves on by itself, %g steps a second%s (P)",
                          ctx.playback.steps_per_second, ctx.playback.loop ? ", over and over" : "");
    ctx.landmarks.set("timeline/play_back", {at.x, at.y, width - more - 2, height});
    ImGui::SetCursorScreenPos({at.x + width - more, at.y});
    if (ImGui::Button("...##play back options", {more, height})) ImGui::OpenPopup("play back options");
    ImGui::SetItemTooltip("Speed and loop");
}

void TimelinePanel::draw_playback_options(UiContext& ctx) {
    if (!ImGui::BeginPopup("play back options")) return;
    ImGui::SeparatorText("Steps a second");
    for (const int speed : {5, 10, 20, 50, 100, 200})
        if (ImGui::RadioButton(fmt::format("{}", speed).c_str(), ctx.playback.steps_per_second == speed))
            ctx.playback.steps_per_second = speed;
    ImGui::Separator();
    ImGui::Checkbox("Loop over the steps in sight", &ctx.playback.loop);
    ImGui::EndPopup();
}

void TimelinePanel::draw_live_button(UiContext& ctx, ImVec2 at, float width, float height) {
    ImGui::SetCursorScreenPos(at);
    const float h = std::min(height, ImGui::GetFrameHeight());
    const bool live = ctx.live() && ctx.time.follow;
    const ImU32 there = ctx.decoding() ? ctx.theme.text_ok : ctx.theme.text_muted;
    ImGui::PushStyleColor(ImGuiCol_Text, live ? there : ctx.theme.accent_ink);
    ImGui::BeginDisabled(live);
    if (ImGui::Button(fmt::format("{}###newest", ctx.newest()).c_str(), {width, h})) {
        ctx.select_step(std::nullopt);
        follow_newest(ctx.time, ctx.steps);
    }
    ImGui::EndDisabled();
    ImGui::PopStyleColor();
    ImGui::SetItemTooltip("%s", live ? "Every panel shows the newest step"
                                     : ctx.with_key("Show the newest step again", "view.follow").c_str());
    ctx.landmarks.set("timeline/live", {at.x, at.y, width, h});
}

void TimelinePanel::draw_chart(UiContext& ctx, const Strip& strip) {
    ImDrawList* list = ImGui::GetWindowDrawList();
    const ImVec2 min(strip.left, strip.chart), max(strip.right, strip.axis);
    list->AddRectFilled(min, max, ctx.theme.plot_background);
    const auto id = signal_id("entropy_bits");
    if (id && ctx.steps > 0) {
        const SignalSeries& series = m_series.series(*id);
        const SeriesSummary all = series.summary(1, series.size());
        if (all.finite > 0) m_colour_range.include(static_cast<double>(all.max));
        const double top = m_colour_range.range().max;
        envelope(series, series, 0, strip.x_max, static_cast<double>(strip.right - strip.left), m_x, m_low,
                 m_high);
        const double half = m_x.size() > 1 ? 0.5 * (m_x[1] - m_x[0]) : 0.5;
        const ImU32 colour = ctx.theme.signal("entropy_bits");
        const float height = strip.chart_end - strip.chart - 2;
        const auto y = [&](double v) {
            return strip.chart_end -
                   std::max(1.0F, static_cast<float>(std::clamp(v / top, 0.0, 1.0)) * height);
        };
        for (size_t i = 0; i < m_x.size(); ++i) {
            if (!std::isfinite(m_high[i])) continue;
            const float x0 = std::max(strip.left, strip.x(m_x[i] - half));
            double low = m_low[i], high = m_high[i];
            // Columns may be half a pixel wide; those of one pixel are one bar.
            for (;
                 i + 1 < m_x.size() && std::isfinite(m_high[i + 1]) && strip.x(m_x[i + 1] + half) < x0 + 1.5F;
                 ++i) {
                low = std::min(low, m_low[i + 1]);
                high = std::max(high, m_high[i + 1]);
            }
            const float x1 = std::max(x0 + 0.75F, strip.x(m_x[i] + half));
            // Light up to the bar's largest value, full up to its smallest: both extremes show.
            list->AddRectFilled({x0, y(high)}, {x1, strip.chart_end}, with_alpha(colour, 0.45F));
            if (low < high)
                list->AddRectFilled({x0, y(low)}, {x1, strip.chart_end}, with_alpha(colour, 0.55F));
        }
    }
    // What the other time plots do not show is dimmed.
    const float from = std::clamp(strip.x(ctx.time.x_min), strip.left, strip.right);
    const float to = std::clamp(strip.x(ctx.time.x_max), strip.left, strip.right);
    const ImU32 veil = with_alpha(ImGui::GetColorU32(ImGuiCol_WindowBg), 0.62F);
    if (from > strip.left) list->AddRectFilled(min, {from, max.y}, veil);
    if (to < strip.right) list->AddRectFilled({to, min.y}, max, veil);
    list->AddRect({from, min.y}, {to, max.y}, ctx.theme.plot_border);
    // A branch shares everything left of this line with its parent.
    const auto& info = ctx.recording->info();
    if (info.fork_step > 0) {
        const float x = std::round(strip.x(static_cast<double>(info.fork_step))) + 0.5F;
        for (float y = min.y; y < max.y; y += 6)
            list->AddLine({x, y}, {x, std::min(y + 3, max.y)}, ctx.theme.text, 1.5F);
        list->AddText({x + 4, min.y + 1}, ctx.theme.text_muted, "branch");
    }
}

/// The chart's top and bottom, left of it, where its height has room for two lines.
void TimelinePanel::draw_value_labels(UiContext& ctx, const Strip& strip) const {
    const float line = ImGui::GetTextLineHeight();
    if (ctx.steps == 0 || strip.chart_end - strip.chart < line * 1.2F) return;
    const float right = strip.left - ImGui::GetFontSize() * 0.3F;
    const auto label = [&](float y, double value) {
        const std::string text = format_number(value);
        text_at(ImGui::GetWindowDrawList(), {right - text_width(text), y}, ctx.theme.text_muted, text);
    };
    label(strip.chart - line * 0.15F, m_colour_range.range().max);
    if (strip.chart_end - strip.chart >= line * 1.9F) label(strip.chart_end - line, 0);
    ctx.landmarks.set_text([&] { return format_number(m_colour_range.range().max); }, "timeline/top");
}

void TimelinePanel::draw_axis(UiContext& ctx, const Strip& strip) {
    ImDrawList* list = ImGui::GetWindowDrawList();
    text_at(list, {strip.left - ImGui::GetFontSize() * 0.5F - text_width("step"), strip.axis + 3},
            ctx.theme.text_muted, "step");
    const float spacing = ImGui::CalcTextSize("100,000").x * 1.6F;
    const int64_t distance =
        tick_distance(strip.x_max * static_cast<double>(spacing / std::max(1.0F, strip.right - strip.left)));
    for (int64_t step = 0; static_cast<double>(step) <= strip.x_max; step += distance) {
        const std::string text = format_thousands(step);
        const float x = std::round(strip.x(static_cast<double>(step))),
                    width = ImGui::CalcTextSize(text.c_str()).x;
        list->AddLine({x + 0.5F, strip.axis}, {x + 0.5F, strip.axis + 4}, ctx.theme.text_muted);
        const float text_x = std::clamp(x - width / 2, strip.left + 7, strip.right - width - 6);
        list->AddText({text_x, strip.axis + 3}, ctx.theme.text_muted, text.c_str());
    }
}

void TimelinePanel::draw_marks(UiContext& ctx, const Strip& strip, bool hovered) {
    const auto in_sight = [&](MarkLane lane) {
        return ctx.marks.in_sight(lane, 0, strip.x_max, static_cast<double>(strip.left),
                                  static_cast<double>(strip.right - strip.left));
    };
    const LaneMarks marks = in_sight(MarkLane::refresh);
    // A crowd is a rug in the row of letters: lines would hide the chart, and letters would only be numbers.
    const bool crowd = crowded(marks, static_cast<double>(strip.right - strip.left),
                               static_cast<double>(ImGui::GetFontSize()));
    if (!crowd) draw_mark_lines(ctx, strip, marks);
    // Under the chart's upper edge, where the marks' row ends.
    if (draw_change_ticks(ctx, {strip.left, strip.right, strip.chart + 1, 0, strip.x_max, true}, hovered,
                          strip.tips(), "timeline"))
        m_on_mark = true;
    if (crowd)
        draw_mark_rug(ctx, strip, marks, hovered);
    else
        draw_mark_letters(ctx, strip, marks, hovered);
    float top = strip.chart_end;
    for (const auto& [lane, name] : small_marks) {
        if (top >= strip.axis || ctx.marks.count(lane) == 0) continue;
        if (lane == MarkLane::note)
            paint_note_spans(ScreenPen(ctx, ImGui::GetWindowDrawList()), ctx.marks,
                             {static_cast<double>(strip.left), static_cast<double>(strip.right - strip.left),
                              0, strip.x_max},
                             static_cast<double>(top), static_cast<double>(strip.row));
        draw_rug_row(ctx, strip, in_sight(lane),
                     {strip.left, strip.right, top, top + strip.row, 0, strip.x_max}, hovered, name);
        top += strip.row;
    }
}

void TimelinePanel::draw_mark_lines(const UiContext& ctx, const Strip& strip, const LaneMarks& marks) {
    for (const MarkerGroup& group : merge_markers(marks.x_px, 3)) {
        const ImU32 colour = group_colour(ctx.theme, ctx.marks, marks, group);
        const float x0 = std::round(static_cast<float>(group.x_min)),
                    x1 = std::round(static_cast<float>(group.x_max));
        ImGui::GetWindowDrawList()->AddRectFilled({x0, strip.chart}, {x1 + 1, strip.chart_end},
                                                  with_alpha(colour, 0.85F));
    }
}

void TimelinePanel::draw_mark_rug(UiContext& ctx, const Strip& strip, const LaneMarks& marks, bool hovered) {
    // A low strip has no row of letters: along the upper edge of its chart.
    const float foot = strip.chart > strip.marks
                           ? strip.chart - 1
                           : strip.chart + std::round((strip.axis - strip.chart) * 0.3F);
    draw_rug_row(ctx, strip, marks, {strip.left, strip.right, strip.marks, foot, 0, strip.x_max}, hovered,
                 "timeline/rug");
}

void TimelinePanel::draw_rug_row(UiContext& ctx, const Strip& strip, const LaneMarks& marks,
                                 const RugRow& row, bool hovered, const char* name) {
    draw_rug(ImGui::GetWindowDrawList(), ctx, marks, row);
    ctx.landmarks.set(name, {row.left, row.top, row.right - row.left, row.bottom - row.top});
    const auto column = rug_under(marks, row, ImGui::GetMousePos());
    if (!hovered || !column) return;
    m_on_mark = true;
    marks_tooltip(ctx, marks, *column, strip.tips());
}

void TimelinePanel::draw_mark_letters(UiContext& ctx, const Strip& strip, const LaneMarks& marks,
                                      bool hovered) {
    const float badge = std::round(ImGui::GetFontSize() * 0.9F);
    const bool letters = strip.chart > strip.marks;
    const ImVec2 mouse = ImGui::GetMousePos();
    for (const MarkerGroup& group : letters ? badge_groups(marks, badge) : merge_markers(marks.x_px, 6)) {
        float left = static_cast<float>(group.x_min) - 3, right = static_cast<float>(group.x_max) + 4;
        if (letters) {
            const auto box = draw_group_badge(ImGui::GetWindowDrawList(), ctx,
                                              {static_cast<float>(group.x()), strip.marks + badge / 2}, badge,
                                              marks, group);
            left = std::min(left, box.x);
            right = std::max(right, box.x + box.width);
            for (size_t i = group.first; i <= group.last; ++i)
                ctx.landmarks.set(box, "timeline/marker/{}", marks.index[i]);
        }
        const bool over_row = !letters || mouse.y < strip.chart;
        if (hovered && over_row && mouse.x >= left && mouse.x < right) {
            m_on_mark = true;
            marks_tooltip(ctx, marks, group, strip.tips());
        }
    }
}

void TimelinePanel::draw_cursor(UiContext& ctx, const Strip& strip) {
    ImDrawList* list = ImGui::GetWindowDrawList();
    if (ctx.hovered_step && *ctx.hovered_step <= ctx.steps) {
        const float x = std::round(strip.x(static_cast<double>(*ctx.hovered_step))) + 0.5F;
        list->AddLine({x, strip.chart}, {x, strip.axis}, ctx.theme.crosshair);
    }
    const bool live = ctx.live();
    const ImU32 colour = live ? ctx.theme.text_ok : ctx.theme.selection | IM_COL32_A_MASK;
    const float x = std::round(strip.x(static_cast<double>(ctx.shown_step()))) + 0.5F;
    const float size = ImGui::GetFontSize() * 0.32F;
    list->AddLine({x, strip.chart}, {x, strip.axis}, colour, 2);
    list->AddTriangleFilled({x, strip.axis - size * 1.2F}, {x + size, strip.axis + size * 0.6F},
                            {x - size, strip.axis + size * 0.6F}, colour);
    ctx.landmarks.set("timeline/cursor", {x - size, strip.chart, 2 * size, strip.axis - strip.chart});
}

void TimelinePanel::scrub(UiContext& ctx, const Strip& strip) {
    if (ctx.steps == 0) return;
    const float mouse = ImGui::GetMousePos().x;
    const auto step = static_cast<int64_t>(std::llround(strip.step(mouse)));
    if (ImGui::IsItemActive()) {
        // Dragged past the newest step: live again.
        const bool past = mouse > strip.x(static_cast<double>(ctx.steps)) + ImGui::GetFontSize();
        if (past) {
            ctx.select_step(std::nullopt);
        } else {
            ctx.select_step(std::clamp<int64_t>(step, 1, ctx.steps));
            if (!ctx.time.follow) reveal_step(ctx.time, *ctx.selection.step, ctx.steps);
        }
        ctx.host.keep_awake(0.3);
        return;
    }
    if (step >= 1 && step <= ctx.steps) {
        ctx.next_hovered_step = step;
        if (!m_on_mark) step_tooltip(ctx, step, strip.tips());
    }
}

void TimelinePanel::drag_range(UiContext& ctx, const Strip& strip) {
    const bool hovered = ImGui::IsItemHovered(), active = ImGui::IsItemActive();
    const float from = strip.x(ctx.time.x_min), to = strip.x(ctx.time.x_max),
                grip = ImGui::GetFontSize() * 0.4F;
    const float mouse = ImGui::GetMousePos().x;
    Grip under = Grip::body;
    if (std::fabs(mouse - from) < grip) under = Grip::left;
    if (std::fabs(mouse - to) < grip) under = Grip::right;
    if (ImGui::IsItemActivated()) {
        m_grip = under;
        m_grip_offset = strip.step(mouse) - (under == Grip::right ? ctx.time.x_max : ctx.time.x_min);
        // A press outside of the range brings its middle there.
        if (under == Grip::body && (mouse < from || mouse > to))
            m_grip_offset = 0.5 * (ctx.time.x_max - ctx.time.x_min);
    }
    if (active && m_grip != Grip::none && ImGui::IsMouseDragging(ImGuiMouseButton_Left, 2)) {
        const double at = strip.step(mouse) - m_grip_offset, width = ctx.time.x_max - ctx.time.x_min;
        if (m_grip == Grip::left)
            set_time_range(ctx.time, std::min(at, ctx.time.x_max - min_time_width), ctx.time.x_max,
                           ctx.steps);
        if (m_grip == Grip::right)
            set_time_range(ctx.time, ctx.time.x_min, std::max(at, ctx.time.x_min + min_time_width),
                           ctx.steps);
        if (m_grip == Grip::body) set_time_range(ctx.time, at, at + width, ctx.steps);
        ctx.host.keep_awake(0.3);
    }
    if (!active) m_grip = Grip::none;
    if (hovered || active) {
        const Grip shown = active ? m_grip : under;
        ImGui::SetMouseCursor(shown == Grip::body ? ImGuiMouseCursor_Hand : ImGuiMouseCursor_ResizeEW);
        if (ImGui::IsMouseDoubleClicked(ImGuiMouseButton_Left)) ctx.time.fit_request = true;
        if (!active)
            ImGui::SetTooltip("Drag to move what the plots show, its ends to widen it; double click fits");
    }
    // The handle: a bar behind the numbers, brighter where it can be taken.
    ImDrawList* list = ImGui::GetWindowDrawList();
    const float left = std::clamp(strip.x(ctx.time.x_min), strip.left, strip.right);
    const float right = std::clamp(strip.x(ctx.time.x_max), left + 2, strip.right + 2);
    const ImU32 bar = ImGui::GetColorU32(active    ? ImGuiCol_ScrollbarGrabActive
                                         : hovered ? ImGuiCol_ScrollbarGrabHovered
                                                   : ImGuiCol_ScrollbarGrab,
                                         0.55F);
    list->AddRectFilled({left, strip.axis + 1}, {right, strip.bottom}, bar, 3);
    for (const float x : {left, right - 3})
        list->AddRectFilled({x, strip.axis + 1}, {x + 3, strip.bottom},
                            ImGui::GetColorU32(ImGuiCol_ScrollbarGrabActive), 1);
    ctx.landmarks.set("timeline/range", {left, strip.axis, right - left, strip.bottom - strip.axis});
}

} // namespace

std::unique_ptr<Panel> make_timeline_panel() {
    return std::make_unique<TimelinePanel>();
}

} // namespace refreshlab::ui
