// refreshlab check and doctor on the bundled pair, on a pair with two KV geometries, and on a task's prompt.
#include "tests/app/program.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <nlohmann/json.hpp>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace check_test {

using namespace refreshlab::test;
using Catch::Matchers::ContainsSubstring;

namespace {

namespace fs = std::filesystem;

std::string contents(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
}

/// The bundled student with keys that turn half as slowly: its columns mean something else than the teacher's.
std::string other_geometry(const Scratch& scratch) {
    const std::string folder = scratch / "student";
    fs::copy(RL_SOURCE_DIR "/assets/models/llama-tales-student", folder, fs::copy_options::recursive);
    nlohmann::json config = nlohmann::json::parse(contents(folder + "/config.json"));
    config["rope_theta"] = 20000.0;
    std::ofstream(folder + "/config.json") << config.dump();
    return folder;
}

} // namespace

TEST_CASE("check: the bundled pair is exact, and the report says so in text, JSON and CSV", "[app]") {
    const Scratch scratch("check");
    const Outcome check = refreshlab_cli({"check", "--steps", "6", "--lengths", "8,16", "--repetitions", "1",
                                          "--json", scratch / "report.json", "--csv", scratch / "csv"});
    INFO(check.err);
    CHECK(check.status == 0);
    CHECK_THAT(check.out, ContainsSubstring("every statement holds"));
    const auto report = nlohmann::json::parse(contents(scratch / "report.json"));
    CHECK(report["passed"] == true);
    CHECK(report["checks"].size() == 13);
    CHECK(report["latency"].size() == 4);
    const Table columns = read_csv(scratch / "csv/columns.csv");
    REQUIRE(columns.rows.size() == 2 * 5 * 6); // models, layers, steps
    CHECK(columns.at(0, "layer") == "0");      // as everywhere
    CHECK(columns.at(0, "step") == "1");
    CHECK(columns.at(columns.rows.size() - 1, "layer") == "4");
    CHECK(read_csv(scratch / "csv/latency.csv").rows.size() > 4);
}

TEST_CASE("check: every fault is caught, and the exit status says so", "[app]") {
    for (const char* fault :
         {"stale_cache", "off_by_one_position", "mask_one_too_long", "duplicated_token"}) {
        const Outcome check = refreshlab_cli({"check", "--steps", "6", "--no-latency", "--fault", fault});
        INFO(fault << ": " << check.err);
        CHECK(check.status == 0);
        CHECK_THAT(check.out, ContainsSubstring("The check caught the fault") && ContainsSubstring("BROKEN"));
    }
    const Outcome unknown = refreshlab_cli({"check", "--fault", "gremlins"});
    CHECK(unknown.status == 2);
    CHECK_THAT(unknown.err, ContainsSubstring("gremlins") && ContainsSubstring("stale_cache"));
}

TEST_CASE("a pair with two KV geometries runs in rebuild mode and says so", "[app]") {
    const Scratch scratch("rebuild");
    const std::string student = other_geometry(scratch);
    const Outcome run = refreshlab_cli(
        {"run", "--student", student, "--prompt", "Write a chronicle of 6 companies.", "--policy", "periodic",
         "--set", "periodic.every=8", "--max-tokens", "24", "--summary", scratch / "summary.json"});
    INFO(run.err);
    CHECK(run.status == 0);
    CHECK_THAT(run.err, ContainsSubstring("note: rebuild mode") && ContainsSubstring("rope_theta") &&
                            ContainsSubstring("changes nothing"));
    const auto summary = nlohmann::json::parse(contents(scratch / "summary.json"));
    CHECK_THAT(summary["note"].get<std::string>(), ContainsSubstring("rebuild mode"));
    const Outcome doctor =
        refreshlab_cli({"doctor", RL_SOURCE_DIR "/assets/models/llama-tales-teacher", student});
    CHECK(doctor.status == 0);
    CHECK_THAT(doctor.out, ContainsSubstring("theta 10000 | theta 20000 (differs)") &&
                               ContainsSubstring("rebuild mode") && ContainsSubstring("changes nothing"));
    const Outcome check = refreshlab_cli({"check", "--student", student, "--steps", "4", "--no-latency"});
    CHECK(check.status == 0);
    CHECK_THAT(check.out, ContainsSubstring("skipped"));
}

TEST_CASE("a model as its own student says that a refresh changes nothing", "[app]") {
    const Scratch scratch("same");
    const std::string model = RL_SOURCE_DIR "/assets/models/llama-tales-teacher";
    const Outcome run = refreshlab_cli({"run", "--teacher", model, "--student", model + "/.", "--prompt",
                                        "Write a chronicle of 6 companies.", "--policy", "burst",
                                        "--max-tokens", "24", "--summary", scratch / "summary.json"});
    INFO(run.err);
    CHECK(run.status == 0);
    CHECK_THAT(run.err, ContainsSubstring("note: teacher and student are one model") &&
                            ContainsSubstring("changes nothing"));
    const auto summary = nlohmann::json::parse(contents(scratch / "summary.json"));
    CHECK_THAT(summary["note"].get<std::string>(), ContainsSubstring("one model"));
    CHECK(summary["refresh_count"] > 0);
    const Outcome doctor = refreshlab_cli({"doctor", model, model});
    CHECK(doctor.status == 0);
    CHECK_THAT(doctor.out, ContainsSubstring("one model") && ContainsSubstring("changes nothing"));
}

