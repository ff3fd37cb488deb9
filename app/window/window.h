#pragma once

#include "engine/control/late_engine.h"
#include "engine/control/run_config.h"
#include "ui/state/shell_options.h"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace refreshlab {

/// What `refreshlab gui` was asked for.
struct WindowOptions {
    std::optional<std::filesystem::path>
        trace;                      ///< opened and shown: its newest run; or a workspace, or tables
    std::optional<RunConfig> start; ///< started at once (also beside an opened trace)
    bool start_may_wait = false; ///< nobody asked for it: it waits while a session that was left is offered
    bool autostart = true;       ///< false: the run waits, paused, after its prefill
    bool headless = false;       ///< no display needed; implied by screenshot when there is none
    int width = 1600, height = 1000;                 ///< window units
    std::optional<std::filesystem::path> screenshot; ///< saved, then quit
    int64_t after_steps = 0; ///< of the picture: exactly so many records (fewer if the run ends before);
                             ///< 0 = when the run has ended
    int scale = 1;           ///< of the picture, 1-4
    std::string panel;       ///< of the picture: one panel by its title; empty = the whole window
    ui::ShellOptions
        shell; ///< as far as a person asks for something; the rest follows from what the window is for
    std::string signals; ///< plotted, as parse_plots() reads them; empty = as remembered
    std::string title = "RefreshLab";
    std::filesystem::path assets;                ///< fonts, themes, models
    std::optional<std::filesystem::path> record; ///< every run goes into this trace
    bool remote = false;      ///< the engine is a server's: its pace is left as it is unless one is asked for
    std::string command_line; ///< into pictures
};

/// Opens the window (or draws the picture) and returns the exit status: 0; 1 when the decode failed before the
/// picture; 2 when the run was refused. Throws Error: no display, unreadable trace, unwritable record or picture.
/// \param make_engine  throws Error; called at once where a run is recorded or pictured, else beside the first frames
int run_window(const WindowOptions& options, const LateEngine::Make& make_engine);

/// Titles of the panels that --panel takes, in the order of the menu.
[[nodiscard]] std::vector<std::string> panel_titles();

/// True when there is a display to open a window on.
[[nodiscard]] bool has_display();

/// $XDG_CONFIG_HOME/refreshlab or ~/.config/refreshlab; empty when neither variable is set.
[[nodiscard]] std::filesystem::path default_user_folder();
/// $XDG_STATE_HOME/refreshlab or ~/.local/state/refreshlab; empty when neither variable is set.
[[nodiscard]] std::filesystem::path default_state_folder();

} // namespace refreshlab
