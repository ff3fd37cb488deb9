// `refreshlab landscape`: from a text or a trace to its numbers, files and refusals.
#include "engine/base/json_file.h"
#include "tests/app/program.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

namespace landscape_test {

namespace fs = std::filesystem;
using namespace refreshlab;
using namespace refreshlab::test;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::WithinAbs;
using nlohmann::json;

namespace {

constexpr const char* prompt = "Write a chronicle of 6 companies.";

/// What the bundled teacher writes, in a file.
std::string teacher_text(const Scratch& scratch, int tokens) {
    const Outcome run = refreshlab_cli({"run", "--prompt", prompt, "--mode", "teacher", "--max-tokens",
                                        std::to_string(tokens), "--device", "cpu"});
    REQUIRE(run.status == 0);
    write_file(scratch / "text", run.out);
    return scratch / "text";
}

std::vector<std::string> of_text(const std::string& text, std::vector<std::string> more) {
    std::vector<std::string> arguments = {"landscape", "--prompt", prompt, "--given-file",
                                          text,        "--device", "cpu"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
}

/// What the stored landscape says under an objective.
json read_objective(const std::string& trace, const std::string& objective, const std::string& summary) {
    const Outcome outcome =
        refreshlab_cli({"landscape", trace, "--objective", objective, "--best", "3", "--summary", summary});
    CAPTURE(outcome.err);
    REQUIRE(outcome.status == 0);
    return read_json_file(summary);
}

} // namespace

TEST_CASE("the landscape of a given text, its best schedule run, and the files made of it",
          "[cli][landscape]") {
    const Scratch scratch("landscape");
    const std::string text = teacher_text(scratch, 40), trace = scratch / "land.rlt",
                      summary = scratch / "s.json";
    const auto numbers = [&](const std::vector<std::string>& arguments) {
        const Outcome outcome = refreshlab_cli(arguments);
        CAPTURE(outcome.err, outcome.out);
        REQUIRE(outcome.status == 0);
        CHECK_THAT(outcome.out, ContainsSubstring("mean loss in nats: teacher"));
        return read_json_file(summary);
    };
    const json coarse =
        numbers(of_text(text, {"-o", trace, "--every", "8", "--best", "3", "--summary", summary}));
    CHECK(coarse["complete"] == false);
    const json found = numbers({"landscape", trace, "--policy", "periodic", "--set", "periodic.every=9",
                                "--price", "0.5", "--best", "3", "--summary", summary});
    CHECK(found["complete"] == true);
    CHECK(found["tokens"] == 40);
    CHECK(found["teacher"] < found["none"]);
    REQUIRE(found["best"].size() == 5); // 0 .. 4: the policy's own count is among them
    REQUIRE(found["blind"].size() == 4);
    const json& best = found["best"][3];
    CHECK(best["steps"].size() == 3);
    CHECK(best["loss"] < found["none"]);
    CHECK(best["loss"] <= coarse["best"][3]["loss"]);
    CHECK(found["blind"][2]["loss"] >= best["loss"]);
    CHECK(found["policy"]["steps"] == json({9, 18, 27, 36}));
    CHECK(found["policy"]["exact"] == true);
    CHECK(found["policy"]["efficiency"] <= 1.0);
    CHECK(found["price"]["nats_per_refresh"] == 0.5);

    // The best schedule, run as a policy, gives what was promised.
    write_file(scratch / "best.json", json{{"at", best["steps"]}}.dump());
    const Outcome run =
        refreshlab_cli({"run", "--prompt", prompt, "--given-file", text, "--device", "cpu", "--policy",
                        scratch / "best.json", "--record", scratch / "best.rlt", "--max-tokens", "40"});
    REQUIRE(run.status == 0);
    CHECK_THAT(run.err, ContainsSubstring("scheduled"));
    REQUIRE(refreshlab_cli({"export", scratch / "best.rlt", "--csv", scratch / "best"}).status == 0);
    const Table steps = read_csv(scratch / "best/steps.csv");
    double loss = 0;
    for (size_t i = 1; i < steps.rows.size(); ++i)
        loss -= std::stod(steps.at(i, "logprob"));
    CHECK_THAT(loss / static_cast<double>(steps.rows.size() - 1),
               WithinAbs(best["loss"].get<double>(), 1e-6));
    // Its own landscape is walked by the schedule that it ran under.
    const json own = numbers(
        {"landscape", scratch / "best.rlt", "--values", "logprob", "--best", "1", "--summary", summary});
    CHECK(own["policy"]["steps"] == best["steps"]);
    CHECK_THAT(own["policy"]["efficiency"].get<double>(), WithinAbs(1.0, 1e-9));

    REQUIRE(
        refreshlab_cli({"export", trace, "--csv", scratch / "csv", "--npz", scratch / "land.npz"}).status ==
        0);
    const Table schedules = read_csv(scratch / "csv/schedules.csv");
    CHECK(schedules.at(0, "kind") == "best");
    CHECK(schedules.at(0, "objective") == "loss"); // of a given text
    CHECK(schedules.at(3, "steps") == fmt::format("{};{};{}", best["steps"][0].get<int>(),
                                                  best["steps"][1].get<int>(), best["steps"][2].get<int>()));
    const Table frontiers = read_csv(scratch / "csv/frontiers.csv");
    CHECK(frontiers.rows.size() > 50);
    CHECK(frontiers.at(0, "policy") == "periodic");
    const json rejected = read_objective(trace, "rejection", summary);
    const Outcome exported =
        refreshlab_cli({"export", trace, "--csv", scratch / "rejection", "--objective", "rejection"});
    REQUIRE(exported.status == 0);
    CHECK_THAT(exported.err + exported.out, ContainsSubstring("judged by rejection"));
    const Table by_rejection = read_csv(scratch / "rejection/schedules.csv");
    CHECK(by_rejection.at(3, "objective") == "rejection");
    CHECK_THAT(std::stod(by_rejection.at(3, "loss")),
               WithinAbs(rejected["best"][3]["loss"].get<double>(), 1e-12));
    // The figure's numbers are the command's.
    REQUIRE(refreshlab_cli({"figure", trace, "-o", scratch / "f.svg", "--panel", "frontier", "--objective",
                            "tokens_a_pass"})
                .status == 0);
    const json passes = read_objective(trace, "tokens_a_pass", summary);
    const Table frontier = read_csv(scratch / "f.csv");
    CHECK_THAT(std::stod(frontier.at(3, "tokens_a_pass")),
               WithinAbs(passes["best"][3]["tokens_a_pass"].get<double>(), 1e-3));
    write_file(
        scratch / "read.py",
        "import numpy as n, sys\n"
        "a = n.load(sys.argv[1])\n"
        "assert a['tokens'].shape == (40,) and a['tokens'].dtype == n.int32\n"
        "assert a['logprob'].shape == (39, 39) and a['logprob'].dtype == n.float32\n"
        "assert (n.isnan(a['logprob']) == (a['steps'][None, :] <= a['rows'][:, None])).all()\n"
        "print(-a['logprob'][0].astype(float).mean(), -a['teacher_logprob'][1:].astype(float).mean())\n");
    REQUIRE(std::system((std::string(RL_PYTHON) + " " + (scratch / "read.py") + " " + (scratch / "land.npz") +
                         " > " + (scratch / "numpy"))
                            .c_str()) == 0);
    const std::string read = read_file(scratch / "numpy");
    CHECK_THAT(std::stod(read), WithinAbs(found["none"].get<double>(), 1e-9));
    CHECK_THAT(std::stod(read.substr(read.find(' '))), WithinAbs(found["teacher"].get<double>(), 1e-9));
}

TEST_CASE("what has no landscape is refused in one line, and nothing is written", "[cli][landscape]") {
    const Scratch scratch("landscape-refused");
    write_file(scratch / "one", "a");
    write_file(scratch / "text", "Once upon a time there was a fox.");
    std::string many;
    for (int i = 0; i < 3000; ++i)
        many += "word ";
    write_file(scratch / "long", many);
    const std::string text = scratch / "text", out = scratch / "out.rlt";
    refused_with(of_text(scratch / "one", {"-o", out}), "has 1 token, and a landscape needs two at least");
    refused_with(of_text(scratch / "long", {"-o", out}), "the models' context is");
    refused_with({"landscape"}, "no text; give a TRACE, or --prompt TEXT with --given-file FILE");
    refused_with({"landscape", "--prompt", "x"}, "no text");
    refused_with(of_text(text, {"--mode", "student"}), "goes on from the teacher's cache");
    refused_with(of_text(text, {"--values", "entropy_bit"}), "entropy_bits");
    refused_with(of_text(text, {"--values", "last_drift"}), "has no cells: it hangs on the refresh before");
    refused_with(of_text(text, {"--every", "0"}), "must be 1 or more");
    refused_with(of_text(text, {"--run", "abc"}), "--run takes a trace");
    refused_with(of_text(text, {"--policy", "window"}), "windowed");
    refused_with(of_text(text, {"--policy", "mc"}), "mc_variance");
    refused_with(of_text(text, {"--policy", "periodic", "--set", "refresh.lag=3"}), "lag");
    refused_with(of_text(text, {"--policy", "periodic", "--set", "refresh.parts=values"}),
                 "a scope (values)");
    refused_with(of_text(text, {"--policy", "periodic", "--set", "on_fire=redraw"}), "on_fire is redraw");
    refused_with(of_text(text, {"-o", text}), text);
    CHECK_FALSE(fs::exists(out));
    refused_with({"landscape", scratch / "no.rlt"}, "no such file");
    refused_with({"landscape", text}, "not a RefreshLab trace");

    const std::string trace = scratch / "run.rlt";
    REQUIRE(refreshlab_cli({"run", "--prompt", prompt, "--max-tokens", "10", "--device", "cpu", "--policy",
                            "none", "--record", trace})
                .status == 0);
    refused_with({"landscape", trace, "--prompt", "x"}, "--prompt has no effect beside a trace");
    refused_with({"landscape", trace, "--run", "0123"}, "no run 0123");
    refused_with({"export", trace, "--npz", scratch / "x.npz"}, "has no landscape; refreshlab landscape");
    refused_with({"export", trace}, "give --csv DIR or --npz FILE");
    const Outcome own = refreshlab_cli({"landscape", trace, "--every", "4"});
    REQUIRE(own.status == 0);
    CHECK_THAT(own.out,
               ContainsSubstring("objective kl: KL(teacher || student); the student wrote the text"));
    const Outcome passes =
        refreshlab_cli({"landscape", trace, "--every", "4", "--objective", "tokens_a_pass"});
    REQUIRE(passes.status == 0);
    CHECK_THAT(passes.out, ContainsSubstring("objective tokens_a_pass"));
    refused_with({"landscape", trace, "--objective", "speed"}, "loss, kl, rejection, tokens_a_pass");
    refused_with({"landscape", trace, "--student", RL_SOURCE_DIR "/assets/models/llama-tales-teacher"},
                 "was made with another student");
}

} // namespace landscape_test
