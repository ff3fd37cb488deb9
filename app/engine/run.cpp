#include "app/base/assets.h"
#include "app/base/output.h"
#include "app/base/trace_runs.h"
#include "app/engine/carry_out.h"
#include "app/engine/run_branch.h"
#include "app/options/run_command_options.h"
#include "engine/base/bytes_text.h"
#include "engine/base/error.h"
#include "engine/base/interrupt.h"
#include "engine/base/json_file.h"
#include "engine/base/json_text.h"
#include "engine/model/prompt_cache.h"
#include "engine/record/export/export.h"
#include "engine/record/trace/trace_store.h"
#include "engine/session/decode/run_identity.h"
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
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
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

int replay_trace(const RunCommandOptions& options) {
    const auto runs = load_trace(options.replay);
    const auto chosen = chosen_run(runs, options.branch.run_id, "replaying", options.replay);
    check_outputs(std::vector<NamedFile>{{"--summary", options.summary}},
                  std::vector<NamedFile>{{"--replay", options.replay}});
    const Recording& recorded = *chosen;
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
    const ReplayVerdict verdict = judge_replay(recorded, *again, options.replay, options.exact);
    say("replay: {}\n", verdict.text);
    return verdict.passed ? 0 : 1;
}

/// The run that the command line asks for. Throws Error{bad_input}.
RunConfig asked_config(const RunCommandOptions& options) {
    const auto assets = options.run.names_models() ? assets_if_any() : find_assets();
    RunConfig base = first_start_config(assets);
    base.prompt.clear();
    base.max_tokens = 256;
    base.policy = RefreshPolicy{};
    RunConfig config = with_saved_prompt(options.run.config(std::move(base)));
    // A prompt of a bundled task is scored token by token: signal task_score.
    if (const auto task = assets.empty() ? std::nullopt : find_task(config.prompt, assets / "prompts"))
        config.task = *task;
    if (!options.run.has_prompt())
        throw Error("starting a run", {}, "no prompt", "give --prompt TEXT or --prompt-file FILE");
    check_run(config);
    return config;
}

/// What a run begins with and is steered by.
struct Asked {
    RunConfig config;
    std::vector<TimedCommand> commands;
    std::optional<Branch> branch; ///< of --branch
};

/// The command file, checked against the run that it will steer.
std::vector<TimedCommand> asked_commands(const RunCommandOptions& options, const Asked& asked) {
    if (options.commands.empty()) return {};
    auto commands = commands_from_json(read_json_file(options.commands), options.commands);
    RunConfig config = asked.config;
    if (asked.branch) {
        config = asked.branch->reached;
        for (const TimedCommand& change : asked.branch->changes)
            apply_to(config, change.command);
        if (!commands.empty() && commands.front().step < asked.branch->step)
            throw Error("reading", options.commands,
                        fmt::format("command at step {}: the branch begins at step {}", commands.front().step,
                                    asked.branch->step));
    }
    check_commands(commands, config, options.commands);
    return commands;
}

Asked what_is_asked(const RunCommandOptions& options) {
    Asked asked;
    if (options.branch.at.empty()) {
        asked.config = asked_config(options);
    } else {
        asked.branch = read_branch(options.branch, options.run);
        asked.config = asked.branch->rebuild.config;
        asked.commands = asked.branch->changes;
    }
    for (TimedCommand& command : asked_commands(options, asked))
        asked.commands.push_back(std::move(command));
    std::ranges::stable_sort(asked.commands, {}, &TimedCommand::step);
    return asked;
}

/// A run on its way: each token goes into the trace and then to stdout.
class LiveRun {
public:
    /// \param asked  outlives this
    LiveRun(const RunCommandOptions& options, const Asked& asked)
        : m_options(options)
        , m_asked(asked) {
        if (options.record.empty()) return;
        if (asked.branch) { // either fails before anything is loaded
            m_file.emplace(*asked.branch, options.record);
        } else {
            m_own_trace = TraceStore::create(options.record);
            m_trace = m_own_trace.get();
        }
    }

