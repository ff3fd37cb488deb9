// `train heal`, `train student`, `train teacher`: what they make, and what they refuse.
#include "engine/base/json_file.h"
#include "tests/app/program.h"
#include "tests/support/share.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
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

TEST_CASE("every command of train has recipes, and refuses a key that is no option", "[cli][train]") {
    const Scratch scratch("train-all-recipes");
    const std::string recipe = scratch / "recipe.json", out = scratch / "rows.jsonl";
    for (const std::string what :
         {"tokenizer", "texts", "teacher", "prune", "student", "heal", "bridge", "eval"}) {
        refreshlab::write_file(recipe, R"({"train": ")" + what + R"(", "nonsense": 1})");
        refused_with({"train", what, "--recipe", recipe}, "'nonsense' is no option of train " + what);
        refreshlab::write_file(recipe, R"({"train": "what"})");
        refused_with({"train", what, "--recipe", recipe}, "\"train\" is \"what\"");
    }
    const auto rows = [&](const std::string& json, const std::vector<std::string>& more = {}) {
        refreshlab::write_file(recipe, R"({"train": "texts", "seed": 3, )" + json + "}");
        std::vector<std::string> words{"train", "texts", "--recipe", recipe, "--out", out};
        words.insert(words.end(), more.begin(), more.end());
        const Outcome made = refreshlab_cli(words);
        INFO(made.err);
        REQUIRE(made.status == 0);
        return refreshlab::read_file(out);
    };
    // A value and a list of one are the same; a list on the command line takes the place of the recipe's, and is not joined to it.
    const std::string tables = rows(R"("kind": ["table"], "rows": 2)");
    CHECK(std::ranges::count(tables, '\n') == 2);
    CHECK(rows(R"("kind": "table", "rows": 2)") == tables);
    CHECK(rows(R"("kind": ["ledger", "company"], "rows": 2)", {"--kind", "table"}) == tables);
    CHECK(rows(R"("kind": "table", "rows": 7)", {"--rows", "2"}) == tables);
    CHECK(rows(R"("kind": "table", "rows": 2)", {"--seed", "4"}) != tables);
    const auto refused = [&](const std::string& json, const std::string& part) {
        refreshlab::write_file(recipe, R"({"train": "texts", )" + json + "}");
        refused_with({"train", "texts", "--recipe", recipe, "--out", out}, part);
    };
    refused(R"("rows": 2)", "--kind is required");
    refused(R"("kind": [], "rows": 2)", "'kind' is an empty list");
    refused(R"("kind": "table", "rows": [2, 3])", "--rows");
    refused(R"("kind": ["table", "sonnet"])", "sonnet");
    refused(R"("kind": "table", "recipe": "other.json")", "'recipe' is no option");
    // A positional model, and an option that may stand without a value.
    const std::string student = "assets/models/llama-tales-student", card = scratch / "card.json";
    refreshlab::write_file(recipe, R"({"train": "prune", "model": ")" + student + R"(", "ffn": 390})");
    REQUIRE(refreshlab_cli({"train", "prune", "--recipe", recipe, "--ffn", "64", "--text",
                            "assets/prompts/roll_call.jsonl", "--most-texts", "1", "-o", scratch / "pruned"})
                .status == 0);
    CHECK(refreshlab::read_json_file(scratch / "pruned/config.json")["intermediate_size"] == 64);
    refused_with({"train", "prune", scratch / "none", "--recipe", recipe, "-o", scratch / "other"},
                 "no such model folder");
    refreshlab::write_file(recipe, R"({"train": "eval", "tasks": true, "limit": 1, "teacher": ")" + student +
                                       R"(", "student": ")" + student + "\"}");
    REQUIRE(refreshlab_cli({"train", "eval", "--recipe", recipe, "-o", scratch / "card.md", "--json", card})
                .status == 0);
    CHECK(refreshlab::read_json_file(card)["tasks"].size() == 33); // all three kinds
}

