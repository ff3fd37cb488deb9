#pragma once

#include "engine/record/runs/run_label.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace refreshlab {

enum class RunStanding : uint8_t {
    live,     ///< the engine's: it goes on, or can
    left,     ///< was live; another run took its place before it ended
    finished, ///< it has ended
    file,     ///< read from a trace
};
[[nodiscard]] const char* to_string(RunStanding standing);

/// Names a run for as long as the tree lives; never given twice.
using RunKey = uint32_t;

/// One run of a tree. It stays one run when its recording is replaced by another that goes on where it ended.
struct RunNode {
    RunKey key = 0;
    std::string id; ///< of its newest recording
    std::optional<RunKey> parent;
    int64_t fork_step = 0; ///< steps [1, fork_step] are the parent's
    std::string name;      ///< a person may change it
    std::string
        change; ///< what is other than in the run that it came from: "policy none", "given by hand: \"blue\""
    RunStanding standing = RunStanding::live;
    int64_t steps = 0;
    uint32_t colour = 0; ///< of run_colours; the least used one when it came, unless its file says another
    std::vector<std::string> earlier_ids; ///< of the recordings that it went on from
};

/// Runs and what they were forked from, as plain data. Threads: one.
class RunTree {
public:
    /// Takes the fields of `run` but its key, its colour and its parent, which is the run that has, or had, `parent_id` as its id: none where
    /// no run has it. Without a name it gets "Run 3", by its key.
    RunKey add(RunNode run, std::string_view parent_id = {});
    /// The run's recording is now this one, which has all of its steps.
    void continue_as(RunKey key, std::string id);
    /// Its branches become branches of its own parent, as far as the fork goes. Nothing where there is no such run.
    void remove(RunKey key);
    void rename(RunKey key,
                std::string_view name); ///< as clean_run_name(); an empty name is the one of the beginning
    void recolour(RunKey key, uint32_t colour); ///< colour < run_colours (asserted)
    void update(RunKey key, RunStanding standing, int64_t steps);
    void set_change(RunKey key, std::string change);

    [[nodiscard]] const RunNode* find(RunKey key) const; ///< null: there is none
    /// The run of a recording, whether it is its newest or an earlier one.
    [[nodiscard]] const RunNode* find_id(std::string_view id) const;
    [[nodiscard]] const std::vector<RunNode>& runs() const { return m_runs; } ///< in the order of their keys
    [[nodiscard]] bool has_branches(RunKey key) const;

    struct Row {
        RunKey key = 0;
        int depth = 0; ///< 0: a root
    };
    /// Every run once, each followed by its branches; roots and branches in the order in which they came.
    [[nodiscard]] std::vector<Row> rows() const;
    /// Steps that two runs have in common because both come from one run; 0 where they do not.
    [[nodiscard]] int64_t shared_steps(RunKey a, RunKey b) const;

private:
    [[nodiscard]] RunNode* get(RunKey key);
    void add_rows(RunKey key, int depth, std::vector<Row>& rows) const;

    std::vector<RunNode> m_runs;
    RunKey m_next = 1;
};

} // namespace refreshlab
