#include "app/base/assets.h"
#include "app/base/output.h"
#include "app/cli/commands.h"
#include "app/cli/link_options.h"
#include "app/options/engine_module.h"
#include "engine/base/error.h"
#include "engine/base/interrupt.h"
#include "engine/base/utc_now.h"
#include "engine/fetch/known_models.h"
#include "engine/remote/engine_server.h"
#include "engine/remote/offered_parts.h"
#include "engine/remote/own_server.h"
#include "engine/remote/ssh_road.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace refreshlab::app {

namespace {

namespace fs = std::filesystem;

struct ServeOptions {
    std::string listen, unix_path, token_file, record;
    std::vector<std::string> models, files;
    bool for_window = false, own = false;
    double linger_min = 60;
};

constexpr int look_ms = 200; // a signal that comes between the look and the wait is seen after it

remote::Endpoint endpoint_of(const ServeOptions& options) {
    if (!options.unix_path.empty()) return remote::parse_endpoint("unix:" + options.unix_path, "--unix");
    return remote::parse_endpoint(options.listen, "--listen");
}

/// A trace of its own in that folder, for the runs of this server. Throws Error{bad_input}.
fs::path trace_in(const fs::path& folder) {
    std::error_code error;
    fs::create_directories(folder, error);
    if (error || !fs::is_directory(folder))
        throw Error("recording into", folder.string(), "this is no folder, and none can be made there");
    std::string time = utc_now();
    std::ranges::replace(time, ':', '-'); // no file system minds it then
    fs::path trace = folder / fmt::format("serve-{}.rlt", time);
    for (int n = 2; fs::exists(trace, error); ++n)
        trace = folder / fmt::format("serve-{}-{}.rlt", time, n);
    return trace;
}

/// Where the server of a window behind ssh records, unless it is told otherwise: $XDG_STATE_HOME/refreshlab/served or
/// ~/.local/state/refreshlab/served; empty when neither variable is set.
fs::path served_folder() {
    const auto variable = [](const char* name) {
        const char* value = std::getenv(name);
        return fs::path(value == nullptr ? "" : value);
    };
    if (const fs::path state = variable("XDG_STATE_HOME"); !state.empty())
        return state / "refreshlab" / "served";
    if (const fs::path home = variable("HOME"); !home.empty())
        return home / ".local" / "state" / "refreshlab" / "served";
    return {};
}

/// What the window says through ssh on stdin. An end without the word is a connection that was lost: the window may come back.
class WindowWord {
public:
    /// Waits for news, at most so long.
    void look(int wait_ms) {
        if (m_over) {
            ::poll(nullptr, 0, wait_ms);
            return;
        }
        pollfd in{STDIN_FILENO, POLLIN, 0};
        if (::poll(&in, 1, wait_ms) <= 0) return;
        std::array<char, 256> block{};
        const ssize_t got = ::read(STDIN_FILENO, block.data(), block.size());
        if (got <= 0)
            m_over = true;
        else
            m_text.append(block.data(), static_cast<size_t>(got));
        m_ended = m_ended || m_text.find(std::string(remote::for_window::end) + "\n") != std::string::npos;
        if (m_text.size() > block.size()) m_text.erase(0, m_text.size() - block.size());
    }
    [[nodiscard]] bool ended() const { return m_ended; } ///< the window has
    [[nodiscard]] bool over() const { return m_over; }   ///< nothing comes any more

private:
    std::string m_text;
    bool m_ended = false, m_over = false;
};

/// Another server of this user is the window's. This process tells ssh when that one has gone.
/// \param own  the window has started it, before its connection was lost: it ends with the window
int stand_by(const remote::Endpoint& server, bool own) {
    print("{}{}\n", remote::for_window::already_listening, remote::to_string(server));
    std::fflush(stdout);
    WindowWord word;
    constexpr int look_at_server_ms = 2000;
    while (!word.over() && !word.ended() && remote::answers(server))
        word.look(look_at_server_ms);
    if (own && word.ended() && server.is_unix()) remote::tell_window_has_ended(server);
    return 0;
}

/// A server that a window has started ends with it. If the window's connection was lost, it goes on with its run, and waits for
/// somebody for a while after it.
void serve_window(const remote::EngineServer& server, const EngineLink& engine, double linger_min) {
    using Clock = std::chrono::steady_clock;
    WindowWord word;
    auto last_needed = Clock::now();
    while (interrupted() == 0) {
        word.look(look_ms);
        const bool somebody = server.viewers() > 0;
        if ((word.ended() || remote::window_has_ended()) && !somebody) return;
        const EngineState state = engine.status()->state;
        const bool works = state == EngineState::running || state == EngineState::loading ||
                           state == EngineState::prefilling;
        if (somebody || works || !word.over()) last_needed = Clock::now();
        if (Clock::now() - last_needed > std::chrono::duration<double>(linger_min * 60)) return;
    }
}

std::vector<KnownModel> offered_models(const fs::path& assets, const std::vector<std::string>& folders) {
    std::vector<KnownModel> models = known_models(assets);
    for (const std::string& folder : folders)
        for (KnownModel& model : models_in(fs::absolute(folder)))
            if (std::ranges::find(models, model) == models.end()) models.push_back(std::move(model));
    return models;
}

/// Almanacs, gates and saved caches: those of the program and of its models, and of the folders that were named.
std::vector<LinkOffers::Part> offered_parts(const fs::path& assets, const std::vector<KnownModel>& models,
                                            const std::vector<std::string>& folders) {
    std::vector<LinkOffers::Part> parts;
    const auto add = [&](const fs::path& folder, const std::string& before) {
        for (LinkOffers::Part& part : remote::parts_in(folder)) {
            part.name.insert(0, before);
            parts.push_back(std::move(part));
        }
    };
    if (!assets.empty()) add(assets / "prompts", "bundled ");
    for (const KnownModel& model : models)
        add(fs::path(model.path) / "gates", model.name + "/");
    for (const std::string& folder : folders)
        add(fs::absolute(folder), fs::absolute(folder).filename().string() + "/");
    return parts;
}

void check_folders(const char* option, const std::vector<std::string>& folders) {
    for (const std::string& folder : folders)
        if (std::error_code error; !fs::is_directory(folder, error))
            throw Error("reading", option, folder + " is no folder");
}

int serve(const ServeOptions& options) {
    check_folders("--models", options.models);
    check_folders("--files", options.files);
    remote::Endpoint listen = endpoint_of(options);
    if (options.for_window) {
        const bool named = !options.unix_path.empty();
        if (!named) listen = remote::own_socket();
        const auto there = named ? std::optional(listen) : remote::own_server();
        if (there && remote::answers(*there)) return stand_by(*there, options.own);
    }
    const std::string token = token_of(options.token_file);
    std::optional<fs::path> record;
    const fs::path folder =
        options.record.empty() && options.for_window ? served_folder() : fs::path(options.record);
    if (!folder.empty()) record = trace_in(folder);
    const fs::path assets = assets_if_any();
    const auto engine = engine_module().make_engine(record);
    note_interrupts();
    remote::note_window_end(); // of a window that another server was started by: nothing
    remote::EngineServer::Options with{
        .listen = listen,
        .token = token,
        .record = record ? fs::absolute(*record).string() : std::string(),
        .models = [assets, more = options.models] { return offered_models(assets, more); },
        .parts =
            [assets, more = options.models, named = options.files, folder] {
                std::vector<std::string> folders = named;
                if (!folder.empty()) folders.push_back(folder.string());
                return offered_parts(assets, offered_models(assets, more), folders);
            },
        .files = folder,
        .first_run = first_start_config(assets),
        .log = {}};
    // Behind ssh nobody reads.
    if (!options.for_window) with.log = [](const std::string& line) { say("refreshlab: {}\n", line); };
    remote::EngineServer server(*engine, std::move(with));
    print("{}{}\n", remote::for_window::listening, remote::to_string(server.endpoint()));
    std::fflush(stdout); // whoever has started this waits for the line
    if (options.for_window) {
        serve_window(server, *engine, options.linger_min);
        return interrupted() == 0 ? 0 : 128 + interrupted();
    }
    if (record) say("refreshlab: every run is recorded into {}\n", record->string());
    while (interrupted() == 0)
        ::poll(nullptr, 0, look_ms);
    return 128 + interrupted();
}

} // namespace