TEST_CASE("doctor finds in a folder's tensors what a run would refuse", "[app]") {
    const Scratch scratch("tensors");
    const std::string source = RL_SOURCE_DIR "/assets/models/llama-tales-student";
    const auto check = [&](const char* key, int64_t value, const std::string& tensor,
                           const std::string& problem) {
        const std::string folder = scratch / "model";
        fs::remove_all(folder);
        fs::copy(source, folder, fs::copy_options::recursive);
        nlohmann::json config = nlohmann::json::parse(contents(folder + "/config.json"));
        config[key] = value;
        std::ofstream(folder + "/config.json") << config.dump();
        const Outcome doctor = refreshlab_cli({"doctor", folder}),
                      run = refreshlab_cli({"run", "--mode", "student", "--student", folder, "--prompt",
                                            "Hello", "--max-tokens", "2"});
        CAPTURE(key, doctor.out, run.err);
        CHECK(doctor.status == 1);
        CHECK_THAT(doctor.out, ContainsSubstring("BAD   weights") && ContainsSubstring(tensor) &&
                                   ContainsSubstring(problem));
        CHECK(run.status == 2);
        CHECK_THAT(run.err, ContainsSubstring(tensor) && ContainsSubstring(problem));
    };
    check("num_hidden_layers", 3, "model.layers.3.", ""); // five in the file
    check("num_hidden_layers", 6, "model.layers.5.input_layernorm.weight", "missing");
    check("intermediate_size", 64, "model.layers.0.mlp.gate_proj.weight", "config.json asks for [64, ");
}

TEST_CASE("a prompt of a bundled task is scored without being asked", "[app]") {
    const Scratch scratch("task");
    const auto score = [&](const char* prompt) {
        const Outcome run = refreshlab_cli({"run", "--prompt", prompt, "--max-tokens", "60", "--mode",
                                            "teacher", "--summary", scratch / "summary.json"});
        REQUIRE(run.status == 0);
        return nlohmann::json::parse(contents(scratch / "summary.json"));
    };
    const auto chronicle = score("Write a chronicle of 6 companies.");
    CHECK(chronicle["task_tokens"] > 3);
    CHECK(chronicle["task_score"] == 1.0); // the teacher knows the almanac
    const auto story = score("Tell me about a duck.");
    CHECK(story["task_tokens"] == 0);
    CHECK(story["task_score"].is_null());
}

TEST_CASE("a given text is read to its end", "[app]") {
    const Scratch scratch("given");
    std::ofstream(scratch / "given.txt") << "Once upon a time there was a king.";
    const Outcome run =
        refreshlab_cli({"run", "--prompt", "Tell me about a duck.", "--given-file", scratch / "given.txt",
                        "--policy", "burst", "--summary", scratch / "summary.json"});
    INFO(run.err);
    CHECK(run.status == 0);
    CHECK(run.out == "Once upon a time there was a king.");
    CHECK(nlohmann::json::parse(contents(scratch / "summary.json"))["stop_reason"] == "given_end");
    std::ofstream(scratch / "empty.txt").flush();
    CHECK(refreshlab_cli({"run", "--prompt", "x", "--given-file", scratch / "empty.txt"}).status == 2);
    CHECK(refreshlab_cli({"run", "--prompt", "x", "--given-file", scratch / "missing.txt"}).status == 2);
}

TEST_CASE("two paddings of one vocabulary make a pair, and change nothing", "[app]") {
    const Scratch scratch("padded");
    const std::string student = scratch / "student";
    fs::copy(RL_SOURCE_DIR "/assets/models/llama-tales-student", student, fs::copy_options::recursive);
    const std::string script = scratch / "pad.py";
    std::ofstream(script) << R"(import json, sys, glob
import torch
from safetensors.torch import load_file, save_file
folder = sys.argv[1]
for name in glob.glob(folder + "/*.safetensors"):
    weights = load_file(name)
    for key in ("model.embed_tokens.weight", "lm_head.weight"):
        if key in weights:
            weights[key] = torch.cat([weights[key], torch.full((32, weights[key].shape[1]), 9.0, dtype=weights[key].dtype)])
    save_file(weights, name)
config = json.load(open(folder + "/config.json"))
config["vocab_size"] += 32
json.dump(config, open(folder + "/config.json", "w"))
)";
    REQUIRE(std::system((std::string(RL_PYTHON) + " " + script + " " + student).c_str()) == 0);
    const auto run = [&](const std::string& folder) {
        return refreshlab_cli({"run", "--student", folder, "--prompt", "Write a chronicle of 6 companies.",
                               "--policy", "periodic", "--max-tokens", "80"});
    };
    const Outcome padded = run(student), plain = run(RL_SOURCE_DIR "/assets/models/llama-tales-student");
    INFO(padded.err);
    CHECK(padded.status == 0);
    CHECK(padded.out == plain.out);
    const Outcome doctor =
        refreshlab_cli({"doctor", RL_SOURCE_DIR "/assets/models/llama-tales-teacher", student});
    CHECK(doctor.status == 0);
    CHECK_THAT(doctor.out,
               ContainsSubstring("4096 | 4128 (may differ)") && ContainsSubstring("can be spliced"));
}

} // namespace check_test
