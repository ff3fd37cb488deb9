// `profile`, and runs with what it makes.
#include "engine/base/json_file.h"
#include "tests/app/program.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

namespace profile_cli_test {

using namespace refreshlab::test;
using Catch::Matchers::ContainsSubstring;

namespace {

std::vector<std::string> measuring(const std::string& method, const std::string& out) {
    return {"profile",  method,
            "--model",  "assets/models/llama-tales-student",
            "--texts",  "assets/prompts/roll_call.jsonl",
            "--length", "64",
            "-o",       out};
}

Outcome run_with(const std::string& mode, const std::string& profile) {
    const std::string cache = mode == "teacher" ? "teacher" : "student";
    std::vector<std::string> arguments{"run",
                                       "--prompt",
                                       "Write a chronicle of 3 companies.",
                                       "--max-tokens",
                                       "6",
                                       "--mode",
                                       mode,
                                       "--" + cache + "-cache",
                                       "compress_kv",
                                       "--set",
                                       cache + "_cache.budget=8"};
    if (!profile.empty()) arguments.insert(arguments.end(), {"--set", cache + "_cache.profile=" + profile});
    return refreshlab_cli(arguments);
}

} // namespace

TEST_CASE("a profile is measured, printed, and read by a run", "[cli][train]") {
    const Scratch scratch("profile");
    const std::string profile = scratch / "profile.json";
    const Outcome made = refreshlab_cli(measuring("compress_kv", profile));
    REQUIRE(made.status == 0);
    CHECK_THAT(made.out, ContainsSubstring("| layer | heads | error |"));
    CHECK(run_with("student", profile).status == 0);
    // The teacher's prompt needs the teacher's profile.
    const Outcome foreign = run_with("overfill", profile);
    CHECK(foreign.status == 2);
    CHECK_THAT(foreign.err, ContainsSubstring("another model (llama-tales-student)"));
    refreshlab::write_file(profile, "{}");
    CHECK_THAT(run_with("student", profile).err, ContainsSubstring("profile.json"));
    // The bundled models bring their own.
    for (const char* mode : {"overfill", "teacher", "student"})
        CHECK(run_with(mode, "").status == 0);
}

TEST_CASE("EpiCache reads its profile where its layers go by it", "[cli][train]") {
    const Scratch scratch("profile-epicache");
    const std::string profile = scratch / "profile.json";
    auto asked = measuring("epicache", profile);
    asked.insert(asked.end(), {"--block", "16"});
    const Outcome made = refreshlab_cli(asked);
    REQUIRE(made.status == 0);
    CHECK_THAT(made.out, ContainsSubstring("| 0 | 1.0000 |")); // the first layer's keys see no context
    const auto run = [&](const std::string& more) {
        return refreshlab_cli({"run", "--prompt", "Write a chronicle of 3 companies, and then tell a story.",
                               "--max-tokens", "4", "--mode", "student", "--student-cache",
                               R"({"policy": "epicache", "budget": 4, "episode_window": 2)" + more + "}"});
    };
    CHECK(run("").status == 0);
    CHECK(run(R"(, "profile": "nowhere.json")").status == 0); // nobody reads it
    CHECK(run(R"(, "by_profile": true, "profile": ")" + profile + "\"").status == 0);
    CHECK(run(R"(, "by_profile": true)").status == 0); // the bundled one
    const Outcome nowhere = run(R"(, "by_profile": true, "profile": "nowhere.json")");
    CHECK(nowhere.status == 2);
    CHECK_THAT(nowhere.err, ContainsSubstring("refreshlab profile epicache makes one"));
}

TEST_CASE("what profile is asked for wrongly is one line", "[cli][train][bad-input]") {
    const Scratch scratch("profile-bad");
    const auto refused_with = [](const std::vector<std::string>& arguments, const std::string& words) {
        const Outcome outcome = refreshlab_cli(arguments);
        CHECK(outcome.status == 2);
        CHECK_THAT(outcome.err, ContainsSubstring(words));
        CHECK(std::count(outcome.err.begin(), outcome.err.end(), '\n') == 1);
    };
    refused_with(measuring("compress", scratch / "p.json"), "did you mean compress_kv");
    refused_with(measuring("trim_kv", scratch / "p.json"), "is no cache policy with a profile");
    refused_with(measuring("compress_kv", scratch / "nowhere/p.json"), "nowhere");
    auto longer = measuring("compress_kv", scratch / "p.json");
    longer[7] = "2000";
    refused_with(longer, "context of 2048");
}

} // namespace profile_cli_test
