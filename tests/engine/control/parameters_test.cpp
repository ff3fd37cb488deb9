#include "engine/base/error.h"
#include "engine/control/parameters.h"
#include "engine/record/recording/step_record.h"
#include "engine/signals/registry.h"
#include "tests/support/seed.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <set>

using namespace refreshlab;
using Catch::Matchers::ContainsSubstring;

namespace {

RunConfig with_preset(std::string_view name) {
    RunConfig config;
    config.policy = preset_policy(name);
    return config;
}

/// The one line of the refusal; "" when it was accepted. A refusal leaves the configuration as it was.
std::string refusal(RunConfig config, std::string_view key, std::string_view value) {
    const RunConfig before = config;
    try {
        set_parameter(config, key, value);
    } catch (const Error& error) {
        CHECK(error.kind() == ErrorKind::bad_input);
        CHECK(config == before);
        const std::string text = error.what();
        CHECK(text.find('\n') == std::string::npos);
        return text;
    }
    return {};
}

/// A configuration in which every parameter exists.
RunConfig full_config() {
    RunConfig config;
    config.policy.name = "everything";
    for (const Signal& signal : signals()) {
        if (signal.letter == 0) continue;
        config.policy.triggers.push_back(
            {std::string(signal.name), Comparison::above, signal.default_threshold, 4, 2, true});
    }
    return config;
}

} // namespace

TEST_CASE("the list has the keys of the command line, each once and with its documentation", "[control]") {
    std::set<std::string_view> keys;
    for (const Parameter& p : parameters()) {
        INFO(p.key);
        CHECK(keys.insert(p.key).second);
        CHECK_FALSE(p.label.empty());
        CHECK(p.help.size() > 10);
        CHECK(p.min <= p.max);
        CHECK(p.slider_min >= p.min);
        CHECK(p.slider_max <= p.max);
        CHECK((p.slider_min < p.slider_max || p.kind == Parameter::Kind::text));
        CHECK((p.kind == Parameter::Kind::choice || p.kind == Parameter::Kind::list) == !p.choices.empty());
        CHECK((p.kind == Parameter::Kind::text) == !p.form.empty());
        CHECK(find_parameter(p.key) == &*std::find_if(parameters().begin(), parameters().end(),
                                                      [&](const Parameter& q) { return q.key == p.key; }));
    }
    for (const char* key : {"sampler.temperature",
                            "sampler.top_k",
                            "sampler.top_p",
                            "sampler.min_p",
                            "seed",
                            "max_tokens",
                            "ignore_stop",
                            "kernels",
                            "bridge",
                            "on_fire",
                            "verify.rule",
                            "verify.share",
                            "verify.rank",
                            "verify.splice",
                            "verify.target",
                            "at",
                            "combine",
                            "window.size",
                            "refresh.lag",
                            "refresh.layers",
                            "refresh.kv_heads",
                            "refresh.parts",
                            "refresh.positions",
                            "refresh.count",
                            "budget.refreshes",
                            "budget.per_tokens",
                            "shadow",
                            "mc.measure",
                            "mc.samples",
                            "mc.p",
                            "mc.every",
                            "capture.attention",
                            "capture.top_k",
                            "capture.attention_megabytes",
                            "capture.attention_bytes",
                            "capture.attention_bins",
                            "capture.attention_entropy",
                            "periodic.every",
                            "burst.every",
                            "entropy.threshold",
                            "entropy.every",
                            "entropy.cooldown",
                            "entropy.enabled",
                            "kl.threshold",
                            "kl.every",
                            "kl.cooldown",
                            "kl.enabled",
                            "mc.threshold",
                            "mc.cooldown",
                            "mc.enabled",
                            "mi.threshold",
                            "mi.every",
                            "mi.cooldown",
                            "surprisal.threshold",
                            "surprisal.every",
                            "surprisal.cooldown",
                            "surprisal.enabled",
                            "periodic.look_every",
                            "periodic.cooldown",
                            "periodic.enabled",
                            "top1_prob.threshold"}) {
        INFO(key);
        CHECK(keys.contains(key));
    }
    CHECK_FALSE(find_parameter("max_tokens")->live);
    CHECK_FALSE(find_parameter("kernels")->live);
    CHECK_FALSE(find_parameter("capture.attention_megabytes")->live);
    CHECK(find_parameter("mc.samples")->live);
    CHECK(find_parameter("entropy.threshold")->unit == "bits");
    CHECK(find_parameter("entropy.threshold")->of_policy);
    CHECK_FALSE(find_parameter("mc.every")->of_policy);
}

