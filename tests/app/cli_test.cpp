// `run`, `export`, `doctor`, `gui` as a shell sees them.
#include "engine/base/json_file.h"
#include "tests/app/program.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <filesystem>

namespace cli_test {

using namespace refreshlab;
using namespace refreshlab::test;
using Catch::Matchers::ContainsSubstring;

namespace {

std::vector<std::string> short_run(const std::vector<std::string>& more) {
    std::vector<std::string> arguments{
        "run", "--prompt", "Tell a story about a fox.", "--max-tokens", "40", "--device", "cpu"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
}

} // namespace

TEST_CASE("the text alone goes to stdout, progress and summary to stderr", "[cli]") {
    const Outcome a = refreshlab_cli(short_run({}));
    REQUIRE(a.status == 0);
    CHECK(a.out.size() > 20);
    CHECK_THAT(a.err, ContainsSubstring("tokens") && !ContainsSubstring("\033"));
    CHECK_THAT(a.out, !ContainsSubstring("<|"));
    const Outcome b = refreshlab_cli(short_run({"--threads", "1"}));
    CHECK(b.out == a.out);
    const Outcome c = refreshlab_cli(short_run({"--temperature", "0.9", "--seed", "4"}));
    const Outcome d =
        refreshlab_cli(short_run({"--temperature", "0.9", "--seed", "4", "--set", "mc.measure=true"}));
    CHECK(c.out != a.out);
    CHECK(c.out == d.out);
}

TEST_CASE("the summary holds what it promises", "[cli]") {
    const Scratch scratch("summary");
    const Outcome run = refreshlab_cli(short_run({"--policy", "burst", "--summary", scratch / "s.json"}));
    REQUIRE(run.status == 0);
    const nlohmann::json s = read_json_file(scratch / "s.json");
    for (const char* key : {"mode", "policy", "tokens", "stop_reason", "refreshes", "ttft_ms", "decode_tps",
                            "end_to_end_tps", "total_s", "mean_entropy_bits", "teacher_ppl", "tail_logprob",
                            "repetition3", "characters", "device", "dtype", "threads", "seed", "versions"}) {
        CAPTURE(key);
        CHECK(s.contains(key));
    }
    CHECK(s["mode"] == "overfill");
    CHECK(s["tokens"] == 40);
    CHECK(s["stop_reason"] == "max_tokens");
    CHECK(s["refreshes"].size() == 4);
    for (const auto& refresh : s["refreshes"]) {
        for (const char* key : {"step", "reason", "delta", "spliced", "teacher_ms", "splice_ms"})
            CHECK(refresh.contains(key));
        CHECK(refresh["spliced"] == 8);
    }
    CHECK(s["ttft_ms"].get<double>() > 0);
    CHECK(s["total_s"].get<double>() * 1000 >= s["ttft_ms"].get<double>());
    CHECK(s["teacher_ppl"].get<double>() > 1);
    CHECK(s["tail_logprob"].get<double>() < 0);
    CHECK(s["device"] == "cpu");
    CHECK(s["dtype"] == "f32");
}

TEST_CASE("steps.csv leaves empty what was not measured", "[cli]") {
    const Scratch scratch("csv");
    REQUIRE(refreshlab_cli(short_run({"--policy", "kl", "--set", "kl.every=10", "--set", "kl.threshold=1000",
                                      "--record", scratch / "r.rlt"}))
                .status == 0);
    REQUIRE(refreshlab_cli({"export", scratch / "r.rlt", "--csv", scratch / "out"}).status == 0);
    for (const char* file : {"steps.csv", "topk.csv", "events.csv", "drift.csv", "meta.json"}) {
        CHECK(std::filesystem::exists(scratch / (std::string("out/") + file)));
    }
    const Table steps = read_csv(scratch / "out/steps.csv");
    REQUIRE(steps.rows.size() == 40);
    const std::vector<std::string> first(steps.header.begin(), steps.header.begin() + 5);
    CHECK(first == std::vector<std::string>{"step", "position", "token_id", "text", "logprob"});
    CHECK(steps.header.back() == "reason");
    const nlohmann::json meta = read_json_file(scratch / "out/meta.json");
    for (size_t i = 0; i < 40; ++i) {
        CHECK(steps.at(i, "step") == std::to_string(i + 1));
        CHECK(steps.at(i, "mc_variance").empty());
        CHECK(steps.at(i, "kl_nats").empty() ==
              (i >= 30)); // probes at 10, 20, 30; nothing is refreshed at the end
        CHECK(steps.at(i, "entropy_bits").empty() == (i == 39)); // y_N is never fed
        CHECK_FALSE(steps.at(i, "teacher_logprob").empty());     // scored by the closing pass
        CHECK(steps.at(i, "refreshed") == "0");
    }
    CHECK(meta["config"]["prompt"] == "Tell a story about a fox.");
    CHECK_THAT(meta["rendered_prompt"].get<std::string>(), ContainsSubstring("Tell a story about a fox."));
}

TEST_CASE("a run that a signal stops keeps what there is and says so in its status", "[cli]") {
    for (const int signal : {SIGINT, SIGTERM}) {
        CAPTURE(signal);
        const Scratch scratch("stopped");
        const std::string program = RL_BUILD_DIR "/refreshlab", trace = scratch / "run.rlt";
        int text[2];
        REQUIRE(pipe(text) == 0);
        const pid_t child = fork();
        if (child == 0) {
            dup2(text[1], STDOUT_FILENO);
            dup2(open((scratch / "err").c_str(), O_CREAT | O_WRONLY, 0600), STDERR_FILENO);
            if (chdir(RL_SOURCE_DIR) != 0) _exit(126);
            execl(program.c_str(), program.c_str(), "run", "--prompt", "Write a chronicle of 6 companies.",
                  "--max-tokens", "2000", "--ignore-stop", "--record", trace.c_str(), nullptr);
            _exit(127);
        }
        close(text[1]);
        char first = 0;
        REQUIRE(read(text[0], &first, 1) == 1); // it decodes
        kill(child, signal);
        std::string rest(65536, '\0');
        while (read(text[0], rest.data(), rest.size()) > 0) {
        }
        close(text[0]);
        int state = 0;
        waitpid(child, &state, 0);
        CHECK((WIFEXITED(state) && WEXITSTATUS(state) == 128 + signal));
        CHECK_THAT(read_file(scratch / "err"),
                   ContainsSubstring("cancelled") && ContainsSubstring("teacher perplexity"));
        CHECK(refreshlab_cli({"run", "--replay", trace}).status == 0);
    }
}

TEST_CASE("the second signal ends a run at once, whatever it is doing", "[cli]") {
    const Scratch scratch("twice");
    const std::string program = RL_BUILD_DIR "/refreshlab";
    int text[2];
    REQUIRE(pipe(text) == 0);
    const pid_t child = fork();
    if (child == 0) {
        dup2(text[1], STDOUT_FILENO);
        dup2(open((scratch / "err").c_str(), O_CREAT | O_WRONLY, 0600), STDERR_FILENO);
        close(text[0]);
        close(text[1]);
        if (chdir(RL_SOURCE_DIR) != 0) _exit(126);
        execl(program.c_str(), program.c_str(), "run", "--prompt", "Write a chronicle of 6 companies.",
              "--max-tokens", "2000", "--ignore-stop", nullptr);
        _exit(127);
    }
    close(text[1]);
    char first = 0;
    REQUIRE(read(text[0], &first, 1) == 1); // it decodes, so the first signal is only noted
    kill(child, SIGINT);
    kill(child, SIGTERM); // two of one kind could be delivered as one
    // Nobody reads any more: a run that waited for that, or went on to its end, would exit by itself.
    close(text[0]);
    int state = 0;
    waitpid(child, &state, 0);
    REQUIRE(WIFSIGNALED(state));
    CHECK((WTERMSIG(state) == SIGINT || WTERMSIG(state) == SIGTERM));
}

TEST_CASE("a signal of one's own is written on the command line, recorded, exported, and refreshes",
          "[cli][expression]") {
    const Scratch scratch("own_signal");
    const Outcome run = refreshlab_cli(
        short_run({"--signal", "rise = entropy_bits - mean(entropy_bits, 8)", "--trigger",
                   "rise > 1 cooldown 8", "--record", scratch / "own.rlt", "--summary", scratch / "s.json"}));
    INFO(run.err);
    REQUIRE(run.status == 0);
    const nlohmann::json s = read_json_file(scratch / "s.json");
    CHECK(s["policy"] == "custom");
    REQUIRE(!s["refreshes"].empty());
    for (const auto& refresh : s["refreshes"])
        CHECK(refresh["reason"] == "rise");
    REQUIRE(refreshlab_cli({"export", scratch / "own.rlt", "--csv", scratch / "csv"}).status == 0);
    const Table steps = read_csv(scratch / "csv/steps.csv");
    CHECK(std::ranges::find(steps.header, "rise") != steps.header.end());
    CHECK(refreshlab_cli({"run", "--replay", scratch / "own.rlt"}).status == 0);
    const auto refused = [](std::vector<std::string> more, const char* words) {
        const Outcome outcome = refreshlab_cli(short_run(more));
        CHECK(outcome.status == 2);
        CHECK_THAT(outcome.err, ContainsSubstring(words));
    };
    refused({"--signal", "rise = entropy_bits - maen(entropy_bits, 8)"},
            "column 23: \"maen\" is no function; did you mean mean");
    refused({"--signal", "rise"}, "has no \"=\"");
    refused({"--trigger", "rise > 1"}, "unknown signal \"rise\"");
    refused({"--signal", "a = entropy_bits", "--signal", "a = top1_prob"}, "a stands there twice");
}

TEST_CASE("a signal of one's own is worked out for a run that was recorded without it", "[cli][expression]") {
    const Scratch scratch("own_later");
    const std::string rise = "rise = entropy_bits - mean(entropy_bits, 8)";
    REQUIRE(refreshlab_cli(short_run({"--record", scratch / "plain.rlt"})).status == 0);
    REQUIRE(refreshlab_cli(short_run({"--signal", rise, "--record", scratch / "own.rlt"})).status == 0);
    const auto column = [&](const std::string& trace, const std::vector<std::string>& more) {
        std::vector<std::string> arguments{"export", scratch / (trace + ".rlt"), "--csv", scratch / trace};
        arguments.insert(arguments.end(), more.begin(), more.end());
        REQUIRE(refreshlab_cli(arguments).status == 0);
        const Table steps = read_csv(scratch / (trace + "/steps.csv"));
        const auto at = std::ranges::find(steps.header, "rise") - steps.header.begin();
        REQUIRE(at < std::ssize(steps.header));
        std::vector<std::string> values;
        for (const auto& row : steps.rows)
            values.push_back(row[static_cast<size_t>(at)]);
        return values;
    };
    const auto live = column("own", {}), later = column("plain", {"--signal", rise});
    CHECK(live.size() > 10);
    CHECK_FALSE(live.back() == live.front());
    CHECK(live == later);
    const Outcome missing = refreshlab_cli(
        {"export", scratch / "plain.rlt", "--csv", scratch / "x", "--signal", "spread = mc_variance + 1"});
    CHECK(missing.status == 2);
    CHECK_THAT(missing.err, ContainsSubstring("did not measure mc_variance"));
    const Outcome other = refreshlab_cli(
        {"export", scratch / "own.rlt", "--csv", scratch / "x", "--signal", "rise = entropy_bits"});
    CHECK(other.status == 2);
    CHECK_THAT(other.err, ContainsSubstring("choose another name"));
}

TEST_CASE("a recorded run replays from its file", "[cli]") {
    const Scratch scratch("replay");
    const Outcome run = refreshlab_cli(
        short_run({"--temperature", "0.7", "--policy", "mc", "--set", "mc.threshold=0.01", "--set",
                   "mc.every=4", "--set", "mc.cooldown=4", "--record", scratch / "r.rlt"}));
    REQUIRE(run.status == 0);
    const Outcome again = refreshlab_cli({"run", "--replay", scratch / "r.rlt"});
    CHECK(again.status == 0);
    CHECK(again.out == run.out);
    CHECK_THAT(again.err, ContainsSubstring("identical"));
}

TEST_CASE("a run is steered from a file as it is from the window", "[cli]") {
    const Scratch scratch("commands");
    write_file(
        scratch / "c.json",
        R"([{"step": 30, "command": {"command": "set_parameter", "key": "periodic.every", "value": "5"}},
                   {"step": 12, "command": {"command": "refresh_now"}}])");
    const auto steered = [&](const std::string& commands, const std::string& name) {
        return refreshlab_cli(
            short_run({"--policy", "periodic", "--commands", commands, "--record", scratch / (name + ".rlt"),
                       "--summary", scratch / (name + ".json")}));
    };
    const Outcome run = steered(scratch / "c.json", "a");
    CAPTURE(run.err);
    REQUIRE(run.status == 0);
    const nlohmann::json refreshes = read_json_file(scratch / "a.json")["refreshes"];
    REQUIRE(refreshes.size() == 3);
    CHECK((refreshes[0]["step"] == 12 && refreshes[0]["reason"] == "manual"));
    CHECK((refreshes[1]["step"] == 30 &&
           refreshes[1]["reason"] == "periodic")); // 18 columns wait, 5 are enough
    CHECK(refreshes[2]["step"] == 35);
    CHECK(refreshlab_cli({"run", "--replay", scratch / "a.rlt"}).status == 0);

