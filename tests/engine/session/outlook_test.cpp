#include "engine/model/memory_estimate.h"
#include "engine/session/pair/model_pair.h"
#include "engine/session/worker/outlook.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <filesystem>
#include <string>

namespace outlook_test {

using namespace refreshlab;
using Catch::Matchers::ContainsSubstring;
using Part = RunOutlook::Part;

namespace {

const std::filesystem::path models = std::filesystem::path(RL_SOURCE_DIR) / "assets" / "models";

RunConfig bundled() {
    RunConfig run;
    run.teacher_dir = (models / "llama-tales-teacher").string();
    run.student_dir = (models / "llama-tales-student").string();
    run.device = "cpu";
    run.prompt = "Write a chronicle of 6 companies.";
    run.max_tokens = 100;
    return run;
}

RunOutlook look(const RunConfig& run, int64_t available = int64_t{8} << 30) {
    return run_outlook(run, nullptr, [available](const std::string&) { return available; });
}

} // namespace

TEST_CASE("an outlook tells tokens, memory and models of a run that would start", "[session]") {
    const RunOutlook outlook = look(bundled());
    CHECK(outlook.part == Part::none);
    CHECK(outlook.problem.empty());
    CHECK(outlook.prompt_tokens == 15);
    CHECK(outlook.context == 2048);
    CHECK_THAT(outlook.teacher, ContainsSubstring("7.458 M parameters"));
    CHECK_THAT(outlook.student, ContainsSubstring("2.285 M parameters"));
    REQUIRE(outlook.memory.size() == 1);
    CHECK_THAT(outlook.memory[0], ContainsSubstring("needed") && ContainsSubstring("available"));
    RunConfig half = bundled();
    half.dtype = Dtype::bf16;
    CHECK(look(half).teacher_bytes * 2 == outlook.teacher_bytes);
}

TEST_CASE("what is wrong is told of its field, without its path", "[session]") {
    RunConfig run = bundled();
    run.student_dir = "/nowhere/at/all";
    RunOutlook outlook = look(run);
    CHECK(outlook.part == Part::student);
    CHECK_THAT(outlook.problem, ContainsSubstring("no such model") && !ContainsSubstring("/nowhere"));
    run = bundled();
    run.teacher_dir.clear();
    outlook = look(run);
    CHECK(outlook.part == Part::teacher);
    CHECK_THAT(outlook.problem, ContainsSubstring("no teacher is given") && !ContainsSubstring("--"));
    run.mode = Mode::student; // reads none
    CHECK(look(run).part == Part::none);
    run = bundled();
    run.device = "abacus";
    CHECK(look(run).part == Part::device);
    run = bundled();
    run.prompt = "no UTF-8: \xFF";
    CHECK(look(run).part == Part::prompt);
    run.prompt.clear();
    for (int i = 0; i < 3000; ++i)
        run.prompt += "word ";
    outlook = look(run);
    CHECK(outlook.part == Part::prompt);
    CHECK_THAT(outlook.problem, ContainsSubstring("2048"));
    outlook = look(bundled(), 1 << 20);
    CHECK(outlook.part == Part::memory);
    CHECK_THAT(outlook.problem, ContainsSubstring("available"));
}

TEST_CASE("weights that are loaded and not used by the next run count as room for it", "[session]") {
    const RunConfig first = bundled();
    const auto pair = load_pair(first);
    const int64_t both = pair->teacher->weight_bytes() + pair->student->weight_bytes();
    RunConfig next = first;
    next.dtype = Dtype::bf16; // other weights
    const int64_t needed = [&] {
        RunOutlook outlook = run_outlook(next, nullptr, [](const std::string&) { return int64_t{1} << 40; });
        REQUIRE(outlook.part == Part::none);
        // The least that is enough, by halving.
        int64_t low = 0, high = int64_t{1} << 32;
        while (high - low > 1) {
            const int64_t middle = (low + high) / 2;
            (look(next, middle).part == Part::none ? high : low) = middle;
        }
        return high;
    }();
    const auto with = [&](int64_t available) {
        return run_outlook(next, pair, [available](const std::string&) { return available; }).part;
    };
    CHECK(with(needed - both) == Part::none);
    CHECK(with(needed - both - 1) == Part::memory);
    // The same run again needs no weights at all.
    const RunOutlook again = run_outlook(first, pair, [](const std::string&) { return int64_t{1} << 40; });
    REQUIRE(again.memory.size() == 1);
    CHECK_THAT(again.memory[0], ContainsSubstring("weights loaded"));
}

TEST_CASE("a cache policy that cannot act is told before the start", "[session]") {
    RunConfig run = bundled();
    run.student_cache = cache_policy_defaults("h2o", "a test");
    CHECK(look(run).part == Part::none);
    run.student_cache.values["budget"] = 2049;
    RunOutlook outlook = look(run);
    CHECK(outlook.part == Part::other);
    CHECK_THAT(outlook.problem, ContainsSubstring("2049 entries are more than the 2048"));
    run.student_cache = cache_policy_defaults("locret", "a test"); // its default is more than the context
    CHECK(look(run).part == Part::none);
    run.student_cache.files.at("gate").path = "/nowhere/gate.safetensors";
    outlook = look(run);
    CHECK(outlook.part == Part::other);
    CHECK_THAT(outlook.problem, ContainsSubstring("gate.safetensors") && ContainsSubstring("no such file"));
    run = bundled();
    run.teacher_cache = cache_policy_defaults("snapkv", "a test");
    outlook = look(run);
    CHECK(outlook.part == Part::other);
    CHECK_THAT(outlook.problem, ContainsSubstring("snapkv cannot act in mode overfill"));
    run = bundled();
    run.student_cache = cache_policy_defaults("oracle", "a test");
    CHECK_THAT(look(run).problem, ContainsSubstring("has to know the text"));
    run.given_text = "The company: king";
    CHECK(look(run).part == Part::none);
}

} // namespace outlook_test
