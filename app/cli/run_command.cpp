#include "app/cli/assets.h"
#include "app/cli/commands.h"
#include "app/cli/interrupt.h"
#include "app/cli/output.h"
#include "app/cli/run_options.h"
#include "engine/base/error.h"
#include "engine/base/json_file.h"
#include "engine/base/json_text.h"
#include "engine/record/export/export.h"
#include "engine/record/trace/trace_store.h"
#include "engine/session/driver/replay.h"
#include "engine/session/driver/run_driver.h"
#include "engine/session/pair/run_text.h"
#include "engine/tasks/prompt_file.h"
#include "engine/text/prompt_text.h"
#include "engine/text/tokenizer/tokenizer.h"
#include "engine/text/utf8.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

namespace refreshlab::app {

namespace {

/// Generated text on stdout, byte for byte and nothing else. On a terminal control characters are made visible, because a
/// terminal would obey them, and a last line that is not ended gets its end. A reader that goes away ends the run and not the
/// program.
class TextOut {
public:
    explicit TextOut(std::shared_ptr<const Tokenizer> tokenizer)
        : m_stream(std::move(tokenizer)) {}
    void token(int32_t id) { write(m_stream.push(id)); }
    void finish() {
        write(m_stream.finish());
        if (m_terminal && !m_line_ended) write("\n");
    }
    [[nodiscard]] bool gone() const { return m_gone; }

private:
    void write(const std::string& text) {
        if (text.empty() || m_gone) return;
        const std::string shown = m_terminal ? terminal_text(text) : text;
        m_gone =
            std::fwrite(shown.data(), 1, shown.size(), stdout) != shown.size() || std::fflush(stdout) != 0;
        m_line_ended = shown.back() == '\n';
    }
    TextStream m_stream;
    bool m_terminal = isatty(STDOUT_FILENO) != 0;
    bool m_gone = false, m_line_ended = true;
};

/// One line on stderr that overwrites itself; nothing where stderr is no terminal.
class Progress {
public:
    void show(const std::string& text) {
        if (!m_terminal) return;
        draw_line(text);
        m_shown = true;
    }
    ~Progress() {
        if (m_shown) draw_line("");
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
    std::string record, summary, replay, commands, branch, give;
};

int replay_trace(const Options& options) {
    const auto runs = load_trace(options.replay);
    if (runs.empty()) throw Error("replaying", options.replay, "the trace holds no run");
    check_outputs(std::vector<NamedFile>{{"--summary", options.summary}},
                  std::vector<NamedFile>{{"--replay", options.replay}});
    const Recording& recorded = *runs.back();
    RunConfig models = options.run.with_models(recorded.info().config);
    models.kernels =
        KernelSet::automatic; // a recorded set may be another processor's; weights do not depend on it
    const RunInfo& info = recorded.info();
    // The ids that were read: a derived student may depend on them.
    const auto pair = load_pair(
        models, {}, std::make_shared<const RunText>(RunText{{info.rendered_prompt, info.prompt_ids, 0}, {}}));
    const auto again = replay(recorded, pair);
    TextOut out(pair->tokenizer);
    for (const int32_t id : again->token_ids())
        out.token(id);
    out.finish();
    if (!options.summary.empty()) write_file(options.summary, json_text(summary_json(*again), 2) + "\n");
    say("\n{}", summary_table(*again));
    const ReplayVerdict verdict = judge_replay(recorded, *again, options.replay);
    say("replay: {}\n", verdict.text);
    return verdict.passed ? 0 : 1;
}

/// The run that the command line asks for. Throws Error{bad_input}.
RunConfig asked_config(const Options& options) {
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
    return config;
}

/// The command file, checked against the run that it will steer.
std::vector<TimedCommand> asked_commands(const Options& options, const RunConfig& config) {
    if (options.commands.empty()) return {};
    auto commands = commands_from_json(read_json_file(options.commands), options.commands);
    check_commands(commands, config, options.commands);
    return commands;
}

/// What a run begins with and is steered by.
struct Asked {
    RunConfig config;
    std::vector<TimedCommand> commands;
    std::shared_ptr<const Recording> branched; ///< of --branch: the recorded run
    int64_t step = 0;                          ///< of --branch
};

/// "run.rlt@40": the recorded run, and the first step that goes another way.
Asked branch_of(const Options& options) {
    const size_t at = options.branch.rfind('@');
    Asked asked;
    const char* end = options.branch.data() + options.branch.size();
    if (at == std::string::npos || at == 0 ||
        std::from_chars(options.branch.data() + at + 1, end, asked.step).ptr != end)
        throw Error("reading", "--branch",
                    fmt::format("'{}' is not TRACE@STEP", visible_text(options.branch, 80)),
                    "such as run.rlt@40");
    const std::string trace = options.branch.substr(0, at);
    const auto runs = load_trace(trace);
    if (runs.empty()) throw Error("branching", trace, "the trace holds no run");
    asked.branched = runs.back();
    const Recording& run = *asked.branched;
    if (asked.step < 1 || asked.step > run.steps())
        throw Error("branching", trace,
                    fmt::format("the run has steps 1 to {}, not {}", run.steps(), asked.step));
    RunConfig then = run.info().config;
    for (const TimedCommand& command : commands_of(run)) {
        if (command.step > asked.step) continue;
        apply_to(then, command.command);
        if (!std::holds_alternative<command::RequestAttention>(command.command))
            asked.commands.push_back(command);
    }
    const RunConfig wanted = options.run.config(then);
    asked.config = options.run.with_models(run.info().config);
    asked.config.max_tokens = wanted.max_tokens;
    asked.config.threads = wanted.threads;
    // What is left when the changes that a run can take are taken: the seed, the prompt, the mode...
    RunConfig reached = options.run.with_models(then);
    reached.max_tokens = wanted.max_tokens;
    reached.threads = wanted.threads;
    for (const refreshlab::Command& command : commands_between(reached, wanted)) {
        apply_to(reached, command);
        asked.commands.push_back({asked.step, command});
    }
    if (!(reached == wanted))
        throw Error("branching", trace,
                    "prompt, mode, seed, numbers and what is fixed during a run stay those of the trace",
                    "start a run of its own for others");
    if (!options.give.empty())
        asked.commands.push_back({asked.step, command::GiveTokens{.ids = {}, .text = options.give}});
    return asked;
}

/// A run on its way: each token goes into the trace and then to stdout.
class LiveRun {
public:
    LiveRun(const Options& options, std::vector<TimedCommand> commands)
        : m_options(options)
        , m_commands(std::move(commands)) {
        if (!options.record.empty())
            m_trace = TraceStore::create(options.record); // fails before anything is loaded
    }

