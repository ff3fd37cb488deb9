#include "engine/record/trace/write/trace_target.h"

#include "engine/base/regular_file.h"
#include "engine/record/trace/trace_kind.h"
#include "engine/record/trace/write/trace_tables.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <system_error>
#include <thread>

namespace refreshlab::trace {

namespace {

constexpr int busy_ms =
    2000; ///< how long the writer thread (never the decode) waits for another program's lock

const char* hint_for(int code) {
    switch (code) {
    case SQLITE_FULL:
        return "free some space and record to another file";
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return "close the program that holds it";
    case SQLITE_READONLY:
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
        return "check the folder and its permissions";
    default:
        return "";
    }
}

} // namespace

Error writing_error(const std::filesystem::path& path, const sqlite::SqlError& e) {
    const char* hint = hint_for(e.code());
    if (e.too_many_files()) hint = "close some, or raise the limit (ulimit -n)";
    if (e.system() == EFBIG) hint = "raise the limit on file sizes (ulimit -f)";
    const bool machine = e.code() == SQLITE_FULL || e.code() == SQLITE_NOMEM || e.code() == SQLITE_IOERR;
    return {writing_trace, path.string(), e.what(), hint,
            machine ? ErrorKind::failure : kind_of_errno(e.system())};
}

void check_target(const std::filesystem::path& path, bool overwrite) {
    switch (file_kind(path)) {
    case FileKind::missing:
    case FileKind::empty:
        return;
    case FileKind::folder:
        throw Error(writing_trace, path.string(), "this is a folder", "give a file name");
    case FileKind::special:
        throw Error(writing_trace, path.string(), "this is not a regular file");
    case FileKind::foreign:
    case FileKind::foreign_sqlite:
        throw Error(writing_trace, path.string(), "the file exists and is not a RefreshLab trace",
                    "choose another name");
    case FileKind::damaged: // somebody may want to save what is left of it
        throw Error(writing_trace, path.string(), "the file exists and is a damaged RefreshLab trace",
                    "choose another name or remove it");
    case FileKind::trace:
        break;
    }
    if (!overwrite)
        throw Error(writing_trace, path.string(), "the file exists already", "choose another name");
    bool in_use = false, read_only = false;
    try {
        // Leaving WAL needs the file for itself alone: while another connection records into it or shows it, SQLite
        // stays in WAL or says that it is locked.
        sqlite::Database old(path, sqlite::Open::read_write);
        old.busy_timeout(0);
        read_only = old.read_only();
        in_use = old.text("PRAGMA journal_mode = DELETE") == "wal";
    } catch (const sqlite::SqlError& e) { // anything but a lock is damage: being replaced can only help it
        in_use = e.code() == SQLITE_BUSY || e.code() == SQLITE_LOCKED;
    }
    if (in_use) {
        throw Error(writing_trace, path.string(), "another program is using this trace",
                    "close it or choose another name");
    }
    std::filesystem::path folder = path.parent_path();
    if (folder.empty()) folder = ".";
    if (read_only || access(folder.c_str(), W_OK) != 0)
        throw Error(writing_trace, path.string(), "the file is read-only", "choose another name");
}

std::unique_ptr<sqlite::Database> new_database(const std::filesystem::path& path) {
    std::error_code ignored; // what cannot be removed cannot be opened for writing either
    std::filesystem::remove(path, ignored);
    remove_companions(path);
    auto db = std::make_unique<sqlite::Database>(path, sqlite::Open::create);
    if (db->read_only()) throw Error(writing_trace, path.string(), "the file is read-only");
    db->busy_timeout(busy_ms);
    create_tables(*db);
    return db;
}

void remove_companions(const std::filesystem::path& path) {
    for (const char* suffix : {"-wal", "-shm", "-journal"}) {
        std::error_code ignored; // what cannot be removed makes opening fail, with a message
        std::filesystem::remove(path.string() + suffix, ignored);
    }
}

void to_disk(const std::filesystem::path& path) {
    const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) throw std::system_error(errno, std::generic_category());
    const int failed = fsync(file) != 0 ? errno : 0;
    close(file);
    if (failed != 0) throw std::system_error(failed, std::generic_category());
}

CreationLock::CreationLock(const std::filesystem::path& file) {
    const auto folder = std::filesystem::absolute(file).parent_path();
    m_folder = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (m_folder < 0) return; // opening the trace will say why
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::milliseconds(busy_ms);
    while (flock(m_folder, LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK && errno != EINTR) return;
        if (std::chrono::steady_clock::now() > give_up) {
            close(m_folder);
            throw Error(writing_trace, file.string(), "another program has locked its folder", "try again");
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(1)); // creating takes a few
    }
}

CreationLock::~CreationLock() {
    if (m_folder >= 0) close(m_folder);
}

} // namespace refreshlab::trace
