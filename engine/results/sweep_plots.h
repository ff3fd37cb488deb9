#pragma once

#include "engine/record/tables/table_plot.h"
#include "engine/results/sweep_table.h"

#include <string>
#include <vector>

namespace refreshlab {

/// The figures of a sweep, with their tables. A figure is left out where the sweep has nothing for it.
///   rows             quality and refreshes of every row; table sweep_csv()
///   times            wall-clock of every row
///   cost             quality over refreshes
///   difference-M     paired differences in metric M; table sweep_differences()
///   over-KEY         quality over the parameter KEY of rows that differ in nothing else: three values of it or more
/// \param configs  JSON of the configuration of a run of each row of the plan (SweepStore::row_configs()); empty: not known
/// \param labels   of the plan's rows
[[nodiscard]] PlottedTables sweep_plots(const SweepTable& table, const std::vector<std::string>& labels,
                                        const std::vector<std::string>& configs);

} // namespace refreshlab
