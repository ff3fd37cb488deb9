#include "app/base/output.h"
#include "app/engine/carry_out.h"
#include "app/engine/read_again.h"
#include "app/options/score_options.h"
#include "engine/base/error.h"
#include "engine/control/derive/derive_spec.h"
#include "engine/record/export/divergence.h"
#include "engine/record/trace/trace_store.h"
#include "engine/session/driver/replay.h"
#include "engine/session/pair/model_pair.h"
#include "engine/session/pair/run_text.h"
#include "engine/study/measure/loss_split.h"
#include "engine/study/measure/sweep_score.h"
#include "engine/study/sweep/sweep_cells.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <memory>
#include <optional>

namespace refreshlab::app {

namespace {

std::string cell(const std::optional<double>& value) {
    return value ? fmt::format("{:.4f}", *value) : "-";
}

/// The layout of tables of KL divergence: what both rows say, place by place.
constexpr auto divergence_line = "{:<18} {:>6} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}  {}\n";

std::string divergence_head(const char* first) {
    return fmt::format(divergence_line, first, "places", "mean KLD", "median", "90 %", "99 %", "max",
                       "same top", "PPL", "PPL ratio", "acceptance (95 %)");
}

std::string divergence_row(const std::string& name, const Divergence& d) {
    const std::string interval =
        d.acceptance_low ? fmt::format(" ({:.4f} to {:.4f})", *d.acceptance_low, *d.acceptance_high) : "";
    return fmt::format(divergence_line, name, d.kl_rows, cell(d.kl_mean), cell(d.kl_median), cell(d.kl_p90),
                       cell(d.kl_p99), cell(d.kl_max), cell(d.same_top1), cell(d.student_ppl),
                       cell(d.ppl_ratio), cell(d.acceptance) + interval);
}

/// "1.71 2.21 2.57 ...": of drafts of 1 to 8 tokens.
std::string verify_line(const Divergence& d) {
    if (!d.tokens_per_verify) return {};
    std::string text = "expected tokens per verify, drafts of 1 to 8:";
    for (const double tokens : *d.tokens_per_verify)
        text += fmt::format(" {:.2f}", tokens);
    return text + "\n";
}

/// The losses of one recorded text. Reads it four times.
std::string split_text(const Recording& run, const ScoreCommandOptions& options) {
    const RunInfo& info = run.info();
    const RunConfig config = config_to_read(run, {options.teacher, options.student, options.device},
                                            "split a teacher's text (--mode teacher) or a given one");
    const auto text = text_to_read(run);
    const auto pair = load_pair(config, {}, text);
    const LossSplit split = split_loss(pair, config, *text, options.every, replay_execution(info));
    std::string out = fmt::format("\nloss of {} tokens of run {}, {}\n", split.tokens, info.id,
                                  pair_name(config.teacher_dir, config.student_dir));
    out += fmt::format("{:<18} {:>11} {:>11}\n", "entries before", "nats/token", "perplexity");
    for (const LossSplit::Reading& reading : split.readings)
        out += fmt::format("{:<18} {:>11.4f} {:>11.4f}\n", reading.name, reading.nll, std::exp(reading.nll));
    out += fmt::format(
        "own-weights loss (R = 1 - teacher) {:.4f}, cache loss (none - R = 1) {:.4f}, recovered by R = "
        "{}: {}\n\n",
        split.own_weights, split.cache, split.period,
        split.recovered ? fmt::format("{:.1f} %", 100 * *split.recovered) : "-");
    out += divergence_head("entries before");
    for (const LossSplit::Reading& reading : split.readings) {
        if (reading.divergence.kl_rows > 0) out += divergence_row(reading.name, reading.divergence);
    }
    return out + verify_line(split.readings[1].divergence);
}

/// The teacher alone; the one of the last call if it serves.
class Teachers {
public:
    /// \param execution  of the loading
    const LlamaModel& of(const Recording& recording, const ScoreCommandOptions& options,
                         const Execution& execution) {
        const RunInfo& run = recording.info();
        const RunConfig& recorded = run.config;
        const std::string dir = options.teacher.empty() ? recorded.teacher_dir : options.teacher;
        if (dir.empty())
            throw Error("scoring", options.trace, "the run names no teacher", "give --teacher DIR");
        if (!m_tokens || m_tokens->folder() != dir) m_tokens.emplace(dir);
        m_tokens->require_same(recording); // before a weight is read
        if (m_model && m_dir == dir && m_model->dtype() == scalar_type(recorded.dtype) &&
            m_model->keeps_blocks() == (recorded.dtype == Dtype::native) &&
            m_model->config().vocab_size == run.vocab_size)
            return *m_model;
        const std::string device = !options.device.empty()            ? options.device
                                   : !recorded.teacher_device.empty() ? recorded.teacher_device
                                                                      : recorded.device;
        const kernels::ExecutionScope scope(*execution);
        const kernels::LibtorchThreads converting;
        auto model = LlamaModel::load(dir, resolve_device(device), scalar_type(recorded.dtype), {},
                                      recorded.dtype == Dtype::native);
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

} // namespace

int carry_out(const ScoreCommandOptions& options) {
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
    std::string measured, splits;
    for (const auto& run : runs) {
        const Divergence d = divergence_of(*run);
        if (d.kl_rows > 0) measured += divergence_row(run->info().id, d) + verify_line(d);
        if (options.split) splits += split_text(*run, options);
    }
    if (!measured.empty())
        table += "\nwhere the teacher read beside the student\n" + divergence_head("run") + measured;
    print("{}", table + splits);
    return 0;
}

} // namespace refreshlab::app