    /// Loads, decodes, scores. SIGINT, SIGTERM and a closed stdout end the run where it is; it is kept.
    void decode(const Asked& asked) {
        const RunConfig& config = asked.config;
        PreparedRun prepared = prepare_run(config);
        require_memory(prepared.memory);
        note_interrupts(); // from here on the run ends in good order and is kept
        load_models(prepared, config, [&](double fraction, const std::string& what) {
            m_progress.show(fmt::format("{} {:.0f} %", what, 100 * fraction));
            return interrupted() == 0;
        });
        if (asked.branched) { // the very ids: a template may print the date
            auto text = std::make_shared<RunText>(*prepared.text);
            text->prompt.text = asked.branched->info().rendered_prompt;
            text->prompt.ids = asked.branched->info().prompt_ids;
            prepared.text = text;
        }
        RunRequest request{.pair = prepared.pair,
                           .config = config,
                           .text = prepared.text,
                           .execution = prepared.execution,
                           .commands = std::move(m_commands),
                           .trace = m_trace.get()};
        request.stepped = [this] { show_step(); };
        request.refused = [this](int64_t step, const Error& why) {
            if (m_refused.empty()) m_refused = fmt::format("command at step {}: {}", step, why.what());
        };
        m_driver.emplace(std::move(request), [this](double fraction) {
            m_progress.show(fmt::format("prefill {:.0f} %", 100 * fraction));
            return interrupted() == 0;
        });
        if (const std::string& note = recording().info().note; !note.empty()) {
            m_progress.show("");
            say("note: {}\n", note);
        }
        if (const std::string note = control_token_note(prepared.text->prompt, *prepared.pair->tokenizer);
            !note.empty()) {
            m_progress.show("");
            say("note: {}\n", note);
        }
        m_out.emplace(prepared.pair->tokenizer);
        write_new();
        m_driver->run([this] {
            return interrupted() != 0 || m_out->gone() ? RunDriver::Next::stop : RunDriver::Next::step;
        });
        if (m_trace) m_trace->flush();
        write_new();
        m_out->finish();
        m_progress.show("");
    }

    /// Summary and what a person must know. Throws Error{failure} for what was lost while the run itself went on.
    void report() const {
        say("\n{}", summary_table(recording()));
        if (!m_options.summary.empty())
            write_file(m_options.summary, json_text(m_driver->summary(), 2) + "\n");
        if (const size_t left = m_driver->commands_left(); left > 0)
            say("note: {} of the commands in {} lie{} after the end of the run, at step {}\n", left,
                m_options.commands, left == 1 ? "s" : "", recording().steps());
        if (m_trace && !m_trace->error().empty()) {
            throw Error("recording to", m_options.record, m_trace->error(),
                        "the run itself went on" + saved_again(), ErrorKind::failure);
        }
        if (!m_refused.empty()) {
            throw Error("steering the run from", m_options.commands, m_refused, "the run itself went on",
                        ErrorKind::failure);
        }
        if (m_out->gone()) {
            throw Error("writing the text to standard output", {}, "it is closed or full",
                        fmt::format("the run was stopped at step {}", recording().steps()),
                        ErrorKind::failure);
        }
    }

