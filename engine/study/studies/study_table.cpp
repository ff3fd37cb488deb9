#include "engine/study/studies/study_table.h"

#include "engine/base/check.h"
#include "engine/base/csv_text.h"
#include "engine/base/error.h"
#include "engine/base/json_file.h"
#include "engine/base/json_text.h"
#include "engine/text/utf8.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <utility>

namespace refreshlab {

namespace {

std::string readable(const StudyCell& cell, const StudyColumn& column) {
    if (const auto* text = std::get_if<std::string>(&cell)) return *text;
    if (const auto* count = std::get_if<int64_t>(&cell)) return fmt::format("{}", *count);
    if (const auto* number = std::get_if<double>(&cell)) {
        if (!std::isfinite(*number)) return fmt::format("{}", *number);
        // Very small numbers (a variance of 1e-4) keep their digits.
        const bool small = *number != 0 && std::abs(*number) < 0.5 * std::pow(10.0, -column.decimals);
        if (small && !column.plus) return fmt::format("{:.3g}", *number);
        return column.plus ? fmt::format("{:+.{}f}", *number, column.decimals)
                           : fmt::format("{:.{}f}", *number, column.decimals);
    }
    return "-";
}

std::string exact(const StudyCell& cell) {
    if (const auto* text = std::get_if<std::string>(&cell)) return csv_field(*text);
    if (const auto* count = std::get_if<int64_t>(&cell)) return fmt::format("{}", *count);
    if (const auto* number = std::get_if<double>(&cell)) return fmt::format("{}", *number);
    return "";
}

} // namespace

std::string to_markdown(const StudyTable& table) {
    std::vector<std::vector<std::string>> lines(1);
    std::vector<size_t> shown; // columns
    for (size_t i = 0; i < table.columns.size(); ++i)
        if (!table.columns[i].csv_only) shown.push_back(i);
    for (const size_t i : shown)
        lines[0].push_back(table.columns[i].name);
    for (const auto& row : table.rows) {
        RL_ASSERT(row.size() == table.columns.size());
        auto& line = lines.emplace_back();
        for (const size_t i : shown)
            line.push_back(readable(row[i], table.columns[i]));
    }
    const auto width = [](const std::string& text) { return static_cast<size_t>(count_code_points(text)); };
    std::vector<size_t> widths(shown.size(), 3);
    for (const auto& line : lines) {
        for (size_t i = 0; i < line.size(); ++i)
            widths[i] = std::max(widths[i], width(line[i]));
    }
    std::string out = table.title.empty() ? std::string() : table.title + "\n\n";
    for (size_t row = 0; row < lines.size(); ++row) {
        out += '|';
        for (size_t i = 0; i < widths.size(); ++i) {
            const bool left = row > 0 && (std::holds_alternative<std::string>(table.rows[row - 1][shown[i]]));
            const std::string space(widths[i] - width(lines[row][i]), ' ');
            out += ' ' + (left || row == 0 ? lines[row][i] + space : space + lines[row][i]) + " |";
        }
        out += '\n';
        if (row > 0) continue;
        out += '|';
        for (size_t i = 0; i < widths.size(); ++i) {
            const bool text =
                !table.rows.empty() && std::holds_alternative<std::string>(table.rows[0][shown[i]]);
            out += text ? " " + std::string(widths[i], '-') + " |"
                        : " " + std::string(widths[i] - 1, '-') + ": |";
        }
        out += '\n';
    }
    return out;
}

std::string to_csv(const StudyTable& table) {
    std::string out;
    for (size_t i = 0; i < table.columns.size(); ++i)
        out += (i > 0 ? "," : "") + exact(table.columns[i].name);
    out += '\n';
    for (const auto& row : table.rows) {
        RL_ASSERT(row.size() == table.columns.size());
        for (size_t i = 0; i < row.size(); ++i)
            out += (i > 0 ? "," : "") + exact(row[i]);
        out += '\n';
    }
    return out;
}

std::string to_markdown(const StudyResult& result) {
    std::string out;
    for (const StudyTable& table : result.tables)
        out += to_markdown(table) + "\n";
    for (const std::string& note : result.notes)
        out += note + "\n";
    return out;
}

void write_study(const StudyResult& result, const std::filesystem::path& folder) {
    std::error_code failed;
    std::filesystem::create_directories(folder, failed);
    if (failed || !std::filesystem::is_directory(folder)) {
        throw Error("writing a study to", folder.string(),
                    failed ? failed.message() : std::string("is not a folder"));
    }
    write_file(folder / "table.md", to_markdown(result));
    std::vector<TablePlot> plots;
    for (const auto* tables : {&result.tables, &result.figures}) {
        for (const StudyTable& table : *tables) {
            write_file(folder / (table.name + ".csv"), to_csv(table));
            DataTable columns;
            for (const StudyColumn& column : table.columns)
                columns.columns.push_back(column.name);
            for (TablePlot plot : table.plots) {
                plot.table = table.name;
                check_columns(plot, columns, table.name);
                if (!table.rows.empty()) plots.push_back(std::move(plot));
            }
        }
    }
    write_file(folder / plots_file, json_text(plots_to_json(plots), 1));
}

} // namespace refreshlab
