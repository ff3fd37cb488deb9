#include "ui/shell/shell.h"

#include "engine/base/error.h"
#include "ui/context/style.h"
#include "ui/dialogs/dialogs.h"
#include "ui/panels/panel.h"
#include "ui/scene/axes/signal_choice.h"
#include "ui/scene/axes/time_view.h"
#include "ui/shell/engine_log.h"
#include "ui/shell/parts.h"
#include "ui/state/dialog.h"
#include "ui/state/layout.h"
#include "ui/state/shell_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace refreshlab::ui {

namespace {

// Fixed, so that the layouts in assets/layouts can name it.
constexpr ImGuiID dock_root = 0x52460001;
constexpr float present_scale = 1.5F; // larger type for a projector
constexpr float bars_height_em = 4;   // of menu and run bar above the docked panels
constexpr double settle_s = 0.3;      // so long a window must keep a size before its layout is fitted to it
constexpr double autosave_s = 30;     // how often a changed layout is written, besides the end of the program

} // namespace

struct Shell::Impl {
    Impl(EngineLink& engine, Host& host, Options options)
        : state(engine, host, std::move(options)) {}

    void apply_wishes();
    [[nodiscard]] float scale_of(std::string_view layout) const;
    void use_layout(const std::string& name, bool bundled);
    void keep_replaced(const std::shared_ptr<const Recording>& live);
    void begin_frame();
    void watch_engine();
    void finish_jobs();
    void handle_shortcuts();
    void refit_layout();
    void draw_dock_space(float y);
    [[nodiscard]] std::string next_to_front();
    void draw_panels();
    void draw_panel(Panel& panel);
    void play_back();
    void count_times();

    ShellState state;
    std::shared_ptr<const Recording> last_recording;
    std::string last_trace_error;
    uint64_t last_errors = 0; ///< refused commands that have been told
    EngineState last_state = EngineState::idle;
    std::map<std::string, std::string, std::less<>>
        panel_problems;         ///< message shown in the panel; logged once
    size_t logged_commands = 0; ///< of the shown recording
    double saved_s = 0;
    Layout original;        ///< the bundled layout, with the tabs in front that were chosen since
    Layout fitted;          ///< the bundled layout as it was fitted when the present one was put up
    float fitted_scale = 0; ///< of the text then
    ImVec2 fitted_size;     ///< of the window then
    ImVec2 seen_size;       ///< of the window in the last frame
    double size_since = 0;  ///< it has had it (ImGui time)
    bool refitting = false; ///< the next layout is put up for the size alone: the person's front tabs stay
};

Shell::Shell(EngineLink& engine, Host& host, Options options)
    : m_impl(std::make_unique<Impl>(engine, host, std::move(options))) {
    ShellState& state = m_impl->state;
    ImGuiIO& io = ImGui::GetIO();
    io.ConfigFlags |= ImGuiConfigFlags_DockingEnable | ImGuiConfigFlags_NavEnableKeyboard;
    io.ConfigErrorRecoveryEnableAssert = false; // a missing End() is one log line, not an abort
    io.ConfigWindowsMoveFromTitleBarOnly = true;
    io.IniFilename = nullptr; // settings, layout and trace are three files that we write

    std::string problem;
    if (state.options.restore_user_layout)
        state.settings = load_settings(host.user_folder(), problem);
    else
        state.settings.theme = state.options.theme;
    const Shell::Options defaults;
    // What was asked for by name wins over what was remembered.
    if (state.options.theme != defaults.theme) state.settings.theme = state.options.theme;
    if (state.options.layout != defaults.layout) state.settings.layout = state.options.layout;
    if (state.options.user_scale != defaults.user_scale) state.settings.user_scale = state.options.user_scale;
    set_axes(state.ctx.plots, state.settings.y_axes);
    state.ctx.first_start_hints = state.options.first_start_hints && !state.settings.hints_seen;
    state.ctx.run_action = [this](std::string_view id) { m_impl->state.run(id); };

    std::vector<std::string> problems;
    state.ctx.fonts = load_fonts(host.assets(), problems);
    if (!problem.empty()) problems.push_back(problem);
    for (const std::string& line : problems)
        state.say(Toasts::Level::warning, line, false);

    state.actions = make_actions(state);
    state.panels = make_panels();
    state.wanted_theme = state.settings.theme;
    state.wanted_layout = state.settings.layout;
    state.wanted_layout_bundled = !state.options.restore_user_layout;
    m_impl->apply_wishes();
}

Shell::~Shell() = default;

