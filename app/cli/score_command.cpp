#include "app/cli/commands.h"
#include "engine/base/error.h"
#include "engine/record/trace_store.h"
#include "engine/session/model_pair.h"
#include "engine/study/sweep_score.h"

#include <fmt/format.h>

#include <cstdio>
#include <memory>

namespace refreshlab::app {

namespace {

struct Options {
    std::string trace, teacher, device;
};

/// The teacher alone; the one of the last call if it serves.
class Teachers {
public:
    const LlamaModel& of(const RunConfig& recorded, const Options& options) {
        RunConfig config;
        config.mode = Mode::teacher;
        config.teacher_dir = options.teacher.empty() ? recorded.teacher_dir : options.teacher;
        config.dtype = recorded.dtype;
        if (!options.device.empty()) config.device = options.device;
        if (config.teacher_dir.empty())
            throw Error("scoring", options.trace, "the run names no teacher", "give --teacher DIR");
        if (!m_pair || !pair_serves(*m_pair, config)) m_pair = load_pair(config);
        return *m_pair->teacher;
    }

private:
    std::shared_ptr<const ModelPair> m_pair;
};

int score(const Options& options) {
    const auto runs = load_trace(options.trace);
    if (runs.empty()) throw Error("scoring", options.trace, "the trace holds no run");
    Teachers teachers;
    fmt::print(
        "run               mode      policy            tokens  teacher-PPL  tail log-prob  agreement\n");
    for (const auto& run : runs) {
        const RunInfo& info = run->info();
        const LlamaModel& teacher = teachers.of(info.config, options);
        if (teacher.config().vocab_size != info.vocab_size) {
            throw Error("scoring", options.trace,
                        fmt::format("the run's vocabulary has {} tokens, the teacher's {}", info.vocab_size,
                                    teacher.config().vocab_size),
                        "the teacher must use the run's tokenizer");
        }
        const auto text = score_text(teacher, info.prompt_ids, run->token_ids());
        const std::string head =
            fmt::format("{:<16}  {:<8}  {:<16}", info.id, to_string(info.config.mode),
                        info.config.mode == Mode::overfill ? info.config.policy.name : "-");
        if (text) {
            fmt::print("{}  {:>6}  {:>11.4f}  {:>13.4f}  {:>9.4f}\n", head, text->tokens, text->teacher_ppl,
                       text->tail_logprob, text->agreement);
        } else {
            fmt::print("{}  {:>6}  {:>11}  {:>13}  {:>9}\n", head, 0, "-", "-", "-");
        }
    }
    return 0;
}

} // namespace

Command add_score_command(CLI::App& app) {
    auto options = std::make_shared<Options>();
    CLI::App* command =
        app.add_subcommand("score", "Teacher perplexity and tail log-probability of every run of a trace");
    command->add_option("TRACE", options->trace, "A file written by --record or saved from the window")
        ->required()
        ->type_name("TRACE");
    command->add_option("--teacher", options->teacher, "Teacher checkpoint folder (default: each run's own)")
        ->type_name("DIR");
    command->add_option("--device", options->device, "auto, cpu, cuda, cuda:N")->type_name("DEVICE");
    return [options] { return score(*options); };
}

} // namespace refreshlab::app
