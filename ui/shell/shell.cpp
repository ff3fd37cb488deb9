#include "ui/shell/shell.h"

#include "engine/base/error.h"
#include "engine/base/model_path.h"
#include "ui/dialogs/dialogs.h"
#include "ui/dialogs/workspace_files.h"
#include "ui/draw/widgets.h"
#include "ui/panels/panel.h"
#include "ui/scene/axes/signal_choice.h"
#include "ui/shell/dock_places.h"
#include "ui/shell/panel_guard.h"
#include "ui/shell/parts.h"
#include "ui/shell/shell_impl.h"
#include "ui/state/dialog.h"
#include "ui/state/shell_state.h"

#include <fmt/format.h>
#include <imgui_internal.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace refreshlab::ui {
namespace {

constexpr double autosave_s = 30; // how often a changed layout is written, besides the end of the program

/// What the person left, and over it what was asked for by name.
void choose_settings(ShellState& state, std::string& problem) {
    if (state.options.restore_user_layout)
        state.settings = load_settings(state.ctx.host.user_folder(), problem);
    else
        state.settings.theme = state.options.theme;
    const ShellOptions defaults;
    // What was asked for by name wins over what was remembered.
    if (state.options.theme != defaults.theme) state.settings.theme = state.options.theme;
    if (state.options.layout != defaults.layout) state.settings.layout = state.options.layout;
    if (state.options.user_scale != defaults.user_scale) state.settings.user_scale = state.options.user_scale;
}

/// A panel docked in the main window has the colour that the frame begins with. So it paints none: a software GL takes as long for
/// the backgrounds of all panels as for everything on them.
bool is_on_background(const char* title) {
    const ImGuiWindow* const window = ImGui::FindWindowByName(title);
    return window != nullptr && window->DockNode != nullptr &&
           ImGui::DockNodeGetRootNode(window->DockNode)->IsDockSpace();
}

/// Dear ImGui draws tooltips over everything. One that a panel has put up is left out of the frame where it would lie on the open
/// dialog. Called between the panels and the dialog, whose own tooltips come later.
void keep_tips_off_dialog(const Dialog* dialog) {
    const ImGuiWindow* const window = dialog ? ImGui::FindWindowByName(dialog->title()) : nullptr;
    if (window == nullptr || !window->WasActive) return;
    for (ImGuiWindow* tip : ImGui::GetCurrentContext()->Windows)
        if ((tip->Flags & ImGuiWindowFlags_Tooltip) != 0 && tip->Active &&
            tip->Rect().Overlaps(window->Rect()))
            ImGui::SetWindowHiddenAndSkipItemsForCurrentFrame(tip);
}

} // namespace

Shell::Shell(EngineLink& engine, Host& host, Options options)
    : m_impl(std::make_unique<Impl>(engine, host, std::move(options))) {
    ShellState& state = m_impl->state;
    ImGuiIO& io = ImGui::GetIO();
    io.ConfigFlags |= ImGuiConfigFlags_DockingEnable | ImGuiConfigFlags_NavEnableKeyboard;
    io.ConfigErrorRecoveryEnableAssert = false; // a missing End() is one log line, not an abort
    io.ConfigWindowsMoveFromTitleBarOnly = true;
    io.IniFilename = nullptr; // settings, layout and trace are three files that we write

    std::string problem;
    choose_settings(state, problem);
    state.ctx.paths.folders = state.settings.folders;
    state.ctx.views = state.settings.views;
    if (state.options.paced)
        state.set_pace(state.options.pace.value_or(state.settings.pace));
    else
        state.settings.pace = 0; // as it is
    if (state.options.plots) state.ctx.views.signals = *state.options.plots;
    state.ctx.first_start_hints = state.options.first_start_hints && !state.settings.hints_seen;
    state.recent = RecentFiles(host.state_folder());
    state.ctx.recent_files = state.recent.files();
    state.ctx.open_file = [this](const std::filesystem::path& file) { open_file(m_impl->state, file); };
    state.ctx.compare_cache = [&state](const CachePolicyConfig& cache) {
        state.guarded([&] { state.compare_cache(cache); });
    };
    state.ctx.reach_to_compare = [&state] { return state.reach_to_compare(); };
    m_impl->keeping.emplace(state);
    state.ctx.run_action = [this](std::string_view id) { m_impl->state.run(id); };
    state.ctx.key_of = [this](std::string_view id) {
        const Action* const action = m_impl->state.find_action(id);
        return action == nullptr ? std::string() : shortcut_text(action->shortcut);
    };

    std::vector<std::string> problems;
    state.ctx.fonts = load_fonts(host.assets(), problems);
    if (!problem.empty()) problems.push_back(problem);
    for (const std::string& line : problems)
        state.say(Toasts::Level::warning, line, false);

    state.actions = make_actions(state);
    state.panels = make_panels();
    for (const auto& [title, views] : state.settings.more_panels)
        state.add_another(title, views);
    state.wanted_theme = state.settings.theme;
    state.wanted_layout = state.settings.layout;
    state.wanted_layout_bundled = !state.options.restore_user_layout;
    m_impl->apply_wishes();
}

