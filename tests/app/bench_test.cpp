// refreshlab bench as a program: its table, its JSON, its pictures, what it refuses; and the drivers of other programs.
#include "engine/base/json_file.h"
#include "tests/app/program.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace bench_test {

using namespace refreshlab;
using namespace refreshlab::test;
using Catch::Matchers::ContainsSubstring;

namespace {

namespace fs = std::filesystem;

const std::string student = RL_SOURCE_DIR "/assets/models/llama-tales-student";

int python(const std::string& arguments, const std::string& out) {
    return std::system((RL_PYTHON " " + arguments + " > '" + out + "' 2>&1").c_str());
}

} // namespace

TEST_CASE("bench: a quick one of the bundled pair has table, JSON and frames", "[app]") {
    const Scratch scratch("bench");
    std::ofstream(scratch / "frames.json")
        << R"([{"layout": "Explore", "steps": 100, "ms_median": 2.5, "ms_p99": 3.5}])";
    const Outcome bench = refreshlab_program({"bench", "--quick", "--json", scratch / "bench.json", "--ui",
                                              scratch / "frames.json", "--scratch", scratch / ".", "--only",
                                              "bandwidth,decode,refreshed_run,refresh,start_up"});
    INFO(bench.err);
    REQUIRE(bench.status == 0);
    CHECK_THAT(bench.out, ContainsSubstring("quick: too short to be quoted") &&
                              ContainsSubstring("tokens/s") && ContainsSubstring("process to first token") &&
                              ContainsSubstring("Explore"));
    const auto report = nlohmann::json::parse(read_file(scratch / "bench.json"));
    CHECK(report["setup"]["quick"] == true);
    CHECK(report["decode"].size() == 4);
    const auto& of_student = report["models"][1];
    CHECK(of_student["role"] == "student");
    CHECK(of_student["kv_bytes_per_cached_token"].get<int64_t>() ==
          2 * of_student["layers"].get<int64_t>() * of_student["kv_heads"].get<int64_t>() *
              of_student["head_dim"].get<int64_t>() * 4);
    const auto& start = report["start_up"];
    CHECK(start["parts"].size() == 6);
    CHECK(start["total_ms"]["count"] == 2);
    CHECK(start["peak_bytes"]["median"].get<double>() > start["libraries_bytes"]["median"].get<double>());
    CHECK(report["ui_frames"][0]["ms_median"] == 2.5);
    for (const auto& entry : fs::directory_iterator(scratch / "."))
        CHECK(entry.path().filename().string().find("refreshlab-bench") ==
              std::string::npos); // nothing is left
}

#if REFRESHLAB_UI
TEST_CASE("bench: pictures have their numbers beside them", "[app]") {
    const Scratch scratch("bench-figures");
    const Outcome bench =
        refreshlab_program({"bench", "--quick", "--only", "bandwidth,decode,refreshed_run,refresh",
                            "--figures", scratch / "figures"});
    INFO(bench.err);
    REQUIRE(bench.status == 0);
    for (const char* name : {"latency", "decode", "refresh"})
        CHECK(read_file(scratch / ("figures/" + std::string(name) + ".svg")).starts_with("<?xml"));
    CHECK(read_csv(scratch / "figures/decode.csv").rows.size() == 4); // two models at two contexts
    CHECK(read_csv(scratch / "figures/refresh.csv").rows.size() == 6);
}
#endif

TEST_CASE("bench: --decode-only writes the ids of the run to stdout", "[app]") {
    const Scratch scratch("bench-decode");
    std::ofstream(scratch / "ids.json") << "[20, 400, 33, 100]";
    const Outcome bench =
        refreshlab_program({"bench", "--decode-only", "--mode", "student", "--ids", scratch / "ids.json",
                            "--tokens", "7", "--rounds", "2", "--warm-ups", "0", "--json", "-"});
    INFO(bench.err);
    REQUIRE(bench.status == 0);
    const auto found = nlohmann::json::parse(bench.out);
    CHECK(found["ids"].size() == 7);
    CHECK(found["prompt_tokens"] == 4);
    CHECK(found["tokens_per_second"]["count"] == 2);
}

