#include "app/base/assets.h"
#include "app/base/output.h"
#include "app/cli/commands.h"
#include "app/cli/link_options.h"
#include "app/options/engine_module.h"
#include "engine/base/error.h"
#include "engine/base/interrupt.h"
#include "engine/base/utc_now.h"
#include "engine/remote/engine_server.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>

namespace refreshlab::app {

namespace {

namespace fs = std::filesystem;

struct ServeOptions {
    std::string listen, unix_path, token_file, record;
};

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

int serve(const ServeOptions& options) {
    const remote::Endpoint listen = endpoint_of(options);
    const std::string token = token_of(options.token_file);
    std::optional<fs::path> record;
    if (!options.record.empty()) record = trace_in(options.record);
    const fs::path assets = assets_if_any();
    const auto engine = engine_module().make_engine(record);
    note_interrupts();
    remote::EngineServer server(*engine,
                                {.listen = listen,
                                 .token = token,
                                 .record = record ? fs::absolute(*record).string() : std::string(),
                                 .first_run = first_start_config(assets),
                                 .log = [](const std::string& line) { say("refreshlab: {}\n", line); }});
    print("listening on {}\n", remote::to_string(server.endpoint()));
    std::fflush(stdout); // whoever has started this waits for the line
    if (record) say("refreshlab: every run is recorded into {}\n", record->string());
    constexpr int look_ms = 200; // a signal that comes between the look and the wait is seen after it
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
    CLI::Option* listen =
        command
            ->add_option(
                "--listen", options->listen,
                "Address; port 0: one that is free. Of others than this machine's own it needs --token-file")
            ->type_name("HOST:PORT")
            ->capture_default_str();
    command->add_option("--unix", options->unix_path, "A Unix socket instead, which this user alone can open")
        ->type_name("PATH")
        ->excludes(listen);
    command->add_option("--token-file", options->token_file, "Its first line is what a client must know")
        ->type_name("FILE");
    command
        ->add_option("--record", options->record,
                     "Folder: every run goes into a trace there, one for each start of the server")
        ->type_name("DIR");
    return [options] { return serve(*options); };
}

} // namespace refreshlab::app
