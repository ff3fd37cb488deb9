#include "app/base/assets.h"
#include "app/base/output.h"
#include "app/base/trace_runs.h"
#include "app/engine/carry_out.h"
#include "app/options/landscape_options.h"
#include "app/options/run_options.h"
#include "engine/base/error.h"
#include "engine/base/interrupt.h"
#include "engine/base/json_file.h"
#include "engine/base/json_text.h"
#include "engine/landscape/landscape_export.h"
#include "engine/landscape/landscape_store.h"
#include "engine/landscape/staircase.h"
#include "engine/model/model_fingerprint.h"
#include "engine/record/trace/trace_store.h"
#include "engine/results/sweep_spec.h"
#include "engine/session/driver/replay.h"
#include "engine/session/driver/run_driver.h"
#include "engine/session/landscape/compute_landscape.h"
#include "engine/session/pair/run_text.h"
#include "engine/study/measure/sweep_score.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

namespace refreshlab::app {

namespace {

/// A run of a trace and what stands beside it.
struct TraceRun {
    std::shared_ptr<Recording> recording;
    std::shared_ptr<const Landscape> landscape; ///< null: none is stored
};

TraceRun run_of(const std::string& path, const std::string& id) {
    const auto runs = load_trace(path);
    TraceRun found{chosen_run(runs, id, "reading a landscape's run", path), nullptr};
    found.landscape = load_landscape_of(path, *found.recording);
    return found;
}

/// What is to be computed, and with what.
struct Job {
    RunConfig config;                           ///< models, devices, threads; its policy is walked
    LandscapeRequest request;                   ///< without the digests
    std::shared_ptr<const Recording> recording; ///< null: of a given text that is kept nowhere
    std::shared_ptr<const Landscape> known;
    std::string file; ///< trace that takes the rows; empty: none
    Execution execution;
    std::shared_ptr<const ModelPair> pair; ///< null: still to be loaded
};

/// Rows that the landscape lacks of those that were asked for.
bool lacks_rows(const Landscape& landscape, int64_t every) {
    for (int64_t j = 0; j < landscape.num_rows(); j += every) {
        if (!landscape.has_row(j)) return true;
    }
    return false;
}

void refuse_beside_trace(const LandscapeCommandOptions& options) {
    for (const char* option : {"--prompt", "--prompt-file", "--given-file", "--raw-prompt", "--max-tokens"}) {
        if (options.given(option)) {
            throw Error("computing a landscape", {}, std::string(option) + " has no effect beside a trace",
                        "prompt and text are those of the trace's run");
        }
    }
}

/// Throws when the command line names a policy that no landscape of these values can walk: before anything is computed.
void check_asked_policy(const LandscapeCommandOptions& options, const Job& job) {
    if (!options.given("--policy") && !options.given("--set")) return;
    const RefreshPolicy& policy = job.config.policy;
    if (const std::string why = why_no_staircase(job.request.values, policy); !why.empty())
        throw Error("walking a policy through a landscape", policy.name, why);
}

Job job_of_trace(const LandscapeCommandOptions& options) {
    refuse_beside_trace(options);
    const TraceRun found = run_of(options.trace, options.run_id);
    const Recording& run = *found.recording;
    Job job;
    job.recording = found.recording;
    job.known = found.landscape;
    job.config = options.run.config(run.info().config);
    job.request = landscape_request(run, job.config);
    job.config.mode = Mode::overfill;
    job.config.kernels = KernelSet::automatic;
    job.request.values =
        options.values.empty() && job.known ? job.known->info().values : landscape_values(options.values);
    check_asked_policy(options, job);
    job.execution = replay_execution(run.info());
    job.file = options.output.empty() ? options.trace : options.output;
    if (!options.output.empty()) {
        check_outputs(std::vector<NamedFile>{{"--output", options.output}},
                      std::vector<NamedFile>{{"TRACE", options.trace}});
        save_trace(options.output, found.recording);
        if (job.known) store_landscape(options.output, run.info().id, *job.known);
    }
    return job;
}

/// The run of a given text: read once without refreshes, so that the trace has a run that the landscape belongs to.
std::shared_ptr<const Recording> record_reading(const Job& job, const RunText& text,
                                                const std::string& file) {
    const auto trace = TraceStore::create(file);
    RunRequest request{.pair = job.pair,
                       .config = job.config,
                       .text = std::make_shared<RunText>(text),
                       .execution = job.execution,
                       .trace = trace.get()};
    request.config.policy = RefreshPolicy{};
    request.config.capture.attention = false;
    RunDriver driver(std::move(request));
    driver.run();
    trace->flush();
    if (!trace->error().empty()) throw Error("recording to", file, trace->error(), {}, ErrorKind::failure);
    return driver.recording();
}

/// The landscape of that text in a file that is there already, to be gone on with; null where there is none.
std::shared_ptr<const Landscape> landscape_there(Job& job) {
    std::error_code unreadable;
    if (job.file.empty() || !std::filesystem::exists(job.file, unreadable)) return nullptr;
    try {
        const TraceRun found = run_of(job.file, {});
        const bool same = found.landscape && found.landscape->info().prompt_ids == job.request.prompt_ids &&
                          found.landscape->info().tokens == job.request.tokens;
        if (!same) return nullptr;
        job.recording = found.recording;
        return found.landscape;
    } catch (const Error&) { // what stands there is judged when it is replaced
        return nullptr;
    }
}

Job job_of_text(const LandscapeCommandOptions& options) {
    if (!options.run_id.empty())
        throw Error("computing a landscape", {}, "--run takes a trace", "give TRACE");
    const auto assets = options.run.names_models() ? assets_if_any() : find_assets();
    RunConfig base = first_start_config(assets);
    base.prompt.clear();
    base.max_tokens = 1'000'000; // the whole text
    base.policy = RefreshPolicy{};
    Job job;
    job.config = options.run.config(std::move(base));
    if (job.config.given_text.empty() || !options.run.has_prompt()) {
        throw Error("computing a landscape", {}, "no text",
                    "give a TRACE, or --prompt TEXT with --given-file FILE");
    }
    if (job.config.mode != Mode::overfill)
        throw Error("computing a landscape", {}, "its student goes on from the teacher's cache",
                    "leave --mode out");
    require_full_caches(job.config);
    check_run(job.config);
    std::vector<NamedFile> inputs = options.run.inputs(job.config);
    check_outputs(std::vector<NamedFile>{{"--output", options.output}, {"--summary", options.summary}},
                  inputs);
    job.request.values = landscape_values(options.values);
    job.request.mc = job.config.mc;
    job.request.seed = job.config.seed;
    check_asked_policy(options, job);
    PreparedRun prepared = prepare_run(job.config);
    require_memory(prepared.memory);
    load_models(prepared, job.config);
    job.pair = prepared.pair;
    job.execution = prepared.execution;
    job.request.prompt_ids = prepared.text->prompt.ids;
    job.request.tokens = prepared.text->given;
    if (const auto limit = static_cast<size_t>(prepared.text->limit(job.config));
        limit < job.request.tokens.size())
        job.request.tokens.resize(limit);
    job.file = options.output;
    check_landscape(*job.pair, job.request);
    job.known = landscape_there(job);
    if (job.known && options.values.empty()) job.request.values = job.known->info().values;
    if (!job.file.empty() && !job.recording) job.recording = record_reading(job, *prepared.text, job.file);
    return job;
}

/// Shows how far it is, and puts rows into the trace now and then.
class Computing {
public:
    explicit Computing(const Job& job)
        : m_job(job) {}
    ~Computing() {
        if (m_shown) draw_line("");
    }
    Computing(const Computing&) = delete;
    Computing& operator=(const Computing&) = delete;