TEST_CASE("what a trigger compares of a layered signal is a parameter", "[control]") {
    RunConfig config = full_config();
    const std::string reduce = "attention_entropy_bits.reduce", layer = "attention_entropy_bits.layer";
    const auto trigger = [&]() -> const Trigger& {
        return *std::ranges::find(config.policy.triggers, std::string("attention_entropy_bits"),
                                  &Trigger::signal);
    };
    CHECK(parameter_value(config, reduce) == "mean");
    CHECK(parameter_value(config, layer) == "none");
    set_parameter(config, reduce, "max");
    CHECK(trigger().reduce == Reduction::max);
    CHECK(parameter_value(config, reduce) == "max");
    set_parameter(config, layer, "3");
    CHECK(trigger().reduce == Reduction::layer);
    CHECK(trigger().layer == 3);
    CHECK(parameter_value(config, reduce) == "layer");
    CHECK(parameter_value(config, layer) == "3");
    check_run_config(config, "test");
    set_parameter(config, reduce, "min"); // no layer stays behind
    CHECK(trigger().layer == 0);
    check_run_config(config, "test");
    set_parameter(config, layer, "none");
    CHECK(trigger().reduce == Reduction::min);
    set_parameter(config, layer, "0");
    set_parameter(config, layer, "none");
    CHECK(trigger().reduce == Reduction::mean);
    CHECK_THROWS_AS(set_parameter(config, reduce, "median"), Error);
    CHECK_THROWS_AS(set_parameter(config, layer, "-1"), Error);
    CHECK_THROWS_AS(set_parameter(config, "entropy.layer", "1"), Error);
    CHECK(find_parameter("entropy.reduce") == nullptr);
    RunConfig without;
    CHECK_FALSE(parameter_value(without, reduce));
    CHECK_THROWS_AS(set_parameter(without, reduce, "max"), Error);
}

TEST_CASE("every signal that can trigger is reached by its own name too", "[control]") {
    RunConfig config = full_config();
    for (const Signal& signal : signals()) {
        for (const char* field : {"threshold", "stride", "cooldown", "enabled"}) {
            const std::string key = fmt::format("{}.{}", signal.name, field);
            INFO(key);
            const Parameter* parameter = find_parameter(key);
            if (signal.letter == 0) {
                CHECK(parameter == nullptr);
                continue;
            }
            REQUIRE(parameter != nullptr);
            set_parameter(config, key, std::string_view(field) == "enabled" ? "false" : "9");
            CHECK(parameter_value(config, key) == (std::string_view(field) == "enabled" ? "false" : "9"));
        }
    }
    for (const Trigger& trigger : config.policy.triggers) {
        CHECK(trigger.threshold == 9);
        CHECK(trigger.every == 9);
        CHECK(trigger.cooldown == 9);
        CHECK_FALSE(trigger.enabled);
    }
    CHECK(find_parameter("kl_nats.stride")->key == "kl.every");
    CHECK(find_parameter("entropy_bits.threshold")->key == "entropy.threshold");
    CHECK(find_parameter("mc_variance.stride")->key == "mc.every");
    CHECK(find_parameter("steps_since_refresh.threshold")->key == "periodic.every");
}

TEST_CASE("one word for how often a trigger looks; the word of earlier versions is still taken",
          "[control]") {
    for (const Parameter& p : parameters())
        CHECK(p.key.find("stride") == std::string_view::npos);
    for (const auto& [earlier, listed] : {std::pair{"entropy.stride", "entropy.every"},
                                          {"entropy_bits.stride", "entropy.every"},
                                          {"entropy_bits.every", "entropy.every"},
                                          {"kl.stride", "kl.every"},
                                          {"mc.stride", "mc.every"},
                                          {"mi.stride", "mi.every"},
                                          {"top1_prob.stride", "top1_prob.every"},
                                          {"periodic.stride", "periodic.look_every"},
                                          {"steps_since_refresh.stride", "periodic.look_every"},
                                          {"steps_since_refresh.every", "periodic.every"}}) {
        INFO(earlier);
        REQUIRE(find_parameter(earlier) != nullptr);
        CHECK(find_parameter(earlier)->key == listed);
    }
    RunConfig config = with_preset("periodic"); // its `every` and its threshold are two numbers
    set_parameter(config, "periodic.every", "12");
    set_parameter(config, "periodic.stride", "3");
    CHECK(config.policy.triggers[0].threshold == 12);
    CHECK(config.policy.triggers[0].every == 3);
    CHECK(parameter_value(config, "periodic.look_every") == "3");
    CHECK_THAT(refusal(config, "sampler.stride", "1"), ContainsSubstring("no such parameter"));
}

