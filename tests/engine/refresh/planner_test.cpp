#include "engine/refresh/planner.h"
#include "engine/signals/registry.h"
#include "tests/engine/refresh/naive_planner.h"
#include "tests/engine/refresh/random_policy.h"
#include "tests/support/seed.h"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

namespace planner_test {

using namespace refreshlab;
using namespace refreshlab::testing;

namespace {

/// Drives decide() over a trace as a session does: two asks where a probe is wanted.
NaiveRun planned_run(const RefreshPolicy& policy, const NaiveTrace& trace) {
    NaiveRun run;
    std::optional<int64_t> last_splice;
    int64_t last_pass = 0, spliced_to = 0;
    std::optional<int64_t> fired; // of the refresh in flight
    bool asked = false;
    std::vector<int64_t> automatic;
    std::vector<float> values(signals().size(), absent());
    const size_t kl = *signal_id("kl_nats"), kl_mean = *signal_id("kl_mean_nats");
    for (int64_t t = 1; t <= trace.steps; ++t) {
        for (const std::string& name : trace.names)
            values[*signal_id(name)] = *trace.at(name, t);
        values[kl] = values[kl_mean] = absent();
        if (fired && t == *fired + policy.lag) {
            spliced_to = *fired;
            last_splice = t;
            fired.reset();
        }
        asked = asked || trace.manual[static_cast<size_t>(t - 1)];
        const Boundary boundary = {.step = t,
                                   .tokens_since_splice = t - spliced_to,
                                   .tokens_since_pass = t - last_pass,
                                   .last_splice_step = last_splice,
                                   .automatic_steps = automatic,
                                   .signals = values,
                                   .manual = asked,
                                   .in_flight = fired.has_value()};
        asked = asked && fired;
        Decision decision = decide(policy, boundary);
        if (decision.kind == Decision::Kind::probe) {
            CHECK(decision.hits.empty());
            run.passes.push_back(t);
            last_pass = t;
            values[kl] = *trace.at("kl_nats", t);
            values[kl_mean] = naive_mean_kl(trace, spliced_to + 1, t);
            decision = decide(policy, boundary);
            REQUIRE(decision.kind != Decision::Kind::probe);
        }
        if (decision.budget_blocked) run.blocked.push_back(t);
        if (decision.kind != Decision::Kind::refresh) continue;
        NaiveRun::Event event = {t, decision.automatic, false, {}};
        for (const TriggerHit& hit : decision.hits) {
            if (hit.signal.empty()) {
                event.manual = true;
            } else if (hit.signal == scheduled_hit) {
                event.held.push_back(hit.signal);
            } else {
                CHECK(policy.triggers[static_cast<size_t>(hit.trigger)].signal == hit.signal);
                event.held.push_back(hit.signal);
            }
        }
        run.refreshes.push_back(event);
        if (last_pass != t) run.passes.push_back(t);
        last_pass = t;
        if (policy.lag > 0) {
            fired = t;
        } else {
            last_splice = spliced_to = t;
        }
        if (decision.automatic) automatic.push_back(t);
    }
    return run;
}

std::vector<int64_t> steps_of(const NaiveRun& run) {
    std::vector<int64_t> steps;
    for (const NaiveRun::Event& event : run.refreshes)
        steps.push_back(event.step);
    return steps;
}

NaiveTrace constant_trace(int64_t steps, const std::string& name, float value) {
    NaiveTrace trace;
    trace.steps = steps;
    trace.manual.assign(static_cast<size_t>(steps), false);
    trace.names = {name};
    trace.values = {std::vector<float>(static_cast<size_t>(steps), value)};
    return trace;
}

Trigger trigger(std::string signal, Comparison comparison, double threshold, int32_t every = 1,
                int32_t cooldown = 0) {
    return {std::move(signal), comparison, threshold, every, cooldown, true};
}

RefreshPolicy any_of(std::vector<Trigger> triggers) {
    RefreshPolicy policy;
    policy.name = "test";
    policy.triggers = std::move(triggers);
    return policy;
}

} // namespace

TEST_CASE("decide agrees with a second, naive writing of the rules on random traces", "[refresh]") {
    const uint32_t seed = test::seed(77001);
    INFO("seed " << seed);
    std::mt19937 random(seed);
    int64_t refreshes = 0, probes = 0, blocked = 0, mixed = 0;
    for (int i = 0; i < 4000; ++i) {
        const RefreshPolicy policy = random_policy(random);
        const NaiveTrace trace = random_trace(random);
        INFO("case " << i << ": " << describe(policy));
        const NaiveRun expected = naive_run(policy, trace), got = planned_run(policy, trace);
        REQUIRE(got.refreshes == expected.refreshes);
        REQUIRE(got.passes == expected.passes);
        REQUIRE(got.blocked == expected.blocked);
        refreshes += static_cast<int64_t>(got.refreshes.size());
        probes += static_cast<int64_t>(got.passes.size() - got.refreshes.size());
        blocked += static_cast<int64_t>(got.blocked.size());
        for (const NaiveRun::Event& event : got.refreshes)
            mixed += event.held.size() > 1 ? 1 : 0;
    }
    // The generator reaches every corner, else the agreement above would mean little.
    CHECK(refreshes > 10000);
    CHECK(probes > 1000);
    CHECK(blocked > 1000);
    CHECK(mixed > 1000);
}

TEST_CASE("no trace violates cool-down or cap", "[refresh]") {
    const uint32_t seed = test::seed(77002);
    INFO("seed " << seed);
    std::mt19937 random(seed);
    int64_t looked = 0;
    for (int i = 0; i < 1500; ++i) {
        const RefreshPolicy policy = random_policy(random);
        const NaiveTrace trace = random_trace(random);
        INFO("case " << i << ": " << describe(policy));
        const NaiveRun run = planned_run(policy, trace);
        std::vector<int64_t> automatic;
        for (size_t e = 0; e < run.refreshes.size(); ++e) {
            const NaiveRun::Event& event = run.refreshes[e];
            if (!event.automatic) continue;
            automatic.push_back(event.step);
            if (policy.budget.refreshes) {
                const auto in_window = std::count_if(automatic.begin(), automatic.end(), [&](int64_t s) {
                    return s > event.step - policy.budget.per_tokens;
                });
                REQUIRE(in_window <= *policy.budget.refreshes);
                ++looked;
            }
            if (e == 0) continue;
            for (const std::string& name : event.held) {
                if (name == scheduled_hit) continue; // a schedule knows no cool-down
                const auto it = std::find_if(policy.triggers.begin(), policy.triggers.end(),
                                             [&](const Trigger& t) { return t.signal == name; });
                REQUIRE(event.step - run.refreshes[e - 1].step - policy.lag >=
                        it->cooldown); // by hand or not
                ++looked;
            }
        }
    }
    CHECK(looked > 2000);
}

TEST_CASE("raising tau never makes the first fire earlier", "[refresh]") {
    const uint32_t seed = test::seed(77003);
    INFO("seed " << seed);
    std::mt19937 random(seed);
    int fired = 0;
    for (int i = 0; i < 500; ++i) {
        NaiveTrace trace = random_trace(random);
        std::fill(trace.manual.begin(), trace.manual.end(), false);
        const std::string signal = i % 2 == 0 ? "entropy_bits" : "kl_nats";
        int64_t first_before = 0;
        for (double tau = -1; tau <= 12; tau += 0.5) {
            RefreshPolicy policy = any_of(
                {trigger(signal, Comparison::above, tau, 1 + i % 5, static_cast<int32_t>(random() % 20))});
            const std::vector<int64_t> steps = steps_of(planned_run(policy, trace));
            const int64_t first = steps.empty() ? trace.steps + 1 : steps.front();
            REQUIRE(first >= first_before);
            first_before = first;
            fired += steps.empty() ? 0 : 1;
        }
    }
    CHECK(fired > 1000);
}

TEST_CASE("a speculative burst is periodic with R = W = k", "[refresh]") {
    RefreshPolicy burst = preset_policy("burst"), periodic = preset_policy("periodic");
    periodic.triggers[0].threshold = 8;
    periodic.window = 8;
    periodic.name = burst.name;
    CHECK(burst == periodic);
    const NaiveTrace trace = constant_trace(100, "entropy_bits", 3);
    CHECK(steps_of(planned_run(burst, trace)) ==
          std::vector<int64_t>{8, 16, 24, 32, 40, 48, 56, 64, 72, 80, 88, 96});
}

TEST_CASE("periodic counts from the last splice, so a manual refresh restarts it", "[refresh]") {
    RefreshPolicy policy = preset_policy("periodic");
    NaiveTrace trace = constant_trace(300, "entropy_bits", 0);
    CHECK(steps_of(planned_run(policy, trace)) == std::vector<int64_t>{64, 128, 192, 256});
    trace.manual[99] = true; // t = 100
    CHECK(steps_of(planned_run(policy, trace)) == std::vector<int64_t>{64, 100, 164, 228, 292});
    policy.triggers[0].threshold = 301; // R > N equals none
    trace.manual[99] = false;
    CHECK(steps_of(planned_run(policy, trace)).empty());
}

TEST_CASE("a probe that does not fire, then a refresh by hand at 100: the next probe is at 164",
          "[refresh]") {
    NaiveTrace trace = constant_trace(170, "kl_nats", 0.1F);
    trace.manual[99] = true;
    const NaiveRun run = planned_run(any_of({trigger("kl_nats", Comparison::above, 0.5, 64)}), trace);
    CHECK(run.passes == std::vector<int64_t>{64, 100, 164});
    REQUIRE(run.refreshes.size() == 1);
    CHECK(run.refreshes[0] == NaiveRun::Event{100, false, true, {}});
}

TEST_CASE("a probe with kappa = -1 and no cool-down is periodic with R = M", "[refresh]") {
    const uint32_t seed = test::seed(77004);
    INFO("seed " << seed);
    std::mt19937 random(seed);
    for (int32_t m : {1, 2, 7, 64}) {
        NaiveTrace trace = constant_trace(400, "kl_nats", 0);
        for (float& value : trace.values[0])
            value = static_cast<float>(random() % 1000) / 100.0F; // KL >= 0
        const NaiveRun probe = planned_run(any_of({trigger("kl_nats", Comparison::above, -1, m)}), trace);
        const NaiveRun periodic =
            planned_run(any_of({trigger("steps_since_refresh", Comparison::at_least, m)}), trace);
        CHECK(steps_of(probe) == steps_of(periodic));
        CHECK(probe.passes == periodic.passes);
    }
}

TEST_CASE("a probe pays floor((N-1)/M) passes whatever cool-down and budget say", "[refresh]") {
    const NaiveTrace trace = constant_trace(499, "kl_nats", 9); // N - 1 boundaries
    RefreshPolicy policy = any_of({trigger("kl_nats", Comparison::above, 0.5, 16, 200)});
    CHECK(planned_run(policy, trace).passes.size() == 499 / 16);
    CHECK(steps_of(planned_run(policy, trace)) == std::vector<int64_t>{16, 224, 432});
    policy.budget = {.refreshes = 0, .per_tokens = 1000};
    CHECK(planned_run(policy, trace).passes.size() == 499 / 16);
    CHECK(planned_run(policy, trace).refreshes.empty());
    CHECK(planned_run(policy, trace).blocked.size() == 499 / 16); // no splice, so no cool-down either
}

TEST_CASE("under all, a probe is asked for only when the other triggers hold", "[refresh]") {
    RefreshPolicy policy = any_of(
        {trigger("entropy_bits", Comparison::above, 6, 1), trigger("kl_nats", Comparison::above, 0.5, 4)});
    policy.combine = Combine::all;
    NaiveTrace trace = constant_trace(20, "entropy_bits", 1);
    trace.names.emplace_back("kl_nats");
    trace.values.emplace_back(20, 2.0F);
    CHECK(planned_run(policy, trace).passes.empty());
    trace.values[0][9] = 7; // t = 10
    CHECK(planned_run(policy, trace).passes == std::vector<int64_t>{10});
    CHECK(steps_of(planned_run(policy, trace)) == std::vector<int64_t>{10});
    trace.values[1][9] = 0.2F; // probed, not beyond kappa
    CHECK(planned_run(policy, trace).passes == std::vector<int64_t>{10});
    CHECK(planned_run(policy, trace).refreshes.empty());
}

TEST_CASE("two KL triggers share their probes, each looks at its own stride", "[refresh]") {
    NaiveTrace trace = constant_trace(40, "kl_nats", 0.25F);
    trace.values[0][19] = 0.75F; // t = 20: the newest position alone is above, the mean of 20 is not
    RefreshPolicy policy = any_of({trigger("kl_nats", Comparison::above, 0.5, 20),
                                   trigger("kl_mean_nats", Comparison::above, 0.27, 5)});
    // The mean's probes come every 5 tokens, so nobody has read for 20 when kl_nats could look; at 20 the mean is
    // (19 * 0.25 + 0.75) / 20 = 0.275, and after the splice it starts afresh.
    NaiveRun run = planned_run(policy, trace);
    CHECK(run.passes == std::vector<int64_t>{5, 10, 15, 20, 25, 30, 35, 40});
    CHECK(steps_of(run) == std::vector<int64_t>{20});
    CHECK(run.refreshes.at(0).held == std::vector<std::string>{"kl_mean_nats"});
    policy.triggers[0].every = 5;
    CHECK(planned_run(policy, trace).refreshes.at(0).held ==
          std::vector<std::string>{"kl_nats", "kl_mean_nats"});
    policy.triggers[0].every = 20;
    policy.combine = Combine::all; // a pass that could not fire is not made
    run = planned_run(policy, trace);
    CHECK(run.passes == std::vector<int64_t>{20, 40});
    CHECK(steps_of(run) == std::vector<int64_t>{20});
}

TEST_CASE("a refresh by hand ignores every limit, restarts the cool-down and is not counted", "[refresh]") {
    RefreshPolicy policy = any_of({trigger("entropy_bits", Comparison::above, 6, 1, 10)});
    policy.budget = {.refreshes = 2, .per_tokens = 100};
    NaiveTrace trace = constant_trace(60, "entropy_bits", 7);
    for (const size_t t : {5U, 6U, 50U})
        trace.manual[t - 1] = true;
    const NaiveRun run = planned_run(policy, trace);
    // 1: the gate. 5, 6: by hand, inside the cool-down. 16: ten after the last by hand. Then the budget is used up.
    CHECK(steps_of(run) == std::vector<int64_t>{1, 5, 6, 16, 50});
    CHECK(run.refreshes[1] == NaiveRun::Event{5, false, true, {}});
    CHECK(run.refreshes[4] == NaiveRun::Event{50, false, true, {"entropy_bits"}}); // held, but blocked
}

TEST_CASE("by hand and by a trigger at one boundary is one automatic refresh", "[refresh]") {
    NaiveTrace trace = constant_trace(40, "entropy_bits", 0);
    trace.values[0][31] = 9;
    trace.manual[31] = true;
    const NaiveRun run = planned_run(preset_policy("entropy"), trace);
    REQUIRE(run.refreshes.size() == 1);
    CHECK(run.refreshes[0] == NaiveRun::Event{32, true, true, {"entropy_bits"}});
}

TEST_CASE("an empty range is no refresh, by hand neither", "[refresh]") {
    std::vector<float> values(signals().size(), 9.0F);
    const Boundary boundary = {.step = 16,
                               .tokens_since_splice = 0,
                               .tokens_since_pass = 0,
                               .last_splice_step = {},
                               .automatic_steps = {},
                               .signals = values,
                               .manual = true};
    for (const Preset& preset : presets()) {
        const Decision decision = decide(preset_policy(preset.name), boundary);
        CHECK(decision.kind == Decision::Kind::none);
        CHECK(decision.hits.empty());
    }
}

TEST_CASE("NaN, infinite and absent values never fire, under any comparison", "[refresh]") {
    const float inf = std::numeric_limits<float>::infinity();
    for (const float value : {std::numeric_limits<float>::quiet_NaN(), inf, -inf, absent()}) {
        for (const Comparison comparison :
             {Comparison::above, Comparison::at_least, Comparison::below, Comparison::at_most}) {
            for (const char* signal : {"entropy_bits", "kl_nats", "mc_variance"}) {
                const NaiveTrace trace = constant_trace(50, signal,
                                                        std::isnan(value) && std::string(signal) == "kl_nats"
                                                            ? std::numeric_limits<float>::quiet_NaN()
                                                            : value);
                CHECK(planned_run(any_of({trigger(signal, comparison, 1)}), trace).refreshes.empty());
            }
        }
    }
}

TEST_CASE("tau of 0 or less fires at every eligible boundary, but entropy 0 never exceeds 0", "[refresh]") {
    const NaiveTrace some = constant_trace(64, "entropy_bits", 0.001F),
                     zero = constant_trace(64, "entropy_bits", 0);
    CHECK(steps_of(planned_run(any_of({trigger("entropy_bits", Comparison::above, 0, 16)}), some)) ==
          std::vector<int64_t>{16, 32, 48, 64});
    CHECK(planned_run(any_of({trigger("entropy_bits", Comparison::above, 0, 16)}), zero).refreshes.empty());
    CHECK(steps_of(planned_run(any_of({trigger("entropy_bits", Comparison::above, -1, 16)}), zero)).size() ==
          4);
    CHECK(planned_run(any_of({trigger("entropy_bits", Comparison::above, 12.01, 1)}),
                      constant_trace(64, "entropy_bits", 12))
              .refreshes.empty()); // tau > log2 V
}

TEST_CASE("a trigger that is switched off does not count, under any nor all", "[refresh]") {
    RefreshPolicy policy =
        any_of({trigger("entropy_bits", Comparison::above, 6), trigger("top1_prob", Comparison::below, 0.5)});
    NaiveTrace trace = constant_trace(5, "entropy_bits", 7);
    trace.names.emplace_back("top1_prob");
    trace.values.emplace_back(5, 0.9F);
    policy.combine = Combine::all;
    CHECK(planned_run(policy, trace).refreshes.empty());
    policy.triggers[1].enabled = false;
    CHECK(planned_run(policy, trace).refreshes.size() == 5);
    policy.triggers[0].enabled = false;
    CHECK(planned_run(policy, trace).refreshes.empty());
    policy.combine = Combine::any;
    CHECK(planned_run(policy, trace).refreshes.empty());
}

TEST_CASE("MC rows are wanted on the strides of triggers that read them", "[refresh]") {
    const RefreshPolicy mc = preset_policy("mc");
    for (int64_t t = 1; t <= 100; ++t) {
        CHECK(wants_mc(mc, t) == (t % 16 == 0));
        CHECK_FALSE(wants_mc(preset_policy("entropy"), t));
    }
    RefreshPolicy two = any_of({trigger("mc_mutual_information_bits", Comparison::above, 1, 3),
                                trigger("mc_variance", Comparison::above, 1, 5)});
    for (int64_t t = 1; t <= 60; ++t)
        CHECK(wants_mc(two, t) == (t % 3 == 0 || t % 5 == 0));
    two.triggers[0].enabled = false;
    CHECK_FALSE(wants_mc(two, 3));
}

TEST_CASE("reasons are words for people, by hand first", "[refresh]") {
    const TriggerHit hand;
    const TriggerHit entropy = {0, "entropy_bits", 7, 6, 'E'}, kl = {1, "kl_nats", 1, 0.5, 'K'};
    CHECK(reason_text({}).empty());
    CHECK(reason_letter({}) == 0);
    CHECK(reason_text(std::vector{hand}) == "manual");
    CHECK(reason_letter(std::vector{hand}) == 'H');
    CHECK(reason_text(std::vector{entropy}) == "entropy");
    CHECK(reason_letter(std::vector{entropy}) == 'E');
    CHECK(reason_text(std::vector{hand, kl, entropy}) == "manual+kl+entropy");
    CHECK(reason_letter(std::vector{kl, entropy}) == '+');
    CHECK(reason_word("steps_since_refresh") == "periodic");
    CHECK(reason_word("mc_variance") == "mc");
    CHECK(reason_word("top1_surprisal_bits") == "top1_surprisal_bits");
}

TEST_CASE("a hit carries value, threshold and the marker's letter", "[refresh]") {
    std::vector<float> values(signals().size(), absent());
    values[*signal_id("entropy_bits")] = 6.5F;
    const Decision decision = decide(preset_policy("entropy"), {.step = 48,
                                                                .tokens_since_splice = 48,
                                                                .tokens_since_pass = 48,
                                                                .last_splice_step = {},
                                                                .automatic_steps = {},
                                                                .signals = values,
                                                                .manual = false});
    REQUIRE(decision.kind == Decision::Kind::refresh);
    REQUIRE(decision.hits.size() == 1);
    CHECK(decision.hits[0].value == 6.5);
    CHECK(decision.hits[0].threshold == 6.0);
    CHECK(decision.hits[0].letter == 'E');
    CHECK(decision.automatic);
}

TEST_CASE("a decision that is neither refresh nor blocked carries no hits", "[refresh]") {
    const uint32_t seed = test::seed(77005);
    INFO("seed " << seed);
    std::mt19937 random(seed);
    int none = 0;
    for (int i = 0; i < 3000; ++i) {
        const RefreshPolicy policy = random_policy(random);
        const NaiveTrace trace = random_trace(random);
        std::vector<float> values(signals().size(), absent());
        const int64_t t = 1 + static_cast<int64_t>(random()) % trace.steps;
        for (const std::string& name : trace.names)
            values[*signal_id(name)] = *trace.at(name, t);
        const Decision decision = decide(policy, {.step = t,
                                                  .tokens_since_splice = t,
                                                  .tokens_since_pass = t,
                                                  .last_splice_step = {},
                                                  .automatic_steps = {},
                                                  .signals = values,
                                                  .manual = false});
        const bool acts = decision.kind == Decision::Kind::refresh || decision.budget_blocked;
        REQUIRE(acts == !decision.hits.empty());
        none += acts ? 0 : 1;
    }
    CHECK(none > 500);
}

} // namespace planner_test
