#include "engine/base/error.h"
#include "engine/refresh/planner.h"
#include "engine/refresh/policy.h"
#include "tests/engine/refresh/random_policy.h"
#include "tests/support/seed.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <limits>
#include <span>
#include <vector>

namespace policy_test {

using namespace refreshlab;
using namespace refreshlab::testing;
using Catch::Matchers::ContainsSubstring;
using nlohmann::json;

namespace {

/// The one line of the error that reading `text` gives; "" when it is accepted.
std::string error_of(const json& value, Thresholds thresholds = Thresholds::not_negative) {
    try {
        static_cast<void>(policy_from_json(value, "gate.json", thresholds));
    } catch (const Error& error) {
        CHECK(error.kind() == ErrorKind::bad_input);
        const std::string text = error.what();
        CHECK_THAT(text, ContainsSubstring("gate.json"));
        CHECK(text.find('\n') == std::string::npos);
        return text;
    }
    return {};
}

std::string error_of_text(const char* text) {
    return error_of(json::parse(text));
}

std::string check_error(const RefreshPolicy& policy) {
    try {
        check_policy(policy, "this test");
    } catch (const Error& error) {
        return error.what();
    }
    return {};
}

} // namespace

TEST_CASE("the presets have the defaults of the reference", "[refresh]") {
    constexpr std::string_view judging[] = {"speculative", "entropy_stop", "confidence_stop",
                                            "verify_when_unsure"};
    std::vector<std::string> names;
    for (const Preset& preset : presets()) {
        names.emplace_back(preset.name);
        CHECK_FALSE(preset.label.empty());
        CHECK_FALSE(preset.description.empty());
        const RefreshPolicy policy = preset_policy(preset.name);
        CHECK(policy.name == preset.name);
        CHECK(check_error(policy).empty());
        const bool judges = std::ranges::find(judging, preset.name) != std::end(judging);
        CHECK(policy.on_fire == (judges ? OnFire::verify : OnFire::keep));
        CHECK_FALSE(policy.budget.refreshes);
    }
    CHECK(names == std::vector<std::string>{"none", "periodic", "window", "entropy", "kl", "burst", "mc",
                                            "speculative", "entropy_stop", "confidence_stop",
                                            "verify_when_unsure"});

    CHECK(preset_policy("none") == RefreshPolicy{});
    CHECK(preset_policy("periodic").triggers ==
          std::vector<Trigger>{{"steps_since_refresh", Comparison::at_least, 64, 1, 0, true}});
    CHECK(preset_policy("window").triggers == preset_policy("periodic").triggers);
    CHECK(preset_policy("window").window == 32);
    CHECK(preset_policy("entropy").triggers ==
          std::vector<Trigger>{{"entropy_bits", Comparison::above, 6, 16, 32, true}});
    CHECK(preset_policy("kl").triggers ==
          std::vector<Trigger>{{"kl_nats", Comparison::above, 0.5, 64, 32, true}});
    CHECK(preset_policy("burst").triggers ==
          std::vector<Trigger>{{"steps_since_refresh", Comparison::at_least, 8, 1, 0, true}});
    CHECK(preset_policy("burst").window == 8);
    CHECK(preset_policy("mc").triggers.at(0).signal == "mc_variance");
    CHECK(preset_policy("mc").triggers.at(0).every == 16);
    CHECK(preset_policy("mc").triggers.at(0).cooldown == 32);
}

TEST_CASE("an unknown preset is refused with the list", "[refresh]") {
    try {
        static_cast<void>(preset_policy("entropyy"));
        FAIL("accepted");
    } catch (const Error& error) {
        CHECK(error.kind() == ErrorKind::bad_input);
        CHECK_THAT(error.what(), ContainsSubstring("\"entropyy\""));
        CHECK_THAT(error.what(), ContainsSubstring("none, periodic, window, entropy, kl, burst, mc"));
    }
}

TEST_CASE("an edited preset says so, a policy of another name does not", "[refresh]") {
    for (const Preset& preset : presets()) {
        RefreshPolicy policy = preset_policy(preset.name);
        CHECK_FALSE(is_modified_preset(policy));
        policy.budget.per_tokens = 999;
        CHECK(is_modified_preset(policy));
        policy.name = "my own";
        CHECK_FALSE(is_modified_preset(policy));
    }
}

TEST_CASE("policies survive JSON text exactly", "[refresh]") {
    const uint32_t seed = test::seed(51);
    INFO("seed " << seed);
    std::mt19937 random(seed);
    std::vector<RefreshPolicy> policies;
    for (const Preset& preset : presets())
        policies.push_back(preset_policy(preset.name));
    for (int i = 0; i < 500; ++i) {
        policies.push_back(random_policy(random));
        // Thresholds with all their digits.
        for (Trigger& trigger : policies.back().triggers)
            trigger.threshold += std::ldexp(random(), -40);
    }
    for (const RefreshPolicy& policy : policies) {
        const std::string text = policy_to_json(policy).dump();
        INFO(text);
        CHECK(policy_from_json(json::parse(text), "itself", Thresholds::any_finite) == policy);
    }
}

TEST_CASE("the form of the design page is read, and absent keys are the defaults", "[refresh]") {
    const RefreshPolicy policy = policy_from_json(json::parse(R"({"name": "entropy gate",
        "budget": {"refreshes": 3, "per_tokens": 1000},
        "when": {"any": [{"signal": "entropy_bits", "above": 6.0, "every": 1, "cooldown": 32}]},
        "do": {"refresh": {"window": null}}})"),
                                                  "gate.json");
    CHECK(policy.name == "entropy gate");
    CHECK(policy.budget == Budget{3, 1000});
    CHECK(policy.triggers == std::vector<Trigger>{{"entropy_bits", Comparison::above, 6, 1, 32, true}});
    CHECK_FALSE(policy.window);
    CHECK(policy.on_fire == OnFire::keep);

