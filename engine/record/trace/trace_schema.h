#pragma once

#include "engine/record/recording/recording.h"
#include "engine/record/trace/sqlite.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <filesystem>
#include <string>

/// The file format of a trace, shared by its writer and its reader. Documented for others in docs/trace-format.md.
namespace refreshlab::trace {

inline constexpr int32_t application_id = 0x52664C62; ///< "RfLb", SQLite header bytes 68..71
inline constexpr int32_t schema_version = 2; ///< user_version; rises with every change a reader must know

/// SQL that makes an empty trace of schema_version.
extern const char* const schema_sql;
/// Names of all tables, for the reader's check.
extern const char* const table_names[11];

/// SQL that turns a trace of schema `from` into one of `from + 1`, or null if no such step exists. The reader applies
/// the steps to a private copy in memory, so an old file stays as it is. Version 1 is the first. A new
/// version adds its step here, its tables to schema_sql, and a trace of the old version to the tests.
[[nodiscard]] const char* migration_sql(int64_t from);

/// What a path holds. SQLite itself is asked and not the file's first bytes: closing a descriptor of our own would drop
/// the locks of any connection that this process has to the file. Only of a file that SQLite refuses the header is read,
/// to tell a trace that was cut or overwritten (`damaged`) from what never was one (`foreign`). Throws SqlError (locked,
/// no permission).
enum class FileKind : uint8_t { missing, folder, special, empty, foreign, foreign_sqlite, damaged, trace };
[[nodiscard]] FileKind file_kind(const std::filesystem::path& path);

/// Prompt, configuration and the rest of RunInfo, apart from id, parent and fork step, which have columns.
[[nodiscard]] std::string info_to_text(const RunInfo& info);
/// Throws Error or nlohmann::json::exception for anything that is not what info_to_text wrote.
[[nodiscard]] RunInfo info_from_text(const std::string& text, const std::string& what);

[[nodiscard]] std::string hits_to_text(const std::vector<TriggerHit>& hits);
[[nodiscard]] std::vector<TriggerHit> hits_from_text(const std::string& text, const std::string& what);

/// A double in JSON: a number, or "nan", "inf", "-inf".
[[nodiscard]] nlohmann::json number_json(double value);
[[nodiscard]] double number_from_json(const nlohmann::json& json);

} // namespace refreshlab::trace
