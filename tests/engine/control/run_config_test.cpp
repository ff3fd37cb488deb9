#include "engine/base/error.h"
#include "engine/control/command.h"
#include "engine/control/run_config.h"
#include "engine/policies/cache_method.h"
#include "engine/policies/cache_policy_config.h"
#include "tests/engine/control/random_config.h"
#include "tests/support/seed.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <limits>

using namespace refreshlab;
using namespace refreshlab::testing;
using Catch::Matchers::ContainsSubstring;
using nlohmann::json;

namespace {

std::string config_error(const json& value) {
    try {
        static_cast<void>(run_config_from_json(value, "run.json"));
    } catch (const Error& error) {
        CHECK(error.kind() == ErrorKind::bad_input);
        CHECK_THAT(error.what(), ContainsSubstring("run.json"));
        return error.what();
    }
    return {};
}

std::string command_error(const std::string& text) {
    try {
        static_cast<void>(command_from_json(json::parse(text), "the command log"));
    } catch (const Error& error) {
        CHECK_THAT(error.what(), ContainsSubstring("the command log"));
        return error.what();
    }
    return {};
}

} // namespace

TEST_CASE("configurations survive JSON text exactly", "[control]") {
    const uint32_t seed = test::seed(4242);
    INFO("seed " << seed);
    std::mt19937 random(seed);
    CHECK(run_config_from_json(json::parse(to_json(RunConfig{}).dump()), "itself") == RunConfig{});
    for (int i = 0; i < 500; ++i) {
        const RunConfig config = random_config(random);
        const std::string text = to_json(config).dump();
        INFO(text);
        REQUIRE(run_config_from_json(json::parse(text), "itself") == config);
    }
}

TEST_CASE("absent keys of a configuration keep their defaults", "[control]") {
    CHECK(run_config_from_json(json::object(), "run.json") == RunConfig{});
    RunConfig expected;
    expected.seed = 7;
    expected.sampler.top_k = 40;
    CHECK(run_config_from_json(json::parse(R"({"seed": 7, "sampler": {"top_k": 40}})"), "run.json") ==
          expected);
}

TEST_CASE("every key of a configuration is checked", "[control]") {
    // Each key, one after the other, with a value of a type that no key has.
    const json good = to_json(RunConfig{});
    for (const auto& [key, value] : good.items()) {
        INFO(key);
        json bad = good;
        bad[key] = json::array({json::array()});
        CHECK_THAT(config_error(bad), ContainsSubstring(key));
        if (!value.is_object()) continue;
        for (const auto& [inner, ignored] : value.items()) {
            INFO(inner);
            bad = good;
            bad[key][inner] = json::array({json::array()});
            CHECK_THAT(config_error(bad), ContainsSubstring(inner));
        }
    }
    CHECK_THAT(config_error(json::parse(R"({"sampler": {"temprature": 1}})")),
               ContainsSubstring("sampler.temprature: unknown key; did you mean temperature?"));
    CHECK_THAT(config_error(json::parse(R"({"max_token": 1})")),
               ContainsSubstring("did you mean max_tokens?"));
    CHECK_THAT(config_error(json::parse(R"({"max_tokens": 0})")),
               ContainsSubstring("whole number from 1 to 1000000"));
    CHECK_THAT(config_error(json::parse(R"({"seed": -1})")), ContainsSubstring("seed"));
    CHECK_THAT(config_error(json::parse(R"({"seed": 1.5})")), ContainsSubstring("seed"));
    CHECK_THAT(config_error(json::parse(R"({"sampler": {"top_p": 1.5}})")),
               ContainsSubstring("sampler.top_p"));
    CHECK_THAT(config_error(json::parse(R"({"mc": {"samples": 1}})")), ContainsSubstring("mc.samples"));
    CHECK_THAT(config_error(json::parse(R"({"capture": {"layers": [-1]}})")),
               ContainsSubstring("capture.layers"));
    CHECK_THAT(config_error(json::parse(R"({"mode": "overfil"})")),
               ContainsSubstring("teacher, student, overfill"));
    CHECK_THAT(config_error(json::parse(R"({"dtype": "fp32"})")), ContainsSubstring("f32, bf16, f16"));
    CHECK_THAT(config_error(json::parse(R"({"policy": {"whn": 1}})")), ContainsSubstring("whn: unknown key"));
    CHECK_THAT(config_error(json(3)), ContainsSubstring("must be an object"));
}

