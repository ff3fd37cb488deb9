// Refreshes with a scope, and `refreshlab scope`: flags, files, bytes, refusals.
#include "engine/base/json_file.h"
#include "tests/app/program.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>

namespace scope_app_test {

namespace fs = std::filesystem;
using namespace refreshlab;
using namespace refreshlab::test;
using Catch::Matchers::ContainsSubstring;
using nlohmann::json;

namespace {

std::vector<std::string> run_with(std::vector<std::string> more) {
    std::vector<std::string> arguments = {"run",
                                          "--prompt",
                                          "Write a chronicle of 2 companies.",
                                          "--max-tokens",
                                          "60",
                                          "--device",
                                          "cpu",
                                          "--policy",
                                          "periodic",
                                          "--set",
                                          "periodic.every=16"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
}

} // namespace

TEST_CASE("a scope is given by flags, and what it sends stands in summary, events, trace and info",
          "[cli][scope]") {
    const Scratch scratch("scope");
    const auto bytes_of = [&](const std::vector<std::string>& flags) {
        auto arguments = run_with(flags);
        arguments.insert(arguments.end(), {"--summary", scratch / "s.json", "--record", scratch / "run.rlt"});
        const Outcome run = refreshlab_cli(arguments);
        CAPTURE(run.err);
        REQUIRE(run.status == 0);
        const json summary = read_json_file(scratch / "s.json");
        int64_t sum = 0;
        for (const json& refresh : summary["refreshes"])
            sum += refresh["bytes_sent"].get<int64_t>();
        CHECK(summary["bytes_sent"] == sum);
        CHECK((run.err.find(" sent") != std::string::npos) == (sum > 0));
        REQUIRE(refreshlab_cli({"export", scratch / "run.rlt", "--csv", scratch / "csv"}).status == 0);
        const Table events = read_csv(scratch / "csv/events.csv");
        for (size_t i = 0; i < events.rows.size(); ++i)
            if (events.at(i, "kind") == "refresh") sum -= std::stoll(events.at(i, "bytes_sent"));
        CHECK(sum == 0);
        const Outcome info = refreshlab_cli({"info", scratch / "run.rlt", "--json"});
        CHECK(json::parse(info.out)["runs"][0]["bytes_sent"] == summary["bytes_sent"]);
        CHECK(refreshlab_cli({"run", "--replay", scratch / "run.rlt"}).status == 0);
        fs::remove(scratch / "run.rlt");
        return summary["bytes_sent"].get<int64_t>();
    };
    const int64_t whole = bytes_of({});
    CHECK(whole > 0);
    CHECK(bytes_of({"--set", "refresh.parts=values"}) == whole / 2);
    CHECK(bytes_of({"--set", "refresh.positions=drift", "--set", "refresh.count=4"}) == whole / 4);
    CHECK(bytes_of({"--set", "refresh.positions=newest", "--set", "refresh.count=0"}) == 0);
    refused_with(run_with({"--set", "refresh.layers=9-3"}),
                 "refresh.layers: \"9-3\" is no such text; layers and ranges of layers");
    refused_with(run_with({"--set", "refresh.layers=99"}), "layer 99: the model has layers 0 to ");
    refused_with(run_with({"--set", "refresh.kv_heads=0:9"}), "KV head 9: the model has KV heads 0 to ");
    refused_with(run_with({"--student-cache", "kv_direct", "--set", "refresh.parts=keys"}),
                 "kv_direct computes entries again");
}

TEST_CASE("a scope map of a trace is printed, written and drawn, and its flags run", "[cli][scope]") {
    const Scratch scratch("scope-map");
    const std::string trace = scratch / "t.rlt";
    REQUIRE(refreshlab_cli({"run", "--prompt", "Write a chronicle of 2 companies.", "--mode", "teacher",
                            "--max-tokens", "130", "--device", "cpu", "--record", trace})
                .status == 0);
    const Outcome map = refreshlab_cli({"scope", trace, "--every", "16", "--horizon", "16", "--keep", "0.8",
                                        "--csv", scratch / "out", "--json", scratch / "s.json"});
    CAPTURE(map.err, map.out);
    REQUIRE(map.status == 0);
    const json numbers = read_json_file(scratch / "s.json");
    CHECK(numbers["refreshes"].size() == 7); // the last with 16 tokens behind it is at 112
    CHECK(numbers["refreshes"][0]["delta"] == 16);
    for (const char* file : {"halves.csv", "layers.csv", "layer_halves.csv", "heads.csv", "blocks.csv",
                             "refreshes.csv", "table.md", "figures.json"}) {
        CAPTURE(file);
        CHECK(fs::exists(fs::path(scratch / "out") / file));
    }
    CHECK(read_csv(scratch / "out/halves.csv").rows.size() == 2);
    if (!numbers["scopes"].empty()) {
        const Table scopes = read_csv(scratch / "out/scopes.csv");
        CHECK_THAT(map.out, ContainsSubstring(scopes.at(0, "flags")));
    }
#if REFRESHLAB_UI
    CHECK(refreshlab_cli({"figure", scratch / "out", "--all", "-o", scratch / "figures"}).status == 0);
    const Outcome drawn =
        refreshlab_cli({"figure", trace, "--panel", "scope", "--measure", "missed", "-o", scratch / "f.svg"});
    CAPTURE(drawn.err);
    CHECK(drawn.status == 0);
    CHECK(read_csv(scratch / "f.csv").at(0, "of") == "without");
    refused_with({"figure", trace, "--panel", "scope", "--measure", "all", "-o", scratch / "g.svg"},
                 "none of alone, missed");
#endif
    // The map stays with the run.
    const json kept = json::parse(refreshlab_cli({"info", trace, "--json"}).out)["runs"][0]["scope_map"];
    CHECK(kept["refreshes"] == 7);
    CHECK(kept["taken"] == numbers["taken"].size());
    CHECK_THAT(refreshlab_cli({"info", trace}).out, ContainsSubstring("parts of 7 refreshes"));
    const Outcome other =
        refreshlab_cli({"scope", trace, "--every", "32", "--keep", "0", "--student",
                        (fs::path(RL_SOURCE_DIR) / "assets/models/llama-tales-teacher").string()});
    CAPTURE(other.err);
    CHECK(other.status == 0);
    CHECK_THAT(other.err, ContainsSubstring("not kept in the trace"));
    CHECK(json::parse(refreshlab_cli({"info", trace, "--json"}).out)["runs"][0]["scope_map"]["refreshes"] ==
          7);
    // A branch's file takes it along; the branch has another text, and none of its own.
    const Outcome branch =
        refreshlab_cli({"run", "--branch", trace + "@20", "--seed", "9", "--record", scratch / "branch.rlt"});
    CAPTURE(branch.err);
    REQUIRE(branch.status == 0);
    const json runs = json::parse(refreshlab_cli({"info", scratch / "branch.rlt", "--json"}).out)["runs"];
    REQUIRE(runs.size() == 2);
    CHECK(runs[0]["scope_map"] == kept);
    CHECK(runs[1]["scope_map"].is_null());
    refused_with({"scope", scratch / "none.rlt"}, "no such file");
    refused_with({"scope", trace, "--every", "8", "--at", "3"}, "--every and --at both");
    refused_with({"scope", trace, "--at", "9,3"}, "ascending");
    refused_with({"scope", trace, "--horizon", "4000"}, "no refresh has 4000 tokens behind it");
    refused_with({"scope", trace, "--run", "0123"}, "no run 0123");
    refused_with({"scope", trace, "--json", trace}, "TRACE");
    refused_with({"scope"}, "TRACE");
}

} // namespace scope_app_test
