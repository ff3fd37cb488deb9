#include "app/base/assets.h"
#include "app/base/output.h"
#include "app/cli/commands.h"
#include "app/cli/link_options.h"
#include "app/options/engine_module.h"
#include "app/options/run_options.h"
#include "engine/base/error.h"
#include "engine/remote/remote_engine.h"
#include "engine/remote/ssh_road.h"
#include "engine/tasks/prompt_file.h"
#include "engine/text/utf8.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <vector>

#if REFRESHLAB_UI
#include "app/window/window.h"
#include "ui/scene/tables/table_file.h"
#include "ui/state/settings.h"
#endif

namespace refreshlab::app {

#if REFRESHLAB_UI

namespace {

struct GuiOptions {
    RunOptions run;
    WindowOptions window;
    std::string trace, screenshot, size = "1600x1000", record;
    std::string pace, connect, token_file, ssh = "ssh", there;
    bool paused = false;
};

/// \return tokens per second; 0 = as fast as it goes
double parse_pace(const std::string& text) {
    if (text == "max") return 0;
    double pace = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), pace);
    if (error != std::errc() || end != text.data() + text.size() ||
        !(pace >= ui::min_pace && pace <= ui::max_pace))
        throw Error("reading", "--pace",
                    fmt::format("'{}' is neither {} to {} tokens per second nor max", visible_text(text, 60),
                                ui::min_pace, ui::max_pace));
    return pace;
}

std::pair<int, int> parse_size(const std::string& text) {
    int width = 0, height = 0;
    const size_t cross = text.find('x');
    const char* data = text.data();
    const bool well_formed =
        cross != std::string::npos && std::from_chars(data, data + cross, width).ptr == data + cross &&
        std::from_chars(data + cross + 1, data + text.size(), height).ptr == data + text.size();
    if (!well_formed || width < 320 || height < 240 || width > 7680 || height > 4320) {
        throw Error("reading", "--size", "'" + text + "' is not WxH between 320x240 and 7680x4320");
    }
    return {width, height};
}

/// What was asked for, on top of the first start; a prompt of a bundled task brings its task along, so that the text can be
/// coloured by what is right.
RunConfig started_run(const RunOptions& asked) {
    const auto assets = asked.names_models() ? assets_if_any() : find_assets();
    RunConfig config = asked.config(first_start_config(assets));
    if (const auto task = assets.empty() ? std::nullopt : find_task(config.prompt, assets / "prompts"))
        config.task = *task;
    return config;
}

/// The run that was asked for, of a server: its models where none are named, and paths are its own. Throws Error{failure}.
RunConfig started_there(const RunOptions& asked, const EngineLink& engine) {
    using Clock = std::chrono::steady_clock;
    constexpr std::chrono::seconds patience{30};
    auto status = engine.status();
    const auto known = [&] {
        return !status->applied.teacher_dir.empty() || !status->applied.student_dir.empty();
    };
    for (const auto limit = Clock::now() + patience; !known() && Clock::now() < limit;) {
        constexpr int look_ms = 20;
        ::poll(nullptr, 0, look_ms);
        status = engine.status();
    }
    if (!known())
        throw Error("starting a run", status->link ? status->link->server : std::string(),
                    "the server has not said which models it has", {}, ErrorKind::failure);
    RunConfig config = asked.config(status->applied);
    const auto assets = assets_if_any();
    config.task = TaskConfig{};
    if (const auto task = assets.empty() ? std::nullopt : find_task(config.prompt, assets / "prompts"))
        config.task = *task;
    return config;
}

/// The engine of a server. Throws Error.
std::unique_ptr<EngineLink> connect(const GuiOptions& options) {
    if (options.run.names_models() && !options.run.has_prompt())
        throw Error("reading", "--connect",
                    "models of the server are named for a run, and no prompt is given",
                    "give --prompt, or start the run in the window");
    const bool by_ssh = remote::is_ssh_address(options.connect);
    if (!by_ssh && !options.record.empty())
        throw Error("reading", "--record", "the engine is the server's, and records there",
                    "give --record to `refreshlab serve`, or save the run from the window");
    if (!by_ssh && !options.there.empty())
        throw Error("reading", "--there", "this address starts nothing on another machine",
                    "it goes with --connect ssh://...");
    remote::RemoteEngine::Options link;
    if (by_ssh) {
        remote::SshRoad::Options road;
        road.to = remote::parse_ssh_address(options.connect, "--connect");
        road.ssh = options.ssh;
        if (!options.there.empty()) road.program = options.there;
        if (!options.record.empty()) road.serve = {"--record", options.record};
        road.say = [](const std::string& command) { say("refreshlab: {}\n", command); };
        link.patience = road.patience + link.patience;
        link.road = std::make_shared<remote::SshRoad>(std::move(road));
    } else {
        link.server = remote::parse_endpoint(options.connect, "--connect");
    }
    link.token = token_of(options.token_file);
    link.name = own_name();
    return std::make_unique<remote::RemoteEngine>(std::move(link));
}

