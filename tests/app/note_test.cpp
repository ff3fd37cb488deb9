// The command that writes notes into a trace, lists and erases them.
#include "engine/base/json_file.h"
#include "engine/record/trace/trace_store.h"
#include "tests/app/program.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <nlohmann/json.hpp>

#include <string>

using namespace refreshlab;
using namespace refreshlab::test;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("notes are written into a trace, listed, told by info and export, seen by a branch, and erased",
          "[cli][record]") {
    const Scratch scratch("notes");
    const std::string trace = scratch / "run.rlt";
    REQUIRE(
        refreshlab_cli({"run", "--prompt", "Once", "--max-tokens", "12", "--ignore-stop", "--record", trace})
            .status == 0);
    REQUIRE(refreshlab_cli({"run", "--branch", trace + "@6", "--record", trace}).status == 0);
    const auto before = load_trace(trace);
    REQUIRE(before.size() == 2);
    const std::string first = before[0]->info().id, branch = before[1]->info().id;

    REQUIRE(refreshlab_cli({"note", trace, "--run", first, "--step", "3-8", "--text", "loses\nthe \"names\"",
                            "--colour", "2"})
                .status == 0);
    REQUIRE(refreshlab_cli({"note", trace, "--run", first, "--step", "7"}).status == 0); // behind the fork
    REQUIRE(refreshlab_cli({"note", trace, "--step", "10", "--text", "of the branch"}).status == 0);
    CHECK(refreshlab_cli({"note", trace, "--run", first}).out ==
          "1. steps 3 to 8, colour 2: loses\nthe \"names\"\n2. step 7, colour 0: (bookmark)\n");
    CHECK(refreshlab_cli({"note", trace}).out ==
          "1. steps 3 to 5, colour 2, of run " + first +
              ": loses\nthe \"names\"\n2. step 10, colour 0: of the branch\n");
    const auto info = nlohmann::json::parse(refreshlab_cli({"info", trace, "--json"}).out);
    CHECK(info["runs"][0]["notes"].size() == 2);
    CHECK(info["runs"][1]["notes"][0]["text"] == "loses\nthe \"names\"");
    REQUIRE(refreshlab_cli({"export", trace, "--csv", scratch / "csv"}).status == 0);
    const Table table = read_csv(scratch / "csv/notes.csv");
    REQUIRE(table.rows.size() == 2);
    CHECK(table.at(0, "last_step") == "5");
    CHECK(table.at(0, "run") == first);
    CHECK(table.at(1, "text") == "of the branch");

    // The first note is the parent's, also where the branch lists it.
    REQUIRE(refreshlab_cli({"note", trace, "--erase", "1"}).status == 0);
    CHECK(refreshlab_cli({"note", trace, "--run", first}).out == "1. step 7, colour 0: (bookmark)\n");
    // All else in the trace is as it was.
    const auto after = load_trace(trace);
    REQUIRE(after.size() == 2);
    for (size_t i = 0; i < 2; ++i)
        CHECK_FALSE(first_difference(*before[i], *after[i]));
}

TEST_CASE("a note that has no place is refused, and the trace stays as it was", "[cli][bad_input]") {
    const Scratch scratch("no_notes");
    const std::string trace = scratch / "run.rlt";
    REQUIRE(
        refreshlab_cli({"run", "--prompt", "Once", "--max-tokens", "4", "--ignore-stop", "--record", trace})
            .status == 0);
    const std::string bytes = read_file(trace);
    const auto refused = [&](std::vector<std::string> options, const std::string& part) {
        options.insert(options.begin(), {"note", trace});
        refused_with(options, part);
    };
    refused({"--step", "0"}, "step 0: the run has steps 1 to 4");
    refused({"--step", "3-5"}, "steps 3 to 5: the run has steps 1 to 4");
    refused({"--step", "3-1"}, "steps 3 to 1");
    refused({"--step", "three"}, "'three' is no step");
    refused({"--step", "3-"}, "'3-' is no step");
    refused({"--step", "2", "--colour", "8"}, "8");
    refused({"--text", "a note"}, "give --step N");
    refused({"--erase", "1"}, "there is no note 1");
    refused({"--step", "2", "--run", "another"}, "no run another");
    refused_with({"note", scratch / "none.rlt"}, "no such file");
    CHECK(read_file(trace) == bytes);
}
