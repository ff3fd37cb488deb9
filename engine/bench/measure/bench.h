#pragma once

#include "engine/bench/report/bench_report.h"
#include "engine/control/run_config.h"
#include "engine/session/pair/run_execution.h"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace refreshlab {
struct ModelPair;
}

namespace refreshlab::bench {

/// How much is measured.
struct BenchOptions {
    std::vector<std::string>
        sections; ///< of section_names (engine/results); empty: all but cache_policies, which takes minutes
    std::vector<int64_t> prompts = {128, 2048}; ///< of the first token and of probes; cut to the context
    std::vector<int64_t> contexts = {128, 512, 2048}; ///< prompts of the decode curve; cut to the context
    int64_t tokens = 512;                             ///< of a timed decode
    int64_t rounds = 5;                               ///< of everything that is no comparison
    int64_t warm_ups = 3;                             ///< before the first round
    int64_t pairs = 9, block = 32; ///< of comparisons: pairs, and steps of a side in one pair
    std::vector<int64_t> deltas = {8, 16, 32, 64, 128};
    int64_t refresh_every = 64;                         ///< of the refreshed run
    std::vector<std::string> policies;                  ///< cache methods that are measured; empty: all
    std::vector<int64_t> policy_entries = {2048, 8192}; ///< lengths at which cache policies are measured
    int64_t policy_steps = 16;                          ///< timed for each
    double policy_seconds = 30;                         ///< after which a policy has no further step
    std::filesystem::path scratch;                      ///< a folder for the trace of the recording probe

    /// Some seconds on the bundled pair: does it work at all? Its numbers are not to be quoted.
    [[nodiscard]] static BenchOptions quick();
};

/// Throws Error{bad_input}: an unknown section (with the known ones) or cache method, numbers below 1, fewer than 5 pairs, no folder.
void check_bench_options(const BenchOptions& options);

/// Told before each piece of work; false cancels (Error "cancelled" is thrown).
using BenchProgress = std::function<bool(const std::string& what)>;

/// Measures a loaded pair by the rules of development/performance.md, section 8: warm-up, forced length, greedy, no stop token,
/// medians. What the pair or its mode has not (refreshes without a teacher) is left out, with a note.
/// start_up is left empty: it needs the program (measure/start_up.h).
/// \param config  models, device, dtype, threads, kernels and mode; the rest is the benchmark's own
/// Threads  one. Throws as sessions do.
[[nodiscard]] BenchReport run_bench(const std::shared_ptr<const ModelPair>& pair, const RunConfig& config,
                                    const Execution& execution, const BenchOptions& options,
                                    const BenchProgress& progress = {});

/// One decode of given ids, for a comparison with other programs: greedy, forced length, no stop token, no probe.
struct PlainDecode {
    std::vector<int32_t> ids;                              ///< y_1 .. y_N
    std::vector<double> tokens_per_second, first_token_ms; ///< of each round
};
/// \param mode    who decodes
/// \param prompt  inside the vocabulary and, with `tokens` more, inside the context                  (Error{bad_input})
/// \param rounds, warm_ups  whole decodes, from the prefill on
[[nodiscard]] PlainDecode decode_only(const std::shared_ptr<const ModelPair>& pair, const RunConfig& config,
                                      const Execution& execution, const std::vector<int32_t>& prompt,
                                      int64_t tokens, int64_t rounds, int64_t warm_ups);

} // namespace refreshlab::bench
