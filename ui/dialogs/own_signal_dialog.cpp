#include "engine/base/error.h"
#include "engine/record/runs/own_values.h"
#include "engine/signals/registry.h"
#include "ui/base/format.h"
#include "ui/base/latest_answer.h"
#include "ui/base/value_format.h"
#include "ui/dialogs/dialogs.h"
#include "ui/draw/text_entry.h"
#include "ui/draw/widgets.h"
#include "ui/scene/policy/own_signal_draft.h"
#include "ui/state/shell_state.h"

#include <fmt/format.h>
#include <imgui.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

namespace refreshlab::ui {

namespace {

constexpr int64_t at_once = 20'000; // steps times steps looked back at: less than a millisecond

/// What a signal was on a run.
struct Asked {
    std::shared_ptr<const Recording> recording;
    int64_t steps = 0;
    OwnSignal signal;
    OwnSignalDraft draft;
    friend bool operator==(const Asked&, const Asked&) = default;
};
struct Told {
    std::optional<OwnSignalValues> values;
    OwnSignalDraft draft; ///< that they are of
};
Told values_of(const Asked& asked) {
    return {values_on(*asked.recording, asked.steps, asked.signal, asked.draft), asked.draft};
}

/// Arithmetic over signals, what it would have been on the shown run, a run that records and refreshes by it, or one that was recorded
/// and has it from now on.
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

    /// What is typed, once for each change of it or of the policy; then what it was on the shown run, which may go on meanwhile.
    void check(UiContext& ctx) {
        const RefreshPolicy policy = ctx.drafts.policy();
        if (m_checked != m_draft || m_of_policy != policy) read(policy);
        if (!m_signal || !ctx.recording) return m_values.clear();
        m_values.ask({ctx.recording, ctx.steps, *m_signal, m_draft},
                     ctx.steps * (m_signal->reach() + 1) <= at_once);
        if (m_values.busy()) ctx.wait_for_jobs();
    }

    void read(const RefreshPolicy& policy) {
        m_checked = m_draft;
        m_of_policy = policy;
        m_fault.clear();
        m_policy.reset();
        m_signal.reset();
        try {
            // Columns are those of the entry.
            SignalExpression expression = read_expression(m_draft.expression, "the expression", {});
            m_policy = with_own_signal(policy, m_draft);
            m_signal = {.name = m_draft.name, .offset = 0, .terms = {}, .expression = std::move(expression)};
        } catch (const Error& e) {
            m_fault = e.problem() + (e.hint().empty() ? "" : "; " + e.hint());
        }
    }

    void tell(const UiContext& ctx) {
        if (!m_fault.empty()) {
            ImGui::PushStyleColor(ImGuiCol_Text, ctx.theme.text_error);
            ImGui::TextWrapped("%s", m_fault.c_str());
            ImGui::PopStyleColor();
            return;
        }
        const Told* told = m_values.answer();
        if (told == nullptr || !told->values) {
            ImGui::TextDisabled("Not known of the shown run");
            return;
        }
        const OwnSignalValues& values = *told->values;
        const std::string over =
            told->draft.triggers ? fmt::format(", {} {} at {} of {}", told->draft.above ? "above" : "below",
                                               exact_number(told->draft.threshold),
                                               format_thousands(values.over), format_thousands(values.steps))
                                 : fmt::format(", known at {}", format_thousands(values.steps));
        ImGui::TextWrapped("%s",
                           fmt::format("On the shown run from {} to {}{} steps", format_number(values.lowest),
                                       format_number(values.highest), over)
                               .c_str());
    }

    bool draw_buttons(ShellState& state) {
        const float em = ImGui::GetFontSize(), width = em * 7, gap = ImGui::GetStyle().ItemSpacing.x;
        ImGui::Dummy(ImVec2(0, em * 0.2F));
        const float to_shown = em * 10;
        ImGui::SetCursorPosX(content_right() - 2 * width - to_shown - 2 * gap);
        if (ImGui::Button("Cancel", ImVec2(width, 0))) {
            put_aside(state);
            return false;
        }
        ImGui::SameLine();
        const bool recorded = state.runs.away() != nullptr;
        ImGui::BeginDisabled(!recorded || !m_signal);
        const bool add = ImGui::Button("Add to the shown run", ImVec2(to_shown, 0));
        ImGui::EndDisabled();
        if (ImGui::IsItemHovered(ImGuiHoveredFlags_ForTooltip | ImGuiHoveredFlags_AllowWhenDisabled))
            ImGui::SetTooltip(
                "%s",
                recorded
                    ? "Worked out from what was recorded, and plotted; saved with the run or the workspace"
                    : "The shown run is the live one: \"Run with it\" begins another");
        if (add) {
            add_to_shown(state);
            return false;
        }
        ImGui::SameLine();
        const EngineStatus& status = *state.ctx.status;
        ImGui::BeginDisabled(!m_policy || status.applied.prompt.empty() ||
                             status.applied.mode != Mode::overfill);
        const bool go = accent_button(state.ctx, "Run with it", width);
        ImGui::EndDisabled();
        ImGui::SetItemTooltip(
            "The same prompt and seed from the beginning; the present run stays, ticked in Runs");
        if (!go) return true;
        RunConfig run = state.ctx.drafts.next_run();
        run.policy = *m_policy;
        state.own_signal = m_draft;
        for (const OwnSignal& signal : m_policy->signals)
            if (signal.expression) state.ctx.views.signals.choose(signal.name).shown = true;
        state.run_beside(run);
        return false;
    }

    /// A job: many steps times many that are looked back at take a while.
    void add_to_shown(ShellState& state) {
        const RunKey key = *state.runs.looked_at();
        state.own_signal = m_draft;
        state.start_job("Working out " + m_draft.name,
                        [key, run = state.runs.recording(key), signal = *m_signal,
                         &state](const std::atomic<bool>&) -> std::function<void()> {
                            return
                                [key, signal, &state, with = with_own_signals(run, std::span(&signal, 1))] {
                                    state.add_signal(key, with, signal);
                                };
                        });
    }

    OwnSignalDraft m_draft;
    // What was read, and what came of it.
    std::optional<OwnSignalDraft> m_checked;
    RefreshPolicy m_of_policy;
    std::string m_fault;
    std::optional<RefreshPolicy> m_policy;
    std::optional<OwnSignal> m_signal;
    LatestAnswer<Asked, Told> m_values{&values_of};
};

} // namespace

std::unique_ptr<Dialog> make_own_signal_dialog(ShellState& state) {
    return std::make_unique<OwnSignalDialog>(state);
}

} // namespace refreshlab::ui