Shell::~Shell() = default;

UiContext& Shell::context() {
    return m_impl->state.ctx;
}

Tour& Shell::tour() {
    return m_impl->tour;
}

const std::vector<Action>& Shell::actions() const {
    return m_impl->state.actions;
}

void Shell::run_action(std::string_view id) {
    m_impl->state.run(id);
}

void Shell::set_display_scale(float scale) {
    m_impl->state.display_scale = std::clamp(scale, 0.5F, 4.0F);
    m_impl->state.wanted_theme = m_impl->state.ctx.theme.name;
    m_impl->apply_wishes();
}

bool Shell::may_close() {
    ShellState& state = m_impl->state;
    if (!state.options.ask_before_closing || !state.unsaved()) return true;
    quit(state); // puts the question up
    return false;
}

void Shell::show_recording(std::shared_ptr<const Recording> recording, const std::string& name,
                           const ReadingsOfFile& readings) {
    if (recording) m_impl->state.keep(readings, recording);
    if (recording)
        m_impl->state.runs.add_file(recording, name);
    else
        m_impl->state.runs.look_live();
    m_impl->state.ctx.select_step(std::nullopt);
}

void Shell::show_trace(const LabelledRuns& trace, const std::string& name, const ReadingsOfFile& readings,
                       const std::filesystem::path& file) {
    m_impl->state.show_trace(trace, name, readings, file);
    if (!file.empty()) remember_file(m_impl->state, file);
}

void Shell::show_tables(const std::vector<std::shared_ptr<const TableFile>>& tables,
                        const std::filesystem::path& path) {
    ui::show_tables(m_impl->state, tables, path);
}

void Shell::open_trace(const std::filesystem::path& path) {
    ui::open_trace(m_impl->state, path);
}

void Shell::show_panel(const std::string& title) {
    m_impl->state.open_panel(title);
}

void Shell::add_panel(std::unique_ptr<Panel> panel) {
    m_impl->state.panels.push_back(std::move(panel));
    show_panel(std::string(m_impl->state.panels.back()->title()));
}

void Shell::open_dropped(const std::filesystem::path& path) {
    if (may_be_model(path))
        m_impl->state.dialog = make_new_run_dialog(m_impl->state, path);
    else
        open_file(m_impl->state, path);
}

void Shell::show_workspace(LoadedWorkspace loaded) {
    ui::show_workspace(m_impl->state, std::move(loaded));
}

bool Shell::offer_left_sessions(std::function<void()> otherwise) {
    ShellState& state = m_impl->state;
    if (state.ctx.host.state_folder().empty()) return false;
    state.left.clear(); // those that were offered before are free again
    state.left = take_left_sessions(state.ctx.host.state_folder());
    if (state.left.empty()) return false;
    state.after_offer = std::move(otherwise);
    state.dialog = make_left_session_dialog(state);
    return true;
}

void Shell::keep_session() {
    m_impl->keeping->tend();
    m_impl->watch_table();
    m_impl->follower.tend(m_impl->state);
}

/// An idle window draws no frames: one is asked for when the file of the shown table has changed.
void Shell::Impl::watch_table() {
    using Clock = std::chrono::steady_clock;
    constexpr std::chrono::milliseconds between{500};
    const auto table = state.ctx.tables.shown();
    if (!table || Clock::now() - watched_at < between) return;
    watched_at = Clock::now();
    const auto stamp = stamp_of(table->path);
    if (std::exchange(watched, stamp) != stamp) state.ctx.host.keep_awake(0.5);
}

void Shell::end_session() {
    m_impl->keeping->end();
}

void Shell::save_settings() {
    m_impl->tour.leave_window();
    m_impl->state.save_all();
}

void Shell::Impl::handle_shortcuts() {
    const ImGuiIO& io = ImGui::GetIO();
    if (io.WantTextInput || (state.dialog && state.asking_for_key)) return;
    // Esc ends a walk through the controls by keyboard. (Dear ImGui begins one there: it goes from a child window, which a
    // click on a token has focused, to its parent, and shows its cursor.)
    if (ImGui::IsKeyPressed(ImGuiKey_Escape, false)) ImGui::SetNavCursorVisible(false);
    for (const Action& action : state.actions) {
        if (action.shortcut == 0) continue;
        const auto key = static_cast<ImGuiKey>(action.shortcut & ~ImGuiMod_Mask_);
        const bool arrow = key == ImGuiKey_LeftArrow || key == ImGuiKey_RightArrow;
        // While somebody walks through the controls by keyboard, space and arrows are theirs.
        if (io.NavVisible && (arrow || action.shortcut == ImGuiKey_Space)) continue;
        const ImGuiInputFlags flags = ImGuiInputFlags_RouteGlobal | (arrow ? ImGuiInputFlags_Repeat : 0);
        if (ImGui::Shortcut(action.shortcut, flags)) state.run(action);
    }
}

