#include "engine/bench/measure/timed_run.h"

#include "engine/base/check.h"
#include "engine/session/pair/run_text.h"
#include "engine/session/parts/stopwatch.h"

#include <algorithm>
#include <utility>

namespace refreshlab::bench {

namespace {

RunRequest request_of(const Bench& bench, const RunConfig& config, std::vector<int32_t> prompt,
                      TraceStore* trace) {
    RunText text;
    text.prompt.ids = std::move(prompt);
    text.prompt.text = config.prompt;
    return {.pair = bench.pair,
            .config = config,
            .text = std::make_shared<const RunText>(std::move(text)),
            .execution = bench.execution,
            .score = false,
            .trace = trace};
}

} // namespace

RunConfig Bench::plain(Mode mode, int64_t tokens) const {
    RunConfig run = config;
    run.mode = mode;
    run.prompt = "ids of the benchmark";
    run.raw_prompt = true;
    run.max_tokens = static_cast<int32_t>(tokens);
    run.ignore_stop = true;
    run.sampler = {};
    run.policy = {};
    run.student_cache = run.teacher_cache = {};
    run.shadow = false;
    run.mc.measure = false;
    run.capture.attention = run.capture.attention_entropy = false;
    return run;
}

const LlamaModel& Bench::decoder(Mode mode) const {
    const auto& model = mode == Mode::teacher ? pair->teacher : pair->student;
    RL_ASSERT(model != nullptr);
    return *model;
}

std::vector<Mode> Bench::modes() const {
    std::vector<Mode> modes;
    if (pair->teacher && config.mode != Mode::student) modes.push_back(Mode::teacher);
    if (pair->student && config.mode != Mode::teacher) modes.push_back(Mode::student);
    if (config.mode == Mode::overfill) modes.push_back(Mode::overfill);
    return modes;
}

int64_t Bench::prompt_that_fits(int64_t wanted, int64_t tokens) const {
    return std::clamp<int64_t>(pair->context() - tokens, 1, wanted);
}

std::vector<int32_t> bench_prompt(int64_t length, int64_t vocab) {
    std::vector<int32_t> ids;
    for (int64_t i = 0; i < length; ++i)
        ids.push_back(
            static_cast<int32_t>(16 + (i * 7919 + 13) % (vocab - 16))); // low ids are control tokens
    return ids;
}

TimedRun::TimedRun(const Bench& bench, const RunConfig& config, std::vector<int32_t> prompt,
                   TraceStore* trace)
    : m_driver(request_of(bench, config, std::move(prompt), trace))
    , m_recording(m_driver.recording()) {}

double TimedRun::first_token_ms() const {
    return m_recording->info().ttft_ms;
}

double TimedRun::step() {
    const Stopwatch watch;
    const bool made = m_driver.step();
    const double ms = watch.ms();
    RL_ASSERT(made && m_recording->step(m_recording->steps()).fed);
    return ms;
}

double TimedRun::steps(int64_t n) {
    double ms = 0;
    for (int64_t i = 0; i < n; ++i)
        ms += step();
    return ms;
}

void TimedRun::refresh_now() {
    m_driver.apply(command::RefreshNow{});
}

void TimedRun::rewind() {
    m_driver.rewind(0);
    m_recording = m_driver.recording();
}

Side side_of(const std::shared_ptr<TimedRun>& run) {
    return [run](int64_t steps) { return run->steps(steps); };
}

} // namespace refreshlab::bench
