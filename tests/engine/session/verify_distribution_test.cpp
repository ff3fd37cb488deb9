// With rule exact the tokens have the teacher's distribution: counted over all continuations of three tokens of a model with six.
#include "engine/model/sampler.h"
#include "engine/session/decode/decode_session.h"
#include "engine/session/pair/run_text.h"
#include "tests/engine/session/tiny_pair.h"
#include "tests/support/forward.h"
#include "tests/support/seed.h"
#include "tests/support/share.h"

#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>

#include <array>
#include <cmath>
#include <string>
#include <vector>

namespace verify_distribution_test {

using namespace refreshlab;
using namespace refreshlab::test;

namespace {

constexpr int64_t vocab = 6;
constexpr TinyShape shape{.end_id = 4095, .vocab = vocab};
constexpr size_t continuations = vocab * vocab * vocab; ///< of y_2, y_3, y_4
const std::vector<int32_t> prompt_ids = {2, 4, 1, 5};

const std::shared_ptr<const ModelPair>& pair_of_two() {
    static const auto pair = tiny_pair(11, 12, shape, shape);
    return pair;
}

size_t cell_of(int32_t y2, int32_t y3, int32_t y4) {
    return static_cast<size_t>((y2 * vocab + y3) * vocab + y4);
}

/// The probability of each continuation of `y1`, by the teacher's rows of the texts themselves.
std::vector<double> teachers_probabilities(int32_t y1, const SamplerConfig& sampler) {
    const LlamaModel& teacher = *pair_of_two()->teacher;
    const auto after = [&](std::vector<int32_t> text) {
        text.insert(text.begin(), prompt_ids.begin(), prompt_ids.end());
        const auto cache = teacher.make_cache(64);
        return token_probabilities(extend(teacher, *cache, text, Rows::last, Origin::teacher_prefill)[0],
                                   sampler);
    };
    std::vector<double> p(continuations);
    const auto p2 = after({y1});
    for (int32_t y2 = 0; y2 < vocab; ++y2) {
        const auto p3 = after({y1, y2});
        for (int32_t y3 = 0; y3 < vocab; ++y3) {
            const auto p4 = after({y1, y2, y3});
            for (int32_t y4 = 0; y4 < vocab; ++y4)
                p[cell_of(y2, y3, y4)] =
                    p2[static_cast<size_t>(y2)] * p3[static_cast<size_t>(y3)] * p4[static_cast<size_t>(y4)];
        }
    }
    return p;
}

struct Counted {
    int32_t y1 = -1;
    std::vector<int> counts = std::vector<int>(continuations, 0);
    int64_t cut = 0, stayed = 0; ///< drafts; tokens

