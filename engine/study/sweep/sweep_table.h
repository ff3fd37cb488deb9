#pragma once

#include "engine/study/sweep/sweep_store.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace refreshlab {

/// One metric over the prompts of a group. A prompt's value is the mean over its seeds; prompts without one are left out.
struct TableValue {
    size_t n = 0; ///< prompts with a value
    std::optional<double> mean, sd, median;
    std::optional<Interval> interval; ///< bootstrap of the mean
};

struct SweepTableRow {
    std::string group, label, mode;
    bool policy = false;
    int64_t runs = 0, expected = 0; ///< finished and planned
    std::array<TableValue, num_metrics> values;
    [[nodiscard]] const TableValue& value(Metric metric) const { return values[static_cast<size_t>(metric)]; }
};

/// Sums run in the plan's order, so that the same results give the same bits, whoever made or merged them.
struct SweepTable {
    std::string name;
    std::vector<std::string>
        groups; ///< as they come in the prompts; "all prompts" at the end if there are several
    std::vector<SweepTableRow> rows; ///< group by group, rows of the spec in order
    int64_t runs = 0, expected = 0;  ///< cells
    int64_t timings = 0, expected_timings = 0;
    size_t prompts = 0, seeds = 0;
    /// Overhead has nothing to be compared with: rows with a policy, no row without, no timing. See overhead_hint.
    bool overhead_lacks_none = false;
    int32_t pairs = 0; ///< times and overhead are medians over so many pairs; 0: of single runs
    std::string device;
    std::vector<std::string> kernels; ///< SweepPlan::kernels
    BootstrapOptions bootstrap;
};

/// Overhead of a run with a policy, percent: 100 * (total - total_none) / total_none with the same prompt, N and seed.
/// With timing runs the median over the pairs; without, from the one run each, and nothing where their N differ.
[[nodiscard]] SweepTable make_sweep_table(const SweepPlan& plan, const SweepResults& results);

/// What to do about SweepTable::overhead_lacks_none, for a person.
inline constexpr const char* overhead_hint =
    "overhead is empty, and there is no row OverFill: no run without a policy to compare with; add \"none\" "
    "to "
    "\"policies\" and run the sweep again (only those runs are computed)";

/// Which columns: wall-clock never comes out the same twice.
enum class TableColumns : uint8_t { all, deterministic };

/// The literature's table (means), then mean +- standard deviation [interval] of all that was measured, group by group.
[[nodiscard]] std::string sweep_markdown(const SweepTable& table, TableColumns columns);
/// group, row, mode, policy (0|1), runs, expected, then of each metric its mean, _sd, _ci_low, _ci_high, _median, _n; RFC
/// 4180, a missing value is empty.
[[nodiscard]] std::string sweep_csv(const SweepTable& table, TableColumns columns);
/// Quality against cost, one line for each row and pair of axes: group, row, quality, quality_value, cost, cost_value,
/// on_front. Quality: teacher_ppl, task_score; cost: decode_tps, refreshes, teacher_tokens (mode teacher: its own steps).
/// A row is on the front when no other of its group is at least as good in both and better in one.
[[nodiscard]] std::string sweep_pareto(const SweepTable& table, TableColumns columns);

} // namespace refreshlab
