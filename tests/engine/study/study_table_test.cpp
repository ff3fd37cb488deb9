#include "engine/base/error.h"
#include "engine/base/json_file.h"
#include "engine/study/studies/study_run.h"
#include "engine/study/studies/study_table.h"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cmath>
#include <filesystem>
#include <limits>

namespace study_table_test {

using namespace refreshlab;

namespace {

StudyTable sample() {
    return {"sample",
            "A sample",
            {{"case"}, {"count"}, {"share", 2}, {"difference", 1, true}},
            {{std::string("naïve"), int64_t{7}, 1.0 / 3, 0.25},
             {std::string("a, \"b\""), {}, 0.0001, -2.0},
             {std::string("none"), int64_t{-1}, std::numeric_limits<double>::infinity(), {}}}};
}

} // namespace

TEST_CASE("a study's Markdown is aligned by characters, numbers by their column", "[study]") {
    CHECK(to_markdown(sample()) == "A sample\n"
                                   "\n"
                                   "| case   | count | share  | difference |\n"
                                   "| ------ | ----: | -----: | ---------: |\n"
                                   "| naïve  |     7 |   0.33 |       +0.2 |\n"
                                   "| a, \"b\" |     - | 0.0001 |       -2.0 |\n"
                                   "| none   |    -1 |    inf |          - |\n");
}

TEST_CASE("a study's CSV quotes text, keeps all digits and leaves what is not there empty", "[study]") {
    CHECK(to_csv(sample()) == "case,count,share,difference\n"
                              "naïve,7,0.3333333333333333,0.25\n"
                              "\"a, \"\"b\"\"\",,0.0001,-2\n"
                              "none,-1,inf,\n");
}

TEST_CASE("a study is written as Markdown and as one CSV for each table and figure", "[study]") {
    const std::filesystem::path folder = std::filesystem::path(RL_BUILD_DIR) / "study_table_test" / "deep";
    std::filesystem::remove_all(folder.parent_path());
    StudyResult result{{sample(), sample()}, {sample()}, {"a note"}};
    result.tables[1].name = "second";
    result.figures[0].name = "figure";
    const TablePlot plot{.name = "shares", .series = {"case"}, .parts = {{"share", {"share"}}}};
    result.tables[1].plots = {plot};
    result.tables.push_back({"empty", "", sample().columns, {}, {plot}});
    write_study(result, folder);
    // Figures are described beside the tables, but for a table without a row.
    const PlottedTables plotted = load_plotted_tables(folder);
    REQUIRE(plotted.plots.size() == 1);
    CHECK(plotted.plots[0].table == "second");
    CHECK(plotted.tables.at("second").rows.size() == 3);
    CHECK_THAT(read_file(folder / "figures.json"), Catch::Matchers::ContainsSubstring("\"shares\""));
    CHECK(read_file(folder / "table.md") == to_markdown(result));
    CHECK(to_markdown(result).ends_with("a note\n"));
    for (const char* file : {"sample.csv", "second.csv", "figure.csv"})
        CHECK(read_file(folder / file) == to_csv(sample()));
    CHECK_THROWS_AS(write_study(result, folder / "figure.csv"), Error);
    std::filesystem::remove_all(folder.parent_path());
}

TEST_CASE("mean and 95 % interval", "[study]") {
    const std::vector<double> values{1, 2, 3, 3, 6};
    const MeanInterval interval = mean_interval(values);
    CHECK(interval.mean == Catch::Approx(3));
    // Variance (4 + 1 + 0 + 0 + 9) / 4, standard error sqrt(14/4/5).
    CHECK(std::get<double>(interval.half_width) == Catch::Approx(1.96 * std::sqrt(14.0 / 20)));
    for (const std::vector<double>& few : {std::vector<double>{5}, {1, 2, 3, 6}}) // too few for an interval
        CHECK(std::holds_alternative<std::monostate>(mean_interval(few).half_width));
}

TEST_CASE("the card's cases are the policies that the card describes", "[study]") {
    const auto cases = card_cases();
    REQUIRE(cases.size() == 11);
    CHECK(cases[0].mode == Mode::teacher);
    CHECK(cases[1].mode == Mode::student);
    CHECK(cases[2].policy.triggers.empty());
    for (size_t i = 3; i < 7; ++i) {
        REQUIRE(cases[i].policy.triggers.size() == 1);
        CHECK(cases[i].policy.triggers[0].signal == "steps_since_refresh");
        CHECK(cases[i].policy.triggers[0].threshold == 64 >> (i - 3));
    }
    for (size_t i = 7; i < 11; ++i) {
        const Trigger& trigger = cases[i].policy.triggers.at(0);
        CHECK(trigger.signal == (i < 10 ? "entropy_bits" : "top1_surprisal_bits"));
        CHECK(trigger.every == 1);
        CHECK(trigger.cooldown == 4);
        CHECK((cases[i].policy.on_fire == OnFire::redraw) == (i == 9));
        CHECK_NOTHROW(check_policy(cases[i].policy, "a case"));
    }
    const auto few = few_cases();
    REQUIRE(few.size() == 7);
    CHECK(few[3].name == "refresh every 32");
}

} // namespace study_table_test
