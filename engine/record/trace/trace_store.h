#pragma once

#include "engine/record/recording/recording.h"
#include "engine/record/runs/run_label.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace refreshlab {

/// Writes recordings to one SQLite file while they grow (WAL; schema version and application id inside) on a thread of
/// its own. What is in the file outlives the process, however that ends; steps_written() tells how much it is. The
/// writer works in rounds, with a rest of 20 ms between them unless somebody waits. Each round writes all that came since the last
/// one, so it lags by a rest and a round at most.
///
/// Threads  All methods: the decode thread (or any one thread). The writer thread reads the recordings and owns the
///          database. A full disk or a locked file stops writing, not the decode: error() tells.
/// File     tables meta, runs, steps, signals, topk, refreshes, passes, commands, drift, attention, tokens;
///          landscapes, landscape_rows, labels, notes; documented in docs/reference/trace-format.md.
class TraceStore {
public:
    /// Throws Error{bad_input} if the path cannot be written, if it holds something that is no trace of ours (an existing
    /// trace is replaced only when `overwrite`), or if another program has the trace open. An existing trace stays as it is until
    /// the first run is attached; a new file that got no run is removed again. Of several programs that create one path at
    /// the same time one wins; the others find it in use, here or when their first run comes.
    [[nodiscard]] static std::unique_ptr<TraceStore> create(const std::filesystem::path& path,
                                                            bool overwrite = true);
    ~TraceStore(); ///< flushes and joins

    /// Adds a run (a rewind makes another one, with the same root). Written from now on whenever notify() is called.
    /// \param label  what a person knows it by
    void attach(std::shared_ptr<const Recording> recording, RunLabel label = {});
    void notify(); ///< something was appended; never blocks
    void flush();  ///< returns when everything appended so far is in the file (or error() is set)
    /// Waits, at most for this time, until what notify() was last called for is in the file (or error() is set).
    /// \return how many steps of the run attached last are in the file; -1: not even its first token
    int64_t steps_written(std::chrono::milliseconds at_most = {});
    [[nodiscard]] std::string error() const; ///< empty while all is well
    [[nodiscard]] bool moved() const; ///< that error: the file was removed, renamed or replaced meanwhile

private:
    struct Impl;
    explicit TraceStore(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> m_impl;
};

/// All runs of a trace, the newest last. Throws Error{bad_input}: no such file, "not a RefreshLab trace", "written by a
/// newer version (schema 7, this program reads up to 1)", damaged. Opens read-only; a live WAL is read up to now.
[[nodiscard]] std::vector<std::shared_ptr<Recording>> load_trace(const std::filesystem::path& path);

/// The same with what its runs are known by.
struct LabelledRuns {
    std::vector<std::shared_ptr<Recording>> runs;
    std::vector<RunLabel> labels; ///< of each run, in their order; empty where none was given
};
[[nodiscard]] LabelledRuns load_labelled_trace(const std::filesystem::path& path);

/// Saves one finished or paused recording (and its ancestors' shared steps) as a trace: written beside `path`, put in
/// its place when it is whole, so a failure or a cancelled save leaves what was there and nothing half.
/// \param cancelled  true stops it within a few steps; may be set by another thread
/// \return false when it was cancelled
/// Throws Error: the target cannot be written or is something else (bad_input); a full disk (failure).
/// Cost: about the time to write the bytes; attention rows are most of them.
bool save_trace(const std::filesystem::path& path, const std::shared_ptr<const Recording>& recording,
                const std::atomic<bool>* cancelled = nullptr);

/// A recording of several that go into one file, and which of the others it is a branch of.
struct SavedRun {
    std::shared_ptr<const Recording> recording;
    std::string
        parent_id; ///< steps [1, fork_step] are those of the run with this id; empty: as the recording says itself
    int64_t fork_step = 0;
    RunLabel label = {}; ///< kept in the file; its name goes through clean_run_name()
};
/// The same with several runs, each once: a branch whose fork is the recording's own stores its own steps only.
/// \param runs  parents before their branches, ids differ                                     (asserted)
bool save_traces(const std::filesystem::path& path, std::span<const SavedRun> runs,
                 const std::atomic<bool>* cancelled = nullptr);

/// Gives a whole trace that nobody has open the name of another, or of nothing. What stood there is replaced at once, and stays as
/// it was on any failure; so does the new one.
/// Throws Error{bad_input}: the target is something else, in use, not writable; Error{failure}: the new one cannot be read as a
/// trace, or the machine is at fault.
void replace_trace(const std::filesystem::path& path, const std::filesystem::path& by);

} // namespace refreshlab