int run_gui(GuiOptions& options) {
    WindowOptions& window = options.window;
    window.command_line = command_line();
    window.assets = find_assets();
    std::tie(window.width, window.height) = parse_size(options.size);
    if (!options.trace.empty()) window.trace = options.trace;
    if (!options.screenshot.empty()) window.screenshot = options.screenshot;
    const bool remote = !options.connect.empty(); // --record names a folder of the server then
    if (!options.record.empty() && !remote) window.record = options.record;
    if (window.after_steps < 0) throw Error("reading", "--after-steps", "must not be negative");
    // A trace is shown as it is; without one the bundled pair starts decoding, as does a prompt given beside a trace. Rows of a table
    // start runs of the prompt that is there.
    window.remote = remote;
    const bool recorded = window.trace && !ui::may_be_table(*window.trace);
    if (!window.remote && (!recorded || options.run.has_prompt())) window.start = started_run(options.run);
    window.start_may_wait = window.start && !options.run.has_prompt();
    if (!options.pace.empty()) window.shell.pace = parse_pace(options.pace);
    window.autostart = !options.paused;
    std::vector<NamedFile> inputs = options.run.inputs(window.start.value_or(RunConfig{}));
    inputs.push_back({"TRACE", options.trace});
    check_outputs(std::vector<NamedFile>{{"--record", remote ? std::string() : options.record},
                                         {"--screenshot", options.screenshot}},
                  inputs);
    if (!has_display() && !window.screenshot && !window.headless) {
        throw Error("opening the window", {}, "there is no display (DISPLAY is not set)",
                    "use `refreshlab run` for the same run as text, or --screenshot FILE.png for a picture",
                    ErrorKind::failure);
    }
    if (window.remote) {
        const auto link = std::make_shared<std::unique_ptr<EngineLink>>(connect(options));
        if (options.run.has_prompt()) window.start = started_there(options.run, **link);
        return run_window(window, [link] { return std::move(*link); });
    }
    const auto record = window.record;
    return run_window(window, [record] { return engine_module().make_engine(record); });
}

} // namespace

Command add_gui_command(CLI::App& app) {
    auto options = std::make_shared<GuiOptions>();
    CLI::App* command =
        app.add_subcommand("gui", "The window; with --screenshot a picture of it, no display needed");
    command->add_option("TRACE", options->trace,
                        "A trace (.rlt), a workspace (.rlw), a table (.csv) or a folder of tables to open");
    options->run.add_to(*command, first_start_config({}));
    options->run.add_cache_to(*command);
    command->add_option("--record", options->record, "Record every run of this window into a trace file")
        ->type_name("FILE");
    command
        ->add_option(
            "--connect", options->connect,
            "The engine of `refreshlab serve`: HOST:PORT or unix:PATH; ssh://USER@HOST starts ssh, and the "
            "server there where none runs (docs/howto/server.md)")
        ->type_name("ADDRESS");
    command
        ->add_option(
            "--there", options->there,
            "With --connect ssh://...: the program on that machine; default refreshlab, as its PATH finds it")
        ->type_name("PROGRAM");
    command->add_option("--ssh", options->ssh, "The ssh client for --connect ssh://...")
        ->type_name("PROGRAM")
        ->capture_default_str();
    command->add_option("--token-file", options->token_file, "Its first line is the secret of that server")
        ->type_name("FILE");
    command->add_flag("--paused", options->paused, "Prefill, then wait for a person to press play");
    command
        ->add_option("--pace", options->pace,
                     "Tokens per second of a run that is watched, 1 to 200, or max; default as the last "
                     "time, at first 20")
        ->type_name("N");
    command->add_option("--screenshot", options->screenshot, "Save a PNG of the window, then quit")
        ->type_name("FILE.png");
    command
        ->add_option("--after-steps", options->window.after_steps,
                     "Take the picture after so many steps; 0 = when the run has ended")
        ->type_name("N");
    command->add_option("--size", options->size, "Size of the window")->type_name("WxH");
    command->add_option("--scale", options->window.scale, "Picture at 1 to 4 times the size")
        ->type_name("K")
        ->check(CLI::Range(1, 4));
    command
        ->add_option("--panel", options->window.panel,
                     fmt::format("Picture of one panel: {}", fmt::join(panel_titles(), ", ")))
        ->type_name("TITLE");
    command
        ->add_option("--signals", options->window.signals,
                     "Signals to plot, with commas between them; of one with values per layer NAME.max, "
                     "NAME.min, NAME.layer3 "
                     "or NAME.strip; A+B is one plot with an axis on either side")
        ->type_name("LIST");
    command->add_option("--theme", options->window.shell.theme, "dark, light or print")->type_name("NAME");
    command->add_option("--layout", options->window.shell.layout, "Explore, Tune, Present or Landscape")
        ->type_name("NAME");
    command->add_option("--ui-scale", options->window.shell.user_scale, "Size of everything, 0.75 to 3")
        ->type_name("X")
        ->check(CLI::Range(0.75, 3.0));
    return [options] { return run_gui(*options); };
}

#else

Command add_gui_command(CLI::App& app) {
    app.add_subcommand("gui", "The window (not part of this build)")->allow_extras();
    return []() -> int {
        throw Error("opening the window", {}, "this build has no window (REFRESHLAB_UI=OFF)",
                    "use `refreshlab run`", ErrorKind::failure);
    };
}

#endif

} // namespace refreshlab::app