TEST_CASE("what is set is read back, and what is read back can be set", "[control]") {
    const uint32_t seed = test::seed(3131);
    INFO("seed " << seed);
    std::mt19937 random(seed);
    for (int round = 0; round < 40; ++round) {
        RunConfig config = full_config();
        for (const Parameter& p : parameters()) {
            if (p.key.find("_cache.") != std::string_view::npos && !parameter_value(config, p.key))
                continue; // of another cache policy than the one that was drawn
            std::string value;
            switch (p.kind) {
            case Parameter::Kind::boolean:
                value = random() % 2 == 0 ? "true" : "false";
                break;
            case Parameter::Kind::choice:
                value = p.choices[random() % p.choices.size()];
                break;
            case Parameter::Kind::text:
                value = random() % 4 == 0 ? "all" : fmt::format("{},{}-70", random() % 9, 10 + random() % 50);
                break;
            case Parameter::Kind::list:
                value = fmt::format("{},{}", 1 + random() % 50, 51 + random() % 900);
                if (random() % 4 == 0) value = p.choices.front();
                break;
            case Parameter::Kind::integer:
                value = fmt::format(
                    "{}", static_cast<int64_t>(p.min) +
                              static_cast<int64_t>(random() %
                                                   static_cast<uint64_t>(std::min(p.max - p.min, 1e6) + 1)));
                if (p.key.ends_with("_cache.kernel")) // a pooling kernel has a middle
                    value = fmt::format("{}", 1 + 2 * (random() % 63));
                break;
            case Parameter::Kind::real:
                value = fmt::format("{}", p.min + (p.max - p.min) * random() / 4294967296.0);
                break;
            }
            if (p.optional && random() % 4 == 0) value = "none";
            if (p.key == "refresh.lag" && config.policy.on_fire == OnFire::verify)
                value = "0"; // more is refused
            INFO(p.key << " = " << value);
            set_parameter(config, p.key, value);
            const std::optional<std::string> shown = parameter_value(config, p.key);
            REQUIRE(shown == value);
            const RunConfig before = config;
            set_parameter(config, p.key, *shown);
            REQUIRE(config == before);
        }
        check_run_config(config, "this test");
    }
}

TEST_CASE("each key reaches its field", "[control]") {
    RunConfig config = with_preset("entropy");
    for (const char* assignment : {"sampler.temperature=0.8",
                                   "sampler.top_k=40",
                                   "sampler.top_p=0.95",
                                   "sampler.min_p=0.05",
                                   "max_tokens=330",
                                   "ignore_stop=true",
                                   "on_fire=redraw",
                                   "window.size=12",
                                   "refresh.lag=7",
                                   "budget.refreshes=3",
                                   "budget.per_tokens=500",
                                   "shadow=1",
                                   "mc.measure=on",
                                   "mc.samples=12",
                                   "mc.p=0.05",
                                   "mc.every=4",
                                   "capture.attention=false",
                                   "capture.top_k=5",
                                   "capture.attention_megabytes=12",
                                   "capture.attention_bytes=4096",
                                   "capture.attention_bins=256",
                                   " entropy.threshold = 5.25 ",
                                   "entropy.every=1",
                                   "entropy.cooldown=4",
                                   "combine=all",
                                   "at=12, 40,64",
                                   "seed=18446744073709551615"}) {
        INFO(assignment);
        set_parameter(config, assignment);
    }
    CHECK(config.sampler == SamplerConfig{0.8, 40, 0.95, 0.05});
    CHECK(config.max_tokens == 330);
    CHECK(config.ignore_stop);
    CHECK(config.policy.on_fire == OnFire::redraw);
    CHECK(config.policy.window == 12);
    CHECK(config.policy.lag == 7);
    CHECK(config.policy.budget == Budget{3, 500});
    CHECK(config.shadow);
    CHECK(config.mc == McConfig{true, 12, 0.05, 4});
    CHECK_FALSE(config.capture.attention);
    CHECK(config.capture.top_k == 5);
    CHECK(config.capture.attention_megabytes == 12);
    CHECK(config.capture.attention_bytes == 4096);
    CHECK(config.capture.attention_bins == 256);
    CHECK(config.policy.triggers ==
          std::vector<Trigger>{{"entropy_bits", Comparison::above, 5.25, 1, 4, true}});
    CHECK(config.policy.combine == Combine::all);
    CHECK(config.policy.at == std::vector<int64_t>{12, 40, 64});
    set_parameter(config, "at", "none");
    CHECK(config.policy.at.empty());
    CHECK(config.seed == UINT64_MAX);
    set_parameter(config, "window.size", "none");
    set_parameter(config, "budget.refreshes", "none");
    set_parameter(config, "mc.p", "none");
    CHECK_FALSE(config.policy.window);
    CHECK_FALSE(config.policy.budget.refreshes);
    CHECK(config.mc.p < 0);
    CHECK(parameter_value(config, "mc.p") == "none");
}