    /// Whether the run came to the branch by the recorded tokens, and where it left them.
    void report_branch(const Recording& from, int64_t step) const {
        const int64_t common = std::min(from.num_tokens(), recording().num_tokens());
        int64_t same = 0;
        while (same < common && from.token(same + 1) == recording().token(same + 1))
            ++same;
        if (same < std::min(step, common))
            say("note: the run left the trace at token {}, before the branch: other kernels round "
                "otherwise\n",
                same + 1);
        else
            say("branch at step {}: {}\n", step,
                same == common ? "the same tokens as in the trace"
                               : fmt::format("token {} is the first that differs", same + 1));
    }

private:
    [[nodiscard]] const Recording& recording() const { return *m_driver->recording(); }

    /// A trace that was removed or renamed while it was recorded is made again from the run, unless something else has come to
    /// stand in its place. \return what to say of it; empty where the file is there and had another problem
    [[nodiscard]] std::string saved_again() const {
        std::error_code unknown;
        if (m_trace->moved() &&
            std::filesystem::exists(std::filesystem::symlink_status(m_options.record, unknown)))
            return ", and another file stands there now";
        if (!m_trace->moved()) return {};
        try {
            save_trace(m_options.record, m_driver->recording());
            return fmt::format(", and all {} steps are in that file now", recording().steps());
        } catch (const Error& e) {
            return std::string(", and could not be saved again: ") + e.what();
        }
    }

    void show_step() {
        write_new();
        m_progress.show(fmt::format("step {}/{}, {} refreshes", recording().steps(),
                                    m_driver->session().config().max_tokens, recording().refreshes().size()));
    }

    /// Tokens that may be printed: of a run that is recorded, those whose records are in the trace. So a trace holds what was
    /// printed, however the program ends. Waits for the trace once in a group of tokens, and not for ever: a file that is
    /// locked must not stop the decode.
    [[nodiscard]] int64_t printable() {
        const int64_t all = recording().num_tokens();
        if (!m_trace) return all;
        constexpr std::chrono::milliseconds group{5}, patience{50};
        const bool wait = std::chrono::steady_clock::now() - m_printed_at >= group;
        const int64_t written = m_trace->steps_written(wait ? patience : std::chrono::milliseconds{0});
        return m_trace->error().empty() ? std::min(all, written + 1) : all; // step t chooses token t + 1
    }

    void write_new() {
        const int64_t ready = printable();
        if (m_written >= ready) return;
        for (; m_written < ready; ++m_written)
            m_out->token(recording().token(m_written + 1));
        m_printed_at = std::chrono::steady_clock::now();
    }

    const Options& m_options;
    std::vector<TimedCommand> m_commands;
    std::unique_ptr<TraceStore> m_trace;
    Progress m_progress;
    std::optional<TextOut> m_out;
    std::optional<RunDriver> m_driver;
    int64_t m_written = 0; ///< tokens
    std::chrono::steady_clock::time_point m_printed_at;
    std::string m_refused; ///< the first command that could not be carried out; the run went on
};

int run(const Options& options) {
    if (!options.summary.empty()) require_writable_folder(options.summary, "--summary");
    if (!options.replay.empty()) return replay_trace(options);
    if (options.branch.empty() && !options.give.empty())
        throw Error("reading", "--give", "needs --branch TRACE@STEP", "--given-file gives a whole text");
    Asked asked = options.branch.empty()
                      ? Asked{.config = asked_config(options), .commands = {}, .branched = {}}
                      : branch_of(options);
    for (TimedCommand& command : asked_commands(options, asked.config))
        asked.commands.push_back(std::move(command));
    std::ranges::stable_sort(asked.commands, {}, &TimedCommand::step);
    std::vector<NamedFile> inputs = options.run.inputs(asked.config);
    if (asked.branched) inputs.push_back({"--branch", options.branch.substr(0, options.branch.rfind('@'))});
    inputs.push_back({"--commands", options.commands});
    check_outputs(std::vector<NamedFile>{{"--record", options.record}, {"--summary", options.summary}},
                  inputs);
    LiveRun live(options, std::move(asked.commands));
    live.decode(asked);
    live.report();
    if (asked.branched) live.report_branch(*asked.branched, asked.step);
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
        ->add_option("--branch", options->branch,
                     "Run a trace again up to STEP, then go another way: with --give, other --set, --policy, "
                     "--commands")
        ->type_name("TRACE@STEP");
    command
        ->add_option("--give", options->give,
                     "With --branch: the text that step STEP chooses first; then the run goes on by itself")
        ->type_name("TEXT");
    command
        ->add_option("--replay", options->replay,
                     "Run a trace again from its configuration and commands, and compare: bit for bit, or "
                     "within a tolerance where this processor lacks the recorded kernel set")
        ->type_name("TRACE");
    return [options, command] {
        if (!options->replay.empty()) refuse_beside_replay(*command);
        int status = 0;
        try {
            status = run(*options);
        } catch (const Error& e) {
            if (interrupted() == 0) throw;
            say("refreshlab: {}\n", e.what()); // stopped while it was loading or prefilling
        }
        return interrupted() != 0 ? 128 + interrupted() : status;
    };
}

} // namespace refreshlab::app
