#pragma once

#include "engine/record/recording/recording.h"
#include "engine/record/trace/load/memory_limit.h"
#include "engine/record/trace/load/trace_tokens.h"
#include "engine/record/trace/sqlite.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace refreshlab::trace {

inline constexpr auto max_steps = static_cast<int64_t>(ChunkedLog<StepRecord>::max_size());

/// A run of a trace that is being read: where its rows are, and what their values are checked against.
struct RunSource {
    sqlite::Database& db;
    int64_t version;       ///< schema of the file
    int64_t number;        ///< runs.run
    std::string_view file; ///< for messages
    const TraceTokens& tokens;
    const MemoryLimit& memory;
    bool comes = false; ///< over a connection, a few rows at a time

    /// All columns of a table by name, in the order of trace::tables(), whatever the file's version; of this run: its number is
    /// parameter 0.
    [[nodiscard]] std::string select(std::string_view table, std::string_view order) const;
    /// An id that occurs stands in `tokens` (else Damage); -1 is none.
    [[nodiscard]] int32_t known_id(int32_t id) const;
    [[nodiscard]] std::string name() const; ///< "run 2 of FILE"
};

// Bounds of what speaks of a run: its steps and positions, and those of the step in flight, which comes with the next
// round of the writer. A killed writer leaves no more than that.
[[nodiscard]] int64_t last_boundary(const Recording& recording);
/// Columns of the caches at a boundary.
[[nodiscard]] int64_t columns_at(const Recording& recording, int64_t boundary);
[[nodiscard]] int64_t largest_id(const Recording& recording);

/// Parts of a run, out of their tables into a recording that has the header, and of a branch what it shares; in this order, since each
/// is checked against those before it. Throw Damage, SqlError, and what malformed JSON throws.
void load_steps(const RunSource& run, Recording& recording);  ///< steps, topk, signals, layers
void load_events(const RunSource& run, Recording& recording); ///< refreshes, passes, commands, drift
void load_cache(const RunSource& run, Recording& recording);
void load_attention(const RunSource& run, Recording& recording);

} // namespace refreshlab::trace
