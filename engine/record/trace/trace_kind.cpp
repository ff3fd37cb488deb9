#include "engine/record/trace/trace_kind.h"

#include "engine/record/trace/schema/trace_schema.h"
#include "engine/record/trace/sqlite.h"

#include <sqlite3.h>

#include <array>
#include <cstring>
#include <fstream>

namespace refreshlab::trace {

namespace {

constexpr size_t header_bytes = 100; ///< of an SQLite file; the application id stands at 68, big-endian

/// The file begins as a trace does.
bool has_trace_header(const std::filesystem::path& path) {
    std::array<char, header_bytes> header{};
    std::ifstream file(path, std::ios::binary);
    if (!file.read(header.data(), header.size())) return false;
    uint32_t id = 0;
    for (size_t i = 68; i < 72; ++i)
        id = id << 8U | static_cast<unsigned char>(header[i]);
    return std::memcmp(header.data(), "SQLite format 3", 16) == 0 && id == application_id;
}

} // namespace

FileKind file_kind(const std::filesystem::path& path) {
    std::error_code error;
    const auto status = std::filesystem::status(path, error);
    if (!std::filesystem::exists(status)) return FileKind::missing;
    if (std::filesystem::is_directory(status)) return FileKind::folder;
    if (!std::filesystem::is_regular_file(status)) return FileKind::special;
    const uintmax_t size = std::filesystem::file_size(path, error);
    if (!error && size == 0) return FileKind::empty;
    if (!error && size < header_bytes)
        return FileKind::foreign; // one byte would be an empty database to SQLite
    try {
        sqlite::Database db(path, sqlite::Open::read_only);
        db.busy_timeout(sqlite::patience_ms);
        return db.integer("PRAGMA application_id") == application_id ? FileKind::trace
                                                                     : FileKind::foreign_sqlite;
    } catch (const sqlite::SqlError& e) {
        if (e.code() == SQLITE_NOTADB || e.code() == SQLITE_CORRUPT)
            return has_trace_header(path) ? FileKind::damaged : FileKind::foreign;
        // A log that cannot be opened, say in a folder that is read-only: what the file is stands in its header all the same.
        const bool log = e.code() == SQLITE_CANTOPEN || e.code() == SQLITE_READONLY;
        if (log && !e.too_many_files() && has_trace_header(path)) return FileKind::trace;
        throw;
    }
}

} // namespace refreshlab::trace