    // What was done goes into meta.json in the same form.
    REQUIRE(refreshlab_cli({"export", scratch / "a.rlt", "--csv", scratch / "a"}).status == 0);
    write_file(scratch / "again.json", read_json_file(scratch / "a/meta.json")["commands"].dump());
    const Outcome again = steered(scratch / "again.json", "b");
    CHECK(again.status == 0);
    CHECK(again.out == run.out);
    CHECK(read_json_file(scratch / "b.json")["refreshes"].size() == 3);

    // Refused in mid-run: the rest goes on and the file is whole; after the end: said.
    write_file(scratch / "late.json",
               R"([{"step": 3, "command": {"command": "request_attention", "position": 1900}},
                   {"step": 9, "command": {"command": "refresh_now"}},
                   {"step": 90, "command": {"command": "refresh_now"}}])");
    const Outcome late = steered(scratch / "late.json", "c");
    CHECK(late.status == 1);
    CHECK_THAT(late.err, ContainsSubstring("step 3") && ContainsSubstring("1900") &&
                             ContainsSubstring("1 of the commands"));
    CHECK(read_json_file(scratch / "c.json")["tokens"] == 40);
    CHECK(read_json_file(scratch / "c.json")["refreshes"][0]["step"] == 9);
}

TEST_CASE("policies are listed, and a run under one of them replays", "[cli]") {
    const auto listed = nlohmann::json::parse(refreshlab_cli({"policies", "--json"}).out);
    for (const char* part : {"refresh_presets", "signals", "cache_policies"})
        CHECK(listed.at(part).size() > 5);
    const std::string text = refreshlab_cli({"policies"}).out;
    for (const auto& policy : listed.at("cache_policies")) {
        CHECK_THAT(text, ContainsSubstring(policy.at("summary").get<std::string>()));
        for (const auto& parameter : policy.at("parameters"))
            CHECK(parameter.contains("default"));
    }
    const Scratch scratch("cache-policy");
    const std::string trace = scratch / "run.rltrace";
    REQUIRE(refreshlab_cli({"run", "--prompt", "Tell a story about a fox.", "--max-tokens", "24",
                            "--student-cache", "h2o", "--set", "student_cache.budget=12", "--policy",
                            "periodic", "--set", "periodic.every=7", "--record", trace})
                .status == 0);
    CHECK(refreshlab_cli({"run", "--replay", trace}).status == 0);
    CHECK(refreshlab_cli({"landscape", trace}).status == 2);
}

