#include "app/options/table_options.h"

#include "engine/base/error.h"
#include "engine/base/json_file.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>

namespace refreshlab::app {

void TableOptions::add_to(CLI::App& command) {
    command.add_option("--markdown", m_markdown, "Write the table as Markdown")->type_name("FILE");
    command.add_option("--csv", m_csv, "Write the table as CSV, with medians and counts")->type_name("FILE");
    command
        .add_option(
            "--differences", m_differences,
            "Write the paired differences as CSV, with intervals, prompt by prompt with the same seeds")
        ->type_name("FILE");
    command
        .add_option(
            "--against", m_against,
            "Row that all others are compared with, as it is named in the table (default: each row with a "
            "policy is compared with the same row without)")
        ->type_name("ROW");
    command.add_option("--pareto", m_pareto, "Write quality against cost, with the rows on the front marked")
        ->type_name("FILE");
    command.add_flag("--deterministic", m_deterministic,
                     "Leave out what is measured by the clock: the same bytes from every run of the sweep");
}

void TableOptions::check() const {
    for (const auto& [option, file] : files()) {
        if (file.empty()) continue;
        std::filesystem::path folder = std::filesystem::path(file).parent_path();
        if (folder.empty()) folder = ".";
        std::error_code ignored;
        if (!std::filesystem::is_directory(folder, ignored))
            throw Error("writing " + option, file, "no such folder");
        if (std::filesystem::is_directory(file, ignored))
            throw Error("writing " + option, file, "is a folder");
    }
}

std::vector<NamedFile> TableOptions::files() const {
    return {{"--markdown", m_markdown},
            {"--csv", m_csv},
            {"--differences", m_differences},
            {"--pareto", m_pareto}};
}

void TableOptions::write(const SweepTable& table, bool print) const {
    const TableColumns columns = m_deterministic ? TableColumns::deterministic : TableColumns::all;
    const std::string markdown = sweep_markdown(table, columns);
    if (!m_markdown.empty()) write_file(m_markdown, markdown);
    if (!m_csv.empty()) write_file(m_csv, sweep_csv(table, columns));
    if (!m_differences.empty()) write_file(m_differences, sweep_differences(table, columns));
    if (!m_pareto.empty()) write_file(m_pareto, sweep_pareto(table, columns));
    if (!print) return;
    app::print(markdown);
    static_cast<void>(std::fflush(stdout));
}

} // namespace refreshlab::app
