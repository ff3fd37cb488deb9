#include "engine/record/trace/write/trace_tables.h"

#include "engine/record/trace/schema/trace_schema.h"

#include <fmt/format.h>

namespace refreshlab::trace {

void create_tables(sqlite::Database& db, Writing writing) {
    if (writing == Writing::once) {
        db.exec("PRAGMA journal_mode = OFF");
        db.exec("PRAGMA synchronous = OFF");
        db.exec("PRAGMA locking_mode = EXCLUSIVE");
        db.exec(
            "PRAGMA cache_size = -65536"); // 64 MiB: pages of the ordered tables are filled before they are written
    }
    // Before the switch to WAL, so that the file tells what it is even when a killed process left all else in the WAL.
    db.exec("BEGIN IMMEDIATE");
    db.exec(create_sql().c_str());
    db.exec("INSERT INTO meta VALUES ('format', 'RefreshLab trace; tables and columns: "
            "docs/reference/trace-format.md')");
    db.exec("INSERT INTO meta VALUES ('created_at', strftime('%Y-%m-%dT%H:%M:%SZ', 'now'))");
    db.exec(fmt::format("PRAGMA application_id = {}", application_id).c_str());
    db.exec(fmt::format("PRAGMA user_version = {}", schema_version).c_str());
    db.exec("COMMIT");
    if (writing == Writing::once) return;
    db.exec(
        "PRAGMA journal_mode = WAL"); // where the file system has none, the rollback journal does, with more waiting
    db.exec("PRAGMA synchronous = NORMAL");
    (void)db.integer(
        "SELECT count(*) FROM runs"); // opens the WAL: from now on others can tell that the file is in use
}

} // namespace refreshlab::trace