TEST_CASE("the chat template is used unless --raw-prompt says no", "[cli]") {
    const Scratch scratch("template");
    REQUIRE(refreshlab_cli(short_run({"--record", scratch / "chat.rlt"})).status == 0);
    REQUIRE(refreshlab_cli(short_run({"--raw-prompt", "--record", scratch / "raw.rlt"})).status == 0);
    const auto ids = [&](const std::string& name) {
        REQUIRE(refreshlab_cli({"export", scratch / (name + ".rlt"), "--csv", scratch / name}).status == 0);
        return read_file(scratch / (name + "/meta.json"));
    };
    CHECK_THAT(ids("chat"), ContainsSubstring("<|begin|><|user|>Tell a story about a fox.<|assistant|>"));
    CHECK_THAT(ids("raw"), !ContainsSubstring("<|user|>"));
}

TEST_CASE("reduced precision runs and stays near f32", "[cli]") {
    const Scratch scratch("dtype");
    nlohmann::json f32, other;
    REQUIRE(refreshlab_cli(short_run({"--summary", scratch / "a.json"})).status == 0);
    f32 = read_json_file(scratch / "a.json");
    for (const char* dtype : {"bf16", "f16"}) {
        REQUIRE(refreshlab_cli(short_run({"--dtype", dtype, "--summary", scratch / "b.json"})).status == 0);
        other = read_json_file(scratch / "b.json");
        CHECK(other["dtype"] == dtype);
        CHECK(std::abs(other["mean_entropy_bits"].get<double>() - f32["mean_entropy_bits"].get<double>()) <
              1.5);
    }
}

