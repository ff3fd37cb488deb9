// `train heal`, `train student`, `train teacher`: what they make, and what they refuse.
#include "engine/base/json_file.h"
#include "tests/app/program.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

namespace train_model_cli_test {

namespace fs = std::filesystem;
using namespace refreshlab::test;
using Catch::Matchers::ContainsSubstring;

namespace {

/// A quick training; what `more` has goes before what is usual here.
std::vector<std::string> training(const std::string& what, const std::string& out,
                                  const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments{"train", what};
    const auto usual = [&](const std::string& option, const std::string& value) {
        if (std::ranges::find(more, option) == more.end()) arguments.insert(arguments.end(), {option, value});
    };
    if (what != "teacher") {
        usual("--teacher", "assets/models/llama-tales-student");
        usual("--student", "derive:bits=2,group=16");
    } else {
        usual("--shape", "assets/models/llama-tales-student/config.json");
        usual("--tokenizer", "assets/models/llama-tales-student");
    }
    usual("--texts", "assets/prompts/roll_call.jsonl");
    usual("--out", out);
    usual("--steps", "3");
    usual("--batch", "1");
    usual("--length", "64");
    usual("--judged", "2");
    usual("--threads", "1");
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
}

} // namespace

TEST_CASE("a student is healed, its losses are drawn, and a run takes it", "[cli][train]") {
    const Scratch scratch("train-heal");
    const std::string out = scratch / "healed", tables = scratch / "tables";
    const Outcome made = refreshlab_cli(training(
        "heal", out + "/",
        {"--csv", tables, "--samples", scratch / "samples.rlt", "--sample-every", "2", "--steps", "4"}));
    INFO(made.err);
    REQUIRE(made.status == 0);
    CHECK_THAT(made.out,
               ContainsSubstring("weights' loss") && ContainsSubstring("no longer rounded to 2 bits"));
    CHECK_THAT(made.err, ContainsSubstring("held out") && ContainsSubstring("left"));
    CHECK_THAT(refreshlab::read_file(out + "/README.md"),
               ContainsSubstring("no refresh") && ContainsSubstring("train heal --teacher"));
    // Samples are runs of a trace, and change nothing.
    CHECK_THAT(refreshlab_cli({"info", scratch / "samples.rlt"}).out,
               ContainsSubstring("step 2") && ContainsSubstring("step 4"));
    REQUIRE(refreshlab_cli(training("heal", scratch / "silent", {"--steps", "4"})).status == 0);
    CHECK(refreshlab::read_file(out + "/model.safetensors") ==
          refreshlab::read_file(scratch / "silent/model.safetensors"));
    CHECK(fs::exists(out + "/adapter.safetensors"));
    CHECK(!fs::exists(out + ".part"));
    CHECK(!fs::exists(out + ".part.lock"));
    CHECK(refreshlab_cli({"figure", tables, "--panel", "loss", "-o", scratch / "loss.svg"}).status == 0);
    CHECK(refreshlab_cli({"run", "--teacher", "assets/models/llama-tales-student", "--student", out,
                          "--prompt", "Write.", "--max-tokens", "6", "--policy", "periodic"})
              .status == 0);
    refused_with(training("heal", out), "not empty");
}

TEST_CASE("a teacher is trained from nothing, and a student of it", "[cli][train]") {
    const Scratch scratch("train-teacher");
    const std::string teacher = scratch / "teacher", student = scratch / "student";
    const Outcome made = refreshlab_cli(
        training("teacher", teacher,
                 {"--dtype", "bf16", "--samples", scratch / "samples.rlt", "--sample-every", "3"}));
    INFO(made.err);
    REQUIRE(made.status == 0);
    CHECK_THAT(made.out, ContainsSubstring("perplexity"));
    CHECK_THAT(refreshlab_cli({"info", scratch / "samples.rlt"}).out, ContainsSubstring("step 3"));
    const Outcome taught = refreshlab_cli(training(
        "student", student, {"--teacher", teacher, "--student", "assets/models/llama-tales-student"}));
    INFO(taught.err);
    REQUIRE(taught.status == 0);
    CHECK_THAT(taught.out, ContainsSubstring("weights' loss"));
    CHECK(refreshlab_cli(training("student", scratch / "alone", {"--alone"})).status == 0);
}

TEST_CASE("a recipe gives options, the command line goes before it, and what it has beside them is refused",
          "[cli][train]") {
    const Scratch scratch("train-recipe");
    const std::string recipe = scratch / "recipe.json", out = scratch / "healed";
    const std::string places =
        R"("teacher": "assets/models/llama-tales-student", "student": "derive:bits=2,group=16",
        "texts": ["assets/prompts/roll_call.jsonl"], "batch": 1, "length": 64, "judged": 2, "threads": 1, )";
    refreshlab::write_file(recipe,
                           R"({"train": "heal", )" + places + R"("steps": 2, "rank": 3, "on": ["q", "v"]})");
    const Outcome made = refreshlab_cli({"train", "heal", "--recipe", recipe, "--out", out, "--rank", "5"});
    INFO(made.err);
    REQUIRE(made.status == 0);
    const std::string card = refreshlab::read_file(out + "/README.md");
    CHECK_THAT(card, ContainsSubstring(R"("rank":5)") && ContainsSubstring(R"("places":["q","v"])") &&
                         ContainsSubstring(R"("steps":2)"));
    const auto refused = [&](const std::string& json, const std::string& part) {
        refreshlab::write_file(recipe, json);
        refused_with({"train", "heal", "--recipe", recipe, "--out", scratch / "other"}, part);
    };
    refused(R"({"train": "heal", "rnak": 3})", "did you mean rank");
    refused(R"({"train": "teacher"})", "\"train\" is \"teacher\"");
    refused(R"({"train": "heal", "rank": 0})", "rank");
    refused(R"({"train": "heal", "rank": {}})", "neither text nor number");
    refused("[]", "no JSON object");
    refused(R"({"train": "heal"})", "--teacher");
}

