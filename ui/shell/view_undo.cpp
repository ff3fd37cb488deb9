#include "ui/shell/view_undo.h"

#include "ui/panels/panel.h"
#include "ui/scene/views/view_fields.h"
#include "ui/state/shell_state.h"

#include <imgui.h>

#include <utility>

namespace refreshlab::ui {
void ViewUndo::accept(ShellState& state) {
    m_seen.clear();
    watch_all(state);
}

void ViewUndo::watch(ShellState& state) {
    if (std::exchange(state.views_set, false)) return accept(state);
    if (!ImGui::IsAnyItemActive() && !ImGui::IsMouseDown(ImGuiMouseButton_Left)) watch_all(state);
}

void ViewUndo::watch_all(ShellState& state) {
    watch_views(state, "", state.ctx.views);
    for (const auto& panel : state.panels)
        if (const Views* own = panel->own_views()) watch_views(state, std::string(panel->title()), *own);
}

void ViewUndo::watch_views(ShellState& state, const std::string& panel, const Views& now) {
    const auto [seen, is_new] = m_seen.try_emplace(panel, now);
    if (is_new) return;
    const std::vector<size_t> fields = changed_fields(seen->second, now);
    if (fields.empty()) return;
    const Views before = std::exchange(seen->second, now);
    std::string words = words_of_change(fields, before, now);
    if (!panel.empty()) words = panel + words.substr(words.find(':'));
    state.ctx.drafts.join_history(std::move(words),
                                  [&state, this, panel, fields, before, after = now](bool back) {
                                      const FirstViews first(state);
                                      Panel* const further = state.find_panel(panel);
                                      Views* const shown = panel.empty()        ? &state.ctx.views
                                                           : further != nullptr ? further->own_views()
                                                                                : nullptr;
                                      if (shown == nullptr) return; // the panel is gone
                                      for (const size_t field : fields)
                                          view_fields()[field].take(*shown, back ? before : after);
                                      m_seen[panel] = *shown;
                                  });
}

} // namespace refreshlab::ui