    void note(const DraftEvent& draft) {
        cut += draft.instead >= 0 ? 1 : 0;
        stayed += draft.accepted();
    }
};

/// The same run from its first token on, with other random numbers each time.
Counted count(const RefreshPolicy& policy, const SamplerConfig& sampler, int draws, uint32_t salt) {
    RunConfig config = tiny_run(12);
    config.policy = policy;
    config.sampler = sampler;
    config.capture.attention = false;
    config.mc.samples = 2;
    const RunText text{{"", prompt_ids, 0}, {}};
    DecodeSession session(pair_of_two(), config, {}, &text);
    Counted counted;
    counted.y1 = session.recording()->token(1);
    for (int i = 0; i < draws; ++i) {
        session.rewind(0);
        session.apply(
            command::SetParameter{"seed", std::to_string(uint64_t{seed(salt)} + static_cast<uint64_t>(i))});
        for (int step = 0; step < 3; ++step)
            session.step();
        const Recording& r = *session.recording();
        ++counted.counts[cell_of(r.token(2), r.token(3), r.token(4))];
        for (size_t d = 0; d < r.drafts().size(); ++d)
            counted.note(r.drafts()[d]);
    }
    return counted;
}

/// Chi-square over its degrees of freedom, 1 on average; rare continuations count as one.
struct Fit {
    double value = 0;
    int cells = 0;
    /// Standard deviations from what it should be.
    [[nodiscard]] double off() const { return (value - 1) / std::sqrt(2.0 / (cells - 1)); }
};
Fit fit(const std::vector<int>& counts, const std::vector<double>& p, int draws) {
    double sum = 0, rare_wanted = 0, rare = 0;
    Fit result;
    const auto add = [&](double seen, double wanted) {
        sum += (seen - wanted) * (seen - wanted) / wanted;
        ++result.cells;
    };
    for (size_t i = 0; i < p.size(); ++i) {
        if (p[i] <= 0) REQUIRE(counts[i] == 0);
        if (p[i] * draws >= 5) {
            add(counts[i], p[i] * draws);
        } else {
            rare += counts[i];
            rare_wanted += p[i] * draws;
        }
    }
    if (rare_wanted > 1) add(rare, rare_wanted);
    result.value = sum / (result.cells - 1);
    return result;
}

std::vector<RefreshPolicy> verifying_policies() {
    std::vector<RefreshPolicy> policies;
    for (const int32_t g : {1, 2, 3})
        policies.push_back(
            policy_of({trigger("steps_since_refresh", Comparison::at_least, g)}, {}, OnFire::verify));
    // The presets, with thresholds for a vocabulary of six: log2 6 = 2.6 bits.
    for (const char* name : {"speculative", "entropy_stop", "confidence_stop", "verify_when_unsure"}) {
        policies.push_back(preset_policy(name));
        for (Trigger& trigger : policies.back().triggers) {
            if (trigger.signal == "entropy_bits") trigger.threshold = 1.7;
            if (std::string(name) == "verify_when_unsure") trigger.every = trigger.cooldown = 2;
        }
    }
    policies.push_back(policies[3]);
    policies.back().verify.splice = false;
    policies.push_back(
        policy_of({trigger("kl_nats", Comparison::above, 0.3, 2)}, {}, OnFire::verify)); // probes judge too
    return policies;
}

const std::vector<SamplerConfig>& samplers() {
    static const std::vector<SamplerConfig> all = {{.temperature = 1},
                                                   {.temperature = 0.6},
                                                   {.temperature = 1.5, .top_k = 4},
                                                   {.temperature = 1, .top_p = 0.85},
                                                   {.temperature = 0.9, .min_p = 0.1}};
    return all;
}

} // namespace

TEST_CASE("with rule exact all continuations have the teacher's probabilities, for every preset",
          "[verify]") {
    constexpr int draws = 2000;
    uint32_t salt = 600;
    Share share("policies and samplers of which all continuations are counted");
    for (const SamplerConfig& sampler : samplers())
        for (const RefreshPolicy& policy : verifying_policies()) {
            ++salt;
            if (!share.takes()) continue;
            CAPTURE(sampler.temperature, sampler.top_k, sampler.top_p, sampler.min_p,
                    policy_to_json(policy).dump());
            const Counted counted = count(policy, sampler, draws, salt);
            const Fit found = fit(counted.counts, teachers_probabilities(counted.y1, sampler), draws);
            CAPTURE(found.value, found.cells);
            CHECK(found.off() < 5.5);
            CHECK(counted.cut > 100);    // tokens were replaced,
            CHECK(counted.stayed > 100); // and others stayed
        }
}

TEST_CASE("without verification the continuations have another distribution", "[verify]") {
    // So the test above would say so.
    constexpr int draws = 3000;
    const SamplerConfig sampler{.temperature = 1};
    RefreshPolicy keeps = policy_of({trigger("steps_since_refresh", Comparison::at_least, 2)});
    const Counted kept = count(keeps, sampler, draws, 700);
    CHECK(fit(kept.counts, teachers_probabilities(kept.y1, sampler), draws).off() > 20);
    for (const VerifyRule rule : {VerifyRule::greedy, VerifyRule::near_best, VerifyRule::top_k}) {
        RefreshPolicy lenient = verifying_policies()[1];
        lenient.verify.rule = rule;
        const Counted counted = count(lenient, sampler, draws, 701);
        CHECK(fit(counted.counts, teachers_probabilities(counted.y1, sampler), draws).off() > 20);
    }
}

} // namespace verify_distribution_test
