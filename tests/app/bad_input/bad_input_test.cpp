// Bad input: exit status 2 (1 for a failure), one line that says what, nothing written over, no crash.
#include "engine/base/json_file.h"
#include "engine/record/trace/sqlite.h"
#include "tests/app/program.h"
#include "tests/support/gguf_writer.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <nlohmann/json.hpp>
#include <sys/stat.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace bad_input_test {

namespace fs = std::filesystem;
using namespace refreshlab;
using namespace refreshlab::test;
using Catch::Matchers::ContainsSubstring;

namespace {

void refused(const std::vector<std::string>& arguments, const std::vector<std::string>& parts,
             int status = 2) {
    const Outcome outcome = refreshlab_cli(arguments);
    CAPTURE(arguments, outcome.err);
    CHECK(outcome.status == status);
    CHECK(outcome.out.empty());
    CHECK(std::count(outcome.err.begin(), outcome.err.end(), '\n') == 1);
    CHECK_FALSE(has_controls(outcome.err));
    CHECK_THAT(outcome.err, Catch::Matchers::StartsWith("refreshlab: "));
    for (const std::string& part : parts)
        CHECK_THAT(outcome.err, ContainsSubstring(part));
}

std::vector<std::string> run_with(const std::vector<std::string>& more) {
    std::vector<std::string> arguments{"run", "--prompt", "Hello", "--max-tokens", "8"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
}

void write(const std::string& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
}

/// A copy of the bundled student that a test may damage.
std::string student_copy(const Scratch& scratch) {
    const std::string folder = scratch / "model";
    fs::remove_all(folder);
    fs::copy(RL_SOURCE_DIR "/assets/models/llama-tales-student", folder);
    return folder;
}

} // namespace

TEST_CASE("command lines that make no sense", "[bad-input]") {
    refused({}, {"subcommand"});
    refused({"fly"}, {"fly"});
    refused({"run"}, {"no prompt"});
    refused(run_with({"--mode", "both"}), {"--mode", "both", "overfill"});
    refused(run_with({"--dtype", "int4"}), {"--dtype", "int4"});
    refused(run_with({"--no-such-option"}), {"--no-such-option"});
    refused(run_with({"--max-tokens", "0"}), {"max_tokens"});
    refused(run_with({"--temperature", "-1"}), {"temperature"});
    refused(run_with({"--top-p", "nan"}), {"top_p"});
    refused(run_with({"--seed", "x"}), {"seed"});
#if REFRESHLAB_UI
    refused({"gui", "--screenshot", "x.png", "--size", "10x10"}, {"--size"});
    refused({"gui"}, {"no display", "refreshlab run"}, 1);
#else
    refused({"gui"}, {"no window", "refreshlab run"}, 1);
    refused({"gui", "x.rlt", "--screenshot", "x.png"}, {"no window", "refreshlab run"}, 1);
#endif
}

TEST_CASE("command files that cannot be used", "[bad-input]") {
    const Scratch scratch("commands");
    const std::string file = scratch / "c.json";
    refused(run_with({"--commands", file}), {"c.json"});
    const std::pair<const char*, const char*> cases[] = {
        {"[", "line 1"},
        {R"({"step": 1})", "list"},
        {R"([{"step": 1, "command": {"command": "stop"}}])", "refresh_now"},
        {R"([{"step": 1, "command": {"command": "set_parameter", "key": "max_tokens", "value": "3"}}])",
         "max_tokens"},
        {R"([{"step": 1, "command": {"command": "set_parameter", "key": "mc.p", "value": "nan"}}])", "mc.p"},
        {R"([{"step": 0, "command": {"command": "refresh_now"}}])", "step"},
    };
    for (const auto& [text, part] : cases) {
        write(file, text);
        refused(run_with({"--commands", file}), {"c.json", part});
    }
    write(file, R"([{"step": 1, "command": {"command": "refresh_now"}}])");
    refused(run_with({"--mode", "student", "--commands", file}), {"c.json", "overfill"});
    refused(run_with({"--commands", file, "--summary", file}), {"--summary", "--commands"});
    refused({"run", "--replay", "x.rlt", "--commands", file}, {"--commands", "--replay"});
}

TEST_CASE("prompts that cannot be used", "[bad-input]") {
    const Scratch scratch("prompt");
    refused({"run", "--prompt", ""}, {"prompt", "empty"});
    refused({"run", "--prompt", "ab\xFF"}, {"UTF-8", "byte 2"});
    write(scratch / "latin1.txt", "caf\xE9");
    refused({"run", "--prompt-file", scratch / "latin1.txt"}, {"UTF-8"});
    refused({"run", "--prompt-file", scratch / "missing.txt"}, {"missing.txt"});
    std::string tale;
    for (int i = 0; i < 4000; ++i)
        tale += "once more ";
    write(scratch / "long.txt", tale);
    refused({"run", "--prompt-file", scratch / "long.txt"}, {"tokens", "2048"});
    // What an editor puts around a text is no part of the prompt; what stands inside it is.
    const auto text = [&](const std::string& bytes) {
        write(scratch / "p.txt", bytes);
        return refreshlab_cli({"run", "--prompt-file", scratch / "p.txt", "--max-tokens", "12"}).out;
    };
    const std::string plain = refreshlab_cli({"run", "--prompt", "Write a tale.", "--max-tokens", "12"}).out;
    REQUIRE_FALSE(plain.empty());
    for (const char* bytes :
         {"Write a tale.", "Write a tale.\n", "Write a tale.\r\n", "\xEF\xBB\xBFWrite a tale.\n"})
        CHECK(text(bytes) == plain);
    CHECK(text("Write a\ntale.\n\n") != plain);
}

TEST_CASE("policies and parameters that cannot be used", "[bad-input]") {
    const Scratch scratch("policy");
    refused(run_with({"--policy", "sometimes"}), {"sometimes", "entropy"});
    refused(run_with({"--policy", scratch / "missing.json"}), {"missing.json"});
    refused(run_with({"--policy", "entropy", "--set", "entropy.threshold=nan"}), {"entropy.threshold"});
    refused(run_with({"--policy", "entropy", "--set", "entropy.threshold=-1"}), {"entropy.threshold"});
    refused(run_with({"--policy", "periodic", "--set", "entropy.threshold=4"}), {"entropy"});
    refused(run_with({"--set", "no.such=1"}), {"no.such"});
    refused(run_with({"--set", "nonsense"}), {"nonsense"});
    refused(run_with({"--set", "on_fire=burn"}), {"on_fire", "redraw"});
    write(scratch / "broken.json", "{\n  \"name\": \"x\",\n  \"when\": {\"any\": [}\n}\n");
    refused(run_with({"--policy", scratch / "broken.json"}), {"broken.json", "line 3", "column"});
    write(scratch / "signal.json",
          R"({"name": "x", "when": {"any": [{"signal": "entropy_bit", "above": 3}]}})");
    refused(run_with({"--policy", scratch / "signal.json"}), {"entropy_bit", "entropy_bits"});
    write(scratch / "negative.json",
          R"({"name": "x", "when": {"any": [{"signal": "entropy_bits", "above": -3}]}})");
    refused(run_with({"--policy", scratch / "negative.json"}), {"-3"});
}

TEST_CASE("cache policies that cannot be used", "[bad-input]") {
    const Scratch scratch("bad-cache-policy");
    refused(run_with({"--student-cache", "h20"}), {"--student-cache", "h2o"});
    refused(run_with({"--student-cache", scratch / "none.json"}), {"none.json", "no such file"});
    const auto with = [&](const std::string& assignment) {
        return run_with({"--student-cache", "h2o", "--set", "student_cache." + assignment});
    };
    refused(with("budget=0"), {"student_cache.budget", "out of range"});
    refused(with("budget=2.5"), {"student_cache.budget", "not a whole number"});
    refused(with("budget=100000"), {"100000 entries are more than"});
    refused(with("budgett=4"), {"student_cache.budget"});
    refused(with("window=4"), {"cache policy h2o has no window", "budget"});
    refused(run_with({"--set", "student_cache.budget=8"}),
            {"cache policy full has no budget", "student_cache.policy"});
    refused(run_with({"--teacher-cache", "h2o", "--set", "teacher_cache.budget=8"}), {"keeps all of them"});
    const std::string file = scratch / "cache.json";
    write(file, R"({"policy": "snapkv", "budjet": 8})");
    refused(run_with({"--student-cache", file}), {"cache.json", "budjet", "budget"});
    write(file, R"({"policy": "snapkv", "budget": 8, "kernel": 4})");
    refused(run_with({"--student-cache", file}), {"kernel", "even"});
}

TEST_CASE("published models that there are not", "[bad-input]") {
    refused({"models", "get", "nope"}, {"nope", "smollm2-135m"});
    refused({"models", "get"}, {"NAME"});
    refused({"models", "fly"}, {"fly"});
    refused({"models", "remove", "nope"}, {"nope"});
}

TEST_CASE("GGUF files that cannot be used", "[bad-input]") {
    const Scratch scratch("gguf");
    const std::string path = scratch / "model.gguf";
    const auto wrong = [&](const std::string& bytes, std::vector<std::string> parts) {
        write(path, bytes);
        parts.push_back("model.gguf");
        refused(run_with({"--teacher", path, "--student", path}), parts);
    };
    const std::string whole = tiny_gguf().bytes();
    for (const size_t cut :
         {size_t{0}, size_t{3}, size_t{20}, size_t{300}, whole.size() / 2, whole.size() - 100})
        wrong(whole.substr(0, cut), {cut < 4 ? "is no GGUF file" : "truncated"});
    wrong(tiny_gguf().text("general.architecture", "mamba").bytes(),
          {"general.architecture", "mamba", "supported"});
    wrong(tiny_gguf().text("tokenizer.ggml.pre", "poro-chat").bytes(), {"tokenizer.ggml.pre", "poro-chat"});
    wrong(tiny_gguf().tensor("x", {256}, 18, "").bytes(), {"\"x\"", "IQ3_XXS"});
    wrong(tiny_gguf().floats("blk.0.attn_qkv.weight", {8, 24}).bytes(),
          {"blk.0.attn_qkv.weight", "has no place"});
    wrong(tiny_gguf().drop("blk.1.ffn_up.weight").bytes(), {"blk.1.ffn_up.weight", "missing"});
    wrong(tiny_gguf().number("split.count", 2).bytes(), {"split.count"});
    fs::remove(path);
    REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
    refused(run_with({"--student", path}), {"model.gguf", "pipe"});
}

TEST_CASE("a GGUF file runs, is described, and is not written over", "[bad-input]") {
    const Scratch scratch("gguf-run");
    const std::string path = scratch / "tiny.gguf";
    write(path, tiny_gguf().bytes());
    const Outcome run = refreshlab_cli({"run", "--teacher", path, "--student", path, "--prompt", "ab",
                                        "--max-tokens", "5", "--summary", scratch / "s.json"});
    CAPTURE(run.err);
    CHECK(run.status == 0);
    CHECK(read_json_file(scratch / "s.json")["tokens"] == 5);
    const Outcome doctor = refreshlab_cli({"doctor", path, path});
    CAPTURE(doctor.out);
    CHECK(doctor.status == 0);
    for (const char* part : {"metadata", "20 tensors", "F32", "10 ids", "teacher and student are one model"})
        CHECK_THAT(doctor.out, ContainsSubstring(part));
    refused(run_with({"--teacher", path, "--student", path, "--record", path}), {"tiny.gguf"});
    CHECK(read_file(path) == tiny_gguf().bytes());
}

TEST_CASE("model folders that cannot be used", "[bad-input]") {
    const Scratch scratch("model");
    refused(run_with({"--student", scratch / "nowhere"}), {"nowhere", "no such model folder or .gguf file"});
    std::string model = student_copy(scratch);
    const std::string weights = model + "/model.safetensors";
    fs::resize_file(weights, fs::file_size(weights) / 2);
    refused(run_with({"--student", model}), {"model.safetensors"});

    std::string bytes(8, '\xFF');
    write(weights, bytes + "{}");
    refused(run_with({"--student", model}), {"model.safetensors", "header"});
    const std::string overlapping =
        R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})";
    std::string header(8, '\0');
    header[0] = static_cast<char>(overlapping.size());
    write(weights, header + overlapping + std::string(12, '\0'));
    refused(run_with({"--student", model}), {"model.safetensors", "overlap"});

    model = student_copy(scratch);
    nlohmann::json config = read_json_file(model + "/config.json");
    config.erase("num_hidden_layers");
    write(model + "/config.json", config.dump());
    refused(run_with({"--student", model}), {"config.json", "num_hidden_layers"});
    write(model + "/config.json", "{\"model_type\": ");
    refused(run_with({"--student", model}), {"config.json", "line 1"});

    model = student_copy(scratch);
    nlohmann::json tokenizer = read_json_file(model + "/tokenizer.json");
    nlohmann::json other = tokenizer;
    tokenizer["model"].erase("merges");
    write(model + "/tokenizer.json", tokenizer.dump());
    refused(run_with({"--student", model}), {"tokenizer.json", "merges"});

    // Two ids change places: the same size, another vocabulary.
    auto& vocab = other["model"]["vocab"];
    std::vector<std::string> keys;
    for (const auto& [key, id] : vocab.items()) {
        if (id.get<int>() > 300) keys.push_back(key);
    }
    std::swap(vocab[keys[0]], vocab[keys[1]]);
    write(model + "/tokenizer.json", other.dump());
    refused(run_with({"--student", model}), {"different vocabularies"});
    // Alone it needs no teacher: the bundled one, which nobody asked for, is left out.
    const Outcome alone =
        refreshlab_cli(run_with({"--mode", "student", "--student", model, "--summary", scratch / "s.json"}));
    CAPTURE(alone.err);
    CHECK(alone.status == 0);
    CHECK_THAT(alone.err, ContainsSubstring("note: the bundled teacher has another vocabulary"));
    CHECK(read_json_file(scratch / "s.json")["teacher_ppl"].is_null());
    const Outcome teacher = refreshlab_cli(run_with({"--mode", "teacher", "--teacher", model}));
    CAPTURE(teacher.err);
    CHECK(teacher.status == 0);
    CHECK_THAT(teacher.err, ContainsSubstring("note: the bundled student has another vocabulary"));
    // One that was named stays, and is refused.
    refused(run_with({"--mode", "student", "--student", model, "--teacher",
                      RL_SOURCE_DIR "/assets/models/llama-tales-teacher"}),
            {"different vocabularies"});
}

