#include "tests/engine/session/device_runs.h"

#include "engine/session/decode/decode_session.h"
#include "engine/signals/registry.h"
#include "tests/engine/session/tiny_pair.h"

#include <fmt/format.h>

#include <cmath>
#include <optional>

namespace refreshlab::test {

namespace {

bool equal_to_rounding(float a, float b) {
    if (is_absent(a) || is_absent(b)) return is_absent(a) && is_absent(b);
    // fp32 on both sides, sums in another order.
    return std::abs(a - b) <= 2e-3F * (1 + std::abs(b));
}

} // namespace

RunConfig reading(const RefreshPolicy& policy) {
    RunConfig config = tiny_run(60);
    config.given_text =
        "One day the old king went to the river with a fox and a hare, and nobody knew why. The cook said: "
        "let them stay until the winter is over, and the tower by the sea is warm again for all of us.";
    config.policy = policy;
    config.mc.samples = 4;
    config.mc.every = 5;
    config.mc.measure = true;
    return config;
}

std::vector<RefreshPolicy> reading_policies() {
    std::vector<RefreshPolicy> list = {RefreshPolicy{}};
    for (const OnFire on_fire : {OnFire::keep, OnFire::teacher_token, OnFire::redraw}) {
        for (const std::optional<int32_t> window : {std::optional<int32_t>{}, std::optional<int32_t>{3}}) {
            list.push_back(
                policy_of({trigger("steps_since_refresh", Comparison::at_least, 9)}, window, on_fire));
            list.push_back(policy_of({trigger("entropy_bits", Comparison::above, 0, 4, 6)}, window, on_fire));
            list.push_back(policy_of({trigger("kl_nats", Comparison::above, 0, 7, 20)}, window, on_fire));
            list.push_back(policy_of({trigger("mc_variance", Comparison::above, 0, 5, 10)}, window, on_fire));
        }
    }
    list.push_back(policy_of({trigger("kl_mean_nats", Comparison::above, 0, 8)}, {}, OnFire::redraw));
    list.back().lag = 3;
    return list;
}

std::shared_ptr<Recording> whole_run(const std::shared_ptr<const ModelPair>& pair, const RunConfig& config) {
    DecodeSession session(pair, config);
    while (session.step()) {
    }
    session.score();
    return session.recording();
}

std::string difference(const Recording& a, const Recording& b) {
    if (a.token_ids() != b.token_ids()) return "token ids";
    if (a.steps() != b.steps()) return "steps";
    for (int64_t t = 1; t <= a.steps(); ++t) {
        for (size_t id = 0; id < signals().size(); ++id) {
            // A rank counts those that are larger, and of neighbours that are equal to rounding either may be.
            const bool close =
                signals()[id].name == "teacher_rank" && std::abs(a.signal(t, id) - b.signal(t, id)) <= 1;
            if (!close && !equal_to_rounding(a.signal(t, id), b.signal(t, id)))
                return fmt::format("step {}, {}: {} and {}", t, signals()[id].name, a.signal(t, id),
                                   b.signal(t, id));
        }
    }
    if (a.passes().size() != b.passes().size()) return "number of teacher passes";
    if (a.refreshes().size() != b.refreshes().size()) return "number of refreshes";
    for (size_t i = 0; i < a.refreshes().size(); ++i) {
        const RefreshEvent &x = a.refreshes()[i], &y = b.refreshes()[i];
        if (x.step != y.step || x.delta != y.delta || x.spliced != y.spliced ||
            x.pass_tokens != y.pass_tokens)
            return fmt::format("refresh {}", i + 1);
        if (!equal_to_rounding(x.kl_nats, y.kl_nats) || !equal_to_rounding(x.mean_drift, y.mean_drift))
            return fmt::format("KL or drift of refresh {}", i + 1);
    }
    if (a.drifts().size() != b.drifts().size()) return "number of drift maps";
    for (size_t i = 0; i < a.drifts().size(); ++i) {
        for (size_t cell = 0; cell < a.drifts()[i]->k.size(); ++cell) {
            if (!equal_to_rounding(a.drifts()[i]->k[cell], b.drifts()[i]->k[cell]) ||
                !equal_to_rounding(a.drifts()[i]->v[cell], b.drifts()[i]->v[cell]))
                return fmt::format("drift map {}", i + 1);
        }
    }
    return {};
}

} // namespace refreshlab::test
