// The command line that makes a recorded run again: which settings it says, which become files, and what it admits to lack.
#include "engine/base/json_file.h"
#include "engine/control/command.h"
#include "engine/control/parameters.h"
#include "engine/record/recording/recording.h"
#include "engine/record/runs/run_command.h"
#include "tests/engine/record/random_recording.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <nlohmann/json.hpp>

using namespace refreshlab;
using namespace refreshlab::test;
using Catch::Matchers::ContainsSubstring;

namespace {

RunConfig plain_config() {
    RunConfig config;
    config.teacher_dir = "/somewhere/assets/models/llama-tales-teacher";
    config.student_dir = "/somewhere/assets/models/llama-tales-student";
    config.prompt = "Once";
    return config;
}

Recording recording_of(const RunConfig& config) {
    RunInfo info;
    info.id = "00000000000000aa";
    info.config = config;
    info.prompt_ids = {1, 2};
    info.first_token = 3;
    return Recording(info, std::make_shared<ByteTokens>());
}

RunCommand command_of(const RunConfig& config) {
    return run_command(recording_of(config));
}

} // namespace

TEST_CASE("a run without options has a command without options", "[record][again]") {
    const RunCommand command = command_of(plain_config());
    CHECK(command.line == "refreshlab run --prompt Once");
    RunConfig dash = plain_config();
    dash.prompt = "--seed 4";
    CHECK(command_of(dash).line == "refreshlab run --prompt='--seed 4'");
    CHECK(command.files.empty());
    CHECK(command.lacks.empty());
}

TEST_CASE("what differs from the defaults is said, and nothing else", "[record][again]") {
    RunConfig config = plain_config();
    config.teacher_dir = "/models/big one";
    config.student_dir = "derive:bits=3,group=32";
    config.prompt = "Don't \"stop\" $HOME\nnow";
    config.raw_prompt = true;
    config.mode = Mode::teacher;
    config.dtype = Dtype::bf16;
    config.device = "cpu";
    config.threads = 7; // changes no bit
    set_parameter(config, "seed", "11");
    set_parameter(config, "sampler.temperature", "0.7");
    set_parameter(config, "ignore_stop", "true");
    set_parameter(config, "max_tokens", "40");
    set_parameter(config, "capture.attention", "false");
    const RunCommand command = command_of(config);
    CAPTURE(command.line);
    for (const char* part : {"--teacher '/models/big one'", "--student derive:bits=3,group=32",
                             "--prompt 'Don'\\''t \"stop\" $HOME\nnow' --raw-prompt", "--mode teacher",
                             "--dtype bf16", "--device cpu", "--seed 11", "--temperature 0.7",
                             "--ignore-stop", "--max-tokens 40", "--set capture.attention=false"})
        CHECK_THAT(command.line, ContainsSubstring(part));
    CHECK(command.line.find("threads") == std::string::npos);
    CHECK(command.line.find("--top") == std::string::npos);
    CHECK(command.files.empty());
    CHECK(command.lacks.empty());
}

TEST_CASE("a policy is its preset with what was set, or a file", "[record][again]") {
    RunConfig config = plain_config();
    for (const Preset& preset : presets()) {
        CAPTURE(preset.name);
        config.policy = preset_policy(preset.name);
        const RunCommand command = command_of(config);
        CHECK(command.line == "refreshlab run --prompt Once" +
                                  (preset.name == "none" ? "" : " --policy " + std::string(preset.name)));
        CHECK(command.lacks.empty());
    }
    config.policy = preset_policy("entropy");
    set_parameter(config, "entropy.threshold", "4.25");
    set_parameter(config, "budget.refreshes", "3");
    const RunCommand set = command_of(config);
    CHECK_THAT(set.line, ContainsSubstring("--policy entropy") &&
                             ContainsSubstring("--set entropy.threshold=4.25") &&
                             ContainsSubstring("--set budget.refreshes=3"));
    CHECK(set.files.empty());

    config.policy = policy_from_json(
        nlohmann::json::parse(R"({"name": "two", "when": {"all": [{"signal": "entropy_bits", "above": 5},
                                                              {"signal": "top1_prob", "below": 0.5}]}})"),
        "a test");
    const RunCommand file = command_of(config);
    CHECK_THAT(file.line, ContainsSubstring("--policy policy.json"));
    REQUIRE(file.files.size() == 1);
    CHECK(file.files[0].name == "policy.json");
    CHECK(policy_from_json(parse_json(file.files[0].text, "the file"), "the file") == config.policy);
    CHECK(file.lacks.empty());
}