Command add_serve_command(CLI::App& app) {
    auto options = std::make_shared<ServeOptions>();
    options->listen = fmt::format("127.0.0.1:{}", remote::default_port);
    CLI::App* command = app.add_subcommand(
        "serve", "An engine without a window, for `gui --connect` on another machine (docs/howto/server.md)");
    CLI::Option* listen = command
                              ->add_option("--listen", options->listen,
                                           "Address to listen on; port 0 takes a free one. An address that "
                                           "other machines can reach needs --token-file")
                              ->type_name("HOST:PORT")
                              ->capture_default_str();
    command->add_option("--unix", options->unix_path, "A Unix socket instead, which this user alone can open")
        ->type_name("PATH")
        ->excludes(listen);
    command
        ->add_option("--token-file", options->token_file,
                     "Its first line is the secret that a window must send")
        ->type_name("FILE");
    command
        ->add_option("--record", options->record,
                     "Folder: every run goes into a trace there, one for each start of the server")
        ->type_name("DIR");
    command
        ->add_option(
            "--models", options->models,
            "Folder whose models windows may choose, beside the bundled and the fetched ones; several times")
        ->type_name("DIR");
    command
        ->add_option(
            "--files", options->files,
            "Folder whose almanacs, trained gates and saved caches of prompts windows may choose, beside the "
            "bundled ones and those in --record; several times")
        ->type_name("DIR");
    command->add_flag(
        "--for-window", options->for_window,
        "What `gui --connect ssh://...` starts: uses the server of this user that is there, or is one "
        "that ends with the window");
    command->add_flag("--own", options->own,
                      "With --for-window: this window has started the server that is there");
    command
        ->add_option(
            "--linger", options->linger_min,
            "With --for-window: minutes to wait for a window whose connection was lost, after its run")
        ->type_name("MINUTES")
        ->check(CLI::Range(0.0, 1e6))
        ->capture_default_str();
    return [options] { return serve(*options); };
}

} // namespace refreshlab::app
