#pragma once

#include "engine/record/recording/recording.h"
#include "engine/record/runs/run_label.h"
#include "engine/record/trace/sqlite.h"
#include "engine/record/trace/write/note_rows.h"
#include "engine/record/trace/write/trace_rows.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace refreshlab::trace {

/// What TraceWriter::write_new throws when it was told to stop.
struct Cancelled {};

/// Writes into a trace what recordings have gained since the last time: here stands how far each run is written, in TraceRows how.
///
/// Threads  one: the writer thread. It reads recordings that another thread extends at the same time.
/// Errors   SqlError; the transaction is rolled back, and the writer must not be used any more.
class TraceWriter {
public:
    /// \param cancelled  looked at every few steps and at every attention row: true ends write_new with Cancelled, and
    ///                   the writer must not be used any more. May be null; must outlive the writer.
    explicit TraceWriter(sqlite::Database& db, const std::atomic<bool>* cancelled = nullptr);

    /// A branch of a run of this file stores its own steps only, where the steps before its fork are that run's bit by bit; any other
    /// recording stores all of its steps.
    /// \param parent_id  in place of the recording's own; empty: as the recording says. It shares steps with that run where `fork_step`
    ///                   is the recording's own
    /// \param label      what a person knows the run by
    void add_run(std::shared_ptr<const Recording> recording, const std::string& parent_id = {},
                 int64_t fork_step = 0, RunLabel label = {});
    /// One transaction over all runs, parents first; none if nothing is new.
    void write_new();
    /// Steps of the run added last that are in the file; -1: nothing of it.
    [[nodiscard]] int64_t newest_steps() const { return m_newest_steps; }

private:
    /// One run of the file and how far it is written.
    struct Run {
        int64_t number = 0; ///< runs.run
        int64_t vocabulary = 0;
        std::shared_ptr<const Recording> recording;
        std::string parent_id; ///< empty: none
        int64_t fork_step = 0;
        RunLabel label;
        std::shared_ptr<const Recording>
            parent; ///< whose rows are shared; null: none, or no longer known here
        bool header_written = false;
        int64_t steps = 0;
        size_t filled = 0, refreshes = 0, passes = 0, commands = 0, drifts = 0, attention = 0, layer_rows = 0,
               cache_entries = 0, drafts = 0;
        /// A row of appends that may still grow, and how much of it is written; of the student and the teacher.
        struct OpenRow {
            size_t entry = 0;
            int64_t steps = 0;
        };
        std::array<std::optional<OpenRow>, 2> open_rows;
        uint64_t end_revision = 0;
        bool alone =
            true; ///< its parent is not in this file: what it sees of the parent's notes is written with it
        uint64_t notes_revision = 0;
        int64_t first_step = 1; ///< earlier ones are the parent's
        double later_ms =
            0; ///< added to the branch's times, so that they go on from the parent's at the fork
    };

    /// How many of each to write.
    struct Events {
        size_t refreshes = 0, passes = 0, commands = 0, drifts = 0, cache_entries = 0, attention = 0,
               drafts = 0;
    };

    [[nodiscard]] int64_t number_of(const std::shared_ptr<const TokenTable>& table);
    static void leave_to_parent(Run& run, const Recording& recording);
    [[nodiscard]] static bool rows_have_grown(const Run& run);
    [[nodiscard]] bool has_news(const Run& run) const;
    void write(Run& run);
    void write_header(Run& run);
    void write_step(Run& run, int64_t t);
    void write_signal(const Run& run, int64_t step, size_t signal, int64_t known, float value);
    void write_events(Run& run, const Events& up_to);
    [[nodiscard]] int64_t write_cache_entry(const Run& run, size_t n);
    void write_attention(const Run& run, int64_t position, bool teacher);
    void write_end(Run& run, uint64_t revision);
    [[nodiscard]] static uint64_t notes_revision(const Run& run);
    void write_notes(Run& run, uint64_t revision);
    void write_token(const Run& run, int32_t id);
    void forget_finished_runs();
    void check_cancelled() const;

    sqlite::Database& m_db;
    const std::atomic<bool>* m_cancelled; ///< written by whoever asked for the file
    TraceRows m_rows;
    NoteRows m_notes;
    std::vector<Run> m_runs;
    std::unordered_map<std::string, int64_t> m_vocabulary_of;      ///< by the ids of all runs of the file
    std::vector<std::shared_ptr<const TokenTable>> m_vocabularies; ///< index = vocabulary number
    std::vector<std::unordered_set<int32_t>> m_known_tokens;       ///< of each vocabulary
    int64_t m_next_number = 1;
    int64_t m_newest_steps = -1;
};

} // namespace refreshlab::trace
