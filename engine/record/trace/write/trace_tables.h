#pragma once

#include "engine/record/trace/sqlite.h"

#include <cstdint>

namespace refreshlab::trace {

/// How a file is written.
enum class Writing : uint8_t {
    live, ///< WAL: readers see it grow, and what was committed outlives a killed process
    once, ///< in one go into a new file: no journal, nothing waits for the disk
};

/// Makes the tables of an empty trace file. Throws SqlError.
void create_tables(sqlite::Database& db, Writing writing = Writing::live);

} // namespace refreshlab::trace
