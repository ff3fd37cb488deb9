#include "engine/study/studies/study_run.h"

#include "engine/base/error.h"
#include "engine/record/trace/trace_store.h"
#include "engine/results/bootstrap.h"
#include "engine/session/driver/run_driver.h"
#include "engine/study/jobs/job_pool.h"
#include "engine/text/chat_template.h"
#include "engine/text/tokenizer/tokenizer.h"
#include "kernels/execution/cores.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <mutex>

namespace refreshlab {

namespace {

/// \return share, or nothing where there is nothing to divide by
StudyCell share(double part, int64_t whole) {
    if (whole == 0) return {};
    return part / static_cast<double>(whole);
}

int32_t narrow(int64_t n) {
    return static_cast<int32_t>(n);
}

} // namespace

RefreshPolicy gate_policy(const std::string& signal, double threshold, int32_t every, int32_t cooldown,
                          OnFire on_fire) {
    RefreshPolicy policy;
    policy.name = "custom";
    Trigger trigger;
    trigger.signal = signal;
    trigger.threshold = threshold;
    trigger.every = every;
    trigger.cooldown = cooldown;
    policy.triggers.push_back(std::move(trigger));
    policy.on_fire = on_fire;
    return policy;
}

RefreshPolicy periodic_policy(int32_t every) {
    RefreshPolicy policy = preset_policy("periodic");
    policy.triggers.at(0).threshold = every;
    return policy;
}

std::vector<StudyCase> card_cases() {
    return {
        {"teacher", Mode::teacher, {}},
        {"student alone", Mode::student, {}},
        {"teacher's prompt KV, no refresh", Mode::overfill, {}},
        {"refresh every 64", Mode::overfill, periodic_policy(64)},
        {"refresh every 32", Mode::overfill, periodic_policy(32)},
        {"refresh every 16", Mode::overfill, periodic_policy(16)},
        {"refresh every 8", Mode::overfill, periodic_policy(8)},
        {"entropy gate, 4 bits", Mode::overfill, gate_policy("entropy_bits", 4, 1, 4)},
        {"entropy gate, 6 bits", Mode::overfill, gate_policy("entropy_bits", 6, 1, 4)},
        {"entropy gate, 6 bits, redraw", Mode::overfill,
         gate_policy("entropy_bits", 6, 1, 4, OnFire::redraw)},
        {"top-1 surprisal gate, 5.3 bits", Mode::overfill, gate_policy("top1_surprisal_bits", 5.3, 1, 4)}};
}

std::vector<StudyCase> few_cases() {
    std::vector<StudyCase> cases = card_cases();
    std::erase_if(cases, [](const StudyCase& c) {
        return c.name == "refresh every 64" || c.name == "refresh every 16" || c.name == "refresh every 8" ||
               c.name == "entropy gate, 4 bits";
    });
    return cases;
}

void check_parts(const StudyOptions& options, std::span<const std::string_view> known) {
    for (const std::string& part : options.parts) {
        if (std::ranges::find(known, part) != known.end()) continue;
        std::string all;
        for (const std::string_view name : known)
            all += (all.empty() ? "" : ", ") + std::string(name);
        throw Error("reading", "--parts", "there is no part '" + part + "' in this study",
                    "the parts are " + all);
    }
}

StudyRunner::StudyRunner(const StudyOptions& options)
    : m_options(options) {
    if (options.progress) options.progress(0, "loading the models");
    if (!options.traces.empty()) {
        std::error_code failed;
        std::filesystem::create_directories(options.traces, failed);
        if (failed || !std::filesystem::is_directory(options.traces))
            throw Error("writing traces to", options.traces.string(), "is not a folder");
    }
    m_pair = load_pair(options.base);
}

RunConfig StudyRunner::config(const StudyCase& c) const {
    RunConfig config = m_options.base;
    config.mode = c.mode;
    config.policy = c.policy;
    config.seed = m_options.seed;
    config.given_text.clear();
    config.raw_prompt = false;
    config.task = {};
    config.sampler = {};
    config.capture.attention = false;
    config.capture.top_k = 0;
    return config;
}

RunConfig StudyRunner::given_config(const StudyCase& c, const PromptRecord& record) const {
    RunConfig run = config(c);
    run.prompt = record.prompt;
    run.given_text = record.response;
    run.max_tokens = narrow(token_count(record.response) + 64);
    if (const auto task = task_of(record, m_options.prompts)) run.task = *task;
    return run;
}

int64_t StudyRunner::token_count(const std::string& text) const {
    return static_cast<int64_t>(m_pair->tokenizer->encode(text, false).size());
}

RunConfig StudyRunner::with_prefix(RunConfig config, const PromptRecord& record) const {
    if (m_pair->chat_template) {
        config.prompt = m_pair->chat_template->render({{"user", record.prompt}});
    } else {
        config.prompt = record.prompt + "\n";
    }
    config.prompt += record.prefix + "\n\n";
    config.raw_prompt = true;
    return config;
}

std::vector<PromptRecord> StudyRunner::records(const std::string& name, int64_t limit) const {
    auto all = read_prompt_file(m_options.prompts / (name + ".jsonl"));
    const int64_t wanted = m_options.limit > 0 ? m_options.limit : limit;
    if (std::ssize(all) > wanted) all.erase(all.begin() + wanted, all.end());
    return all;
}

std::vector<StudyRun> StudyRunner::questions(int64_t number) const {
    const auto records = read_prompt_file(m_options.prompts / "mt_bench.jsonl");
    const int64_t all = std::ssize(records),
                  n = std::min(all, m_options.limit > 0 ? m_options.limit : number);
    std::vector<StudyRun> runs;
    for (int64_t i = 0; i < n; ++i) {
        const int64_t at = i * all / n;
        RunConfig asked = config({"teacher", Mode::teacher, {}});
        asked.prompt = records[static_cast<size_t>(at)].prompt;
        asked.sampler.temperature = 0.8;
        asked.sampler.top_p = 0.95;
        asked.seed = m_options.seed + static_cast<uint64_t>(at);
        runs.push_back({std::move(asked), fmt::format("answer {}", at + 1)});
    }
    return runs;
}

std::vector<StudyRun> StudyRunner::passages(const StudyCase& c, int64_t number) const {
    std::vector<StudyRun> runs;
    for (const PromptRecord& record : records("passages", number)) {
        RunConfig read = config(c);
        read.prompt = record.prompt;
        read.given_text = record.response;
        read.raw_prompt = true;
        runs.push_back({std::move(read), fmt::format("passage {}", runs.size() + 1)});
    }
    return runs;
}

bool StudyRunner::wants(const std::string& part) const {
    return m_options.parts.empty() || std::ranges::find(m_options.parts, part) != m_options.parts.end();
}

std::vector<std::shared_ptr<const Recording>> StudyRunner::run_all(const std::vector<StudyRun>& runs) {
    std::vector<std::shared_ptr<const Recording>> made(runs.size());
    const LlamaModel& any = m_pair->student ? *m_pair->student : *m_pair->teacher;
    const int threads = kernels::threads_for(m_options.base.threads);
    const size_t workers = any.device().is_cpu() ? static_cast<size_t>(threads) : 1;
    JobPool pool(std::min(workers, runs.size()), threads);
    std::mutex mutex; // protects the progress, held for a line of output
    pool.run(runs.size(), [&](size_t i, JobSlot& slot) {
        {
            const std::lock_guard lock(mutex);
            const double expected = static_cast<double>(std::max(m_expected, m_done + 1));
            if (m_options.progress) m_options.progress(static_cast<double>(m_done) / expected, runs[i].name);
        }
        made[i] = run(runs[i], slot);
        const std::lock_guard lock(mutex);
        ++m_done;
    });
    return made;
}

std::shared_ptr<const Recording> StudyRunner::run(const StudyRun& run, JobSlot& slot) const {
    RunRequest request{.pair = m_pair, .config = run.config};
    request.config.threads = slot.num_threads();
    request.execution = slot.execution(run.config.kernels);
    request.score = run.score;
    RunDriver driver(std::move(request));
    driver.run([&] {
        if (run.watch) run.watch(driver.session());
        return RunDriver::Next::step;
    });
    const auto recording = driver.recording();
    if (!m_options.traces.empty()) {
        std::string file;
        for (const char c : run.name) {
            const char small = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
            const bool plain = (small >= 'a' && small <= 'z') || (small >= '0' && small <= '9') ||
                               small == '.' || small == '-' || small == '_';
            if (plain) file += small;
            if (!plain && !file.ends_with('_')) file += '_';
        }
        save_trace(m_options.traces / (file + ".rlt"), recording);
    }
    return recording;
}

TaskResult score_recording(const Recording& recording, const TaskConfig& task, const std::string& prompt) {
    const auto scorer = TaskScorer::create(task, prompt);
    const size_t hit_id = require_signal("top1_hit", "scoring a task");
    const bool given = recording.info().config.reads_given();
    const TokenTable& tokens = recording.tokens();
    for (int64_t t = 1; t <= recording.num_tokens(); ++t) {
        const int32_t id = recording.token(t);
        const float hit = given && t <= recording.steps() ? recording.signal(t, hit_id) : absent();
        static_cast<void>(scorer->advance(tokens.is_special(id) ? std::string_view() : tokens.token_bytes(id),
                                          std::isnan(hit) ? std::nullopt : std::optional(hit > 0.5F)));
    }
    static_cast<void>(scorer->finish());
    return scorer->result();
}

void RunTotals::add(const Recording& recording, const TaskResult* task) {
    static const size_t hit_id = require_signal("top1_hit", "a study"),
                        logprob_id = require_signal("logprob", "a study"),
                        teacher_id = require_signal("teacher_logprob", "a study");
    ++runs;
    tokens += recording.num_tokens();
    for (size_t i = 0; i < recording.refreshes().size(); ++i)
        refreshes += recording.refreshes()[i].spliced > 0 ? 1 : 0;
    double run_logprob = 0;
    int64_t run_logprobs = 0;
    for (int64_t t = 1; t <= std::min(recording.num_tokens(), recording.steps()); ++t) {
        if (const float hit = recording.signal(t, hit_id); !std::isnan(hit)) {
            ++choices;
            hits += hit > 0.5F ? 1 : 0;
        }
        if (const float lp = recording.signal(t, logprob_id); !std::isnan(lp)) {
            run_logprob += static_cast<double>(lp);
            ++run_logprobs;
        }
        if (const float lp = recording.signal(t, teacher_id); !std::isnan(lp)) {
            teacher_logprob += static_cast<double>(lp);
            ++teacher_logprobs;
        }
    }
    logprob += run_logprob;
    logprobs += run_logprobs;
    if (run_logprobs > 0) run_loss.push_back(-run_logprob / static_cast<double>(run_logprobs));
    if (task == nullptr) return;
    right += task->right;
    scored += task->total;
    exact += task->exact_match.value_or(false) ? 1 : 0;
    correct_prefix += task->correct_prefix.value_or(0);
    if (parts.empty()) {
        parts = task->parts;
        return;
    }
    for (size_t i = 0; i < parts.size(); ++i) {
        parts[i].right += task->parts[i].right;
        parts[i].total += task->parts[i].total;
    }
}

StudyCell RunTotals::share_right() const {
    return share(static_cast<double>(right), scored);
}
StudyCell RunTotals::token_accuracy() const {
    return share(static_cast<double>(hits), choices);
}
StudyCell RunTotals::exact_share() const {
    return share(static_cast<double>(exact), runs);
}
StudyCell RunTotals::mean_correct_prefix() const {
    return share(correct_prefix, runs);
}
StudyCell RunTotals::refreshes_per_1000() const {
    return share(1000 * static_cast<double>(refreshes), tokens);
}
StudyCell RunTotals::loss() const {
    return share(-logprob, logprobs);
}
StudyCell RunTotals::teacher_ppl() const {
    if (teacher_logprobs == 0) return {};
    return std::exp(-teacher_logprob / static_cast<double>(teacher_logprobs));
}

MeanInterval mean_interval(std::span<const double> values) {
    MeanInterval result;
    const auto n = static_cast<double>(values.size());
    for (const double v : values)
        result.mean += v / n;
    if (values.size() < fewest_for_interval) return result;
    double squares = 0;
    for (const double v : values)
        squares += (v - result.mean) * (v - result.mean);
    result.half_width = 1.96 * std::sqrt(squares / (n - 1) / n);
    return result;
}

std::vector<StudyCell> mean_cells(std::span<const double> values, uint64_t seed) {
    if (values.empty()) return {StudyCell(), StudyCell(), StudyCell()};
    const auto interval = bootstrap_mean(values, {.resamples = 2000, .seed = seed, .level = 0.95});
    return {*mean(values), interval ? StudyCell(interval->low) : StudyCell(),
            interval ? StudyCell(interval->high) : StudyCell()};
}

} // namespace refreshlab