TEST_CASE("a cache policy, a given text and the log of commands become options and files",
          "[record][again]") {
    RunConfig config = plain_config();
    config.student_cache = cache_policy_defaults("h2o", "a test");
    CHECK(command_of(config).line == "refreshlab run --prompt Once --student-cache h2o");
    set_parameter(config, "student_cache.budget", "77");
    config.given_text = "a text\n";
    Recording recording = recording_of(config);
    recording.add_command({.step = 1, .json = to_json(Command(command::RefreshNow{})).dump()});
    recording.add_command(
        {.step = 1, .json = to_json(Command(command::RequestAttention{.position = 1})).dump()});
    const RunCommand command = run_command(recording);
    CHECK(command.line == "refreshlab run --prompt Once --given-file given.txt --student-cache h2o --set "
                          "student_cache.budget=77 "
                          "--commands commands.json");
    REQUIRE(command.files.size() == 2);
    CHECK(command.files[0] == RunCommand::File{"given.txt", "a text\n"});
    const auto log = parse_json(command.files[1].text, "the file");
    REQUIRE(log.size() == 1); // a look at attention changes no token
    CHECK(log[0] == nlohmann::json{{"step", 1}, {"command", {{"command", "refresh_now"}}}});
    CHECK(command.lacks.empty());
}

TEST_CASE("every cache policy is said, with any of its values", "[record][again]") {
    for (const CacheMethod& method : cache_methods()) {
        const CachePolicyConfig defaults = cache_policy_defaults(method.name, "a test");
        if (defaults.is_full()) continue;
        for (const CacheParameter& parameter : method.parameters) {
            CAPTURE(method.name, parameter.key);
            RunConfig config = plain_config();
            config.mode = Mode::teacher;
            config.teacher_cache = defaults;
            double& value = config.teacher_cache.values.find(parameter.key)->second;
            value = value == parameter.max ? parameter.min : parameter.max;
            const RunCommand command = command_of(config);
            CAPTURE(command.line);
            CHECK(command.files.empty());
            CHECK(command.lacks.empty());
            CHECK_THAT(command.line,
                       ContainsSubstring("--teacher-cache " + std::string(method.name)) &&
                           ContainsSubstring("--set teacher_cache." + std::string(parameter.key) + "="));
        }
    }
}

TEST_CASE("files of a cache policy are said", "[record][again]") {
    RunConfig config = plain_config();
    config.student_cache = cache_policy_defaults("trim_kv", "a test");
    config.student_cache.files.at("gate") = {"my gates/a.safetensors", "0123"};
    const RunCommand command = command_of(config);
    CHECK(command.lacks.empty());
    CHECK_THAT(command.line, ContainsSubstring("--student-cache trim_kv") &&
                                 ContainsSubstring("--set 'student_cache.gate=my gates/a.safetensors'") &&
                                 !ContainsSubstring("step_gate"));
}

TEST_CASE("a command that cannot say all of a run admits it", "[record][again]") {
    RunConfig config = plain_config();
    config.given_ids = {1, 2, 3};
    CHECK_THAT(command_of(config).lacks, ContainsSubstring("ids of its tokens"));
    config.given_ids.clear();
    CHECK(command_of(config).lacks.empty());
}
