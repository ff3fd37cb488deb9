// Numbers of the table: bootstrap, means over prompts, overhead, the front, and what they look like.
#include "engine/base/quantile.h"
#include "engine/results/bootstrap.h"
#include "engine/results/sweep_table.h"
#include "engine/study/sweep/sweep_cells.h"
#include "tests/engine/study/sweep_fixture.h"
#include "tests/support/seed.h"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_get_random_seed.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <sstream>

namespace sweep_table_test {

using namespace refreshlab;
using namespace refreshlab::test;
using Catch::Approx;
using Catch::Matchers::ContainsSubstring;
using nlohmann::json;

namespace {

std::vector<double> some_values(uint64_t seed, size_t n) {
    std::mt19937_64 random(seed);
    std::vector<double> values(n);
    for (double& v : values)
        v = static_cast<double>(random() >> 11) * 0x1p-53 * 10 - 3;
    return values;
}

std::vector<std::string> split(const std::string& text, char at) {
    std::vector<std::string> parts;
    std::string part;
    std::istringstream in(text);
    while (std::getline(in, part, at))
        parts.push_back(part);
    return parts;
}

/// A field of an unquoted CSV.
std::string field(const std::string& csv, size_t row, const std::string& column) {
    const auto lines = split(csv, '\n');
    const auto header = split(lines.at(0), ',');
    const auto found = std::find(header.begin(), header.end(), column);
    REQUIRE(found != header.end());
    const auto cells = split(lines.at(row + 1) + ",.", ','); // keeps an empty last field
    return cells.at(static_cast<size_t>(found - header.begin()));
}

/// Results for every run of a plan.
SweepResults random_results(const SweepPlan& plan, uint64_t seed) {
    std::mt19937_64 random(seed);
    SweepResults results;
    for (const SweepCell& cell : plan.cells)
        results.runs[cell.id] = random_metrics(random);
    return results;
}

const json small_grid{{"name", "small"},
                      {"modes", {"teacher", "overfill"}},
                      {"policies", {"none", "periodic"}},
                      {"prompts", {"a", "b", "c"}},
                      {"seeds", {1, 2}}};

} // namespace

TEST_CASE("the bootstrap interval is that of a naive implementation", "[study][sweep]") {
    const uint64_t seed = GENERATE(0U, 1U, 77U);
    const size_t n = GENERATE(5U, 6U, 17U, 60U);
    const std::vector<double> values = some_values(seed + 5, n);
    BootstrapOptions options;
    options.seed = seed;
    options.resamples = 500;
    options.level = 0.9;
    // By the book: lists of drawn values, sorted means, the quantile as in the definition of type 7.
    std::mt19937_64 random(seed);
    std::vector<long double> means;
    for (int b = 0; b < 500; ++b) {
        std::vector<double> drawn;
        for (size_t i = 0; i < n; ++i) {
            const auto unit = static_cast<long double>(random()) / 18446744073709551616.0L;
            drawn.push_back(values[static_cast<size_t>(std::floor(unit * static_cast<long double>(n)))]);
        }
        means.push_back(std::accumulate(drawn.begin(), drawn.end(), 0.0L) / static_cast<long double>(n));
    }
    std::sort(means.begin(), means.end());
    const auto type7 = [&](long double q) {
        const long double h = 499.0L * q;
        const auto j = static_cast<size_t>(std::floor(h));
        return static_cast<double>(means[j] +
                                   (h - std::floor(h)) * (means[std::min<size_t>(j + 1, 499)] - means[j]));
    };
    const auto interval = bootstrap_mean(values, options);
    REQUIRE(interval);
    CHECK(interval->low == Approx(type7(0.05L)).epsilon(1e-12));
    CHECK(interval->high == Approx(type7(0.95L)).epsilon(1e-12));
    CHECK(interval->low <= *mean(values));
    CHECK(interval->high >= *mean(values));
    CHECK(bootstrap_mean(values, options) == interval); // the same bits again
    options.seed += 1;
    CHECK(bootstrap_mean(values, options) != interval);
}

TEST_CASE("the bootstrap covers the mean about as often as it says", "[study][sweep]") {
    // 400 samples of 40 uniform numbers: the true mean is 2. Binomial(400, 0.95) has sd 4.4; the percentile interval of
    // n = 40 is a little short, so 355 leaves room without letting a wrong interval through.
    int covered = 0;
    BootstrapOptions options;
    options.resamples = 400;
    for (uint64_t i = 0; i < 400; ++i) {
        const auto interval = bootstrap_mean(some_values(1000 + i, 40), options);
        covered += interval->low <= 2 && 2 <= interval->high ? 1 : 0;
    }
    CHECK(covered >= 355);
    CHECK(covered <= 396);
}

TEST_CASE("too few values have no spread and no interval", "[study][sweep]") {
    CHECK_FALSE(mean({}));
    CHECK_FALSE(quantile({}, 0.5));
    const std::vector<double> one{4};
    CHECK(mean(one) == 4.0);
    CHECK(quantile(one, 0.5) == 4.0);
    CHECK_FALSE(standard_deviation(one));
    CHECK_FALSE(bootstrap_mean(one, {}));
    CHECK(quantile({4, 1, 3, 2}, 0.5) == 2.5);
    CHECK(quantile({4, 1, 3, 2}, 0) == 1.0);
    CHECK(quantile({4, 1, 3, 2}, 1) == 4.0);
    const std::vector<double> pair{1, 3};
    CHECK(*standard_deviation(pair) == Approx(std::sqrt(2.0)));
    // Of two values a percentile interval would hold the mean in half of all cases, whatever it calls itself.
    CHECK_FALSE(bootstrap_mean(pair, {}));
    CHECK_FALSE(bootstrap_mean(std::vector<double>{1, 2, 3, 4}, {}));
    CHECK(bootstrap_mean(std::vector<double>{1, 2, 3, 4, 5}, {}));
}

TEST_CASE("a prompt counts once whatever its seeds, and missing values are left out", "[study][sweep]") {
    const SweepPlan plan = make_sweep_plan(parse(small_grid), some_models);
    const uint64_t seed = test::seed(GENERATE(range(0U, 5U)));
    CAPTURE(seed);
    const SweepResults results = random_results(plan, seed);
    const SweepTable table = make_sweep_table(plan, results);
    REQUIRE(table.rows.size() == 3);
    CHECK(table.groups == std::vector<std::string>{"prompts"});
    CHECK(table.runs == 18);
    CHECK(table.expected == 18);
    for (size_t r = 0; r < 3; ++r) {
        for (size_t m = 0; m < num_metrics; ++m) {
            if (metric_infos[m].summary.empty()) continue;
            CAPTURE(r, metric_infos[m].name);
            std::vector<double> prompts;
            for (size_t p = 0; p < 3; ++p) {
                double sum = 0, n = 0;
                for (const SweepCell& cell : plan.cells) {
                    const auto& value = results.runs.at(cell.id)[m];
                    if (cell.row != r || cell.prompt != p || !value) continue;
                    sum += *value;
                    n += 1;
                }
                if (n > 0) prompts.push_back(sum / n);
            }
            const TableValue& value = table.rows[r].values[m];
            REQUIRE(value.n == prompts.size());
            REQUIRE(value.mean.has_value() == !prompts.empty());
            if (prompts.empty()) continue;
            CHECK(*value.mean == Approx(std::accumulate(prompts.begin(), prompts.end(), 0.0) /
                                        static_cast<double>(prompts.size())));
            CHECK(value.sd.has_value() == (prompts.size() > 1));
            CHECK(value.interval == bootstrap_mean(prompts, plan.bootstrap));
        }
    }
}

TEST_CASE("differences pair the runs of one prompt and seed", "[study][sweep]") {
    json grid = small_grid;
    grid["prompts"] = {"a", "b", "c", "d", "e", "f"};
    const SweepPlan plan = make_sweep_plan(parse(grid), some_models);
    const uint64_t seed = test::seed(GENERATE(range(20U, 25U)));
    CAPTURE(seed);
    SweepResults results = random_results(plan, seed);
    results.runs.erase(plan.cells[3].id); // one that is missing leaves its pair out
    const std::string chosen = GENERATE("", "Teacher", "OverFill");
    const SweepTable table = make_sweep_table(plan, results, chosen);
    const auto label = [&](size_t r) { return plan.rows[r].label; };
    for (size_t r = 0; r < 3; ++r) {
        // Rows: teacher, overfill, overfill + periodic.
        const std::optional<size_t> base = chosen.empty() ? (r == 2 ? std::optional<size_t>(1) : std::nullopt)
                                           : chosen == label(r)
                                               ? std::nullopt
                                               : std::optional<size_t>(chosen == "Teacher" ? 0 : 1);
        CAPTURE(r, chosen);
        CHECK(table.rows[r].against == (base ? label(*base) : ""));
        for (size_t m = 0; m < num_metrics; ++m) {
            if (metric_infos[m].summary.empty()) continue;
            std::vector<double> prompts;
            size_t pairs = 0;
            for (size_t p = 0; p < 6 && base; ++p) {
                double sum = 0, n = 0;
                for (const uint64_t s : {1U, 2U}) {
                    const auto value = [&](size_t row) -> std::optional<double> {
                        for (const SweepCell& cell : plan.cells) {
                            if (cell.row != row || cell.prompt != p || cell.seed != s) continue;
                            if (results.runs.contains(cell.id)) return results.runs.at(cell.id)[m];
                        }
                        return std::nullopt;
                    };
                    if (!value(r) || !value(*base)) continue;
                    sum += *value(r) - *value(*base);
                    n += 1;
                }
                pairs += static_cast<size_t>(n);
                if (n > 0) prompts.push_back(sum / n);
            }
            const TableValue& found = table.rows[r].differences[m];
            REQUIRE(found.n == prompts.size());
            REQUIRE(found.runs == pairs);
            if (prompts.empty()) continue;
            CHECK(*found.mean == Approx(*mean(prompts)).margin(1e-9));
            CHECK(found.interval == bootstrap_mean(prompts, plan.bootstrap));
        }
    }
    CHECK_THROWS_WITH(make_sweep_table(plan, results, "OverFil"),
                      ContainsSubstring("OverFil") && ContainsSubstring("did you mean OverFill"));
}

TEST_CASE("what is alike for both rows of a pair falls out of the difference", "[study][sweep]") {
    json grid = small_grid;
    grid["prompts"] = {"a", "b", "c", "d", "e"};
    const SweepPlan plan = make_sweep_plan(parse(grid), some_models);
    SweepResults results;
    for (const SweepCell& cell : plan.cells) // prompts differ by hundreds, policies by a quarter
        value_of(results.runs[cell.id], Metric::teacher_ppl) =
            100.0 * static_cast<double>(cell.prompt * cell.prompt) + 10 * static_cast<double>(cell.seed) +
            (cell.row == 2 ? 0.25 : 0.5);
    const SweepTable table = make_sweep_table(plan, results);
    const TableValue& difference = table.rows[2].differences[static_cast<size_t>(Metric::teacher_ppl)];
    CHECK(difference.mean == -0.25);
    CHECK(difference.interval == Interval{-0.25, -0.25});
    CHECK(table.rows[2].value(Metric::teacher_ppl).interval->high >
          table.rows[2].value(Metric::teacher_ppl).interval->low + 100);
    const std::string csv = sweep_differences(table, TableColumns::deterministic);
    CHECK_THAT(csv, ContainsSubstring(",OverFill,teacher_ppl,-0.25,0,-0.25,-0.25,-0.25,5,10\n"));
    CHECK_THAT(sweep_markdown(table, TableColumns::all),
               ContainsSubstring("| -0.250 ± 0.000 [-0.250, -0.250] |"));
}

TEST_CASE("a mean over fewer prompts or runs than its row says so", "[study][sweep]") {
    const SweepPlan plan = make_sweep_plan(parse(small_grid), some_models); // 3 prompts, 2 seeds
    SweepResults results;
    for (const SweepCell& cell : plan.cells) {
        MetricValues values;
        value_of(values, Metric::teacher_ppl) = 2;
        if (cell.prompt != 1) value_of(values, Metric::task_score) = 0.5; // no task
        if (cell.seed != 2 || cell.prompt != 0) value_of(values, Metric::agreement) = 1;
        results.runs[cell.id] = values;
    }
    const SweepTable table = make_sweep_table(plan, results);
    CHECK(table.rows[0].value(Metric::task_score).n == 2);
    CHECK(table.rows[0].value(Metric::agreement).n == 3);
    CHECK(table.rows[0].value(Metric::agreement).runs == 5);
    CHECK_THAT(sweep_markdown(table, TableColumns::deterministic),
               ContainsSubstring(
                   "| Teacher | 3 | 2.000 ± 0.000 | 1.000 ± 0.000 (5 of 6 runs) | 0.500 ± 0.000 (n = 2) |"));
    const std::string csv = sweep_csv(table, TableColumns::deterministic);
    CHECK(field(csv, 0, "prompts") == "3");
    CHECK(field(csv, 0, "task_score_n") == "2");
}

TEST_CASE("overhead compares runs of the same prompt, seed and length", "[study][sweep]") {
    const SweepPlan plan = make_sweep_plan(parse(small_grid), some_models);
    SweepResults results;
    for (const SweepCell& cell : plan.cells) {
        MetricValues values;
        value_of(values, Metric::tokens) = 10;
        value_of(values, Metric::total_s) = cell.row == 2 ? 3.0 : 2.0;
        results.runs[cell.id] = values;
    }
    CHECK(make_sweep_table(plan, results).rows[2].value(Metric::overhead_percent).mean == 50.0);
    CHECK_FALSE(make_sweep_table(plan, results).rows[1].value(Metric::overhead_percent).mean);
    CHECK_FALSE(make_sweep_table(plan, results).rows[0].value(Metric::overhead_percent).mean);
    // A run of another length says nothing about overhead.
    for (const SweepCell& cell : plan.cells) {
        if (cell.row == 2 && cell.prompt != 1) value_of(results.runs[cell.id], Metric::tokens) = 9;
    }
    CHECK(make_sweep_table(plan, results).rows[2].value(Metric::overhead_percent).n == 1);
}

TEST_CASE("without a run to compare with the table says why overhead is empty", "[study][sweep]") {
    const auto table_of = [](json policies, const json& timing) {
        json grid = small_grid;
        grid["policies"] = std::move(policies);
        if (!timing.is_null()) grid["timing"] = timing;
        const SweepPlan plan = make_sweep_plan(parse(grid), some_models);
        return make_sweep_table(plan, random_results(plan, 8));
    };
    const SweepTable lacking = table_of("periodic", nullptr);
    CHECK(lacking.overhead_lacks_none);
    CHECK_FALSE(lacking.rows[1].value(Metric::overhead_percent).mean);
    CHECK_THAT(sweep_markdown(lacking, TableColumns::all), ContainsSubstring(overhead_hint));
    CHECK_THAT(sweep_markdown(lacking, TableColumns::deterministic), !ContainsSubstring("overhead"));
    CHECK_FALSE(table_of({"none", "periodic"}, nullptr).overhead_lacks_none);
    CHECK_FALSE(table_of("none", nullptr).overhead_lacks_none);
    CHECK_FALSE(table_of("periodic", {{"pairs", 5}}).overhead_lacks_none); // each pair has its own
}

TEST_CASE("timed pairs replace the times of single runs, by their medians", "[study][sweep]") {
    json grid = small_grid;
    grid["timing"] = {{"pairs", 5}, {"prompts", 2}};
    const SweepPlan plan = make_sweep_plan(parse(grid), some_models);
    SweepResults results = random_results(plan, 4);
    for (const SweepCell& cell : plan.cells) {
        for (int32_t pair = 0; pair < plan.pairs(cell); ++pair) {
            SweepTimingResult t;
            t.id = cell.id;
            t.pair = pair;
            t.tokens = 100;
            t.ttft_ms = 10;
            t.total_ms = 1000.0 + (pair == 4 ? 50'000 : pair); // one pair hit by something else
            if (cell.row == 2) t.none_total_ms = 500;
            results.timings[{cell.id, pair}] = t;
        }
    }
    SweepTable table = make_sweep_table(plan, results);
    CHECK(table.expected_timings == 3 * 2 * 2 * 5);
    CHECK(table.timings == table.expected_timings);
    CHECK(table.rows[2].value(Metric::total_s).n == 2); // two prompts are timed
    CHECK(*table.rows[2].value(Metric::total_s).mean == Approx(1.002));
    CHECK(*table.rows[2].value(Metric::overhead_percent).mean == Approx(100.4));
    CHECK_FALSE(table.rows[1].value(Metric::overhead_percent).mean);
    CHECK_FALSE(table.rows[1]
                    .value(Metric::decode_tps)
                    .mean); // no pair had one, and the single run's does not stand in
    results.timings.erase({plan.cells[0].id, 3});
    table = make_sweep_table(plan, results);
    CHECK(table.timings == table.expected_timings - 1);
    CHECK(*table.rows[0].value(Metric::total_s).mean == Approx(1.002));
}

TEST_CASE("an empty cell is empty and never 0", "[study][sweep]") {
    const SweepPlan plan = make_sweep_plan(parse(small_grid), some_models);
    const SweepTable table = make_sweep_table(plan, {});
    const std::string csv = sweep_csv(table, TableColumns::all),
                      markdown = sweep_markdown(table, TableColumns::all);
    for (const MetricInfo& metric : metric_infos) {
        for (const char* part : {"", "_sd", "_ci_low", "_ci_high", "_median", "_n"})
            CHECK(field(csv, 2, std::string(metric.name) + part).empty());
    }
    CHECK_THAT(markdown,
               ContainsSubstring("| Teacher | 3 | | | | | | | | | |") && ContainsSubstring("Incomplete"));
    CHECK(sweep_pareto(table, TableColumns::all) ==
          "group,row,quality,quality_value,quality_n,cost,cost_value,cost_n,on_front\n");
    CHECK(sweep_differences(table, TableColumns::all) ==
          "group,row,against,metric,difference,sd,ci_low,ci_high,median,n,runs\n");
}

TEST_CASE("the table has the literature's rows and columns", "[study][sweep]") {
    json grid = small_grid;
    grid["prompts"] = "a";
    grid["seeds"] = {1};
    const SweepPlan plan = make_sweep_plan(parse(grid), some_models);
    SweepResults results;
    double x = 1;
    for (const SweepCell& cell : plan.cells) {
        MetricValues values;
        for (size_t m = 0; m < num_metrics; ++m) {
            if (metric_infos[m].has_column() && m != static_cast<size_t>(Metric::task_score))
                values[m] = x += 0.5;
        }
        results.runs[cell.id] = values;
    }
    const SweepTable table = make_sweep_table(plan, results);
    CHECK(
        sweep_markdown(table, TableColumns::deterministic) ==
        "# small\n"
        "\n"
        "1 prompt x 1 seed, 3 of 3 runs, device cpu.\n"
        "\n"
        "| | n | teacher-PPL | tail log-prob (nats/token) | repetition@3 | characters | refreshes |\n"
        "|---|---:|---:|---:|---:|---:|---:|\n"
        "| Teacher | 1 | 1.500 | 2.000 | 2.500 | 3.0 | 4.00 |\n"
        "| OverFill | 1 | 9.000 | 9.500 | 10.000 | 10.5 | 11.50 |\n"
        "| OverFill + periodic (steps_since_refresh >= 64) | 1 | 16.500 | 17.000 | 17.500 | 18.0 | 19.00 |\n"
        "\n"
        "### Quality and work\n"
        "\n"
        "| | n | teacher-PPL | tail log-prob (nats/token) | repetition@3 | characters | tokens | refreshes | "
        "teacher passes | "
        "teacher tokens | agreement | first choices | entropy (bits) |\n"
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n"
        "| Teacher | 1 | 1.500 | 2.000 | 2.500 | 3.0 | 3.5 | 4.00 | 4.50 | 5.0 | 5.500 | 6.000 | 6.500 |\n"
        "| OverFill | 1 | 9.000 | 9.500 | 10.000 | 10.5 | 11.0 | 11.50 | 12.00 | 12.5 | 13.000 | 13.500 | "
        "14.000 |\n"
        "| OverFill + periodic (steps_since_refresh >= 64) | 1 | 16.500 | 17.000 | 17.500 | 18.0 | 18.5 | "
        "19.00 | 19.50 | 20.0 | "
        "20.500 | 21.000 | 21.500 |\n"
        "\n"
        "### Paired differences\n"
        "\n"
        "| | minus | n | teacher-PPL | tail log-prob (nats/token) | repetition@3 | characters | tokens | "
        "refreshes | "
        "teacher passes | teacher tokens | agreement | first choices | entropy (bits) |\n"
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n"
        "| OverFill + periodic (steps_since_refresh >= 64) | OverFill | 1 | +7.500 | +7.500 | +7.500 | +7.5 "
        "| +7.5 | "
        "+7.50 | +7.50 | +7.5 | +7.500 | +7.500 | +7.500 |\n"
        "\n"
        "n is the number of prompts; a mean over fewer says so. Spread is the standard deviation over "
        "prompts, "
        "brackets the 95 % bootstrap interval of the mean (percentile, 2000 resamples of prompts), where "
        "there are at "
        "least 5 of them; an empty field was not measured. A paired difference is the mean over prompts of a "
        "row's "
        "value minus that of the row in the column \"minus\", with the same prompt and seed.\n");
    const std::string all = sweep_markdown(table, TableColumns::all);
    CHECK_THAT(
        all, ContainsSubstring(
                 "| | n | teacher-PPL | tail log-prob (nats/token) | repetition@3 | characters | TTFT (ms) | "
                 "decode TPS | total (s) | refreshes | overhead (%) |"));
    CHECK_THAT(all, ContainsSubstring("### Time (single runs)") && ContainsSubstring("of single runs"));
    const std::string csv = sweep_csv(table, TableColumns::all);
    CHECK(csv.starts_with(
        "group,row,mode,policy,runs,expected,prompts,teacher_ppl,teacher_ppl_sd,teacher_ppl_ci_low,"));
    CHECK(field(csv, 2, "mode") == "overfill");
    CHECK(field(csv, 2, "policy") == "1");
    CHECK(field(csv, 2, "teacher_ppl") == "16.5");
    CHECK(field(csv, 2, "teacher_ppl_n") == "1");
    CHECK(field(csv, 2, "teacher_ppl_sd").empty());
    CHECK(field(csv, 0, "task_score").empty());
    const std::string short_csv = sweep_csv(table, TableColumns::deterministic);
    for (const char* column : {"ttft_ms", "decode_tps", "total_s", "overhead_percent"}) {
        CHECK_THAT(csv, ContainsSubstring(column));
        CHECK_THAT(short_csv, !ContainsSubstring(column));
    }
}

TEST_CASE("several groups have a table each and one together", "[study][sweep]") {
    const SweepSpec spec = parse({{"modes", {"teacher"}},
                                  {"prompts",
                                   {{{"text", "a"}, {"group", "x|y"}},
                                    {{"text", "b"}, {"group", "z"}},
                                    {{"text", "c"}, {"group", "z"}}}}});
    const SweepPlan plan = make_sweep_plan(spec, some_models);
    SweepResults results;
    for (const SweepCell& cell : plan.cells)
        value_of(results.runs[cell.id], Metric::teacher_ppl) = cell.prompt == 0   ? 9
                                                               : cell.prompt == 1 ? 3
                                                                                  : 6;
    const SweepTable table = make_sweep_table(plan, results);
    CHECK(table.groups == std::vector<std::string>{"x|y", "z", "all prompts"});
    REQUIRE(table.rows.size() == 3);
    CHECK(table.rows[0].value(Metric::teacher_ppl).mean == 9.0);
    CHECK(table.rows[1].value(Metric::teacher_ppl).mean == 4.5);
    CHECK(table.rows[2].value(Metric::teacher_ppl).mean == 6.0);
    CHECK_THAT(sweep_markdown(table, TableColumns::all),
               ContainsSubstring("## x\\|y") &&
                   ContainsSubstring("| 2 | 4.500 ± 2.121 |")); // two prompts: a spread and no interval
}

TEST_CASE("the front is what no other row beats, by comparison of all pairs", "[study][sweep]") {
    const uint64_t seed = test::seed(GENERATE(range(0U, 10U)));
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    const SweepSpec spec =
        parse({{"policies",
                {"none", {{"preset", "periodic"}, {"set", {{"periodic.every", {1, 2, 3, 4, 5, 6, 7}}}}}}},
               {"prompts", "a"}});
    const SweepPlan plan = make_sweep_plan(spec, some_models);
    SweepResults results;
    for (const SweepCell& cell : plan.cells) {
        for (const Metric m :
             {Metric::teacher_ppl, Metric::task_score, Metric::decode_tps, Metric::refreshes})
            value_of(results.runs[cell.id], m) = static_cast<double>(random() % 5);
    }
    const std::string csv = sweep_pareto(make_sweep_table(plan, results), TableColumns::all);
    const auto lines = split(csv, '\n');
    REQUIRE(lines.size() == 1 + 8 * 2 * 2); // no row has teacher tokens
    for (size_t i = 0; i + 1 < lines.size(); ++i) {
        const std::string quality = field(csv, i, "quality"), cost = field(csv, i, "cost");
        const double sign_q = quality == "teacher_ppl" ? -1 : 1, sign_c = cost == "refreshes" ? -1 : 1;
        bool beaten = false;
        for (size_t j = 0; j + 1 < lines.size(); ++j) {
            if (field(csv, j, "quality") != quality || field(csv, j, "cost") != cost) continue;
            const double dq = sign_q * (std::stod(field(csv, j, "quality_value")) -
                                        std::stod(field(csv, i, "quality_value"))),
                         dc = sign_c * (std::stod(field(csv, j, "cost_value")) -
                                        std::stod(field(csv, i, "cost_value")));
            beaten = beaten || (dq >= 0 && dc >= 0 && dq + dc > 0);
        }
        CHECK(field(csv, i, "on_front") == (beaten ? "0" : "1"));
    }
}

TEST_CASE("a decoding teacher reads every token in the comparison of work", "[study][sweep]") {
    const SweepPlan plan = make_sweep_plan(parse({{"modes", {"teacher"}}, {"prompts", "a"}}), some_models);
    SweepResults results;
    MetricValues& values = results.runs[plan.cells[0].id];
    value_of(values, Metric::teacher_ppl) = 2;
    value_of(values, Metric::tokens) = 100;
    value_of(values, Metric::teacher_tokens) = 0;
    value_of(values, Metric::refreshes) = 0;
    const std::string csv = sweep_pareto(make_sweep_table(plan, results), TableColumns::all);
    CHECK(csv == "group,row,quality,quality_value,quality_n,cost,cost_value,cost_n,on_front\n"
                 "prompts,Teacher,teacher_ppl,2,1,teacher_tokens,99,1,1\n");
}

} // namespace sweep_table_test
