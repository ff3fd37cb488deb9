#include "engine/fetch/known_models.h"
#include "ui/dialogs/new_run.h"
#include "ui/dialogs/prompt_files.h"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <filesystem>

using namespace refreshlab;
using namespace refreshlab::ui;

namespace {

const std::filesystem::path assets = std::filesystem::path(RL_SOURCE_DIR) / "assets";

RunConfig with_prompt(std::string prompt) {
    RunConfig config;
    config.prompt = std::move(prompt);
    return config;
}

} // namespace

TEST_CASE("a new run begins with the bundled pair where nothing else is named", "[ui][dialogs]") {
    const NewRun fresh(with_prompt("Hello"), assets);
    CHECK(std::filesystem::is_directory(fresh.config.teacher_dir));
    CHECK(std::filesystem::is_directory(fresh.config.student_dir));
    RunConfig own = with_prompt("Hello");
    own.student_dir = "/models/mine";
    const NewRun kept(own, assets);
    CHECK(kept.config.teacher_dir.empty());
    CHECK(kept.config.student_dir == "/models/mine");
}

TEST_CASE("a new run says what is missing before it can start", "[ui][dialogs]") {
    NewRun run(with_prompt(""), assets);
    CHECK(run.problem() == "The prompt is empty");
    run.config.prompt = "Hello";
    CHECK(run.problem().empty());
    run.config.teacher_dir.clear();
    CHECK(run.problem() == "The teacher is missing");
    run.config.mode = Mode::student; // reads no teacher
    CHECK(run.problem().empty());
    run.config.student_dir.clear();
    CHECK(run.problem() == "The student is missing");
    run.config.mode = Mode::teacher;
    run.config.teacher_dir = "somewhere";
    CHECK(run.problem().empty());
    run.config.max_tokens = 0;
    CHECK(run.problem() == "At least one token");
    run.config.max_tokens = 1;
    run.seed = "-1";
    CHECK(run.problem().starts_with("Seed: "));
    run.seed = "18446744073709551615";
    CHECK(run.problem().empty());
    CHECK(run.result().seed == UINT64_MAX);
}

TEST_CASE("a given continuation goes with its prompt, and a bundled prompt brings its task",
          "[ui][dialogs]") {
    RunConfig present = with_prompt("Once there was a house.");
    present.given_text = "It was red.";
    NewRun run(present, assets);
    CHECK(run.result().given_text == present.given_text);
    run.config.prompt += " And";
    CHECK(run.result().given_text.empty());
    run.look_for_task();
    CHECK_FALSE(run.task.has_value());
    CHECK(run.result().task == TaskConfig{});
    const auto bundled = read_bundled_prompts(assets / "prompts", 1);
    const bool any = std::ranges::any_of(bundled, [&](const PromptGroup& group) {
        run.config.prompt = group.prompts.at(0);
        run.look_for_task();
        return run.task && run.result().task == *run.task;
    });
    CHECK(any);
    run.config.prompt = "Something else";
    run.look_for_task();
    CHECK_FALSE(run.task.has_value());
}

TEST_CASE("the models that the program knows: bundled ones first, by name", "[ui][dialogs]") {
    const auto models = known_models(RL_SOURCE_DIR "/assets");
    REQUIRE(models.size() >= 2);
    CHECK(models[0].name == "llama-tales-student");
    CHECK(models[1].name == "llama-tales-teacher");
    CHECK(std::filesystem::exists(std::filesystem::path(models[1].path) / "config.json"));
    CHECK(known_models("/nowhere").size() <= 1); // what was fetched is somewhere else
}
