#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

struct sqlite3;
struct sqlite3_stmt;

namespace refreshlab::sqlite {

/// What SQLite said, with its primary result code and, where a call of the system failed, that call's errno. The code that owns a
/// database (record's traces, study's sweeps) catches it and turns it into a refreshlab::Error or a message.
class SqlError : public std::runtime_error {
public:
    SqlError(int code, const std::string& message, int system = 0)
        : std::runtime_error(message)
        , m_code(code & 0xFF)
        , m_system(system) {}
    [[nodiscard]] int code() const { return m_code; }
    [[nodiscard]] int system() const { return m_system; } ///< 0 = none
    /// True when the process, or the machine, has too many files open: nothing is wrong with the database.
    [[nodiscard]] bool too_many_files() const;

private:
    int m_code, m_system;
};

enum class Open : uint8_t {
    read_only, ///< writes of other processes are seen; of a WAL file companions (-wal, -shm) may be left behind
    unchanging, ///< the file must not change meanwhile (see unchanging()): no locks, no companions, no permission needed
    read_write,
    create,
    memory ///< no file: of this connection alone, and gone with it
};

/// True when no program writes to the database: it has no write-ahead log. A writer may come at any time, so a reader that relies
/// on this compares stamp() before and after.
[[nodiscard]] bool unchanging(const std::filesystem::path& path);
/// Changes when the database does.
[[nodiscard]] std::string stamp(const std::filesystem::path& path);

/// How long somebody who reads a file, or adds to it beside its runs, waits for others: a commit takes milliseconds.
inline constexpr int patience_ms = 2000;

/// One connection, used by one thread at a time. Throws SqlError.
class Database {
public:
    /// \param path  empty with Open::memory
    Database(const std::filesystem::path& path, Open mode);
    ~Database();
    Database(const Database&) = delete;
    Database& operator=(const Database&) = delete;

    void exec(const char* sql);
    [[nodiscard]] int64_t integer(const char* sql);  ///< first column of the first row
    [[nodiscard]] std::string text(const char* sql); ///< the same as text
    void busy_timeout(int ms);                       ///< how long a locked file is waited for
    [[nodiscard]] bool read_only() const;
    /// For a file that anybody may have written: its schema calls no functions, its views and triggers do nothing, no write
    /// reaches SQLite's own tables, and no value or row is longer than `longest` bytes.
    void distrust(int64_t longest);
    /// True when the file of this connection is not the one at its path any more: removed, renamed or replaced.
    [[nodiscard]] bool has_moved() const;
    /// Does not touch the file when the connection is closed, nor -wal and -shm: other files may have taken their
    /// place.
    void leave_as_it_is();
    [[nodiscard]] sqlite3* handle() const { return m_db; }

private:
    sqlite3* m_db = nullptr;
};

/// A prepared statement. Parameters and columns count from 0. Throws SqlError.
class Statement {
public:
    Statement(Database& db, std::string_view sql);
    ~Statement();
    Statement(const Statement&) = delete;
    Statement& operator=(const Statement&) = delete;

    void bind(int i, int64_t value);
    void bind(int i, std::string_view text);
    void bind_null(int i);
    /// Bits are kept (columns without affinity); NaN becomes NULL, SQLite has none.
    void bind_real(int i, double value);
    /// NaN as the text 'nan', so that NULL stays free for "absent".
    void bind_number(int i, double value);
    void bind_number(int i, float value); ///< absent() becomes NULL
    void bind_number(int i, const std::optional<double>& value);
    void bind_blob(int i, std::span<const std::byte> bytes); ///< must live until step()

    bool step(); ///< true: there is a row
    void run();  ///< step() to the end, reset, bindings cleared
    void reset();

    enum class Type : uint8_t { null, integer, real, text, blob };
    [[nodiscard]] int columns() const;
    [[nodiscard]] Type type(int i) const;
    [[nodiscard]] bool is_null(int i) const;
    [[nodiscard]] int64_t integer(int i) const;              ///< SqlError unless it is an integer
    [[nodiscard]] double real(int i) const;                  ///< NULL is NaN; SqlError for text and blobs
    [[nodiscard]] std::optional<double> number(int i) const; ///< inverse of bind_number
    [[nodiscard]] std::string text(int i) const;             ///< SqlError unless it is text
    /// Until the next step(); SqlError unless it is a blob.
    [[nodiscard]] std::span<const std::byte> blob(int i) const;

private:
    void check(int code) const;
    Database& m_db;
    sqlite3_stmt* m_statement = nullptr;
};

} // namespace refreshlab::sqlite
