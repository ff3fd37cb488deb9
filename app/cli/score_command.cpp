#include "app/cli/commands.h"
#include "app/cli/output.h"
#include "engine/base/error.h"
#include "engine/record/trace/trace_store.h"
#include "engine/session/driver/replay.h"
#include "engine/session/pair/model_pair.h"
#include "engine/study/measure/sweep_score.h"

#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <optional>

namespace refreshlab::app {

namespace {

struct Options {
    std::string trace, teacher, device;
};

/// The teacher alone; the one of the last call if it serves.
class Teachers {
public:
    /// \param execution  of the loading
    const LlamaModel& of(const Recording& recording, const Options& options, const Execution& execution) {
        const RunInfo& run = recording.info();
        const RunConfig& recorded = run.config;
        const std::string dir = options.teacher.empty() ? recorded.teacher_dir : options.teacher;
        if (dir.empty())
            throw Error("scoring", options.trace, "the run names no teacher", "give --teacher DIR");
        if (!m_tokens || m_tokens->folder() != dir) m_tokens.emplace(dir);
        m_tokens->require_same(recording); // before a weight is read
        if (m_model && m_dir == dir && m_model->dtype() == scalar_type(recorded.dtype) &&
            m_model->config().vocab_size == run.vocab_size)
            return *m_model;
        const std::string device = !options.device.empty()            ? options.device
                                   : !recorded.teacher_device.empty() ? recorded.teacher_device
                                                                      : recorded.device;
        const kernels::ExecutionScope scope(*execution);
        const kernels::LibtorchThreads converting;
        auto model = LlamaModel::load(dir, resolve_device(device), scalar_type(recorded.dtype));
        if (model->config().vocab_size < run.vocab_size) {
            throw Error("scoring", options.trace,
                        fmt::format("the run's vocabulary has {} tokens, the teacher's {}", run.vocab_size,
                                    model->config().vocab_size),
                        "the teacher must use the run's tokenizer");
        }
        model->keep_vocabulary(run.vocab_size); // what the run left out as padding stays out
        m_model = std::move(model);
        m_dir = dir;
        return *m_model;
    }

private:
    std::unique_ptr<LlamaModel> m_model;
    std::string m_dir;
    std::optional<JudgeTokens> m_tokens;
};

int score(const Options& options) {
    const auto runs = load_trace(options.trace);
    if (runs.empty()) throw Error("scoring", options.trace, "the trace holds no run");
    Teachers teachers;
    std::string table = "run               mode      policy            tokens  teacher-PPL  tail log-prob  "
                        "agreement\n"; // printed when every run has been judged
    for (const auto& run : runs) {
        const RunInfo& info = run->info();
        const Execution execution = replay_execution(info);
        const LlamaModel& teacher = teachers.of(*run, options, execution);
        const std::string kernels(kernels::to_string(execution->isa()));
        if (teacher.device().is_cpu() && !same_kernel_bits(info.kernel_set, kernels)) {
            say("note: run {} was made with the kernel set {} and is scored with {}, which rounds "
                "differently\n",
                info.id, info.kernel_set, kernels);
        }
        const auto text = score_text(teacher, info.prompt_ids, run->token_ids(), *execution);
        const std::string head =
            fmt::format("{:<16}  {:<8}  {:<16}", info.id, to_string(info.config.mode),
                        info.config.mode == Mode::overfill ? info.config.policy.name : "-");
        if (text) {
            table += fmt::format("{}  {:>6}  {:>11.4f}  {:>13.4f}  {:>9.4f}\n", head, text->tokens,
                                 text->teacher_ppl, text->tail_logprob, text->agreement);
        } else {
            table += fmt::format("{}  {:>6}  {:>11}  {:>13}  {:>9}\n", head, 0, "-", "-", "-");
        }
    }
    print("{}", table);
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
    command
        ->add_option("--teacher", options->teacher,
                     "Teacher: a checkpoint folder or a .gguf file (default: each run's own)")
        ->type_name("MODEL");
    command->add_option("--device", options->device, "auto, cpu, cuda, cuda:N")->type_name("DEVICE");
    return [options] { return score(*options); };
}

} // namespace refreshlab::app
