#include "engine/tasks/row_f1.h"

#include <algorithm>
#include <cctype>
#include <string>
#include <vector>

namespace refreshlab {

namespace {

using Row = std::vector<std::string>;

std::vector<std::string_view> split(std::string_view text, char separator) {
    std::vector<std::string_view> parts;
    for (size_t at = 0;;) {
        const size_t end = text.find(separator, at);
        parts.push_back(text.substr(at, end - at));
        if (end == std::string_view::npos) return parts;
        at = end + 1;
    }
}

std::string plain_cell(std::string_view cell) {
    std::string words, out, word;
    for (const char c : cell) {
        const auto byte = static_cast<unsigned char>(c);
        if (byte < 128 && std::ispunct(byte) != 0) continue;
        words += byte < 128 ? static_cast<char>(std::tolower(byte)) : c;
    }
    words += ' ';
    for (const char c : words) {
        if (std::isspace(static_cast<unsigned char>(c)) == 0) {
            word += c;
            continue;
        }
        if (word != "a" && word != "an" && word != "the") out += word;
        word.clear();
    }
    return out;
}

/// Rows of a text, the header apart.
struct Rows {
    size_t width = 0;
    std::vector<Row> rows;
};

Rows rows_of(std::string_view text) {
    Rows table;
    const auto blank = [](char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; };
    while (!text.empty() && blank(text.back()))
        text.remove_suffix(1);
    const auto lines = split(text, '\n');
    table.width = split(lines[0], '\t').size();
    for (size_t i = 1; i < lines.size(); ++i) {
        const auto cells = split(lines[i], '\t');
        if (cells.size() != table.width && i + 1 == lines.size()) break;
        Row row;
        for (const std::string_view cell : cells)
            row.push_back(plain_cell(cell));
        if (row.size() != table.width) row.assign(table.width, "na");
        table.rows.push_back(std::move(row));
    }
    return table;
}

double share_found(const std::vector<Row>& rows, const std::vector<Row>& among) {
    const auto found = std::ranges::count_if(
        rows, [&](const Row& row) { return std::ranges::find(among, row) != among.end(); });
    return static_cast<double>(found) / static_cast<double>(rows.size());
}

} // namespace

double row_f1(std::string_view table, std::string_view truth) {
    const Rows ours = rows_of(table), theirs = rows_of(truth);
    if (ours.rows.empty() || theirs.rows.empty() || ours.width != theirs.width) return 0;
    const double precision = share_found(ours.rows, theirs.rows),
                 recall = share_found(theirs.rows, ours.rows);
    return precision + recall == 0 ? 0 : 2 * precision * recall / (precision + recall);
}

} // namespace refreshlab
