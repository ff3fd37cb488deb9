#include "ui/dialogs/dialogs.h"
#include "ui/draw/widgets.h"
#include "ui/state/shell_state.h"
#include "ui/tour/chapter.h"

#include <fmt/format.h>
#include <imgui.h>

namespace refreshlab::ui {

namespace {

/// The chapters, how far each was taken, and what is wrong with one that somebody has written.
class TourDialog final : public Dialog {
public:
    const char* title() const override { return "Tour"; }
    float width() const override { return 620; }

    bool draw(ShellState& state) override {
        if (!m_read) {
            m_chapters = all_chapters(state, m_problems);
            m_read = true;
        }
        const float em = ImGui::GetFontSize();
        muted_text(state.ctx,
                   "A bubble says what to do, waits until you have done it, and says what has happened.");
        bool stays = true;
        for (const Chapter& chapter : m_chapters) {
            ImGui::PushID(chapter.id.c_str());
            ImGui::Dummy(ImVec2(0, em * 0.4F));
            const auto left = state.settings.tour.find(chapter.id);
            const size_t step = left == state.settings.tour.end() ? 0 : static_cast<size_t>(left->second);
            const bool done = step >= chapter.steps.size();
            const std::string button = done       ? "Again"
                                       : step > 0 ? fmt::format("Continue at {}", step + 1)
                                                  : "Start";
            const ImVec2 at = ImGui::GetCursorPos();
            ImGui::PushFont(state.ctx.fonts.medium, 0);
            ImGui::TextUnformatted(chapter.title.c_str());
            ImGui::PopFont();
            ImGui::SameLine();
            ImGui::PushStyleColor(ImGuiCol_Text, state.ctx.theme.text_muted);
            ImGui::Text("%d minutes%s", chapter.minutes, done ? ", done" : "");
            ImGui::PushTextWrapPos(at.x + ImGui::GetContentRegionAvail().x - em * 8);
            ImGui::TextUnformatted(chapter.about.c_str());
            ImGui::PopTextWrapPos();
            ImGui::PopStyleColor();
            const ImVec2 below = ImGui::GetCursorPos();
            ImGui::SetCursorPos(ImVec2(at.x + ImGui::GetContentRegionAvail().x - em * 7, at.y));
            if (ImGui::Button((button + "###start").c_str(), ImVec2(em * 7, 0))) {
                state.wanted_tour = chapter.id;
                stays = false;
            }
            ImGui::SetCursorPos(below);
            ImGui::Dummy(ImVec2(0, 0));
            ImGui::PopID();
        }
        for (const std::string& problem : m_problems) {
            ImGui::PushStyleColor(ImGuiCol_Text, state.ctx.theme.text_error);
            ImGui::TextWrapped("%s", problem.c_str());
            ImGui::PopStyleColor();
        }
        return stays;
    }

private:
    bool m_read = false;
    std::vector<Chapter> m_chapters;
    std::vector<std::string> m_problems;
};

} // namespace

std::unique_ptr<Dialog> make_tour_dialog() {
    return std::make_unique<TourDialog>();
}

} // namespace refreshlab::ui
