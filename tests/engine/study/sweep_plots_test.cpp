// Which figures a sweep has.
#include "engine/results/sweep_plots.h"
#include "engine/study/sweep/sweep_cells.h"
#include "tests/engine/study/sweep_fixture.h"
#include "tests/support/seed.h"

#include <algorithm>
#include <set>

namespace sweep_plots_test {

using namespace refreshlab;
using namespace refreshlab::test;
using nlohmann::json;

namespace {

/// The configuration of each row, as a run of it would be stored.
std::vector<std::string> configs_of(const SweepSpec& spec) {
    std::vector<std::string> configs;
    for (size_t row = 0; row < spec.rows.size(); ++row)
        configs.push_back(to_json(spec.config(row, row % spec.prompts.size(), row)).dump());
    return configs;
}

PlottedTables plots_of(const json& grid, bool with_configs = true) {
    const SweepSpec spec = parse(grid);
    const SweepPlan plan = make_sweep_plan(spec, some_models);
    std::mt19937_64 random(seed(5));
    SweepResults results;
    for (const SweepCell& cell : plan.cells)
        results.runs[cell.id] = random_metrics(random);
    std::vector<std::string> labels;
    for (const SweepPlan::Row& row : plan.rows)
        labels.push_back(row.label);
    return sweep_plots(make_sweep_table(plan, results), labels,
                       with_configs ? configs_of(spec) : std::vector<std::string>(spec.rows.size()));
}

std::set<std::string> names_of(const PlottedTables& tables) {
    std::set<std::string> names;
    for (const TablePlot& plot : tables.plots) {
        CHECK(names.insert(plot.name).second);
        CHECK_NOTHROW(check_columns(plot, tables.tables.at(plot.table), plot.table));
    }
    return names;
}

} // namespace

TEST_CASE("rows of a sweep that differ in one number make a curve over it", "[study][sweep]") {
    const json grid{
        {"name", "grid"},
        {"modes", {"overfill"}},
        {"policies",
         {"none",
          {{"preset", "entropy"}, {"set", {{"entropy.threshold", {2, 4, 6}}, {"entropy.every", {1, 8}}}}},
          {{"preset", "periodic"}, {"set", {{"periodic.every", {8, 16}}}}}}},
        {"prompts", {"a", "b", "c", "d", "e", "f"}},
        {"seeds", {1, 2}}};
    const PlottedTables tables = plots_of(grid);
    const auto names = names_of(tables);
    CHECK(names.contains("rows"));
    CHECK(names.contains("cost"));
    CHECK(names.contains("difference-teacher_ppl"));
    CHECK(names.contains("over-entropy.threshold"));
    CHECK_FALSE(names.contains("over-entropy.every")); // two values are no curve
    CHECK_FALSE(names.contains("over-periodic.every"));
    // Both curves have the three thresholds, each with its row's numbers.
    const DataTable &over = tables.tables.at("parameters"), &rows = tables.tables.at("rows");
    REQUIRE(over.rows.size() == 6);
    std::multiset<std::string> values;
    for (const auto& row : over.rows) {
        values.insert(row[*over.find("at")]);
        const auto same = std::ranges::find_if(
            rows.rows, [&](const auto& other) { return other[*rows.find("row")] == row[*over.find("row")]; });
        REQUIRE(same != rows.rows.end());
        CHECK((*same)[*rows.find("teacher_ppl")] == row[*over.find("teacher_ppl")]);
        CHECK(row[*over.find("row")].find("> " + row[*over.find("at")]) != std::string::npos);
    }
    CHECK(values == std::multiset<std::string>{"2", "2", "4", "4", "6", "6"});
}

TEST_CASE("a sweep whose configurations are not known has its other figures", "[study][sweep]") {
    const PlottedTables tables = plots_of({{"name", "small"},
                                           {"modes", {"teacher", "overfill"}},
                                           {"policies", {"none", "periodic"}},
                                           {"prompts", {"a", "b"}},
                                           {"seeds", {1}}},
                                          false);
    CHECK(names_of(tables).contains("rows"));
    CHECK_FALSE(tables.tables.contains("parameters"));
}

} // namespace sweep_plots_test
