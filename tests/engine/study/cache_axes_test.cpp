// Cache policies and refreshes together: the rows, and the table by hand.
#include "engine/base/json_file.h"
#include "engine/policies/cache_method.h"
#include "engine/study/studies/cache_axes.h"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <set>

namespace cache_axes_test {

using namespace refreshlab;
using Catch::Approx;

namespace {

const StudyCell& cell(const StudyTable& table, size_t row, const std::string& column) {
    const auto found = std::ranges::find(table.columns, column, &StudyColumn::name);
    REQUIRE(found != table.columns.end());
    return table.rows[row][static_cast<size_t>(found - table.columns.begin())];
}
double number(const StudyTable& table, size_t row, const std::string& column) {
    return std::get<double>(cell(table, row, column));
}
std::string text(const StudyTable& table, size_t row, const std::string& column) {
    return std::get<std::string>(cell(table, row, column));
}

RunNumbers run(double loss, double bytes, int64_t refreshes = 0) {
    RunNumbers numbers;
    numbers.loss = loss;
    numbers.bytes_held = bytes;
    numbers.refreshes = refreshes;
    numbers.tokens = 100;
    numbers.right = 1;
    numbers.scored = 4;
    return numbers;
}

} // namespace

TEST_CASE("every method has one row of runs with refreshes", "[study][cache_policy]") {
    const auto rows = axes_rows(80, 320);
    CHECK(rows[0].config.is_full());
    std::set<std::string, std::less<>> methods;
    for (const ZooRow& row : rows) {
        CAPTURE(row.config.policy, row.budget);
        CHECK(methods.insert(row.config.policy).second);
        CHECK(cache_policy_from_json(to_json(row.config), "a test") == row.config);
        const auto found = row.config.values.find("budget");
        if (found == row.config.values.end() || row.config.policy == "locret" ||
            row.config.policy == "epicache")
            continue;
        // A fourth of 80, or an eighth of 400.
        CHECK(found->second == (find_cache_method(row.config.policy)->prompt_only ? 20 : 50));
    }
    CHECK(methods.size() == cache_methods().size() - 2);
}

TEST_CASE("what cache policy and refresh bring together is counted against both alone",
          "[study][cache_policy]") {
    AxesRuns runs;
    const auto all = axes_rows(40, 40);
    runs.caches = {all[0], all[1], all[2]};
    runs.refreshes = {"none", "every 8"};
    runs.kinds = {"chronicle", "chronicle", "retell"};
    runs.numbers = {run(1.0, 100),   run(0.4, 100, 8), run(1.2, 50),     run(0.8, 50, 8),  run(1.5, 60),
                    run(0.3, 60, 8), run(2.0, 200),    run(1.0, 200, 8), run(2.4, 100),    run(1.8, 100, 8),
                    run(2.5, 120),   run(0.9, 120, 8), run(3.0, 100),    run(3.0, 100, 0), run(3.1, 40),
                    run(3.2, 40, 1), run(3.0, 30),     run(2.0, 30, 1)};
    const StudyTable table = axes_table("a test", runs, 1);
    REQUIRE(table.rows.size() == 12); // two kinds of text
    for (const auto& row : table.rows)
        CHECK(row.size() == table.columns.size());
    CHECK(text(table, 3, "text") == "chronicle");
    CHECK(text(table, 3, "cache policy") == runs.caches[1].config.policy);
    CHECK(text(table, 3, "refresh") == "every 8");
    CHECK(number(table, 3, "loss (nats per token)") == Approx(1.3));
    CHECK(number(table, 3, "bytes held") == Approx(0.5)); // of each text's own full cache
    CHECK(number(table, 3, "gain") == Approx(0.2));       // 1.0 - 0.8 and 2.0 - 1.8
    CHECK(number(table, 3, "saved") == Approx(0.5));      // 0.4 and 0.6
    CHECK(number(table, 3, "sum") == Approx(-0.3));       // the full cache saves 0.6 and 1.0
    CHECK(number(table, 5, "sum") == Approx(0.6));        // 1.2 and 1.6
    CHECK(number(table, 3, "refreshes per 1,000 tokens") == Approx(80));
    CHECK(number(table, 3, "words right") == Approx(0.25));
    CHECK(std::holds_alternative<std::monostate>(cell(table, 2, "saved"))); // without a refresh
    CHECK(std::holds_alternative<std::monostate>(cell(table, 1, "sum")));   // the full cache itself
    // Loss 1.3 in half of the bytes, 0.6 in 0.6 of them; all others are beaten.
    const std::vector<std::string> wanted{"", "", "", "yes", "", "yes"};
    for (size_t row = 0; row < 6; ++row)
        CHECK(text(table, row, "frontier") == wanted[row]);
    CHECK(text(table, 11, "frontier") == "yes"); // of the other kind by itself
    CHECK(text(table, 7, "frontier").empty());
    CHECK(cache_policy_from_json(parse_json(text(table, 5, "config"), "a row"), "a row") ==
          runs.caches[2].config);
    CHECK(to_markdown(table).find("config") == std::string::npos);
    CHECK(to_csv(table).find("config") != std::string::npos);
}

} // namespace cache_axes_test
