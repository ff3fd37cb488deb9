// Themes and layouts of the shell: carried out as wished, fitted to the window, brought to the front.
#include "engine/base/error.h"
#include "ui/context/style.h"
#include "ui/panels/panel.h"
#include "ui/scene/axes/time_view.h"
#include "ui/shell/dock_places.h"
#include "ui/shell/shell_impl.h"
#include "ui/state/dialog.h"
#include "ui/state/layout.h"
#include "ui/state/shell_state.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace refreshlab::ui {
namespace {

// Fixed, because arrangements that were saved name it.
constexpr ImGuiID dock_root = 0x52460001;
constexpr float present_scale = 1.5F; // larger type for a projector
constexpr float bars_height_em = 4;   // of menu and run bar above the docked panels
constexpr double settle_s = 0.3;      // so long a window must keep a size before its layout is fitted to it

} // namespace

float Shell::Impl::scale_of(std::string_view layout) const {
    return state.settings.user_scale * state.display_scale * (layout == "Present" ? present_scale : 1.0F);
}

/// Text of another size, or a window of another size, needs other places. An arrangement that somebody made stays as it is.
void Shell::Impl::refit_layout() {
    const float scale = scale_of(state.settings.layout);
    const ImVec2 size = ImGui::GetMainViewport()->Size;
    const auto same = [](ImVec2 a, ImVec2 b) { return a.x == b.x && a.y == b.y; };
    const double now = ImGui::GetTime();
    if (!same(size, seen_size)) size_since = now;
    seen_size = size;
    if (fitted_scale == 0 || !state.wanted_layout.empty()) return;
    if (scale == fitted_scale) {
        if (same(size, fitted_size)) return;
        // Not in every frame of a drag at the window's border, and not while somebody types: the keyboard would be lost.
        if (now < size_since + settle_s) {
            state.ctx.host.keep_awake(settle_s);
            return;
        }
        if (state.dialog || ImGui::GetIO().WantTextInput) return;
    }
    fitted_scale = scale;
    fitted_size = size;
    const std::vector<std::string> laid_out = panels_of(fitted_places);
    const bool same_panels = std::ranges::all_of(state.panel_open, [&](const auto& panel) {
        return panel.second == (std::ranges::find(laid_out, panel.first) != laid_out.end());
    });
    if (!same_panels) return;
    const auto docked = docked_places(dock_root, state.panel_titles());
    if (!docked || !same_places(*docked, fitted_places)) return;
    state.wanted_layout = state.settings.layout;
    state.wanted_layout_bundled = true;
    refitting = true;
}

/// Another panel of a kind, to the right of the one whose view it begins with. A closed one is taken before a new one is made.
void Shell::Impl::make_wanted_panel() {
    const std::string beside_title = std::exchange(state.wanted_another, {});
    Panel* const first = state.find_panel(beside_title);
    if (first == nullptr) return;
    const Views* const own = first->own_views();
    const Views wanted = own != nullptr ? *own : state.ctx.views;
    const auto kind = std::ranges::find(panel_kinds(), first->kind(), &PanelKind::title);
    for (int number = 2; number <= most_of_a_kind; ++number) {
        const std::string title = title_of_another(*kind, number);
        if (state.panel_open[title]) continue;
        std::erase_if(state.panels, [&](const auto& panel) { return panel->title() == title; });
        state.add_another(title, wanted);
        state.views_set = true;
        state.open_panel(title);
        dock_beside(title, beside_title);
        return;
    }
}

/// A chapter of the tour, where it was left; one that was finished, from its beginning.
void Shell::Impl::begin_wanted_tour() {
    const std::string id = std::exchange(state.wanted_tour, {});
    if (id.empty()) return;
    state.guarded([&] {
        std::vector<std::string> problems;
        for (const Chapter& chapter : all_chapters(state, problems))
            if (chapter.id == id) {
                const auto left = state.settings.tour.find(id);
                return tour.begin(chapter,
                                  left == state.settings.tour.end() ? 0 : static_cast<size_t>(left->second));
            }
    });
}

void Shell::Impl::apply_wishes() {
    make_wanted_panel();
    begin_wanted_tour();
    refit_layout();
    // A layout is fitted to the window, whose size is known from the first frame on.
    if (!state.wanted_layout.empty() && ImGui::GetMainViewport()->Size.x > 0) {
        const std::string name = std::exchange(state.wanted_layout, {});
        use_layout(name, std::exchange(state.wanted_layout_bundled, false));
    }
    if (state.wanted_theme.empty()) return;
    use_theme(std::exchange(state.wanted_theme, {}));
}

