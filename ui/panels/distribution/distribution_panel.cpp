#include "ui/panels/distribution/distribution_panel.h"

#include "ui/base/value_format.h"
#include "ui/draw/offer_run.h"
#include "ui/draw/widgets.h"
#include "ui/panels/panel.h"
#include "ui/scene/axes/time_view.h"
#include "ui/scene/series/distribution.h"

#include <algorithm>
#include <memory>

namespace refreshlab::ui {
namespace {

/// Up to here a frame may work the statistics out anew whenever a step has come.
constexpr int64_t immediate_steps = 8000;
/// Longer runs: so many seconds between two times.
constexpr double pause = 0.5;

} // namespace

std::unique_ptr<Panel> make_distribution_panel() {
    return std::make_unique<DistributionPanel>();
}

void DistributionPanel::draw(UiContext& ctx) {
    if (!ctx.recording || ctx.steps == 0) {
        offer_run(ctx, "The histogram of a signal appears here, with its thresholds.");
        return;
    }
    m_table = ctx.signals();
    find_signals(ctx);
    draw_choice(ctx);
    find_signals(ctx); // others may just have been chosen
    update(ctx);
    // Of a layered signal the mean over its layers is counted.
    const std::vector<ThresholdLine> lines = lines_of_pick(threshold_lines(ctx.drafts, info().name), {});
    const std::vector<ThresholdLine> others =
        m_other ? lines_of_pick(threshold_lines(ctx.drafts, other().name), {}) : std::vector<ThresholdLine>();
    const float em = ImGui::GetFontSize(), row = ImGui::GetTextLineHeightWithSpacing();
    const auto rows = m_other ? 5.0F : 7.0F + static_cast<float>(lines.size());
    const ImVec2 room = ImGui::GetContentRegionAvail();
    const bool beside = room.x > em * 26;
    // One below the other the plot keeps a readable height, and the numbers scroll.
    const float height = beside ? room.y : std::max(room.y - rows * row, em * 7);
    const ImVec2 size(beside ? room.x - em * 14.5F : room.x - 1, height);
    if (m_other)
        draw_pairs(ctx, lines, others, size);
    else
        draw_plot(ctx, lines, size);
    if (beside) ImGui::SameLine();
    if (ImGui::BeginChild("##numbers")) {
        if (m_other)
            draw_pair_numbers(ctx, lines, others);
        else
            draw_numbers(ctx, lines);
    }
    ImGui::EndChild();
    m_drag.end_frame(ctx);
}

void DistributionPanel::find_signals(const UiContext& ctx) {
    const DistributionView& view = ctx.views.distribution;
    const DistributionSignals found = signals_of(view, m_table, deciding_signal(ctx.drafts.policy()));
    m_signal = found.signal;
    m_other = found.other;
    m_in_sight = view.in_sight;
    m_log = view.log;
}

void DistributionPanel::draw_choice(UiContext& ctx) {
    DistributionView& view = ctx.views.distribution;
    const float em = ImGui::GetFontSize(), spacing = ImGui::GetStyle().ItemSpacing.x;
    const float range_width = ImGui::CalcTextSize("steps in sight").x + ImGui::GetFrameHeight() + em;
    const float log_width =
        ImGui::GetFrameHeight() + ImGui::GetStyle().ItemInnerSpacing.x + ImGui::CalcTextSize("Log").x;
    // In a narrow panel the signal has a line of its own.
    const float room = ImGui::GetContentRegionAvail().x;
    const float left = room - range_width - log_width - 2 * spacing;
    const bool one_line = left > em * 7;
    ImGui::SetNextItemWidth(one_line ? left : room);
    if (ImGui::BeginCombo("##signal", with_unit(info().label, info().unit).c_str(),
                          ImGuiComboFlags_HeightLarge)) {
        for (size_t id = 0; id < ctx.signals().size(); ++id) {
            const Signal& signal = ctx.signals()[id];
            if (ImGui::Selectable(with_unit(signal.label, signal.unit).c_str(), id == m_signal)) {
                view.signal = signal.name;
                if (view.other == view.signal) view.other.clear();
            }
            ImGui::SetItemTooltip("%s", std::string(signal.description).c_str());
        }
        ImGui::EndCombo();
    }
    if (one_line) ImGui::SameLine();
    draw_range_choice(view, range_width);
    ImGui::SameLine();
    ImGui::Checkbox("Log", &view.log);
    ImGui::SetItemTooltip(
        "Counts on a logarithmic scale, so that rare values are visible beside frequent ones");
    draw_other_choice(view);
}

void DistributionPanel::draw_range_choice(DistributionView& view, float width) {
    ImGui::SetNextItemWidth(width);
    if (ImGui::BeginCombo("##range", view.in_sight ? "steps in sight" : "whole run")) {
        if (ImGui::Selectable("whole run", !view.in_sight)) view.in_sight = false;
        if (ImGui::Selectable("steps in sight", view.in_sight)) view.in_sight = true;
        ImGui::SetItemTooltip("The range that Signals shows: zoom there to choose it");
        ImGui::EndCombo();
    }
}

void DistributionPanel::draw_other_choice(DistributionView& view) {
    ImGui::AlignTextToFramePadding();
    ImGui::TextDisabled("against");
    ImGui::SameLine();
    ImGui::SetNextItemWidth(-1);
    if (ImGui::BeginCombo("##against", m_other ? with_unit(other().label, other().unit).c_str() : "nothing",
                          ImGuiComboFlags_HeightLarge)) {
        if (ImGui::Selectable("nothing", !m_other)) view.other.clear();
        for (size_t id = 0; id < m_table.size(); ++id) {
            const Signal& signal = m_table[id];
            if (id == m_signal) continue;
            if (ImGui::Selectable(with_unit(signal.label, signal.unit).c_str(), id == m_other))
                view.other = signal.name;
            ImGui::SetItemTooltip("%s", std::string(signal.description).c_str());
        }
        ImGui::EndCombo();
    }
    ImGui::SetItemTooltip(
        "A second signal on the vertical axis: how often each pair of values comes at one step");
}

void DistributionPanel::update(UiContext& ctx) {
    const StepRange sight = steps_in_sight(ctx.time, ctx.steps);
    const Known wanted = {ctx.recording.get(),
                          m_signal,
                          m_other.value_or(max_signals),
                          ctx.recording->back_fills().size(),
                          ctx.steps,
                          m_in_sight ? sight.first : 1,
                          m_in_sight ? sight.last : ctx.steps};
    if (wanted == m_known) return;
    const bool same_question = wanted.recording == m_known.recording && wanted.signal == m_known.signal &&
                               wanted.other == m_known.other && !m_in_sight;
    if (same_question && ctx.steps > immediate_steps && ImGui::GetTime() < m_when + pause) {
        ctx.host.keep_awake(pause);
        return;
    }
    m_known = wanted;
    m_when = ImGui::GetTime();
    m_statistics = signal_statistics(*ctx.recording, ctx.steps, m_signal, wanted.first, wanted.last);
    m_pairs = {};
    if (m_other)
        m_pairs = signal_pairs(*ctx.recording, ctx.steps, m_signal, *m_other, wanted.first, wanted.last);
    m_cells_for = {};
}

} // namespace refreshlab::ui
