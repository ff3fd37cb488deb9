#include "engine/base/quantile.h"
#include "engine/refresh/calibrate.h"
#include "engine/signals/registry.h"
#include "tests/engine/refresh/naive_planner.h"
#include "tests/engine/refresh/random_policy.h"
#include "tests/support/seed.h"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

namespace calibrate_test {

using namespace refreshlab;
using namespace refreshlab::testing;
using Catch::Approx;
using Catch::Matchers::ContainsSubstring;

namespace {

/// One signal alone, a value per step.
RecordedRun run_of(const std::string& signal, std::vector<float> values) {
    RecordedRun run;
    run.steps = std::ssize(values);
    run.signal = [id = *signal_id(signal), values = std::move(values)](int64_t t, size_t wanted) {
        return wanted == id ? values.at(static_cast<size_t>(t - 1)) : absent();
    };
    return run;
}

std::vector<float> random_values(std::mt19937& random, size_t n) {
    std::lognormal_distribution<float> values(0.5F, 0.8F);
    std::vector<float> all(n);
    for (float& value : all)
        value = values(random);
    return all;
}

RefreshPolicy gate(const std::string& signal, int32_t every, Comparison comparison = Comparison::above) {
    RefreshPolicy policy;
    policy.triggers.push_back({signal, comparison, 1, every, 0, true});
    return policy;
}

/// Type 7 by its definition, in long double: h = (n - 1) q, x[floor h] + (h - floor h)(x[floor h + 1] - x[floor h]).
double by_definition(std::vector<float> values, long double q) {
    std::sort(values.begin(), values.end());
    const long double h = static_cast<long double>(values.size() - 1) * q;
    const auto j = static_cast<size_t>(std::floor(h));
    const long double low = static_cast<long double>(values[j]),
                      high = static_cast<long double>(values[std::min(j + 1, values.size() - 1)]);
    return static_cast<double>(low + (h - std::floor(h)) * (high - low));
}

NaiveTrace trace_of(const std::string& signal, const std::vector<float>& values) {
    NaiveTrace trace;
    trace.steps = std::ssize(values);
    trace.manual.assign(values.size(), false);
    trace.names = {signal};
    trace.values = {values};
    return trace;
}

} // namespace

TEST_CASE("a calibrated threshold is the quantile of the values at the checks", "[refresh][PO6]") {
    const uint32_t seed = test::seed(9300);
    INFO("seed " << seed);
    std::mt19937 random(seed);
    int answered = 0;
    for (int i = 0; i < 400; ++i) {
        const size_t n = 200 + random() % 900;
        std::vector<float> values = random_values(random, n);
        for (float& value : values) { // what never fires and must not count
            if (random() % 20 == 0) value = absent();
            if (random() % 40 == 0) value = std::numeric_limits<float>::quiet_NaN();
            if (random() % 60 == 0) value = std::numeric_limits<float>::infinity();
            if (random() % 60 == 0) value = -std::numeric_limits<float>::infinity();
        }
        const auto every = static_cast<int32_t>(1 + random() % 20);
        const double per_1000 = 1 + static_cast<double>(random() % 200) / 10;
        const Comparison comparison = static_cast<Comparison>(random() % 4);
        const RefreshPolicy policy = gate("entropy_bits", every, comparison);
        const CalibrationResult result = calibrate(policy, 0, per_1000, run_of("entropy_bits", values));
        INFO("case " << i << ": " << n << " values, every " << every << ", " << per_1000
                     << " per 1,000: " << result.why_not);

        std::vector<float> checked;
        for (size_t t = 1; t <= n; ++t)
            if (t % static_cast<size_t>(every) == 0 && std::isfinite(values[t - 1]))
                checked.push_back(values[t - 1]);
        const long double fire = static_cast<long double>(per_1000) * every / 1000;
        if (fire * static_cast<long double>(checked.size()) < 0.49L) {
            CHECK_FALSE(result.found);
            CHECK_FALSE(result.why_not.empty());
            continue;
        }
        if (fire * static_cast<long double>(checked.size()) < 0.51L) continue; // on the edge, to rounding
        REQUIRE(result.found);
        CHECK(result.why_not.empty());
        const bool up = comparison == Comparison::above || comparison == Comparison::at_least;
        CHECK(result.found->threshold == Approx(by_definition(checked, up ? 1 - fire : fire)).epsilon(1e-12));
        CHECK(*result.found->q == Approx(static_cast<double>(1 - fire)));
        CHECK(result.found->checks == std::ssize(checked));
        // What the policy would have done with it, by the rules written a second time.
        RefreshPolicy with = policy;
        with.triggers[0].threshold = result.found->threshold;
        std::vector<int64_t> fires;
        for (const NaiveRun::Event& event : naive_run(with, trace_of("entropy_bits", values)).refreshes)
            fires.push_back(event.step);
        CHECK(result.found->outcome.fires == fires);
        // Values are all different: so many lie strictly beyond the threshold, or on it for one place more.
        const auto due =
            static_cast<int64_t>(std::ceil(fire * static_cast<long double>(checked.size() - 1) - 1e-9L));
        CHECK(std::abs(std::ssize(fires) - due) <= 1);
        ++answered;
    }
    CHECK(answered > 200);
}

TEST_CASE("the mirrored comparison of mirrored values has the mirrored threshold", "[refresh][PO6]") {
    const uint32_t seed = test::seed(9301);
    INFO("seed " << seed);
    std::mt19937 random(seed);
    for (const double per_1000 : {1.0, 2.5, 17.0}) {
        std::vector<float> values = random_values(random, 700);
        const auto up = calibrate(gate("logprob", 3), 0, per_1000, run_of("logprob", values));
        for (float& value : values)
            value = -value;
        const auto down =
            calibrate(gate("logprob", 3, Comparison::below), 0, per_1000, run_of("logprob", values));
        REQUIRE(up.found);
        REQUIRE(down.found);
        CHECK(down.found->threshold == Approx(-up.found->threshold));
        CHECK(down.found->q == up.found->q);
        CHECK(down.found->outcome.fires == up.found->outcome.fires);
    }
}

TEST_CASE("more refreshes wanted never raise the threshold, and they come", "[refresh][PO6]") {
    const uint32_t seed = test::seed(9302);
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const RecordedRun run = run_of("entropy_bits", random_values(random, 4000));
    double last = std::numeric_limits<double>::infinity();
    size_t fires = 0;
    for (const double per_1000 : {0.5, 1.0, 2.5, 5.0, 20.0, 100.0, 400.0}) {
        const auto result = calibrate(gate("entropy_bits", 1), 0, per_1000, run);
        REQUIRE(result.found);
        CHECK(result.found->threshold < last);
        CHECK(result.found->outcome.fires.size() > fires);
        // No cool-down, every token checked: the run has exactly what was asked for.
        CHECK(static_cast<double>(result.found->outcome.fires.size()) == Approx(per_1000 * 4).margin(1));
        last = result.found->threshold;
        fires = result.found->outcome.fires.size();
    }
}

TEST_CASE("the stride of a KL trigger is that of its probes", "[refresh][PO6]") {
    const uint32_t seed = test::seed(9303);
    INFO("seed " << seed);
    std::mt19937 random(seed);
    std::vector<float> values = random_values(random, 3200);
    const auto result = calibrate(gate("kl_nats", 64), 0, 2.5, run_of("kl_nats", values));
    REQUIRE(result.found);
    CHECK(*result.found->q == Approx(0.84));
    CHECK(result.found->checks == 50);
    std::vector<float> probed;
    for (size_t t = 64; t <= values.size(); t += 64)
        probed.push_back(values[t - 1]);
    CHECK(result.found->threshold == Approx(by_definition(probed, 0.84L)));
    CHECK(result.found->outcome.fires.size() == 8); // 3.2 thousand tokens at 2.5
}

TEST_CASE("steps since refresh needs no values: its threshold is the distance", "[refresh][PO6]") {
    const RecordedRun run = run_of("entropy_bits", std::vector<float>(2001, 1.0F));
    const auto at_least = calibrate(gate("steps_since_refresh", 1, Comparison::at_least), 0, 2.5, run);
    REQUIRE(at_least.found);
    CHECK(at_least.found->threshold == 400);
    CHECK_FALSE(at_least.found->q);
    CHECK(at_least.found->outcome.fires == std::vector<int64_t>{400, 800, 1200, 1600, 2000});
    const auto above = calibrate(gate("steps_since_refresh", 1, Comparison::above), 0, 2.5, run);
    REQUIRE(above.found);
    CHECK(above.found->threshold == 399);
    CHECK(above.found->outcome.fires == at_least.found->outcome.fires);
    CHECK(calibrate(gate("steps_since_refresh", 1, Comparison::at_least), 0, 1000, run).found->threshold ==
          1);
    CHECK_FALSE(calibrate(gate("steps_since_refresh", 1, Comparison::at_least), 0, 1001, run).found);
    CHECK_THAT(calibrate(gate("steps_since_refresh", 1, Comparison::below), 0, 2.5, run).why_not,
               ContainsSubstring("no threshold"));
}

TEST_CASE("the prediction is that of the whole policy, with the trigger switched on", "[refresh][PO6]") {
    const uint32_t seed = test::seed(9304);
    INFO("seed " << seed);
    std::mt19937 random(seed);
    RefreshPolicy policy = gate("entropy_bits", 1);
    policy.triggers[0].enabled = false;
    policy.triggers[0].cooldown = 40;
    policy.triggers.push_back({"steps_since_refresh", Comparison::at_least, 128, 1, 0, true});
    policy.budget = {.refreshes = 12, .per_tokens = 1000};
    const std::vector<float> values = random_values(random, 2000);
    const auto result = calibrate(policy, 0, 10, run_of("entropy_bits", values));
    REQUIRE(result.found);
    policy.triggers[0].enabled = true;
    policy.triggers[0].threshold = result.found->threshold;
    std::vector<int64_t> fires;
    for (const NaiveRun::Event& event : naive_run(policy, trace_of("entropy_bits", values)).refreshes)
        fires.push_back(event.step);
    CHECK(result.found->outcome.fires == fires);
    CHECK(fires.size() > 12);
}

TEST_CASE("without an answer there is a reason", "[refresh][PO6]") {
    const uint32_t seed = test::seed(9305);
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const std::vector<float> values = random_values(random, 400);
    const RecordedRun run = run_of("entropy_bits", values);
    const auto why = [&](const RefreshPolicy& policy, double per_1000, const RecordedRun& on) {
        const CalibrationResult result = calibrate(policy, 0, per_1000, on);
        CHECK_FALSE(result.found);
        return result.why_not;
    };
    const double nan = std::numeric_limits<double>::quiet_NaN();
    for (const double bad : {0.0, -3.0, nan, std::numeric_limits<double>::infinity()})
        CHECK_THAT(why(gate("entropy_bits", 1), bad, run), ContainsSubstring("above 0"));
    // 64 tokens apart there are 15.6 checks in 1,000 tokens.
    CHECK_THAT(why(gate("entropy_bits", 64), 16, run), ContainsSubstring("64 tokens"));
    CHECK_THAT(why(gate("entropy_bits", 1), 1000, run), ContainsSubstring("1 token"));
    CHECK_THAT(why(gate("mc_variance", 1), 2.5, run), ContainsSubstring("not measured"));
    CHECK_THAT(why(gate("entropy_bits", 500), 1, run),
               ContainsSubstring("not measured")); // too short for a check
    // 2.5 per 1,000: half a refresh in 200 checks.
    CHECK_THAT(
        why(gate("entropy_bits", 1), 2.5, run_of("entropy_bits", {values.begin(), values.begin() + 199})),
        ContainsSubstring("199") && ContainsSubstring("200 or more"));
    CHECK(calibrate(gate("entropy_bits", 1), 0, 2.5,
                    run_of("entropy_bits", {values.begin(), values.begin() + 200}))
              .found);
}

} // namespace calibrate_test