/// Nothing changes where the theme cannot be read; the first one must.
void Shell::Impl::use_theme(const std::string& name) {
    const auto assets = state.ctx.host.assets();
    const float scale = scale_of(state.settings.layout);
    try {
        Theme theme = load_theme(assets, name);
        use_colours(state.settings.colours, name, theme);
        apply_theme(assets, theme, scale);
        state.ctx.theme = std::move(theme);
        state.settings.theme = name;
    } catch (const Error& e) {
        state.say(Toasts::Level::error, e.what());
        if (name == "dark") throw; // nothing to fall back to: the installation is broken
        if (state.ctx.theme.accent == 0) {
            state.wanted_theme = "dark";
            apply_wishes();
        }
    }
}

/// The person's own arrangement of a layout, where there is one.
std::optional<Arrangement> Shell::Impl::own_arrangement(const std::string& name) {
    const auto mine = state.arrangements.find(name);
    if (mine != state.arrangements.end()) return parse_arrangement(mine->second);
    const auto folder = state.ctx.host.user_folder();
    std::error_code error;
    if (!state.options.restore_user_layout || folder.empty() ||
        !std::filesystem::exists(arrangement_file(folder, name), error))
        return std::nullopt;
    try {
        return read_arrangement(arrangement_file(folder, name));
    } catch (const Error& e) { // the bundled layout is there
        state.say(Toasts::Level::warning, e.what());
        return std::nullopt;
    }
}

void Shell::Impl::use_layout(const std::string& name, bool bundled) {
    const auto known = std::ranges::find(layout_names(), name);
    const std::string wanted = known == layout_names().end() ? layout_names().front() : name;
    state.guarded([&] {
        const bool first = state.panel_open.empty();
        if (!first && !bundled) state.store_layout();
        if (!bundled) state.layout_borrowed = false;
        const ImGuiViewport& view = *ImGui::GetMainViewport();
        const float em = ImGui::GetStyle().FontSizeBase * scale_of(wanted);
        const ImVec2 room(view.Size.x, view.Size.y - em * bars_height_em);
        original = std::exchange(refitting, false) ? keep_front(std::move(original), state.drawn_panels)
                                                   : bundled_layout(wanted);
        fitted_places = fitted(original, room.x, room.y, em);
        fitted_scale = scale_of(wanted);
        fitted_size = view.Size;
        const std::vector<std::string> titles = state.panel_titles();
        std::vector<std::string> open = panels_of(fitted_places);
        state.front_panels = fronts_of(fitted_places);
        if (const auto own = bundled ? std::nullopt : own_arrangement(wanted)) {
            open = own->open_panels;
            state.front_panels = own->front_panels;
            ImGui::LoadIniSettingsFromMemory(own->ini.data(), own->ini.size());
        } else {
            put_up(dock_root, fitted_places, room, titles);
        }
        for (const std::string& title : titles)
            state.panel_open[title] = std::ranges::find(open, title) != open.end();
        if (const std::string& asked = state.focus_panel;
            !asked.empty()) { // by the command line, before any layout
            state.panel_open[asked] = true;
            state.front_panels.push_back(asked);
        }
        // Dear ImGui keeps the tab of a window that had the focus, whatever the layout says: they are brought to the
        // front by hand.
        state.frames_to_front =
            5; // windows move to their docks over the first frames, and all are drawn meanwhile
        state.settings.layout = wanted;
    });
    enlarged.clear();
    const bool present = wanted == "Present";
    if (present != state.ctx.present_mode && state.wanted_theme.empty())
        state.wanted_theme = state.ctx.theme.name;
    state.ctx.present_mode = present;
}

/// The panel of a layout just put up whose tab is to be selected now; "" when all are in front. Dear ImGui selects the tab
/// of the focused window when it next draws the tabs, so this takes one panel a frame.
std::string Shell::Impl::next_to_front() {
    constexpr int patience = 30; // frames; a tab that cannot be shown (its panel is open nowhere) is given up
    if (state.front_panels.empty() || --state.frames_to_front > 0) return {};
    std::erase_if(state.front_panels, [&](const std::string& title) {
        return !state.panel_open[title] || std::ranges::count(state.drawn_panels, title) > 0;
    });
    if (state.front_panels.empty() || state.frames_to_front < -patience) {
        // Which panel has the keyboard is not the layout's business.
        if (state.frames_to_front < 0) ImGui::SetWindowFocus(nullptr);
        state.front_panels.clear();
        return {};
    }
    return state.front_panels.front();
}

