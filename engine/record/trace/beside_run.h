#pragma once

#include "engine/record/trace/sqlite.h"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

namespace refreshlab::trace {

/// What is put beside a run of a finished trace: its notes, its landscape, its scope map.
struct BesideRun {
    const char* doing;     ///< "writing notes"; Error::doing
    const char* what;      ///< "notes": what a trace of an old schema has no place for
    const char* elsewhere; ///< what to do where this file cannot take it: "write to another file"
    /// Makes the tables in a trace that lacks them: bring_up_to_date(), or add_missing_tables() of a schema.
    /// \return false where it cannot
    bool (*make_room)(sqlite::Database& db);
};

/// Lets `write` write beside the run with this id, in one transaction: a kill, an exception or a full disk leave what was there.
/// \param write  gets the number of the run
/// Throws Error{bad_input}: no trace, no such run, another program has it locked, read-only, a trace of a schema without room; what `write` throws;
/// Error{failure} for a full disk.
void write_beside_run(const std::filesystem::path& path, const std::string& run_id, const BesideRun& about,
                      const std::function<void(sqlite::Database& db, int64_t run)>& write);

} // namespace refreshlab::trace
