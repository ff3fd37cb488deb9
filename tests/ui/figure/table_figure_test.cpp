// Figures of tables: where the values stand on the paper, read back from the SVG.
#include "tests/support/refused.h"
#include "tests/support/seed.h"
#include "tests/ui/figure/svg_points.h"
#include "ui/figure/canvas/svg_canvas.h"
#include "ui/figure/figure_file.h"
#include "ui/figure/tables/table_figure.h"
#include "ui/figure/tables/table_marks.h"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <random>
#include <regex>
#include <string>
#include <utility>
#include <vector>

namespace table_figure_test {

using namespace refreshlab;
using refreshlab::test::refused;
using namespace refreshlab::ui;
using Catch::Approx;
using Catch::Matchers::ContainsSubstring;

namespace {

const std::filesystem::path assets = RL_SOURCE_DIR "/assets";

const FigureFonts& fonts() {
    static const FigureFonts all(assets);
    return all;
}

std::string svg_of(const TablePlot& plot, const DataTable& table, FigureFormat format = FigureFormat::svg) {
    static const FigureStyle style = load_figure_style(assets, "paper");
    const auto figure = make_table_figure(plot, table, "t.csv");
    return render_figure(*figure, style, {}, format, figure_origin(plot, "t.csv", "refreshlab figure t"),
                         fonts());
}

struct Dot {
    double x, y;
    std::string fill;
};

/// Middles of the dots, in the order of the file.
std::vector<Dot> dots_of(const std::string& svg) {
    std::vector<Dot> dots;
    const std::regex polygon("<polygon points=\"([^\"]*)\" fill=\"([^\"]*)\""), pair("([-0-9.]+),([-0-9.]+)");
    for (std::sregex_iterator it(svg.begin(), svg.end(), polygon), end; it != end; ++it) {
        const std::string points = (*it)[1];
        Dot dot{0, 0, (*it)[2]};
        int corners = 0;
        for (std::sregex_iterator at(points.begin(), points.end(), pair); at != end; ++at, ++corners) {
            dot.x += std::stod((*at)[1]);
            dot.y += std::stod((*at)[2]);
        }
        if (corners != 16) continue; // a band
        dots.push_back({dot.x / 16, dot.y / 16, dot.fill});
    }
    return dots;
}

/// Lines of two points, level ones.
std::vector<std::pair<Dot, Dot>> level_lines(const std::string& svg, double y) {
    std::vector<std::pair<Dot, Dot>> lines;
    const std::regex path(
        "<path d=\"M([-0-9.]+) ([-0-9.]+)L([-0-9.]+) ([-0-9.]+)\" fill=\"none\" stroke=\"([^\"]*)\"");
    for (std::sregex_iterator it(svg.begin(), svg.end(), path), end; it != end; ++it) {
        const auto number = [&](int i) { return std::stod((*it)[i]); };
        if (std::abs(number(2) - y) < 1e-3 && std::abs(number(4) - y) < 1e-3)
            lines.push_back({{number(1), number(2), (*it)[5]}, {number(3), number(4), (*it)[5]}});
    }
    return lines;
}

DataTable forest() {
    return {{"kind", "policy", "loss", "low", "high", "kl"},
            {{"tales", "one", "1", "0.5", "2", "0.1"},
             {"tales", "two", "3", "", "", "1"},
             {"tales", "three", "2", "1.5", "2.5", ""},
             {"notes", "one", "-1", "-2", "0", "10"}}};
}
TablePlot forest_plot() {
    return {.name = "forest",
            .title = "A forest",
            .table = "t",
            .facets = {"kind"},
            .series = {"policy"},
            .parts = {{"loss (nats)", {"loss"}, false, 0.0}, {"KL", {"kl"}, true}}};
}

} // namespace

TEST_CASE("dots of a table stand where their values are, with whiskers from end to end", "[figure][tables]") {
    const std::string svg = svg_of(forest_plot(), forest());
    for (const char* words :
         {">A forest<", ">tales<", ">notes<", ">two<", ">three<", ">loss (nats)<", ">KL<", ">(a)<", ">(b)<"})
        CHECK_THAT(svg, ContainsSubstring(words));
    const auto dots = dots_of(svg);
    REQUIRE(dots.size() == 7); // four losses and three KLs
    // The first facet: its losses, then its KLs; then the second.
    const Dot &one = dots[0], &two = dots[1], &three = dots[2], &kl_one = dots[3], &kl_two = dots[4],
              &below = dots[5], &kl_below = dots[6];
    const double unit = two.x - three.x; // one nat
    CHECK(unit > 5);
    CHECK(three.x - one.x == Approx(unit).margin(0.02));
    CHECK(one.x - below.x == Approx(2 * unit).margin(0.02));                  // facets share their axis
    CHECK(kl_two.x - kl_one.x == Approx(kl_below.x - kl_two.x).margin(0.02)); // decades
    CHECK(one.y < two.y);
    CHECK(two.y < three.y);
    CHECK(kl_two.y == Approx(two.y).margin(1e-3));
    CHECK(three.y < below.y);
    // Whiskers: of what has an interval.
    const auto whiskers_at = [&](const Dot& dot) {
        auto lines = level_lines(svg, dot.y);
        std::erase_if(lines, [&](const auto& line) { return line.first.fill != dot.fill; });
        return lines;
    };
    REQUIRE(whiskers_at(one).size() == 1);
    CHECK(whiskers_at(one)[0].first.x == Approx(one.x - unit / 2).margin(0.02));
    CHECK(whiskers_at(one)[0].second.x == Approx(one.x + unit).margin(0.02));
    CHECK(whiskers_at(two).empty());
}

TEST_CASE("long names of lines get the room that the plots can spare", "[figure][tables]") {
    const std::string name = "entropy above 3.25, window of 64";
    const DataTable table{{"case", "share"}, {{name, "0.2"}, {"b", "0.6"}}};
    const TablePlot plot{.name = "n", .table = "t", .series = {"case"}, .parts = {{"share", {"share"}}}};
    CHECK_THAT(svg_of(plot, table), ContainsSubstring(">" + name + "<"));
}

TEST_CASE("several values of a line have a colour each and a legend", "[figure][tables]") {
    const DataTable table{{"case", "first_share", "second_share"},
                          {{"a", "0.2", "0.4"}, {"b", "0.6", "0.8"}}};
    const TablePlot plot{
        .name = "n", .table = "t", .series = {"case"}, .parts = {{"share", {"first_share", "second_share"}}}};
    const std::string svg = svg_of(plot, table);
    CHECK_THAT(svg, ContainsSubstring(">first share<"));
    CHECK_THAT(svg, ContainsSubstring(">second share<"));
    auto dots = dots_of(svg);
    REQUIRE(dots.size() == 4);
    CHECK(dots[0].fill != dots[1].fill);
    CHECK(dots[0].fill == dots[2].fill);
    CHECK(dots[1].x - dots[0].x == Approx(dots[2].x - dots[1].x).margin(0.02));
    CHECK(dots[0].y < dots[1].y); // beside each other on one line, and the next line below
    CHECK(dots[1].y < dots[2].y);
}

TEST_CASE("curves of a table go through its values by rising x, whatever the order of the rows",
          "[figure][tables]") {
    const DataTable table{{"curve", "n", "loss"},
                          {{"up", "4", "2"},
                           {"up", "1", "0"},
                           {"down", "1", "4"},
                           {"up", "2", "1"},
                           {"down", "4", "0"},
                           {"up", "8", ""}}};
    TablePlot plot{.name = "n",
                   .table = "t",
                   .kind = TablePlot::Kind::curves,
                   .series = {"curve"},
                   .x = "n",
                   .x_title = "refreshes",
                   .x_log = true,
                   .parts = {{"loss", {"loss"}}}};
    const TableMarks marks = table_marks(plot, table, "t.csv");
    REQUIRE(marks.facets.size() == 1);
    REQUIRE(marks.facets[0].parts[0].size() == 2);
    const auto& up = marks.facets[0].parts[0][0].marks;
    REQUIRE(up.size() == 3);
    CHECK(up[0].x == 1);
    CHECK(up[1].value == 1);
    CHECK(up[2].x == 4);
    const std::string svg = svg_of(plot, table);
    const auto dots = dots_of(svg);
    REQUIRE(dots.size() == 5);
    CHECK(dots[1].x - dots[0].x ==
          Approx(dots[2].x - dots[1].x).margin(0.02)); // 1, 2, 4 on a logarithmic axis
    CHECK(dots[0].y - dots[1].y == Approx(dots[1].y - dots[2].y).margin(0.02));
    for (const char* words : {">refreshes<", ">up<", ">down<", ">4<"})
        CHECK_THAT(svg, ContainsSubstring(words));
    plot.kind = TablePlot::Kind::points;
    CHECK(dots_of(svg_of(plot, table)).size() == 5);
}

TEST_CASE("more kinds of points than colours have other forms", "[figure][tables]") {
    DataTable table{{"family", "bytes", "share"}, {}};
    for (int i = 0; i < 19; ++i)
        table.rows.push_back({fmt::format("family {}", i), fmt::format("{}", i + 1), "0.5"});
    const TablePlot plot{.name = "n",
                         .table = "t",
                         .kind = TablePlot::Kind::points,
                         .series = {"family"},
                         .x = "bytes",
                         .parts = {{"share", {"share"}}}};
    const std::string svg = svg_of(plot, table);
    const std::regex polygon("<polygon points=\"([^\"]*)\" fill=\"([^\"]*)\"");
    std::map<std::pair<std::string, std::ptrdiff_t>, int> looks; // fill and corners: how often
    for (std::sregex_iterator it(svg.begin(), svg.end(), polygon), end; it != end; ++it) {
        const std::string points = (*it)[1];
        ++looks[{(*it)[2], std::ranges::count(points, ',')}];
    }
    CHECK(looks.size() == 19);
    for (const auto& [look, times] : looks)
        CHECK(times == 2); // in the plot, and in the legend
}

TEST_CASE("many intervals of a curve are a band", "[figure][tables]") {
    DataTable table{{"x", "k", "k_half_width"}, {}};
    for (int i = 0; i < 40; ++i)
        table.rows.push_back({std::to_string(i), std::to_string(i * i), "2"});
    const TablePlot plot{
        .name = "n", .table = "t", .kind = TablePlot::Kind::curves, .x = "x", .parts = {{"k", {"k"}}}};
    const std::string svg = svg_of(plot, table);
    CHECK(dots_of(svg).empty());
    CHECK_THAT(svg, ContainsSubstring("<polygon"));
    const auto figure = make_table_figure(plot, table, "t.csv");
    const DataTable numbers = figure->table();
    CHECK(numbers.columns == std::vector<std::string>{"x", "column", "value", "low", "high"});
    REQUIRE(numbers.rows.size() == 40);
    CHECK(numbers.rows[3] == std::vector<std::string>{"3", "k", "9", "7", "11"});
}

TEST_CASE("a figure of a table is the same bytes each time, in every kind of file", "[figure][tables]") {
    for (const FigureFormat format : {FigureFormat::svg, FigureFormat::pdf, FigureFormat::png}) {
        const std::string first = svg_of(forest_plot(), forest(), format);
        CHECK(first.size() > 1000);
        CHECK(first == svg_of(forest_plot(), forest(), format));
    }
    CHECK_THAT(svg_of(forest_plot(), forest()), ContainsSubstring("refreshlab figure t"));
}

TEST_CASE("a table without what a figure needs is refused", "[figure][tables][bad-input]") {
    DataTable table = forest();
    TablePlot plot = forest_plot();
    const auto problem = [&] {
        return refused([&] { static_cast<void>(make_table_figure(plot, table, "t.csv")); });
    };
    table.rows[2][2] = "much";
    CHECK_THAT(problem(), ContainsSubstring("column loss has 'much' in row 3, which is no number"));
    table = forest();
    plot.only = {{"kind", "poems"}};
    CHECK_THAT(problem(), ContainsSubstring("no values for forest"));
    plot = forest_plot();
    plot.parts[0].values = {"los"};
    CHECK_THAT(problem(), ContainsSubstring("did you mean loss"));
    table.rows.clear();
    plot = forest_plot();
    CHECK_THAT(problem(), ContainsSubstring("no values"));
}

TEST_CASE("a frontier goes through the rows to which no other is better", "[ui][figure]") {
    std::mt19937_64 random(test::seed(0xF207));
    for (const auto frontier : {TablePlot::Frontier::low, TablePlot::Frontier::high})
        for (int round = 0; round < 20; ++round) {
            DataTable table{{"policy", "bytes", "KL"}, {}};
            const size_t rows = 1 + random() % 30;
            for (size_t row = 0; row < rows; ++row)
                table.rows.push_back({random() % 2 == 0 ? "a" : "b", fmt::format("{}", random() % 12),
                                      fmt::format("{}", random() % 12)});
            TablePlot plot;
            plot.name = "frontier";
            plot.kind = TablePlot::Kind::points;
            plot.series = {"policy"};
            plot.x = "bytes";
            plot.parts = {{.title = "KL", .values = {"KL"}, .frontier = frontier}};
            const TableMarks marks = table_marks(plot, table, "t.csv");
            const auto best = frontier_marks(marks.facets[0].parts[0], frontier);
            const auto number = [&](size_t row, size_t column) {
                return *cell_number(table.rows[row][column]);
            };
            const auto beats = [&](size_t a, size_t b) { // as good in both, and better in one
                const double x = number(a, 1) - number(b, 1),
                             value = (number(a, 2) - number(b, 2)) *
                                     (frontier == TablePlot::Frontier::high ? -1 : 1);
                return x <= 0 && value <= 0 && (x < 0 || value < 0);
            };
            for (size_t row = 0; row < rows; ++row) {
                bool beaten = false, there = false;
                for (size_t other = 0; other < rows; ++other)
                    beaten = beaten || beats(other, row);
                for (const TableMark& mark : best)
                    there = there || (mark.x == number(row, 1) && mark.value == number(row, 2));
                CHECK(there == !beaten);
            }
            for (size_t i = 1; i < best.size(); ++i)
                CHECK(best[i - 1].x < best[i].x);
            CHECK(svg_of(plot, table).find("<g id=\"frontier\">") != std::string::npos);
        }
}

TEST_CASE("a figure of a table says where it has drawn its rows", "[ui][figure]") {
    std::mt19937_64 random(test::seed(0xF208));
    static const FigureStyle style = load_figure_style(assets, "paper");
    for (const auto kind : {TablePlot::Kind::dots, TablePlot::Kind::points, TablePlot::Kind::curves}) {
        DataTable table{{"task", "policy", "x", "a", "b"}, {}};
        for (int row = 0; row < 9; ++row)
            table.rows.push_back({row % 2 == 0 ? "one" : "two", fmt::format("p{}", row % 3),
                                  fmt::format("{}", row), fmt::format("{}", random() % 100),
                                  fmt::format("{}", random() % 100)});
        TablePlot plot;
        plot.name = "places";
        plot.title = "A title that takes room";
        plot.kind = kind;
        plot.facets = {"task"};
        plot.series = {"policy"};
        if (kind != TablePlot::Kind::dots) plot.x = "x";
        plot.parts = {{"a", {"a"}}, {"b", {"b"}}};
        const auto figure = make_table_figure(plot, table, "t.csv");
        SvgCanvas canvas(300, 200, fonts());
        const FigureRect place{10, 5, 280, 190};
        figure->draw({canvas, style}, place);
        const auto places = figure->places({canvas, style}, place);
        const auto dots = dots_of(canvas.finish("a title", "{}"));
        REQUIRE(places.size() == dots.size());
        for (const PlacedMark& mark : places) // whatever the order
            CHECK(std::ranges::any_of(dots, [&](const Dot& dot) {
                return std::abs(dot.x - mark.at.x) < 0.02 && std::abs(dot.y - mark.at.y) < 0.02;
            }));
        for (size_t row = 0; row < table.rows.size(); ++row)
            CHECK(std::ranges::count(places, row, &PlacedMark::row) == 2);
    }
}

TEST_CASE("a curve of very many steps keeps its highest and lowest values and its ends", "[ui][figure]") {
    DataTable table{{"step", "loss"}, {}};
    constexpr int steps = 20000;
    for (int i = 0; i < steps; ++i)
        table.rows.push_back({fmt::format("{}", i), i == 12345 ? "90" : i == 777 ? "-5" : "1"});
    TablePlot plot;
    plot.name = "loss";
    plot.kind = TablePlot::Kind::curves;
    plot.x = "step";
    plot.parts = {{"loss", {"loss"}}};
    const std::string svg = svg_of(plot, table);
    const auto points = test::points_of(svg, "curve");
    CHECK(points.size() < 4000);
    CHECK(points.size() > 100);
    const auto [high, low] = std::ranges::minmax(points, {}, &std::pair<double, double>::second);
    CHECK(low.second - high.second > 50); // the two values that stand out
    for (size_t i = 1; i < points.size(); ++i)
        CHECK(points[i - 1].first <= points[i].first);
}

} // namespace table_figure_test
