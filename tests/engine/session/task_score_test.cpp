// A run whose prompt belongs to a task carries its score per token.
#include "engine/base/error.h"
#include "engine/session/decode/decode_session.h"
#include "engine/tasks/task_scorer.h"
#include "tests/engine/session/tiny_pair.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <map>

namespace task_score_test {

using namespace refreshlab;
using namespace refreshlab::test;

namespace {

RunConfig chronicle(int32_t tokens) {
    RunConfig config = tiny_run(tokens);
    config.teacher_dir = RL_SOURCE_DIR "/assets/models/llama-tales-teacher";
    config.student_dir = RL_SOURCE_DIR "/assets/models/llama-tales-student";
    config.prompt = "Write a chronicle of 6 companies.";
    config.raw_prompt = false;
    config.task.kind = "chronicle";
    config.task.almanac = RL_SOURCE_DIR "/assets/prompts/almanac.json";
    return config;
}

/// Verdicts by token, of the whole text at once.
std::map<int64_t, float> scored_apart(const Recording& r, bool given) {
    const auto scorer = TaskScorer::create(r.info().config.task, r.info().config.prompt);
    const size_t hit = *signal_id("top1_hit");
    std::map<int64_t, float> scores;
    const auto keep = [&](const std::vector<Verdict>& verdicts) {
        for (const Verdict& v : verdicts)
            scores[v.token] = v.right ? 1.0F : 0.0F;
    };
    for (int64_t t = 1; t <= r.num_tokens(); ++t) {
        const int32_t id = r.token(t);
        keep(scorer->advance(r.tokens().is_special(id) ? "" : r.tokens().token_bytes(id),
                             given ? std::optional(r.signal(t, hit) == 1.0F) : std::nullopt));
    }
    keep(scorer->finish());
    return scores;
}

std::map<int64_t, float> scored_live(const Recording& r) {
    std::map<int64_t, float> scores;
    const size_t id = *signal_id("task_score");
    for (int64_t t = 1; t <= r.steps(); ++t) {
        if (!is_absent(r.signal(t, id))) scores[t] = r.signal(t, id);
    }
    return scores;
}

} // namespace

TEST_CASE("the score of a live run is that of its text, and survives a rewind", "[session][task]") {
    RunConfig config = chronicle(150);
    config.policy = preset_policy(GENERATE("none", "periodic"));
    const auto pair = load_pair(config);
    DecodeSession session(pair, config);
    while (session.step()) {
    }
    const auto first = session.recording();
    const auto scores = scored_live(*first);
    CHECK(scores.size() > 20);
    CHECK(scores == scored_apart(*first, false));
    session.rewind(101);
    while (session.step()) {
    }
    CHECK_FALSE(first_difference(*first, *session.recording()));
}

TEST_CASE("a given answer is scored by the model's own first choices", "[session][task]") {
    RunConfig config = chronicle(150);
    const auto pair = load_pair(config);
    RunConfig teacher = config;
    teacher.mode = Mode::teacher;
    DecodeSession writer(pair, teacher);
    while (writer.step()) {
    }
    const auto written = scored_live(*writer.recording());
    for (const auto& [t, score] : written)
        CHECK(score == 1.0F); // the teacher knows its almanac
    config.given_text = pair->tokenizer->decode(writer.recording()->token_ids());
    DecodeSession reader(pair, config); // student on the teacher's prompt entries, no refresh
    while (reader.step()) {
    }
    const auto scores = scored_live(*reader.recording());
    CHECK(scores == scored_apart(*reader.recording(), true));
    double right = 0;
    for (const auto& [t, score] : scores)
        right += static_cast<double>(score);
    CHECK(right < 0.4 * static_cast<double>(scores.size()));
}

TEST_CASE("a task without what it needs is refused before models are loaded", "[session][task]") {
    RunConfig config = chronicle(10);
    config.task.kind = "riddle";
    CHECK_THROWS_AS(check_run(config), Error);
    config.task.kind = "chronicle";
    config.task.almanac = "/no/such/almanac.json";
    CHECK_THROWS_AS(check_run(config), Error);
}

} // namespace task_score_test
