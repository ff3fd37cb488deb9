#pragma once

#include "ui/scene/axes/signal_choice.h"

#include <filesystem>
#include <optional>
#include <string>

namespace refreshlab::ui {

/// How the window begins.
struct ShellOptions {
    std::string theme = "dark";
    std::string layout = "Explore";  ///< Explore, Tune, Present, Landscape
    float user_scale = 1.0F;         ///< 0.75 .. 3
    bool restore_user_layout = true; ///< false: pictures and tests start from the bundled layout
    bool first_start_hints = true;
    bool ask_before_closing = false; ///< about a run that is in no file; only where somebody can answer
    bool paced =
        false; ///< runs go at the pace of the settings; false: pictures and tests, as fast as it goes
    std::optional<double>
        pace; ///< asked for by name, tokens per second, 0 = as fast as it goes; else as remembered
    std::optional<SignalPlots> plots; ///< asked for by name; else as remembered
    bool keeps_session = false;   ///< the session is kept in Host::state_folder() while the window is open
    std::filesystem::path record; ///< trace that the engine writes every run into; empty: none
    bool remote = false;          ///< the engine is a server's (EngineStatus::link)
    bool starts_a_run = false;    ///< the program sends the first StartRun itself, as it will the next time
};

} // namespace refreshlab::ui