TEST_CASE("mc.every is read under its earlier name too, and written under its own", "[control]") {
    const RunConfig earlier = run_config_from_json(json::parse(R"({"mc": {"stride": 5}})"), "test");
    CHECK(earlier.mc.every == 5);
    CHECK(earlier == run_config_from_json(json::parse(R"({"mc": {"every": 5}})"), "test"));
    CHECK(to_json(earlier)["mc"]["every"] == 5);
    CHECK_FALSE(to_json(earlier)["mc"].contains("stride"));
    CHECK_THAT(config_error(json::parse(R"({"mc": {"stride": 0}})")), ContainsSubstring("mc.stride"));
    CHECK_THAT(config_error(json::parse(R"({"mc": {"every": 5, "stride": 5}})")),
               ContainsSubstring("mc.stride") && ContainsSubstring("earlier name of every"));
}

TEST_CASE("a configuration made in code is checked against the same ranges", "[control]") {
    const auto check = [](const RunConfig& config) -> std::string {
        try {
            check_run_config(config, "this test");
        } catch (const Error& error) {
            return error.what();
        }
        return {};
    };
    RunConfig config;
    CHECK(check(config).empty());
    config.sampler.temperature = std::numeric_limits<double>::quiet_NaN();
    CHECK_THAT(check(config), ContainsSubstring("sampler.temperature"));
    config = {};
    config.max_tokens = 0;
    CHECK_THAT(check(config), ContainsSubstring("max_tokens"));
    config = {};
    config.mc.samples = 1;
    CHECK_THAT(check(config), ContainsSubstring("mc.samples"));
    config = {};
    config.threads = -1;
    CHECK_THAT(check(config), ContainsSubstring("threads"));
    config = {};
    config.policy = preset_policy("kl");
    config.policy.triggers[0].threshold = -1; // legal in code
    CHECK(check(config).empty());
    config.policy.triggers[0].every = 0;
    CHECK_THAT(check(config), ContainsSubstring("every of kl_nats"));
}

TEST_CASE("commands survive JSON text exactly", "[control]") {
    const uint32_t seed = test::seed(4343);
    INFO("seed " << seed);
    std::mt19937 random(seed);
    RefreshPolicy below_zero = preset_policy("kl");
    below_zero.triggers[0].threshold = -1; // the log of a run that was made in code must replay
    const std::vector<Command> commands = {
        command::StartRun{random_config(random)},
        command::Pause{},
        command::Resume{},
        command::Step{17},
        command::Stop{},
        command::RefreshNow{},
        command::Rewind{123456789012},
        command::SetParameter{"entropy.threshold", "5.2"},
        command::SetPolicy{below_zero},
        command::RequestAttention{77, true},
        command::CheckExactness{},
        command::SetPace{12.5},
        command::GiveTokens{{3, 4}, " slate"},
        command::ComputeLandscape{"entropy_bits", 4},
        command::ComputeScope{8, 12, 2, 0.8},
        command::SavePromptCache{"prompt.safetensors", true},
        command::FullStepNow{},
        command::Branch{
            "00ff",
            2,
            command::RecordedRun{"00ff",
                                 random_config(random),
                                 "<p>",
                                 {1, 2},
                                 "avx2",
                                 {{3, command::GiveTokens{{5}, {}}}, {4, command::SetPolicy{below_zero}}},
                                 {7, 8, 9},
                                 2},
            {command::GiveTokens{{6}, {}}, command::SetParameter{"sampler.temperature", "0.5"},
             command::SetPolicy{below_zero}, command::RefreshNow{}, command::FullStepNow{}},
            true}};
    CHECK(commands.size() == std::variant_size_v<Command>);
    for (const Command& command : commands) {
        const json written = to_json(command);
        INFO(written.dump());
        const Command read = command_from_json(json::parse(written.dump()), "itself");
        CHECK(read.index() == command.index());
        CHECK(to_json(read) == written);
    }
    const auto run = std::get<command::StartRun>(command_from_json(to_json(commands[0]), "itself"));
    CHECK(run.config == std::get<command::StartRun>(commands[0]).config);
    CHECK(std::get<command::SetPolicy>(command_from_json(to_json(commands[8]), "itself")).policy ==
          below_zero);
    CHECK(std::get<command::Rewind>(command_from_json(to_json(commands[6]), "itself")).step == 123456789012);
    const auto set = std::get<command::SetParameter>(command_from_json(to_json(commands[7]), "itself"));
    CHECK((set.key == "entropy.threshold" && set.value == "5.2"));
    const auto attention =
        std::get<command::RequestAttention>(command_from_json(to_json(commands[9]), "itself"));
    CHECK((attention.position == 77 && attention.teacher));
}

