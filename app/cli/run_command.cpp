#include "app/cli/assets.h"
#include "app/cli/commands.h"
#include "app/cli/output.h"
#include "app/cli/run_options.h"
#include "engine/base/error.h"
#include "engine/base/json_file.h"
#include "engine/base/json_text.h"
#include "engine/record/export/export.h"
#include "engine/record/trace/trace_store.h"
#include "engine/session/decode/decode_session.h"
#include "engine/session/decode/steering.h"
#include "engine/tasks/prompt_file.h"
#include "engine/text/tokenizer/tokenizer.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

namespace refreshlab::app {

namespace {

std::atomic<int> interrupted{0}; // SIGINT or SIGTERM, read between steps: the run ends and is kept

/// Generated text on stdout, nothing else. A reader that goes away ends the run and not the program.
class TextOut {
public:
    explicit TextOut(std::shared_ptr<const Tokenizer> tokenizer)
        : m_stream(std::move(tokenizer)) {}
    void token(int32_t id) { write(m_stream.push(id)); }
    void finish() { write(m_stream.finish()); }
    [[nodiscard]] bool gone() const { return m_gone; }

private:
    void write(const std::string& text) {
        if (text.empty() || m_gone) return;
        m_gone = std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0;
    }
    TextStream m_stream;
    bool m_gone = false;
};

/// One line on stderr that overwrites itself; nothing where stderr is no terminal.
class Progress {
public:
    void show(const std::string& text) {
        if (!m_terminal) return;
        say("\r\033[K{}", text);
        m_shown = true;
    }
    ~Progress() {
        if (m_shown) say("\r\033[K");
    }

private:
    bool m_terminal = isatty(fileno(stderr)) != 0 && isatty(fileno(stdout)) == 0;
    bool m_shown = false;
};

void require_writable_folder(const std::string& file, const std::string& option) {
    std::filesystem::path folder = std::filesystem::path(file).parent_path();
    if (folder.empty()) folder = ".";
    if (!std::filesystem::is_directory(folder)) throw Error("writing " + option, file, "no such folder");
    if (std::filesystem::is_directory(file)) throw Error("writing " + option, file, "is a folder");
    if (access(folder.c_str(), W_OK) != 0)
        throw Error("writing " + option, file, "the folder is not writable");
}

struct Options {
    RunOptions run;
    std::string record, summary, replay, commands;
};

int replay_trace(const Options& options) {
    const auto runs = load_trace(options.replay);
    if (runs.empty()) throw Error("replaying", options.replay, "the trace holds no run");
    check_outputs(std::vector<NamedFile>{{"--summary", options.summary}},
                  std::vector<NamedFile>{{"--replay", options.replay}});
    const Recording& recorded = *runs.back();
    const auto pair = load_pair(options.run.with_models(recorded.info().config));
    const auto again = replay(recorded, pair);
    TextOut out(pair->tokenizer);
    for (const int32_t id : again->token_ids())
        out.token(id);
    out.finish();
    if (!options.summary.empty()) write_file(options.summary, json_text(summary_json(*again), 2) + "\n");
    say("\n{}", summary_table(*again));
    if (const auto difference = first_difference(recorded, *again)) {
        say("replay: differs from {}: {}\n", options.replay, *difference);
        return 1;
    }
    say("replay: identical to {} ({} steps)\n", options.replay, recorded.steps());
    return 0;
}

/// Applies the commands that are due. One that the run refuses is said in `refused` if it is the first.
void steer(DecodeSession& session, Steering& steering, std::string& refused) {
    const int64_t step = session.recording()->steps() + 1;
    for (bool again = true; again;) {
        again = false;
        try {
            steering.apply_due(session);
        } catch (const Error& e) {
            if (refused.empty()) refused = fmt::format("command at step {}: {}", step, e.what());
            again = true; // the rest of this step's
        }
    }
}

int run(const Options& options) {
    if (!options.summary.empty()) require_writable_folder(options.summary, "--summary");
    if (!options.replay.empty()) return replay_trace(options);
    const auto assets = options.run.names_models() ? assets_if_any() : find_assets();
    RunConfig base = first_start_config(assets);
    base.prompt.clear();
    base.max_tokens = 256;
    base.policy = RefreshPolicy{};
    RunConfig config = options.run.config(std::move(base));
    // A prompt of a bundled task is scored token by token: signal task_score.
    if (const auto task = assets.empty() ? std::nullopt : find_task(config.prompt, assets / "prompts"))
        config.task = *task;
    if (!options.run.has_prompt())
        throw Error("starting a run", {}, "no prompt", "give --prompt TEXT or --prompt-file FILE");
    check_run(config);
    std::vector<TimedCommand> commands;
    if (!options.commands.empty()) {
        commands = commands_from_json(read_json_file(options.commands), options.commands);
        check_commands(commands, config, options.commands);
    }
    std::vector<NamedFile> inputs = options.run.inputs(config);
    inputs.push_back({"--commands", options.commands});
    check_outputs(std::vector<NamedFile>{{"--record", options.record}, {"--summary", options.summary}},
                  inputs);
    std::unique_ptr<TraceStore> trace;
    if (!options.record.empty())
        trace = TraceStore::create(options.record); // fails before anything is loaded

    Progress progress;
    PreparedRun prepared = prepare_run(config);
    require_memory(prepared.memory);
    load_models(prepared, config, [&](double fraction, const std::string& what) {
        progress.show(fmt::format("{} {:.0f} %", what, 100 * fraction));
        return interrupted == 0;
    });
    const auto pair = prepared.pair;
    DecodeSession session(
        pair, config,
        [&](double fraction) {
            progress.show(fmt::format("prefill {:.0f} %", 100 * fraction));
            return interrupted == 0;
        },
        prepared.text.get());
    const auto recording = session.recording();
    if (!recording->info().note.empty()) {
        progress.show("");
        say("note: {}\n", recording->info().note);
    }
    if (trace) trace->attach(recording);
    TextOut out(pair->tokenizer);
    int64_t written = 0;
    const auto write_new = [&] {
        for (; written < recording->num_tokens(); ++written)
            out.token(recording->token(written + 1));
    };
    write_new();
    Steering steering(std::move(commands));
    std::string refused; // the first command that could not be carried out; the run goes on
    while (!session.finished()) {
        if (interrupted != 0 || out.gone()) {
            session.stop();
            break;
        }
        steer(session, steering, refused);
        session.step();
        write_new();
        if (trace) trace->notify();
        progress.show(fmt::format("step {}/{}, {} refreshes", recording->steps(), config.max_tokens,
                                  recording->refreshes().size()));
    }
    out.finish();
    session.score();
    if (trace) {
        trace->notify();
        trace->flush();
    }
    progress.show("");
    say("\n{}", summary_table(*recording));
    if (!options.summary.empty()) write_file(options.summary, json_text(summary_json(*recording), 2) + "\n");
    if (steering.left() > 0)
        say("note: {} of the commands in {} lie{} behind the end of the run, at step {}\n", steering.left(),
            options.commands, steering.left() == 1 ? "s" : "", recording->steps());
    if (trace && !trace->error().empty()) {
        throw Error("recording to", options.record, trace->error(), "the run itself went on",
                    ErrorKind::failure);
    }
    if (!refused.empty()) {
        throw Error("steering the run from", options.commands, refused, "the run itself went on",
                    ErrorKind::failure);
    }
    if (out.gone()) {
        throw Error("writing the text to standard output", {}, "it is closed or full",
                    fmt::format("the run was stopped at step {}", recording->steps()), ErrorKind::failure);
    }
    return 0;
}

/// What a replay takes from the command line; the rest is in the trace.
void refuse_beside_replay(const CLI::App& command) {
    constexpr std::array<std::string_view, 7> used = {"--replay",        "--summary", "--teacher",
                                                      "--student",       "--device",  "--teacher-device",
                                                      "--student-device"};
    for (const CLI::Option* option : command.get_options()) {
        if (option->count() == 0 || std::ranges::find(used, option->get_name()) != used.end()) continue;
        throw Error("replaying", {}, option->get_name() + " has no effect beside --replay",
                    "prompt, settings and commands of a replay are those of the trace");
    }
}

} // namespace

Command add_run_command(CLI::App& app) {
    auto options = std::make_shared<Options>();
    CLI::App* command =
        app.add_subcommand("run", "One decode without a window: text on stdout, summary on stderr");
    options->run.add_to(*command);
    command->add_option("--record", options->record, "Record the run into this trace file while it goes on")
        ->type_name("FILE");
    command->add_option("--summary", options->summary, "Write the summary as JSON")->type_name("FILE");
    command
        ->add_option(
            "--commands", options->commands,
            "Steer the run as a person would: a JSON list of commands with their steps, refreshes by "
            "hand among them (docs/commands.md)")
        ->type_name("FILE");
    command
        ->add_option("--replay", options->replay,
                     "Run a trace again from its configuration and commands, and compare")
        ->type_name("TRACE");
    return [options, command] {
        if (!options->replay.empty()) refuse_beside_replay(*command);
        std::signal(SIGINT, [](int number) { interrupted = number; });
        std::signal(SIGTERM, [](int number) { interrupted = number; });
        int status = 0;
        try {
            status = run(*options);
        } catch (const Error& e) {
            if (interrupted == 0) throw;
            say("refreshlab: {}\n", e.what()); // stopped while it was loading or prefilling
        }
        return interrupted != 0 ? 128 + interrupted : status;
    };
}

} // namespace refreshlab::app
