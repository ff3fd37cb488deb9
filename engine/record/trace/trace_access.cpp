#include "engine/record/trace/trace_access.h"

#include "engine/base/error.h"
#include "engine/record/trace/schema/trace_schema.h"
#include "engine/record/trace/trace_kind.h"

#include <fmt/format.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string_view>

namespace refreshlab::trace {

namespace {

using sqlite::Database;
using sqlite::Statement;

constexpr auto doing = "reading trace";

/// Nothing but the tables and columns of its version, and those stored ones: a view, a virtual table, a generated column or
/// a trigger could run code or never end, and an index or a table of somebody else's would cost whoever reads it.
void check_tables(Database& db, int64_t version) {
    Statement objects(db, "SELECT type, name FROM sqlite_schema");
    while (objects.step()) {
        const std::string type = objects.text(0), name = objects.text(1);
        const auto known = std::ranges::find_if(
            tables(), [&](const Table& table) { return table.name == name && table.since <= version; });
        const bool of_key = type == "index" && name.starts_with("sqlite_autoindex_");
        if (!of_key && (type != "table" || known == tables().end()))
            throw Damage(fmt::format("it has a {} {}, which no trace has", type, name));
    }
    Statement kinds(db, "SELECT type, wr FROM pragma_table_list WHERE schema = 'main' AND name = ?");
    Statement columns(db, "SELECT name, type, hidden FROM pragma_table_xinfo(?) ORDER BY cid");
    for (const Table& table : tables()) {
        if (table.since > version) continue;
        kinds.bind(0, table.name);
        if (!kinds.step() || kinds.text(0) != "table")
            throw Damage(fmt::format("table {} is missing", table.name));
        if ((kinds.integer(1) == 0) != table.has_rowid)
            throw Damage(fmt::format("table {} is stored in another way", table.name));
        kinds.reset();
        columns.bind(0, table.name);
        for (const Column& column : table.columns_of(version)) {
            const std::string_view type(column.type); // SQLite tells it without the constraint after it
            const std::string_view declared = type.substr(0, type.find(' '));
            if (!columns.step() || columns.text(0) != column.name || columns.text(1) != declared ||
                columns.integer(2) != 0)
                throw Damage(fmt::format("column {} of table {} is missing or of another kind", column.name,
                                         table.name));
        }
        if (columns.step())
            throw Damage(
                fmt::format("table {} has a column {}, which no trace has", table.name, columns.text(0)));
        columns.reset();
    }
}

void check_file(const std::filesystem::path& path) {
    switch (file_kind(path)) {
    case FileKind::missing:
        throw Error(doing, path.string(), "no such file");
    case FileKind::folder:
        throw Error(doing, path.string(), "this is a folder", "give the trace file");
    case FileKind::special:
        throw Error(doing, path.string(), "this is not a regular file");
    case FileKind::empty:
        throw Error(doing, path.string(), "the file is empty");
    case FileKind::foreign:
        throw Error(doing, path.string(), "not a RefreshLab trace");
    case FileKind::foreign_sqlite:
        throw Error(doing, path.string(), "not a RefreshLab trace but a database of another program");
    case FileKind::damaged:
        throw Error(doing, path.string(), "damaged, perhaps truncated: SQLite cannot read it");
    case FileKind::trace:
        break;
    }
}

/// Bounds what reading one file may cost. Pages of a damaged database can point at each other so that a walk over a few
/// of them never ends in practice; SQLite notices cycles, but not that each of 20 levels points at the next a dozen times.
class WorkLimit {
public:
    WorkLimit(Database& db, uint64_t file_bytes)
        : m_db(db)
        , m_calls_left((base + per_byte * file_bytes) / instructions_per_call) {
        sqlite3_progress_handler(m_db.handle(), static_cast<int>(instructions_per_call), &WorkLimit::progress,
                                 this);
    }
    WorkLimit(const WorkLimit&) = delete;
    WorkLimit& operator=(const WorkLimit&) = delete;
    ~WorkLimit() { sqlite3_progress_handler(m_db.handle(), 0, nullptr, nullptr); }
    [[nodiscard]] bool exceeded() const { return m_calls_left == 0; }

private:
    /// A row takes about 50 instructions of SQLite's machine, more where it is sorted, and at least ten bytes.
    static constexpr uint64_t base = 10'000'000, per_byte = 200, instructions_per_call = 10'000;

    static int progress(void* self) {
        auto& left = static_cast<WorkLimit*>(self)->m_calls_left;
        if (left > 0) --left;
        return left == 0 ? 1 : 0; // 1: SQLite gives up with SQLITE_INTERRUPT
    }

