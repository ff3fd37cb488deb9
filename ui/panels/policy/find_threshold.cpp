#include "ui/panels/policy/find_threshold.h"

#include "engine/signals/registry.h"
#include "ui/base/format.h"
#include "ui/draw/widgets.h"
#include "ui/scene/policy/thresholds.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

namespace refreshlab::ui {

namespace {

constexpr const char* popup_name = "find threshold";

} // namespace

CalibrationResult FindThreshold::work(const Question& question) {
    return calibrate(question.run.policy, question.trigger, question.per_1000,
                     recorded_run(question.run.recording, question.run.steps));
}

CalibrationResult FindThreshold::result(UiContext& ctx, const RefreshPolicy& policy) {
    if (!ctx.recording || ctx.steps == 0) {
        m_answers.clear();
        return {std::nullopt, "There is no run yet"};
    }
    m_answers.ask({{ctx.recording, ctx.steps, policy}, m_trigger, m_per_1000}, ctx.steps <= immediate_steps);
    const CalibrationResult* answer = m_answers.answer();
    if (m_answers.busy()) ctx.wait_for_jobs();
    return answer ? *answer : CalibrationResult{std::nullopt, "Looking through the run"};
}

void FindThreshold::draw(UiContext& ctx, const RefreshPolicy& policy) {
    if (m_opening) ImGui::OpenPopup(popup_name);
    const float em = ImGui::GetFontSize();
    const float most = ImGui::GetMainViewport()->WorkSize.x - 2 * em;
    ImGui::SetNextWindowSize(ImVec2(std::min(em * 23, most), 0));
    if (ImGui::BeginPopup(popup_name)) {
        if (m_trigger < policy.triggers.size())
            draw_content(ctx, policy);
        else
            ImGui::CloseCurrentPopup(); // its card was taken away
        ImGui::EndPopup();
    } else {
        m_answers.clear();
    }
    m_opening = false;
}

void FindThreshold::draw_content(UiContext& ctx, const RefreshPolicy& policy) {
    const Trigger& trigger = policy.triggers[m_trigger];
    const Signal* signal = ctx.find_signal_info(trigger.signal);
    const std::string unit(signal ? signal->unit : "");
    const float em = ImGui::GetFontSize();
    ImGui::PushFont(ctx.fonts.medium, 0);
    ImGui::TextUnformatted(
        fmt::format("{}: find threshold", signal ? signal->label : trigger.signal).c_str());
    ImGui::PopFont();

    if (ImGui::IsWindowAppearing()) ImGui::SetKeyboardFocusHere();
    ImGui::SetNextItemWidth(em * 4);
    ImGui::PushItemFlag(ImGuiItemFlags_LiveEditOnInputScalar, true); // the answer follows every key
    ImGui::InputDouble("##refreshes", &m_per_1000, 0, 0, "%.4g");
    ImGui::PopItemFlag();
    const bool enter = ImGui::IsItemDeactivated() &&
                       (ImGui::IsKeyPressed(ImGuiKey_Enter) || ImGui::IsKeyPressed(ImGuiKey_KeypadEnter));
    ImGui::SameLine();
    ImGui::TextUnformatted("refreshes per 1,000 tokens");

    const CalibrationResult answer = result(ctx, policy);
    std::string key = trigger_key(m_trigger, TriggerField::threshold), why_not = answer.why_not;
    for (const ThresholdLine& line : threshold_lines(ctx.drafts, trigger.signal))
        if (line.trigger == m_trigger) key = line.key; // the very key that the card's entry edits
    if (answer.found) {
        const std::string text = calibration_text(*answer.found, unit);
        ImGui::TextWrapped("%s", text.c_str());
        if (!trigger.enabled) muted_text(ctx, "The trigger is off; counted as if it were on");
        const std::string advice = answer.found->q ? calibration_advice(ctx.recording->num_tokens()) : "";
        if (!advice.empty()) muted_text(ctx, advice);
        if (answer.found->threshold == ctx.drafts.number(key)) why_not = "This is the threshold already";
    } else {
        muted_text(ctx, why_not);
    }

    const std::string use =
        answer.found ? fmt::format("Use {}###use", format_value(answer.found->threshold, unit)) : "Use###use";
    ImGui::BeginDisabled(!why_not.empty());
    const bool pressed = accent_button(ctx, use.c_str(), 0);
    ImGui::EndDisabled();
    if (!why_not.empty() &&
        ImGui::IsItemHovered(ImGuiHoveredFlags_ForTooltip | ImGuiHoveredFlags_AllowWhenDisabled))
        ImGui::SetTooltip("%s", why_not.c_str());
    if ((pressed || enter) && why_not.empty()) {
        try_edit(ctx, [&] { ctx.drafts.edit(ctx.engine, key, answer.found->threshold); });
        ImGui::CloseCurrentPopup();
    }
}

} // namespace refreshlab::ui
