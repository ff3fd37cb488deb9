#include "engine/remote/row_tables.h"

#include "engine/record/trace/schema/trace_schema.h"
#include "engine/record/trace/write/trace_tables.h"
#include "engine/remote/wire.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <string_view>

namespace refreshlab::remote {

namespace {

using nlohmann::json;
using sqlite::Statement;

/// Those of a run and of a landscape. What a person writes beside a run stays in its window.
constexpr std::array crossing{"tokens", "runs",      "steps",     "topk",       "signals",
                              "layers", "refreshes", "passes",    "drafts",     "commands",
                              "cache",  "drift",     "attention", "landscapes", "landscape_rows"};

/// A row of `runs` stays, because its end is an update; what it has told already is blank.
constexpr std::string_view runs = "runs";

std::string values_sql(const trace::Table& table) {
    std::string sql;
    for (size_t i = 0; i < table.columns.size(); ++i)
        sql += sql.empty() ? "?" : ", ?";
    return fmt::format("INSERT INTO {} VALUES ({})", table.name, sql);
}

json value_of(const Statement& row, int column) {
    switch (row.type(column)) {
    case Statement::Type::integer:
        return row.integer(column);
    case Statement::Type::real:
        return row.real(column);
    case Statement::Type::text:
        return row.text(column);
    case Statement::Type::blob: {
        const auto bytes = row.blob(column);
        const auto* const data = reinterpret_cast<const uint8_t*>(bytes.data());
        return json::binary({data, data + bytes.size()});
    }
    case Statement::Type::null:
        break;
    }
    return nullptr;
}

void bind(Statement& row, int column, const json& value) {
    switch (value.type()) {
    case json::value_t::null:
        return row.bind_null(column);
    case json::value_t::number_integer:
    case json::value_t::number_unsigned:
        return row.bind(column, value.get<int64_t>());
    case json::value_t::number_float:
        return row.bind_real(column, value.get<double>());
    case json::value_t::string:
        return row.bind(column, std::string_view(value.get_ref<const std::string&>()));
    case json::value_t::binary:
        return row.bind_blob(column, std::as_bytes(std::span(static_cast<const Bytes&>(value.get_binary()))));
    default:
        throw ProtocolError("a row has a value that no column has");
    }
}

} // namespace

struct RowTables::Table {
    Table(sqlite::Database& db, const trace::Table& of)
        : name(of.name)
        , columns(of.columns.size())
        , select(db, fmt::format("SELECT * FROM {}{}", of.name,
                                 name == runs ? " WHERE info <> '' OR stop_reason IS NOT NULL" : ""))
        , insert(db, values_sql(of))
        , blank(db, name == runs ? std::string("UPDATE runs SET info = '', stop_reason = NULL")
                                 : fmt::format("DELETE FROM {}", of.name))
        , erase(db, fmt::format("DELETE FROM {}", of.name)) {}
    std::string_view name;
    size_t columns;
    Statement select, insert, blank, erase;
};

RowTables::RowTables()
    : m_db({}, sqlite::Open::memory) {
    trace::create_tables(m_db, trace::Writing::once);
    for (const char* name : crossing)
        m_tables.push_back(std::make_unique<Table>(m_db, trace::table(name)));
}

RowTables::~RowTables() = default;

json RowTables::take() {
    json tables = json::object();
    for (const auto& table : m_tables) {
        json rows = json::array();
        while (table->select.step()) {
            json row = json::array();
            for (int column = 0; column < static_cast<int>(table->columns); ++column)
                row.push_back(value_of(table->select, column));
            rows.push_back(std::move(row));
        }
        table->select.reset();
        if (rows.empty()) continue;
        table->blank.run();
        tables[std::string(table->name)] = std::move(rows);
    }
    return tables;
}

void RowTables::put(const json& tables) {
    m_db.exec("BEGIN");
    try {
        put_rows(tables);
    } catch (...) {
        m_db.exec("ROLLBACK");
        throw;
    }
    m_db.exec("COMMIT");
}

void RowTables::put_rows(const json& tables) {
    for (const auto& [name, rows] : tables.items()) {
        const auto found =
            std::ranges::find_if(m_tables, [&name = name](const auto& table) { return table->name == name; });
        if (found == m_tables.end()) throw ProtocolError(fmt::format("rows of a table '{}' came", name));
        Table& table = **found;
        table.insert.reset(); // a message before may have been refused in the middle
        for (const json& row : rows) {
            if (!row.is_array() || row.size() != table.columns)
                throw ProtocolError(fmt::format("a row of {} has not {} values", name, table.columns));
            for (size_t column = 0; column < row.size(); ++column)
                bind(table.insert, static_cast<int>(column), row[column]);
            table.insert.run();
        }
    }
}

void RowTables::clear() {
    for (const auto& table : m_tables)
        table->erase.run();
}

} // namespace refreshlab::remote