    RefreshPolicy empty;
    empty.name = "custom";
    CHECK(policy_from_json(json::object(), "gate.json") == empty);

    const RefreshPolicy all = policy_from_json(
        json::parse(R"({"when": {"all": [{"signal": "top1_prob", "at_most": 0.25, "enabled": false}]},
                        "do": {"refresh": {"window": 5}}, "on_fire": "redraw", "budget": {"refreshes": null}})"),
        "gate.json");
    CHECK(all.combine == Combine::all);
    CHECK(all.triggers == std::vector<Trigger>{{"top1_prob", Comparison::at_most, 0.25, 1, 0, false}});
    CHECK(all.window == 5);
    CHECK(all.on_fire == OnFire::redraw);
}

TEST_CASE("a schedule is a policy by itself, or stands beside triggers", "[refresh]") {
    const RefreshPolicy alone =
        policy_from_json(nlohmann::json::parse(R"({"at": [12, 40, 64]})"), "best.json");
    CHECK(alone.at == std::vector<int64_t>{12, 40, 64});
    CHECK(alone.triggers.empty());
    CHECK(policy_from_json(policy_to_json(alone), "again") == alone);
    CHECK_FALSE(policy_to_json(preset_policy("entropy")).contains("at"));
    const auto refused = [](const char* text) -> std::string {
        try {
            static_cast<void>(policy_from_json(nlohmann::json::parse(text), "best.json"));
        } catch (const Error& e) {
            return e.what();
        }
        return "accepted";
    };
    CHECK(refused(R"({"at": 12})").find("best.json: at: must be a list of at most 100000 steps") !=
          std::string::npos);
    CHECK(refused(R"({"at": [0]})").find("whole numbers from 1 to 1000000, not 0") != std::string::npos);
    CHECK(refused(R"({"at": [1.5]})").find("whole numbers from 1 to 1000000, not 1.5") != std::string::npos);
    CHECK(refused(R"({"at": ["3"]})").find("whole numbers") != std::string::npos);
    CHECK(refused(R"({"at": [5, 5]})").find("does not ascend: 5 stands after 5") != std::string::npos);
}

