#pragma once

#include "engine/landscape/landscape.h"
#include "engine/record/trace/sqlite.h"

#include <cstdint>
#include <string>

/// The rows of the tables landscapes and landscape_rows. `run` is runs.run. Reading throws trace::Damage, SqlError and what malformed
/// JSON throws; writing SqlError.
namespace refreshlab::trace {

/// The landscape of one row of `landscapes`, without its rows.
[[nodiscard]] Landscape landscape_of(const sqlite::Statement& row, const std::string& what);
/// Adds the rows that the table has of this run.
void read_landscape_rows(sqlite::Database& db, int64_t run, Landscape& landscape);
/// In place of whatever landscape the run has there.
void begin_landscape(sqlite::Database& db, int64_t run, const LandscapeInfo& info);
void put_landscape_row(sqlite::Database& db, int64_t run, const LandscapeRow& row);

} // namespace refreshlab::trace