    bool step(const LandscapeProgress& now) {
        if (m_terminal) {
            m_shown = true;
            const double share =
                now.cells > 0 ? static_cast<double>(now.cells_done) / static_cast<double>(now.cells) : 0;
            draw_line(fmt::format("landscape {:.0f} %, {} rows", 100 * share,
                                  now.landscape ? now.landscape->rows().size() : 0));
        }
        if (now.landscape && std::chrono::steady_clock::now() - m_stored_at > std::chrono::seconds(5))
            store(*now.landscape);
        return interrupted() == 0;
    }
    void store(const Landscape& landscape) {
        m_stored_at = std::chrono::steady_clock::now();
        if (!m_job.file.empty()) store_landscape(m_job.file, m_job.recording->info().id, landscape);
    }

private:
    const Job& m_job;
    bool m_terminal = isatty(fileno(stderr)) != 0, m_shown = false;
    std::chrono::steady_clock::time_point m_stored_at = std::chrono::steady_clock::now();
};

std::shared_ptr<const Landscape> compute(Job& job) {
    if (!job.pair) {
        const std::string& teacher = job.config.teacher_dir;
        if (job.recording && !teacher.empty()) JudgeTokens(teacher).require_same(*job.recording);
        job.pair = load_pair(job.config);
    }
    check_landscape(*job.pair, job.request);
    job.request.teacher_digest = model_fingerprint(job.config.teacher_dir);
    job.request.student_digest = student_digest(job.config.student_dir, job.pair->bridge_file);
    note_interrupts(); // from here on what was computed is kept
    Computing computing(job);
    auto landscape = compute_landscape(*job.pair, job.request, job.execution, job.known,
                                       [&](const LandscapeProgress& now) { return computing.step(now); });
    if (landscape) computing.store(*landscape);
    return landscape;
}

/// The policy that the command line names, or the recorded run's where it has a staircase.
std::optional<RefreshPolicy> policy_to_walk(const LandscapeCommandOptions& options, const Job& job,
                                            const Landscape& landscape) {
    const RefreshPolicy& policy = job.config.policy;
    if (options.given("--policy") || options.given("--set")) return policy;
    if (!refreshes_by_itself(policy)) return std::nullopt;
    if (const std::string why = why_no_staircase(landscape, policy); !why.empty()) {
        say("note: the run's own policy {} is not walked: {}\n", policy.name, why);
        return std::nullopt;
    }
    return policy;
}

/// Configuration of the run that wrote the text.
const RunConfig& written_by(const LandscapeCommandOptions& options, const Job& job) {
    return options.trace.empty() || !job.recording ? job.config : job.recording->info().config;
}

} // namespace

int carry_out(const LandscapeCommandOptions& options) {
    if (options.every < 1) throw Error("computing a landscape", "--every", "must be 1 or more");
    std::optional<Objective> asked; // nothing: it hangs on the text
    if (!options.objective.empty()) asked = objective_of(options.objective);
    Job job = options.trace.empty() ? job_of_text(options) : job_of_trace(options);
    job.request.every = options.every;
    // What it is read from is computed, also where a stored landscape lacks it.
    if (asked && !tells(job.request.values, *asked)) job.request.values.emplace_back(value_of(*asked));
    if (options.rows_at_once > 0) job.request.rows_at_once = options.rows_at_once;
    std::shared_ptr<const Landscape> landscape = job.known;
    const bool same_values = landscape && landscape->info().values == job.request.values;
    if (!same_values) job.known = nullptr; // other values were asked for: they take its place
    if (!same_values || lacks_rows(*landscape, options.every)) landscape = compute(job);
    if (!landscape || !landscape->has_row(0)) {
        say("refreshlab: stopped before the first row was there\n");
        return 128 + interrupted();
    }
    const ChosenObjective chosen =
        asked ? ChosenObjective{*asked, {}}
              : default_objective(written_by(options, job), landscape->info().values);
    const LandscapeQuestions questions{options.best, options.price, policy_to_walk(options, job, *landscape),
                                       chosen.objective, chosen.why};
    print("{}", landscape_table(*landscape, questions));
    if (!options.summary.empty())
        write_file(options.summary, json_text(landscape_summary(*landscape, questions), 2) + "\n");
    if (interrupted() == 0) return 0;
    say("refreshlab: stopped; {} of {} rows are there, and the same command continues with them\n",
        landscape->rows().size(), landscape->num_rows());
    return 128 + interrupted();
}

} // namespace refreshlab::app
