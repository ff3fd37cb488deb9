// Teacher forcing: the continuation is read, everything else works as ever.
#include "engine/base/error.h"
#include "engine/cache/kv_cache.h"
#include "engine/session/decode/decode_session.h"
#include "engine/session/driver/replay.h"
#include "engine/session/pair/run_text.h"
#include "kernels/ops/row_statistics.h"
#include "tests/engine/session/tiny_pair.h"
#include "tests/support/forward.h"

#include <ATen/ATen.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <algorithm>
#include <cmath>

namespace given_text_test {

using namespace refreshlab;
using namespace refreshlab::test;

namespace {

constexpr const char* story =
    "Once upon a time a king lived in a room. He had a duck and a golden bell, and every "
    "evening the duck told him a long story about the sea.";

RunConfig reading(const std::string& text, int32_t max_tokens = 400) {
    RunConfig config = tiny_run(max_tokens);
    config.given_text = text;
    return config;
}

std::shared_ptr<Recording> whole(const std::shared_ptr<const ModelPair>& pair, const RunConfig& config) {
    DecodeSession session(pair, config);
    while (session.step()) {
    }
    session.score();
    return session.recording();
}

float value(const Recording& r, int64_t t, const char* name) {
    return r.signal(t, *signal_id(name));
}

} // namespace

TEST_CASE("a given text is fed token by token in every mode, whatever the sampler draws",
          "[session][given]") {
    const auto pair = tiny_pair(1, 2);
    RunConfig config = reading(story);
    config.mode = GENERATE(Mode::teacher, Mode::student, Mode::overfill);
    config.sampler.temperature = GENERATE(0.0, 1.3);
    config.policy = preset_policy("burst");
    config.policy.on_fire = GENERATE(OnFire::keep, OnFire::redraw, OnFire::teacher_token);
    const std::vector<int32_t> ids = given_ids(*pair, config, render_prompt(*pair, config));
    REQUIRE(ids.size() > 20);
    const auto r = whole(pair, config);
    CHECK(r->token_ids() == ids);
    CHECK(r->steps() == static_cast<int64_t>(ids.size()));
    CHECK(r->end()->stop_reason == "given_end");
    if (config.mode == Mode::overfill) CHECK(r->refreshes().size() > 1);
}

TEST_CASE("log-probabilities and hits of a given text are those of the model reading it",
          "[session][given]") {
    const auto pair = tiny_pair(3, 4);
    RunConfig config = reading(story);
    config.mode = GENERATE(Mode::teacher, Mode::student);
    const LlamaModel& model = config.mode == Mode::teacher ? *pair->teacher : *pair->student;
    const auto r = whole(pair, config);

    std::vector<int32_t> text = r->info().prompt_ids;
    for (const int32_t id : r->token_ids())
        text.push_back(id);
    const auto cache = model.make_cache(static_cast<int64_t>(text.size()));
    const at::Tensor rows = extend(model, *cache, text, Rows::all, Origin::teacher_decode).to(at::kDouble);
    const at::Tensor logprobs = rows.log_softmax(-1);
    for (int64_t t = 1; t <= r->num_tokens(); ++t) {
        const int64_t row = r->prompt_length() + t - 2;
        const int32_t token = r->token(t);
        CHECK(std::abs(static_cast<double>(value(*r, t, "logprob")) - logprobs[row][token].item<double>()) <
              1e-4);
        CHECK((value(*r, t, "top1_hit") == 1.0F) == (rows[row].argmax().item<int64_t>() == token));
    }
}

TEST_CASE("reading what a greedy run wrote gives that run again", "[session][given]") {
    // The bundled pair writes words, so that its text has the ids it was written in.
    RunConfig config = tiny_run(60);
    config.teacher_dir = RL_SOURCE_DIR "/assets/models/llama-tales-teacher";
    config.student_dir = RL_SOURCE_DIR "/assets/models/llama-tales-student";
    config.prompt = "Write a chronicle of 6 companies.";
    config.raw_prompt = false;
    const auto pair = load_pair(config);
    config.policy = preset_policy("periodic");
    config.policy.triggers[0].every = 7;
    config.policy.on_fire = GENERATE(OnFire::keep, OnFire::redraw);
    const auto drawn = whole(pair, config);
    RunConfig again = config;
    again.given_text = pair->tokenizer->decode(drawn->token_ids(), false);
    REQUIRE(given_ids(*pair, again, render_prompt(*pair, again)) == drawn->token_ids());
    const auto read = whole(pair, again);
    for (int64_t t = 1; t <= drawn->num_tokens(); ++t) {
        CHECK(value(*read, t, "top1_hit") == 1.0F);
        CHECK(value(*read, t, "logprob") == value(*drawn, t, "logprob"));
        CHECK(value(*read, t, "teacher_logprob") == value(*drawn, t, "teacher_logprob"));
    }
}

TEST_CASE("max_tokens caps a given text", "[session][given]") {
    const auto pair = tiny_pair(1, 2);
    const auto r = whole(pair, reading(story, 9));
    CHECK(r->num_tokens() == 9);
    CHECK(r->end()->stop_reason == "max_tokens");
}

TEST_CASE("an end token inside a given text does not end the run", "[session][given]") {
    auto pair = tiny_pair(1, 2);
    RunConfig config = reading(story);
    config.ignore_stop = false;
    TinyShape with_end;
    with_end.end_id = given_ids(*pair, config, render_prompt(*pair, config))[5];
    auto ending = std::make_shared<ModelPair>(*pair);
    ending->student = tiny_model(2, with_end);
    CHECK(whole(ending, config)->end()->stop_reason == "given_end");
}

TEST_CASE("a run on a given text rewinds and replays bit for bit", "[session][given]") {
    const auto pair = tiny_pair(7, 8);
    RunConfig config = reading(story);
    config.policy = preset_policy("burst");
    config.policy.on_fire = OnFire::redraw;
    DecodeSession session(pair, config);
    while (session.step()) {
    }
    session.score();
    const auto first = session.recording();
    session.rewind(11);
    while (session.step()) {
    }
    session.score();
    CHECK_FALSE(first_difference(*first, *session.recording()));
    CHECK_FALSE(first_difference(*first, *replay(*first, pair)));
}

TEST_CASE("a given text that is not UTF-8 is refused with the place", "[session][given]") {
    try {
        check_run(reading("abc\xff"));
        FAIL("accepted");
    } catch (const Error& e) {
        CHECK(std::string(e.what()).find("the given text: not UTF-8 at byte 3") != std::string::npos);
    }
}

} // namespace given_text_test