TEST_CASE("a policy may bring a weighted sum along as a signal", "[refresh]") {
    const char* text =
        R"({"signals": [{"name": "gate", "offset": -1.5, "weights": {"entropy_bits": 0.5, "steps_since_refresh": -0.25}}],
                           "when": {"any": [{"signal": "gate", "above": -0.5, "cooldown": 4}]}})";
    const RefreshPolicy policy = policy_from_json(nlohmann::json::parse(text), "gate.json");
    REQUIRE(policy.signals.size() == 1);
    CHECK(policy.triggers.at(0).published);
    CHECK(policy_from_json(policy_to_json(policy), "again") == policy);
    const auto value = [](std::string_view name, int64_t) { return name == "entropy_bits" ? 4.0F : 8.0F; };
    CHECK(own_value(policy.signals[0], 1, value) == -1.5F);
    CHECK(is_absent(own_value(policy.signals[0], 1, [](std::string_view, int64_t) { return absent(); })));

    // What stands in where nothing is known.
    OwnSignal standing = policy.signals[0];
    standing.terms[0].absent_as = 3; // entropy_bits
    CHECK(own_value(standing, 1, [](std::string_view name, int64_t) {
              return name == "entropy_bits" ? absent() : 8.0F;
          }) == -2.0F); // -1.5 + 0.5 * 3 - 0.25 * 8
    CHECK(own_value(standing, 1, value) == -1.5F);
    const auto stored = own_signals_from_json(own_signals_to_json(std::span(&standing, 1)), "again");
    CHECK(stored == std::vector{standing});

    Boundary boundary;
    const std::vector<PublishedSignal> published{published_form(policy.signals[0], 0)};
    const std::vector<Signal> table = signal_table(published);
    std::vector<float> values(table.size(), absent());
    values[published_id(0)] = -0.4F;
    boundary.step = boundary.tokens_since_splice = boundary.tokens_since_pass = 9;
    boundary.signals = values;
    boundary.table = table;
    const Decision decision = decide(policy, boundary);
    CHECK(decision.kind == Decision::Kind::refresh);
    CHECK(reason_text(decision.hits) == "gate");
    values[published_id(0)] = -0.5F;
    CHECK(decide(policy, boundary).kind == Decision::Kind::none);
    RefreshPolicy attentive = policy;
    CHECK_FALSE(wants_attention(attentive, 1));
    attentive.signals[0].terms.push_back({"attention_entropy_bits", 1, {}});
    CHECK(wants_attention(attentive, 1));

    const auto refused = [&](const std::string& from, const std::string& to) -> std::string {
        std::string changed = text;
        changed.replace(changed.find(from), from.size(), to);
        try {
            static_cast<void>(policy_from_json(nlohmann::json::parse(changed), "gate.json"));
        } catch (const Error& e) {
            return e.what();
        }
        return "accepted";
    };
    CHECK(refused("\"entropy_bits\"", "\"entropy_bit\"").find("entropy_bits") != std::string::npos);
    CHECK(refused("\"entropy_bits\"", "\"kl_nats\"").find("known only after a teacher pass") !=
          std::string::npos);
    CHECK(refused("\"entropy_bits\"", "\"logprob\"").find("describes a token") != std::string::npos);
    CHECK(refused("0.5", "\"x\"").find("the weight of entropy_bits is neither a number nor") !=
          std::string::npos);
    CHECK(refused("0.5", R"({"weight": "x"})").find("weight of entropy_bits is no number") !=
          std::string::npos);
    CHECK(refused("0.5", R"({"absent_as": 1})").find("the term entropy_bits has no weight") !=
          std::string::npos);
    CHECK(refused("0.5", R"({"weight": 1, "else": 2})").find("unknown field \"else\"") != std::string::npos);
    CHECK(refused("0.5", R"({"weight": 1, "absent_as": 1e12})").find("absent_as of entropy_bits") !=
          std::string::npos);
    OwnSignal named = policy.signals[0];
    named.name = "kl_nats";
    CHECK_THROWS_AS(check_own_signals(std::span(&named, 1), "gate.json"), Error);
    named.name = "Gate";
    CHECK_THROWS_AS(check_own_signals(std::span(&named, 1), "gate.json"), Error);
    CHECK_THROWS_AS(check_own_signals(std::vector{policy.signals[0], policy.signals[0]}, "gate.json"), Error);
    CHECK(refused("\"weights\"", "\"weight\"").find("weights") != std::string::npos);
}

