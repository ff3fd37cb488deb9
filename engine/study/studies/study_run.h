#pragma once

#include "engine/session/pair/model_pair.h"
#include "engine/study/studies/study_table.h"
#include "engine/tasks/prompt_file.h"
#include "engine/tasks/task_scorer.h"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace refreshlab {

class DecodeSession;
class JobSlot;
class Recording;

/// What every study of a model pair is told.
struct StudyOptions {
    RunConfig base;                 ///< models, device, dtype, threads; the rest is set by the study
    std::filesystem::path prompts;  ///< folder of KIND.jsonl files and almanac.json
    int64_t limit = 0;              ///< records of each prompt file; 0 = the study's own number
    uint64_t seed = 0;              ///< of sampled runs
    int64_t length = 0;             ///< of study cache: tokens of a long text; 0: the study's own number
    int32_t mc_samples = 0;         ///< of study landscape: MC rows a cell; 0: none are measured
    bool student_given = false;     ///< base.student_dir was asked for; else it is the bundled one
    std::vector<std::string> parts; ///< which tables (names as in the study's header); empty = all
    std::vector<std::string>
        methods; ///< of study cache: in the tables of every method these alone, and full; empty = all
    std::filesystem::path traces; ///< folder: every run is saved there as a trace; empty = none
    /// \param done  share of the runs, 0..1
    std::function<void(double done, const std::string& what)> progress;
};

/// A mode and a policy with the name it has in tables.
struct StudyCase {
    std::string name;
    Mode mode = Mode::overfill;
    RefreshPolicy policy;
};

/// One trigger as a policy. \param signal  name in the registry
[[nodiscard]] RefreshPolicy gate_policy(const std::string& signal, double threshold, int32_t every,
                                        int32_t cooldown, OnFire on_fire = OnFire::keep);
[[nodiscard]] RefreshPolicy periodic_policy(int32_t every);

/// The rows of the bundled student's card: teacher; student alone; on the teacher's prompt KV without a refresh; every 64, 32,
/// 16, 8 tokens; gates at every token with cool-down 4 (entropy 4 bits, 6 bits, 6 bits with the pending token redrawn, top-1
/// surprisal 5.3 bits).
[[nodiscard]] std::vector<StudyCase> card_cases();
/// The card's cases without the strides 64, 16, 8 and the gate at 4 bits: for tables where a few rows tell all.
[[nodiscard]] std::vector<StudyCase> few_cases();

/// One run of a study.
struct StudyRun {
    RunConfig config;
    std::string name;   ///< of the trace file, if traces are kept, and for the progress
    bool score = false; ///< with the closing pass that gives teacher-PPL
    /// Called before every step and once after the last, on the run's thread; null: nobody watches.
    std::function<void(const DecodeSession&)> watch = {};
};

/// The runs of a study on one loaded pair.
class StudyRunner {
public:
    /// Loads the pair. Throws Error as load_pair().
    explicit StudyRunner(const StudyOptions& options);

    /// The base configuration for a run of this case. Attention and candidates are not captured.
    [[nodiscard]] RunConfig config(const StudyCase& c) const;
    /// ... on the record's own text: the response is given, so all cases read the same tokens.
    [[nodiscard]] RunConfig given_config(const StudyCase& c, const PromptRecord& record) const;

    /// Runs to their ends, recordings in the order asked for. On the CPU base.threads of them at a time (0: one for each core),
    /// which share the threads and change no number by it; on a GPU one after another. Throws what the first failing run
    /// throws.
    [[nodiscard]] std::vector<std::shared_ptr<const Recording>> run_all(const std::vector<StudyRun>& runs);

    /// The first `limit` records of PROMPTS/NAME.jsonl (options.limit if that is set). Throws Error{bad_input}.
    [[nodiscard]] std::vector<PromptRecord> records(const std::string& name, int64_t limit) const;
    /// Questions of MT-Bench for the teacher to answer, sampled (temperature 0.8, top-p 0.95): `number` of them (options.limit
    /// if that is set), evenly over the file, whose questions come in groups. Names: "answer 1", ...
    [[nodiscard]] std::vector<StudyRun> questions(int64_t number) const;
    /// The first `number` passages of Andersen's tales (options.limit if that is set), given after their beginnings. Names:
    /// "passage 1", ...
    [[nodiscard]] std::vector<StudyRun> passages(const StudyCase& c, int64_t number) const;
    /// Number of tokens of a text after a prompt.
    [[nodiscard]] int64_t token_count(const std::string& text) const;
    /// Prompt and the beginning of the answer as one raw prompt: the prefix belongs to the prompt side, so that in mode overfill
    /// the teacher reads it. The seam is a paragraph break.
    [[nodiscard]] RunConfig with_prefix(RunConfig config, const PromptRecord& record) const;

    [[nodiscard]] const StudyOptions& options() const { return m_options; }
    [[nodiscard]] const ModelPair& pair() const { return *m_pair; }
    [[nodiscard]] bool wants(const std::string& part) const;
    /// Announces how many runs are to come, for the progress.
    void expect(int64_t runs) { m_expected += runs; }

private:
    /// Any thread.
    [[nodiscard]] std::shared_ptr<const Recording> run(const StudyRun& run, JobSlot& slot) const;

    StudyOptions m_options;
    std::shared_ptr<const ModelPair> m_pair;
    int64_t m_expected = 0, m_done = 0;
};

/// Throws Error{bad_input} when options.parts holds a name that is not in `known`.
void check_parts(const StudyOptions& options, std::span<const std::string_view> known);

/// The text of a recording scored against a task; a given text by its top1_hit signal.
[[nodiscard]] TaskResult score_recording(const Recording& recording, const TaskConfig& task,
                                         const std::string& prompt);

/// Sums over runs.
struct RunTotals {
    int64_t runs = 0, tokens = 0, refreshes = 0;
    int64_t right = 0, scored = 0; ///< units of the task
    int64_t hits = 0, choices = 0; ///< top1_hit over tokens
    int64_t exact = 0;             ///< texts that match the reference
    double correct_prefix = 0;     ///< sum of shares
    double logprob = 0;            ///< sum of ln p of tokens under the row they were chosen by
    int64_t logprobs = 0;
    double teacher_logprob = 0; ///< sum of ln p_T
    int64_t teacher_logprobs = 0;
    std::vector<double> run_loss; ///< mean -logprob of each run, nats per token
    std::vector<TaskResult::Part> parts;

    void add(const Recording& recording, const TaskResult* task);
    [[nodiscard]] StudyCell share_right() const;
    [[nodiscard]] StudyCell token_accuracy() const;
    [[nodiscard]] StudyCell exact_share() const;
    [[nodiscard]] StudyCell mean_correct_prefix() const;
    [[nodiscard]] StudyCell refreshes_per_1000() const;
    [[nodiscard]] StudyCell loss() const;        ///< nats per token over all tokens
    [[nodiscard]] StudyCell teacher_ppl() const; ///< exp of the mean -ln p_T over all tokens
};

/// Mean, and 1.96 of its standard errors: the half width of a 95 % interval if means are normal (with some ten values they
/// nearly are, and the interval is a little narrow). Nothing for fewer than fewest_for_interval values.
struct MeanInterval {
    double mean = 0;
    StudyCell half_width;
};
[[nodiscard]] MeanInterval mean_interval(std::span<const double> values);

/// Three cells: the mean over texts and its 95 % bootstrap interval (2,000 draws), which few texts do not have.
[[nodiscard]] std::vector<StudyCell> mean_cells(std::span<const double> values, uint64_t seed);

} // namespace refreshlab
