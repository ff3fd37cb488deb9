// Generated rows, against the scorers and the rows that are held out.
#include "engine/base/error.h"
#include "engine/tasks/row_generator.h"
#include "engine/tasks/task_scorer.h"
#include "tests/support/seed.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <map>
#include <sstream>

namespace row_generator_test {

using namespace refreshlab;
using Catch::Matchers::ContainsSubstring;

namespace {

const std::filesystem::path prompts = std::filesystem::path(RL_SOURCE_DIR) / "assets/prompts";

RowSources bundled() {
    RowSources sources{
        read_almanac(prompts / "almanac.json"), read_row_words(prompts / "words.json"), {}, {}};
    for (const std::string& kind : task_kinds()) {
        for (PromptRecord& row : read_prompt_file(prompts / (kind + ".jsonl")))
            sources.held_out.push_back(std::move(row));
    }
    for (const PromptRecord& row : read_prompt_file(prompts / "story_prompts.jsonl"))
        sources.stories.push_back(row.response);
    return sources;
}

/// The text scored as an answer, a few bytes a token.
TaskResult scored(const PromptRecord& row, const std::string& text) {
    const auto task = task_of(row, prompts);
    REQUIRE(task.has_value());
    const auto scorer = TaskScorer::create(*task, row.prompt);
    for (size_t at = 0; at < text.size(); at += 3)
        static_cast<void>(scorer->advance(std::string_view(text).substr(at, 3), std::nullopt));
    static_cast<void>(scorer->finish());
    return scorer->result();
}

/// Names of each line that tells a company or calls a roll, sorted and joined.
std::vector<std::string> combinations(const PromptRecord& row) {
    std::vector<std::string> found;
    std::istringstream lines(row.prompt + "\n" + row.response);
    for (std::string line; std::getline(lines, line);) {
        const size_t colon = line.find(": ");
        if (colon == std::string::npos) continue;
        const std::string head = line.substr(0, colon);
        if (head != "The company" && head != "The next company" && head != "Roll call") continue;
        std::istringstream items(line.substr(colon + 2, line.find('.') - colon - 2));
        std::vector<std::string> names;
        for (std::string item; std::getline(items, item, ',');)
            names.push_back(item.substr(item.rfind(' ') + 1));
        std::ranges::sort(names);
        std::string joined;
        for (const std::string& name : names)
            joined += name + " ";
        found.push_back(joined);
    }
    return found;
}

} // namespace

TEST_CASE("every generated answer is right, and a changed one is not", "[tasks][rows]") {
    RowGenerator generator(bundled(), test::seed(21));
    for (const std::string& kind : task_kinds()) {
        CAPTURE(kind);
        for (int i = 0; i < 12; ++i) {
            const PromptRecord row = generator.make(kind);
            CAPTURE(row.prompt, row.response);
            CHECK(row.kind == kind);
            const TaskResult result = scored(row, row.response);
            CHECK(result.total > 0);
            CHECK(result.right == result.total);
            if (kind == "roll_call" || kind == "company" || kind == "chronicle") {
                // Every word after a role is scored: as many as commas and lists say.
                const auto lists = combinations(row);
                int64_t names = 0, attributes = 0;
                for (const std::string& list : lists)
                    names += std::count(list.begin(), list.end(), ' ');
                for (const char* head : {"Homes:", "Colors:", "Animals:"})
                    attributes += row.response.find(head) != std::string::npos ? 1 : 0;
                CHECK(result.total == names * attributes);
            } else {
                CHECK(result.exact_match == true);
                CHECK(result.correct_prefix == 1.0);
                CHECK_FALSE(scored(row, "x" + row.response).exact_match.value_or(false));
            }
        }
    }
}

TEST_CASE("no generated row has a combination that is held out", "[tasks][rows]") {
    RowSources sources = bundled();
    std::map<std::string, int> held_out;
    for (const PromptRecord& row : sources.held_out) {
        for (const std::string& names : combinations(row))
            ++held_out[names];
    }
    REQUIRE(held_out.size() > 400);
    // A small almanac, so that chance would find them: three names of a held-out company, all others new.
    RowSources few;
    few.words = sources.words;
    for (int i = 0; i < 80; ++i)
        few.almanac["Name" + std::string(1, static_cast<char>('a' + i / 26)) +
                    static_cast<char>('a' + i % 26)] = {"farm", "red", "cat"};
    std::vector<std::string> names;
    for (const auto& [name, words] : few.almanac)
        names.push_back(name);
    // All pairs of the first forty names are held out, so a company has at most one of them.
    for (size_t a = 0; a < 40; ++a) {
        for (size_t b = a + 1; b < 40; ++b)
            few.held_out.push_back(
                {"company", "", "", "The company: king " + names[a] + ", cook " + names[b] + "."});
    }
    RowGenerator narrow(std::move(few), test::seed(22));
    for (int i = 0; i < 60; ++i) {
        const PromptRecord row = narrow.make("company");
        int of_them = 0;
        for (size_t a = 0; a < 40; ++a)
            of_them += row.response.find(names[a]) != std::string::npos ? 1 : 0;
        CHECK(of_them <= 1);
    }
    RowGenerator wide(std::move(sources), test::seed(23));
    for (int i = 0; i < 40; ++i) {
        for (const char* kind : {"roll_call", "company", "chronicle"}) {
            for (const std::string& list : combinations(wide.make(kind)))
                CHECK_FALSE(held_out.contains(list));
        }
    }
}

TEST_CASE("rows depend on the seed alone", "[tasks][rows]") {
    const uint64_t seed = test::seed(24);
    RowGenerator one(bundled(), seed), same(bundled(), seed), other(bundled(), seed + 1);
    int different = 0;
    for (const std::string& kind : task_kinds()) {
        for (int i = 0; i < 4; ++i) {
            const PromptRecord row = one.make(kind), again = same.make(kind), else_row = other.make(kind);
            CHECK((row.prompt == again.prompt && row.response == again.response));
            different += row.response != else_row.response ? 1 : 0;
        }
    }
    CHECK(different >= 24); // two stories may be the same
}

TEST_CASE("what no row can be made of is refused", "[tasks][rows][bad-input]") {
    RowSources sources = bundled();
    sources.stories = {"short"};
    RowGenerator without(std::move(sources), 1);
    CHECK_THROWS_WITH(static_cast<void>(without.make("retell")), ContainsSubstring("no story"));
    RowSources few;
    few.almanac["One"] = {"farm", "red", "cat"};
    CHECK_THROWS_WITH(RowGenerator(std::move(few), 1), ContainsSubstring("the almanac has 1 names"));
    CHECK_THROWS_WITH(read_row_words(prompts / "almanac.json"), ContainsSubstring("\"roles\""));
}

} // namespace row_generator_test
