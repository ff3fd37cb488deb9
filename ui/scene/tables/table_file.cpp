#include "ui/scene/tables/table_file.h"

#include "engine/base/check.h"
#include "engine/base/error.h"
#include "engine/base/json_file.h"

#include <algorithm>
#include <string_view>
#include <system_error>
#include <utility>

namespace refreshlab::ui {

namespace {

namespace fs = std::filesystem;

constexpr size_t largest = size_t{64} << 20;
constexpr std::string_view family_column = "family";

/// The last line of a file that somebody writes may be half there.
DataTable parse_complete(std::string_view text, const std::string& what) {
    if (text.empty() || text.ends_with('\n')) return parse_csv(text, what);
    const size_t end = text.rfind('\n');
    if (end == std::string_view::npos) return parse_csv(text, what);
    try {
        return parse_csv(text, what);
    } catch (const Error&) {
        return parse_csv(text.substr(0, end + 1), what);
    }
}

void read_plots(TableFile& file) {
    const fs::path plots = file.path.parent_path() / plots_file;
    std::error_code error;
    if (!fs::exists(plots, error)) return;
    try {
        for (TablePlot& plot : plots_from_json(read_json_file(plots, largest), plots.string())) {
            if (plot.table != file.path.stem().string()) continue;
            check_columns(plot, file.table, file.path.string());
            file.plots.push_back(std::move(plot));
        }
    } catch (const Error& e) { // the table itself is there all the same
        file.plots.clear();
        file.plots_fault = e.what();
    }
}

void read_policies(TableFile& file) {
    DataTable& table = file.table;
    for (size_t row = 0; row < table.rows.size(); ++row)
        file.rows.push_back(read_policy(table, row));
    if (!file.has_policies() || table.find(family_column)) return;
    table.columns.emplace_back(family_column);
    for (size_t row = 0; row < table.rows.size(); ++row) {
        const auto& policy = file.rows[row].policy;
        const CacheMethod* const method = policy ? find_cache_method(policy->config.policy) : nullptr;
        table.rows[row].push_back(method != nullptr ? std::string(method->family) : "other");
    }
}

std::vector<fs::path> tables_of_folder(const fs::path& folder) {
    std::vector<fs::path> tables;
    const auto add = [&](fs::path table) {
        if (std::ranges::find(tables, table) == tables.end()) tables.push_back(std::move(table));
    };
    std::error_code error;
    if (const fs::path plots = folder / plots_file; fs::exists(plots, error)) {
        for (const TablePlot& plot : plots_from_json(read_json_file(plots, largest), plots.string()))
            add(folder / (plot.table + table_extension));
    } else {
        for (const auto& entry : fs::directory_iterator(folder, error))
            if (entry.path().extension() == table_extension) add(entry.path());
        std::ranges::sort(tables);
    }
    if (tables.empty()) throw Error("opening tables", folder.string(), "there is no CSV file in this folder");
    return tables;
}

} // namespace

std::optional<FileStamp> stamp_of(const fs::path& path) {
    std::error_code error;
    FileStamp stamp;
    stamp.bytes = fs::file_size(path, error);
    if (error) return std::nullopt;
    stamp.changed = fs::last_write_time(path, error);
    if (error) return std::nullopt;
    return stamp;
}

bool TableFile::has_policies() const {
    return std::ranges::any_of(rows, [](const RowReading& row) { return row.policy.has_value(); });
}

std::shared_ptr<const TableFile> read_table_file(const fs::path& path) {
    auto file = std::make_shared<TableFile>();
    file->path = fs::absolute(path).lexically_normal();
    if (const auto stamp = stamp_of(path)) file->stamp = *stamp;
    file->table = parse_complete(read_file(path, largest), path.string());
    read_plots(*file);
    read_policies(*file);
    return file;
}

bool may_be_table(const fs::path& path) {
    std::error_code error;
    return path.extension() == table_extension || fs::is_directory(path, error);
}

std::vector<std::shared_ptr<const TableFile>> read_tables(const fs::path& path) {
    std::error_code error;
    std::vector<std::shared_ptr<const TableFile>> tables;
    for (const fs::path& file : fs::is_directory(path, error) ? tables_of_folder(path) : std::vector{path})
        tables.push_back(read_table_file(file));
    return tables;
}

void OpenTables::show(std::shared_ptr<const TableFile> table) {
    const auto found = std::ranges::find(m_all, table->path, [](const auto& open) { return open->path; });
    m_chosen = static_cast<size_t>(found - m_all.begin());
    if (found == m_all.end())
        m_all.push_back(std::move(table));
    else
        *found = std::move(table);
}

void OpenTables::replace(std::shared_ptr<const TableFile> table) {
    const auto found = std::ranges::find(m_all, table->path, [](const auto& open) { return open->path; });
    if (found != m_all.end()) *found = std::move(table);
}

void OpenTables::choose(size_t index) {
    RL_ASSERT(index < m_all.size());
    m_chosen = index;
}

void OpenTables::close(size_t index) {
    RL_ASSERT(index < m_all.size());
    m_all.erase(m_all.begin() + static_cast<std::ptrdiff_t>(index));
    if (m_chosen > 0 && m_chosen >= index) --m_chosen;
}

} // namespace refreshlab::ui
