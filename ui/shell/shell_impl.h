#pragma once

// Shared by the files of the shell.
#include "ui/dialogs/link_offers.h"
#include "ui/panels/panel.h"
#include "ui/shell/session_keeping.h"
#include "ui/shell/shell.h"
#include "ui/shell/view_undo.h"
#include "ui/state/layout.h"
#include "ui/state/shell_state.h"
#include "ui/state/trace_follower.h"
#include "ui/tour/tour.h"

#include <imgui.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace refreshlab::ui {

struct Shell::Impl {
    Impl(EngineLink& engine, Host& host, Options options)
        : state(engine, host, std::move(options)) {}

    // shell_layout.cpp
    [[nodiscard]] float scale_of(std::string_view layout) const;
    void apply_wishes();
    void use_theme(const std::string& name);
    void refit_layout();
    void use_layout(const std::string& name, bool bundled);
    [[nodiscard]] std::optional<Arrangement> own_arrangement(const std::string& name);
    void make_wanted_panel();
    void begin_wanted_tour();
    [[nodiscard]] std::string next_to_front();
    void draw_dock_space(float y);
    void tab_menu(const std::string& title);
    void enlarge_by_tab(const std::string& title);
    void draw_enlarged();
    // shell_engine.cpp
    void begin_frame();
    void begin_recording();
    void watch_engine();
    void log_rows_read();
    void show_again();
    void tell_state();
    void tell_refusals();
    void finish_jobs();
    void finish(Job& job);
    void watch_landscape();
    void play_back();
    void count_times();
    void watch_link();
    // shell.cpp
    void handle_shortcuts();
    void draw_panels();
    void draw_panel(Panel& panel);
    void draw_problem(const std::string& problem);
    void autosave();
    void watch_table();
    TraceFollower follower;

    ShellState state;
    ViewUndo view_undo;
    Tour tour{state};
    std::optional<SessionKeeping> keeping; ///< made with the panels
    std::shared_ptr<const Recording> last_recording;
    std::string last_trace_error;
    uint64_t last_errors = 0; ///< refused commands that have been told
    EngineState last_state = EngineState::idle;
    std::optional<RemoteLink> last_link;  ///< as it has been told
    std::optional<OffersOfServer> offers; ///< asked since a panel wanted them
    std::map<std::string, std::string, std::less<>>
        panel_problems;         ///< message shown in the panel; logged once
    size_t logged_commands = 0; ///< of the shown recording
    int64_t rows_read = 0;      ///< rows of attention that are not in the log yet
    double row_read_s = 0;      ///< when the last of them was seen
    double saved_s = 0;
    std::optional<FileStamp> watched; ///< of the shown table's file, as it was seen last
    std::chrono::steady_clock::time_point watched_at;
    double over_since = -1; ///< the first run has ended and nobody has touched anything (ImGui time); -1 = no
    std::string enlarged;   ///< title of the panel that covers the others; "" = none
    bool enlarged_now = false;
    ImVec2 dock_pos, dock_size;
    Place original;         ///< the bundled layout, with the tabs in front that were chosen since
    Place fitted_places;    ///< the bundled layout as it was fitted when the present one was put up
    float fitted_scale = 0; ///< of the text then; 0 before the first layout
    ImVec2 fitted_size;     ///< of the window then
    ImVec2 seen_size;       ///< of the window in the last frame
    double size_since = 0;  ///< it has had it (ImGui time)
    bool refitting = false; ///< the next layout is put up for the size alone: the person's front tabs stay
};

} // namespace refreshlab::ui
