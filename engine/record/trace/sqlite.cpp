#include "engine/record/trace/sqlite.h"

#include "engine/signals/registry.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <limits>
#include <system_error>
#include <utility>

namespace refreshlab::sqlite {

namespace {

/// errno of the call of the system that failed, 0 = none. Of writing and reading the file and its log keep their own: what came
/// after the failure has set the thread's anew.
int system_error(sqlite3* db, int primary) {
    if (db == nullptr) return 0;
    if (primary == SQLITE_CANTOPEN) return sqlite3_system_errno(db);
    if (primary != SQLITE_IOERR) return 0;
    int of_file = 0;
    sqlite3_file_control(db, "main", SQLITE_FCNTL_LAST_ERRNO, &of_file);
    if (of_file != 0) return of_file;
    sqlite3_file* log = nullptr; // or the journal
    sqlite3_file_control(db, "main", SQLITE_FCNTL_JOURNAL_POINTER, static_cast<void*>(&log));
    if (log != nullptr && log->pMethods != nullptr)
        log->pMethods->xFileControl(log, SQLITE_FCNTL_LAST_ERRNO, &of_file);
    return of_file;
}

[[noreturn]] void fail(sqlite3* db, int code) {
    std::string message = db != nullptr ? sqlite3_errmsg(db) : sqlite3_errstr(code);
    const int system = system_error(db, code & 0xFF);
    // SQLite's own words say nothing of these.
    if (system == EMFILE || system == ENFILE || system == EFBIG || system == EDQUOT || system == ELOOP)
        message = fmt::format("{}: {}", message, std::generic_category().message(system));
    throw SqlError(code, message, system);
}

[[noreturn]] void wrong_type(int column, const char* wanted) {
    throw SqlError(SQLITE_MISMATCH, fmt::format("column {} is not {}", column, wanted));
}

/// As SQLite reads file names with options after them.
std::string uri_of(const std::filesystem::path& path, const char* options) {
    std::string uri = "file:";
    for (const char c : std::filesystem::absolute(path).string()) {
        if (c == '%' || c == '?' || c == '#')
            uri += fmt::format("%{:02X}", static_cast<unsigned char>(c));
        else
            uri += c;
    }
    return uri + "?" + options;
}

std::filesystem::path log_of(const std::filesystem::path& path) {
    return path.string() + "-wal";
}

} // namespace

bool unchanging(const std::filesystem::path& path) {
    std::error_code missing;
    const auto size = std::filesystem::file_size(log_of(path), missing);
    return missing || size == 0;
}

std::string stamp(const std::filesystem::path& path) {
    std::string text;
    for (const std::filesystem::path& file : {path, log_of(path)}) {
        std::error_code missing;
        const auto size = std::filesystem::file_size(file, missing);
        const auto time = std::filesystem::last_write_time(file, missing);
        text += missing ? "-;" : fmt::format("{} {};", size, time.time_since_epoch().count());
    }
    return text;
}

Database::Database(const std::filesystem::path& path, Open mode) {
    int flags = SQLITE_OPEN_NOMUTEX; // one thread at a time uses a connection
    if (mode == Open::read_only || mode == Open::unchanging) flags |= SQLITE_OPEN_READONLY;
    if (mode == Open::unchanging) flags |= SQLITE_OPEN_URI;
    if (mode == Open::read_write) flags |= SQLITE_OPEN_READWRITE;
    if (mode == Open::create || mode == Open::memory) flags |= SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
    // Absolute, so that a file named ":memory:" is a file.
    const std::string name = mode == Open::memory       ? ":memory:"
                             : mode == Open::unchanging ? uri_of(path, "immutable=1")
                                                        : std::filesystem::absolute(path).string();
    const int code = sqlite3_open_v2(name.c_str(), &m_db, flags, nullptr);
    if (code == SQLITE_OK) return;
    try {
        fail(m_db, code);
    } catch (...) {
        sqlite3_close(m_db);
        throw;
    }
}

bool SqlError::too_many_files() const {
    return m_system == EMFILE || m_system == ENFILE;
}

Database::~Database() {
    sqlite3_close(m_db);
}

void Database::exec(const char* sql) {
    const int code = sqlite3_exec(m_db, sql, nullptr, nullptr, nullptr);
    if (code != SQLITE_OK) fail(m_db, code);
}

int64_t Database::integer(const char* sql) {
    Statement statement(*this, sql);
    return statement.step() ? statement.integer(0) : 0;
}

std::string Database::text(const char* sql) {
    Statement statement(*this, sql);
    return statement.step() ? statement.text(0) : std::string();
}

void Database::busy_timeout(int ms) {
    sqlite3_busy_timeout(m_db, ms);
}

bool Database::read_only() const {
    return sqlite3_db_readonly(m_db, "main") == 1;
}

void Database::distrust(int64_t longest) {
    sqlite3_db_config(m_db, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
    sqlite3_db_config(m_db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
    sqlite3_db_config(m_db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, nullptr);
    sqlite3_db_config(m_db, SQLITE_DBCONFIG_ENABLE_VIEW, 0, nullptr);
    constexpr int64_t least = 4096; // its own statements and pragmas
    sqlite3_limit(m_db, SQLITE_LIMIT_LENGTH,
                  static_cast<int>(std::clamp<int64_t>(longest, least, std::numeric_limits<int>::max())));
    exec("PRAGMA cell_size_check = ON");
}

bool Database::has_moved() const {
    int moved = 0;
    return sqlite3_file_control(m_db, "main", SQLITE_FCNTL_HAS_MOVED, &moved) == SQLITE_OK && moved != 0;
}

void Database::leave_as_it_is() {
    sqlite3_db_config(m_db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
}

Statement::Statement(Database& db, std::string_view sql)
    : m_db(db) {
    check(sqlite3_prepare_v2(db.handle(), sql.data(), static_cast<int>(sql.size()), &m_statement, nullptr));
}

Statement::~Statement() {
    sqlite3_finalize(m_statement);
}

void Statement::check(int code) const {
    if (code != SQLITE_OK) fail(m_db.handle(), code);
}

void Statement::bind(int i, int64_t value) {
    check(sqlite3_bind_int64(m_statement, i + 1, value));
}

void Statement::bind(int i, std::string_view text) {
    check(sqlite3_bind_text64(m_statement, i + 1, text.empty() ? "" : text.data(), text.size(),
                              SQLITE_TRANSIENT, SQLITE_UTF8));
}

void Statement::bind_null(int i) {
    check(sqlite3_bind_null(m_statement, i + 1));
}

void Statement::bind_real(int i, double value) {
    check(sqlite3_bind_double(m_statement, i + 1, value));
}

void Statement::bind_number(int i, double value) {
    if (std::isnan(value)) {
        bind(i, "nan");
    } else {
        bind_real(i, value);
    }
}

void Statement::bind_number(int i, float value) {
    if (is_absent(value)) {
        bind_null(i);
    } else {
        bind_number(i, static_cast<double>(value));
    }
}

void Statement::bind_number(int i, const std::optional<double>& value) {
    if (value) {
        bind_number(i, *value);
    } else {
        bind_null(i);
    }
}

void Statement::bind_blob(int i, std::span<const std::byte> bytes) {
    // A null pointer would bind NULL: an empty blob needs any other address.
    const void* data = bytes.empty() ? static_cast<const void*>("") : bytes.data();
    check(sqlite3_bind_blob64(m_statement, i + 1, data, bytes.size(), SQLITE_STATIC));
}

bool Statement::step() {
    const int code = sqlite3_step(m_statement);
    if (code == SQLITE_ROW) return true;
    if (code == SQLITE_DONE) return false;
    fail(m_db.handle(), code);
}

void Statement::run() {
    while (step()) {
    }
    reset();
}

void Statement::reset() {
    sqlite3_reset(m_statement); // gives the code of the last step again, which step() has thrown
    check(sqlite3_clear_bindings(m_statement));
}

int Statement::columns() const {
    return sqlite3_column_count(m_statement);
}

Statement::Type Statement::type(int i) const {
    switch (sqlite3_column_type(m_statement, i)) {
    case SQLITE_INTEGER:
        return Type::integer;
    case SQLITE_FLOAT:
        return Type::real;
    case SQLITE_TEXT:
        return Type::text;
    case SQLITE_BLOB:
        return Type::blob;
    default:
        return Type::null;
    }
}

bool Statement::is_null(int i) const {
    return sqlite3_column_type(m_statement, i) == SQLITE_NULL;
}

int64_t Statement::integer(int i) const {
    if (sqlite3_column_type(m_statement, i) != SQLITE_INTEGER) wrong_type(i, "an integer");
    return sqlite3_column_int64(m_statement, i);
}

double Statement::real(int i) const {
    switch (sqlite3_column_type(m_statement, i)) {
    case SQLITE_NULL:
        return std::numeric_limits<double>::quiet_NaN();
    case SQLITE_FLOAT:
    case SQLITE_INTEGER:
        return sqlite3_column_double(m_statement, i);
    default:
        wrong_type(i, "a number");
    }
}

std::optional<double> Statement::number(int i) const {
    if (is_null(i)) return std::nullopt;
    if (sqlite3_column_type(m_statement, i) != SQLITE_TEXT) return real(i);
    if (text(i) != "nan") wrong_type(i, "a number");
    return std::numeric_limits<double>::quiet_NaN();
}

std::string Statement::text(int i) const {
    if (sqlite3_column_type(m_statement, i) != SQLITE_TEXT) wrong_type(i, "text");
    const auto* data = reinterpret_cast<const char*>(sqlite3_column_text(m_statement, i));
    return {data, static_cast<size_t>(sqlite3_column_bytes(m_statement, i))};
}

std::span<const std::byte> Statement::blob(int i) const {
    if (sqlite3_column_type(m_statement, i) != SQLITE_BLOB) wrong_type(i, "a blob");
    const auto* data = static_cast<const std::byte*>(sqlite3_column_blob(m_statement, i));
    return {data, static_cast<size_t>(sqlite3_column_bytes(m_statement, i))};
}

} // namespace refreshlab::sqlite
