// `refreshlab figure` and `refreshlab info`, as somebody who has traces and writes a paper.
#include "engine/base/json_file.h"
#include "engine/record/trace/trace_store.h"
#include "tests/app/program.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <string>
#include <vector>

namespace figure_test {

namespace fs = std::filesystem;
using namespace refreshlab::test;
using Catch::Matchers::ContainsSubstring;

namespace {

void record(const std::string& trace, const std::vector<std::string>& more) {
    std::vector<std::string> arguments{
        "run", "--prompt", "Write a chronicle of 6 companies.", "--max-tokens", "40", "--record", trace};
    arguments.insert(arguments.end(), more.begin(), more.end());
    REQUIRE(refreshlab_cli(arguments).status == 0);
}

/// Two runs of one prompt in `trace`, under these names and colours.
void record_labelled(const Scratch& scratch, const std::string& trace, const refreshlab::RunLabel& gate,
                     const refreshlab::RunLabel& never) {
    record(scratch / "gate.rlt", {"--policy", "entropy", "--set", "entropy.every=1"});
    record(scratch / "never.rlt", {"--seed", "5"});
    const auto first = refreshlab::load_trace(scratch / "gate.rlt").at(0),
               second = refreshlab::load_trace(scratch / "never.rlt").at(0);
    REQUIRE(refreshlab::save_traces(
        trace, std::vector<refreshlab::SavedRun>{{first, {}, 0, gate}, {second, {}, 0, never}}));
}

} // namespace

TEST_CASE("a trace says what it holds", "[info]") {
    const Scratch scratch("info");
    record(scratch / "run.rlt", {"--policy", "periodic", "--set", "periodic.every=10", "--seed", "5"});
    const Outcome text = refreshlab_cli({"info", scratch / "run.rlt"});
    CHECK(text.status == 0);
    for (const char* part :
         {", 1 run", "llama-tales-teacher > llama-tales-student", "periodic, overfill, seed 5",
          "40 after 15 of the prompt", "ended by max_tokens", "attention"})
        CHECK_THAT(text.out, ContainsSubstring(part));
    const Outcome json = refreshlab_cli({"info", scratch / "run.rlt", "--json"});
    const auto about = nlohmann::json::parse(json.out);
    CHECK(about["bytes"] == fs::file_size(scratch / "run.rlt"));
    REQUIRE(about["runs"].size() == 1);
    CHECK(about["runs"][0]["steps"] == 40);
    CHECK(about["runs"][0]["seed"] == 5);
    CHECK(about["runs"][0]["refreshes"].get<int>() > 1);
    CHECK(about["runs"][0]["landscape"].is_null());
    const Outcome none = refreshlab_cli({"info", scratch / "none.rlt"});
    CHECK(none.status == 2);
    CHECK_THAT(none.err, ContainsSubstring("no such file"));
}

TEST_CASE("a figure has a signal of one's own that the run was recorded without", "[figure][expression]") {
    const Scratch scratch("figure-own");
    record(scratch / "run.rlt", {});
    const std::string signal = "rise = entropy_bits - mean(entropy_bits, 8)";
    for (const std::string panel : {"signals", "compare", "distribution", "text"}) {
        INFO(panel);
        std::vector<std::string> arguments{
            "figure", scratch / "run.rlt",       "--panel", panel, "--signal", signal,
            "-o",     scratch / (panel + ".svg")};
        if (panel == "compare") arguments.insert(arguments.begin() + 2, scratch / "run.rlt");
        const Outcome made = refreshlab_cli(arguments);
        INFO(made.err);
        REQUIRE(made.status == 0);
        CHECK_THAT(refreshlab::read_file(scratch / (panel + ".svg")), ContainsSubstring("Rise"));
    }
    const Outcome bad = refreshlab_cli(
        {"figure", scratch / "run.rlt", "--signal", "spread = mc_variance + 1", "-o", scratch / "x.svg"});
    CHECK(bad.status == 2);
    CHECK_THAT(bad.err, ContainsSubstring("did not measure mc_variance"));
}

TEST_CASE("a trace says what its runs are called", "[info]") {
    const Scratch scratch("info-names");
    const std::string trace = scratch / "named.rlt";
    record_labelled(scratch, trace, {"the gate \xC3\xA9\xE6\x97\xA5", 3}, {"", 5});
    const auto runs = refreshlab::load_trace(trace);
    const Outcome text = refreshlab_cli({"info", trace});
    CHECK(text.status == 0);
    CHECK_THAT(text.out, ContainsSubstring(", 2 runs\n"));
    CHECK_THAT(text.out, ContainsSubstring(runs[0]->info().id + "  the gate \xC3\xA9\xE6\x97\xA5  20"));
    CHECK_THAT(text.out, ContainsSubstring(runs[1]->info().id + "  20")); // it has no name: its date follows
    const auto about = nlohmann::json::parse(refreshlab_cli({"info", trace, "--json"}).out);
    CHECK(about["runs"][0]["name"] == "the gate \xC3\xA9\xE6\x97\xA5");
    CHECK(about["runs"][0]["colour"] == 3);
    CHECK(about["runs"][1]["name"].is_null());
    CHECK(about["runs"][1]["colour"] == 5);
}

#if REFRESHLAB_UI
TEST_CASE("a figure of several runs has their names and colours", "[figure]") {
    const Scratch scratch("figure-names");
    const std::string trace = scratch / "named.rlt", svg = scratch / "fig.svg";
    const std::vector<std::string> colours{"#110000", "#220000", "#330000", "#440000",
                                           "#550000", "#660000", "#770000", "#880000"};
    refreshlab::write_file(scratch / "style.json", nlohmann::json{{"runs", colours}}.dump());
    const auto figure = [&](const std::vector<std::string>& more) {
        std::vector<std::string> arguments{
            "figure", trace,    "--panel",   "compare", "-o",
            svg,      "--size", "174x110mm", "--style", scratch / "style.json"};
        arguments.insert(arguments.end(), more.begin(), more.end());
        const Outcome outcome = refreshlab_cli(arguments);
        INFO(outcome.err);
        REQUIRE(outcome.status == 0);
        return refreshlab::read_file(svg);
    };
    /// Of the runs' colours those that the picture has.
    const auto used = [&](const std::string& picture) {
        std::vector<std::string> found;
        std::ranges::copy_if(colours, std::back_inserter(found), [&](const std::string& colour) {
            return picture.find(colour) != std::string::npos;
        });
        return found;
    };
    record_labelled(scratch, trace, {"the gate & more", 3}, {"never", 5});
    const std::string named = figure({});
    CHECK_THAT(named, ContainsSubstring("the gate &amp; more</text>") && ContainsSubstring("never</text>"));
    CHECK(named.find("seed 5</text>") == std::string::npos);
    CHECK(used(named) == std::vector<std::string>{"#440000", "#660000"});
    // --name takes the place of the trace's names from the first on.
    CHECK_THAT(figure({"--name", "mine"}), ContainsSubstring("mine</text>") &&
                                               ContainsSubstring("never</text>") &&
                                               !ContainsSubstring("the gate"));
    // Without labels: by policy and seed, in the first colours.
    record_labelled(scratch, trace, {}, {});
    const std::string plain = figure({});
    CHECK_THAT(plain, ContainsSubstring("entropy, seed 0</text>") && ContainsSubstring("seed 5</text>"));
    CHECK(used(plain) == std::vector<std::string>{"#110000", "#220000"});
    // Of two runs of one colour the second takes the next free one.
    record_labelled(scratch, trace, {"a", 7}, {"b", 7});
    CHECK(used(figure({})) == std::vector<std::string>{"#110000", "#880000"});
}

TEST_CASE("figures of a trace, one or all", "[figure]") {
    const Scratch scratch("figure");
    record(scratch / "run.rlt", {"--policy", "periodic", "--set", "periodic.every=10", "--shadow"});
    for (const char* kind : {"svg", "pdf", "png"}) {
        const Outcome one = refreshlab_cli({"figure", scratch / "run.rlt", "-o",
                                            scratch / (std::string("fig.") + kind), "--size", "174x90mm"});
        CAPTURE(one.err);
        CHECK(one.status == 0);
        CHECK(one.out.empty());
    }
    CHECK(read_csv(scratch / "fig.csv").rows.size() == 40);
    const std::string svg = refreshlab::read_file(scratch / "fig.svg");
    CHECK_THAT(svg, ContainsSubstring("width=\"174mm\" height=\"90mm\""));
    CHECK_THAT(svg, ContainsSubstring("KL teacher || student (nats)"));
    CHECK_THAT(svg, ContainsSubstring("P</text>")); // the letter of the refreshes
    CHECK_THAT(svg, ContainsSubstring("figure "));  // its command line
    const Outcome all =
        refreshlab_cli({"figure", "--all", scratch / "run.rlt", "-o", scratch / "all", "--format", "png"});
    CHECK(all.status == 0);
    for (const char* panel :
         {"signals", "text", "attention", "cache", "drift", "distribution", "spikes", "events", "runs"})
        CHECK(fs::file_size((scratch / "all") + "/run-" + panel + ".png") > 3000);
    CHECK_FALSE(fs::exists((scratch / "all") + "/run-landscape.png"));
    CHECK_THAT(all.err, ContainsSubstring("no landscape of"));
}

TEST_CASE("tables of events and of runs as figures", "[figure]") {
    const Scratch scratch("lists");
    record(scratch / "a.rlt", {"--policy", "periodic", "--set", "periodic.every=10"});
    record(scratch / "b.rlt", {"--policy", "none"});
    const auto figure = [&](std::vector<std::string> args) {
        args.insert(args.begin(), "figure");
        args.insert(args.end(), {"-o", scratch / "list.svg", "--size", "174mm"});
        return refreshlab_cli(args);
    };
    const Outcome events =
        figure({scratch / "a.rlt", "--panel", "events", "--columns", "step,reason,after", "--sort", "-step"});
    CAPTURE(events.err);
    REQUIRE(events.status == 0);
    const auto rows = read_csv(scratch / "list.csv").rows;
    REQUIRE(rows.size() == 3); // one at step 40 would change nothing any more
    CHECK(rows.front()[0] == "30");
    const std::string svg = refreshlab::read_file(scratch / "list.svg");
    CHECK_THAT(svg, ContainsSubstring("Chosen after</text>") && !ContainsSubstring("Spliced</text>"));
    const Outcome runs = figure({scratch / "a.rlt", scratch / "b.rlt", "--panel", "runs", "--sort",
                                 "refreshes", "--name", "every ten", "--name", "never"});
    CAPTURE(runs.err);
    REQUIRE(runs.status == 0);
    const auto two = read_csv(scratch / "list.csv").rows;
    REQUIRE(two.size() == 2);
    CHECK(two[0][0] == "never");
    CHECK(two[1][0] == "every ten");
    for (const auto& [option, value, words] :
         {std::tuple{"--columns", "step,raeson", "'raeson' is none of step, reason"},
          std::tuple{"--sort", "-nothing", "'nothing' is none of step"},
          std::tuple{"--only", "fires", "'fires' is none of refreshes, held_back"},
          std::tuple{"--only", "notes", "nothing of the chosen kinds"}}) {
        const Outcome wrong = figure({scratch / "a.rlt", "--panel", "events", option, value});
        CHECK(wrong.status == 2);
        CHECK_THAT(wrong.err, ContainsSubstring(words));
    }
}

TEST_CASE("a figure's colours begin and end where one says", "[figure]") {
    const Scratch scratch("ranges");
    record(scratch / "a.rlt", {"--policy", "periodic", "--set", "periodic.every=10"});
    const auto figure = [&](const std::string& panel, const std::string& range) {
        return refreshlab_cli(
            {"figure", scratch / "a.rlt", "--panel", panel, "--range", range, "-o", scratch / "one.svg"});
    };
    const Outcome text = figure("text", "1.25,2.75");
    CAPTURE(text.err);
    REQUIRE(text.status == 0);
    const std::string svg = refreshlab::read_file(scratch / "one.svg");
    CHECK_THAT(svg, ContainsSubstring(">1.25</text>") && ContainsSubstring(">2.75</text>"));
    REQUIRE(figure("drift", "0,0.125").status == 0);
    CHECK_THAT(refreshlab::read_file(scratch / "one.svg"), ContainsSubstring(">0.125</text>"));
    for (const auto& [panel, range, words] :
         {std::tuple{"text", "2", "'2' is not LOW,HIGH"}, std::tuple{"text", "2,1", "is not LOW,HIGH"},
          std::tuple{"text", "0,inf", "is not LOW,HIGH"}, std::tuple{"text", "0,1x", "is not LOW,HIGH"},
          std::tuple{"drift", "-2,-1", "end above 0"},
          std::tuple{"spikes", "0,1", "has no scale of colours"}}) {
        const Outcome wrong = figure(panel, range);
        CAPTURE(panel, range, wrong.err);
        CHECK(wrong.status == 2);
        CHECK_THAT(wrong.err, ContainsSubstring(words));
    }
}

TEST_CASE("figures of a study and of a sweep, one or all", "[figure][tables]") {
    const Scratch scratch("table-figures");
    REQUIRE(refreshlab_cli({"study", "simulation", "--out", scratch / "simulation"}).status == 0);
    const Outcome one =
        refreshlab_cli({"figure", scratch / "simulation", "-o", scratch / "one.svg", "--size", "174mm"});
    CAPTURE(one.err);
    CHECK(one.status == 0);
    const std::string svg = refreshlab::read_file(scratch / "one.svg");
    CHECK_THAT(svg, ContainsSubstring("entropy (bits)"));
    CHECK_THAT(svg, ContainsSubstring("--size 174mm"));
    CHECK(read_csv(scratch / "one.csv").rows.size() == 800); // two values at 400 steps

    const nlohmann::json grid{
        {"name", "grid"},
        {"base", {{"device", "cpu"}}},
        {"modes", {"overfill"}},
        {"policies", {"none", {{"preset", "periodic"}, {"set", {{"periodic.every", {4, 8, 16}}}}}}},
        {"max_tokens", 20},
        {"prompts", {"Write a chronicle of 2 companies.", "Tell a story about a fox."}},
        {"seeds", {0}}};
    refreshlab::write_file(scratch / "grid.json", grid.dump());
    REQUIRE(refreshlab_cli({"sweep", scratch / "grid.json", "--out", scratch / "grid.db"}).status == 0);
    const Outcome all =
        refreshlab_cli({"figure", "--all", scratch / "grid.db", (scratch / "simulation") + "/", "-o",
                        scratch / "all", "--format", "png"});
    CAPTURE(all.err);
    CHECK(all.status == 0);
    for (const char* name : {"grid-rows", "grid-cost", "grid-over-periodic.every", "simulation-simulation"}) {
        CAPTURE(name);
        CHECK(fs::file_size((scratch / "all") + "/" + name + ".png") > 3000);
    }
    const Table over = read_csv((scratch / "all") + "/grid-over-periodic.every.csv");
    REQUIRE(over.rows.size() >= 6); // three values of each metric that was measured
    CHECK(over.at(0, "at") == "4");
}

TEST_CASE("figures of tables that cannot be", "[figure][tables][bad-input]") {
    const Scratch scratch("no-table-figure");
    REQUIRE(refreshlab_cli({"study", "simulation", "--out", scratch / "tables"}).status == 0);
    const std::string tables = scratch / "tables", out = scratch / "x.svg";
    const auto refused = [&](std::vector<std::string> arguments, const char* part) {
        arguments.insert(arguments.begin(), "figure");
        const Outcome outcome = refreshlab_cli(arguments);
        CAPTURE(arguments, outcome.err);
        CHECK(outcome.status == 2);
        CHECK(std::count(outcome.err.begin(), outcome.err.end(), '\n') == 1);
        CHECK_THAT(outcome.err, ContainsSubstring(part));
    };
    refused({tables, "-o", out, "--panel", "simulatio"}, "did you mean simulation");
    refused({tables, "-o", out, "--step", "3"}, "--step");
    refused({tables, tables, "-o", out}, "--all");
    refused({tables, "-o", tables + "/table.svg"}, "table"); // beside it the numbers would go over the table
    fs::create_directories(scratch / "empty");
    refused({scratch / "empty", "-o", out}, "no figures.json");
    refreshlab::write_file(tables + "/figure.csv", "step\n1\n");
    refused({tables, "-o", out}, "no column 'entropy_bits'");
    CHECK_FALSE(fs::exists(out));
}

TEST_CASE("figures that cannot be", "[figure][bad-input]") {
    const Scratch scratch("no-figure");
    record(scratch / "run.rlt", {});
    const auto refused = [&](std::vector<std::string> arguments, const char* part) {
        arguments.insert(arguments.begin(), "figure");
        const Outcome outcome = refreshlab_cli(arguments);
        CAPTURE(arguments, outcome.err);
        CHECK(outcome.status == 2);
        CHECK(outcome.out.empty());
        CHECK(std::count(outcome.err.begin(), outcome.err.end(), '\n') == 1);
        CHECK_THAT(outcome.err, ContainsSubstring(part));
    };
    const std::string run = scratch / "run.rlt", out = scratch / "x.svg";
    refused({run, "-o", scratch / "x.gif"}, ".svg, .pdf or .png");
    refused({run, "-o", run}, ".svg, .pdf or .png");
    refused({run, "-o", "/no/such/folder/x.svg"}, "/no/such/folder");
    refused({run, "-o", out, "--size", "0mm"}, "20 mm to 1 m");
    refused({run, "-o", out, "--size", "5km"}, "is no size");
    refused({run, "-o", out, "--panel", "cach"}, "cache");
    refused({run, "-o", out, "--panel", "landscape"}, "refreshlab landscape");
    refused({run, "-o", out, "--panel", "compare"}, "two runs");
    refused({run, "-o", out, "--panel", "attention", "--head", "a.b"}, "LAYER.HEAD");
    refused({run, "-o", out, "--theme", "pink"}, "paper, dark, light, print");
    refused({run, "-o", out, "--style", scratch / "none.json"}, "none.json");
    refused({run, "-o", out, "--run", "nobody"}, "no run nobody");
    refused({run, "-o", out, "--name", "a", "--name", "b"}, "2 names for 1 runs");
    refused({scratch / "none.rlt", "-o", out}, "no such file");
    refused({"--all", run, "-o", scratch / "all", "--panel", "text"}, "--all");
    refused({"--all", run, "-o", run}, "Not a directory");
    CHECK_FALSE(fs::exists(out));
    CHECK_FALSE(fs::exists(scratch / "x.csv"));
}
#endif

} // namespace figure_test
