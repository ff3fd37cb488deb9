#include "app/window/window.h"

#include "app/window/app_window.h"
#include "engine/base/error.h"
#include "engine/record/recording/logged_config.h"
#include "engine/record/recording/recording.h"
#include "engine/record/trace/trace_store.h"
#include "engine/text/utf8.h"
#include "ui/dialogs/workspace_files.h"
#include "ui/panels/panel.h"
#include "ui/scene/axes/signal_choice.h"
#include "ui/scene/landscape/landscape_of_run.h"
#include "ui/scene/theme/theme.h"
#include "ui/state/layout.h"

#include <fmt/format.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace refreshlab {
namespace {

Error not_one_of(const char* option, const std::string& name, const std::vector<std::string>& known) {
    return Error("reading", option,
                 "'" + name + "' is not one of " + fmt::format("{}", fmt::join(known, ", ")));
}

/// The part of the window that an option names, as the window spells it; capitals do not count. Empty where it was not given.
std::string known_name(const char* option, const std::string& name, const std::vector<std::string>& known) {
    if (name.empty()) return {};
    const auto same = [&](const std::string& other) {
        return std::ranges::equal(name, other, [](char a, char b) {
            return std::tolower(static_cast<unsigned char>(a)) == std::tolower(static_cast<unsigned char>(b));
        });
    };
    if (const auto found = std::ranges::find_if(known, same); found != known.end()) return *found;
    throw not_one_of(option, name, known);
}

/// For pictures: true once the wanted state is reached and the engine stands still.
bool picture_is_due(const EngineLink& engine, const WindowOptions& options) {
    if (!options.start && !options.remote) return true; // a trace, or the empty window
    const auto status = engine.status();
    if (options.remote) {
        const auto recording = engine.recording();
        if (status->link && (!status->link->connected || status->link->rows_to_come > 0)) return false;
        if (options.start && status->errors > 0) return true; // the run was refused
        if (!options.start && status->state == EngineState::idle) return true;
        if (status->state == EngineState::finished) return recording && recording->end();
        // A run that somebody has paused there is shown as it stands.
        if (!options.start && options.after_steps == 0 && status->state == EngineState::paused) return true;
        if (!options.start && options.after_steps > 0 && recording &&
            recording->steps() >= options.after_steps)
            return true;
    }
    if (status->state == EngineState::finished || status->state == EngineState::failed) return true;
    if (status->state == EngineState::idle && status->errors > 0) return true; // the run was refused
    const auto recording = engine.recording();
    return options.after_steps > 0 && status->state == EngineState::paused && recording &&
           recording->steps() >= options.after_steps;
}

bool is_workspace(const WindowOptions& options) {
    return options.trace && options.trace->extension() == ui::workspace_extension;
}

bool is_table(const WindowOptions& options) {
    return options.trace && ui::may_be_table(*options.trace);
}

/// The runs of the trace that was asked for; none where none was. Throws Error.
LabelledRuns opened_trace(const WindowOptions& options) {
    if (!options.trace || is_workspace(options) || is_table(options)) return {};
    LabelledRuns trace = load_labelled_trace(*options.trace);
    if (trace.runs.empty()) throw Error("opening", options.trace->string(), "there is no run in this trace");
    return trace;
}

/// What is wrong with the place of a picture is said before the run, not after it. Throws Error.
void check_picture_path(const std::filesystem::path& path) {
    const std::filesystem::path folder = path.parent_path();
    if (!folder.empty() && !std::filesystem::is_directory(folder))
        throw Error("saving a picture", path.string(), "there is no folder " + folder.string());
    if (std::filesystem::is_directory(path))
        throw Error("saving a picture", path.string(), "this is a folder");
}

AppWindow::Options options_of_window(const WindowOptions& options) {
    const bool picture = options.screenshot.has_value();
    AppWindow::Options window_options;
    window_options.title = options.title;
    window_options.headless = options.headless || (picture && !has_display());
    window_options.width = options.width;
    window_options.height = options.height;
    window_options.shell = options.shell;
    ui::ShellOptions& shell = window_options.shell;
    if (!options.signals.empty()) shell.plots = ui::parse_plots(options.signals, "--signals");
    shell.paced = !window_options.headless && !picture && (!options.remote || shell.pace);
    shell.restore_user_layout = shell.first_start_hints = !picture;
    shell.ask_before_closing = !picture && !window_options.headless; // nobody answers without a display
    shell.starts_a_run = options.start.has_value();
    shell.remote = options.remote;
    window_options.assets = options.assets;
    if (!picture) window_options.user_folder = default_user_folder();
    if (!picture) window_options.state_folder = default_state_folder();
    shell.keeps_session = !picture;
    if (options.record) shell.record = *options.record;
    window_options.command_line = options.command_line;
    window_options.mirror_log = !picture; // a picture's problem is one line, below
    return window_options;
}

/// Lets a run come to what the picture is to show.
/// \param steps_to_ask_for  the run waits for a command: exactly so many steps, whatever the speed of the machine
void wait_for_picture(AppWindow& window, EngineLink& engine, const WindowOptions& options,
                      bool steps_to_ask_for) {
    window.frame();
    // What a server has may still be on its way: until nothing has come for a second.
    const auto steps = [&] {
        const auto recording = engine.recording();
        return recording ? recording->steps() : 0;
    };
    const auto settled = [&] {
        if (!options.remote) return true;
        for (int64_t before = -1; before != steps();) {
            before = steps();
            const auto begin = std::chrono::steady_clock::now();
            while (before == steps() && std::chrono::steady_clock::now() - begin < std::chrono::seconds(1))
                window.wait_without_frame(0.1);
        }
        return picture_is_due(engine, options);
    };
    while (window.open() && !(picture_is_due(engine, options) && settled())) {
        // Only when the run stands: after a refused start a step would be an error of its own, and hide the reason.
        if (steps_to_ask_for && engine.status()->state == EngineState::paused) {
            steps_to_ask_for = false;
            engine.send(command::Step{static_cast<int32_t>(options.after_steps)});
        }
        window.wait_without_frame(1.0);
    }
}

/// \return exit status
int take_picture(AppWindow& window, const EngineLink& engine, const WindowOptions& options) {
    // Docking settles over the first frames, and panels ask for what they need to show (attention of the teacher).
    for (int i = 0; i < 8; ++i)
        window.frame();
    if (!options.panel.empty()) {
        window.shell().show_panel(
            options.panel); // it may stand behind other tabs, which the layout has put in front
        for (int i = 0; i < 4; ++i)
            window.frame();
    }
    // What jobs are still making belongs to the picture; jobs that never end do not keep it back for ever.
    constexpr int most_waits = 600;
    for (int i = 0; i < most_waits && window.context().unfinished; ++i) {
        window.wait_without_frame(0.05);
        window.frame();
    }
    const auto status = engine.status();
    if (options.start && (status->state == EngineState::idle || options.remote) && status->errors > 0) {
        fmt::print(stderr, "refreshlab: {}\n",
                   visible_text(status->refusals.front(), 4000)); // what came after it only follows from it
        return 2;                                                 // bad input: no run, no picture
    }
    if (!options.signals.empty())
        for (const std::string& name : ui::shown_signals(window.context().views.signals))
            (void)require_signal(window.context().signals(), name, "--signals");
    window.write_picture({*options.screenshot, options.panel, options.scale});
    spdlog::info("saved {}", visible_text(options.screenshot->string(), 4000));
    if (status->state == EngineState::failed) {
        fmt::print(stderr, "refreshlab: {}\n", visible_text(status->message, 4000));
        return 1;
    }
    return 0;
}

} // namespace

