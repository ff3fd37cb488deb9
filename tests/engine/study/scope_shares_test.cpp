// What parts of refreshes gain on a text, for the study of scopes: against sessions that refresh with that scope.
#include "engine/base/error.h"
#include "engine/session/driver/run_driver.h"
#include "engine/session/pair/run_text.h"
#include "engine/study/measure/scope_shares.h"
#include "engine/study/studies/scope_study_tables.h"
#include "tests/engine/session/tiny_pair.h"

#include <c10/core/InferenceMode.h>
#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>

#include <cmath>
#include <limits>
#include <random>

namespace scope_shares_test {

using namespace refreshlab;
using namespace refreshlab::test;
using Catch::Approx;

namespace {

std::vector<int32_t> ids(std::mt19937& random, int64_t n) {
    std::vector<int32_t> some;
    for (int64_t i = 0; i < n; ++i)
        some.push_back(static_cast<int32_t>(random() % 4096));
    return some;
}

/// Mean loss of y_18 .. y_33 in a session that reads the text and refreshes after step 16 with this scope.
double session_loss(const std::shared_ptr<const ModelPair>& pair, const TeacherText& text,
                    const std::optional<RefreshScope>& scope) {
    RunConfig config = tiny_run(static_cast<int32_t>(text.text().size()));
    if (scope) {
        config.policy.at = {16};
        config.policy.scope = *scope;
    }
    auto run = std::make_shared<RunText>();
    run->prompt.ids = text.prompt();
    run->given = text.text();
    RunDriver driver({.pair = pair, .config = std::move(config), .text = std::move(run)});
    driver.run();
    double loss = 0;
    for (int64_t t = 17; t <= 32; ++t)
        loss -= static_cast<double>(driver.recording()->signal(t + 1, *signal_id("logprob")));
    return loss / 16;
}

RefreshScope chosen_by(ScopePositions positions) {
    RefreshScope scope;
    scope.positions = positions;
    scope.count = 4;
    return scope;
}

} // namespace

TEST_CASE("shares of a text are those of sessions that refresh with that scope", "[study][scope]") {
    std::mt19937 random(812);
    const TinyShape shape{.layers = 6, .kv_heads = 2};
    const auto pair = tiny_pair(random(), random(), shape, shape);
    const TeacherText text(*pair->teacher, ids(random, 9), ids(random, 34));
    REQUIRE(scope_study_boundaries(text) == std::vector<int64_t>{16});
    const c10::InferenceMode guard;
    const kernels::ExecutionContext one(1);
    const kernels::ExecutionScope execution(one);
    const ScopeShares shares = scope_shares(*pair->student, text, 5);
    const double none = session_loss(pair, text, {});
    const auto gain = [&](const RefreshScope& scope) { return none - session_loss(pair, text, scope); };
    const auto close = [](double value) { return Approx(value).margin(1e-7); };
    CHECK(shares.refreshes == 1);
    CHECK(shares.whole == close(gain({})));
    RefreshScope keys, values, first, newest = chosen_by(ScopePositions::newest);
    keys.parts = ScopeParts::keys;
    values.parts = ScopeParts::values;
    first.layers = {{0, 1}};
    CHECK(shares.sets[0] == close(gain(keys)));
    CHECK(shares.sets[1] == close(gain(values)));
    CHECK(shares.sets[2] == close(gain(first)));
    CHECK(shares.sets[8] == close(gain(newest)));
    for (int32_t layer = 0; layer < 6; ++layer) {
        RefreshScope alone;
        alone.layers = {{layer, layer}};
        CHECK(shares.layers[static_cast<size_t>(layer)] == close(gain(alone)));
    }
    // The session chooses by what it has measured itself.
    CHECK(shares.chosen[0] == close(gain(chosen_by(ScopePositions::drift))));
    CHECK(shares.chosen[1] == close(gain(chosen_by(ScopePositions::attention))));
    CHECK(shares.chosen[2] == close(gain(chosen_by(ScopePositions::drift_attention))));
    CHECK(shares.chosen[3] == close(gain(newest)));
    for (const double one_of : shares.correlation)
        CHECK(std::abs(one_of) <= 1);
    CHECK(scope_shares(*pair->student, text, 5) == shares);
    CHECK(scope_shares(*pair->student, text, 6).chosen[4] != shares.chosen[4]);

    const std::vector<std::vector<uint8_t>> sets{{1, 1, 0, 0, 0, 0}, {1, 1, 1, 1, 1, 1}, {0, 0, 0, 0, 0, 0}};
    const auto gains = layer_set_gains(*pair->student, text, sets);
    CHECK(gains[0] == close(shares.sets[2]));
    CHECK(gains[1] == close(shares.whole));
    CHECK(gains[2] == 0);
    CHECK(scope_shares_from_json(to_json(shares), "a test") == shares);
    CHECK_THROWS_AS(scope_shares_from_json({{"whole", 1}}, "a test"), Error);
}

TEST_CASE("tables of the study have sums over sums, and no share of what gains nothing", "[study][scope]") {
    StudentScopes good{"a student", {"one", "two"}, {{}, {}}, {{0.3, 0.2, 0.1}, {0.1, 0.1, 0.0}}};
    good.shares[0] = {.refreshes = 2, .whole = 0.3, .layers = {0.3, 0}};
    good.shares[1] = {.refreshes = 3, .whole = 0.1, .layers = {0.1, 0}};
    good.shares[0].sets[1] = 0.3;
    good.shares[0].chosen = {0.2, 0, 0, 0, 0.1};
    good.shares[0].correlation = {0.5, 0, 0, std::numeric_limits<double>::quiet_NaN()};
    StudentScopes bad{"another", {"one"}, {{.refreshes = 2, .whole = -0.1, .layers = {0, 0}}}, {}};
    const StudyResult result = scope_study_tables({good, bad}, 0);
    REQUIRE(result.tables.size() == 3);
    const auto& rows = result.tables[0].rows;
    REQUIRE(rows.size() == 20);
    CHECK(std::get<int64_t>(rows[0][3]) == 5);
    CHECK(std::get<double>(rows[0][4]) == Approx(0.2)); // everything, nats
    CHECK(std::get<double>(rows[0][7]) == Approx(1));
    CHECK(std::get<std::string>(rows[2][1]) == "values");
    CHECK(std::get<double>(rows[2][7]) == Approx(0.3 / 0.4));
    CHECK(std::holds_alternative<std::monostate>(rows[2][8])); // two texts have no interval
    CHECK(std::holds_alternative<std::monostate>(rows[10][7]));
    const auto& positions = result.tables[1].rows;
    REQUIRE(positions.size() == 10);
    CHECK(std::get<double>(positions[0][2]) == Approx(0.5));
    CHECK(std::get<double>(positions[0][5]) == Approx(0.25)); // above the draws
    CHECK(std::get<double>(positions[0][8]) == Approx(0.25));
    CHECK(std::get<double>(positions[3][8]) == Approx(0)); // of the one text that has it
    const auto& carried = result.tables[2].rows;
    REQUIRE(carried.size() == 3); // the other student has one text
    CHECK(std::get<double>(carried[0][2]) == Approx(1));
    CHECK(std::get<double>(carried[1][2]) == Approx(0.75));
    CHECK(std::get<double>(carried[2][2]) == Approx(0.25));
    REQUIRE(result.notes.size() >= 2);
    CHECK(result.notes[1].find("No intervals") != std::string::npos);
}

} // namespace scope_shares_test
