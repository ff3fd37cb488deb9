#include "engine/study/sweep/sweep_table.h"

#include "engine/base/quantile.h"
#include "engine/study/measure/bootstrap.h"

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

TableValue over_prompts(const std::vector<double>& values, const BootstrapOptions& bootstrap) {
    TableValue value;
    value.n = values.size();
    value.mean = mean(values);
    value.sd = standard_deviation(values);
    value.median = quantile(values, 0.5);
    value.interval = bootstrap_mean(values, bootstrap);
    return value;
}

} // namespace

SweepTable make_sweep_table(const SweepPlan& plan, const SweepResults& results) {
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

    // The values of every cell, by row and prompt: the mean over seeds is the prompt's.
    const CellValues cells(plan, results);
    struct PromptValues {
        std::array<std::vector<double>, num_metrics> seeds;
        int64_t runs = 0, expected = 0;
    };
    std::vector<std::map<size_t, PromptValues>> values(
        plan.rows.size()); // ordered: prompts in the plan's order
    std::set<uint64_t> seeds;
    for (const SweepCell& cell : plan.cells) {
        PromptValues& prompt = values[cell.row][cell.prompt];
        seeds.insert(cell.seed);
        ++prompt.expected;
        ++table.expected;
        if (cells.run(cell) != nullptr) {
            ++prompt.runs;
            ++table.runs;
        }
        for (int32_t pair = 0; pair < plan.pairs(cell); ++pair) {
            ++table.expected_timings;
            if (results.timings.contains({cell.id, pair})) ++table.timings;
        }
        const MetricValues of_cell = cells.values(cell);
        for (size_t i = 0; i < num_metrics; ++i) {
            if (of_cell[i]) prompt.seeds[i].push_back(*of_cell[i]);
        }
    }
    table.seeds = seeds.size();

    for (size_t g = 0; g < table.groups.size(); ++g) {
        for (size_t r = 0; r < plan.rows.size(); ++r) {
            SweepTableRow row;
            row.group = table.groups[g];
            row.label = plan.rows[r].label;
            row.mode = plan.rows[r].mode;
            row.policy = plan.rows[r].policy;
            std::array<std::vector<double>, num_metrics> of_prompts;
            for (const auto& [prompt, of_prompt] : values[r]) {
                if (g < own_groups && plan.prompts[prompt].group != row.group) continue;
                row.runs += of_prompt.runs;
                row.expected += of_prompt.expected;
                for (size_t i = 0; i < num_metrics; ++i) {
                    if (const auto value = mean(of_prompt.seeds[i])) of_prompts[i].push_back(*value);
                }
            }
            for (size_t i = 0; i < num_metrics; ++i)
                row.values[i] = over_prompts(of_prompts[i], plan.bootstrap);
            table.rows.push_back(std::move(row));
        }
    }
    return table;
}

} // namespace refreshlab
