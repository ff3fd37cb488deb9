#include "engine/base/error.h"
#include "ui/dialogs/dialogs.h"
#include "ui/dialogs/note_edit.h"
#include "ui/draw/text_entry.h"
#include "ui/draw/widgets.h"
#include "ui/scene/theme/run_colours.h"
#include "ui/state/shell_state.h"

#include <fmt/format.h>
#include <imgui.h>

#include <algorithm>
#include <utility>

namespace refreshlab::ui {

namespace {

/// Writes a note beside the shown step, or changes the one that stands there.
class NoteDialog final : public Dialog {
public:
    explicit NoteDialog(UiContext& ctx)
        : m_recording(ctx.recording)
        , m_owner(ctx.recording->notes()) {
        if (const auto asked = std::exchange(ctx.note_to_edit, std::nullopt)) {
            m_owner = asked->first;
            m_before = m_owner->find(asked->second);
        } else {
            find_at(ctx.shown_step());
        }
        if (m_before)
            m_note = *m_before;
        else
            m_note.first_step = m_note.last_step = ctx.shown_step();
    }
    const char* title() const override { return "Note"; }

    bool draw(ShellState& state) override {
        UiContext& ctx = state.ctx;
        const float em = ImGui::GetFontSize(), column = em * 5;
        draw_steps(column);
        draw_colours(ctx, column);
        if (ImGui::IsWindowAppearing()) ImGui::SetKeyboardFocusHere();
        text_area("##text", &m_note.text, ImVec2(-1, em * 8));
        const std::string problem = fault();
        if (m_before && m_owner != m_recording->notes())
            muted_text(ctx, fmt::format("It is on shared steps, and belongs to run {}.", m_owner->run_id()));
        return draw_buttons(state, problem);
    }

    /// What was typed is kept: undo takes it back.
    void put_aside(ShellState& state) override {
        if (fault().empty() && (m_before ? *m_before != m_note : !m_note.text.empty())) keep(state);
    }

private:
    /// The note that stands at a step, rather than one that only covers it.
    void find_at(int64_t step) {
        for (RunNotes::Seen& seen : m_recording->notes()->seen()) {
            if (seen.note.first_step > step || seen.note.last_step < step) continue;
            m_owner = seen.owner ? seen.owner : m_recording->notes();
            m_before = m_owner->find(seen.note.id); // whole: a branch shows it up to the fork
            if (seen.note.first_step == step) return;
        }
    }

    void draw_steps(float column) {
        const float em = ImGui::GetFontSize();
        row_label("Steps", column, em * 8);
        ImGui::SetNextItemWidth(em * 4.5F);
        if (ImGui::InputScalar("##first", ImGuiDataType_S64, &m_note.first_step))
            m_note.last_step = std::max(m_note.last_step, m_note.first_step);
        ImGui::SameLine();
        ImGui::TextUnformatted("to");
        ImGui::SameLine();
        ImGui::SetNextItemWidth(em * 4.5F);
        ImGui::InputScalar("##last", ImGuiDataType_S64, &m_note.last_step);
    }

    void draw_colours(UiContext& ctx, float column) {
        const float size = ImGui::GetFrameHeight();
        row_label("Colour", column, size * 8);
        for (uint32_t colour = 0; colour < note_colours; ++colour) {
            if (colour > 0) ImGui::SameLine(0, size * 0.2F);
            const ImVec2 at = ImGui::GetCursorScreenPos();
            if (ImGui::InvisibleButton(fmt::format("colour {}", colour).c_str(), {size, size}))
                m_note.colour = colour;
            const float edge = size * 0.2F;
            ImDrawList& list = *ImGui::GetWindowDrawList();
            list.AddRectFilled({at.x + edge, at.y + edge}, {at.x + size - edge, at.y + size - edge},
                               run_colour(ctx.theme, colour), size * 0.15F);
            if (m_note.colour == colour || ImGui::IsItemFocused())
                list.AddRect(at, {at.x + size, at.y + size}, ctx.theme.accent, size * 0.2F);
            ctx.landmarks.set({at.x, at.y, size, size}, "note/colour/{}", colour);
        }
    }

    /// Why it cannot be kept; empty: it can.
    [[nodiscard]] std::string fault() const {
        StepNote note = m_note;
        note.text = clean_note_text(note.text);
        if (std::string fault = note_fault(note); !fault.empty()) return fault;
        // A note of a run that this one comes from may stand on steps that this one does not share.
        const int64_t last = std::max(m_recording->steps(), m_before ? m_before->last_step : 0);
        return note.last_step > last ? fmt::format("the run has steps 1 to {}", last) : std::string();
    }

    bool draw_buttons(ShellState& state, const std::string& problem) {
        const float em = ImGui::GetFontSize(), width = em * 5, gap = ImGui::GetStyle().ItemSpacing.x;
        ImGui::Dummy(ImVec2(0, em * 0.2F));
        ImGui::BeginDisabled(!m_before.has_value());
        const bool erase = ImGui::Button("Erase", ImVec2(width, 0));
        ImGui::EndDisabled();
        if (erase) {
            change_note(state, m_owner, m_before, std::nullopt);
            return false;
        }
        ImGui::SameLine();
        ImGui::AlignTextToFramePadding();
        ImGui::TextDisabled("%s", problem.empty() ? "Ctrl+Enter keeps it" : problem.c_str());
        ImGui::SameLine(content_right() - 2 * width - gap);
        if (ImGui::Button("Cancel", ImVec2(width, 0))) return false;
        ImGui::SameLine();
        ImGui::BeginDisabled(!problem.empty());
        const bool pressed = accent_button(state.ctx, "Keep", width);
        ImGui::EndDisabled();
        const bool key =
            ImGui::IsWindowFocused(ImGuiFocusedFlags_RootAndChildWindows) && ImGui::GetIO().KeyCtrl &&
            (ImGui::IsKeyPressed(ImGuiKey_Enter, false) || ImGui::IsKeyPressed(ImGuiKey_KeypadEnter, false));
        if (!problem.empty() || !(pressed || key)) return true;
        keep(state);
        return false;
    }

    void keep(ShellState& state) {
        if (m_before && *m_before == m_note) return;
        state.guarded([&] { change_note(state, m_owner, m_before, m_note); });
    }

    std::shared_ptr<const Recording> m_recording;
    std::shared_ptr<RunNotes> m_owner;
    std::optional<StepNote> m_before; ///< the note that is changed
    StepNote m_note;
};

} // namespace

std::unique_ptr<Dialog> make_note_dialog(ShellState& state) {
    return std::make_unique<NoteDialog>(state.ctx);
}

} // namespace refreshlab::ui
