// "Compare with cache policy...": one click on a method runs the shown run's prompt again with it.
#include "engine/policies/cache_method.h"
#include "ui/base/fuzzy.h"
#include "ui/dialogs/dialogs.h"
#include "ui/draw/text.h"
#include "ui/draw/widgets.h"
#include "ui/scene/policy/cache_words.h"
#include "ui/state/dialog.h"
#include "ui/state/shell_state.h"

#include <fmt/format.h>
#include <misc/cpp/imgui_stdlib.h>

#include <algorithm>
#include <string>
#include <vector>

namespace refreshlab::ui {

namespace {

/// A method of the list, and the run that it stands for.
struct Line {
    const CacheMethod* method = nullptr;
    CachePolicyConfig cache;
    std::string refusal; ///< why it cannot be; empty: it can
};

/// Those that a query finds, in the order of the registry, so that families stay together.
std::vector<Line> matching(const ShellState& state, const RunConfig& run, const std::string& query) {
    const CachePolicyConfig& own = cache_of(run, deciding_owner(run.mode));
    const RunReach reach = state.reach_to_compare();
    const CacheFacts facts = cache_facts(run, *state.ctx.status);
    std::vector<Line> lines;
    for (const CacheMethod& method : cache_methods()) {
        if (!fuzzy_score(query, fmt::format("{} {}", method.label, method.family))) continue;
        Line line{&method, compared_cache(method.name, own, reach), {}};
        line.refusal = line.cache == own ? "The shown run has this cache policy"
                                         : cache_refusal(with_cache_policy(run, line.cache), facts);
        lines.push_back(std::move(line));
    }
    return lines;
}

class CompareCacheDialog final : public Dialog {
public:
    const char* title() const override { return "Compare with cache policy"; }
    float width() const override { return 620; }
    bool draw(ShellState& state) override {
        const RunConfig run = state.run_to_compare();
        muted_text(state.ctx,
                   fmt::format("The shown run ({}) again: the same prompt, seed and settings, with "
                               "the cache policy that you choose. Both are shown then.",
                               cache_words(cache_of(run, deciding_owner(run.mode)))));
        if (ImGui::IsWindowAppearing()) ImGui::SetKeyboardFocusHere();
        ImGui::SetNextItemWidth(-1);
        const std::string before = m_query;
        const bool enter = ImGui::InputTextWithHint("##query", "Name or family of a cache policy", &m_query,
                                                    ImGuiInputTextFlags_EnterReturnsTrue);
        const std::vector<Line> lines = matching(state, run, m_query);
        move_mark(lines, before != m_query);
        const Line* chosen = draw_list(state, lines);
        if (enter && m_marked < lines.size()) chosen = &lines[m_marked];
        if (chosen == nullptr || !chosen->refusal.empty()) return true;
        state.guarded([&] { state.compare_cache(chosen->cache); });
        return false;
    }

private:
    /// \param anew  the list is another one: the first that can be is marked
    void move_mark(const std::vector<Line>& lines, bool anew) {
        const auto can = [](const Line& line) { return line.refusal.empty(); };
        const auto first = [&] {
            return static_cast<size_t>(std::ranges::find_if(lines, can) - lines.begin());
        };
        if (anew || m_marked >= lines.size()) m_marked = first();
        size_t next = m_marked;
        if (ImGui::IsKeyPressed(ImGuiKey_DownArrow)) do
                ++next;
            while (next < lines.size() && !can(lines[next]));
        if (ImGui::IsKeyPressed(ImGuiKey_UpArrow)) do
                --next; // below 0 it is beyond the end
            while (next < lines.size() && !can(lines[next]));
        m_moved = next != m_marked && next < lines.size();
        if (m_moved) m_marked = next;
    }

    /// \return the line that was clicked; null: none
    const Line* draw_list(ShellState& state, const std::vector<Line>& lines) const {
        const float em = ImGui::GetFontSize();
        const Line* clicked = nullptr;
        if (ImGui::BeginChild("methods", ImVec2(0, em * 20), ImGuiChildFlags_Borders)) {
            ImGui::PushItemFlag(ImGuiItemFlags_NoNav,
                                true); // up and down mark a line; the entry stays focused
            std::string_view family;
            for (size_t i = 0; i < lines.size(); ++i) {
                if (lines[i].method->family != family)
                    ImGui::SeparatorText(std::string(lines[i].method->family).c_str());
                family = lines[i].method->family;
                if (draw_line(state.ctx, lines[i], i == m_marked)) clicked = &lines[i];
            }
            ImGui::PopItemFlag();
            if (lines.empty()) muted_text(state.ctx, "No cache policy has this name");
        }
        ImGui::EndChild();
        return clicked;
    }

    /// Its name, and what it does as far as there is room.
    bool draw_line(const UiContext& ctx, const Line& line, bool marked) const {
        const CacheMethod& method = *line.method;
        const float left = ImGui::GetFontSize() * 13;
        const ImVec2 at = ImGui::GetCursorScreenPos();
        ImGui::BeginDisabled(!line.refusal.empty());
        const bool clicked =
            ImGui::Selectable(fmt::format("{}###{}", method.label, method.name).c_str(), marked);
        ImGui::EndDisabled();
        if (marked && m_moved && !ImGui::IsItemVisible()) ImGui::SetScrollHereY();
        if (ImGui::IsItemHovered(ImGuiHoveredFlags_ForTooltip | ImGuiHoveredFlags_AllowWhenDisabled))
            ImGui::SetTooltip("%s", fmt::format("{}{}{}\nCost: {}\nSource: {}\nIt runs as {}", line.refusal,
                                                line.refusal.empty() ? "" : "\n", method.summary, method.cost,
                                                method.source, cache_words(line.cache))
                                        .c_str());
        if (const float room = content_right() - left; room > 0)
            text_at(ImGui::GetWindowDrawList(), ImVec2(ImGui::GetWindowPos().x + left, at.y),
                    ctx.theme.text_muted, shortened(std::string(method.summary), room));
        return clicked;
    }

    std::string m_query;
    size_t m_marked = SIZE_MAX; ///< of the list: what Enter takes
    bool m_moved = false;       ///< in this frame, by a key
};

} // namespace

std::unique_ptr<Dialog> make_compare_cache_dialog() {
    return std::make_unique<CompareCacheDialog>();
}

void compare_with_method(ShellState& state, std::string_view method) {
    const RunConfig run = state.run_to_compare();
    state.compare_cache(
        compared_cache(method, cache_of(run, deciding_owner(run.mode)), state.reach_to_compare()));
}

} // namespace refreshlab::ui
