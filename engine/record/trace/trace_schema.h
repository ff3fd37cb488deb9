#pragma once

#include "engine/record/recording/recording.h"
#include "engine/record/trace/sqlite.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

/// The file format of a trace, shared by its writer and its reader. Documented for others in docs/trace-format.md.
namespace refreshlab::trace {

inline constexpr int32_t application_id = 0x52664C62; ///< "RfLb", SQLite header bytes 68..71
inline constexpr int32_t schema_version = 6; ///< user_version; rises with every change a reader must know

/// One column, and how a trace from before it is read. A new one goes to the end of its table: readers count on the order.
struct Column {
    const char* name;
    const char* type;             ///< as declared; floats have none, see trace_schema.cpp
    int64_t since = 1;            ///< schema version
    const char* before = nullptr; ///< SQL of what stands there in traces without it
};
struct Table {
    const char* name;
    std::vector<Column> columns;
    const char* key; ///< columns of the primary key
    bool has_rowid = false;
    int64_t since = 1;
    [[nodiscard]] std::vector<Column> columns_of(int64_t version) const;
};
/// Every table, as it is now. A new version changes this list, the loader, and the tests get a trace of the old version.
[[nodiscard]] const std::vector<Table>& tables();
[[nodiscard]] const Table& table(std::string_view name); ///< one of them (asserted)

/// SQL that makes an empty trace of schema_version.
[[nodiscard]] std::string create_sql();
/// "SELECT <all columns of now, by name and in their order> FROM <name>", of a trace of schema `version` <= schema_version.
/// So an older trace is brought up to date while it is read, and the file stays as it is.
[[nodiscard]] std::string select_sql(std::string_view name, int64_t version);

/// Gives an older trace the tables of schema `up_to` that it lacks, empty, where it lacks nothing else. Its version rises to that of
/// the newest of them and no further, so that programs of that version go on reading it. Within a transaction of the caller.
/// \return false, and nothing is changed, where columns are missing as well
bool add_missing_tables(sqlite::Database& db, int64_t up_to);

/// Signals that traces before schema 3, which do not name them, may have.
[[nodiscard]] const std::vector<std::string>& signals_before_schema_3();

/// What a path holds. This asks SQLite and does not read the file's first bytes: closing a descriptor of our own would
/// drop the locks of any connection that this process has to the file. It reads the header only of a file that SQLite
/// refuses, to tell a trace that was cut or overwritten (`damaged`) from a file that never was one (`foreign`). Throws
/// SqlError (locked, no permission).
enum class FileKind : uint8_t { missing, folder, special, empty, foreign, foreign_sqlite, damaged, trace };
[[nodiscard]] FileKind file_kind(const std::filesystem::path& path);

/// Prompt, configuration and the rest of RunInfo, apart from id, parent and fork step, which have columns; of a recording,
/// because it also names the signals that its writer had.
[[nodiscard]] std::string info_to_text(const Recording& recording);
/// Throws Error or nlohmann::json::exception for anything that is not what info_to_text wrote.
/// \param version  schema of the trace: what it does not say is derived or marked as unknown
[[nodiscard]] RunInfo info_from_text(const std::string& text, int64_t version, const std::string& what);

[[nodiscard]] std::string hits_to_text(const std::vector<TriggerHit>& hits);
[[nodiscard]] std::vector<TriggerHit> hits_from_text(const std::string& text, const std::string& what);

/// A double in JSON: a number, or "nan", "inf", "-inf".
[[nodiscard]] nlohmann::json number_json(double value);
[[nodiscard]] double number_from_json(const nlohmann::json& json);

} // namespace refreshlab::trace