    /// Loads, decodes, scores. SIGINT, SIGTERM and a closed stdout end the run where it is; it is kept.
    void decode() {
        const PreparedRun prepared = load();
        if (m_asked.branch)
            begin_branch(*m_asked.branch, prepared);
        else
            begin(prepared);
        if (const std::string& note = recording().info().note; !note.empty()) {
            m_progress.show("");
            say("note: {}\n", note);
        }
        if (const std::string note = control_token_note(prepared.text->prompt, *prepared.pair->tokenizer);
            !note.empty()) {
            m_progress.show("");
            say("note: {}\n", note);
        }
        save_cache();
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

    /// Summary and what a person must know; a branch gets its place. Throws Error{failure} for what was lost while the run itself
    /// went on.
    void report() {
        say("\n{}", summary_table(recording()));
        if (m_file && m_trace->error().empty()) {
            m_trace = nullptr;
            m_file->finish();
        }
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
            throw Error("steering the run from", m_options.commands.empty() ? "--branch" : m_options.commands,
                        m_refused, "the run itself went on", ErrorKind::failure);
        }
        if (m_out->gone()) {
            throw Error("writing the text to standard output", {}, "it is closed or full",
                        fmt::format("the run was stopped at step {}", recording().steps()),
                        ErrorKind::failure);
        }
    }

    /// Where the branch left the run that it came from, and what it is called.
    void report_branch() const {
        const Recording &from = *m_asked.branch->run, &made = recording();
        const int64_t common = std::min(from.num_tokens(), made.num_tokens());
        int64_t same = 0;
        while (same < common && from.token(same + 1) == made.token(same + 1))
            ++same;
        if (m_file)
            say("recorded in {}: run {}, a branch of {}\n", m_options.record, made.info().id, from.info().id);
        say("branch at step {}: {}\n", m_asked.branch->step,
            same < common                ? fmt::format("token {} is the first that differs", same + 1)
            : common < made.num_tokens() ? fmt::format("the same {} tokens as in the trace, and {} more",
                                                       same, made.num_tokens() - same)
                                         : "the same tokens as in the trace");
    }

private:
    [[nodiscard]] const Recording& recording() const { return *m_driver->recording(); }

    [[nodiscard]] PreparedRun load() {
        RunConfig config = m_asked.config;
        std::shared_ptr<const RunText> text; // of a branch the very ids: a template may print the date
        if (m_asked.branch) {
            const command::RecordedRun& then = m_asked.branch->rebuild;
            text = std::make_shared<const RunText>(RunText{{then.rendered_prompt, then.prompt_ids, 0}, {}});
            config.kernels = KernelSet::automatic; // a recorded set may be another processor's
        }
        PreparedRun prepared = prepare_run(config, {}, device_memory_available, std::move(text));
        require_memory(prepared.memory);
        note_interrupts(); // from here on the run ends in good order and is kept
        load_models(prepared, config, [&](double fraction, const std::string& what) {
            m_progress.show(fmt::format("{} {:.0f} %", what, 100 * fraction));
            return interrupted() == 0;
        });
        return prepared;
    }

    void begin(const PreparedRun& prepared) {
        RunRequest request{.pair = prepared.pair,
                           .config = m_asked.config,
                           .text = prepared.text,
                           .execution = prepared.execution,
                           .commands = m_asked.commands,
                           .trace = m_trace};
        request.stepped = [this] { show_step(); };
        request.refused = [this](int64_t step, const Error& why) { note_refusal(step, why); };
        m_driver = std::make_unique<RunDriver>(std::move(request), [this](double fraction) {
            m_progress.show(fmt::format("prefill {:.0f} %", 100 * fraction));
            return interrupted() == 0;
        });
    }