TEST_CASE("the recipes of the repository can be read", "[cli][train]") {
    const Scratch scratch("train-recipes");
    int64_t recipes = 0;
    for (const auto& entry : fs::directory_iterator(RL_SOURCE_DIR "/assets/recipes")) {
        const nlohmann::json recipe = refreshlab::read_json_file(entry.path());
        const std::string what = recipe.at("train").get<std::string>();
        std::vector<std::string> words{"train",    what,
                                       "--recipe", entry.path().string(),
                                       "--out",    scratch / entry.path().stem().string()};
        const auto missing = [&](const std::string& option, const std::string& value) {
            if (!recipe.contains(option)) words.insert(words.end(), {"--" + option, value});
        };
        missing("texts", "assets/prompts/roll_call.jsonl");
        if (what == "tokenizer") {
            words.insert(words.end(), {"--vocab", "300"});
        } else {
            words.insert(words.end(), {"--steps", "1", "--batch", "1", "--length", "64", "--judged", "1",
                                       "--threads", "1"});
            if (what == "teacher") missing("tokenizer", "assets/models/llama-tales-student");
            if (what == "student") missing("teacher", "assets/models/llama-tales-teacher");
            if (what == "student") missing("student", "assets/models/llama-tales-student");
        }
        const Outcome made = refreshlab_cli(words);
        INFO(made.err);
        CHECK(made.status == 0);
        ++recipes;
    }
    CHECK(recipes > 1);
}

TEST_CASE("a training with Muon, dropout, bf16 and packs says so in its folder", "[cli][train]") {
    const Scratch scratch("train-muon");
    const std::string out = scratch / "teacher";
    const Outcome made = refreshlab_cli(training("teacher", out,
                                                 {"--optimizer", "muon", "--dropout", "0.125", "--products",
                                                  "bf16", "--pack", "256", "--batch", "4"}));
    INFO(made.err);
    REQUIRE(made.status == 0);
    CHECK_THAT(made.out, ContainsSubstring("3 steps read"));
    CHECK_THAT(refreshlab::read_file(out + "/README.md"), ContainsSubstring(R"("optimizer":"muon")"));
    const nlohmann::json config = refreshlab::read_json_file(out + "/config.json");
    for (const char* key : {"attention_dropout", "resid_dropout", "embd_dropout"})
        CHECK(config.at(key).get<double>() == 0.125);
    // Without the option it is what config.json declares.
    REQUIRE(refreshlab_cli(training("teacher", scratch / "declared")).status == 0);
    CHECK_THAT(refreshlab::read_file(scratch / "declared/README.md"),
               ContainsSubstring(R"("dropout":[0.05,0.05,0.05])"));
    refused_with(training("heal", scratch / "healed", {"--optimizer", "muon"}), "--optimizer");
    refused_with(training("teacher", scratch / "other", {"--dropout", "1"}), "--dropout");
}

TEST_CASE("what train is asked for wrongly is one line", "[cli][train][bad-input]") {
    const Scratch scratch("train-bad");
    const std::string out = scratch / "out";
    refused_with(training("heal", out + ".gguf"), "writes a model folder");
    refused_with(training("heal", scratch / "none/out"), "no such folder");
    refused_with(training("heal", out, {"--texts", "none.jsonl"}), "none.jsonl");
    refused_with(training("heal", out, {"--length", "4096"}), "context of 2048");
    refused_with(training("heal", out, {"--on", "q,w"}), "'w' is no matrix");
    refused_with(training("heal", out, {"--shares", "0.7,0.7"}), "two shares");
    refused_with(training("heal", out, {"--student", "derive:ffn=0.5"}), "text=FILE");
    refused_with(training("heal", out, {"--student", "derive:bits=3,group=7"}), "group");
    refreshlab::write_file(scratch / "short.txt", "A word.");
    refused_with(training("heal", out, {"--texts", scratch / "short.txt"}), "fewest");
    // Another shape's vocabulary, and another geometry.
    fs::create_directory(scratch / "shape");
    nlohmann::json shape = refreshlab::read_json_file("assets/models/llama-tales-student/config.json");
    shape["vocab_size"] = 100;
    refreshlab::write_file(scratch / "shape/config.json", shape.dump());
    refused_with(training("teacher", out, {"--shape", scratch / "shape"}), "no room for the tokenizer");
    shape["vocab_size"] = 4096;
    shape["num_hidden_layers"] = 2;
    refreshlab::write_file(scratch / "shape/config.json", shape.dump());
    REQUIRE(refreshlab_cli(training("teacher", scratch / "thin", {"--shape", scratch / "shape"})).status ==
            0);
    refused_with(training("heal", out, {"--student", scratch / "thin"}), "reads no entry of this teacher");
    // Another program trains into the same output.
    const std::string lock_path = out + ".part.lock";
    const int lock = ::open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    REQUIRE(::flock(lock, LOCK_EX | LOCK_NB) == 0);
    refused_with(training("heal", out), "another program trains");
    ::close(lock);
    // A checkpoint that is none; it stays until --restart.
    refreshlab::write_file(out + ".part", "no training");
    refused_with(training("heal", out), "out.part");
    CHECK(refreshlab::read_file(out + ".part") == "no training");
    CHECK(refreshlab_cli(training("heal", out, {"--restart"})).status == 0);
}

} // namespace train_model_cli_test
