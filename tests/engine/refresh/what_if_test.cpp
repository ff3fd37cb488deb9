#include "engine/refresh/what_if.h"
#include "engine/signals/registry.h"
#include "tests/engine/refresh/naive_planner.h"
#include "tests/engine/refresh/random_policy.h"
#include "tests/support/seed.h"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <random>

namespace what_if_test {

using namespace refreshlab;
using namespace refreshlab::testing;

namespace {

/// What a recording of `run` over `trace` would hold: KL only where a pass looked at it, unless `back_filled`.
RecordedRun recorded(const NaiveTrace& trace, const NaiveRun& run, bool back_filled) {
    RecordedRun result;
    result.steps = trace.steps;
    for (const NaiveRun::Event& event : run.refreshes) {
        if (event.automatic) result.automatic_fires.push_back(event.step);
        if (event.manual) result.manual_fires.push_back(event.step);
    }
    result.signal = [&trace, passes = run.passes, back_filled](int64_t t, size_t id) {
        const std::string name(signals()[id].name);
        if (name == "kl_nats" && !back_filled && std::find(passes.begin(), passes.end(), t) == passes.end()) {
            return absent();
        }
        return trace.at(name, t).value_or(absent());
    };
    return result;
}

NaiveTrace entropy_trace(std::vector<float> values) {
    NaiveTrace trace;
    trace.steps = static_cast<int64_t>(values.size());
    trace.manual.assign(values.size(), false);
    trace.names = {"entropy_bits"};
    trace.values = {std::move(values)};
    return trace;
}

} // namespace

TEST_CASE("the recorded policy on its own recording gives the recorded fires", "[refresh]") {
    const uint32_t seed = test::seed(9100);
    INFO("seed " << seed);
    std::mt19937 random(seed);
    size_t fires = 0;
    for (int i = 0; i < 2000; ++i) {
        const RefreshPolicy policy = random_policy(random);
        const NaiveTrace trace = random_trace(random);
        const NaiveRun run = naive_run(policy, trace);
        // A mean needs the values in between as well.
        const bool mean = std::ranges::any_of(
            policy.triggers, [](const Trigger& t) { return t.enabled && t.signal == "kl_mean_nats"; });
        const RecordedRun record = recorded(trace, run, mean || i % 2 == 0);
        INFO("case " << i << ": " << describe(policy));
        const WhatIf preview = what_if(policy, record);
        REQUIRE(preview.fires == record.automatic_fires);
        REQUIRE_FALSE(preview.exact_until);
        fires += preview.fires.size();
    }
    CHECK(fires > 3000);
}

TEST_CASE("another policy is exact up to and including the first difference", "[refresh]") {
    const uint32_t seed = test::seed(9101);
    INFO("seed " << seed);
    std::mt19937 random(seed);
    int differing = 0;
    for (int i = 0; i < 1500; ++i) {
        const RefreshPolicy was = random_policy(random), wanted = random_policy(random);
        NaiveTrace trace = random_trace(random);
        // A request that had to wait is recorded where it fired; another lag would have let it in earlier.
        if (was.lag > 0) trace.manual.assign(trace.manual.size(), false);
        const RecordedRun record = recorded(trace, naive_run(was, trace), true);
        const WhatIf preview = what_if(wanted, record);
        if (!preview.exact_until) {
            REQUIRE(preview.fires == record.automatic_fires);
            continue;
        }
        ++differing;
        const int64_t at = *preview.exact_until;
        const auto fired = [at](const std::vector<int64_t>& list, int64_t t) {
            return std::find(list.begin(), list.end(), t) != list.end();
        };
        for (int64_t t = 1; t < at; ++t)
            REQUIRE(fired(preview.fires, t) == fired(record.automatic_fires, t));
        REQUIRE(fired(preview.fires, at) != fired(record.automatic_fires, at));
        // Up to there the recorded refreshes by hand stand at the same steps, so a live run would have done the same.
        const NaiveRun live = naive_run(wanted, trace);
        for (int64_t t = 1; t <= at; ++t) {
            const bool lives =
                std::any_of(live.refreshes.begin(), live.refreshes.end(),
                            [t](const NaiveRun::Event& e) { return e.automatic && e.step == t; });
            REQUIRE(lives == fired(preview.fires, t));
        }
    }
    CHECK(differing > 300);
}

TEST_CASE("strides and cool-downs follow the predicted fires, not the recorded ones", "[refresh]") {
    std::vector<float> values(100, 1.0F);
    for (const size_t t : {20U, 30U, 60U})
        values[t - 1] = 7.0F;
    const NaiveTrace trace = entropy_trace(values);
    RefreshPolicy policy = preset_policy("entropy");
    policy.triggers[0].every = 1;
    policy.triggers[0].cooldown = 32;
    const RecordedRun record = recorded(trace, naive_run(policy, trace), false);
    REQUIRE(record.automatic_fires == std::vector<int64_t>{20, 60});
    policy.triggers[0].cooldown = 35;
    CHECK(what_if(policy, record).fires == std::vector<int64_t>{20, 60});
    policy.triggers[0].cooldown = 10;
    const WhatIf shorter = what_if(policy, record);
    CHECK(shorter.fires == std::vector<int64_t>{20, 30, 60});
    CHECK(shorter.exact_until == 30);
    policy.triggers[0].threshold = 8;
    CHECK(what_if(policy, record).fires.empty());
    CHECK(what_if(policy, record).exact_until == 20);
}

TEST_CASE("a lower tau never predicts a later first fire", "[refresh]") {
    const uint32_t seed = test::seed(9102);
    INFO("seed " << seed);
    std::mt19937 random(seed);
    for (int i = 0; i < 200; ++i) {
        const NaiveTrace trace = random_trace(random);
        RecordedRun record = recorded(trace, NaiveRun{}, true);
        RefreshPolicy policy = preset_policy("entropy");
        policy.triggers[0].every = 1 + i % 4;
        int64_t before = 0;
        for (double tau = 0; tau < 12; tau += 0.25) {
            policy.triggers[0].threshold = tau;
            const WhatIf preview = what_if(policy, record);
            const int64_t first = preview.fires.empty() ? trace.steps + 1 : preview.fires.front();
            REQUIRE(first >= before);
            before = first;
        }
    }
}

TEST_CASE("recorded refreshes by hand stay where they were and are not predicted", "[refresh]") {
    NaiveTrace trace = entropy_trace(std::vector<float>(200, 1.0F));
    trace.manual[99] = true;
    const RecordedRun record = recorded(trace, naive_run(preset_policy("none"), trace), false);
    CHECK(what_if(preset_policy("periodic"), record).fires == std::vector<int64_t>{64, 164});
}

TEST_CASE("boundaries without the needed value are counted as missing", "[refresh]") {
    const NaiveTrace trace = entropy_trace(std::vector<float>(100, 1.0F));
    const RecordedRun record = recorded(trace, NaiveRun{}, false);
    CHECK(what_if(preset_policy("entropy"), record).missing == 0);
    CHECK(what_if(preset_policy("mc"), record).missing == 100 / 16); // never measured
    RefreshPolicy kl = preset_policy("kl");
    kl.triggers[0].every = 10;
    CHECK(what_if(kl, record).missing == 10);
    CHECK(what_if(kl, record).fires.empty());
    kl.triggers[0].enabled = false;
    CHECK(what_if(kl, record).missing == 0);
}

TEST_CASE("the overhead is an estimate from known costs only", "[refresh]") {
    const NaiveTrace trace = entropy_trace(std::vector<float>(128, 7.0F));
    RecordedRun record = recorded(trace, NaiveRun{}, false);
    const RefreshPolicy policy = preset_policy("entropy"); // fires at 16, 48, 80, 112
    CHECK(what_if(policy, record).fires == std::vector<int64_t>{16, 48, 80, 112});
    CHECK_FALSE(what_if(policy, record).overhead);
    record.decode_ms = 1000;
    CHECK_FALSE(what_if(policy, record).overhead);
    record.refresh_ms = 25;
    REQUIRE(what_if(policy, record).overhead);
    CHECK(what_if(policy, record).overhead->high_percent == Catch::Approx(10.0));
    CHECK(what_if(policy, record).overhead->low_percent ==
          Catch::Approx(10.0)); // nothing is known of what a pass reads
    // Recorded passes read 64 tokens each; those of this policy read 16, 32, 32 and 32: they cost between as much as those and
    // their share of it.
    record.refresh_tokens = 64;
    CHECK(what_if(policy, record).overhead->low_percent ==
          Catch::Approx(10.0 * (16 + 32 + 32 + 32) / (4 * 64.0)));
    CHECK(what_if(policy, record).overhead->high_percent == Catch::Approx(10.0));
    record.refresh_tokens = 8; // and more than those where they read more
    CHECK(what_if(policy, record).overhead->low_percent == Catch::Approx(10.0));
    CHECK(what_if(policy, record).overhead->high_percent ==
          Catch::Approx(10.0 * (16 + 32 + 32 + 32) / (4 * 8.0)));
    record.refresh_tokens = 0;
    // Probes that do not fire cost their pass as well.
    CHECK(what_if(preset_policy("kl"), record).overhead->high_percent == Catch::Approx(5.0));
    CHECK(what_if(preset_policy("none"), record).overhead->high_percent == 0.0);
    // A refresh by hand is not the policy's cost, but a probe at the same boundary is.
    record.manual_fires = {64, 70};
    CHECK(what_if(preset_policy("none"), record).overhead->high_percent == 0.0);
    CHECK(what_if(preset_policy("kl"), record).overhead->high_percent ==
          Catch::Approx(2.5)); // 64; the next would be 134
}

TEST_CASE("an empty recording predicts nothing", "[refresh]") {
    RecordedRun empty;
    empty.signal = [](int64_t, size_t) { return absent(); };
    for (const Preset& preset : presets()) {
        const WhatIf preview = what_if(preset_policy(preset.name), empty);
        CHECK(preview.fires.empty());
        CHECK_FALSE(preview.exact_until);
        CHECK(preview.missing == 0);
    }
}

} // namespace what_if_test