TEST_CASE("misspelt keys are named with the nearest and with their place", "[refresh]") {
    CHECK_THAT(error_of_text(R"({"whn": {"any": []}})"),
               ContainsSubstring("whn: unknown key; did you mean when?"));
    CHECK_THAT(error_of_text(R"({"when": {"some": []}})"), ContainsSubstring("when.some: unknown key"));
    CHECK_THAT(error_of_text(R"({"when": {"any": [{"signal": "entropy_bits", "abov": 6}]}})"),
               ContainsSubstring("when.any[0].abov: unknown key; did you mean above?"));
    CHECK_THAT(
        error_of_text(
            R"({"when": {"all": [{"signal": "kl_nats", "above": 1}, {"signal": "top1_prob", "below": 1, "evry": 2}]}})"),
        ContainsSubstring("when.all[1].evry: unknown key; did you mean every?"));
    CHECK_THAT(error_of_text(R"({"do": {"refresh": {"windw": 3}}})"),
               ContainsSubstring("do.refresh.windw: unknown key; did you mean window?"));
    CHECK_THAT(error_of_text(R"({"budget": {"refresh": 3}})"),
               ContainsSubstring("budget.refresh: unknown key"));
    CHECK_THAT(error_of_text(R"({"zzzz": 1})"),
               ContainsSubstring("known keys: name, when, do, budget, on_fire"));
    const std::string of_trigger =
        error_of_text(R"({"when": {"any": [{"signal": "entropy_bits", "above": 6, "zzzzzz": 1}]}})");
    const size_t layer = of_trigger.find("layer");
    CHECK(layer != std::string::npos);
    CHECK(of_trigger.find("layer", layer + 1) == std::string::npos); // each key once
}

TEST_CASE("unknown signals and signals that cannot trigger are refused", "[refresh]") {
    const std::string unknown =
        error_of_text(R"({"when": {"any": [{"signal": "entrpy_bits", "above": 6}]}})");
    CHECK_THAT(unknown, ContainsSubstring("when.any[0].signal"));
    CHECK_THAT(unknown, ContainsSubstring("unknown signal \"entrpy_bits\"; did you mean entropy_bits"));
    CHECK_THAT(error_of_text(R"({"when": {"any": [{"signal": "drift", "above": 6}]}})"),
               ContainsSubstring("signal drift cannot trigger"));
    CHECK_THAT(error_of_text(R"({"when": {"any": [{"above": 6}]}})"),
               ContainsSubstring("when.any[0].signal: missing"));
    CHECK_THAT(
        error_of_text(
            R"({"when": {"any": [{"signal": "kl_nats", "above": 1}, {"signal": "kl_nats", "below": 3}]}})"),
        ContainsSubstring("two triggers on signal kl_nats"));
}

TEST_CASE("a trigger has exactly one comparison, a condition exactly one of any and all", "[refresh]") {
    CHECK_THAT(
        error_of_text(R"({"when": {"any": [{"signal": "entropy_bits"}]}})"),
        ContainsSubstring("when.any[0]: needs exactly one of above, at_least, below, at_most; it has 0"));
    CHECK_THAT(error_of_text(R"({"when": {"any": [{"signal": "entropy_bits", "above": 6, "below": 8}]}})"),
               ContainsSubstring("it has 2"));
    CHECK_THAT(error_of_text(R"({"when": {}})"), ContainsSubstring("when: needs exactly one of any, all"));
    CHECK_THAT(error_of_text(R"({"when": {"any": [], "all": []}})"),
               ContainsSubstring("exactly one of any, all"));
}

TEST_CASE("thresholds that are no finite number, or negative, are refused", "[refresh]") {
    json policy = json::parse(R"({"when": {"any": [{"signal": "entropy_bits", "above": 6}]}})");
    json& threshold = policy["when"]["any"][0]["above"];
    for (const json& bad :
         {json(std::numeric_limits<double>::quiet_NaN()), json(std::numeric_limits<double>::infinity()),
          json(-std::numeric_limits<double>::infinity()), json("6"), json(nullptr), json(true),
          json::array({6})}) {
        threshold = bad;
        CHECK_THAT(error_of(policy),
                   ContainsSubstring("when.any[0].above: threshold must be a finite number"));
        CHECK_THAT(error_of(policy, Thresholds::any_finite), ContainsSubstring("finite number"));
    }
    threshold = -0.5;
    CHECK_THAT(error_of(policy),
               ContainsSubstring("when.any[0].above: threshold must not be negative, it is -0.5"));
    // What the program wrote itself is read again: a policy made in code may have kappa = -1.
    CHECK(error_of(policy, Thresholds::any_finite).empty());
    threshold = 0;
    CHECK(error_of(policy).empty());
}