TEST_CASE("bench: what makes no sense is refused in one line", "[app]") {
    const Scratch scratch("bench-bad");
    std::ofstream(scratch / "ids.json") << "[1, -4]";
    std::ofstream(scratch / "text.json") << R"({"a": 1})";
    const std::pair<std::vector<std::string>, std::string> bad[] = {
        {{"--only", "decoed"}, "'decoed' is none of"},
        {{"--cache-policies", "h2o"}, "--cache-policies: needs --only cache_policies"},
        {{"--only", "cache_policies", "--cache-policies", "full,h3o"},
         "--cache-policies h3o: there is no such cache policy"},
        {{"--pairs", "4"}, "--pairs"},
        {{"--tokens", "1"}, "--tokens"},
        {{"--mode", "both"}, "'both' is not one of"},
        {{"--dtype", "f8"}, "'f8' is not one of"},
        {{"--set", "entropy.threshold=3"}, "has no part in a benchmark"},
        {{"--ids", scratch / "ids.json"}, "--decode-only"},
        {{"--decode-only", "--ids", scratch / "ids.json"}, "-4 is no token id"},
        {{"--decode-only", "--ids", scratch / "text.json"}, "is not a list of token ids"},
        {{"--ui", scratch / "text.json"}, "make bench-frame"},
        {{"--json", scratch / "none/x.json"}, "no such folder"},
        {{"--scratch", scratch / "none"}, "making a folder for a trace"},
        {{"--teacher", "/no/such/model"}, "/no/such/model"},
        {{"--json", student + "/x.json", "--student", student}, "would overwrite"}};
    for (const auto& [arguments, problem] : bad) {
        std::vector<std::string> all = {"bench", "--quick"};
        all.insert(all.end(), arguments.begin(), arguments.end());
        const Outcome bench = refreshlab_program(all);
        INFO(problem << "\n" << bench.err);
        CHECK(bench.status == 2);
        CHECK_THAT(bench.err, ContainsSubstring(problem));
        CHECK(std::ranges::count(bench.err, '\n') == 1);
        CHECK(bench.out.empty());
    }
}

TEST_CASE("bench: a plan of a shape is a prediction, as a table and as JSON", "[app]") {
    const Scratch scratch("bench-plan");
    const Outcome plan = refreshlab_cli({"bench", "--plan", "--device-model", "h200", "--shape",
                                         "1696x4512x28x24x8x128x128256", "--dtype", "bf16", "--context",
                                         "2048", "--json", scratch / "plan.json"});
    INFO(plan.err);
    REQUIRE(plan.status == 0);
    CHECK(plan.out.starts_with("PREDICTION"));
    CHECK_THAT(plan.out, ContainsSubstring("114 launches") && ContainsSubstring("floor 635.7 us") &&
                             ContainsSubstring("of the floor predicted") && ContainsSubstring("bound by"));
    const auto json = nlohmann::json::parse(read_file(scratch / "plan.json"));
    CHECK(json["prediction"] == true);
    CHECK(json["launches"].size() == 114);
    CHECK(json["bytes"] == 2498682880 + 2048 * 114688);
    CHECK(json["share_of_floor"].get<double>() ==
          json["floor_us"].get<double>() / json["predicted_us"].get<double>());
    // The same to stdout, and nothing else there.
    const Outcome piped = refreshlab_cli({"bench", "--plan", "--device-model", "h200", "--shape",
                                          "1696x4512x28x24x8x128x128256", "--json", "-"});
    REQUIRE(piped.status == 0);
    CHECK(nlohmann::json::parse(piped.out) == json);
}

