// `train-gate`, and runs with what it makes.
#include "engine/base/json_file.h"
#include "tests/app/program.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

namespace train_gate_cli_test {

namespace fs = std::filesystem;
using namespace refreshlab::test;
using Catch::Matchers::ContainsSubstring;

namespace {

/// A quick training of the bundled student.
std::vector<std::string> training(const std::string& method, const std::string& out,
                                  const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments{"train-gate", method,
                                       "--model",    "assets/models/llama-tales-student",
                                       "--texts",    "assets/prompts/roll_call.jsonl",
                                       "-o",         out,
                                       "--steps",    "3",
                                       "--batch",    "1"};
    if (std::ranges::find(more, "--length") == more.end())
        arguments.insert(arguments.end(), {"--length", "64"});
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
}

} // namespace

TEST_CASE("a gate is trained, compared, drawn, and read by a run", "[cli][train]") {
    const Scratch scratch("train-gate");
    const std::string gate = scratch / "gate.safetensors", tables = scratch / "tables",
                      trace = scratch / "run.rlt";
    const Outcome made = refreshlab_cli(training("trim_kv", gate, {"--csv", tables}));
    REQUIRE(made.status == 0);
    CHECK_THAT(made.out, ContainsSubstring("| trim_kv") && ContainsSubstring("| h2o") &&
                             ContainsSubstring("of texts held out"));
    CHECK_THAT(made.err, ContainsSubstring("held out") && ContainsSubstring("left"));
    CHECK(!fs::exists(gate + ".part"));
    CHECK(fs::exists(fs::path(tables) / "loss.csv"));
    REQUIRE(refreshlab_cli({"figure", tables, "--panel", "loss", "-o", scratch / "loss.svg"}).status == 0);
    CHECK(fs::file_size(scratch / "loss.svg") > 1000);

    const std::vector<std::string> run = {"run",
                                          "--prompt",
                                          "Write a chronicle of 3 companies.",
                                          "--max-tokens",
                                          "12",
                                          "--mode",
                                          "student",
                                          "--student-cache",
                                          "trim_kv",
                                          "--set",
                                          "student_cache.budget=8",
                                          "--set",
                                          "student_cache.gate=" + gate,
                                          "--record",
                                          trace};
    const Outcome ran = refreshlab_cli(run);
    REQUIRE(ran.status == 0);
    CHECK_THAT(refreshlab_cli({"report", trace, "-o", scratch / "run.html"}).err,
               !ContainsSubstring("refreshlab:"));
    CHECK_THAT(refreshlab::read_file(scratch / "run.html"), ContainsSubstring("student_cache.gate="));
    const Outcome replayed = refreshlab_cli({"run", "--replay", trace});
    CHECK(replayed.status == 0);
    CHECK(replayed.out == ran.out);
    // Trained anew it is another gate: the trace says so.
    REQUIRE(refreshlab_cli(training("trim_kv", gate, {"--seed", "1"})).status == 0);
    refused_with({"run", "--replay", trace}, "another one than the recorded run read");
    // The teacher's prompt needs the teacher's gate.
    refused_with({"run", "--prompt", "Write.", "--student-cache", "locret", "--set", "student_cache.budget=8",
                  "--set", "student_cache.gate=" + gate},
                 "gate of trim_kv, not of locret");
    refused_with({"run", "--prompt", "Write.", "--student-cache", "trim_kv", "--set",
                  "student_cache.budget=8", "--set", "student_cache.gate=" + gate},
                 "another model (llama-tales-student)");
}

TEST_CASE("the bundled models bring their gates", "[cli][train]") {
    for (const char* method : {"trim_kv", "locret"}) {
        for (const char* mode : {"overfill", "teacher", "student"}) {
            CAPTURE(method, mode);
            const std::string cache = std::string(mode) == "teacher" ? "teacher" : "student";
            const Outcome run = refreshlab_cli({"run", "--prompt", "Write a chronicle of 3 companies.",
                                                "--max-tokens", "6", "--mode", mode, "--" + cache + "-cache",
                                                method, "--set", cache + "_cache.budget=8"});
            CHECK(run.status == 0);
        }
    }
}

TEST_CASE("what train-gate is asked for wrongly is one line", "[cli][train][bad-input]") {
    const Scratch scratch("train-gate-bad");
    const std::string gate = scratch / "gate.safetensors";
    refused_with(training("trim_vk", gate), "did you mean trim_kv");
    refused_with(training("trim_kv", gate, {"--reading", "decay=slowly"}), "bias or multiply");
    refused_with(training("trim_kv", gate, {"--reading", "target=logits"}), "no such point");
    refused_with(training("trim_kv", gate, {"--length", "4096"}), "context of 2048");
    refused_with(training("trim_kv", gate, {"--texts", "none.jsonl"}), "none.jsonl");
    refused_with(training("trim_kv", "assets/prompts/roll_call.jsonl"), "--texts");
    refused_with(training("trim_kv", scratch / "no-folder/gate.safetensors"), "no-folder");
    refreshlab::write_file(gate + ".part", "no training");
    refused_with(training("trim_kv", gate), "gate.safetensors.part");
    CHECK(refreshlab_cli(training("trim_kv", gate, {"--restart"})).status == 0);
    refused_with({"run", "--prompt", "Write.", "--student-cache", "h2o", "--set", "student_cache.gate=x"},
                 "cache policy h2o has no gate");
}

} // namespace train_gate_cli_test
