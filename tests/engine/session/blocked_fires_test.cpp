// What a budget and a cool-down keep a policy from, read off real runs.
#include "engine/base/json_file.h"
#include "engine/record/export/blocked_fires.h"
#include "engine/record/export/export.h"
#include "engine/session/decode/decode_session.h"
#include "engine/session/decode/steering.h"
#include "tests/engine/session/tiny_pair.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace blocked_fires_test {

using namespace refreshlab;
using namespace refreshlab::test;
using Catch::Matchers::ContainsSubstring;

namespace {

std::shared_ptr<Recording> whole_run(const RunConfig& config) {
    DecodeSession session(tiny_pair(80, 81), config);
    while (session.step()) {
    }
    return session.recording();
}

/// The median of a signal's values: a threshold that about every second step passes.
double median(const Recording& r, const std::string& signal) {
    std::vector<float> values;
    for (int64_t t = 1; t <= r.steps(); ++t) {
        const float value = r.signal(t, *r.signal_id(signal));
        if (!is_absent(value)) values.push_back(value);
    }
    REQUIRE(values.size() > 5);
    std::ranges::sort(values);
    return static_cast<double>(values[values.size() / 2]);
}

struct Expected {
    int64_t step;
    bool budget, cooldown;
};

std::string text_of(const std::vector<Expected>& blocks) {
    std::string text;
    for (const Expected& e : blocks)
        text += std::to_string(e.step) + (e.budget ? " budget" : "") + (e.cooldown ? " cooldown; " : "; ");
    return text;
}

/// The rules of docs/reference/refresh-policies.md for one trigger, by hand: on stride, beyond the threshold, and no refresh there.
std::vector<Expected> expected_blocks(const Recording& r, const std::set<int64_t>& looked_at) {
    const RefreshPolicy& policy = r.info().config.policy;
    const Trigger& trigger = policy.triggers.at(0);
    std::vector<Expected> expected;
    for (const int64_t t : looked_at) {
        const double value = static_cast<double>(r.signal(t, *r.signal_id(trigger.signal)));
        if (!(value > trigger.threshold)) continue;
        bool fired = false, flying = false, cooling = false;
        int32_t fires = 0;
        for (size_t i = 0; i < r.refreshes().size(); ++i) {
            const RefreshEvent& e = r.refreshes()[i];
            fired |= e.fired_step == t;
            flying |= e.fired_step < t && t < e.step;
            cooling |= e.fired_step < t && e.step <= t && t - e.step < trigger.cooldown;
            fires += e.fired_step < t && e.fired_step > t - policy.budget.per_tokens ? 1 : 0;
        }
        const bool spent = policy.budget.refreshes && fires >= *policy.budget.refreshes;
        if (fired || flying) continue;
        REQUIRE((spent || cooling)); // nothing else may stand in the way
        expected.push_back({t, spent, cooling});
    }
    return expected;
}

std::vector<Expected> found_blocks(const Recording& r) {
    std::vector<Expected> found;
    for (const BlockedFire& fire : blocked_fires(r)) {
        CHECK(fire.hits.size() == 1);
        found.push_back({fire.step, fire.budget, fire.cooldown});
    }
    return found;
}

} // namespace

TEST_CASE("fires that a budget or a cool-down blocked are known afterwards", "[session]") {
    const int32_t lag = GENERATE(0, 3);
    RunConfig config = tiny_run(80);
    const double typical = median(*whole_run(config), "entropy_bits");
    config.policy = policy_of({trigger("entropy_bits", Comparison::above, typical, 2, 6)});
    config.policy.budget = {2, 30};
    config.policy.lag = lag;
    const auto r = whole_run(config);
    std::set<int64_t> strides;
    for (int64_t t = 2; t + 1 < r->steps();
         t += 2) // the last record is not fed, the one before it makes the last choice
        strides.insert(t);
    const auto expected = expected_blocks(*r, strides);
    CHECK(text_of(found_blocks(*r)) == text_of(expected));
    const auto count = [&](bool budget, bool cooldown) {
        return std::ranges::count_if(
            expected, [&](const Expected& e) { return e.budget == budget && e.cooldown == cooldown; });
    };
    CHECK(count(true, false) > 0);
    CHECK(count(false, true) > 0);

    config.policy.budget = {};
    config.policy.triggers[0].cooldown = 0;
    CHECK(blocked_fires(*whole_run(config)).empty());
}

