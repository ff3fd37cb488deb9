#pragma once

#include "engine/results/sweep_store.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace refreshlab {

struct ModelPair;
struct RunRequest;

struct SweepOptions {
    int jobs = 0;                     ///< runs at a time; 0: a CPU core each, on GPUs one for each device
    std::vector<std::string> devices; ///< workers take them in turn; empty: as the spec's "base" says
    SweepShard shard;
    std::shared_ptr<const ModelPair> pair =
        {}; ///< what of it serves is not read again; null: all models are read
};

struct SweepProgress {
    int64_t done = 0,
            total = 0;     ///< of this shard: runs, and timed pairs; those found in the file count as done
    int64_t computed = 0;  ///< by this call
    int64_t elsewhere = 0; ///< that another process computes; only when nothing else is left to do here
    double fraction = 0;   ///< by tokens
    double elapsed_s = 0;
    std::optional<double> left_s; ///< nothing before the first run is finished
};

struct SweepOutcome {
    int64_t total = 0, found = 0, computed = 0, failed = 0;
    int64_t elsewhere = 0; ///< stopped while another process computed them on this file
    bool stopped = false;  ///< before all was there
    [[nodiscard]] bool complete() const { return found + computed == total; }
};

/// Fingerprints of the folders that `spec` names, and the kind of its devices. Throws Error{bad_input}.
[[nodiscard]] SweepModels sweep_models(const SweepSpec& spec, const SweepOptions& options);

/// Computes what is missing in the store. First the runs, `jobs` at a time, each a session of its own with its share of the
/// cores (results do not depend on the number of threads) over one shared pair per device; then the timed pairs, one at a
/// time with all cores.
/// Runs that another process computes on the same file are waited for at the end: they count as found when they are
/// there, and are computed here when that process gives them up (stopped, killed, failed).
/// A run that fails (a prompt that is too long) is noted in the store and the others go on.
/// \param stop      set by a signal handler: the runs in flight are given up
/// \param progress  called by any thread, one at a time, after each run; also while models load (done = 0)
/// \param loading   progress of loading: fraction, what
[[nodiscard]] SweepOutcome run_sweep(const SweepSpec& spec, const SweepPlan& plan, SweepStore& store,
                                     const SweepOptions& options, const std::atomic<bool>& stop,
                                     const std::function<void(const SweepProgress&)>& progress,
                                     const std::function<void(double, const std::string&)>& loading = {});

/// One run with its closing pass, as a result. Nothing if `stop` was set meanwhile. Throws Error as RunDriver does.
[[nodiscard]] std::optional<SweepResult> run_cell(RunRequest request, const std::string& id,
                                                  const std::atomic<bool>& stop);

} // namespace refreshlab
