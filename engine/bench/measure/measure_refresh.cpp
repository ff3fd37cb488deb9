// What a refresh costs against the number of tokens that the teacher reads for it.
#include "engine/base/check.h"
#include "engine/bench/measure/sections.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

namespace refreshlab::bench {

namespace {

struct Samples {
    std::vector<double> added, teacher, splice;
    double cached = 0; ///< columns that the passes read, summed
};

/// delta steps, the last of them with a refresh. What is added: that step without the median of the others, or of the last
/// group's where there are none.
void refresh_after(TimedRun& run, int64_t delta, double& plain_ms, Samples& samples, bool counts) {
    std::vector<double> plain;
    for (int64_t i = 0; i + 1 < delta; ++i)
        plain.push_back(run.step());
    if (!plain.empty()) plain_ms = spread_of(plain).median;
    run.refresh_now();
    const double ms = run.step();
    const RefreshEvent* const made = run.recording().refresh_at(run.recording().steps());
    RL_ASSERT(made != nullptr);
    if (!counts) return;
    const RefreshEvent& event = *made;
    RL_ASSERT(event.delta == delta);
    samples.added.push_back(ms - plain_ms);
    samples.teacher.push_back(event.teacher_ms);
    samples.splice.push_back(event.splice_ms);
    samples.cached += static_cast<double>(run.recording().prompt_length() + event.step);
}

} // namespace

void measure_refresh(const SectionInputs& in, BenchReport& report) {
    if (in.bench.config.mode != Mode::overfill) {
        report.notes.emplace_back("no refresh cost: refreshes belong to mode overfill");
        return;
    }
    in.tell("refresh cost");
    const int64_t prompt = in.bench.prompt_that_fits(in.options.prompts.front(), 64);
    std::vector<int64_t> deltas;
    int64_t steps = 4; // that warm up
    for (const int64_t delta : in.options.deltas) {
        if (prompt + steps + delta + 2 > in.bench.pair->context()) {
            report.notes.push_back(fmt::format("no refresh of {} tokens: the context is too short", delta));
            continue;
        }
        deltas.push_back(delta);
        steps += delta;
    }
    if (deltas.empty()) return;
    TimedRun run(in.bench, in.bench.plain(Mode::overfill, steps + 2), // none is made at the last boundary

                 bench_prompt(prompt, in.bench.decoder(Mode::overfill).config().vocab_size));
    std::map<int64_t, Samples> samples;
    // In turns: every round makes all of them, and the order goes round.
    const int64_t rounds = std::max<int64_t>(in.options.rounds, 1);
    for (int64_t round = -1; round < rounds; ++round) { // the first one warms up
        double plain_ms = spread_of({run.step(), run.step(), run.step()}).median;
        Samples ignored;
        refresh_after(run, 1, plain_ms, ignored, false); // delta begins at 0 from here
        std::ranges::rotate(deltas, deltas.begin() + (round > 0 ? 1 : 0));
        for (const int64_t delta : deltas)
            refresh_after(run, delta, plain_ms, samples[delta], round >= 0);
        run.rewind();
    }
    const auto bandwidth = measured_bandwidth(report, Mode::teacher);
    const BytesPerToken bytes = bytes_per_token(in.bench.decoder(Mode::teacher));
    for (const auto& [delta, s] : samples) {
        RefreshCost cost{.delta = delta,
                         .added_ms = spread_of(s.added),
                         .teacher_ms = spread_of(s.teacher),
                         .splice_ms = spread_of(s.splice)};
        const double cached = s.cached / static_cast<double>(s.added.size());
        if (bandwidth) cost.floor_ms = floor_ms(bytes.refresh_pass(cached), *bandwidth);
        report.refresh.push_back(cost);
    }
}

} // namespace refreshlab::bench
