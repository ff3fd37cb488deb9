// Derived students wherever a pair is taken: loading, runs, replays, the decode thread, sweeps.
#include "engine/base/error.h"
#include "engine/base/json_file.h"
#include "engine/model/checkpoint/llama_weights.h"
#include "engine/model/model_fingerprint.h"
#include "engine/record/export/export.h"
#include "engine/record/trace/trace_store.h"
#include "engine/session/driver/replay.h"
#include "engine/session/driver/run_driver.h"
#include "engine/session/pair/pair_check.h"
#include "engine/session/pair/run_text.h"
#include "engine/session/worker/session_worker.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <mutex>

namespace derived_pair_test {

using namespace refreshlab;
using Catch::Matchers::ContainsSubstring;

namespace {

const std::string teacher = RL_SOURCE_DIR "/assets/models/llama-tales-teacher";

RunConfig run_of(const std::string& derivation, int32_t tokens = 30) {
    RunConfig config;
    config.teacher_dir = teacher;
    config.student_dir = "derive:" + derivation;
    config.prompt = "Write a tale of 3 foxes.";
    config.max_tokens = tokens;
    config.ignore_stop = true;
    config.threads = 1;
    config.device = "cpu";
    config.policy = preset_policy("periodic");
    config.policy.triggers.front().threshold = 8;
    return config;
}

std::shared_ptr<const Recording> decode(const std::shared_ptr<const ModelPair>& pair,
                                        const RunConfig& config) {
    RunDriver driver({.pair = pair, .config = config});
    driver.run([] { return RunDriver::Next::step; });
    return driver.recording();
}

std::string error_of(const RunConfig& config) {
    try {
        static_cast<void>(prepare_run(config));
    } catch (const Error& error) {
        CHECK(error.kind() == ErrorKind::bad_input);
        return error.what();
    }
    FAIL("accepted: " << config.student_dir);
    return {};
}

} // namespace

TEST_CASE("a derived student runs beside its teacher, with splices, and says what it is",
          "[session][derive]") {
    const RunConfig config = run_of("bits=3,group=32");
    const auto pair = load_pair(config);
    REQUIRE(pair->derived);
    CHECK_FALSE(pair->geometry_difference);
    CHECK(pair->note().empty());
    CHECK(pair->student->weights().embedding.is_same(pair->teacher->weights().embedding));
    CHECK(std::ranges::any_of(pair->facts, [](const PairFact& fact) { return fact.name == "derived"; }));
    const auto recording = decode(pair, config);
    CHECK(recording->refreshes().size() >= 3);
    REQUIRE(recording->info().derived);
    CHECK(*recording->info().derived == *pair->derived);
    const nlohmann::json summary = summary_json(*recording);
    CHECK(summary["student"] == "derive:bits=3,group=32");
    CHECK(summary["derived"]["spec"] == "bits=3,group=32");
    CHECK(summary["derived"]["own_bytes"] == pair->student->weight_bytes());
    CHECK_THAT(summary_table(*recording), ContainsSubstring("3-bit g32"));
    // The estimate before loading is what is held.
    const auto before = memory_of_run(config, {});
    REQUIRE(before.size() == 1);
    CHECK(before[0].weights == pair->teacher->weight_bytes() + pair->student->weight_bytes());

    // A trace keeps it, and its replay derives the student again.
    const auto file = std::filesystem::path(RL_BUILD_DIR) / "scratch" / "derived.rlt";
    std::filesystem::create_directories(file.parent_path());
    std::filesystem::remove(file);
    save_trace(file, recording);
    const auto loaded = load_trace(file);
    REQUIRE(loaded.size() == 1);
    CHECK(loaded[0]->info().derived == recording->info().derived);
    const auto again = replay(*loaded[0], load_pair(loaded[0]->info().config));
    CHECK(judge_replay(*loaded[0], *again, "it").text == judge_replay(*recording, *recording, "it").text);
    std::filesystem::remove(file);
}

TEST_CASE("a derivation that changes nothing is said in one line, and refreshes change nothing",
          "[session][derive]") {
    const RunConfig config = run_of("");
    const auto pair = load_pair(config);
    CHECK_THAT(pair->note(), ContainsSubstring("derive: changes nothing"));
    CHECK(pair->student->weight_bytes() == 0);
    const auto recording = decode(pair, config);
    CHECK_THAT(recording->info().note, ContainsSubstring("the teacher itself"));
    RunConfig alone = config;
    alone.mode = Mode::teacher;
    CHECK(decode(pair, alone)->token_ids() == recording->token_ids());
}

TEST_CASE("another derivation is made of the loaded teacher", "[session][derive]") {
    const auto first = load_pair(run_of("bits=4,group=32"));
    CHECK(pair_serves(*first, run_of("bits=4,group=32")));
    CHECK_FALSE(pair_serves(*first, run_of("bits=3,group=32")));
    PreparedRun next = prepare_run(run_of("bits=3,group=32"), first);
    CHECK(next.pair == nullptr);
    REQUIRE(next.memory.size() == 1);
    std::vector<std::string> told;
    load_models(next, run_of("bits=3,group=32"), [&](double, const std::string& what) {
        told.push_back(what);
        return true;
    });
    CHECK(next.pair->teacher == first->teacher); // the same object: nothing was read
    CHECK(next.pair->student != first->student);
    CHECK(std::ranges::find(told, "config.json") == told.end());
    const RunConfig config = run_of("bits=3,group=32");
    CHECK(decode(next.pair, config)->token_ids() == decode(load_pair(config), config)->token_ids());
    // The teacher is not counted again, only what the student holds of its own.
    CHECK(next.memory[0].weights == next.pair->student->weight_bytes());
    // From a file's student to a derived one and back.
    RunConfig file = config;
    file.student_dir = teacher;
    PreparedRun back = prepare_run(file, next.pair);
    load_models(back, file);
    CHECK(back.pair->teacher == first->teacher);
    CHECK_FALSE(back.pair->derived);
    // Another dtype needs another teacher.
    RunConfig narrow = config;
    narrow.dtype = Dtype::bf16;
    CHECK(prepare_run(narrow, first).text_side->teacher == nullptr);
}

TEST_CASE("a student that measures on the prompt belongs to its prompt", "[session][derive]") {
    const RunConfig config = run_of("ffn=0.5");
    const auto pair = load_pair(config);
    CHECK(pair->student->config().intermediate_size * 2 == pair->teacher->config().intermediate_size);
    CHECK(pair_serves(*pair, config));
    RunConfig other = config;
    other.prompt = "Write a tale of a very old clock.";
    CHECK_FALSE(pair_serves(*pair, other));
    PreparedRun next = prepare_run(other, pair);
    load_models(next, other);
    CHECK(next.pair->teacher == pair->teacher);
    CHECK_FALSE(
        at::equal(next.pair->student->weights().layers[1].gate, pair->student->weights().layers[1].gate));
    RunConfig raw = config;
    raw.raw_prompt = true;
    CHECK_FALSE(pair_serves(*pair, raw));
    // Known ids are what it measures on, whatever the prompt says.
    const auto known = std::make_shared<const RunText>(RunText{run_text(*pair, config).prompt, {}});
    const auto same = load_pair(other, {}, known);
    CHECK(at::equal(same->student->weights().layers[1].gate, pair->student->weights().layers[1].gate));

    // A text of its own: one student for all prompts.
    const auto folder = std::filesystem::path(RL_BUILD_DIR) / "scratch" / "derived-text";
    std::filesystem::create_directories(folder);
    std::ofstream(folder / "words.txt") << "Once upon a time there was a fox who could count.";
    RunConfig text = run_of("ffn=0.5,text=" + (folder / "words.txt").string());
    const auto of_text = load_pair(text);
    text.prompt = other.prompt;
    CHECK(pair_serves(*of_text, text));

    RunConfig none = config;
    none.prompt.clear();
    CHECK_THAT(error_of(none), ContainsSubstring("measures on the prompt") && ContainsSubstring("text=FILE"));
    std::ofstream(folder / "bad.txt") << "caf\xE9";
    CHECK_THAT(error_of(run_of("ffn=0.5,text=" + (folder / "bad.txt").string())), ContainsSubstring("UTF-8"));
    std::ofstream(folder / "empty.txt") << "";
    CHECK_THAT(error_of(run_of("ffn=0.5,text=" + (folder / "empty.txt").string())),
               ContainsSubstring("empty.txt"));
    CHECK_THAT(error_of(run_of("ffn=0.5,text=" + (folder / "none.txt").string())),
               ContainsSubstring("none.txt"));

    // Sweeps: the id follows what is said and the words of the text, not where they lie.
    const auto id = [](const std::string& derivation) { return model_fingerprint("derive:" + derivation); };
    std::filesystem::copy_file(folder / "words.txt", folder / "copy.txt",
                               std::filesystem::copy_options::overwrite_existing);
    const std::string of_words = id("ffn=0.5,text=" + (folder / "words.txt").string());
    CHECK(id("ffn=0.5,text=" + (folder / "copy.txt").string()) == of_words);
    CHECK(id("ffn=0.5") != of_words);
    CHECK(id("bits=3") == id("bits=3,group=32"));
    CHECK(id("bits=3") != id("bits=4"));
    std::ofstream(folder / "copy.txt") << "Other words.";
    CHECK(id("ffn=0.5,text=" + (folder / "copy.txt").string()) != of_words);
    std::filesystem::remove_all(folder);
}

TEST_CASE("derivations that cannot be made are refused before weights are read", "[session][derive]") {
    CHECK_THAT(error_of(run_of("bits=3,group=100")),
               ContainsSubstring("group") && ContainsSubstring("does not divide"));
    CHECK_THAT(error_of(run_of("skip_mlp=500")),
               ContainsSubstring("skip_mlp") && ContainsSubstring("layer 500"));
    CHECK_THAT(error_of(run_of("bits=1")), ContainsSubstring("bits"));
    RunConfig config = run_of("bits=3");
    config.teacher_dir.clear();
    config.mode = Mode::student;
    CHECK_THAT(error_of(config), ContainsSubstring("--teacher"));
    // Alone, a derived student still has its teacher, which scores it.
    config = run_of("bits=3");
    config.mode = Mode::student;
    const auto pair = load_pair(config);
    REQUIRE(pair->teacher);
    CHECK(decode(pair, config)->end()->teacher_ppl);
}

TEST_CASE("the decode thread starts a run with another derivation on the loaded teacher",
          "[session][derive]") {
    SessionWorker worker;
    std::mutex mutex;
    std::condition_variable news;
    bool fresh = false;
    worker.on_news([&] {
        const std::lock_guard lock(mutex);
        fresh = true;
        news.notify_all();
    });
    std::vector<std::string> told; // while loading
    const auto start = [&](const RunConfig& config) {
        const uint64_t ticket = worker.send(command::StartRun{config, true});
        while (worker.status()->answered < ticket) {
            std::unique_lock lock(mutex);
            news.wait(lock, [&] { return fresh; });
            fresh = false;
            lock.unlock();
            const auto status = worker.status();
            if (status->state == EngineState::loading) told.push_back(status->message);
        }
        return worker.status();
    };
    const auto first = start(run_of("bits=4"));
    REQUIRE(first->error.empty());
    REQUIRE(first->derived);
    CHECK(first->student.name == "4-bit g32");
    CHECK(first->student.weight_bytes == first->derived->own_bytes);
    told.clear();
    const auto second = start(run_of("bits=3"));
    REQUIRE(second->error.empty());
    CHECK(second->student.name == "3-bit g32");
    CHECK(std::ranges::find(told, "config.json") == told.end());
    // One that does not fit leaves the run that stands.
    const auto third = start(run_of("bits=3,group=7"));
    CHECK_THAT(third->error, ContainsSubstring("group"));
    CHECK(third->applied.student_dir == "derive:bits=3");
    CHECK(third->student.name == "3-bit g32");
    RunConfig file = run_of("");
    file.student_dir = teacher;
    CHECK_FALSE(start(file)->derived);
}

TEST_CASE("in dtype native a rounded student holds fewer bytes, as estimated, and its run is one on any "
          "number of threads",
          "[session][derive][blocks]") {
    RunConfig config = run_of("bits=4", 20);
    config.dtype = Dtype::native;
    const auto estimate = memory_of_run(config, ModelPair{});
    const auto pair = load_pair(config);
    REQUIRE(estimate.size() == 1);
    CHECK(estimate[0].weights == pair->teacher->weight_bytes() + pair->student->weight_bytes());
    CHECK(pair->student->weight_bytes() * 3 < pair->teacher->weight_bytes());
    CHECK(summarize(*pair->student, config.student_dir).dtype == "native");
    CHECK(pair_serves(*pair, config));
    const auto one = decode(pair, config);
    RunConfig other = config;
    other.threads = 2;
    const auto two = decode(pair, other);
    REQUIRE(one->steps() == two->steps());
    REQUIRE(one->steps() >= 19);
    for (int64_t t = 1; t <= one->steps(); ++t) {
        CHECK(one->step(t).token_id == two->step(t).token_id);
        CHECK(one->step(t).top_probs == two->step(t).top_probs);
    }
    other.dtype = Dtype::bf16;
    CHECK_FALSE(pair_serves(*pair, other));
}

} // namespace derived_pair_test
