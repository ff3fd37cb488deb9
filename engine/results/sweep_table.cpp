#include "engine/results/sweep_table.h"

#include "engine/base/error.h"
#include "engine/base/quantile.h"
#include "engine/results/bootstrap.h"
#include "engine/signals/nearest_name.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

namespace refreshlab {

namespace {

constexpr const char* all_prompts = "all prompts";

/// All values of one cell, those over pairs of runs included.
class CellValues {
public:
    CellValues(const SweepPlan& plan, const SweepResults& results)
        : m_plan(plan)
        , m_results(results) {
        for (const SweepCell& cell : plan.cells)
            m_cells.emplace(std::tuple(cell.row, cell.prompt, cell.seed), &cell);
    }

    /// Null for a run that is missing.
    [[nodiscard]] const MetricValues* run(const SweepCell& cell) const {
        const auto found = m_results.runs.find(cell.id);
        return found == m_results.runs.end() ? nullptr : &found->second;
    }

    [[nodiscard]] MetricValues values(const SweepCell& cell) const {
        const MetricValues* const finished = run(cell);
        MetricValues values = finished == nullptr ? MetricValues{} : *finished;
        if (m_plan.timing.pairs > 0) {
            for (size_t i = 0; i < num_metrics; ++i) {
                if (metric_infos[i].measured) values[i].reset();
            }
            add_timings(cell, values);
        } else if (finished != nullptr) {
            add_single_overhead(cell, values);
        }
        return values;
    }

private:
    void add_timings(const SweepCell& cell, MetricValues& values) const {
        const int32_t pairs = m_plan.pairs(cell);
        std::vector<double> ttft, decode, total, end_to_end, overhead;
        for (int32_t pair = 0; pair < pairs; ++pair) {
            const auto found = m_results.timings.find({cell.id, pair});
            if (found == m_results.timings.end()) return; // a median over fewer pairs is another number
            const SweepTimingResult& t = found->second;
            ttft.push_back(t.ttft_ms);
            total.push_back(t.total_ms / 1000);
            if (t.decode_tps) decode.push_back(*t.decode_tps);
            if (t.total_ms > 0) end_to_end.push_back(1000 * static_cast<double>(t.tokens) / t.total_ms);
            if (t.none_total_ms && *t.none_total_ms > 0)
                overhead.push_back(100 * (t.total_ms - *t.none_total_ms) / *t.none_total_ms);
        }
        value_of(values, Metric::ttft_ms) = quantile(ttft, 0.5);
        value_of(values, Metric::decode_tps) = quantile(decode, 0.5);
        value_of(values, Metric::total_s) = quantile(total, 0.5);
        value_of(values, Metric::end_to_end_tps) = quantile(end_to_end, 0.5);
        value_of(values, Metric::overhead_percent) = quantile(overhead, 0.5);
    }

    void add_single_overhead(const SweepCell& cell, MetricValues& values) const {
        const std::optional<size_t>& none_row = m_plan.rows[cell.row].none_row;
        if (!none_row) return;
        const auto none_cell = m_cells.find({*none_row, cell.prompt, cell.seed});
        if (none_cell == m_cells.end()) return;
        const MetricValues* const none = run(*none_cell->second);
        if (none == nullptr || value_of(*none, Metric::tokens) != value_of(values, Metric::tokens)) return;
        const auto with = value_of(values, Metric::total_s), without = value_of(*none, Metric::total_s);
        if (with && without && *without > 0)
            value_of(values, Metric::overhead_percent) = 100 * (*with - *without) / *without;
    }