TEST_CASE("commands between two configurations lead from one to the other as far as a run can change",
          "[control]") {
    for (const CacheMethod& a : cache_methods()) {
        for (const CacheMethod& b : cache_methods()) {
            RunConfig from, to;
            from.student_cache = cache_policy_defaults(std::string(a.name), "a test");
            to.student_cache = cache_policy_defaults(std::string(b.name), "a test");
            to.sampler.temperature = 0.5;
            for (auto& [key, value] : to.student_cache.values)
                if (key == "budget") value = 33;
            INFO(a.name << " to " << b.name);
            const std::vector<Command> commands = commands_between(from, to);
            for (const Command& command : commands)
                CHECK_NOTHROW(apply_to(from, command));
            CHECK(from.sampler.temperature == 0.5);
            CHECK(from.student_cache.policy == a.name); // fixed during a run
            const auto budget = from.student_cache.values.find("budget");
            const bool live = std::ranges::any_of(
                a.parameters, [](const CacheParameter& p) { return p.key == "budget" && p.live; });
            if (a.name == b.name && live) CHECK(budget->second == 33);
        }
    }
}

TEST_CASE("broken commands are refused with the key", "[control]") {
    CHECK_THAT(command_error(R"({})"), ContainsSubstring("command: missing"));
    CHECK_THAT(command_error(R"({"command": "paus"})"), ContainsSubstring("must be one of start_run, pause"));
    CHECK_THAT(command_error(R"({"command": "pause", "now": true})"), ContainsSubstring("now: unknown key"));
    CHECK_THAT(command_error(R"({"command": "set_parameter", "key": "seed"})"),
               ContainsSubstring("value: missing"));
    CHECK_THAT(command_error(R"({"command": "set_parameter", "key": "seed", "value": 3})"),
               ContainsSubstring("value: must be a text"));
    CHECK_THAT(command_error(R"({"command": "rewind"})"), ContainsSubstring("step: missing"));
    CHECK_THAT(command_error(R"({"command": "rewind", "step": -1})"),
               ContainsSubstring("step: must be a whole number"));
    CHECK_THAT(command_error(R"({"command": "step", "steps": 0})"), ContainsSubstring("steps"));
    CHECK_THAT(command_error(R"({"command": "start_run"})"), ContainsSubstring("config: missing"));
    const auto branch = [](const std::string& recorded, const std::string& more) {
        return command_error(
            R"({"command": "branch", "run_id": "a", "step": 1, "recorded": {"run_id": "a", "config": {}, )" +
            recorded + "}" + more + "}");
    };
    CHECK_THAT(branch(R"("prompt_ids": [1], "tokens": [1, 2], "steps": 1,
                         "commands": [{"step": 1, "command": {"command": "branch"}}])",
                      ""),
               ContainsSubstring("does not act on a run in progress"));
    CHECK_THAT(branch(R"("prompt_ids": [-1], "tokens": [1, 2], "steps": 1)", ""),
               ContainsSubstring("recorded.prompt_ids: must be a list of token ids"));
    CHECK_THAT(branch(R"("prompt_ids": [1], "tokens": [1, 2], "steps": 1)",
                      R"(, "changes": [{"command": "rewind", "step": 3}])"),
               ContainsSubstring("rewind is no change of a branch"));
    CHECK_THAT(command_error(R"({"command": "branch", "step": 1})"), ContainsSubstring("run_id: missing"));
    CHECK_THAT(command_error(R"({"command": "set_policy", "policy": {"name": 1}})"),
               ContainsSubstring("name"));
}