TEST_CASE("a start that fails loses nothing that was recorded", "[bad-input]") {
    const Scratch scratch("kept");
    const std::string trace = scratch / "old.rlt";
    REQUIRE(refreshlab_cli(run_with({"--record", trace, "--max-tokens", "4"})).status == 0);
    const std::string bytes = read_file(trace);
    refused(run_with({"--record", trace, "--teacher", scratch / "nowhere"}), {"nowhere"});
    refused({"run", "--prompt", std::string(60000, 'a'), "--record", trace}, {"tokens"});
    if (!fs::exists("/dev/nvidia0")) refused(run_with({"--record", trace, "--device", "cuda"}), {"cuda"});
    refused(run_with({"--record", trace, "--teacher", ""}), {"--teacher", "empty"});
    CHECK(read_file(trace) == bytes);
}

TEST_CASE("an output never replaces an input or another output", "[bad-input]") {
    const Scratch scratch("outputs");
    const std::string model = student_copy(scratch), config = model + "/config.json";
    const std::string before = read_file(config);
    refused(run_with({"--student", model, "--summary", config}), {"--summary", "--student"});
    CHECK(read_file(config) == before);
    write(scratch / "prompt.txt", "Write a tale.");
    refused({"run", "--prompt-file", scratch / "prompt.txt", "--summary", scratch / "prompt.txt"},
            {"--prompt-file"});
    refused(run_with({"--record", scratch / "a.rlt", "--summary", scratch / "./a.rlt"}), {"--record"});
    write(scratch / "spec.json", R"({"modes": "student", "prompts": "a", "max_tokens": 4})");
    refused({"sweep", scratch / "spec.json", "--out", scratch / "s.db", "--markdown", scratch / "spec.json"},
            {"--markdown", "the spec"});
    refused({"sweep", scratch / "spec.json", "--out", scratch / "s.db", "--csv", scratch / "s.db"},
            {"--out"});
    CHECK_FALSE(fs::exists(scratch / "s.db"));
    REQUIRE(refreshlab_cli(run_with({"--record", scratch / "a.rlt", "--max-tokens", "4"})).status == 0);
    refused({"run", "--replay", scratch / "a.rlt", "--dtype", "bf16"}, {"--dtype", "--replay"});
    refused({"run", "--replay", scratch / "a.rlt", "--record", scratch / "a.rlt"}, {"--record", "--replay"});
    refused({"run", "--replay", scratch / "a.rlt", "--summary", scratch / "a.rlt"}, {"--summary"});
#if REFRESHLAB_UI
    refused({"gui", scratch / "a.rlt", "--record", scratch / "a.rlt", "--screenshot", scratch / "a.png"},
            {"--record", "TRACE"});
#endif
}

