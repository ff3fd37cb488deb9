#pragma once

#include "engine/record/recording/recording.h"
#include "engine/record/runs/run_tree.h"
#include "ui/scene/runs/run_estimate.h"
#include "ui/scene/runs/run_metrics.h"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace refreshlab::ui {

/// Every run of the window: the engine's, those that it had before, branches, opened traces. One of them is live, one is looked at,
/// any are ticked for comparison. Panels show the one that is looked at (UiContext::recording), and beside it the ticked ones.
///
/// A rewind to the newest step goes on with the same run; any other new recording is a run of its own. Of runs that were left, the
/// newest `most_kept` stay, and what a person named, ticked or looks at, and what others branch from. A run that was left before it
/// made a step of its own is forgotten.
///
/// Threads  the UI thread.
/// Cost     of a frame: O(new steps of all runs).
class RunSet {
public:
    static constexpr size_t most_kept = 40;

    struct Run {
        std::shared_ptr<const Recording> recording; ///< never null
        bool ticked = false;                        ///< compared with the one that is looked at
        bool named = false;                         ///< by a person
        bool from_file = false;
        RunMetrics metrics;
        std::optional<RunEstimate> estimate; ///< what was expected of it
        std::optional<size_t> told;          ///< commands that were logged when RunNode::change was made
    };

    /// Start of a frame: what the engine has now (null: nothing yet), and whether it has ended.
    void update(const std::shared_ptr<const Recording>& live);
    /// The runs of a trace, parents first as load_trace() gives them; the last one is looked at then. Runs that are here already stay
    /// as they are. \param name    of the file; of several runs "name, run 2"
    /// \param labels  of the runs in their order, or none: a name that stands there is one that a person gave
    void add_file(std::span<const std::shared_ptr<Recording>> runs, const std::string& name,
                  std::span<const RunLabel> labels = {});
    /// The same of one that was loaded elsewhere.
    void add_file(const std::shared_ptr<const Recording>& run, const std::string& name);
    /// What a file that add_file() has taken holds now. New runs come into the list; those that have grown take the place of theirs, unless
    /// has_own(the one that is here). \param look_on  the newest is looked at from now on, where the newest that was here is
    /// \return those that were taken
    std::vector<std::shared_ptr<Recording>> grow_file(std::span<const std::shared_ptr<Recording>> runs,
                                                      const std::string& name,
                                                      std::span<const RunLabel> labels,
                                                      const std::function<bool(const Recording&)>& has_own,
                                                      bool look_on);
    /// Another recording of a run, with signals more, in the place of the one that stands there; step and view stay. Nothing happens to
    /// the live run, whose recording is the engine's, nor where the run is gone.
    void put_recording(RunKey key, std::shared_ptr<const Recording> recording);
    /// The live run cannot be removed: false then, and nothing happens.
    bool remove(RunKey key);
    /// What is expected of a run that is being started: it stands beside that run's numbers from its beginning on. Another run that
    /// begins instead does not get it.
    void expect(RunEstimate estimate) { m_expected = std::move(estimate); }
    /// What was live may be forgotten when another takes its place: the demonstration that begins again.
    void forget_live_when_left() { m_forget_live = m_live; }

    [[nodiscard]] const RunTree& tree() const { return m_tree; }
    [[nodiscard]] const Run* find(RunKey key) const; ///< null: there is none
    [[nodiscard]] std::shared_ptr<const Recording> recording(RunKey key) const;
    [[nodiscard]] std::optional<RunKey> live() const { return m_live; }
    void rename(RunKey key, std::string_view name);   ///< an empty name is the one of the beginning
    [[nodiscard]] uint32_t colour(RunKey key) const;  ///< RunNode::colour; 0: there is no such run
    [[nodiscard]] std::string name(RunKey key) const; ///< empty: there is no such run
    /// Its name, unless empty, and its colour, where there is one.
    void put_label(RunKey key, const RunLabel& label);
    /// What a file keeps of it: the name that a person gave, and its colour. Empty: there is no such run.
    [[nodiscard]] RunLabel label(RunKey key) const;

    // --- what panels show ---
    /// Looks at this run, at the same step and in the same view; at the live one it follows the engine from run to run.
    void look_at(RunKey key);
    /// look_at() has been called since the last time: for whoever keeps step and view.
    [[nodiscard]] bool take_flip() { return std::exchange(m_flipped, false); }
    void look_live();
    [[nodiscard]] std::optional<RunKey> looked_at() const { return m_looked ? m_looked : m_live; }
    /// The run that is shown in place of the engine's; null while the engine's is shown.
    [[nodiscard]] std::shared_ptr<const Recording> away() const;
    /// The one that the blink key goes to: the next ticked one; without any, the one that was looked at before.
    [[nodiscard]] std::optional<RunKey> other() const;

    // --- comparison ---
    void tick(RunKey key, bool on);
    [[nodiscard]] bool ticked(RunKey key) const;
    void untick_all();
    /// Ticked runs without the one that is looked at, in the order of the tree. A snapshot of update() and of every change since.
    [[nodiscard]] std::vector<RunKey> compared() const;
    bool by_position = false; ///< runs are laid over each other by position, not by step

    /// Steps by which `key` is moved to the right over the run that is looked at: 0, or the difference of their prompts by position.
    [[nodiscard]] int64_t shift_of(RunKey key) const;

private:
    RunKey add(std::shared_ptr<const Recording> recording, std::string name, bool from_file);
    /// One of a file's runs, under the name that it has there.
    RunKey add_of_file(std::span<const std::shared_ptr<Recording>> runs, size_t index,
                       const std::string& name, std::span<const RunLabel> labels);
    void leave(RunKey key);
    void thin_out();
    [[nodiscard]] bool may_be_forgotten(RunKey key) const;
    void refresh_nodes();

    RunTree m_tree;
    std::map<RunKey, Run> m_runs;
    std::optional<RunKey> m_live, m_looked, m_before; ///< m_looked: nothing = the live one, whichever that is
    std::optional<RunKey> m_forget_live;
    std::optional<RunEstimate> m_expected;
    bool m_flipped = false;
};

/// What is other in a run, in a few words: of a branch the commands at its fork, of a root what differs in its configuration.
/// \param reference  that a root is compared with; null: none
[[nodiscard]] std::string what_changed(const Recording& run, const Recording* reference);

} // namespace refreshlab::ui
