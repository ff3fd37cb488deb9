#include "engine/base/error.h"
#include "engine/signals/registry.h"
#include "ui/base/format.h"
#include "ui/base/value_format.h"
#include "ui/dialogs/dialogs.h"
#include "ui/draw/text_entry.h"
#include "ui/draw/widgets.h"
#include "ui/scene/policy/own_signal_draft.h"
#include "ui/state/shell_state.h"

#include <fmt/format.h>
#include <imgui.h>

#include <algorithm>
#include <optional>
#include <string>

namespace refreshlab::ui {

namespace {

/// Arithmetic over signals, what it would have been on the shown run, and a run that records and refreshes by it.
class OwnSignalDialog final : public Dialog {
public:
    explicit OwnSignalDialog(const ShellState& state)
        : m_draft(state.own_signal) {}
    const char* title() const override { return "Signal of your own"; }
    float width() const override { return 560; }

    bool draw(ShellState& state) override {
        UiContext& ctx = state.ctx;
        const float em = ImGui::GetFontSize(), column = em * 5;
        row_label("Name", column, em * 10);
        ImGui::SetNextItemWidth(em * 12);
        text_entry("##name", &m_draft.name);
        row_label("Is", column, em * 16);
        const float list = ImGui::CalcTextSize("Signals").x + 2 * ImGui::GetStyle().FramePadding.x;
        ImGui::SetNextItemWidth(-list - ImGui::GetStyle().ItemSpacing.x);
        if (ImGui::IsWindowAppearing()) ImGui::SetKeyboardFocusHere();
        text_entry("##expression", &m_draft.expression);
        ImGui::SameLine();
        draw_names();
        draw_trigger(column);
        check(ctx);
        tell(ctx);
        muted_text(
            ctx,
            "+ - * / and parentheses; abs sqrt exp log min max; or(x, y): y where x has no value; mean(x, n) "
            "highest(x, n) lowest(x, n): the last n steps; lag(x, n): n steps before.");
        return draw_buttons(state);
    }

    void put_aside(ShellState& state) override { state.own_signal = m_draft; }

private:
    /// Names that may stand in an expression; one that is chosen goes to its end.
    void draw_names() {
        if (ImGui::Button("Signals")) ImGui::OpenPopup("names");
        if (!ImGui::BeginPopup("names")) return;
        for (const Signal& signal : signals()) {
            if (!why_no_term(signal.name).empty()) continue;
            const std::string name(signal.name);
            if (ImGui::MenuItem(name.c_str(), std::string(signal.unit).c_str())) {
                if (!m_draft.expression.empty() && m_draft.expression.back() != ' ')
                    m_draft.expression += ' ';
                m_draft.expression += name;
            }
            ImGui::SetItemTooltip("%s", std::string(signal.description).c_str());
        }
        ImGui::EndPopup();
    }

    void draw_trigger(float column) {
        const float em = ImGui::GetFontSize();
        row_label("Refresh", column, em * 16);
        ImGui::Checkbox("when it is##triggers", &m_draft.triggers);
        ImGui::BeginDisabled(!m_draft.triggers);
        ImGui::SameLine();
        ImGui::SetNextItemWidth(em * 6);
        if (ImGui::BeginCombo("##side", m_draft.above ? "above" : "below")) {
            for (const bool above : {true, false})
                if (ImGui::Selectable(above ? "above" : "below", m_draft.above == above))
                    m_draft.above = above;
            ImGui::EndCombo();
        }
        ImGui::SameLine();
        ImGui::SetNextItemWidth(em * 6);
        ImGui::InputDouble("##threshold", &m_draft.threshold, 0, 0, "%.6g");
        ImGui::EndDisabled();
    }

    /// Once for each change of what is typed, of the policy, or of the run.
    void check(const UiContext& ctx) {
        const RefreshPolicy policy = ctx.drafts.policy();
        if (m_checked == m_draft && m_of_policy == policy && m_recording == ctx.recording &&
            m_steps == ctx.steps)
            return;
        m_checked = m_draft;
        m_of_policy = policy;
        m_recording = ctx.recording;
        m_steps = ctx.steps;
        m_fault.clear();
        m_values.reset();
        m_policy.reset();
        try {
            // Columns are those of the entry.
            static_cast<void>(read_expression(m_draft.expression, "the expression", {}));
            m_policy = with_own_signal(policy, m_draft);
            if (m_recording)
                m_values = values_on(
                    *m_recording, m_steps,
                    own_signal_from_text(m_draft.name + "=" + m_draft.expression, "the signal"), m_draft);
        } catch (const Error& e) {
            m_fault = e.problem() + (e.hint().empty() ? "" : "; " + e.hint());
        }
    }

    void tell(const UiContext& ctx) const {
        if (!m_fault.empty()) {
            ImGui::PushStyleColor(ImGuiCol_Text, ctx.theme.text_error);
            ImGui::TextWrapped("%s", m_fault.c_str());
            ImGui::PopStyleColor();
        } else if (m_values) {
            const std::string over =
                m_draft.triggers
                    ? fmt::format(", {} {} at {} of {}", m_draft.above ? "above" : "below",
                                  exact_number(m_draft.threshold), format_thousands(m_values->over),
                                  format_thousands(m_values->steps))
                    : fmt::format(", known at {}", format_thousands(m_values->steps));
            ImGui::TextWrapped("%s", fmt::format("On the shown run from {} to {}{} steps",
                                                 format_number(m_values->lowest),
                                                 format_number(m_values->highest), over)
                                         .c_str());
        } else {
            ImGui::TextDisabled("Not known of the shown run");
        }
    }

    bool draw_buttons(ShellState& state) {
        const float em = ImGui::GetFontSize(), width = em * 7, gap = ImGui::GetStyle().ItemSpacing.x;
        ImGui::Dummy(ImVec2(0, em * 0.2F));
        ImGui::SetCursorPosX(content_right() - 2 * width - gap);
        if (ImGui::Button("Cancel", ImVec2(width, 0))) {
            put_aside(state);
            return false;
        }
        ImGui::SameLine();
        ImGui::BeginDisabled(!m_policy.has_value());
        const bool go = accent_button(state.ctx, "Run with it", width);
        ImGui::EndDisabled();
        ImGui::SetItemTooltip(
            "The same prompt and seed from the beginning; the present run stays, ticked in Runs");
        if (!go || !m_policy) return true;
        RunConfig run = state.ctx.drafts.next_run();
        run.policy = *m_policy;
        state.own_signal = m_draft;
        for (const OwnSignal& signal : m_policy->signals)
            if (signal.expression) state.ctx.views.signals.choose(signal.name).shown = true;
        state.run_beside(run);
        return false;
    }

    OwnSignalDraft m_draft;
    // What it was checked for, and what came of it.
    std::optional<OwnSignalDraft> m_checked;
    RefreshPolicy m_of_policy;
    std::shared_ptr<const Recording> m_recording;
    int64_t m_steps = 0;
    std::string m_fault;
    std::optional<RefreshPolicy> m_policy;
    std::optional<OwnSignalValues> m_values;
};

} // namespace

std::unique_ptr<Dialog> make_own_signal_dialog(ShellState& state) {
    return std::make_unique<OwnSignalDialog>(state);
}

} // namespace refreshlab::ui
