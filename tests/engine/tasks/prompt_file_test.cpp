#include "engine/base/error.h"
#include "engine/base/json_file.h"
#include "engine/tasks/prompt_file.h"
#include "engine/tasks/task_scorer.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <fstream>

using namespace refreshlab;

namespace {

const std::filesystem::path folder = RL_SOURCE_DIR "/assets/prompts";

/// Writes a file under the build folder; removed with the object.
struct File {
    explicit File(const std::string& text)
        : path(std::filesystem::path(RL_BUILD_DIR) / "prompt_file_test.jsonl") {
        write_file(path, text);
    }
    ~File() { std::filesystem::remove(path); }
    std::filesystem::path path;
};

} // namespace

TEST_CASE("every bundled task prompt finds its own task", "[tasks]") {
    const std::string kind =
        GENERATE("roll_call", "company", "chronicle", "chain_of_key", "ledger", "table", "retell");
    std::ifstream lines(folder / (kind + ".jsonl"));
    int number = 0;
    for (std::string line; std::getline(lines, line); ++number) {
        const nlohmann::json record = nlohmann::json::parse(line);
        const auto task = find_task(record["prompt"], folder);
        REQUIRE(task);
        CHECK(task->kind == kind);
        const bool by_reference = kind == "ledger" || kind == "table" || kind == "retell";
        CHECK(task->reference == (by_reference ? record["response"].get<std::string>() : ""));
        CHECK(task->almanac.empty() == (by_reference || kind == "chain_of_key"));
        CHECK_NOTHROW(static_cast<void>(TaskScorer::create(*task, record["prompt"])));
    }
    CHECK(number == 60);
}

TEST_CASE("a chronicle of any number of companies is a chronicle, other prompts have no task", "[tasks]") {
    CHECK(find_task("Write a chronicle of 6 companies.", folder)->kind == "chronicle");
    CHECK(find_task("Write a chronicle of 12 companies.", folder)->kind == "chronicle");
    CHECK(find_task("Gather a company of 33 travelers and tell about them.", folder)->kind == "company");
    CHECK(!find_task("Write a chronicle of six companies.", folder));
    CHECK(!find_task("Write a chronicle of 6 companies. ", folder));
    CHECK(!find_task("Tell a story about an owl.", folder));
    CHECK(!find_task("", folder));
    CHECK(!find_task("Write a chronicle of 6 companies.", RL_SOURCE_DIR "/engine")); // no such files there
    for (const PromptRecord& record : read_prompt_file(folder / "story_prompts.jsonl"))
        CHECK(!find_task(record.prompt, folder));
}

TEST_CASE("records of all bundled prompt files are read", "[tasks]") {
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
        if (entry.path().extension() != ".jsonl") continue;
        const auto records = read_prompt_file(entry.path());
        const std::string name = entry.path().stem().string();
        CAPTURE(name);
        CHECK(records.size() == (name == "mt_bench" ? 80u : name == "passages" ? 12u : 60u));
        for (const PromptRecord& record : records) {
            CHECK(!record.prompt.empty());
            CHECK(record.prefix.empty() == (name != "story_continuations"));
            CHECK((!record.response.empty() || name == "mt_bench")); // where only some questions have one
            CHECK(task_of(record, folder).has_value() == !record.kind.empty());
        }
    }
}

TEST_CASE("a malformed prompt file is refused with its line", "[tasks]") {
    const auto message = [](const std::string& text) -> std::string {
        const File file(text);
        try {
            static_cast<void>(read_prompt_file(file.path));
        } catch (const Error& e) {
            return e.what();
        }
        return "";
    };
    CHECK(message("{\"prompt\": \"x\"}\n\n{\"prompt\": 3}\n").find("line 3: \"prompt\" must be text") !=
          std::string::npos);
    CHECK(message("{\"prompt\": \"x\"\n").find("line 1") != std::string::npos);
    CHECK(message("[]\n").find("must be an object") != std::string::npos);
    CHECK(message("{\"kind\": \"table\"}\n").find("no \"prompt\"") != std::string::npos);
    CHECK(message("{\"turns\": []}\n").find("\"turns\"") != std::string::npos);
    CHECK(message("\n").find("holds no prompt") != std::string::npos);
}
