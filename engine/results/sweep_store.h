#pragma once

#include "engine/record/trace/sqlite.h"
#include "engine/results/sweep_metrics.h"
#include "engine/results/sweep_plan.h"

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace refreshlab {

/// One finished run.
struct SweepResult {
    std::string id;
    std::string config;  ///< JSON of the configuration as it ran
    std::string summary; ///< JSON, summary_json()
    std::string
        digest; ///< of tokens, stop reason and all metrics that are not measured: equal for equal results
    MetricValues metrics;
};

/// One timed run, or pair of runs, of a cell.
struct SweepTimingResult {
    std::string id;
    int32_t pair = 0; ///< from 0
    int64_t tokens = 0;
    double ttft_ms = 0, total_ms = 0;
    std::optional<double> decode_tps;
    std::optional<double>
        none_total_ms; ///< of the run without policy beside it; nothing for rows without a policy
};

/// Results by cell id and timings by (cell id, pair).
struct SweepResults {
    std::unordered_map<std::string, MetricValues> runs;
    std::map<std::pair<std::string, int32_t>, SweepTimingResult> timings;
};

/// The SQLite file of a sweep (WAL, one transaction per finished run). Killing the process at any moment loses the runs in
/// flight and nothing else; several processes may work on one file of one machine.
///
/// File     tables meta, rows, prompts, cells (the plan), results, timings, failures; docs/reference/sweeps.md.
/// Threads  one at a time (the caller locks).
/// Errors   Error{bad_input}: not a sweep, of a newer version, not writable; Error{failure} when writing fails later.
class SweepStore {
public:
    /// Makes the file, or goes on with what it holds: results stay, the plan becomes this one.
    [[nodiscard]] static std::unique_ptr<SweepStore> open(const std::filesystem::path& path,
                                                          const SweepPlan& plan);
    /// What a file holds, with its plan.
    /// \param read_only  nothing is written; beside a file that no other program has open not even SQLite's companion files. When
    ///                   another program begins to write into such a file meanwhile, reading throws Error{failure}.
    [[nodiscard]] static std::unique_ptr<SweepStore> open_existing(const std::filesystem::path& path,
                                                                   bool read_only);
    /// Whether a file says of itself that it is a sweep; false for one that cannot be read.
    [[nodiscard]] static bool is_sweep(const std::filesystem::path& path);
    SweepStore(const SweepStore&) = delete;
    SweepStore& operator=(const SweepStore&) = delete;
    ~SweepStore();

    [[nodiscard]] const SweepPlan& plan() const { return m_plan; }
    [[nodiscard]] const std::filesystem::path& path() const { return m_path; }

    /// Ids that need no run any more.
    [[nodiscard]] std::unordered_set<std::string> finished();
    [[nodiscard]] bool has_result(const std::string& id);
    [[nodiscard]] bool has_timing(const std::string& id, int32_t pair);
    /// One transaction. A result that is there already stays; a failure of that id goes.
    void add(const SweepResult& result);
    void add(const SweepTimingResult& timing);
    /// Why a run could not be made; it is tried again the next time.
    void add_failure(const std::string& id, const std::string& problem);
    [[nodiscard]] std::vector<std::pair<std::string, std::string>> failures(); ///< id, problem; by id

    /// All, also of earlier plans, as they are at one moment (other processes may add some meanwhile).
    [[nodiscard]] SweepResults results();
    [[nodiscard]] std::vector<SweepResult> all_results();       ///< by id
    [[nodiscard]] std::vector<SweepTimingResult> all_timings(); ///< by id and pair
    /// By row of the plan: the configuration of one of its finished runs; empty where none is.
    [[nodiscard]] std::vector<std::string> row_configs();
    /// RunInfo::kernel_set of the results that belong to the plan, each once; "" of those that do not say it (made by
    /// programs that did not note it).
    [[nodiscard]] std::vector<std::string> kernel_sets();
    /// In one transaction, over what is there.
    void replace(const std::vector<SweepResult>& results, const std::vector<SweepTimingResult>& timings);

private:
    SweepStore(std::filesystem::path path, sqlite::Open mode);
    void create_tables();
    void write_plan(const SweepPlan& plan);
    [[nodiscard]] SweepPlan read_plan();
    void insert(const SweepResult& result, bool over);
    void insert(const SweepTimingResult& timing, bool over);
    template <typename Work>
    void transaction(const Work& work); ///< of writes
    template <typename Work>
    void snapshot(const Work& work); ///< of reads: all see one state of the file
    template <typename Work>
    void transaction(const char* begin, const Work& work);
    template <typename Work>
    auto reading(const Work& work);

    std::filesystem::path m_path;
    std::unique_ptr<sqlite::Database> m_db;
    std::string m_stamp; ///< of a file opened as unchanging; else empty
    SweepPlan m_plan;
};

/// Whether shards that were computed with kernel sets which round differently may stand in one table.
enum class KernelMix : uint8_t {
    refuse, ///< also where a file does not say it and another does
    allow, ///< each run keeps the id that names its kernels; where several files have a run, the first file's counts
};

/// Joins `inputs` into `out` (made if missing): the results of all, once each. Idempotent, and the order does not matter
/// (of shards whose kernel sets are mixed it decides whose run counts): of two measurements of one run the same one is kept
/// always. Throws Error{bad_input} when the plans differ, saying in what, or when one id has two different results; `out` is
/// as it was then.
/// \return a line about the runs that have the same digest in several files and other deterministic numbers, empty if there
///         are none: one of the files was changed after it was made. The first file's numbers are kept.
[[nodiscard]] std::string merge_sweeps(const std::filesystem::path& out,
                                       const std::vector<std::filesystem::path>& inputs,
                                       KernelMix kernels = KernelMix::refuse);

} // namespace refreshlab
