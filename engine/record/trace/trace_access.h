#pragma once

#include "engine/record/trace/sqlite.h"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <stdexcept>

namespace refreshlab::trace {

/// Contents that no RefreshLab has written.
struct Damage : std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// A trace that is open for reading, in one snapshot.
struct OpenTrace {
    sqlite::Database& db;
    int64_t version = 0; ///< schema; its tables and columns are those of that version
    uint64_t bytes = 0;  ///< that the file really has on the disk
};

/// Opens a trace that anybody may have written and lets `read` read it: read-only, a live WAL up to now, with a bound on the work
/// that a file of its size can need. Throws Error{bad_input}: no such file, "not a RefreshLab trace", "written by a newer
/// version (schema 7, this program reads up to 1)", damaged. What `read` throws (Damage, SqlError, malformed JSON) becomes
/// "damaged: ..." as well.
void read_trace(const std::filesystem::path& path, const std::function<void(const OpenTrace&)>& read);

} // namespace refreshlab::trace