    Database& m_db;
    uint64_t m_calls_left;
};

std::filesystem::path log_of(const std::filesystem::path& path) {
    return path.string() + "-wal";
}

/// Bytes that the file and its log really have on the disk: a sparse one claims more than it holds.
uint64_t stored_bytes(const std::filesystem::path& path) {
    uint64_t bytes = 0;
    for (const auto& file : {path, log_of(path)}) {
        struct stat status {};
        if (stat(file.c_str(), &status) != 0) continue;
        const auto size = static_cast<uint64_t>(status.st_size),
                   blocks = static_cast<uint64_t>(status.st_blocks) * 512;
        bytes += blocks > 0 ? std::min(size, blocks) : size; // some file systems do not tell blocks
    }
    return bytes;
}

/// What a log that SQLite cannot open says to a person.
Error log_problem(const std::filesystem::path& path, const sqlite::SqlError& e) {
    const auto log = log_of(path);
    const std::string name = log.filename().string();
    std::error_code error;
    if (std::filesystem::is_symlink(log, error)) {
        return {doing, path.string(),
                fmt::format("{} beside it is a symbolic link, which SQLite does not follow", name),
                fmt::format("put the file itself there, as {}", name)};
    }
    std::filesystem::path folder = std::filesystem::absolute(path).parent_path();
    if (access(folder.c_str(), W_OK) != 0) {
        return {doing, path.string(),
                fmt::format("its last steps stand in {}, and reading that takes a folder that can be written",
                            name),
                fmt::format("copy both files to such a folder")};
    }
    return {doing, path.string(), fmt::format("{} beside it cannot be read: {}", name, e.what()),
            "check the permissions of the files"};
}

/// A trace that is open for reading.
struct Connection {
    std::unique_ptr<Database> db;
    std::string stamp; ///< of a file that was opened as one that nobody writes; empty else
};

Connection open_trace(const std::filesystem::path& path) {
    const auto try_to = [&](sqlite::Open mode) {
        auto db = std::make_unique<Database>(path, mode);
        db->busy_timeout(sqlite::patience_ms);
        db->distrust(static_cast<int64_t>(stored_bytes(path)));
        (void)db->integer("PRAGMA user_version"); // opens the log, where there is one
        return db;
    };
    try {
        return {try_to(sqlite::Open::read_only), {}};
    } catch (const sqlite::SqlError& e) {
        const bool log = e.code() == SQLITE_CANTOPEN || e.code() == SQLITE_READONLY;
        if (!log || e.too_many_files()) throw;
        // In WAL form, and its companions cannot be made: without a log there is nothing in them.
        if (!sqlite::unchanging(path)) throw log_problem(path, e);
        const std::string stamp = sqlite::stamp(path);
        return {try_to(sqlite::Open::unchanging), stamp};
    }
}

/// SQLite reads zeros where the last page was cut. Without a WAL, which may hold newer pages, all of them are in the file.
void require_whole(Database& db, const std::filesystem::path& path) {
    const auto bytes =
        static_cast<uint64_t>(db.integer("PRAGMA page_count") * db.integer("PRAGMA page_size"));
    std::error_code missing;
    const auto wal = std::filesystem::file_size(log_of(path), missing);
    if (!missing && wal > 0) return;
    if (const auto size = std::filesystem::file_size(path); size < bytes)
        throw Error(doing, path.string(),
                    fmt::format("damaged, perhaps truncated: {} of {} bytes", size, bytes));
}

/// The schema version of the file; refuses those that this program cannot read.
int64_t schema_of(Database& db, const std::filesystem::path& path) {
    const int64_t version = db.integer("PRAGMA user_version");
    if (version > schema_version) {
        throw Error(doing, path.string(),
                    fmt::format("written by a newer version (schema {}, this program reads up to {})",
                                version, schema_version),
                    "open it with that version");
    }
    if (version < 1)
        throw Error(doing, path.string(), fmt::format("damaged: schema {} never existed", version));
    return version;
}

} // namespace

void read_trace(const std::filesystem::path& path, const std::function<void(const OpenTrace&)>& read) {
    try {
        check_file(path);
        const Connection trace = open_trace(path);
        Database& db = *trace.db;
        const int64_t version = schema_of(db, path);
        require_whole(db, path);
        const uint64_t bytes = stored_bytes(path);
        const WorkLimit limit(db, bytes);
        try {
            db.exec("BEGIN"); // one snapshot, whatever a live writer adds meanwhile
            check_tables(db, version);
            read({db, version, bytes});
            if (!trace.stamp.empty() && sqlite::stamp(path) != trace.stamp)
                throw Error(doing, path.string(), "another program has changed it meanwhile", "try again");
        } catch (const sqlite::SqlError&) {
            if (limit.exceeded()) throw Damage("reading it takes more work than a file of its size can need");
            throw;
        }
    } catch (const sqlite::SqlError& e) {
        if (e.code() == SQLITE_BUSY || e.code() == SQLITE_LOCKED) {
            throw Error(doing, path.string(), "another program has locked it",
                        "close that program and try again");
        }
        if (e.too_many_files())
            throw Error(doing, path.string(), e.what(), "close some, or raise the limit (ulimit -n)",
                        ErrorKind::failure);
        if (e.code() == SQLITE_CANTOPEN || e.code() == SQLITE_PERM)
            throw Error(doing, path.string(), e.what());
        const bool cut = e.code() == SQLITE_CORRUPT || e.code() == SQLITE_NOTADB || e.code() == SQLITE_IOERR;
        throw Error(doing, path.string(),
                    fmt::format("damaged{}: {}", cut ? ", perhaps truncated" : "", e.what()));
    } catch (const Error& e) {
        if (e.doing() == doing) throw;
        throw Error(doing, path.string(), std::string("damaged: ") + e.what());
    } catch (const std::bad_alloc&) {
        throw Error(doing, path.string(), "too large for this machine's memory", {}, ErrorKind::failure);
    } catch (const std::exception& e) { // Damage, malformed JSON fields, a log that is full
        throw Error(doing, path.string(), std::string("damaged: ") + e.what());
    }
}

} // namespace refreshlab::trace
