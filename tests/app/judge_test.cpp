// `score --teacher`: another judge must read the run's ids as the run did.
#include "engine/base/json_file.h"
#include "tests/app/program.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>

namespace judge_test {

namespace fs = std::filesystem;
using namespace refreshlab;
using namespace refreshlab::test;
using Catch::Matchers::ContainsSubstring;
using nlohmann::json;

namespace {

constexpr const char* teacher = RL_SOURCE_DIR "/assets/models/llama-tales-teacher";

/// A copy of the bundled teacher whose tokenizer gives two tokens each other's id.
std::string exchanged(const std::string& folder, const std::string& first, const std::string& second) {
    fs::copy(teacher, folder);
    json tokenizer = read_json_file(folder + "/tokenizer.json");
    std::swap(tokenizer["model"]["vocab"].at(first), tokenizer["model"]["vocab"].at(second));
    write_file(folder + "/tokenizer.json", tokenizer.dump());
    return folder;
}

Outcome score(const std::string& trace, const std::string& judge) {
    return refreshlab_cli({"score", trace, "--teacher", judge});
}

void refused(const Outcome& outcome, const std::vector<std::string>& parts) {
    CAPTURE(outcome.err, outcome.out);
    CHECK(outcome.status == 2);
    CHECK(outcome.out.find("teacher-PPL") == std::string::npos); // not even the head of a table
    CHECK(std::count(outcome.err.begin(), outcome.err.end(), '\n') == 1);
    for (const std::string& part : parts)
        CHECK_THAT(outcome.err, ContainsSubstring(part));
}

} // namespace

TEST_CASE("a judge with other ids is refused, whether they occur in the run or not", "[cli][score]") {
    const Scratch scratch("judge");
    const std::string trace = scratch / "run.rlt";
    REQUIRE(refreshlab_cli({"run", "--prompt", "Tell a story about a fox.", "--max-tokens", "12", "--device",
                            "cpu", "--policy", "none", "--record", trace})
                .status == 0);
    // "\u0120about" is the byte-level spelling of " about", which is in the prompt.
    const json vocab = read_json_file(std::string(teacher) + "/tokenizer.json")["model"]["vocab"];
    REQUIRE(vocab.contains("\u0120about"));
    refused(score(trace, exchanged(scratch / "shuffled", "\u0120about", "\u0120the")),
            {"in the run and", "shuffled", "the run's tokenizer"});

    // Two ids far from this short text: only the run's own model can tell.
    std::vector<std::string> rare;
    for (const auto& [token, id] : vocab.items()) {
        if (id.get<int>() > 3900 && rare.size() < 2) rare.push_back(token);
    }
    REQUIRE(rare.size() == 2);
    const std::string unseen = exchanged(scratch / "unseen", rare[0], rare[1]);
    refused(score(trace, unseen), {"in the run and", "unseen"});

    // Another file with the same ids is the same tokenizer.
    fs::copy(teacher, scratch / "same");
    const std::string same = scratch / "same";
    write_file(same + "/tokenizer.json", read_json_file(same + "/tokenizer.json").dump(1));
    const Outcome own = refreshlab_cli({"score", trace}), copy = score(trace, same);
    REQUIRE(own.status == 0);
    CHECK(copy.status == 0);
    CHECK(copy.out == own.out);
}

TEST_CASE("ids beyond the judge's vocabulary are refused", "[cli][score]") {
    const Scratch scratch("small-judge");
    const std::string trace = scratch / "run.rlt", judge = scratch / "small";
    REQUIRE(refreshlab_cli({"run", "--prompt", "Tell a story about a fox.", "--max-tokens", "12", "--device",
                            "cpu", "--record", trace})
                .status == 0);
    fs::copy(teacher, judge);
    json tokenizer = read_json_file(judge + "/tokenizer.json");
    json& model = tokenizer["model"];
    std::vector<std::string> beyond;
    for (const auto& [token, id] : model["vocab"].items()) {
        if (id.get<int>() >= 400) beyond.push_back(token);
    }
    for (const std::string& token : beyond)
        model["vocab"].erase(token);
    model["merges"] = json::array();
    write_file(judge + "/tokenizer.json", tokenizer.dump());
    refused(score(trace, judge), {"outside the vocabulary", "small"});
}

} // namespace judge_test
