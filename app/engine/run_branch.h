#pragma once

#include "app/options/run_command_options.h"
#include "engine/control/command.h"
#include "engine/landscape/landscape_store.h"
#include "engine/record/trace/trace_store.h"
#include "engine/results/scope_map_store.h"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace refreshlab::app {

/// A recorded run, and the step from which on another way is gone.
struct Branch {
    std::string trace;
    LabelledRuns file; ///< all that the trace holds
    std::shared_ptr<const Recording> run;
    int64_t step = 0;             ///< the first that may differ; those before it are the run's
    command::RecordedRun rebuild; ///< the run up to step - 1
    RunConfig reached;            ///< settings before that step
    std::vector<TimedCommand>
        changes; ///< at that step: what the run itself was told there, then what is asked for
};

/// Reads the trace and what the command line changes. Throws Error{bad_input}: no TRACE@STEP, no such run or step, a change that a
/// run cannot take while it goes on.
[[nodiscard]] Branch read_branch(const BranchOptions& asked, const RunOptions& run);

/// The trace that a branch is recorded into: all that the branched trace holds, landscapes and names too, and the branch, which stores its own
/// steps only. It grows while the branch goes on. Where it is the branched trace itself, it grows under a name beside that one and takes its
/// place at the end; so the trace stays as it was whatever fails, and a killed program leaves the other file, which is a trace.
class BranchFile {
public:
    /// Throws Error{bad_input}: the target cannot be written or is in use, a landscape of the trace is damaged.
    /// \param branch  outlives this
    BranchFile(const Branch& branch, const std::string& target);
    ~BranchFile(); ///< a file that was to take the trace's place and did not is removed
    BranchFile(const BranchFile&) = delete;
    BranchFile& operator=(const BranchFile&) = delete;

    /// Writes what the trace holds. Throws Error. \return where the branch is to be recorded
    [[nodiscard]] TraceStore& begin();
    /// The branch is recorded: closes the file and gives it its name. Throws Error{failure}, naming the file that has the branch then.
    void finish();
    /// All of it again, for a file that was removed while it was recorded. Throws Error.
    void save_again(const std::shared_ptr<const Recording>& made) const;
    [[nodiscard]] TraceStore& store() { return *m_store; } ///< until finish()
    /// It is to take the place of the branched trace.
    [[nodiscard]] bool replaces() const { return m_path != m_target; }

private:
    [[nodiscard]] std::vector<SavedRun> runs() const;
    void store_beside(const std::filesystem::path& file) const;

    const Branch& m_branch;
    std::filesystem::path m_target, m_path;    ///< the name at the end, the name until then
    std::vector<StoredLandscape> m_landscapes; ///< what stands beside the runs of the trace
    std::vector<StoredScopeMap> m_scope_maps;
    std::unique_ptr<TraceStore> m_store;
};

} // namespace refreshlab::app
