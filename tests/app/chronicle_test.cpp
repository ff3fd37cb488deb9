// The bundled pair end to end through the program (docs/reference/refresh.md, section 12): facts that only the teacher's
// cache entries carry are lost without refreshes and come back with them. The counts were computed independently, in
// float64.
#include "engine/base/json_file.h"
#include "engine/tasks/prompt_file.h"
#include "engine/tasks/task_scorer.h"
#include "tests/app/program.h"

#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>

#include <cmath>
#include <map>

namespace chronicle_test {

using namespace refreshlab;
using namespace refreshlab::test;

namespace {

struct Chronicle {
    Score score;
    nlohmann::json summary;
    Table steps;
    std::string text;
};

constexpr const char* prompt = "Write a chronicle of 6 companies.";

/// The product's scorer, token by token, must count what the reading of the whole text counts.
void compare_with_the_task(const Chronicle& c) {
    const auto task = find_task(prompt, RL_SOURCE_DIR "/assets/prompts");
    REQUIRE(task);
    const auto scorer = TaskScorer::create(*task, prompt);
    std::map<int64_t, bool> verdicts;
    const auto take = [&](const std::vector<Verdict>& news) {
        for (const Verdict& verdict : news)
            CHECK(verdicts.try_emplace(verdict.token, verdict.right).second);
    };
    for (size_t i = 0; i < c.steps.rows.size(); ++i)
        take(scorer->advance(c.steps.at(i, "text"), std::nullopt));
    take(scorer->finish());
    CHECK(scorer->result().right == c.score.right);
    CHECK(scorer->result().total == c.score.total);
    // Every attribute is one token of the bundled vocabulary.
    CHECK(static_cast<int>(verdicts.size()) == c.score.total);
}

Chronicle chronicle(const std::vector<std::string>& policy) {
    const Scratch scratch("chronicle");
    std::vector<std::string> arguments{"run",
                                       "--prompt",
                                       prompt,
                                       "--max-tokens",
                                       "330",
                                       "--device",
                                       "cpu",
                                       "--summary",
                                       scratch / "summary.json",
                                       "--record",
                                       scratch / "run.rlt"};
    arguments.insert(arguments.end(), policy.begin(), policy.end());
    const Outcome run = refreshlab_cli(arguments);
    INFO(run.err);
    REQUIRE(run.status == 0);
    const Outcome exported = refreshlab_cli({"export", scratch / "run.rlt", "--csv", scratch / "csv"});
    INFO(exported.err);
    REQUIRE(exported.status == 0);
    Chronicle result{score_chronicle(run.out), read_json_file(scratch / "summary.json"),
                     read_csv(scratch / "csv/steps.csv"), run.out};
    // What was streamed, what was exported and what the summary counts are one text.
    std::string joined;
    for (size_t i = 0; i < result.steps.rows.size(); ++i)
        joined += result.steps.at(i, "text");
    CHECK(joined == run.out);
    CHECK(result.summary.at("tokens") == 330);
    CHECK(result.steps.rows.size() == 330);
    compare_with_the_task(result);
    return result;
}

const std::vector<std::string> gate{"--policy", "entropy",         "--set", "entropy.threshold=6",
                                    "--set",    "entropy.every=1", "--set", "entropy.cooldown=4"};

std::vector<std::string> with(std::vector<std::string> base, const std::vector<std::string>& more) {
    base.insert(base.end(), more.begin(), more.end());
    return base;
}

} // namespace

TEST_CASE("without a refresh the student has lost the almanac", "[pair]") {
    const Chronicle c = chronicle({"--policy", "none"});
    CHECK(c.score.right == 6);
    CHECK(c.score.total == 59);
    CHECK(c.summary.at("refreshes").empty());
}

TEST_CASE("a refresh every 32 tokens brings it back", "[pair]") {
    const Chronicle c = chronicle({"--policy", "periodic", "--set", "periodic.every=32"});
    CHECK(c.score.right == 59);
    CHECK(c.score.total == 60);
    REQUIRE(c.summary.at("refreshes").size() == 10);
    for (size_t i = 0; i < 10; ++i) {
        const auto& refresh = c.summary["refreshes"][i];
        CHECK(refresh.at("step") == 32 * (i + 1));
        CHECK(refresh.at("delta") == 32);
        CHECK(refresh.at("spliced") == 32);
        CHECK(c.steps.at(32 * (i + 1) - 1, "refreshed") == "1");
    }
}

TEST_CASE("the entropy gate needs three refreshes", "[pair]") {
    const Chronicle keep = chronicle(gate);
    CHECK(keep.score.right == 57);
    CHECK(keep.score.total == 60);
    REQUIRE(keep.summary.at("refreshes").size() == 3);
    for (const auto& refresh : keep.summary["refreshes"]) {
        const size_t row = refresh.at("step").get<size_t>() - 1;
        CHECK(std::stod(keep.steps.at(row, "entropy_bits")) > 6);
        CHECK(keep.steps.at(row, "refreshed") == "1");
        CHECK(keep.steps.at(row, "reason") == "entropy");
        CHECK(refresh.at("reason") == "entropy");
    }
    const Chronicle redraw = chronicle(with(gate, {"--set", "on_fire=redraw"}));
    CHECK(redraw.score.right == redraw.score.total);
    CHECK(redraw.score.total == 60);
    CHECK(redraw.summary.at("refreshes").size() == 3);
    CHECK(redraw.summary.at("teacher_ppl").get<double>() < keep.summary.at("teacher_ppl").get<double>());
}

TEST_CASE("teacher alone writes it all, student alone nearly nothing", "[pair]") {
    const Chronicle teacher = chronicle({"--mode", "teacher"});
    CHECK(teacher.score.right == teacher.score.total);
    CHECK(teacher.score.total > 50);
    const Chronicle student = chronicle({"--mode", "student"});
    CHECK(student.score.right < 12);
}

} // namespace chronicle_test
