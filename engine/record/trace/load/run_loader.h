#pragma once

#include "engine/record/recording/recording.h"
#include "engine/record/runs/run_label.h"
#include "engine/record/trace/load/memory_limit.h"
#include "engine/record/trace/load/run_source.h"
#include "engine/record/trace/load/trace_tokens.h"
#include "engine/record/trace/sqlite.h"

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace refreshlab::trace {

/// Makes recordings of what the tables of a trace say: of a whole file, or of rows that come a few at a time.
///
/// Threads  one, which is the writer of the recordings. Others may read them.
/// Errors   Damage, SqlError, and what malformed JSON throws
class RunLoader {
public:
    /// \param file        for messages
    /// \param file_bytes  bound what the runs may take in memory
    RunLoader(sqlite::Database& db, int64_t version, std::string file, uint64_t file_bytes);

    /// All runs of a file, parents before their branches.
    [[nodiscard]] std::vector<std::shared_ptr<Recording>> load();
    /// What the runs of load() are known by, in their order.
    [[nodiscard]] std::vector<RunLabel> labels(size_t count);

    /// Takes what stands in the tables beyond what was taken before: new tokens and runs, and of these runs their next rows. Whoever
    /// fills the tables empties them in between. A row of `runs` whose number is known tells its end alone;
    /// one of a new number with a known id begins that run again, in a recording of its own.
    /// \param numbers  runs with rows, ascending
    /// \return new recordings, in the order of their numbers
    [[nodiscard]] std::vector<std::shared_ptr<Recording>> take_more(std::vector<int64_t> numbers);
    /// From now on numbers of runs and vocabularies mean others; the recordings stay, as parents of those that come.
    void forget_numbers();
    /// A number of a run and one of a vocabulary for a recording that take_more() has made. \return false: it has not
    [[nodiscard]] bool go_on_with(const std::string& run_id, int64_t number, int64_t vocabulary);
    [[nodiscard]] std::shared_ptr<Recording> run(const std::string& id) const; ///< null: there is none
    /// Ids that occur beside the runs; one vocabulary with that run.
    [[nodiscard]] std::shared_ptr<TraceTokens> tokens_of(const std::string& run_id) const;

private:
    struct Run {
        std::shared_ptr<Recording> recording;
        std::shared_ptr<TraceTokens> tokens;
    };

    void load_tokens();
    void load_notes();
    /// What a row of `runs` says of a run, and of a branch what it shares.
    Run begin_run(const sqlite::Statement& row);
    void load_rows(int64_t number, Recording& recording, const TraceTokens& tokens) const;
    void load_end(const sqlite::Statement& row, Recording& recording) const;
    [[nodiscard]] RunInfo info_of_branch(const sqlite::Statement& row, RunInfo info, const std::string& id,
                                         const RunSource& source) const;
    [[nodiscard]] RunSource source_of(int64_t number, const TraceTokens& tokens) const;

    sqlite::Database& m_db;
    const int64_t m_version;
    const std::string m_file;
    MemoryLimit m_memory;
    bool m_comes = false; ///< by take_more()
    /// Tables of one number have the same ids: those of runs that go on, which had other numbers once.
    std::unordered_map<int64_t, std::vector<std::shared_ptr<TraceTokens>>> m_vocabularies;
    std::unordered_map<std::string, Run> m_runs;        ///< by id
    std::unordered_map<int64_t, std::string> m_numbers; ///< ids
    std::unordered_map<std::string, size_t> m_places;   ///< in the list of load(), by id
    std::unordered_set<std::string> m_parents;          ///< that earlier runs name
};

} // namespace refreshlab::trace
