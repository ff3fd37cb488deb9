// `train bridge` on a pair of two geometries, and runs with what it makes.
#include "engine/base/json_file.h"
#include "tests/app/program.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

namespace train_bridge_cli_test {

namespace fs = std::filesystem;
using namespace refreshlab;
using namespace refreshlab::test;
using Catch::Matchers::ContainsSubstring;

namespace {

constexpr const char* teacher = "assets/models/llama-tales-teacher";

/// The bundled student without its third layer, or with one KV head.
void make_student(const std::string& folder, const std::string& how) {
    const std::string line =
        fmt::format("'{}' '{}/scripts/merge_kv_heads.py' '{}/assets/models/llama-tales-student' -o '{}' {}",
                    RL_PYTHON, RL_SOURCE_DIR, RL_SOURCE_DIR, folder, how);
    REQUIRE(std::system(line.c_str()) == 0); // NOLINT(cert-env33-c): a line of our own
}

std::vector<std::string> training(const std::string& student, const std::string& out,
                                  const std::vector<std::string>& more = {}, const char* steps = "0") {
    std::vector<std::string> line{
        "train",    "bridge", "--teacher", teacher,   "--student",
        student,    "-o",     out,         "--texts", "assets/prompts/roll_call.jsonl",
        "--length", "128",    "--steps",   steps};
    line.insert(line.end(), more.begin(), more.end());
    return line;
}

std::vector<std::string> run(const std::string& student, const std::vector<std::string>& more) {
    std::vector<std::string> line{"run",
                                  "--teacher",
                                  teacher,
                                  "--student",
                                  student,
                                  "--device",
                                  "cpu",
                                  "--max-tokens",
                                  "24",
                                  "--policy",
                                  "periodic",
                                  "--set",
                                  "periodic.every=8",
                                  "--prompt",
                                  "Write a chronicle of 3 companies."};
    line.insert(line.end(), more.begin(), more.end());
    return line;
}

void refused(const std::vector<std::string>& line, const std::string& words) {
    const Outcome outcome = refreshlab_cli(line);
    CHECK(outcome.status == 2);
    CHECK_THAT(outcome.err, ContainsSubstring(words));
}

} // namespace

TEST_CASE("a bridge is fitted, named or found beside the student, recorded, and refused elsewhere",
          "[cli][train]") {
    const Scratch scratch("train-bridge");
    const std::string student = scratch / "student", other = scratch / "other",
                      bridge = scratch / "bridge.safetensors", trace = scratch / "run.rlt";
    make_student(student, "--kv-heads 3 --drop-layer 2");
    make_student(other, "--kv-heads 1");
    const Outcome made = refreshlab_cli(training(student, bridge));
    INFO(made.err);
    REQUIRE(made.status == 0);
    CHECK_THAT(made.out, ContainsSubstring("| 3 | 4 |") && ContainsSubstring("held out"));
    CHECK(fs::file_size(bridge) > 4 * 192 * 384 * 4 * 2);
    // The same texts give the same bytes.
    const std::string again = scratch / "again.safetensors";
    REQUIRE(refreshlab_cli(training(student, again)).status == 0);
    CHECK(read_file(again) == read_file(bridge));

    // Trained behind the fit it is another one.
    const std::string csv = scratch / "losses";
    const Outcome trained = refreshlab_cli(training(student, again, {"--batch", "1", "--csv", csv}, "2"));
    INFO(trained.err);
    REQUIRE(trained.status == 0);
    CHECK_THAT(trained.out, ContainsSubstring("with the fit") && ContainsSubstring("after 2 steps"));
    CHECK(read_file(again) != read_file(bridge));
    CHECK(fs::exists(fs::path(csv) / "loss.csv"));
    CHECK_FALSE(fs::exists(again + ".part"));

    const Outcome without = refreshlab_cli(run(student, {}));
    CHECK_THAT(without.err, ContainsSubstring("rebuild mode"));
    const Outcome with = refreshlab_cli(run(student, {"--bridge", bridge, "--record", trace}));
    INFO(with.err);
    REQUIRE(with.status == 0);
    CHECK_THAT(with.err, ContainsSubstring("bridge: ") && ContainsSubstring("bridge.safetensors") &&
                             !ContainsSubstring("rebuild mode"));
    CHECK(with.out != without.out);
    const Outcome replayed = refreshlab_cli({"run", "--replay", trace, "--exact"});
    INFO(replayed.err);
    CHECK(replayed.status == 0);
    const Outcome split = refreshlab_cli({"score", trace, "--split"});
    INFO(split.err);
    CHECK(split.status == 0);

    refused(run(other, {"--bridge", bridge}), "was made for other models");
    refused(run("assets/models/llama-tales-student", {"--bridge", bridge}), "a bridge is not needed");
    refused(run(student, {"--bridge", scratch / "none.safetensors"}), "no such file");
    refused(training("assets/models/llama-tales-student", again), "a bridge is not needed");
    refused(training(student, again, {"--reach", "4", "--texts", scratch / "short.txt"}), "short.txt");

    // Beside the student it is found; a replay wants that file.
    fs::create_directories(fs::path(student) / "bridges");
    const fs::path beside = fs::path(student) / "bridges" / "of-the-teacher.safetensors";
    fs::copy(bridge, beside);
    const Outcome found = refreshlab_cli(run(student, {"--record", scratch / "found.rlt"}));
    CHECK_THAT(found.err, ContainsSubstring("of-the-teacher.safetensors"));
    CHECK(found.out == with.out);
    CHECK(refreshlab_cli(run(student, {"--bridge", "none"})).out == without.out);
    refused(training(student, beside.string()), "would overwrite what --student names");
    REQUIRE(refreshlab_cli(training(student, again, {"--inputs", "own"})).status == 0);
    fs::copy(again, beside, fs::copy_options::overwrite_existing);
    refused({"run", "--replay", scratch / "found.rlt"}, "another one than the recorded run read");
    fs::copy(bridge, fs::path(student) / "bridges" / "second.safetensors");
    refused(run(student, {}), "has two of this teacher");
}

} // namespace train_bridge_cli_test
