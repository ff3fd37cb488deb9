// `train tokenizer`, `texts`, `prune` and `eval`.
#include "engine/base/json_file.h"
#include "engine/model/model_source.h"
#include "engine/text/tokenizer/tokenizer.h"
#include "tests/app/program.h"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>

namespace train_cli_test {

namespace fs = std::filesystem;
using namespace refreshlab;
using namespace refreshlab::test;
using Catch::Approx;
using Catch::Matchers::ContainsSubstring;

namespace {

const std::string teacher = "assets/models/llama-tales-teacher",
                  student = "assets/models/llama-tales-student";

void refused(const std::vector<std::string>& arguments, const std::string& words) {
    std::vector<std::string> all{"train"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    const Outcome outcome = refreshlab_cli(all);
    INFO(outcome.err);
    CHECK(outcome.status == 2);
    CHECK_THAT(outcome.err, ContainsSubstring(words));
    CHECK(std::count(outcome.err.begin(), outcome.err.end(), '\n') == 1);
}

} // namespace

TEST_CASE("a tokenizer is trained into a folder that can be read", "[cli][train]") {
    const Scratch scratch("train-tokenizer");
    const std::string out = scratch / "made";
    const std::vector<std::string> arguments{
        "train",    "tokenizer", "--texts", "assets/prompts/company.jsonl", "--vocab", "500", "--special",
        "<|tool|>", "-o",        out};
    REQUIRE(refreshlab_cli(arguments).status == 0);
    const auto tokenizer = Tokenizer::load(out);
    CHECK(tokenizer->vocab_size() == 500);
    CHECK(tokenizer->id_of("<|tool|>") == 5);
    CHECK(tokenizer->decode(tokenizer->encode("The company: hero Silion \xC3\xA9.")) ==
          "The company: hero Silion \xC3\xA9.");
    const auto bundled = read_json_file(fs::path(teacher) / "tokenizer_config.json"),
               made = read_json_file(fs::path(out) / "tokenizer_config.json");
    CHECK(made == bundled);
    CHECK(read_json_file(fs::path(out) / "generation_config.json") ==
          read_json_file(fs::path(teacher) / "generation_config.json"));
    // What is there stays.
    const std::string before = read_file(fs::path(out) / "tokenizer.json");
    const Outcome again = refreshlab_cli(arguments);
    CHECK(again.status == 2);
    CHECK(read_file(fs::path(out) / "tokenizer.json") == before);
}

TEST_CASE("a pruned folder has the teacher's geometry and the channels that it says", "[cli][train]") {
    const Scratch scratch("train-prune");
    const std::string out = scratch / "pruned", whole = scratch / "whole", said = scratch / "kept.json";
    REQUIRE(refreshlab_cli({"train", "prune", teacher, "--hidden", "101", "--ffn", "77", "--text",
                            "assets/prompts/roll_call.jsonl", "--most-texts", "4", "-o", out, "--json", said})
                .status == 0);
    const ModelConfig config = ModelSource::open(out)->config();
    CHECK(config.hidden_size == 101);
    CHECK(config.intermediate_size == 77);
    CHECK(config.head_dim == 64);
    const auto kept = read_json_file(said);
    CHECK(kept["hidden"].size() == 101);
    CHECK(kept["ffn"].size() == 5);
    CHECK(kept["ffn"][4].size() == 77);
    const Outcome doctor = refreshlab_cli({"doctor", teacher, out});
    CHECK_THAT(doctor.out + doctor.err, ContainsSubstring("one tokenizer and one KV geometry"));
    // Nothing is left out: the same text.
    REQUIRE(refreshlab_cli({"train", "prune", teacher, "-o", whole}).status == 0);
    const auto text_of = [](const std::string& model) {
        return refreshlab_cli({"run", "--mode", "teacher", "--teacher", model, "--prompt", "Write a tale.",
                               "--max-tokens", "12"})
            .out;
    };
    CHECK(text_of(whole) == text_of(teacher));
}

TEST_CASE("a pair's card has the numbers of the study and of the runs", "[cli][train]") {
    const Scratch scratch("train-eval");
    const std::string card = scratch / "card.md", numbers = scratch / "card.json",
                      tables = scratch / "tables", out = scratch / "study";
    REQUIRE(
        refreshlab_cli({"train",     "eval",      "--teacher",  teacher,
                        "--student", student,     "--baseline", student,
                        "--tasks",   "roll_call", "--texts",    "assets/prompts/story_continuations.jsonl",
                        "--limit",   "2",         "-o",         card,
                        "--json",    numbers,     "--csv",      tables})
            .status == 0);
    CHECK_THAT(read_file(card), ContainsSubstring("2.28 M parameters") &&
                                    ContainsSubstring("refresh every 16") &&
                                    ContainsSubstring("baseline alone"));
    const auto all = read_json_file(numbers);
    REQUIRE(all["tasks"].size() == 11);
    REQUIRE(all["texts"].size() == 4);
    REQUIRE(refreshlab_cli({"study", "tasks", "--parts", "stories", "--limit", "2", "--out", out}).status ==
            0);
    const Table stories = read_csv(out + "/stories.csv");
    for (size_t row = 0; row < 3; ++row) // teacher, student alone, no refresh
        CHECK(all["texts"][row]["nats_per_token"].get<double>() == Approx(std::stod(stories.rows[row][1])));
    CHECK(all["texts"][3]["nats_per_token"] ==
          all["texts"][1]["nats_per_token"]); // the baseline is the student itself
    for (const auto& row : all["tasks"]) {
        if (row["case"] != "teacher") continue;
        CHECK(row["share"] == 1.0);
        CHECK(row["refreshes_per_1000"].is_null());
    }
    const Table csv = read_csv(tables + "/tasks.csv");
    CHECK(csv.rows.size() == 11);
    // A text without a prompt is cut into one.
    write_file(scratch / "tale.txt",
               std::string(60, 'a') + " " + read_file("assets/models/llama-tales-student/README.md"));
    // By the program itself, whose engine is a library that knows no command line.
    REQUIRE(refreshlab_program({"train", "eval", "--teacher", teacher, "--student", student, "--texts",
                                scratch / "tale.txt", "--limit", "1", "-o", card, "--json", numbers})
                .status == 0);
    CHECK(read_json_file(numbers)["texts"][0]["tokens"].get<int>() > 100);
    CHECK_THAT(read_file(card), ContainsSubstring("Measured by:\n\n```sh\n") &&
                                    ContainsSubstring("train eval --teacher " + teacher + " --student "));
}

TEST_CASE("a card that a signal stops is not written, and one line says so", "[cli][train]") {
    const Scratch scratch("train-eval-stopped");
    const std::string program = RL_BUILD_DIR "/refreshlab", card = scratch / "card.md";
    int words[2];
    REQUIRE(pipe(words) == 0);
    const pid_t child = fork();
    if (child == 0) {
        dup2(words[1], STDERR_FILENO);
        close(words[0]);
        close(words[1]);
        if (chdir(RL_SOURCE_DIR) != 0) _exit(126);
        execl(program.c_str(), program.c_str(), "train", "eval", "--teacher",
              "assets/models/llama-tales-teacher", "--student", "assets/models/llama-tales-student",
              "--tasks", "chronicle", "--threads", "1", "-o", card.c_str(), nullptr);
        _exit(127);
    }
    close(words[1]);
    std::string said;
    char letter = 0;
    bool sent = false;
    while (read(words[0], &letter, 1) == 1) {
        said += letter;
        if (!sent && letter == '\n' && said.find("loading the models") != std::string::npos) {
            kill(child, SIGINT);
            sent = true;
        }
    }
    close(words[0]);
    int state = 0;
    REQUIRE(waitpid(child, &state, 0) == child);
    INFO(said);
    CHECK((WIFEXITED(state) && WEXITSTATUS(state) == 128 + SIGINT));
    CHECK_THAT(said, ContainsSubstring("interrupted: nothing was written\n"));
    CHECK(!fs::exists(card));
}

TEST_CASE("what a training command is asked for wrongly is one line", "[cli][train][bad-input]") {
    const Scratch scratch("train-bad");
    const std::string out = scratch / "out", texts = "assets/prompts/roll_call.jsonl";
    refused({"tokenizer", "--texts", texts, "--vocab", "260", "-o", out},
            "5 special tokens and 256 bytes are more");
    refused({"tokenizer", "--texts", texts, "--vocab", "90000", "-o", out}, "merges; give more texts");
    refused({"tokenizer", "--texts", texts, "--special", "<|end|>", "-o", out}, "is there already");
    write_file(scratch / "bad.txt", "abc \xFF");
    refused({"tokenizer", "--texts", scratch / "bad.txt", "-o", out}, "byte 4 is not UTF-8");
    write_file(scratch / "bad.jinja", "{% for %}");
    refused({"tokenizer", "--texts", texts, "--vocab", "300", "--template", scratch / "bad.jinja", "-o", out},
            "chat template");
    refused({"texts", "--kind", "retell", "-o", out}, "no story");
    refused({"texts", "--kind", "sonnet", "-o", out}, "sonnet");
    refused({"prune", teacher, "--hidden", "321", "-o", out}, "the model has 320 such channels");
    refused({"prune", teacher, "--hidden", "32", "-o", teacher}, teacher);
    refused({"prune", scratch / "none", "-o", out}, "no such model folder");
    refused({"eval", "--teacher", teacher, "--student", student, "-o", scratch / "card.md"},
            "nothing to measure");
    refused({"eval", "--teacher", teacher, "--student", student, "--tasks", "--prompts", scratch / "none",
             "-o", scratch / "card.md"},
            "none");
    write_file(scratch / "empty.txt", "");
    refused({"eval", "--teacher", teacher, "--student", student, "--texts", scratch / "empty.txt", "-o",
             scratch / "card.md"},
            "no text of at least 200 bytes");
    CHECK_FALSE(fs::exists(out));
    CHECK_FALSE(fs::exists(scratch / "card.md"));
}

} // namespace train_cli_test
