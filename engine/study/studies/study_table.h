#pragma once

#include "engine/record/tables/table_plot.h"

#include <cstdint>
#include <filesystem>
#include <string>
#include <variant>
#include <vector>

namespace refreshlab {

/// A cell: nothing (empty in CSV, "-" in Markdown), text, a count, or a number.
using StudyCell = std::variant<std::monostate, std::string, int64_t, double>;

struct StudyColumn {
    std::string name;      ///< with its unit: "mean_entropy_nats"
    int decimals = 3;      ///< of numbers in Markdown; CSV has all digits that a double needs
    bool plus = false;     ///< write the sign of positive numbers (differences)
    bool csv_only = false; ///< left out in Markdown: too long to be read
};

/// A table of a study, or the data of a figure.
struct StudyTable {
    std::string name;  ///< file name without suffix: "table", "stories"
    std::string title; ///< one line above the table in Markdown
    std::vector<StudyColumn> columns;
    std::vector<std::vector<StudyCell>> rows; ///< each as wide as columns (asserted)
    std::vector<TablePlot> plots =
        {}; ///< figures of this table; their `table` is its name, whatever they say
};

/// What a study gives: tables to read, the first of them the main one; data of figures; and sentences below the tables.
struct StudyResult {
    std::vector<StudyTable> tables, figures;
    std::vector<std::string> notes;
};

/// An aligned Markdown table with its title.
[[nodiscard]] std::string to_markdown(const StudyTable& table);
/// RFC 4180; numbers round-trip.
[[nodiscard]] std::string to_csv(const StudyTable& table);
/// All tables and notes: what is printed, and table.md.
[[nodiscard]] std::string to_markdown(const StudyResult& result);
/// table.md, NAME.csv of every table and figure, and figures.json, which says how `refreshlab figure` draws them; into folder (made if
/// missing). Figures of tables without a row are left out. Throws Error{bad_input}.
void write_study(const StudyResult& result, const std::filesystem::path& folder);

} // namespace refreshlab
