// The figure of a scope map: its numbers against plain sums, its words, and what it refuses.
#include "engine/base/error.h"
#include "tests/engine/landscape/random_scope_map.h"
#include "tests/engine/record/random_recording.h"
#include "tests/support/seed.h"
#include "ui/figure/figure_file.h"
#include "ui/figure/style.h"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <filesystem>
#include <memory>
#include <random>
#include <string>

namespace scope_figure_test {

using namespace refreshlab;
using namespace refreshlab::ui;
using namespace refreshlab::test;
using Catch::Approx;
using Catch::Matchers::ContainsSubstring;

namespace {

const std::filesystem::path assets = RL_SOURCE_DIR "/assets";

FigureRequest request_of(ScopeMap map) {
    const auto run = empty_recording(Mode::overfill, 3);
    append_step(*run);
    FigureRequest request;
    request.panel = "scope";
    request.runs.push_back({run, "the run"});
    request.scope_map = std::make_shared<ScopeMap>(std::move(map));
    return request;
}

ScopeMap map_of(uint32_t number) {
    std::mt19937 random(seed(number));
    return random_scope_map(random);
}

std::string svg_of(const FigureRequest& request, const char* size = "84mm") {
    const FigureFonts fonts(assets);
    return render_figure(*make_figure(request), load_figure_style(assets, "paper"), parse_figure_size(size),
                         FigureFormat::svg, figure_origin(request, "refreshlab figure"), fonts);
}

/// A part's share of the gain, or of what is lost without it, sum over sum.
double plain_share(const ScopeMap& map, const std::vector<double>& losses, bool lost) {
    double part = 0, all = 0;
    for (size_t i = 0; i < losses.size(); ++i) {
        part += lost ? losses[i] - map.refreshes[i].whole : map.refreshes[i].none - losses[i];
        all += map.refreshes[i].none - map.refreshes[i].whole;
    }
    return part / all;
}

const ScopeMap::Reading& reading_of(const ScopeMap& map, ScopePart::Kind kind, int32_t layer, int32_t head,
                                    ScopeParts parts) {
    for (const ScopeMap::Reading& reading : map.readings)
        if (reading.part == ScopePart{kind, layer, head, -1, parts}) return reading;
    FAIL("no such part");
    return map.readings.front();
}

std::string fault_of(const FigureRequest& request) {
    try {
        static_cast<void>(make_figure(request));
    } catch (const Error& e) {
        return e.what();
    }
    return {};
}

} // namespace

TEST_CASE("a scope figure's table has every cell of the map and the greedy order", "[figure][scope]") {
    const ScopeMap map = map_of(0xF501);
    FigureRequest request = request_of(map);
    for (const ScopeMeasure measure : scope_measures) {
        request.views.landscape.scope = measure;
        const DataTable table = make_figure(request)->table();
        const bool lost = measure == ScopeMeasure::missed;
        REQUIRE(table.columns[0] == "of");
        REQUIRE(table.rows.size() == 3 * 5 + map.taken.size());
        const auto check = [&](const std::vector<std::string>& row, const ScopeMap::Reading& reading) {
            CHECK(std::stod(row[6]) ==
                  Approx(plain_share(map, lost ? reading.without : reading.alone, lost)));
            CHECK(std::stod(row[7]) <= std::stod(row[6])); // six refreshes have an interval
            CHECK(std::stod(row[8]) >= std::stod(row[6]));
        };
        for (int32_t layer = 0; layer < 3; ++layer) {
            const size_t first = static_cast<size_t>(layer) * 5;
            using Kind = ScopePart::Kind;
            CHECK(table.rows[first][0] == (lost ? "without" : "alone"));
            CHECK(table.rows[first + 1][2] == "keys");
            CHECK(table.rows[first + 4][2] == "head 1");
            check(table.rows[first], reading_of(map, Kind::layer, layer, -1, ScopeParts::both));
            check(table.rows[first + 1], reading_of(map, Kind::layer_half, layer, -1, ScopeParts::keys));
            check(table.rows[first + 2], reading_of(map, Kind::layer_half, layer, -1, ScopeParts::values));
            check(table.rows[first + 4], reading_of(map, Kind::head, layer, 1, ScopeParts::both));
        }
        const std::vector<std::string>& second = table.rows[16]; // the greedy order is of gains alone
        CHECK(second[0] == "greedy order");
        CHECK(second[1] == "0");
        CHECK(second[3] == "2");
        CHECK(std::stod(second[4]) == Approx(2 * 16 * 64));
        CHECK(std::stod(second[6]) == Approx(0.56));
    }
}

TEST_CASE("a scope figure says what it shows, and frames what the policy refreshes", "[figure][scope]") {
    FigureRequest request = request_of(map_of(0xF502));
    for (const char* size : {"84mm", "174mm"}) { // below each other, and side by side
        const std::string svg = svg_of(request, size);
        CHECK_THAT(svg, ContainsSubstring("share of the gain, gained by the part alone"));
        CHECK_THAT(svg, ContainsSubstring("6 refreshes, 8 tokens behind each"));
        CHECK_THAT(svg, ContainsSubstring(">layer<") && ContainsSubstring(">values<") &&
                            ContainsSubstring("KV heads"));
        CHECK_THAT(svg, !ContainsSubstring("framed"));
    }
    RefreshPolicy policy;
    policy.scope.layers = {{1, 2}};
    request.policy = policy;
    request.views.landscape.scope = ScopeMeasure::missed;
    const std::string framed = svg_of(request, "174mm");
    CHECK_THAT(framed,
               ContainsSubstring("framed: layers 1-2") && ContainsSubstring("missed without the part"));
    request.scope_map = std::make_shared<ScopeMap>([] {
        ScopeMap map = map_of(0xF503);
        map.taken.clear(); // no greedy order was asked for: the map alone
        return map;
    }());
    CHECK_THAT(svg_of(request), !ContainsSubstring("taken greedily"));
}

TEST_CASE("a scope figure of a run without a map, or of refreshes that gain nothing, is refused",
          "[figure][scope]") {
    FigureRequest request = request_of(map_of(0xF504));
    request.scope_map = nullptr;
    CHECK_THAT(fault_of(request),
               ContainsSubstring("no scope map") && ContainsSubstring("refreshlab scope TRACE"));
    ScopeMap map = map_of(0xF505);
    for (ScopeMap::Refresh& refresh : map.refreshes)
        refresh.whole = refresh.none;
    CHECK_THAT(fault_of(request_of(map)), ContainsSubstring("gain nothing"));
}

} // namespace scope_figure_test