TEST_CASE("help is complete and doctor finds the bundled pair well", "[cli]") {
    for (const char* command : {"run", "gui", "export", "doctor"}) {
        const Outcome help = refreshlab_cli({command, "--help"});
        CHECK(help.status == 0);
        CHECK_THAT(help.out, ContainsSubstring("Usage"));
    }
    CHECK_THAT(refreshlab_cli({"run", "--help"}).out, ContainsSubstring("entropy.threshold") &&
                                                          ContainsSubstring("budget.refreshes") &&
                                                          ContainsSubstring("--record"));
    const std::string keys = refreshlab_cli({"run", "--help"}).out;
    const auto default_of = [&](const std::string& key) {
        const size_t line = keys.find("\n  " + key + " ");
        REQUIRE(line != std::string::npos);
        const std::string text = keys.substr(line + 1, keys.find('\n', line + 1) - line - 1);
        const size_t at = text.find(", default ");
        return at == std::string::npos ? std::string() : text.substr(at + 10, text.rfind(']') - at - 10);
    };
    // What a preset of its own sets is said with the preset.
    CHECK(default_of("window.size") == "none (window: 32; burst: 8)");
    CHECK(default_of("on_fire") ==
          "keep (speculative: verify; entropy_stop: verify; confidence_stop: verify; "
          "verify_when_unsure: verify)");
    CHECK(default_of("verify.rule") == "exact");
    CHECK(default_of("periodic.every") == "64");
    CHECK(default_of("burst.every") == "8");
    CHECK(default_of("entropy.threshold") == "6");
    CHECK(default_of("mi.threshold").empty());
    CHECK(refreshlab_program({"--help"}).status == 0);
    CHECK(refreshlab_program({"--version"}).status == 0);
    const Outcome doctor = refreshlab_program({"doctor"});
    CHECK(doctor.status == 0);
    CHECK_THAT(doctor.out, ContainsSubstring("one KV geometry") && ContainsSubstring("can be spliced"));
}

} // namespace cli_test
