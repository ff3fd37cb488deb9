#pragma once

#include "engine/bench/numbers/interleave.h"
#include "engine/session/driver/run_driver.h"

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

namespace refreshlab {
class TraceStore;
}

namespace refreshlab::bench {

/// What all measured runs share: loaded models, how to run them, threads. Rules of development/performance.md, section 8.
struct Bench {
    std::shared_ptr<const ModelPair> pair;
    Execution execution;
    RunConfig config; ///< models, device, dtype, mode, seed

    /// Greedy, a forced length, no stop token, no probe, no refresh, no attention rows.
    [[nodiscard]] RunConfig plain(Mode mode, int64_t tokens) const;
    /// The model that decodes in this mode; not null.
    [[nodiscard]] const LlamaModel& decoder(Mode mode) const;
    /// Modes of its own that this pair can run: teacher, student, and overfill where config.mode is that.
    [[nodiscard]] std::vector<Mode> modes() const;
    /// The wanted prompt length, or the longest that leaves room for so many tokens in the context; at least 1.
    [[nodiscard]] int64_t prompt_that_fits(int64_t wanted, int64_t tokens) const;
};

/// Ids for a prompt of that length: arbitrary, the same everywhere. \param vocab  above 16
[[nodiscard]] std::vector<int32_t> bench_prompt(int64_t length, int64_t vocab);

/// A run whose steps are timed. It goes the way of every run (RunDriver), without the closing pass.
/// Threads  one.
class TimedRun {
public:
    /// Prefills. \param trace  null, or what records the run; outlives it
    TimedRun(const Bench& bench, const RunConfig& config, std::vector<int32_t> prompt,
             TraceStore* trace = nullptr);

    /// From the ids to the first chosen token, as the recording has it.
    [[nodiscard]] double first_token_ms() const;
    /// One step. \return how long it took, milliseconds
    double step();
    /// So many steps, each as step(). \return all together
    double steps(int64_t n);
    /// The refresh by hand at the next step's boundary.
    void refresh_now();
    void rewind(); ///< to the state after the prefill
    [[nodiscard]] const Recording& recording() const { return *m_recording; }

private:
    RunDriver m_driver;
    std::shared_ptr<const Recording> m_recording;
};

/// A side of a comparison that goes on with this run; the run has steps enough.
[[nodiscard]] Side side_of(const std::shared_ptr<TimedRun>& run);

} // namespace refreshlab::bench