TEST_CASE("burst.every keeps R = W = k in the preset burst", "[control]") {
    RunConfig burst = with_preset("burst");
    set_parameter(burst, "burst.every", "12");
    CHECK(burst.policy.triggers[0].threshold == 12);
    CHECK(burst.policy.window == 12);
    RunConfig periodic = with_preset("periodic");
    set_parameter(periodic, "periodic.every", "32");
    CHECK(periodic.policy.triggers[0].threshold == 32);
    CHECK_FALSE(periodic.policy.window);
    RunConfig window = with_preset("window");
    set_parameter(window, "burst.every", "9"); // another preset keeps its window
    CHECK(window.policy.window == 32);
    CHECK(window.policy.triggers[0].threshold == 9);
}

TEST_CASE("mc.every says where MC is measured and where the mc trigger looks", "[control]") {
    RunConfig config = with_preset("mc");
    set_parameter(config, "mc.every", "5");
    CHECK(config.mc.every == 5);
    CHECK(config.policy.triggers[0].every == 5);
    RunConfig without = with_preset("entropy");
    set_parameter(without, "mc.every", "5");
    CHECK(without.mc.every == 5);
    CHECK(without.policy == preset_policy("entropy"));
}

TEST_CASE("NaN, negative and other impossible thresholds are refused with key, value and range",
          "[control]") {
    const RunConfig config = full_config();
    for (const Parameter& p : parameters()) {
        const std::string_view key = p.key;
        if (!key.ends_with(".threshold")) continue;
        INFO(key);
        for (const char* value :
             {"nan", "NaN", "-nan", "nan(1)", "", "six", "6 bits", "6,5", "0x10", "--5", "1e", "none"}) {
            INFO(value);
            CHECK_THAT(refusal(config, key, value), ContainsSubstring("is not a number"));
        }
        for (const char* value : {"-1", "-0.001", "inf", "-inf", "1e300", "1000001"}) {
            INFO(value);
            CHECK_THAT(refusal(config, key, value),
                       ContainsSubstring("is out of range") || ContainsSubstring("is not a number"));
            CHECK_THAT(refusal(config, key, value), ContainsSubstring(std::string(key)) &&
                                                        ContainsSubstring(value) &&
                                                        ContainsSubstring("0 to 1000000"));
        }
        CHECK(refusal(config, key, "0").empty());
    }
    CHECK(refusal(config, "entropy.threshold", "-1") ==
          "setting entropy.threshold: \"-1\" is out of range; 0 to 1000000 bits");
}

