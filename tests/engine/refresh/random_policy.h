#pragma once

#include "engine/refresh/policy.h"
#include "engine/signals/registry.h"
#include "tests/engine/refresh/naive_planner.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <limits>
#include <random>
#include <string>

namespace refreshlab::testing {

/// Signals that random traces are made of (steps_since_refresh and kl_mean_nats follow from the run).
inline const std::vector<std::string> random_signals = {"entropy_bits", "kl_nats", "mc_variance",
                                                        "top1_prob"};

/// Small thresholds, strides and cool-downs, so that short traces reach every rule.
inline RefreshPolicy random_policy(std::mt19937& random) {
    const auto up_to = [&](uint32_t n) { return static_cast<int32_t>(random() % (n + 1)); };
    RefreshPolicy policy;
    policy.name = "random";
    policy.combine = random() % 3 == 0 ? Combine::all : Combine::any;
    std::vector<std::string> names = random_signals;
    for (const char* of_the_run : {"steps_since_refresh", "kl_mean_nats"})
        names.emplace_back(of_the_run);
    std::shuffle(names.begin(), names.end(), random);
    const int32_t count = up_to(3);
    for (int32_t i = 0; i < count; ++i) {
        Trigger trigger;
        trigger.signal = names[static_cast<size_t>(i)];
        trigger.comparison = static_cast<Comparison>(up_to(3));
        trigger.threshold = static_cast<double>(up_to(24)) / 2 - 1;
        trigger.every = 1 + up_to(random() % 2 == 0 ? 2 : 11);
        trigger.cooldown = random() % 2 == 0 ? 0 : up_to(20);
        trigger.enabled = random() % 8 != 0;
        policy.triggers.push_back(trigger);
    }
    if (random() % 3 == 0) policy.window = up_to(10);
    if (random() % 3 == 0) policy.scope.layers = {{up_to(2), 3}, {5, 5 + up_to(9)}};
    if (random() % 3 == 0)
        policy.scope.kv_heads = {{{}, {0, up_to(1)}}, {IndexRange{2, 2 + up_to(3)}, {2, 3}}};
    if (random() % 3 == 0) policy.scope.parts = static_cast<ScopeParts>(up_to(2));
    if (random() % 3 == 0) policy.scope.positions = static_cast<ScopePositions>(up_to(4));
    if (random() % 3 == 0) policy.scope.count = up_to(40);
    if (random() % 4 == 0) policy.lag = 1 + up_to(8);
    policy.on_fire = static_cast<OnFire>(up_to(policy.lag > 0 ? 2 : 3)); // verify takes no lag
    if (random() % 2 == 0)
        policy.verify = {.rule = static_cast<VerifyRule>(up_to(3)),
                         .share = static_cast<double>(up_to(10)) / 10,
                         .rank = 1 + up_to(9),
                         .splice = random() % 2 == 0};
    for (int64_t step = 0; random() % 3 == 0 && step < 100;)
        policy.at.push_back(step += 1 + up_to(40));
    if (random() % 2 == 0) policy.budget = {.refreshes = up_to(4), .per_tokens = 1 + up_to(60)};
    return policy;
}

/// Values that meet thresholds exactly now and then, with a few NaN, infinite and absent ones; some steps by hand.
inline NaiveTrace random_trace(std::mt19937& random) {
    NaiveTrace trace;
    trace.steps = 40 + static_cast<int64_t>(random() % 80);
    trace.names = random_signals;
    for (const std::string& name : trace.names) {
        std::vector<float> values;
        for (int64_t t = 1; t <= trace.steps; ++t) {
            float value = static_cast<float>(random() % 48) / 4.0F - 1.0F;
            switch (random() % 40) {
            case 0:
                value = std::numeric_limits<float>::quiet_NaN();
                break;
            case 1:
                value = std::numeric_limits<float>::infinity();
                break;
            case 2:
                value = -std::numeric_limits<float>::infinity();
                break;
            case 3:
                // A probe always measures: its KL may be NaN, never absent.
                if (name != "kl_nats") value = absent();
                break;
            default:
                break;
            }
            values.push_back(value);
        }
        trace.values.push_back(std::move(values));
    }
    for (int64_t t = 1; t <= trace.steps; ++t)
        trace.manual.push_back(random() % 30 == 0);
    return trace;
}

inline std::string describe(const RefreshPolicy& policy) {
    return policy_to_json(policy).dump();
}

} // namespace refreshlab::testing
