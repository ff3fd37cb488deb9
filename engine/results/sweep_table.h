#pragma once

#include "engine/results/sweep_store.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace refreshlab {

/// One metric over the prompts of a group. A prompt's value is the mean over its seeds; prompts without one are left out.
struct TableValue {
    size_t n = 0;    ///< prompts with a value
    size_t runs = 0; ///< runs with a value: those prompts' seeds
    std::optional<double> mean, sd, median;
    std::optional<Interval> interval; ///< bootstrap of the mean, from fewest_for_interval prompts on
};
using TableValues = std::array<TableValue, num_metrics>;

struct SweepTableRow {
    std::string group, label, mode;
    bool policy = false;
    int64_t runs = 0, expected = 0; ///< finished and planned
    size_t prompts = 0;             ///< planned
    TableValues values;
    [[nodiscard]] const TableValue& value(Metric metric) const { return values[static_cast<size_t>(metric)]; }
    /// The row that this one is compared with; empty where there is none.
    std::string against;
    /// This row minus that one, run by run with the same prompt and seed: the mean over a prompt's seeds is the prompt's, as in
    /// `values`. What differs from prompt to prompt alike for both falls out.
    TableValues differences;
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
/// \param against  label of the row that all others are compared with; empty: each row with a policy with the row that differs
///                 only in having none. Throws Error{bad_input} if no row has this label.
[[nodiscard]] SweepTable make_sweep_table(const SweepPlan& plan, const SweepResults& results,
                                          const std::string& against = {});

/// What to do about SweepTable::overhead_lacks_none, for a person.
inline constexpr const char* overhead_hint =
    "overhead is empty, and there is no row OverFill: no run without a policy to compare with; add \"none\" "
    "to "
    "\"policies\" and run the sweep again (only those runs are computed)";

/// Which columns: wall-clock never comes out the same twice.
enum class TableColumns : uint8_t { all, deterministic };

/// The literature's table (means), then mean +- standard deviation [interval] of all that was measured, then the paired
/// differences, group by group. Column n is the number of prompts; a mean over fewer prompts or runs says over how many.
[[nodiscard]] std::string sweep_markdown(const SweepTable& table, TableColumns columns);
/// group, row, mode, policy (0|1), runs, expected, prompts, then of each metric its mean, _sd, _ci_low, _ci_high, _median, _n;
/// RFC 4180, a missing value is empty.
[[nodiscard]] std::string sweep_csv(const SweepTable& table, TableColumns columns);
/// Paired differences, one line for each row and metric that has any: group, row, against, metric, difference, sd, ci_low,
/// ci_high, median, n (prompts), runs (pairs of runs).
[[nodiscard]] std::string sweep_differences(const SweepTable& table, TableColumns columns);
/// Quality against cost, one line for each row and pair of axes: group, row, quality, quality_value, quality_n, cost,
/// cost_value, cost_n, on_front. Quality: teacher_ppl, task_score; cost: decode_tps, refreshes, teacher_tokens (mode teacher: its own steps).
/// A row is on the front when no other of its group is at least as good in both and better in one.
[[nodiscard]] std::string sweep_pareto(const SweepTable& table, TableColumns columns);

} // namespace refreshlab