TEST_CASE("bench: a plan of a model reads its configuration alone", "[app]") {
    const Outcome bundled = refreshlab_cli({"bench", "--plan", "--device-model", "rtx4090", "--json", "-"});
    const Outcome named =
        refreshlab_cli({"bench", "--plan", "--device-model", "rtx4090", "--model", student, "--dtype", "f32",
                        "--context", "100", "--mc", "8", "--refresh", "64", "--json", "-"});
    INFO(bundled.err << named.err);
    REQUIRE(bundled.status == 0);
    REQUIRE(named.status == 0);
    const auto a = nlohmann::json::parse(bundled.out), b = nlohmann::json::parse(named.out);
    const auto config = nlohmann::json::parse(read_file(student + "/config.json"));
    CHECK(a["model"]["name"] == "llama-tales-student");
    CHECK(a["context"] == 2048);
    CHECK(a["launches"].size() == 2 + 5 * config["num_hidden_layers"].get<size_t>());
    CHECK(a["device_model"]["dependent_launch_gap_us"].is_null());
    CHECK(a["launches"][1]["dependent"] == false);
    CHECK(b["rows"] == 9);
    CHECK(b["dtype"] == "f32");
    CHECK(b["refresh"]["tokens"] == 64);
    CHECK(b["refresh"]["student"]["name"] == "llama-tales-student");
    CHECK(b["refresh"]["launches"].back()["kernel"] == "splice");
    const auto weights = [](const nlohmann::json& plan) {
        int64_t sum = 0;
        for (const auto& launch : plan["launches"])
            sum += launch["traffic"]["matrices"].get<int64_t>();
        return sum;
    };
    CHECK(weights(b) == 2 * weights(a));
}

TEST_CASE("bench: a plan that makes no sense is refused in one line", "[app]") {
    const Scratch scratch("plan-bad");
    const std::pair<std::vector<std::string>, std::string> bad[] = {
        {{"--plan"}, "needs --device-model; one of h100, h200, rtx4090, rtx3090"},
        {{"--plan", "--device-model", "tpu"}, "'tpu' is none of h100, h200, rtx4090, rtx3090"},
        {{"--plan", "--device-model", "h200", "--shape", "1696x4512"},
         "HIDDENxFFNxLAYERSxHEADSxKV_HEADSxHEAD_DIMxVOCAB"},
        {{"--plan", "--device-model", "h200", "--shape", "64x96x2x4x3x16x1000"}, "no multiple of 3 KV heads"},
        {{"--plan", "--device-model", "h200", "--shape", "64x96x2x4x2x16x1000", "--model", student},
         "stands beside --model"},
        {{"--plan", "--device-model", "h200", "--model", "/no/such/model"}, "/no/such/model"},
        {{"--plan", "--device-model", "h200", "--model", scratch / "."}, "config.json"},
        {{"--plan", "--device-model", "h200", "--dtype", "native"}, "'native' is not one of bf16, f16, f32"},
        {{"--plan", "--device-model", "h200", "--dtype", "f8"}, "'f8' is not one of"},
        {{"--plan", "--device-model", "h200", "--context", "-1"}, "--context"},
        {{"--plan", "--device-model", "h200", "--tokens", "8"}, "has no part in --plan"},
        {{"--plan", "--device-model", "h200", "--teacher", student}, "has no part in --plan"},
        {{"--plan", "--device-model", "h200", "--json", scratch / "none/x.json"}, "no such folder"},
        {{"--plan", "--device-model", "h200", "--model", student, "--json", student + "/x.json"},
         "would overwrite"},
        {{"--device-model", "h200"}, "--device-model: needs --plan"},
        {{"--shape", "64x96x2x4x2x16x1000"}, "--shape: needs --plan"},
        {{"--mc", "2"}, "--mc: needs --plan"},
        {{"--attention-rows", "2"}, "--attention-rows: needs --plan"},
        {{"--attention-bins", "64"}, "--attention-bins: needs --plan"},
        {{"--plan", "--device-model", "h200", "--shape", "64x96x2x4x2x16x1000", "--attention-bins", "64"},
         "--attention-bins: needs --attention-rows"},
        {{"--plan", "--device-model", "h200", "--shape", "64x96x2x4x2x16x1000", "--attention-rows", "3"},
         "3 are more than the 2 layers"},
        {{"--student-shape", "64x96x2x4x2x16x1000"}, "--student-shape: needs --refresh"},
        {{"--plan", "--device-model", "h200", "--refresh-logits", "all"},
         "--refresh-logits: needs --refresh"},
        {{"--plan", "--device-model", "h200", "--refresh", "8", "--refresh-logits", "some"},
         "'some' is not one of none, last, all"},
        {{"--plan", "--device-model", "h200", "--context", "4", "--refresh", "8"},
         "8 tokens are more than the 4 of --context"},
        {{"--plan", "--device-model", "h200", "--shape", "64x96x2x4x2x16x1000", "--refresh", "8",
          "--student-shape", "64x96x3x4x2x16x1000"},
         "its cache is 3 layers of 2 KV heads of 16 channels"},
        {{"--plan", "--device-model", "h200", "--shape", "64x96x2x4x2x8x1000", "--refresh", "8"},
         "multiple of 16 channels, and here are 8"}};
    for (const auto& [arguments, problem] : bad) {
        std::vector<std::string> all = {"bench"};
        all.insert(all.end(), arguments.begin(), arguments.end());
        const Outcome bench = refreshlab_cli(all);
        INFO(problem << "\n" << bench.err);
        CHECK(bench.status == 2);
        CHECK_THAT(bench.err, ContainsSubstring(problem));
        CHECK(std::ranges::count(bench.err, '\n') == 1);
        CHECK(bench.out.empty());
    }
}

