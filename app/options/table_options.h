#pragma once

#include "app/base/output.h"
#include "engine/results/sweep_table.h"

#include <string>
#include <vector>

namespace CLI {
class App;
} // namespace CLI

namespace refreshlab::app {

/// Where `sweep` and `merge` put the table.
class TableOptions {
public:
    void add_to(CLI::App& command);
    /// Throws Error{bad_input} for a folder that is missing, before anything is computed.
    void check() const;
    /// The files that were asked for; for check_outputs().
    [[nodiscard]] std::vector<NamedFile> files() const;
    /// The row that others are compared with: an argument of make_sweep_table().
    [[nodiscard]] const std::string& against() const { return m_against; }
    /// Writes the files that were asked for; Markdown goes to stdout as well if `print`.
    void write(const SweepTable& table, bool print) const;

private:
    std::string m_markdown, m_csv, m_differences, m_pareto, m_against;
    bool m_deterministic = false;
};

} // namespace refreshlab::app
