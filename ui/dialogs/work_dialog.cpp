#include "ui/dialogs/work_dialog.h"

#include "ui/draw/offered_files.h"
#include "ui/draw/widgets.h"

#include <imgui.h>

#include <algorithm>

namespace refreshlab::ui {

void PathDialog::put_aside(ShellState& state) {
    m_picker.put_aside(state.ctx);
    if (m_work) m_work->abandoned = true; // the work goes on; its end is a toast
}

void PathDialog::start(ShellState& state, std::string label, Work work) {
    state.start_job(std::move(label), std::move(work), begin());
}

std::shared_ptr<WorkOutcome> PathDialog::begin() {
    return m_work = std::make_shared<WorkOutcome>();
}

bool PathDialog::settle() {
    if (!m_work || !m_work->done) return false;
    m_fault = m_work->fault;
    const bool cancelled = m_work->cancelled && *m_work->cancelled;
    m_work.reset();
    return m_fault.empty() && !cancelled;
}

void PathDialog::draw_fault(UiContext& ctx) const {
    if (m_fault.empty()) return;
    ImGui::PushStyleColor(ImGuiCol_Text, ctx.theme.text_error);
    ImGui::TextWrapped("%s", m_fault.c_str());
    ImGui::PopStyleColor();
    const ImVec2 low = ImGui::GetItemRectMin(), size = ImGui::GetItemRectSize();
    ctx.landmarks.set("dialog/fault", {low.x, low.y, size.x, size.y});
}

bool PathDialog::draw_offered(ShellState& state, LinkOffers::Part::Kind kind, float list_height) {
    if (settle()) return false;
    ImGui::BeginDisabled(m_work != nullptr);
    const auto chosen = offered_file(state.ctx, kind, list_height);
    ImGui::EndDisabled();
    draw_fault(state.ctx);
    if (m_work) return draw_waiting(state.ctx);
    if (chosen) work_on(state, *chosen);
    const float cancel = ImGui::GetFontSize() * 5;
    ImGui::SetCursorPosX(content_right() - cancel);
    return !ImGui::Button("Cancel", ImVec2(cancel, 0));
}

bool PathDialog::draw_path(ShellState& state, float list_height, const char* go, std::string problem) {
    if (settle()) {
        m_picker.accept(state.ctx);
        return false;
    }
    const bool waiting = m_work != nullptr;
    ImGui::BeginDisabled(waiting);
    const std::string before = m_picker.path().string();
    const bool enter = m_picker.draw(state.ctx, list_height);
    ImGui::EndDisabled();
    if (m_picker.path().string() != before) m_fault.clear();
    draw_fault(state.ctx);
    if (waiting) return draw_waiting(state.ctx);
    if (const std::string own = m_picker.problem(); !own.empty()) problem = own;
    if (m_asked_path != m_picker.path().string()) m_asking = false;
    Answer answer = m_asking ? question(state.ctx) : buttons(state.ctx, go, problem);
    if (enter && !m_asking && problem.empty()) answer = Answer::go;
    if (answer == Answer::go && !m_asking && m_picker.would_overwrite()) {
        m_asking = true; // only its own button replaces: Enter is pressed too easily
        m_asked_path = m_picker.path().string();
        return true;
    }
    if (answer == Answer::close) {
        if (!m_asking) return false;
        m_asking = false;
    }
    if (answer == Answer::go) {
        m_asking = false;
        m_fault.clear();
        work_on(state, m_picker.path());
        if (!m_work) { // done at once, or handed on to somebody who tells the person
            m_picker.accept(state.ctx);
            return false;
        }
    }
    return true;
}

PathDialog::Answer PathDialog::buttons(const UiContext& ctx, const char* go, const std::string& problem) {
    const ImGuiStyle& style = ImGui::GetStyle();
    const float em = ImGui::GetFontSize(), width = std::max(em * 5, ImGui::CalcTextSize(go).x + em * 1.6F);
    const float cancel = em * 5, end = content_right();
    ImGui::Dummy(ImVec2(0, em * 0.2F));
    if (!problem.empty()) {
        ImGui::AlignTextToFramePadding();
        ImGui::PushStyleColor(ImGuiCol_Text, ctx.theme.text_muted);
        ImGui::TextUnformatted(problem.c_str());
        ImGui::PopStyleColor();
        ImGui::SameLine();
    }
    ImGui::SetCursorPosX(end - width - cancel - style.ItemSpacing.x);
    if (ImGui::Button("Cancel", ImVec2(cancel, 0))) return Answer::close;
    ImGui::SameLine();
    ImGui::BeginDisabled(!problem.empty());
    const bool pressed = accent_button(ctx, go, width);
    ImGui::EndDisabled();
    return pressed && problem.empty() ? Answer::go : Answer::none;
}

PathDialog::Answer PathDialog::question(const UiContext& ctx) {
    const float em = ImGui::GetFontSize(), replace = em * 6, keep = em * 6;
    ImGui::Dummy(ImVec2(0, em * 0.2F));
    ImGui::AlignTextToFramePadding();
    std::error_code error;
    const bool folder = std::filesystem::is_directory(m_picker.path(), error);
    ImGui::TextUnformatted(
        folder ? "The folder has files: replace those of the same name?"
               : (m_picker.path().filename().string() + " already exists: replace it?").c_str());
    ImGui::SameLine();
    ImGui::SetCursorPosX(content_right() - replace - keep - ImGui::GetStyle().ItemSpacing.x);
    if (ImGui::Button("Keep it", ImVec2(keep, 0))) return Answer::close;
    ImGui::SameLine();
    return accent_button(ctx, "Replace", replace) ? Answer::go : Answer::none;
}

bool PathDialog::draw_waiting(const UiContext& ctx) {
    const float em = ImGui::GetFontSize(), cancel = em * 5;
    ctx.host.keep_awake(0.3);
    ImGui::Dummy(ImVec2(0, em * 0.2F));
    ImGui::ProgressBar(
        -static_cast<float>(ImGui::GetTime()),
        ImVec2(content_right() - ImGui::GetCursorPosX() - cancel - em, ImGui::GetFrameHeight()), "");
    ImGui::SameLine();
    ImGui::SetCursorPosX(content_right() - cancel);
    if (ImGui::Button("Cancel", ImVec2(cancel, 0)) && m_work->cancelled) *m_work->cancelled = true;
    return true;
}

} // namespace refreshlab::ui