TEST_CASE("what stands in files and options cannot steer the terminal", "[bad-input]") {
    const Scratch scratch("escapes");
    const std::string escape = "\x1B]0;title\x07\u009B31m", json = R"(\u001b]0;title\u0007\u009b31m)",
                      shown = "\\x1B]0;title";
    const std::string file = scratch / "x.json", trace = scratch / "a.rlt";
    write(file, "{\"" + json + "\": 1}");
    refused(run_with({"--policy", file}), {shown});
    write(file, R"({"prompts": "a", ")" + json + R"(": 1})");
    refused({"sweep", file}, {shown});
    write(file, R"([{"step": 3, "command": {"command": ")" + json + R"("}}])");
    refused(run_with({"--commands", file}), {R"(\u001b]0;title)"}); // spelt as JSON there
    refused(run_with({"--set", escape + "=1"}), {shown});
    refused(run_with({"--policy", escape}), {shown});
    refused({escape}, {shown});
    refused({"export", scratch / escape, "--csv", scratch / "csv"}, {shown});
    // A key of a megabyte is said in part.
    write(file, "{\"" + std::string(1'000'000, 'k') + "\": 1}");
    CHECK(refreshlab_cli(run_with({"--policy", file})).err.size() < 10'000);
    const std::string megabyte(1'000'000, 'k');
    const auto short_refusal = [](const std::vector<std::string>& arguments, const std::string& part) {
        const Outcome outcome = refreshlab_cli(arguments);
        CAPTURE(outcome.err.substr(0, 5000));
        CHECK(outcome.status == 2);
        CHECK(outcome.err.size() < 10'000);
        CHECK_THAT(outcome.err, ContainsSubstring(part)); // what is wrong is not cut off with the rest
    };
    write(file, R"({"prompts": "a", ")" + megabyte + R"(": 1})");
    short_refusal({"sweep", file}, "unknown key");
    write(file, R"({"prompts": "a", "base": {")" + megabyte + R"(": 1}})");
    short_refusal({"sweep", file}, "unknown key");
    write(file, R"({"prompts": "a", "policies": ")" + megabyte + R"("})");
    short_refusal({"sweep", file}, "kkk");
    write(file, R"([{"step": 3, "command": {"command": "set_parameter", "key": ")" + megabyte +
                    R"(", "value": "1"}}])");
    short_refusal(run_with({"--commands", file}), "no such parameter");

    // Names that are accepted: of a policy, in the table of a run, of a sweep and in a trace.
    write(file, R"({"name": ")" + json + R"("})");
    const Outcome run = refreshlab_cli(run_with({"--policy", file, "--max-tokens", "4", "--record", trace}));
    CAPTURE(run.err);
    REQUIRE(run.status == 0);
    CHECK_FALSE(has_controls(run.err));
    {
        sqlite::Database db(trace, sqlite::Open::read_write);
        db.exec("UPDATE runs SET id = char(27) || '[2J' || char(7)");
    }
    const Outcome score = refreshlab_cli({"score", trace});
    CAPTURE(score.out, score.err);
    CHECK(score.status == 0);
    CHECK_FALSE(has_controls(score.out));
    CHECK_THAT(score.out, ContainsSubstring(shown) && ContainsSubstring("\\x1B[2J"));
    refused({"export", trace, "--csv", scratch / "csv", "--run", escape}, {shown, "\\x1B[2J"});
    write(file, R"({"modes": "student", "name": ")" + json + R"(", "prompts": "a", "max_tokens": 2})");
    const Outcome sweep = refreshlab_cli({"sweep", file, "--out", scratch / "s.db"});
    CAPTURE(sweep.err);
    CHECK(sweep.status == 0);
    CHECK_FALSE(has_controls(sweep.out + sweep.err));
    CHECK_THAT(sweep.out, ContainsSubstring(shown));
}

