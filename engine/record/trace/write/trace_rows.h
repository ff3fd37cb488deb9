#pragma once

#include "engine/record/recording/recording.h"
#include "engine/record/runs/run_label.h"
#include "engine/record/trace/sqlite.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace refreshlab::trace {

/// What the table runs says of a run before it has ended.
struct RunRow {
    std::string id, parent_id; ///< parent_id empty: none
    int64_t fork_step = 0;
    int64_t first_step = 1; ///< earlier ones are the parent's rows
    /// Of the parent's rows, those that are the run's as well.
    size_t refreshes = 0, passes = 0, commands = 0, drifts = 0, cache_entries = 0;
    int64_t vocabulary = 0;
    std::string info; ///< JSON, info_to_text()
};

/// Puts rows into the tables of a trace, a method a table: here stands which value goes into which column. A row takes the place of one
/// of the same key. `run` is runs.run, `n` counts the events of one kind of a run from 0.
///
/// Errors   SqlError
class TraceRows {
public:
    explicit TraceRows(sqlite::Database& db);

    void run(int64_t run, const RunRow& row);
    /// \param later_ms  added to its times
    void end(int64_t run, const RunEnd& end, double later_ms);
    void label(int64_t run, const RunLabel& label); ///< no row where it says nothing
    void step(int64_t run, const StepRecord& record, double later_ms);
    void candidate(int64_t run, int64_t step, size_t rank, int32_t token_id, float prob);
    void signal(int64_t run, int64_t step, std::string_view signal, int64_t known, float value);
    void layers(int64_t run, int64_t step, std::string_view signal, std::span<const float> values);
    void refresh(int64_t run, size_t n, const RefreshEvent& event);
    void pass(int64_t run, size_t n, const PassEvent& event);
    void draft(int64_t run, size_t n, const DraftEvent& event);
    void command(int64_t run, size_t n, const CommandEvent& event);
    /// \param steps  events of the entry's row that are told
    void cache(int64_t run, size_t n, const CacheEntry& entry, int64_t steps);
    /// Values that are not here are absent() ones.
    void drift(int64_t run, size_t n, const DriftMap& drift);
    /// A row without values: they come with another one, for a reader that takes rows one after the other.
    void drift_shape(int64_t run, size_t n, const DriftMap& drift);
    /// \param rows  null: the run has dropped what it shared with its parent
    void attention(int64_t run, int64_t position, bool teacher, const AttentionRows* rows);
    void delete_attention(int64_t run, int64_t position, bool teacher);
    void token(int64_t vocabulary, int32_t id, std::string_view bytes, bool special);

private:
    void begin_drift(int64_t run, size_t n, const DriftMap& drift);

    sqlite::Statement m_run, m_end, m_label, m_step, m_candidate, m_signal, m_layers, m_refresh, m_pass,
        m_draft, m_command, m_cache, m_drift, m_attention, m_delete_attention, m_token;
};

} // namespace refreshlab::trace
