#include "engine/record/tables/data_table.h"

#include "engine/base/csv_text.h"
#include "engine/base/error.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

namespace refreshlab {

namespace {

/// Splits CSV into lines of fields.
class CsvReader {
public:
    CsvReader(std::string_view text, const std::string& what)
        : m_text(text)
        , m_what(what) {}

    [[nodiscard]] bool at_end() const { return m_at == m_text.size(); }
    [[nodiscard]] int64_t line() const { return m_line; }

    /// The next line's fields; m_at stands behind its end.
    std::vector<std::string> fields() {
        std::vector<std::string> fields(1);
        while (!at_end()) {
            const char c = m_text[m_at++];
            if (c == '"' && fields.back().empty()) {
                fields.back() = quoted();
            } else if (c == ',') {
                fields.emplace_back();
            } else if (c == '\n') {
                ++m_line;
                break;
            } else if (c != '\r' || at_end() || m_text[m_at] != '\n') {
                fields.back() += c;
            }
        }
        return fields;
    }

private:
    std::string quoted() {
        const int64_t begin = m_line;
        std::string field;
        while (!at_end()) {
            const char c = m_text[m_at++];
            if (c == '\n') ++m_line;
            if (c != '"') {
                field += c;
            } else if (!at_end() && m_text[m_at] == '"') {
                field += '"';
                ++m_at;
            } else {
                return field;
            }
        }
        throw Error("reading", m_what, fmt::format("the quote of line {} does not end", begin));
    }

    std::string_view m_text;
    const std::string& m_what;
    size_t m_at = 0;
    int64_t m_line = 1;
};

} // namespace

std::optional<size_t> DataTable::find(std::string_view column) const {
    const auto found = std::ranges::find(columns, column);
    if (found == columns.end()) return std::nullopt;
    return static_cast<size_t>(found - columns.begin());
}

std::optional<double> cell_number(std::string_view cell) {
    double value = 0;
    const char* const end = cell.data() + cell.size();
    const auto [at, error] = std::from_chars(cell.data(), end, value);
    if (cell.empty() || error != std::errc() || at != end) return std::nullopt;
    return value;
}

std::string to_csv(const DataTable& table) {
    std::string text;
    const auto line = [&](const std::vector<std::string>& cells) {
        for (size_t i = 0; i < cells.size(); ++i)
            text += (i > 0 ? "," : "") + csv_field(cells[i]);
        text += "\r\n";
    };
    line(table.columns);
    for (const auto& row : table.rows)
        line(row);
    return text;
}

DataTable parse_csv(std::string_view text, const std::string& what) {
    CsvReader reader(text, what);
    DataTable table;
    if (!reader.at_end()) table.columns = reader.fields();
    if (table.columns.empty() || (table.columns.size() == 1 && table.columns[0].empty()))
        throw Error("reading", what, "the first line names no columns");
    while (!reader.at_end()) {
        const int64_t line = reader.line();
        std::vector<std::string> row = reader.fields();
        if (row.size() == 1 && row[0].empty() && table.columns.size() > 1) continue; // an empty line
        if (row.size() != table.columns.size())
            throw Error("reading", what,
                        fmt::format("line {} has {} fields, the first line {}", line, row.size(),
                                    table.columns.size()));
        table.rows.push_back(std::move(row));
    }
    return table;
}

} // namespace refreshlab
