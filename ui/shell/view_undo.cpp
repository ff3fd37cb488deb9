#include "ui/shell/view_undo.h"

#include "ui/panels/panel.h"
#include "ui/scene/views/view_fields.h"
#include "ui/state/shell_state.h"

#include <imgui.h>

#include <utility>

namespace refreshlab::ui {
namespace {

/// Runs work on the views of a panel, "" for those of the context. Nothing where that panel is gone.
void with_views(ShellState& state, const std::string& panel, const std::function<void(Views&)>& work) {
    if (panel.empty()) return work(state.ctx.views);
    Panel* const own = state.find_panel(panel);
    if (own == nullptr) return;
    Views views; // of its kind alone
    own->exchange_view(views);
    work(views);
    own->exchange_view(views);
}

void take_fields(Views& to, const Views& from, const std::vector<size_t>& fields) {
    for (const size_t field : fields)
        view_fields()[field].take(to, from);
}

} // namespace

ViewUndo::ByPanel ViewUndo::views_of(ShellState& state) {
    ByPanel all{{"", state.ctx.views}};
    for (const auto& panel : state.panels)
        if (panel->title() != panel->kind())
            with_views(state, std::string(panel->title()),
                       [&](const Views& views) { all[std::string(panel->title())] = views; });
    return all;
}

void ViewUndo::accept(ShellState& state) {
    m_seen = views_of(state);
}

void ViewUndo::watch(ShellState& state) {
    if (std::exchange(state.views_set, false)) return accept(state);
    if (ImGui::IsAnyItemActive() || ImGui::IsMouseDown(ImGuiMouseButton_Left)) return;
    ByPanel now = views_of(state);
    for (const auto& [panel, views] : now) {
        const auto seen = m_seen.find(panel);
        if (seen == m_seen.end()) continue; // a panel that has just been opened
        const std::vector<size_t> fields = changed_fields(seen->second, views);
        if (fields.empty()) continue;
        const Views before = seen->second, after = views;
        std::string words = words_of_change(fields, before, after);
        if (!panel.empty()) words = panel + words.substr(words.find(':'));
        state.ctx.drafts.join_history(
            std::move(words), [&state, this, panel, fields, before, after](bool back) {
                const bool in_use = state.put_views_back();
                with_views(state, panel,
                           [&](Views& shown) { take_fields(shown, back ? before : after, fields); });
                m_seen = views_of(state);
                if (in_use) state.use_views();
            });
    }
    m_seen = std::move(now);
}

} // namespace refreshlab::ui