TEST_CASE("numbers out of their range and wrong types are refused with the key", "[refresh]") {
    const auto trigger = [](const char* more) {
        return std::string(R"({"when": {"any": [{"signal": "entropy_bits", "above": 6, )") + more + "}]}}";
    };
    CHECK_THAT(error_of_text(trigger(R"("every": 0)").c_str()),
               ContainsSubstring("when.any[0].every: must be a whole number from 1 to 1000000, not 0"));
    CHECK_THAT(error_of_text(trigger(R"("every": 1.5)").c_str()), ContainsSubstring("not 1.5"));
    CHECK_THAT(error_of_text(trigger(R"("every": 18446744073709551615)").c_str()),
               ContainsSubstring("whole number"));
    CHECK_THAT(error_of_text(trigger(R"("cooldown": -1)").c_str()),
               ContainsSubstring("when.any[0].cooldown"));
    CHECK_THAT(error_of_text(trigger(R"("enabled": 1)").c_str()), ContainsSubstring("must be true or false"));
    CHECK_THAT(
        error_of_text(R"({"do": {"refresh": {"window": -1}}})"),
        ContainsSubstring("do.refresh.window: must be a whole number from 0 to 1000000 or null, not -1"));
    for (const char* lag : {"-1", "1001", "null", "2.5"}) {
        CHECK_THAT(error_of_text(fmt::format(R"({{"do": {{"refresh": {{"lag": {}}}}}}})", lag).c_str()),
                   ContainsSubstring("do.refresh.lag: must be a whole number from 0 to 1000"));
    }
    CHECK_THAT(error_of_text(R"({"do": {}})"), ContainsSubstring("do: needs refresh"));
    CHECK_THAT(error_of_text(R"({"budget": {"refreshes": -2}})"), ContainsSubstring("budget.refreshes"));
    CHECK_THAT(error_of_text(R"({"budget": {"per_tokens": 0}})"), ContainsSubstring("budget.per_tokens"));
    CHECK_THAT(error_of_text(R"({"budget": {"per_tokens": null}})"), ContainsSubstring("budget.per_tokens"));
    CHECK_THAT(error_of_text(R"({"on_fire": "kep"})"),
               ContainsSubstring("on_fire: must be one of keep, teacher_token, redraw, verify, not \"kep\""));
    CHECK_THAT(error_of_text(R"({"name": 3})"), ContainsSubstring("name: must be a text"));
    CHECK_THAT(error_of_text(R"({"name": ""})"), ContainsSubstring("name is empty"));
    CHECK_THAT(error_of_text("[]"), ContainsSubstring("must be an object"));
    CHECK_THAT(error_of_text(R"({"when": {"any": {}}})"), ContainsSubstring("when.any: must be a list"));
    CHECK_THAT(error_of_text(R"({"when": {"any": [6]}})"),
               ContainsSubstring("when.any[0]: must be an object"));
}

