#pragma once

#include "engine/bench/numbers/bytes_per_token.h"
#include "engine/bench/numbers/interleave.h"
#include "engine/bench/numbers/statistics.h"
#include "engine/study/measure/policy_cost.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace refreshlab::bench {

// What a benchmark found, as plain data. Times are milliseconds, rates tokens a second, bandwidths 10^9 bytes a second, sizes
// bytes.

/// Where it was measured.
struct Machine {
    std::string cpu, system; ///< "AMD EPYC ..."; "Linux 6.1.0 x86_64"
    int32_t cores = 0;       ///< that this process may use
    double clock_mhz = 0;    ///< as the kernel says it now; 0: it does not
    int64_t memory = 0;
    double load_before = 0,
           load_after = 0; ///< mean over a minute: 0 on a quiet machine, before the work began
};

/// What was measured, and by which program.
struct Setup {
    std::string date, commit; ///< of the program's build; empty: not known
    std::vector<std::pair<std::string, std::string>> versions;
    std::string device, dtype, kernels, mode;
    int32_t threads = 0;
    bool quick = false;
};

/// One model and its floor.
struct ModelFacts {
    std::string role, path; ///< "teacher" or "student"
    int64_t parameters = 0, layers = 0, kv_heads = 0, head_dim = 0, vocab = 0;
    BytesPerToken bytes;
    Spread bandwidth; ///< read bandwidth at W, with all threads, in this run
};

/// From the ids of a prompt to the first chosen token.
struct FirstToken {
    std::string mode;
    int64_t prompt = 0; ///< tokens
    Spread ms;
};

/// Decode after a prompt: greedy, forced length, no stop token.
struct DecodeSpeed {
    std::string mode;
    int64_t prompt = 0, tokens = 0; ///< tokens: N of (N - 1) / (t_last - t_first)
    Spread tokens_per_second;       ///< over the rounds
    Latency step_ms;                ///< of all rounds
    Spread bandwidth;               ///< as the model's, in turns with the rounds
    double floor_ms = 0;            ///< at the mean context and that bandwidth
    double share = 0;               ///< floor / median time of a step
};

/// A run that refreshes on a schedule.
struct RefreshedRun {
    int64_t prompt = 0, tokens = 0, every = 0, refreshes = 0;
    Latency all, plain, refresh; ///< of steps; of those without and those with a refresh
};

/// What a probe adds to a step.
struct ProbeCost {
    std::string name, what;
    int64_t prompt = 0;
    PairedCost cost;
};

/// What a refresh of so many tokens costs.
struct RefreshCost {
    int64_t delta = 0;
    Spread added_ms;              ///< to the step at whose boundary it is made
    Spread teacher_ms, splice_ms; ///< its parts
    double floor_ms = 0;          ///< of the teacher pass, by bytes
};

/// From the start of a process to its first token, and what it held in the end.
struct StartUp {
    Spread total_ms;
    std::vector<std::pair<std::string, Spread>> parts; ///< milliseconds, in order; their sum is the total
    Spread libraries_bytes;                            ///< VmHWM when main began
    Spread peak_bytes;                                 ///< VmHWM after a run of `tokens`
    int64_t tokens = 0;
};

struct BenchReport {
    Machine machine;
    Setup setup;
    std::vector<ModelFacts> models;
    std::optional<PairedCost> noise; ///< the same program twice: what is smaller than this is noise
    std::vector<FirstToken> first_token;
    std::vector<DecodeSpeed> decode;
    std::optional<RefreshedRun> refreshed;
    std::vector<ProbeCost> probes;
    std::vector<RefreshCost> refresh;
    std::vector<PolicyCostRow> cache_policies; ///< of a model of random weights, whatever the pair
    std::optional<StartUp> start_up;
    std::vector<double> refreshed_step_ms; ///< of the refreshed run, for a histogram; not in the table
    std::vector<std::string> notes;        ///< what was left out, and why
};

/// `frames` are the numbers of `make bench-frame`, or null.
[[nodiscard]] nlohmann::json to_json(const BenchReport& report, const nlohmann::json& frames);
[[nodiscard]] nlohmann::json to_json(const Spread& spread);
/// Lines for a person, 100 columns or so.
[[nodiscard]] std::string bench_table(const BenchReport& report, const nlohmann::json& frames);

} // namespace refreshlab::bench