TEST_CASE("generated text on a terminal shows control characters instead of obeying them", "[bad-input]") {
    const Scratch scratch("given");
    const std::string given = "A\x1B[31m tale.\r\u009B\n\tB";
    write(scratch / "given", given);
    const std::vector<std::string> arguments{
        "run",          "--prompt",        "Hello", "--raw-prompt",
        "--given-file", scratch / "given", "--set", "capture.attention=false"};
    const Outcome piped = refreshlab_cli(arguments);
    CAPTURE(piped.err);
    REQUIRE(piped.status == 0);
    CHECK(piped.out == given); // a pipe or a file gets the bytes
    const Outcome terminal = refreshlab_on_terminal(arguments, 120, true);
    CHECK_THAT(terminal.err,
               ContainsSubstring("A\\x1B[31m tale.\\x0D\\xC2\\x9B\r\n\tB\r\n")); // the last line ends
}

TEST_CASE("control tokens in a prompt are said", "[bad-input]") {
    const std::vector<std::string> run{"run", "--max-tokens", "3", "--prompt"};
    const auto said = [&](const std::string& prompt) {
        std::vector<std::string> arguments = run;
        arguments.push_back(prompt);
        return refreshlab_cli(arguments).err;
    };
    CHECK_THAT(said("Hi<|end|>"), ContainsSubstring("note: the prompt contains 1 control token (<|end|>)"));
    CHECK_THAT(said("Hi"), !ContainsSubstring("control token"));
}

