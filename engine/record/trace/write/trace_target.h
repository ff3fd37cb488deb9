#pragma once

#include "engine/base/error.h"
#include "engine/record/trace/sqlite.h"

#include <filesystem>
#include <memory>

/// The file that a trace is written to, before and after SQLite has it.
namespace refreshlab::trace {

inline constexpr auto writing_trace = "writing trace"; ///< Error::doing

/// What SQLite said about writing to `path`, with a hint: Error{failure} where the machine is at fault.
[[nodiscard]] Error writing_error(const std::filesystem::path& path, const sqlite::SqlError& e);

/// Throws Error{bad_input} unless a trace may be written to `path`: there is nothing, an empty file, or, when `overwrite`, a trace that
/// nobody uses. Throws SqlError.
void check_target(const std::filesystem::path& path, bool overwrite);

/// An empty trace in place of whatever check_target() has let through. Throws SqlError, Error{bad_input}.
[[nodiscard]] std::unique_ptr<sqlite::Database> new_database(const std::filesystem::path& path);

/// Removes the main file's companions: the WAL, its index, the rollback journal.
void remove_companions(const std::filesystem::path& path);

/// Waits until the bytes of a file are on the disk. Throws std::system_error.
void to_disk(const std::filesystem::path& path);

/// One creator at a time in a folder, from the look at what is there until the new file is seen to be in use: of two
/// that start together the later one would remove what the earlier has just made. The lock is the folder's own, so that
/// no file is left beside the trace, and goes with the process. Where a folder cannot be locked (not readable, a file
/// system without locks), creators do not exclude each other.
class CreationLock {
public:
    /// Waits a moment. Throws Error{bad_input} where another program keeps the folder locked.
    explicit CreationLock(const std::filesystem::path& file);
    CreationLock(const CreationLock&) = delete;
    CreationLock& operator=(const CreationLock&) = delete;
    ~CreationLock();

private:
    int m_folder = -1;
};

} // namespace refreshlab::trace
