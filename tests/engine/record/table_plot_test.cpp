// Tables as files, and the figures that are described beside them.
#include "engine/base/json_file.h"
#include "engine/record/tables/table_plot.h"
#include "tests/support/refused.h"
#include "tests/support/seed.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <functional>
#include <random>

namespace table_plot_test {

using namespace refreshlab;
using Catch::Matchers::ContainsSubstring;
using refreshlab::test::refused;
namespace fs = std::filesystem;

namespace {

TablePlot every_field() {
    return {.name = "loss",
            .title = "Loss, \"all\"",
            .table = "table",
            .kind = TablePlot::Kind::curves,
            .facets = {"kind"},
            .series = {"policy", "budget"},
            .x = "count",
            .x_title = "refreshes",
            .x_log = true,
            .only = {{"layer", "mean"}},
            .parts = {{"nats", {"a", "b"}, true, 0.5}, {"bits", {"c"}}}};
}

} // namespace

TEST_CASE("a table of any text comes back from its CSV", "[tables]") {
    std::mt19937 random(test::seed(1));
    const std::string letters[] = {"a", ",", "\"", "\n", "\r\n", " ", "é", "1.5", "\r"};
    for (int round = 0; round < 50; ++round) {
        DataTable table;
        const size_t width = 2 + random() % 4; // of one column an empty cell is an empty line
        const auto cell = [&] {
            std::string text;
            for (size_t i = random() % 5; i > 0; --i)
                text += letters[random() % std::size(letters)];
            return text;
        };
        for (size_t i = 0; i < width; ++i)
            table.columns.push_back("c" + cell());
        for (size_t r = random() % 6; r > 0; --r) {
            auto& row = table.rows.emplace_back();
            for (size_t i = 0; i < width; ++i)
                row.push_back(cell());
        }
        const std::string csv = to_csv(table);
        CAPTURE(csv);
        const DataTable back = parse_csv(csv, "t.csv");
        CHECK(back.columns == table.columns);
        CHECK(back.rows == table.rows);
    }
    const DataTable unix_ends = parse_csv("a,b\n1,2\n\n3,", "t.csv");
    CHECK(unix_ends.rows == std::vector<std::vector<std::string>>{{"1", "2"}, {"3", ""}});
}

TEST_CASE("a table that is none says where", "[tables][bad-input]") {
    CHECK_THAT(refused([] { static_cast<void>(parse_csv("", "t.csv")); }), ContainsSubstring("no columns"));
    CHECK_THAT(refused([] { static_cast<void>(parse_csv("a,b\n1,\"2\n3,4\n5\n", "t.csv")); }),
               ContainsSubstring("line 2 does not end"));
    CHECK_THAT(refused([] { static_cast<void>(parse_csv("a,b\n\"x\ny\",2\n3\n", "t.csv")); }),
               ContainsSubstring("line 4 has 1 fields, the first line 2"));
}

TEST_CASE("the interval of a value is found behind it", "[tables]") {
    const DataTable table{{"texts", "none", "low", "high", "ppl", "ppl_sd", "ppl_ci_low", "ppl_ci_high", "K",
                           "K +- 1.96 SE", "v_mean", "v_half_width", "end"},
                          {}};
    const auto at = [&](const char* column) { return interval_of(table, *table.find(column)); };
    CHECK_FALSE(at("texts")); // the next two are another's
    REQUIRE(at("none"));
    CHECK(at("none")->low == 2);
    CHECK(at("none")->high == 3);
    REQUIRE(at("ppl"));
    CHECK(at("ppl")->low == 6);
    CHECK(at("ppl")->high == 7);
    for (const char* column : {"K", "v_mean"}) {
        REQUIRE(at(column));
        CHECK(at(column)->half_width);
        CHECK(at(column)->low == *table.find(column) + 1);
    }
    CHECK_FALSE(at("end"));
}

TEST_CASE("a description of figures comes back from its JSON", "[tables]") {
    const nlohmann::json json =
        plots_to_json({every_field(), {.name = "n", .table = "t", .parts = {{"", {"a"}}}}});
    const auto back = plots_from_json(json, "figures.json");
    REQUIRE(back.size() == 2);
    CHECK(plots_to_json(back) == json);
    CHECK(back[0].kind == TablePlot::Kind::curves);
    CHECK(back[0].only.at("layer") == "mean");
    CHECK(back[0].parts[0].mark == 0.5);
    CHECK_FALSE(back[0].parts[1].mark);
}

TEST_CASE("a description of figures that is wrong names the key", "[tables][bad-input]") {
    const nlohmann::json good = plots_to_json({every_field()});
    const auto with = [&](const std::function<void(nlohmann::json&)>& change) {
        nlohmann::json json = good;
        change(json["figures"][0]);
        return refused([&] { static_cast<void>(plots_from_json(json, "figures.json")); });
    };
    CHECK_THAT(with([](auto& f) { f["faces"] = nlohmann::json::array(); }), ContainsSubstring("facets"));
    CHECK_THAT(with([](auto& f) { f.erase("table"); }), ContainsSubstring("figures[0].table"));
    CHECK_THAT(with([](auto& f) { f["table"] = "../secret"; }), ContainsSubstring("not the name of a file"));
    CHECK_THAT(with([](auto& f) { f["name"] = "a/b"; }), ContainsSubstring("not the name of a file"));
    CHECK_THAT(with([](auto& f) { f["kind"] = "pie"; }), ContainsSubstring("dots, curves"));
    CHECK_THAT(with([](auto& f) { f.erase("x"); }), ContainsSubstring("curves stand over a column"));
    CHECK_THAT(with([](auto& f) { f["parts"] = nlohmann::json::array(); }), ContainsSubstring("one axis"));
    CHECK_THAT(with([](auto& f) { f["parts"][1].erase("values"); }), ContainsSubstring("parts[1].values"));
    CHECK_THAT(with([](auto& f) { f["only"]["layer"] = 3; }), ContainsSubstring("no text"));
    CHECK_THAT(with([](auto& f) { f["series"] = "policy"; }), ContainsSubstring("list of names"));
    CHECK_THAT(refused([&] {
                   static_cast<void>(plots_from_json(plots_to_json({every_field(), every_field()}), "f"));
               }),
               ContainsSubstring("earlier figure"));
    CHECK_THAT(refused([&] {
                   static_cast<void>(plots_from_json({{"figures", 3}}, "f"));
               }),
               ContainsSubstring("must be a list"));
}

TEST_CASE("tables and figures of a folder are read together", "[tables]") {
    const fs::path folder = fs::path(RL_BUILD_DIR) / "table_plot_test";
    fs::remove_all(folder);
    fs::create_directories(folder);
    const auto problem = [&] { return refused([&] { static_cast<void>(load_plotted_tables(folder)); }); };
    CHECK_THAT(problem(), ContainsSubstring("there is no figures.json in it"));
    write_file(folder / "figures.json", plots_to_json({every_field()}).dump());
    CHECK_THAT(problem(), ContainsSubstring("table.csv"));
    write_file(folder / "table.csv", "kind,policy,budgets,count,layer,a,b,c\n");
    CHECK_THAT(problem(), ContainsSubstring("did you mean budgets"));
    write_file(folder / "table.csv", "kind,policy,budget,count,layer,a,b,c\nx,p,1,2,mean,3,4,5\n");
    const PlottedTables tables = load_plotted_tables(folder);
    CHECK(tables.plots.size() == 1);
    CHECK(tables.tables.at("table").rows.size() == 1);
    fs::remove_all(folder);
}

} // namespace table_plot_test
