#pragma once

#include "engine/record/trace/sqlite.h"

#include <nlohmann/json_fwd.hpp>

#include <memory>
#include <string>
#include <vector>

namespace refreshlab::remote {

/// A trace in memory that holds what one message has to tell: rows of the tables of docs/reference/trace-format.md. So what crosses has
/// the columns of a trace, is made by what writes traces and checked by what reads them.
///
/// Threads  one
/// Errors   SqlError
class RowTables {
public:
    RowTables();
    ~RowTables();

    [[nodiscard]] sqlite::Database& db() { return m_db; }
    /// {"steps": [[1, 7, 44, ...], ...], ...}: all rows of the tables that have some, in the order of their columns; a blob is bytes.
    /// The tables are empty then, but for `runs`, whose rows stay without `info` and `stop_reason`.
    [[nodiscard]] nlohmann::json take();
    /// Puts such rows in. Throws ProtocolError: an unknown table, a row with too many or too few values, a value of no column's kind.
    void put(const nlohmann::json& tables);
    void clear();

private:
    struct Table;
    void put_rows(const nlohmann::json& tables);

    sqlite::Database m_db;
    std::vector<std::unique_ptr<Table>> m_tables;
};

} // namespace refreshlab::remote
