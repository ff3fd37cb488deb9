// The exactness check: every statement holds on a right cache, and every fault is caught where it must show.
#include "engine/base/error.h"
#include "engine/session/exactness/exactness.h"
#include "tests/engine/session/tiny_pair.h"
#include "tests/support/seed.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace exactness_test {

using namespace refreshlab;
using namespace refreshlab::test;

namespace {

ExactnessOptions quick(CacheFault fault = CacheFault::none) {
    ExactnessOptions options;
    options.fault = fault;
    options.steps = 9;
    options.latency = false;
    return options;
}

const ExactnessCheck& statement(const ExactnessReport& report, const std::string& subject,
                                const std::string& name) {
    const auto found = std::find_if(report.checks.begin(), report.checks.end(), [&](const ExactnessCheck& c) {
        return c.subject == subject && c.name == name;
    });
    REQUIRE(found != report.checks.end());
    return *found;
}

/// Largest entry of one layer (0-based) of a [layers][steps] map.
float layer_max(const ExactnessMap& map, const std::vector<float>& values, int layer) {
    const auto row = values.begin() + static_cast<long>(layer) * map.steps;
    return *std::max_element(row, row + map.steps);
}

} // namespace

TEST_CASE("every statement holds on random pairs", "[exactness]") {
    const auto seed = test::seed(GENERATE(1U, 2U, 3U));
    TinyShape shape;
    shape.layers = 3;
    const auto pair = tiny_pair(seed, seed + 10, shape, shape);
    const ExactnessReport report = check_exactness(pair, tiny_run(), quick());
    for (const ExactnessCheck& check : report.checks) {
        INFO(check.subject << ": " << check.name << ", " << check.where);
        CHECK(check.measured);
        CHECK(check.passed);
    }
    CHECK(report.passed());
    CHECK(report.progress == 1);
    CHECK(report.maps.size() == 2);
    CHECK(report.latency.empty());
}

TEST_CASE("a fault is caught, and first shows where theory says", "[exactness]") {
    const auto fault = GENERATE(CacheFault::stale_cache, CacheFault::off_by_one_position,
                                CacheFault::mask_one_too_long, CacheFault::duplicated_token);
    TinyShape shape;
    shape.layers = 3;
    const auto pair = tiny_pair(4, 5, shape, shape);
    const ExactnessReport report = check_exactness(pair, tiny_run(), quick(fault));
    INFO(to_string(fault));
    CHECK_FALSE(report.passed());
    for (const char* subject : {"teacher", "student"}) {
        CHECK_FALSE(statement(report, subject, "cached = naive").passed);
        CHECK(statement(report, subject, "token by token = one prefill")
                  .passed); // the fault is in the first check only
    }
    CHECK(statement(report, "pair", "rewind = fresh run").passed);
    for (const ExactnessMap& map : report.maps) {
        const bool first_k = layer_max(map, map.k, 0) > 1e-4F, first_v = layer_max(map, map.v, 0) > 1e-4F;
        const bool second_k = layer_max(map, map.k, 1) > 1e-4F, second_v = layer_max(map, map.v, 1) > 1e-4F;
        CHECK(second_k);
        CHECK(second_v);
        switch (fault) {
        case CacheFault::off_by_one_position: // V is not rotated
            CHECK(first_k);
            CHECK_FALSE(first_v);
            break;
        case CacheFault::mask_one_too_long: // the first layer's K and V do not depend on attention
            CHECK_FALSE(first_k);
            CHECK_FALSE(first_v);
            break;
        default: // other tokens: everything differs from the first layer on
            CHECK(first_k);
            CHECK(first_v);
        }
    }
}

TEST_CASE("a pair with two geometries is checked model by model", "[exactness]") {
    TinyShape deep;
    deep.layers = 3;
    const auto pair = tiny_pair(1, 2, deep);
    const ExactnessReport report = check_exactness(pair, tiny_run(), quick());
    CHECK(report.passed());
    CHECK_FALSE(statement(report, "pair", "splice = fresh prefill").measured);
}

TEST_CASE("the check can be cancelled at any of its reports", "[exactness]") {
    const auto pair = tiny_pair(1, 2);
    int reports = 0;
    static_cast<void>(check_exactness(pair, tiny_run(), quick(), [&](const ExactnessReport&) {
        ++reports;
        return true;
    }));
    REQUIRE(reports > 5);
    for (int stop = 1; stop <= reports; ++stop) {
        int seen = 0;
        CHECK_THROWS_AS(
            check_exactness(pair, tiny_run(), quick(), [&](const ExactnessReport&) { return ++seen < stop; }),
            Error);
        CHECK(seen == stop);
    }
}

TEST_CASE("latency curves have one entry per length that fits, and both paths at the same steps",
          "[exactness]") {
    TinyShape shape;
    shape.max_position = 80;
    const auto pair = tiny_pair(1, 2, shape, shape);
    ExactnessOptions options = quick();
    options.steps = 1;
    options.latency = true;
    options.lengths = {8, 64, 4096};
    options.latency_steps = 24;
    options.repetitions = 1;
    const ExactnessReport report = check_exactness(pair, tiny_run(), options);
    REQUIRE(report.latency.size() == 4); // two models, two lengths
    REQUIRE(report.notes.size() == 2);
    CHECK(report.notes[1] == "no latency of student at 4096 tokens: beyond its context of 80");
    for (const LatencyCurve& curve : report.latency) {
        CHECK(curve.prefill_ms > 0);
        CHECK(curve.step.back() + curve.length <= 80);
        CHECK(curve.naive_ms.size() == curve.step.size());
        CHECK(curve.cached_ms.size() == curve.step.size());
    }
}

TEST_CASE("steps beyond the context are cut, and the report says so", "[exactness]") {
    TinyShape shape;
    shape.max_position = 40;
    const auto pair = tiny_pair(1, 2, shape, shape);
    ExactnessOptions options = quick();
    const ExactnessReport whole = check_exactness(pair, tiny_run(), options);
    CHECK(whole.notes.empty());
    options.steps = 600;
    const ExactnessReport report = check_exactness(pair, tiny_run(), options);
    REQUIRE(report.maps.size() == 2);
    REQUIRE(report.maps[0].steps < 40);
    REQUIRE(report.notes.size() == 1);
    CHECK_THAT(report.notes[0],
               Catch::Matchers::StartsWith(fmt::format("{} of 600 steps", report.maps[0].steps)) &&
                   Catch::Matchers::EndsWith("context of 40 has no room for more"));
    CHECK(to_json(report)["notes"] == nlohmann::json(report.notes));
}

TEST_CASE("options of a check survive JSON, and bad ones are named", "[exactness]") {
    ExactnessOptions options = quick(CacheFault::mask_one_too_long);
    options.lengths = {3, 5};
    CHECK(exactness_options_from_json(to_json(options), "it") == options);
    CHECK_THROWS_AS(exactness_options_from_json({{"fault", "gremlin"}}, "it"), Error);
    CHECK_THROWS_AS(exactness_options_from_json({{"steps", 0}}, "it"), Error);
    CHECK_THROWS_AS(exactness_options_from_json({{"lengths", {0}}}, "it"), Error);
    CHECK_THROWS_AS(exactness_options_from_json({{"unknown", 1}}, "it"), Error);
}

} // namespace exactness_test