void Shell::Impl::draw_panel(Panel& panel) {
    UiContext& ctx = state.ctx;
    const std::string title(panel.title());
    const ImVec2 low = ImGui::GetWindowPos(), size = ImGui::GetWindowSize();
    ctx.landmarks.set_panel(title, {low.x, low.y, size.x, size.y});
    PanelGuard guard;
    try {
        panel.draw(ctx);
    } catch (const std::exception& e) {
        guard.abandon();
        std::string& problem = panel_problems[title];
        if (problem != e.what()) {
            problem = e.what();
            state.say(Toasts::Level::error, fmt::format("drawing panel {}: {}", title, problem), false);
        }
        draw_problem(problem);
    }
}

/// In the place of a panel that cannot be drawn: over what it had drawn of this frame.
void Shell::Impl::draw_problem(const std::string& problem) {
    ImGui::SetCursorPos(ImGui::GetCursorStartPos());
    ImGui::PushStyleColor(ImGuiCol_ChildBg, ImGui::GetStyleColorVec4(ImGuiCol_WindowBg));
    if (ImGui::BeginChild("##problem")) {
        ImGui::PushStyleColor(ImGuiCol_Text, state.ctx.theme.text_error);
        ImGui::TextWrapped("%s", problem.c_str());
        ImGui::PopStyleColor();
        muted_text(state.ctx,
                   "This panel could not be drawn; the others continue. It is tried again in every frame.");
    }
    ImGui::EndChild();
    ImGui::PopStyleColor();
}

void Shell::Impl::draw_panels() {
    const std::string to_front = next_to_front();
    state.drawn_panels.clear();
    for (const auto& panel : state.panels) {
        const std::string title(panel->title());
        if (!state.panel_open[title]) continue;
        if (to_front == title || state.focus_panel == title) ImGui::SetNextWindowFocus();
        if (state.focus_panel == title) {
            state.focus_panel.clear();
            enlarged.clear();
        }
        const auto [width, height] = panel->size_in_ems();
        ImGui::SetNextWindowSize(ImVec2(ImGui::GetFontSize() * width, ImGui::GetFontSize() * height),
                                 ImGuiCond_FirstUseEver);
        if (const ImGuiWindow* last = ImGui::FindWindowByName(title.c_str());
            !panel->tab_beside().empty() && (last == nullptr || !last->WasActive)) // it comes up
            dock_with(title, std::string(panel->tab_beside()));
        const bool bare = is_on_background(title.c_str());
        ImGui::PushStyleColor(ImGuiCol_WindowBg,
                              bare ? IM_COL32_BLACK_TRANS : ImGui::GetColorU32(ImGuiCol_WindowBg));
        ImGui::PushStyleVar(ImGuiStyleVar_WindowBorderSize,
                            bare ? 0.0F : 1.0F); // floating ones lie on the same colour
        bool open =
            true; // the first of a kind is closed in the menu, so that a slip of the mouse loses no panel
        const bool visible = ImGui::Begin(title.c_str(), panel->title() == panel->kind() ? nullptr : &open,
                                          ImGuiWindowFlags_NoCollapse);
        ImGui::PopStyleVar();
        ImGui::PopStyleColor();
        const bool covered = !enlarged.empty();
        enlarge_by_tab(title);
        tab_menu(title);
        if (ImGui::IsWindowFocused(ImGuiFocusedFlags_ChildWindows)) {
            state.used_panel = title;
            state.used_of_kind[std::string(panel->kind())] = title;
        }
        if (visible) {
            state.drawn_panels.push_back(title);
            if (!covered) draw_panel(*panel);
        }
        ImGui::End();
        if (!open) state.panel_open[title] = false;
    }
    if (std::exchange(state.enlarge_used, false)) {
        enlarged = enlarged.empty() ? state.used_panel : std::string();
        enlarged_now = true;
    }
    if (!enlarged.empty()) draw_enlarged();
}

/// A changed arrangement, in case the program does not come to its end.
void Shell::Impl::autosave() {
    const double now = ImGui::GetTime();
    if (now - saved_s > autosave_s) {
        saved_s = now;
        if (ImGui::GetIO().WantSaveIniSettings && state.options.restore_user_layout) {
            ImGui::GetIO().WantSaveIniSettings = false;
            state.save_all();
        }
    }
}

void Shell::draw() {
    Impl& impl = *m_impl;
    ShellState& state = impl.state;
    impl.apply_wishes();
    impl.begin_frame();
    impl.watch_engine();
    impl.finish_jobs();
    impl.watch_landscape();
    impl.play_back();
    impl.count_times();

    {
        const ViewsInUse in_use(state);
        if (!state.ctx.present_mode) draw_menu_bar(state);
        float y = ImGui::GetMainViewport()->WorkPos.y;
        y += draw_run_bar(state, y);
        impl.draw_dock_space(y + 1);
    }
    impl.draw_panels();
    keep_tips_off_dialog(state.dialog.get());
    {
        const ViewsInUse in_use(state);
        draw_dialog(state);
        impl.tour.draw();
    }
    impl.view_undo.watch(state);
    draw_hint_card(state);
    draw_toasts(state);
    impl.autosave();
}

} // namespace refreshlab::ui