TEST_CASE("values of the wrong kind are refused", "[control]") {
    for (const char* steps : {"", "x", "3,", ",3", "3,3", "4,3", "0", "-1", "1.5", "3;4", "2000000"})
        CHECK(refusal(with_preset("none"), "at", steps).find("is no list of whole numbers") !=
              std::string::npos);
    const RunConfig config = full_config();
    CHECK_THAT(refusal(config, "periodic.every", "0"), ContainsSubstring("1 to 1000000 tokens"));
    CHECK_THAT(refusal(config, "periodic.every", "2.5"), ContainsSubstring("not a whole number"));
    CHECK_THAT(refusal(config, "entropy.every", "0"), ContainsSubstring("out of range"));
    CHECK_THAT(refusal(config, "kl.every", "-4"), ContainsSubstring("out of range"));
    CHECK_THAT(refusal(config, "entropy.cooldown", "-1"), ContainsSubstring("out of range"));
    CHECK_THAT(refusal(config, "window.size", "-1"), ContainsSubstring("0 to 1000000 tokens, or none"));
    CHECK_THAT(refusal(config, "seed", "-1"), ContainsSubstring("out of range"));
    CHECK_THAT(refusal(config, "seed", "18446744073709551616"), ContainsSubstring("out of range"));
    CHECK_THAT(refusal(config, "mc.samples", "1"), ContainsSubstring("2 to 64"));
    CHECK_THAT(refusal(config, "capture.top_k", std::to_string(max_top_k + 1)),
               ContainsSubstring("out of range"));
    CHECK_THAT(refusal(config, "sampler.top_p", "1.01"), ContainsSubstring("out of range"));
    CHECK_THAT(refusal(config, "sampler.temperature", "none"), ContainsSubstring("not a number"));
    CHECK_THAT(refusal(config, "on_fire", "kep"), ContainsSubstring("one of keep, teacher_token, redraw"));
    CHECK_THAT(refusal(config, "shadow", "yes"), ContainsSubstring("true or false"));
    CHECK_THAT(refusal(config, "entropy.threshold", std::string(4000, '9')),
               ContainsSubstring("4000 characters"));
    // Whole numbers may be written as a slider writes them.
    RunConfig copy = config;
    set_parameter(copy, "max_tokens", "1e3");
    CHECK(copy.max_tokens == 1000);
    set_parameter(copy, "periodic.every", "64.0");
    CHECK(parameter_value(copy, "periodic.every") == "64");
}

TEST_CASE("a policy without the trigger says so", "[control]") {
    CHECK_THAT(refusal(with_preset("periodic"), "entropy.threshold", "5"),
               ContainsSubstring("policy periodic has no entropy trigger") &&
                   ContainsSubstring("steps_since_refresh"));
    CHECK_THAT(refusal(with_preset("none"), "kl.every", "5"),
               ContainsSubstring("policy none has no kl trigger"));
    CHECK_THAT(refusal(with_preset("none"), "burst.every", "5"),
               ContainsSubstring("policy none has no burst trigger"));
    CHECK_THAT(refusal(with_preset("kl"), "top1_prob.threshold", "0.5"),
               ContainsSubstring("no top1_prob trigger"));
    CHECK_FALSE(parameter_value(with_preset("periodic"), "entropy.threshold"));
    CHECK(parameter_value(with_preset("entropy"), "entropy.threshold") == "6");
    CHECK(parameter_value(with_preset("periodic"), "periodic.every") == "64");
}

TEST_CASE("unknown keys are named with the nearest", "[control]") {
    const RunConfig config = full_config();
    CHECK_THAT(refusal(config, "entropy.treshold", "5"), ContainsSubstring("did you mean entropy.threshold"));
    CHECK_THAT(refusal(config, "temperature", "1"), ContainsSubstring("sampler.temperature"));
    CHECK_THAT(refusal(config, "drift.threshold", "1"), ContainsSubstring("no such parameter"));
    CHECK_THAT(refusal(config, "", "1"), ContainsSubstring("no such parameter"));
    CHECK_FALSE(parameter_value(config, "entropy.treshold"));
    RunConfig copy = config;
    try {
        set_parameter(copy, "entropy.threshold");
        FAIL("accepted");
    } catch (const Error& error) {
        CHECK_THAT(error.what(), ContainsSubstring("KEY=VALUE"));
    }
}

TEST_CASE("the layers whose attention is kept are a list like any other parameter", "[control]") {
    RunConfig config;
    CHECK(parameter_value(config, "capture.layers") == "all");
    set_parameter(config, "capture.layers", "0, 4,29");
    CHECK(config.capture.layers == std::vector<int32_t>{0, 4, 29});
    CHECK(parameter_value(config, "capture.layers") == "0,4,29");
    CHECK(refusal(config, "capture.layers", "4,0").find("is no list of whole numbers") != std::string::npos);
    CHECK(refusal(config, "capture.layers", "0-4").find("with commas, or all") != std::string::npos);
    set_parameter(config, "capture.layers", "all");
    CHECK(config.capture.layers.empty());
}