TEST_CASE("a policy made in code is checked for what no run could use", "[refresh]") {
    RefreshPolicy policy = preset_policy("kl");
    policy.triggers[0].threshold = -1;
    CHECK(check_error(policy).empty()); // legal: fires at every probe
    policy.triggers[0].threshold = std::numeric_limits<double>::quiet_NaN();
    CHECK_THAT(check_error(policy), ContainsSubstring("threshold of kl_nats"));
    policy.triggers[0].threshold = std::numeric_limits<double>::infinity();
    CHECK_THAT(check_error(policy), ContainsSubstring("finite"));
    policy = preset_policy("kl");
    policy.triggers[0].every = 0;
    CHECK_THAT(check_error(policy), ContainsSubstring("every of kl_nats"));
    policy = preset_policy("kl");
    policy.triggers[0].cooldown = -1;
    CHECK_THAT(check_error(policy), ContainsSubstring("cooldown of kl_nats"));
    policy = preset_policy("kl");
    policy.triggers.push_back(policy.triggers[0]);
    CHECK_THAT(check_error(policy), ContainsSubstring("two triggers"));
    policy = preset_policy("kl");
    policy.triggers[0].signal = "nothing";
    CHECK_THAT(check_error(policy), ContainsSubstring("unknown signal"));
    policy = preset_policy("kl");
    policy.window = -3;
    CHECK_THAT(check_error(policy), ContainsSubstring("window"));
    policy.window.reset();
    policy.budget = {.refreshes = -1, .per_tokens = 5};
    CHECK_THAT(check_error(policy), ContainsSubstring("budget.refreshes"));
    policy.budget = {.refreshes = 1, .per_tokens = 0};
    CHECK_THAT(check_error(policy), ContainsSubstring("budget.per_tokens"));
}

TEST_CASE("what verification does is part of the policy, read strictly", "[refresh]") {
    const RefreshPolicy policy = policy_from_json(
        nlohmann::json::parse(
            R"({"on_fire": "verify", "verify": {"rule": "near_best", "share": 0.25, "rank": 7, "splice": false}})"),
        "gate.json");
    CHECK(verifies(policy));
    CHECK(policy.verify ==
          Verification{.rule = VerifyRule::near_best, .share = 0.25, .rank = 7, .splice = false});
    CHECK(policy_from_json(policy_to_json(policy), "again") == policy);
    CHECK(policy_from_json(nlohmann::json::parse(R"({"on_fire": "verify"})"), "gate.json").verify ==
          Verification{});
    CHECK_FALSE(policy_to_json(preset_policy("periodic")).contains("verify")); // as earlier programs wrote it

    CHECK_THAT(error_of_text(R"({"verify": {"rule": "strict"}})"),
               ContainsSubstring("verify.rule: must be one of exact, greedy, near_best, top_k"));
    CHECK_THAT(error_of_text(R"({"verify": {"share": 1.5}})"), ContainsSubstring("verify.share"));
    CHECK_THAT(error_of_text(R"({"verify": {"rank": 0}})"), ContainsSubstring("verify.rank"));
    CHECK_THAT(error_of_text(R"({"verify": {"spice": true}})"),
               ContainsSubstring("verify.spice: unknown key; did you mean splice?"));
    CHECK_THAT(error_of_text(R"({"on_fire": "verify", "do": {"refresh": {"lag": 3}}})"),
               ContainsSubstring("on_fire verify with a lag of 3"));
}

TEST_CASE("the threshold of confidence follows the share that stays", "[refresh]") {
    RefreshPolicy policy = preset_policy("confidence_stop");
    CHECK(policy.verify.target == 0.9);
    const double before = policy.triggers[0].threshold;
    ConfidenceShift confidence;
    for (int i = 0; i < 10; ++i)
        confidence = adapt_confidence(confidence, 0.5, 0.9);
    CHECK(std::abs(confidence.shift - 0.01) < 1e-12);
    CHECK(std::abs(shifted_policy(policy, confidence).triggers[0].threshold - before - 0.01) < 1e-12);
    CHECK(shifted_policy(policy, confidence).triggers[1] == policy.triggers[1]);
    for (int i = 0; i < 40; ++i)
        confidence = adapt_confidence(confidence, 1.0, 0.9);
    CHECK(confidence.shift < -0.02);
    CHECK(shifted_policy(policy, {.shift = -5}).triggers[0].threshold == 0);
    CHECK(shifted_policy(policy, {.shift = 5}).triggers[0].threshold == 1);
    CHECK(policy_from_json(policy_to_json(policy), "again") == policy);
    CHECK_THAT(error_of_text(R"({"verify": {"target": 2}})"), ContainsSubstring("verify.target"));
}

TEST_CASE("names of on_fire go both ways", "[refresh]") {
    for (const OnFire fire : {OnFire::keep, OnFire::teacher_token, OnFire::redraw, OnFire::verify}) {
        CHECK(on_fire_from_string(to_string(fire)) == fire);
    }
    CHECK_FALSE(on_fire_from_string("Keep"));
}

} // namespace policy_test