TEST_CASE("blocked fires of a KL gate stand where its probes were made", "[session]") {
    const bool shadow = GENERATE(false, true);
    RunConfig config = tiny_run(80);
    config.policy = policy_of({trigger("kl_nats", Comparison::above, 1e9, 3)});
    const double typical = median(*whole_run(config), "kl_nats");
    config.shadow = shadow;
    config.policy = policy_of({trigger("kl_nats", Comparison::above, typical, 3, 10)});
    config.policy.budget = {1, 40};
    const auto r = whole_run(config);
    // A pass so many tokens after the last one; refreshes are made at probes, so probes come every third step.
    std::set<int64_t> probes;
    for (int64_t t = 3; t + 1 < r->steps(); t += 3)
        probes.insert(t);
    const auto expected = expected_blocks(*r, probes);
    CHECK_FALSE(expected.empty());
    CHECK(text_of(found_blocks(*r)) == text_of(expected));
}

TEST_CASE("blocked fires follow the policy of their step and are exported", "[session]") {
    RunConfig config = tiny_run(60);
    const double typical = median(*whole_run(config), "entropy_bits");
    config.policy = policy_of({trigger("entropy_bits", Comparison::above, typical)});
    config.policy.budget = {0, 1000};
    DecodeSession session(tiny_pair(80, 81), config);
    for (int i = 0; i < 30; ++i)
        session.step();
    apply_command(session, command::SetParameter{"entropy.enabled", "false"});
    while (session.step()) {
    }
    const Recording& r = *session.recording();
    const auto fires = blocked_fires(r);
    REQUIRE_FALSE(fires.empty());
    CHECK(fires.back().step <= 30);
    CHECK(std::ranges::all_of(fires, [](const BlockedFire& f) { return f.budget && !f.cooldown; }));

    const std::filesystem::path folder =
        std::filesystem::path(RL_BUILD_DIR) / ("blocked-" + std::to_string(getpid()));
    export_csv(r, folder);
    const std::string table = read_file(folder / "blocked.csv");
    CHECK_THAT(table, Catch::Matchers::StartsWith("step,limit,reason,detail\r\n" +
                                                  std::to_string(fires[0].step) + ",budget,entropy,\"[{"));
    CHECK(std::ranges::count(table, '\n') == std::ssize(fires) + 1);
    config.policy = {};
    export_csv(*whole_run(config), folder); // an earlier export's table goes
    CHECK_FALSE(std::filesystem::exists(folder / "blocked.csv"));
    std::filesystem::remove_all(folder);
}

TEST_CASE("blocked fires of a run that goes on are known a step later, and never taken back", "[session]") {
    const int32_t lag = GENERATE(0, 4);
    RunConfig config = tiny_run(70);
    const double typical = median(*whole_run(config), "entropy_bits");
    config.policy = policy_of({trigger("entropy_bits", Comparison::above, typical, 2, 7)});
    config.policy.budget = {2, 25};
    config.policy.lag = lag;
    DecodeSession session(tiny_pair(80, 81), config);
    const auto recording = session.recording();
    BlockedFires live;
    std::vector<int64_t> before;
    const auto steps_of = [](std::span<const BlockedFire> fires) {
        std::vector<int64_t> steps;
        for (const BlockedFire& fire : fires)
            steps.push_back(fire.step);
        return steps;
    };
    bool more = true;
    while (more) {
        more = session.step();
        live.update(*recording);
        const auto now = steps_of(live.all());
        REQUIRE(now.size() >= before.size());
        REQUIRE(std::equal(before.begin(), before.end(), now.begin()));
        before = now;
        // Where no refresh is under way, everything but the newest boundary has been judged.
        const auto due = steps_of(blocked_fires(*recording));
        REQUIRE(now == due);
    }
    const auto whole = steps_of(blocked_fires(*recording));
    CHECK(before == whole);
    CHECK(whole.size() > 3);

    const auto other = whole_run(tiny_run(20)); // another recording begins anew
    live.update(*other);
    CHECK(live.all().empty());
}

} // namespace blocked_fires_test