    const SweepPlan& m_plan;
    const SweepResults& m_results;
    std::map<std::tuple<size_t, size_t, uint64_t>, const SweepCell*> m_cells; ///< by row, prompt, seed
};

/// Numbers of one row and group, prompt by prompt.
class OverPrompts {
public:
    /// A run, or a pair of runs, of a prompt.
    void add(size_t prompt, const MetricValues& values) {
        for (size_t i = 0; i < num_metrics; ++i) {
            if (values[i]) m_values[i][prompt].push_back(*values[i]);
        }
    }
    [[nodiscard]] TableValues summary(const BootstrapOptions& bootstrap) const {
        TableValues table;
        for (size_t i = 0; i < num_metrics; ++i) {
            std::vector<double> prompts;
            for (const auto& [prompt, runs] : m_values[i]) {
                prompts.push_back(*mean(runs));
                table[i].runs += runs.size();
            }
            table[i].n = prompts.size();
            table[i].mean = mean(prompts);
            table[i].sd = standard_deviation(prompts);
            table[i].median = quantile(prompts, 0.5);
            table[i].interval = bootstrap_mean(prompts, bootstrap);
        }
        return table;
    }

private:
    std::array<std::map<size_t, std::vector<double>>, num_metrics>
        m_values; ///< ordered: prompts in the plan's order
};

MetricValues difference(const MetricValues& a, const MetricValues& b) {
    MetricValues values;
    for (size_t i = 0; i < num_metrics; ++i) {
        if (a[i] && b[i]) values[i] = *a[i] - *b[i];
    }
    return values;
}

/// The row that each row of the plan is compared with.
std::vector<std::optional<size_t>> compared_rows(const SweepPlan& plan, const std::string& against) {
    std::vector<std::optional<size_t>> rows(plan.rows.size());
    if (against.empty()) {
        for (size_t r = 0; r < rows.size(); ++r)
            rows[r] = plan.rows[r].none_row;
        return rows;
    }
    const auto named = std::ranges::find(plan.rows, against, &SweepPlan::Row::label);
    if (named == plan.rows.end()) {
        std::vector<std::string_view> labels;
        for (const SweepPlan::Row& row : plan.rows)
            labels.push_back(row.label);
        throw Error("comparing with", against, "the sweep has no such row",
                    name_hint(against, labels, "rows"));
    }
    const auto base = static_cast<size_t>(named - plan.rows.begin());
    for (size_t r = 0; r < rows.size(); ++r) {
        if (r != base) rows[r] = base;
    }
    return rows;
}

} // namespace

SweepTable make_sweep_table(const SweepPlan& plan, const SweepResults& results, const std::string& against) {
    SweepTable table;
    table.name = plan.name;
    table.prompts = plan.prompts.size();
    table.pairs = plan.timing.pairs;
    table.device = plan.models.device;
    table.kernels = plan.kernels;
    table.bootstrap = plan.bootstrap;
    table.overhead_lacks_none = plan.timing.pairs == 0 && std::any_of(plan.rows.begin(), plan.rows.end(),
                                                                      [](const SweepPlan::Row& row) {
                                                                          return row.policy && !row.none_row;
                                                                      });
    for (const SweepPlan::Prompt& prompt : plan.prompts) {
        if (std::find(table.groups.begin(), table.groups.end(), prompt.group) == table.groups.end())
            table.groups.push_back(prompt.group);
    }
    const size_t own_groups = table.groups.size();
    if (own_groups > 1) table.groups.emplace_back(all_prompts);

    const CellValues cells(plan, results);
    std::vector<std::vector<const SweepCell*>> of_row(plan.rows.size()); // in the plan's order
    std::map<std::tuple<size_t, size_t, uint64_t>, MetricValues> values; // by row, prompt, seed
    std::set<uint64_t> seeds;
    for (const SweepCell& cell : plan.cells) {
        of_row[cell.row].push_back(&cell);
        values.emplace(std::tuple(cell.row, cell.prompt, cell.seed), cells.values(cell));
        seeds.insert(cell.seed);
        ++table.expected;
        table.runs += cells.run(cell) != nullptr ? 1 : 0;
        for (int32_t pair = 0; pair < plan.pairs(cell); ++pair) {
            ++table.expected_timings;
            if (results.timings.contains({cell.id, pair})) ++table.timings;
        }
    }
    table.seeds = seeds.size();

    const auto compared = compared_rows(plan, against);
    for (size_t g = 0; g < table.groups.size(); ++g) {
        for (size_t r = 0; r < plan.rows.size(); ++r) {
            SweepTableRow row;
            row.group = table.groups[g];
            row.label = plan.rows[r].label;
            row.mode = plan.rows[r].mode;
            row.policy = plan.rows[r].policy;
            if (compared[r]) row.against = plan.rows[*compared[r]].label;
            OverPrompts own, differences;
            std::set<size_t> prompts;
            for (const SweepCell* cell : of_row[r]) {
                if (g < own_groups && plan.prompts[cell->prompt].group != row.group) continue;
                prompts.insert(cell->prompt);
                ++row.expected;
                row.runs += cells.run(*cell) != nullptr ? 1 : 0;
                const MetricValues& of_cell = values.at({r, cell->prompt, cell->seed});
                own.add(cell->prompt, of_cell);
                if (!compared[r]) continue;
                const auto other = values.find({*compared[r], cell->prompt, cell->seed});
                if (other != values.end()) differences.add(cell->prompt, difference(of_cell, other->second));
            }
            row.prompts = prompts.size();
            row.values = own.summary(plan.bootstrap);
            row.differences = differences.summary(plan.bootstrap);
            table.rows.push_back(std::move(row));
        }
    }
    return table;
}

} // namespace refreshlab
