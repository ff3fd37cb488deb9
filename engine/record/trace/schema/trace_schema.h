#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

/// The file format of a trace, shared by its writer and its reader. Documented for others in docs/reference/trace-format.md.
namespace refreshlab::trace {

inline constexpr int32_t application_id = 0x52664C62; ///< "RfLb", SQLite header bytes 68..71
inline constexpr int32_t schema_version = 12; ///< user_version; rises with every change a reader must know

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

/// SQL that makes an empty trace of schema_version, or one of its tables.
[[nodiscard]] std::string create_sql();
[[nodiscard]] std::string create_sql(const Table& table);

} // namespace refreshlab::trace