    void begin_branch(const Branch& branch, const PreparedRun& prepared) {
        const int64_t steps = branch.rebuild.steps;
        MadeAgain made = make_again(
            branch.rebuild, prepared.pair,
            [&](int64_t step) {
                m_progress.show(fmt::format("making step {} of {} again", step, steps));
                return interrupted() == 0;
            },
            branch.run.get());
        m_driver = std::move(made.driver);
        if (made.difference) {
            m_progress.show("");
            say("note: up to step {} the numbers are not those of the trace: {}; the branch has its own\n",
                steps, *made.difference);
        }
        m_driver->steer(
            m_asked.commands, [this] { show_step(); },
            [this](int64_t step, const Error& why) { note_refusal(step, why); });
        if (!m_file) return;
        m_trace = &m_file->begin();
        m_driver->record_into(*m_trace);
    }

    /// Refused before anything is printed.
    void save_cache() {
        const std::string& file = m_options.save_cache;
        if (file.empty()) return;
        m_driver->session().save_prompt_cache(file, m_options.exact_cache ? CacheForm::exact
                                                                          : CacheForm::four_bits);
        m_progress.show("");
        say("the cache of {} prompt tokens is in {}: {}\n", recording().prompt_length(), file,
            bytes_text(static_cast<int64_t>(std::filesystem::file_size(file))));
    }

    void note_refusal(int64_t step, const Error& why) {
        if (m_refused.empty()) m_refused = fmt::format("command at step {}: {}", step, why.what());
    }

    /// A trace that was removed or renamed while it was recorded is made again from the run, unless something else has come to
    /// stand in its place. \return what to say of it; empty where the file is there and had another problem
    [[nodiscard]] std::string saved_again() const {
        if (m_file && m_file->replaces()) return ", and the trace stays as it was";
        std::error_code unknown;
        if (m_trace->moved() &&
            std::filesystem::exists(std::filesystem::symlink_status(m_options.record, unknown)))
            return ", and another file stands there now";
        if (!m_trace->moved()) return {};
        try {
            m_file ? m_file->save_again(m_driver->recording())
                   : static_cast<void>(save_trace(m_options.record, m_driver->recording()));
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
        constexpr std::chrono::milliseconds group{25}, patience{50};
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

    const RunCommandOptions& m_options;
    const Asked& m_asked;
    std::unique_ptr<TraceStore> m_own_trace;
    std::optional<BranchFile> m_file; ///< of a branch that is recorded
    TraceStore* m_trace = nullptr;    ///< that the run is recorded in: one of these two's
    Progress m_progress;
    std::optional<TextOut> m_out;
    std::unique_ptr<RunDriver> m_driver;
    int64_t m_written = 0; ///< tokens
    std::chrono::steady_clock::time_point m_printed_at;
    std::string m_refused; ///< the first command that could not be carried out; the run went on
};

int run(const RunCommandOptions& options) {
    if (!options.summary.empty()) require_writable_folder(options.summary, "--summary");
    if (!options.save_cache.empty()) require_writable_folder(options.save_cache, "--save-cache");
    if (!options.replay.empty()) return replay_trace(options);
    const Asked asked = what_is_asked(options);
    std::vector<NamedFile> inputs = options.run.inputs(asked.config);
    inputs.push_back({"--commands", options.commands});
    check_outputs(std::vector<NamedFile>{{"--record", options.record},
                                         {"--summary", options.summary},
                                         {"--save-cache", options.save_cache}},
                  inputs);
    if (asked.branch) // --record may name the trace: the branch is put beside its runs
        check_outputs(std::vector<NamedFile>{{"--summary", options.summary}},
                      std::vector<NamedFile>{{"--branch", asked.branch->trace}});
    LiveRun live(options, asked);
    live.decode();
    live.report();
    if (asked.branch) live.report_branch();
    return 0;
}

} // namespace

int carry_out(const RunCommandOptions& options) {
    int status = 0;
    try {
        status = run(options);
    } catch (const Error& e) {
        if (interrupted() == 0) throw;
        say("refreshlab: {}\n", e.what()); // stopped while it was loading or prefilling
    }
    return interrupted() != 0 ? 128 + interrupted() : status;
}

} // namespace refreshlab::app