UiContext& Shell::context() {
    return m_impl->state.ctx;
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

void Shell::show_recording(std::shared_ptr<const Recording> recording, const std::string& name) {
    m_impl->state.trace = std::move(recording);
    m_impl->state.trace_name = m_impl->state.trace ? name : "";
    m_impl->state.ctx.select_step(std::nullopt);
}

void Shell::open_trace(const std::filesystem::path& path) {
    ui::open_trace(m_impl->state, path);
}

void Shell::save_settings() {
    m_impl->state.save_all();
}

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
    if (fitted.ini.empty() || !state.wanted_layout.empty()) return;
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
    const bool same_panels = std::ranges::all_of(state.panel_open, [&](const auto& panel) {
        return panel.second ==
               (std::ranges::find(fitted.open_panels, panel.first) != fitted.open_panels.end());
    });
    if (!same_panels || !same_arrangement(ImGui::SaveIniSettingsToMemory(), fitted.ini)) return;
    state.wanted_layout = state.settings.layout;
    state.wanted_layout_bundled = true;
    refitting = true;
}

void Shell::Impl::apply_wishes() {
    refit_layout();
    // A layout is fitted to the window, whose size is known from the first frame on.
    if (!state.wanted_layout.empty() && ImGui::GetMainViewport()->Size.x > 0) {
        const std::string name = std::exchange(state.wanted_layout, {});
        use_layout(name, std::exchange(state.wanted_layout_bundled, false));
    }
    if (state.wanted_theme.empty()) return;
    const std::string name = std::exchange(state.wanted_theme, {});
    const auto assets = state.ctx.host.assets();
    const float scale = scale_of(state.settings.layout);
    try {
        Theme theme = load_theme(assets, name);
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

void Shell::Impl::use_layout(const std::string& name, bool bundled) {
    const auto known = std::ranges::find(layout_names(), name);
    const std::string wanted = known == layout_names().end() ? layout_names().front() : name;
    state.guarded([&] {
        const bool first = state.panel_open.empty();
        if (!first && !bundled) state.store_layout();
        const ImGuiViewport& view = *ImGui::GetMainViewport();
        const float em = ImGui::GetStyle().FontSizeBase * scale_of(wanted);
        if (std::exchange(refitting, false))
            original = keep_front(original, state.drawn_panels);
        else
            original = read_layout(bundled_layout(state.ctx.host.assets(), wanted));
        fitted = fit_layout(original, view.Size.x, view.Size.y - em * bars_height_em, em);
        fitted_scale = scale_of(wanted);
        fitted_size = view.Size;
        Layout layout;
        const auto folder = state.ctx.host.user_folder();
        const auto mine = state.arrangements.find(wanted);
        std::error_code error;
        if (!bundled && mine != state.arrangements.end()) {
            layout = parse_layout(mine->second);
        } else if (!bundled && state.options.restore_user_layout && !folder.empty() &&
                   std::filesystem::exists(user_layout(folder, wanted), error)) {
            layout = read_layout(user_layout(folder, wanted));
        } else {
            layout = fitted;
        }
        for (const auto& panel : state.panels)
            state.panel_open[std::string(panel->title())] =
                std::ranges::find(layout.open_panels, panel->title()) != layout.open_panels.end();
        ImGui::LoadIniSettingsFromMemory(layout.ini.data(), layout.ini.size());
        // Dear ImGui keeps the tab of a window that had the focus, whatever the layout says: they are brought to the
        // front by hand.
        state.front_panels = layout.front_panels;
        state.frames_to_front =
            5; // windows move to their docks over the first frames, and all are drawn meanwhile
        state.settings.layout = wanted;
    });
    const bool present = wanted == "Present";
    if (present != state.ctx.present_mode && state.wanted_theme.empty())
        state.wanted_theme = state.ctx.theme.name;
    state.ctx.present_mode = present;
}

/// The engine has another run: the one before stays at hand.
void Shell::Impl::keep_replaced(const std::shared_ptr<const Recording>& live) {
    const auto before = std::exchange(state.engine_recording, live);
    if (!before) {
        if (live && state.options.starts_a_run && live->info().parent_id.empty())
            state.own_run = live->info().id;
        return;
    }
    // A branch from the newest step has everything that its parent had.
    const bool whole =
        live && live->info().parent_id == before->info().id && live->info().fork_step >= before->steps();
    if (before->steps() > 0 && !whole) state.replaced = before;
}

void Shell::Impl::begin_frame() {
    UiContext& ctx = state.ctx;
    ctx.status = ctx.engine.status();
    const auto live = ctx.engine.recording();
    if (live != state.engine_recording) keep_replaced(live);
    ctx.recording = state.trace ? state.trace : live;
    const int64_t steps_before = std::exchange(ctx.steps, ctx.recording ? ctx.recording->steps() : 0);
    ctx.hovered_step = std::exchange(ctx.next_hovered_step, std::nullopt);
    ctx.landmarks.clear();
    ctx.drafts.begin_frame(*ctx.status);
    if (ctx.recording == last_recording) {
        ctx.steps_jumped += std::max<int64_t>(0, ctx.steps - steps_before - 1);
        return;
    }
    // What a branch or a file brings along was not made before the eyes of anybody.
    ctx.steps_jumped = 0;
    // A rewind keeps what was selected as far as the branch has it; another run starts afresh.
    const bool branch =
        ctx.recording && last_recording && ctx.recording->info().parent_id == last_recording->info().id;
    if (!branch && last_recording)
        ctx.selection = {};
    else if (ctx.selection.step && *ctx.selection.step > ctx.steps)
        ctx.selection.step.reset();
    ctx.hovered_step.reset();
    ctx.playback.stop();
    ctx.time.follow = true;
    ctx.time.seen_steps = 0;
    state.refreshes_when_asked.reset();
    state.counted_steps = 0;
    // Commands that a branch shares with its parent are in the log already; those of an opened trace come too late.
    logged_commands = ctx.recording && (branch || state.trace) ? ctx.recording->commands().size() : 0;
    state.decode_ms = state.refresh_ms = 0;
    last_recording = ctx.recording;
    for (const auto& panel : state.panels)
        state.guarded([&] { panel->recording_changed(ctx); });
}

/// The selected step moves on by itself.
void Shell::Impl::play_back() {
    UiContext& ctx = state.ctx;
    if (!ctx.playback.playing() || ctx.steps == 0) return;
    const auto [first, last] = played_steps(ctx.time, ctx.playback.loop, ctx.steps);
    const auto step =
        ctx.playback.advance(ctx.selection.step, static_cast<double>(ImGui::GetIO().DeltaTime), first, last);
    if (!step) return;
    ctx.select_step(*step);
    if (!ctx.time.follow && !ctx.playback.loop) reveal_step(ctx.time, *step, ctx.steps);
    ctx.host.keep_awake(0.3);
}

void Shell::Impl::count_times() {
    const UiContext& ctx = state.ctx;
    if (!ctx.recording) return;
    for (; state.counted_steps < ctx.steps; ++state.counted_steps) {
        const StepRecord& record = ctx.recording->step(state.counted_steps + 1);
        for (size_t part = 0; part < num_parts; ++part) {
            const auto which = static_cast<Part>(part);
            const bool refresh =
                which == Part::teacher_pass || which == Part::splice || which == Part::redraw;
            (refresh ? state.refresh_ms : state.decode_ms) += static_cast<double>(record.part_ms[part]);
        }
    }
}

void Shell::Impl::watch_engine() {
    const EngineStatus& status = *state.ctx.status;
    if (state.wanted_running) {
        const bool now = status.state == EngineState::running;
        const bool settled = now || status.state == EngineState::paused;
        if (!settled || now == *state.wanted_running) state.wanted_running.reset();
    }
    if (status.state != last_state) {
        if (status.state == EngineState::failed) {
            state.say(Toasts::Level::error,
                      status.message +
                          (status.message.find("Start again") == std::string::npos
                               ? "; the recording is kept, \"Start again\" in the run bar tries once more"
                               : ""));
        } else if (status.state == EngineState::finished) {
            state.say(Toasts::Level::info,
                      fmt::format("Run finished after {} steps ({})", state.ctx.steps, status.stop_reason),
                      false);
        } else if (status.state == EngineState::running && last_state != EngineState::paused) {
            state.say(Toasts::Level::info,
                      fmt::format("Decoding: {} tokens asked for, policy {}, seed {}",
                                  status.applied.max_tokens, status.applied.policy.name, status.applied.seed),
                      false);
        }
        last_state = status.state;
    }
    if (status.errors != last_errors) {
        // In order, so that the cause stands before what only follows from it. A failure of the engine was told above, with
        // what helps; a refused command leaves its state as it was.
        const uint64_t news = std::min<uint64_t>(status.errors - last_errors, status.refusals.size());
        for (size_t i = status.refusals.size() - news; i < status.refusals.size(); ++i) {
            const std::string& refusal = status.refusals[i];
            const bool told = status.state == EngineState::failed && refusal == status.message;
            if (!told && !refusal.empty()) state.say(Toasts::Level::error, refusal);
        }
        last_errors = status.errors;
    }
    if (state.ctx.recording) {
        const auto& commands = state.ctx.recording->commands();
        for (const size_t size = commands.size(); logged_commands < size; ++logged_commands)
            state.say(Toasts::Level::info, describe(commands[logged_commands]), false);
    }
    if (status.trace_error != last_trace_error) {
        if (!status.trace_error.empty()) state.say(Toasts::Level::error, status.trace_error);
        last_trace_error = status.trace_error;
    }
}

void Shell::Impl::finish_jobs() {
    for (size_t i = 0; i < state.jobs.size();) {
        Job& job = state.jobs[i];
        if (job.result.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
            ++i;
            continue;
        }
        Job done = std::move(job);
        state.jobs.erase(state.jobs.begin() + static_cast<std::ptrdiff_t>(i));
        state.guarded([&] {
            const auto then = done.result.get();
            if (!*done.cancelled && then) then();
        });
    }
}

void Shell::Impl::handle_shortcuts() {
    const ImGuiIO& io = ImGui::GetIO();
    if (io.WantTextInput) return;
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
    ctx.landmarks.set("panel/" + title, {low.x, low.y, size.x, size.y});
    const ImDrawList* mine = ImGui::GetWindowDrawList();
    try {
        panel.draw(ctx);
        return;
    } catch (const std::exception& e) {
        // The panel may have left children open; End() closes everything else.
        for (int depth = 0; depth < 16 && ImGui::GetWindowDrawList() != mine; ++depth)
            ImGui::EndChild();
        std::string& problem = panel_problems[title];
        if (problem != e.what()) {
            problem = e.what();
            state.say(Toasts::Level::error, fmt::format("drawing panel {}: {}", title, problem), false);
        }
        ImGui::PushStyleColor(ImGuiCol_Text, ctx.theme.text_error);
        ImGui::TextWrapped("%s", problem.c_str());
        ImGui::PopStyleColor();
    }
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

void Shell::Impl::draw_panels() {
    const std::string to_front = next_to_front();
    state.drawn_panels.clear();
    for (const auto& panel : state.panels) {
        const std::string title(panel->title());
        if (!state.panel_open[title]) continue;
        if (to_front == title || state.focus_panel == title) ImGui::SetNextWindowFocus();
        if (state.focus_panel == title) state.focus_panel.clear();
        const auto [width, height] = panel->size_in_ems();
        ImGui::SetNextWindowSize(ImVec2(ImGui::GetFontSize() * width, ImGui::GetFontSize() * height),
                                 ImGuiCond_FirstUseEver);
        if (ImGui::Begin(title.c_str(), nullptr, ImGuiWindowFlags_NoCollapse)) {
            state.drawn_panels.push_back(title);
            draw_panel(*panel);
        }
        ImGui::End();
    }
}

void Shell::Impl::draw_dock_space(float y) {
    const ImGuiViewport& view = *ImGui::GetMainViewport();
    ImGui::SetNextWindowPos(ImVec2(view.WorkPos.x, y));
    ImGui::SetNextWindowSize(ImVec2(view.WorkSize.x, std::max(1.0F, view.WorkPos.y + view.WorkSize.y - y)));
    ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, ImVec2(0, 0));
    ImGui::PushStyleColor(ImGuiCol_WindowBg, ImGui::GetStyleColorVec4(ImGuiCol_MenuBarBg));
    ImGui::Begin("Dock", nullptr,
                 ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_NoDocking |
                     ImGuiWindowFlags_NoSavedSettings | ImGuiWindowFlags_NoMove |
                     ImGuiWindowFlags_NoBringToFrontOnFocus | ImGuiWindowFlags_NoNavFocus);
    ImGui::PopStyleColor();
    ImGui::PopStyleVar();
    handle_shortcuts();
    const ImGuiDockNodeFlags flags =
        state.settings.layout_locked
            ? ImGuiDockNodeFlags_NoUndocking | ImGuiDockNodeFlags_NoResize | ImGuiDockNodeFlags_NoDockingSplit
            : ImGuiDockNodeFlags_None;
    ImGui::DockSpace(dock_root, ImVec2(0, 0), flags);
    ImGui::End();
}

void Shell::draw() {
    Impl& impl = *m_impl;
    ShellState& state = impl.state;
    impl.apply_wishes();
    impl.begin_frame();
    impl.watch_engine();
    impl.finish_jobs();
    impl.play_back();
    impl.count_times();

    if (!state.ctx.present_mode) draw_menu_bar(state);
    float y = ImGui::GetMainViewport()->WorkPos.y;
    y += draw_run_bar(state, y);
    impl.draw_dock_space(y + 1);
    impl.draw_panels();
    draw_dialog(state);
    draw_hint_card(state);
    draw_toasts(state);

    const double now = ImGui::GetTime();
    if (now - impl.saved_s > autosave_s) {
        impl.saved_s = now;
        if (ImGui::GetIO().WantSaveIniSettings && state.options.restore_user_layout) {
            ImGui::GetIO().WantSaveIniSettings = false;
            state.save_all();
        }
    }
}

} // namespace refreshlab::ui