TEST_CASE("peers: a ratio of other texts is refused", "[app]") {
    const Scratch scratch("peers");
    const int state =
        python("-B -m unittest discover -s '" RL_SOURCE_DIR "/bench/peers' -p 'test_*.py'", scratch / "said");
    const std::string said = read_file(scratch / "said");
    INFO(said);
    CHECK(state == 0);
    CHECK_THAT(said, ContainsSubstring("Ran 7 tests"));
}

TEST_CASE("kernels: a trace of a GPU is joined with its plan", "[app]") {
    const Scratch scratch("kernels");
    const int state = python("-B -m unittest discover -s '" RL_SOURCE_DIR "/bench/kernels' -p 'test_*.py'",
                             scratch / "said");
    const std::string said = read_file(scratch / "said");
    INFO(said);
    CHECK(state == 0);
    CHECK_THAT(said, ContainsSubstring("Ran 4 tests"));
}

TEST_CASE("peers: transformers decodes the bundled student as we do", "[app]") {
    const Scratch scratch("peers-run");
    const int state = python("-B '" RL_SOURCE_DIR "/bench/peers/compare.py' --program '" RL_BUILD_DIR
                             "/refreshlab' --model '" +
                                 student +
                                 "' --peer transformers --tokens 6 --rounds 2 --warm-ups 0 --threads 1 "
                                 "--prompt-tokens 20 --json '" +
                                 (scratch / "peers.json") + "'",
                             scratch / "said");
    INFO(read_file(scratch / "said"));
    REQUIRE(state == 0);
    const auto report = nlohmann::json::parse(read_file(scratch / "peers.json"));
    REQUIRE(report["programs"].size() == 2);
    CHECK(report["programs"][0]["name"] == "refreshlab");
    CHECK(report["programs"][0]["ids"].size() == 6);
    CHECK(report["programs"][0]["ids"] == report["programs"][1]["ids"]);
    CHECK(report["programs"][1]["first_difference"].is_null());
    CHECK(report["programs"][1]["ratio"]["count"] == 2);
}

} // namespace bench_test