TEST_CASE("streams that are closed or full end in a status, not in a crash", "[bad-input]") {
    const Scratch scratch("streams");
    const auto shell = [](const std::string& command) {
        const int state =
            std::system(("cd '" RL_SOURCE_DIR "' && '" RL_BUILD_DIR "/refreshlab' " + command).c_str());
        return WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state);
    };
    const std::string run = "run --prompt Hello --max-tokens 6 ", err = scratch / "err";
    for (const char* out : {"> /dev/full", ">&-"}) {
        CAPTURE(out);
        CHECK(shell(run + "--record '" + scratch / "a.rlt" + "' " + out + " 2> '" + err + "'") == 1);
        CHECK_THAT(read_file(err),
                   ContainsSubstring("standard output") && ContainsSubstring("the run was stopped at step"));
        CHECK(shell("score '" + scratch / "a.rlt" + "' > /dev/null") ==
              0); // what there was is kept and has its scores
        CHECK(shell("doctor " + std::string(out) + " 2> '" + err + "'") == 1);
        CHECK_THAT(read_file(err), ContainsSubstring("standard output"));
    }
    for (const char* lost : {"2> /dev/full", "2>&-"}) {
        CAPTURE(lost);
        CHECK(shell(run + "> '" + scratch / "text" + "' " + lost) == 0);
        CHECK_FALSE(read_file(scratch / "text").empty());
        CHECK(shell("run --prompt Hello --set no.such=1 " + std::string(lost)) == 2);
    }
}