bool has_display() {
    const char* display = std::getenv("DISPLAY");
    return display != nullptr && *display != '\0';
}

std::filesystem::path default_user_folder() {
    if (const char* config = std::getenv("XDG_CONFIG_HOME"); config != nullptr && *config != '\0')
        return std::filesystem::path(config) / "refreshlab";
    if (const char* home = std::getenv("HOME"); home != nullptr && *home != '\0')
        return std::filesystem::path(home) / ".config" / "refreshlab";
    return {};
}

std::filesystem::path default_state_folder() {
    if (const char* state = std::getenv("XDG_STATE_HOME"); state != nullptr && *state != '\0')
        return std::filesystem::path(state) / "refreshlab";
    if (const char* home = std::getenv("HOME"); home != nullptr && *home != '\0')
        return std::filesystem::path(home) / ".local" / "state" / "refreshlab";
    return {};
}

std::vector<std::string> panel_titles() {
    std::vector<std::string> titles;
    for (const ui::PanelKind& kind : ui::panel_kinds())
        titles.emplace_back(kind.title);
    return titles;
}

int run_window(const WindowOptions& given, const LateEngine::Make& make_engine) {
    WindowOptions options = given;
    const LabelledRuns opened = opened_trace(options);
    std::optional<ui::LoadedWorkspace> workspace;
    if (is_workspace(options)) workspace = ui::load_workspace(*options.trace);
    std::vector<std::shared_ptr<const ui::TableFile>> tables;
    if (is_table(options)) tables = ui::read_tables(*options.trace);
    const bool picture = options.screenshot.has_value();
    // stdout belongs to what a command is asked for.
    if (spdlog::get("refreshlab") == nullptr)
        spdlog::set_default_logger(spdlog::stderr_logger_mt("refreshlab"));
    options.shell.layout = known_name("--layout", options.shell.layout, ui::layout_names());
    options.panel = known_name("--panel", options.panel, panel_titles());
    if (picture) check_picture_path(*options.screenshot);

    const AppWindow::Options window_options = options_of_window(options); // refused before a trace is made
    // Order of destruction: the window lets go of the engine before the engine stops.
    // What a recording or a picture of a run meets is said before there is a window; a picture of a trace needs no engine.
    std::unique_ptr<EngineLink> engine_link;
    if (options.record || (picture && (options.start || options.remote)))
        engine_link = make_engine();
    else
        engine_link = std::make_unique<LateEngine>(make_engine, picture ? LateEngine::When::needed
                                                                        : LateEngine::When::now);
    EngineLink& engine = *engine_link;
    AppWindow window(engine, window_options);
    // Themes are files, and names of files have capitals that count.
    if (const auto themes = ui::theme_names(window.assets());
        std::ranges::find(themes, options.shell.theme) == themes.end())
        throw not_one_of("--theme", options.shell.theme, themes);
    if (!opened.runs.empty()) {
        const Recording& newest = *opened.runs.back();
        window.shell().show_trace(opened, options.trace->filename().string(),
                                  ui::readings_of_file(*options.trace, newest), *options.trace);
    }

    if (!tables.empty()) window.shell().show_tables(tables, *options.trace);
    if (workspace) window.shell().show_workspace(std::move(*workspace));

    const bool steps_to_ask_for = options.start && picture && options.after_steps > 0;
    const auto start = [&] {
        if (options.start)
            engine.send(command::StartRun{*options.start, steps_to_ask_for || !options.autostart});
    };
    const bool waits = !picture && window.shell().offer_left_sessions(
                                       options.start_may_wait ? std::function<void()>(start) : nullptr);
    if (!waits || !options.start_may_wait) start();
    if (!picture) {
        window.run();
        window.shell().save_settings();
        window.shell().end_session();
        return 0;
    }
    wait_for_picture(window, engine, options, steps_to_ask_for);
    return take_picture(window, engine, options);
}

} // namespace refreshlab
