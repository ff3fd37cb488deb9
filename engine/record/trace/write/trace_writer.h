#pragma once

#include "engine/record/recording/recording.h"
#include "engine/record/runs/run_label.h"
#include "engine/record/trace/sqlite.h"
#include "engine/record/trace/write/note_rows.h"
#include "engine/record/trace/write/trace_rows.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace refreshlab::trace {

/// What TraceWriter::write_new throws when it was told to stop.
struct Cancelled {};

/// How far a run is written: what of its recording's logs, from the front.
struct WrittenUpTo {
    int64_t steps = 0;
    size_t filled = 0, refreshes = 0, passes = 0, commands = 0, drifts = 0, attention = 0, layer_rows = 0,
           cache_entries = 0, drafts = 0;
    /// A row of appends that may still grow, and how much of it is written.
    struct OpenRow {
        size_t entry = 0;
        int64_t steps = 0;
        friend bool operator==(const OpenRow&, const OpenRow&) = default;
    };
    std::array<std::optional<OpenRow>, 2> open_rows = {}; ///< of the student and the teacher
    uint64_t end_revision = 0;
    friend bool operator==(const WrittenUpTo&, const WrittenUpTo&) = default;
};

/// Whether a recording has all of that.
[[nodiscard]] bool has_written(const Recording& recording, const WrittenUpTo& up_to);

/// What a writer writes.
struct WritingScope {
    bool heavy = true; ///< attention rows and drift maps; false: somebody else puts them into the tables
    bool notes = true;
    int64_t steps_at_once = std::numeric_limits<int64_t>::max(); ///< of a run, in one write_new()
};

/// Writes into a trace what recordings have gained since the last time: here stands how far each run is written, in TraceRows how.
///
/// Threads  one: the writer thread. It reads recordings that another thread extends at the same time.
/// Errors   SqlError; the transaction is rolled back, and the writer must not be used any more.
class TraceWriter {
public:
    /// \param cancelled  looked at every few steps and at every attention row: true ends write_new with Cancelled, and
    ///                   the writer must not be used any more. May be null; must outlive the writer.
    explicit TraceWriter(sqlite::Database& db, const std::atomic<bool>* cancelled = nullptr,
                         const WritingScope& scope = {});

    /// A branch of a run of this file stores its own steps only, where the steps before its fork are that run's bit by bit; any other
    /// recording stores all of its steps.
    /// \param parent_id  in place of the recording's own; empty: as the recording says. It shares steps with that run where `fork_step`
    ///                   is the recording's own
    /// \param label      what a person knows the run by
    void add_run(std::shared_ptr<const Recording> recording, const std::string& parent_id = {},
                 int64_t fork_step = 0, RunLabel label = {});
    /// Goes on with a run whose header and rows up to there are in the hands of the reader already.
    /// \param up_to  the recording has all of that (asserted)
    void go_on_with(std::shared_ptr<const Recording> recording, const WrittenUpTo& up_to);
    /// One transaction over all runs, parents first; none if nothing is new.
    void write_new();

    /// A run that may still grow, and how far it is written.
    struct Written {
        int64_t number = 0; ///< runs.run
        int64_t vocabulary = 0;
        int64_t first_step = 1; ///< earlier ones are the parent's rows
        bool begun = false;     ///< its row of `runs` is written
        bool complete = false;  ///< the recording has no more at the moment
        WrittenUpTo up_to = {};
    };
    [[nodiscard]] std::vector<Written> runs() const;
    /// Nothing where this writer does not know the run, or has finished with it.
    [[nodiscard]] std::optional<Written> run(const std::string& id) const;
    /// Steps of the run added last that are in the file; -1: nothing of it.
    [[nodiscard]] int64_t newest_steps() const { return m_newest_steps; }

private:
    /// One run of the file and how far it is written.
    struct Run : WrittenUpTo {
        int64_t number = 0; ///< runs.run
        int64_t vocabulary = 0;
        std::shared_ptr<const Recording> recording;
        std::string parent_id; ///< empty: none
        int64_t fork_step = 0;
        RunLabel label;
        std::shared_ptr<const Recording>
            parent; ///< whose rows are shared; null: none, or no longer known here
        bool header_written = false;
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
    [[nodiscard]] static Written told(const Run& run, bool complete);
    [[nodiscard]] static bool rows_have_grown(const Run& run);
    [[nodiscard]] bool has_news(const Run& run) const;
    [[nodiscard]] bool write(Run& run);
    void write_header(Run& run);
    void write_step(Run& run, int64_t t);
    void write_signal(const Run& run, int64_t step, size_t signal, int64_t known, float value);
    /// \param boundary  events of a later one are left
    void write_events(Run& run, const Events& up_to, int64_t boundary);
    [[nodiscard]] int64_t write_cache_entry(const Run& run, size_t n);
    void write_attention(const Run& run, int64_t position, bool teacher);
    void write_end(Run& run, uint64_t revision);
    [[nodiscard]] uint64_t notes_revision(const Run& run) const;
    void write_notes(Run& run, uint64_t revision);
    void write_token(const Run& run, int32_t id);
    void forget_finished_runs();
    void check_cancelled() const;

    sqlite::Database& m_db;
    const std::atomic<bool>* m_cancelled; ///< written by whoever asked for the file
    const WritingScope m_scope;
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