TEST_CASE("devices and files that are not there", "[bad-input]") {
    const Scratch scratch("files");
    if (!fs::exists("/dev/nvidia0")) refused(run_with({"--device", "cuda"}), {"cuda", "no CUDA device"});
    refused(run_with({"--device", "tpu"}), {"tpu"});
    refused(run_with({"--record", "/no/such/folder/run.rlt"}), {"/no/such/folder"});
    refused(run_with({"--summary", "/no/such/folder/s.json"}), {"/no/such/folder"});
    refused(run_with({"--record", scratch / ""}), {"scratch"});
}

TEST_CASE("files that are no trace", "[bad-input]") {
    const Scratch scratch("trace");
    refused({"export", scratch / "missing.rlt", "--csv", scratch / "out"}, {"missing.rlt"});
    write(scratch / "text.rlt",
          "this is a letter and no trace, and it goes on for a while so that it has some length\n");
    refused({"export", scratch / "text.rlt", "--csv", scratch / "out"}, {"not a RefreshLab trace"});
    refused({"run", "--replay", scratch / "text.rlt"}, {"not a RefreshLab trace"});
#if REFRESHLAB_UI
    refused({"gui", scratch / "text.rlt", "--screenshot", scratch / "x.png"}, {"not a RefreshLab trace"});
    write(scratch / "table.csv", "a,b\n1,2\n3\n");
    refused({"gui", scratch / "table.csv", "--screenshot", scratch / "x.png"},
            {"table.csv", "line 3 has 1 fields"});
    refused({"gui", scratch / "none.csv", "--screenshot", scratch / "x.png"}, {"none.csv"});
#endif
    CHECK(read_file(scratch / "text.rlt").starts_with("this is a letter")); // nothing lost

    REQUIRE(refreshlab_cli(run_with({"--record", scratch / "newer.rlt"})).status == 0);
    // SQLite keeps user_version, our schema number, at byte 60 of the file, big-endian.
    std::string bytes = read_file(scratch / "newer.rlt");
    bytes[62] = 3;
    write(scratch / "newer.rlt", bytes);
    refused({"export", scratch / "newer.rlt", "--csv", scratch / "out"}, {"newer version"});
    CHECK_FALSE(fs::exists(scratch / "out"));

    // Recording never replaces what is no trace.
    refused(run_with({"--record", scratch / "text.rlt"}), {"text.rlt"});
    CHECK(read_file(scratch / "text.rlt").starts_with("this is a letter"));
}

