// A GGUF file wherever a model folder is taken: pairs, runs, sweeps, judges.
#include "engine/model/model_fingerprint.h"
#include "engine/session/decode/decode_session.h"
#include "engine/session/pair/model_pair.h"
#include "engine/session/pair/pair_check.h"
#include "engine/study/measure/sweep_score.h"
#include "tests/engine/model/gguf/gguf_support.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>

namespace gguf_pair_test {

using namespace refreshlab;
using namespace refreshlab::test;
using Catch::Matchers::ContainsSubstring;

namespace {

const std::string folder = RL_SOURCE_DIR "/assets/models/llama-tales-student";

std::string file() {
    return (gguf_references() / "models/bundled.gguf").string();
}

RunConfig run_of(const std::string& teacher, const std::string& student) {
    RunConfig config;
    config.teacher_dir = teacher;
    config.student_dir = student;
    config.prompt = "Write a tale of 3 foxes.";
    config.max_tokens = 24;
    config.threads = 1;
    config.policy = preset_policy("periodic");
    return config;
}

std::vector<int32_t> tokens_of(const RunConfig& config) {
    const auto pair = load_pair(config);
    CHECK_FALSE(pair->geometry_difference);
    DecodeSession session(pair, config);
    while (session.step()) {
    }
    return session.recording()->token_ids();
}

} // namespace

TEST_CASE("a GGUF file and a folder of one model make a pair, either way round", "[gguf]") {
    const std::vector<int32_t> wanted = tokens_of(run_of(folder, folder));
    REQUIRE(wanted.size() == 24);
    CHECK(tokens_of(run_of(file(), folder)) == wanted);
    CHECK(tokens_of(run_of(folder, file())) == wanted);
    CHECK(tokens_of(run_of(file(), file())) == wanted);
    for (const auto& [a, b] :
         {std::pair(file(), folder), std::pair(folder, file()), std::pair(file(), file())}) {
        const PairCheck check = check_pair(a, b);
        CHECK(check.same_tokenizer);
        CHECK_FALSE(check.geometry_difference);
        CHECK(std::none_of(check.facts.begin(), check.facts.end(),
                           [](const PairFact& fact) { return fact.verdict == PairFact::Verdict::differs; }));
    }
}

TEST_CASE("a loaded GGUF model is called by its file, and found again by its path", "[gguf]") {
    RunConfig config = run_of(file(), file());
    const auto pair = load_pair(config);
    CHECK(summarize(*pair->teacher, pair->teacher_dir).name == "bundled");
    CHECK(pair_serves(*pair, config));
    config.teacher_dir = folder;
    CHECK_FALSE(pair_serves(*pair, config));
    config.teacher_dir = folder + "/nowhere.gguf";
    CHECK_THAT(error_of([&] { (void)prepare_run(config); }),
               ContainsSubstring("no such model folder or .gguf file"));
    config.teacher_dir =
        (gguf_references() / "ids/qwen2/model.gguf").string(); // a vocabulary without a model
    CHECK_THAT(error_of([&] { (void)prepare_run(config); }),
               ContainsSubstring("key llama.block_count is missing"));
    const ScratchFolder scratch("gguf-pair");
    scratch.write("tiny.gguf", tiny_gguf().bytes());
    config.teacher_dir = (scratch.path() / "tiny.gguf").string();
    CHECK_THAT(error_of([&] { (void)prepare_run(config); }),
               ContainsSubstring("different vocabularies (10 and 4096 tokens)"));
}

TEST_CASE("a sweep knows a GGUF file by its bytes and not by its name", "[gguf]") {
    const ScratchFolder scratch("gguf-sweep");
    GgufWriter writer = tiny_gguf();
    scratch.write("a.gguf", writer.bytes());
    scratch.write("b.gguf", writer.bytes());
    writer.tensors.back().data[0] ^= 1;
    scratch.write("c.gguf", writer.bytes());
    const std::string a = model_fingerprint(scratch.path() / "a.gguf");
    CHECK(a.size() == 32);
    CHECK(model_fingerprint(scratch.path() / "b.gguf") == a);
    CHECK(model_fingerprint(scratch.path() / "c.gguf") != a);
    CHECK_THAT(error_of([&] { (void)model_fingerprint(scratch.path() / "d.gguf"); }),
               ContainsSubstring("no such model"));
}

TEST_CASE("a GGUF file judges the runs of the folder that it was made from", "[gguf]") {
    const RunConfig config = run_of(folder, folder);
    DecodeSession session(load_pair(config), config);
    while (session.step()) {
    }
    JudgeTokens judge(file());
    CHECK_NOTHROW(judge.require_same(*session.recording()));
    const ScratchFolder scratch("gguf-judge");
    scratch.write("tiny.gguf", tiny_gguf().bytes());
    JudgeTokens stranger(scratch.path() / "tiny.gguf");
    CHECK_THAT(error_of([&] { stranger.require_same(*session.recording()); }),
               ContainsSubstring("the judge must have the run's tokenizer"));
}

} // namespace gguf_pair_test
