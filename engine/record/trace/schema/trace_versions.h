#pragma once

#include "engine/record/trace/sqlite.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

/// Traces of older schemas: how they are read, and what is added to them. Which column came when stands with the column, in
/// trace_schema.cpp.
namespace refreshlab::trace {

/// "SELECT <all columns of now, by name and in their order> FROM <name>", of a trace of schema `version` <= schema_version.
/// So an older trace is brought up to date while it is read, and the file stays as it is.
[[nodiscard]] std::string select_sql(std::string_view name, int64_t version);

/// Gives an older trace the tables of schema `up_to` that it lacks, empty, where it lacks nothing else. Its version rises to that of
/// the newest of them and no further, so that programs of that version go on reading it. Within a transaction of the caller.
/// \return false, and nothing is changed, where columns are missing as well
bool add_missing_tables(sqlite::Database& db, int64_t up_to);

/// Gives a trace of schema 3 or later every table and column that it lacks, as it would be read without them. Programs before the present
/// schema do not read it any more. Within a transaction of the caller.
/// \return false, and nothing is changed, for an older one: its schema tells what its writer could not know
bool bring_up_to_date(sqlite::Database& db);

/// Signals that traces before schema 3, which do not name them, may have.
[[nodiscard]] const std::vector<std::string>& signals_before_schema_3();

} // namespace refreshlab::trace