TEST_CASE("branches that cannot be made", "[bad-input]") {
    const Scratch scratch("branch");
    const std::string run = scratch / "run.rlt";
    REQUIRE(refreshlab_cli(run_with({"--record", run})).status == 0);
    refused({"run", "--branch", run}, {"TRACE@STEP"});
    refused({"run", "--branch", "@3"}, {"TRACE@STEP"});
    refused({"run", "--branch", run + "@x"}, {"TRACE@STEP"});
    refused({"run", "--branch", run + "@0"}, {"1 to 8", "not 0"});
    refused({"run", "--branch", run + "@9"}, {"1 to 8", "not 9"});
    refused({"run", "--branch", (scratch / "none.rlt") + "@3"}, {"no such file"});
    refused({"run", "--branch", run + "@3", "--prompt", "another"}, {"stay those of the trace"});
    refused({"run", "--branch", run + "@3", "--mode", "student"}, {"stay those of the trace"});
    refused({"run", "--branch", run + "@3", "--summary", run}, {"--summary", "--branch"});
    refused(run_with({"--give", "x"}), {"--branch"});
    CHECK(refreshlab_cli({"run", "--branch", run + "@3", "--seed", "9"}).status == 0);
}

TEST_CASE("derivations that cannot be made", "[bad-input]") {
    const std::string bundled = RL_SOURCE_DIR "/assets/models/llama-tales-teacher";
    const auto run = [](const std::string& student) { return run_with({"--student", student}); };
    refused(run("derive:bits=1"), {"bits", "from 2 to 8", "not 1"});
    refused(run("derive:bits=9"), {"bits", "from 2 to 8", "not 9"});
    refused(run("derive:ffn=0"), {"ffn", "larger than 0"});
    refused(run("derive:skip_mlp=99"), {"skip_mlp", "layer 99", "outside"});
    refused(run("derive:skip_mlp=3-x"), {"skip_mlp", "joined by +"});
    refused(run("derive:bits=3,group=7"), {"group", "7 does not divide"});
    refused(run("derive:bits=3,group=65536"), {"group", "does not divide"});
    refused(run("derive:grup=7"), {"grup", "unknown"});
    refused(run("derive:nowhere.json"), {"nowhere.json"});
    refused(run("derive:ffn=0.5,text=nowhere.txt"), {"nowhere.txt"});
    refused(run_with({"--teacher", "derive:bits=3"}), {"--teacher", "cannot be derived"});
    refused({"doctor", "derive:bits=3"}, {"teacher before it"});
    const Scratch scratch("derive");
    write(scratch / "d.json", R"({"bits": 3, "gruop": 8})");
    refused(run("derive:" + (scratch / "d.json")), {"d.json", "gruop", "group"});
    write(scratch / "d.json", R"({"skip_mlp": [3, "x"]})");
    refused(run("derive:" + (scratch / "d.json")), {"d.json", "skip_mlp"});
    refused({"derive", bundled, "bits=9", "-o", scratch / "out"}, {"bits"});
    refused({"derive", bundled, "ffn=0.5", "-o", scratch / "out"}, {"measures on the prompt", "text=FILE"});
    refused({"derive", "derive:bits=3", "bits=3", "-o", scratch / "out"}, {"cannot be derived"});
    refused({"derive", scratch / "none", "bits=3", "-o", scratch / "out"}, {"none"});
    CHECK_FALSE(fs::exists(scratch / "out"));
    fs::create_directories(scratch / "full");
    write(scratch / "full/mine.txt", "mine");
    refused({"derive", bundled, "bits=3", "-o", scratch / "full"}, {"not empty"});
    refused({"derive", bundled, "bits=3", "-o", scratch / "d.json"}, {"a file of that name"});
    CHECK(read_file(scratch / "full/mine.txt") == "mine");
    write(scratch / "text.txt", "words");
    refused(run_with({"--student", "derive:ffn=0.5,text=" + (scratch / "text.txt"), "--record",
                      scratch / "text.txt"}),
            {"--record", "--student"});
}

} // namespace bad_input_test