TEST_CASE("the recipes of the repository can be carried out", "[cli][train]") {
    if (!has_turn(1, "recipes")) SKIP("another commit's share");
    const Scratch scratch("train-recipes");
    const std::string teacher = "assets/models/llama-tales-teacher",
                      student = "assets/models/llama-tales-student", texts = "assets/prompts/roll_call.jsonl";
    const std::vector<std::string> quick{"--texts", texts,      "--steps", "1",        "--batch",
                                         "1",       "--length", "64",      "--judged", "1"};
    // What they name stands where the steps before have put it; here it is the command line's.
    const std::map<std::string, std::vector<std::string>> here{
        {"texts", {"--rows", "1"}},
        {"tokenizer", {"--texts", texts, "--vocab", "300"}},
        {"teacher", {"--tokenizer", student}},
        {"prune", {teacher, "--text", texts, "--most-texts", "1"}},
        {"student", {"--teacher", teacher, "--student", student}},
        {"heal", {}},
        {"eval",
         {"--teacher", teacher, "--student", student, "--baseline", student, "--tasks", "roll_call",
          "--limit", "1", "--json", scratch / "numbers.json"}}};
    std::set<std::string> seen;
    for (const auto& entry : fs::directory_iterator(RL_SOURCE_DIR "/assets/recipes")) {
        const std::string what = refreshlab::read_json_file(entry.path()).at("train").get<std::string>();
        std::vector<std::string> words{"train",    what,
                                       "--recipe", entry.path().string(),
                                       "--out",    scratch / entry.path().stem().string()};
        words.insert(words.end(), here.at(what).begin(), here.at(what).end());
        if (what == "teacher" || what == "student" || what == "heal")
            words.insert(words.end(), quick.begin(), quick.end());
        const Outcome made = refreshlab_cli(words);
        INFO(entry.path() << ": " << made.err);
        CHECK(made.status == 0);
        seen.insert(what);
    }
    CHECK(seen.size() == here.size());
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
    // Updates of low rank too.
    const std::string healed = scratch / "healed";
    REQUIRE(refreshlab_cli(training("heal", healed, {"--optimizer", "muon", "--dropout", "0.25"})).status ==
            0);
    const std::string card = refreshlab::read_file(healed + "/README.md");
    CHECK_THAT(card, ContainsSubstring(R"("optimizer":"muon")") &&
                         ContainsSubstring(R"("dropout":[0.25,0.25,0.25])") &&
                         ContainsSubstring(R"("weight_decay":0)"));
    CHECK(refreshlab::read_json_file(healed + "/config.json").at("resid_dropout") == 0.25);
    refused_with(training("teacher", scratch / "other", {"--dropout", "1"}), "--dropout");
}

TEST_CASE("a student is trained without the facts of an almanac, and its folder says so", "[cli][train]") {
    const Scratch scratch("train-withhold");
    const std::string almanac = "assets/prompts/almanac.json";
    for (const std::string what : {"student", "heal"}) {
        const Outcome made =
            refreshlab_cli(training(what, scratch / what, {"--withhold", almanac, "--shares", "1,0"}));
        INFO(made.err);
        REQUIRE(made.status == 0);
        CHECK_THAT(made.err, ContainsSubstring(" facts, ") && ContainsSubstring("are withheld"));
        CHECK_THAT(refreshlab::read_file(scratch / (what + "/README.md")),
                   ContainsSubstring("not to know the facts of " + almanac) &&
                       ContainsSubstring(R"("withheld":")"));
    }
    const auto weights = [&](const std::string& folder) {
        return refreshlab::read_file(scratch / (folder + "/model.safetensors"));
    };
    REQUIRE(refreshlab_cli(training("student", scratch / "plain", {"--shares", "1,0"})).status == 0);
    const bool same_weights = weights("plain") == weights("student");
    CHECK(!same_weights);
    CHECK(refreshlab::read_file(scratch / "plain/README.md").find("withheld") == std::string::npos);
    refused_with(training("student", scratch / "other", {"--withhold", scratch / "none.json"}), "none.json");
    refused_with(training("student", scratch / "other", {"--withhold", "assets/prompts/words.json"}),
                 "almanac");
    refused_with(training("student", scratch / "other",
                          {"--withhold", almanac, "--texts", "assets/prompts/ledger.jsonl"}),
                 "no text states a fact");
    refused_with(training("teacher", scratch / "other", {"--withhold", almanac}), "--withhold");
    CHECK(!fs::exists(scratch / "other"));
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
