#pragma once

#include "engine/record/tables/table_plot.h"
#include "ui/scene/tables/row_policy.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace refreshlab::ui {

inline constexpr const char* table_extension = ".csv";

/// What tells one state of a file from another.
struct FileStamp {
    uintmax_t bytes = 0;
    std::filesystem::file_time_type changed;
    friend bool operator==(const FileStamp&, const FileStamp&) = default;
};
/// Nothing: there is no such file.
[[nodiscard]] std::optional<FileStamp> stamp_of(const std::filesystem::path& path);

/// A CSV file as a window shows it. It does not change: when the file does, another one takes its place.
struct TableFile {
    std::filesystem::path path; ///< absolute
    FileStamp stamp;            ///< of the file before it was read
    DataTable table; ///< of rows that name cache policies one more column, "family", unless the file has it
    std::vector<RowReading> rows; ///< by row
    std::vector<TablePlot> plots; ///< of this table, where a figures.json beside it says so

    [[nodiscard]] bool has_policies() const;
    /// Why figures.json was not read; empty: it was, or there is none.
    std::string plots_fault;
};

/// Of a file that is being written the rows that are complete.
/// Throws Error{bad_input}: what read_file() and parse_csv() refuse, a file of more than 64 MB.
[[nodiscard]] std::shared_ptr<const TableFile> read_table_file(const std::filesystem::path& path);
/// Of a file; of a folder the tables that a figures.json there has figures of, each once, or without that file every CSV file.
/// Throws Error{bad_input}: as above; a folder without a table.
[[nodiscard]] std::vector<std::shared_ptr<const TableFile>> read_tables(const std::filesystem::path& path);
/// Whether it opens as a table: a CSV file by its name, or a folder.
[[nodiscard]] bool may_be_table(const std::filesystem::path& path);

/// The tables of a window, and which one is shown.
/// Threads  the UI thread.
class OpenTables {
public:
    /// It comes to be shown, in the place of an older one of the same file.
    void show(std::shared_ptr<const TableFile> table);
    /// Takes the place of the one of the same file, if that is still open.
    void replace(std::shared_ptr<const TableFile> table);
    void choose(size_t index); ///< < all().size() (asserted)
    void close(size_t index);  ///< < all().size() (asserted)

    [[nodiscard]] const std::vector<std::shared_ptr<const TableFile>>& all() const { return m_all; }
    [[nodiscard]] size_t chosen() const { return m_chosen; }
    /// Null: none is open.
    [[nodiscard]] std::shared_ptr<const TableFile> shown() const {
        return m_all.empty() ? nullptr : m_all[m_chosen];
    }

private:
    std::vector<std::shared_ptr<const TableFile>> m_all; ///< in the order in which they were opened
    size_t m_chosen = 0;
};

} // namespace refreshlab::ui