void Shell::Impl::draw_dock_space(float y) {
    const ImGuiViewport& view = *ImGui::GetMainViewport();
    dock_pos = ImVec2(view.WorkPos.x, y);
    dock_size = ImVec2(view.WorkSize.x, std::max(1.0F, view.WorkPos.y + view.WorkSize.y - y));
    ImGui::SetNextWindowPos(dock_pos);
    ImGui::SetNextWindowSize(dock_size);
    ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, ImVec2(0, 0));
    ImGui::Begin("Dock", nullptr,
                 ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_NoDocking | ImGuiWindowFlags_NoBackground |
                     ImGuiWindowFlags_NoSavedSettings | ImGuiWindowFlags_NoMove |
                     ImGuiWindowFlags_NoBringToFrontOnFocus | ImGuiWindowFlags_NoNavFocus);
    ImGui::PopStyleVar();
    handle_shortcuts();
    const ImGuiDockNodeFlags flags =
        state.settings.layout_locked
            ? ImGuiDockNodeFlags_NoUndocking | ImGuiDockNodeFlags_NoResize | ImGuiDockNodeFlags_NoDockingSplit
            : ImGuiDockNodeFlags_None;
    ImGui::DockSpace(dock_root, ImVec2(0, 0), flags);
    ImGui::End();
}

/// After Begin(): the last item is the window's tab, or its title bar. What one does with a panel as a whole.
void Shell::Impl::tab_menu(const std::string& title) {
    if (ImGui::IsItemHovered() && ImGui::IsMouseReleased(ImGuiMouseButton_Right)) {
        state.used_panel = title;
        ImGui::OpenPopup("##tab");
    }
    if (!ImGui::BeginPopup("##tab")) return;
    for (const char* id : {"view.another", "view.enlarge", "export.figure", "export.picture"}) {
        const Action* action = state.find_action(id);
        if (action == nullptr) continue;
        const bool enabled = action->enabled(state.ctx);
        if (ImGui::MenuItem(action->label.c_str(), shortcut_text(action->shortcut).c_str(), false, enabled))
            state.run(*action);
    }
    ImGui::EndPopup();
}

/// After Begin(), as above.
void Shell::Impl::enlarge_by_tab(const std::string& title) {
    if (!ImGui::IsItemHovered() || !ImGui::IsMouseDoubleClicked(ImGuiMouseButton_Left)) return;
    enlarged = enlarged == title ? std::string() : title;
    if (!enlarged.empty()) enlarged_now = true;
}

/// The enlarged panel over the docked ones, until another double click or Esc: the arrangement below is not touched.
void Shell::Impl::draw_enlarged() {
    const auto panel =
        std::ranges::find_if(state.panels, [&](const auto& p) { return p->title() == enlarged; });
    if (panel == state.panels.end() || !state.panel_open[enlarged]) return enlarged.clear();
    ImGui::SetNextWindowPos(dock_pos);
    ImGui::SetNextWindowSize(dock_size);
    if (std::exchange(enlarged_now, false)) ImGui::SetNextWindowFocus();
    const std::string title = enlarged;
    ImGui::Begin((title + "   (Esc goes back)###enlarged").c_str(), nullptr,
                 ImGuiWindowFlags_NoCollapse | ImGuiWindowFlags_NoMove | ImGuiWindowFlags_NoResize |
                     ImGuiWindowFlags_NoDocking | ImGuiWindowFlags_NoSavedSettings);
    enlarge_by_tab(title);
    // Esc has nearer meanings: a drag, a popup, a dialog, what is typed.
    const bool free = !state.dialog && !ImGui::IsAnyItemActive() && !ImGui::GetIO().WantTextInput &&
                      !ImGui::IsPopupOpen(nullptr, ImGuiPopupFlags_AnyPopup) &&
                      !ImGui::IsMouseDown(ImGuiMouseButton_Left) &&
                      !ImGui::IsMouseDown(ImGuiMouseButton_Right);
    if (free && ImGui::IsKeyPressed(ImGuiKey_Escape, false)) enlarged.clear();
    draw_panel(**panel);
    ImGui::End();
}

} // namespace refreshlab::ui
