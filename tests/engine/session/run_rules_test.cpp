// Starts, ends and bad input of a session.
#include "engine/base/error.h"
#include "engine/cache/kv_cache.h"
#include "engine/session/decode/decode_session.h"
#include "engine/session/pair/run_text.h"
#include "kernels/execution/cuda_devices.h"
#include "tests/engine/session/tiny_pair.h"
#include "tests/support/forward.h"

#include <ATen/ATen.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <cmath>
#include <thread>

namespace run_rules_test {

using namespace refreshlab;
using namespace refreshlab::test;
using Catch::Matchers::ContainsSubstring;

namespace {

std::string refused(const std::shared_ptr<const ModelPair>& pair, const RunConfig& config) {
    try {
        DecodeSession session(pair, config);
    } catch (const Error& e) {
        CHECK(e.kind() == ErrorKind::bad_input);
        return e.what();
    }
    return "accepted";
}

} // namespace

TEST_CASE("a run of one token makes no student step", "[session]") {
    const auto pair = tiny_pair(1, 2);
    RunConfig config = tiny_run(1);
    config.policy = preset_policy("burst");
    DecodeSession session(pair, config);
    REQUIRE(session.step());
    CHECK(session.finished());
    CHECK_FALSE(session.step());
    const Recording& r = *session.recording();
    CHECK(r.steps() == 1);
    CHECK_FALSE(r.step(1).fed);
    CHECK(r.num_tokens() == 1);
    CHECK(r.end()->stop_reason == "max_tokens");
    CHECK(session.student_cache()->length() == r.prompt_length());
    session.score();
    CHECK(r.end()->teacher_ppl);
}

TEST_CASE("N tokens cost N - 1 student steps and give N records", "[session]") {
    const auto pair = tiny_pair(1, 2);
    DecodeSession session(pair, tiny_run(12));
    int records = 0;
    while (session.step())
        ++records;
    CHECK(records == 12);
    CHECK(session.recording()->num_tokens() == 12);
    CHECK(session.student_cache()->length() == session.recording()->prompt_length() + 11);
    for (int64_t t = 1; t < 12; ++t)
        CHECK(session.recording()->step(t).next_token_id == session.recording()->step(t + 1).token_id);
}

TEST_CASE("an end token ends the run and is not counted", "[session]") {
    const auto pair = tiny_pair(1, 2);
    RunConfig config = tiny_run(60);
    DecodeSession free_run(pair, config);
    while (free_run.step()) {
    }
    const std::vector<int32_t> ids = free_run.recording()->token_ids();
    // The same pair, with the tenth token declared an end token.
    size_t tenth = 9;
    while (std::find(ids.begin(), ids.begin() + static_cast<long>(tenth), ids[tenth]) !=
           ids.begin() + static_cast<long>(tenth))
        ++tenth;
    auto ending = std::make_shared<ModelPair>(*pair);
    TinyShape with_end;
    with_end.end_id = ids[tenth];
    ending->student = tiny_model(2, with_end); // the same weights
    config.ignore_stop = false;
    DecodeSession session(ending, config);
    while (session.step()) {
    }
    CHECK(session.recording()->end()->stop_reason == "stop_token");
    CHECK(session.recording()->num_tokens() == static_cast<int64_t>(tenth));
    CHECK(session.recording()->token_ids() ==
          std::vector<int32_t>(ids.begin(), ids.begin() + static_cast<long>(tenth)));
    session.score();
    CHECK(session.recording()->end()->teacher_ppl);
    const Recording& r = *session.recording();
    CHECK(r.step(r.steps()).next_token_id == ids[tenth]);
}

TEST_CASE("the context limit ends a run before a cache overflows", "[session]") {
    TinyShape shape;
    shape.max_position = 20;
    const auto pair = tiny_pair(1, 2, shape, shape);
    RunConfig config = tiny_run(200);
    config.policy = preset_policy("burst");
    DecodeSession session(pair, config);
    while (session.step()) {
    }
    CHECK(session.recording()->end()->stop_reason == "context_limit");
    CHECK(session.student_cache()->length() == 20);
    CHECK(session.recording()->num_tokens() == 20 - session.recording()->prompt_length() + 1);
    session.score();
    CHECK(session.recording()->end()->teacher_ppl);
}

TEST_CASE("the modes take their rows from the model they name", "[session]") {
    const auto pair = tiny_pair(1, 2);
    RunConfig config = tiny_run(20);
    const auto greedy = [&](const LlamaModel& prefill, const LlamaModel& decode, bool hand_over) {
        const auto ids = DecodeSession(pair, config).recording()->info().prompt_ids;
        auto first = prefill.make_cache(64), second = decode.make_cache(64);
        int32_t token = static_cast<int32_t>(
            extend(prefill, *first, ids, Rows::last, Origin::teacher_prefill)[0].argmax().item<int64_t>());
        if (hand_over) second->adopt_prefix(*first, first->length());
        KvCache& cache = hand_over ? *second : *first;
        std::vector<int32_t> text{token};
        while (text.size() < 20) {
            token = static_cast<int32_t>(
                step(decode, cache, token, Origin::student).row.argmax().item<int64_t>());
            text.push_back(token);
        }
        return text;
    };
    config.mode = Mode::teacher;
    CHECK(text_of(pair, config) == greedy(*pair->teacher, *pair->teacher, false));
    config.mode = Mode::student;
    CHECK(text_of(pair, config) == greedy(*pair->student, *pair->student, false));
    config.mode = Mode::overfill;
    CHECK(text_of(pair, config) == greedy(*pair->teacher, *pair->student, true));
}

TEST_CASE("only what a mode needs has to be loaded", "[session]") {
    const auto both = tiny_pair(1, 2);
    auto alone = std::make_shared<ModelPair>(*both);
    alone->teacher = nullptr;
    RunConfig config = tiny_run(10);
    config.mode = Mode::student;
    DecodeSession session(alone, config);
    while (session.step()) {
    }
    session.score();
    CHECK_FALSE(session.recording()->end()->teacher_ppl); // no teacher, no number
    CHECK(session.recording()->num_tokens() == 10);
}

TEST_CASE("the estimate for a loaded pair is what a session's caches then hold", "[session][memory]") {
    const auto pair = tiny_pair(1, 2);
    for (const Mode mode : {Mode::teacher, Mode::student, Mode::overfill}) {
        for (const std::string given : {"", " there was a fox and the fox was red"}) {
            RunConfig config = tiny_run(30);
            config.mode = mode;
            config.given_text = given;
            const RunText text = run_text(*pair, config);
            const auto estimates = memory_of_run(config, *pair, &text);
            REQUIRE(estimates.size() == 1);
            CHECK(estimates[0].weights == 0);
            DecodeSession session(pair, config, {}, &text);
            CHECK(session.recording()->info().prompt_ids == text.prompt.ids);
            while (session.step()) {
            }
            session.score();
            int64_t held = 0;
            for (const KvCache* cache : {session.teacher_cache(), session.student_cache()})
                held += cache != nullptr ? cache->bytes_reserved() : 0;
            CHECK(estimates[0].cache == held);
        }
    }
}

TEST_CASE("a session whose caches cannot fit is refused before they are made", "[session][memory]") {
    TinyShape wide; // a terabyte of cache for each model
    wide.layers = 16;
    wide.heads = wide.kv_heads = 64;
    wide.head_dim = 128;
    wide.max_position = 2'000'000;
    const auto pair = tiny_pair(1, 2, wide, wide);
    try {
        DecodeSession session(pair, tiny_run(1'000'000));
        FAIL("terabytes were accepted");
    } catch (const Error& e) {
        CHECK(e.kind() == ErrorKind::failure);
        CHECK_THAT(e.what(), ContainsSubstring("not enough memory") && ContainsSubstring("weights loaded") &&
                                 ContainsSubstring("positions of context fit"));
    }
    DecodeSession session(pair, tiny_run(3)); // the pair itself is fine
    CHECK(session.step());
}

TEST_CASE("bad input is refused before anything runs", "[session]") {
    const auto pair = tiny_pair(1, 2);
    RunConfig config = tiny_run(10);
    config.prompt = "";
    CHECK_THAT(refused(pair, config), ContainsSubstring("prompt") && ContainsSubstring("empty"));
    config.prompt = "abc\xC3(";
    CHECK_THAT(refused(pair, config), ContainsSubstring("not UTF-8 at byte 3"));
    config.prompt.clear();
    for (int i = 0; i < 3000; ++i)
        config.prompt += "word ";
    CHECK_THAT(refused(pair, config), ContainsSubstring("context is 512"));
    config = tiny_run(0);
    CHECK_THAT(refused(pair, config), ContainsSubstring("max_tokens"));
    config = tiny_run(10);
    config.policy = policy_of({trigger("no_such_signal", Comparison::above, 1)});
    CHECK_THAT(refused(pair, config), ContainsSubstring("no_such_signal"));
}

TEST_CASE("devices that are not there are refused by name", "[session]") {
    CHECK(resolve_device("cpu") == at::Device(at::kCPU));
    for (const char* name : {"gpu", "cuda:", "cuda:x", "cuda:-1", "cuda:1x", ""}) {
        CAPTURE(name);
        CHECK_THROWS_AS(resolve_device(name), Error);
    }
    if (kernels::cuda_devices() == 0) CHECK_THROWS_AS(resolve_device("cuda"), Error);
    CHECK_THROWS_AS(resolve_device("cuda:99"), Error);
}

TEST_CASE("errors of a command leave the session as it was", "[session]") {
    const auto pair = tiny_pair(1, 2);
    RunConfig config = tiny_run(20);
    config.policy = preset_policy("entropy");
    DecodeSession session(pair, config), undisturbed(pair, config);
    for (int i = 0; i < 5; ++i)
        session.step();
    CHECK_THROWS_AS(session.apply(command::SetParameter{"entropy.threshold", "nan"}), Error);
    CHECK_THROWS_AS(session.apply(command::SetParameter{"no.such.key", "1"}), Error);
    CHECK_THROWS_AS(session.apply(command::SetParameter{"max_tokens", "5"}), Error);
    CHECK_THROWS_AS(session.rewind(6), Error);
    CHECK_THROWS_AS(session.rewind(-1), Error);
    CHECK_THROWS_AS(session.capture_attention(5000, false), Error);
    while (session.step()) {
    }
    while (undisturbed.step()) {
    }
    CHECK(first_difference(*session.recording(), *undisturbed.recording()).value_or("") == "");
}

TEST_CASE("attention rows are kept for every step and made on request for the teacher", "[session]") {
    const auto pair = tiny_pair(1, 2);
    RunConfig config = tiny_run(12);
    config.policy = policy_of({trigger("steps_since_refresh", Comparison::at_least, 4)});
    DecodeSession session(pair, config);
    while (session.step()) {
    }
    const Recording& r = *session.recording();
    for (int64_t t = 1; t < 12; ++t) {
        const auto rows = r.attention(r.prompt_length() + t - 1, false);
        REQUIRE(rows);
        CHECK(rows->step == t);
        CHECK(rows->keys == r.prompt_length() + t);
        REQUIRE(rows->weights.size() == 2U * 4U * static_cast<size_t>(rows->keys));
        for (size_t head = 0; head < 8; ++head) {
            float sum = 0;
            for (int64_t k = 0; k < rows->keys; ++k)
                sum += half_to_float(
                    rows->weights[head * static_cast<size_t>(rows->keys) + static_cast<size_t>(k)]);
            CHECK(std::abs(sum - 1) < 2e-3F);
        }
    }
    CHECK_FALSE(r.attention(r.prompt_length() + 2, true));
    session.capture_attention(r.prompt_length() + 2, true);
    REQUIRE(r.attention(r.prompt_length() + 2, true));
    CHECK(r.attention(r.prompt_length() + 2, true)->keys == r.prompt_length() + 3);
    CHECK(r.attention(r.prompt_length() + 2, true)->weights !=
          r.attention(r.prompt_length() + 2, false)->weights);
}

TEST_CASE("attention is kept of the layers that are asked for, and of others from a command on",
          "[session]") {
    const auto pair = tiny_pair(1, 2);
    RunConfig config = tiny_run(8);
    config.capture.layers = {1};
    DecodeSession session(pair, config);
    REQUIRE(session.step());
    REQUIRE(session.step());
    session.apply(command::SetParameter{"capture.layers", "0"});
    REQUIRE(session.step());
    const Recording& r = *session.recording();
    CHECK(r.attention(r.step(1).position, false)->layers == std::vector<int32_t>{1});
    CHECK(r.attention(r.step(3).position, false)->layers == std::vector<int32_t>{0});
    const Recording::AttentionBytes bytes = r.attention_bytes();
    CHECK(bytes.newest > 0);
    CHECK(bytes.kept > bytes.newest);

    CHECK_THROWS_WITH(session.apply(command::SetParameter{"capture.layers", "0,64"}),
                      ContainsSubstring("there is no layer 64"));
    CHECK(session.step());
    CHECK(r.attention(r.step(4).position, false)->layers == std::vector<int32_t>{0});
    config.capture.layers = {64};
    CHECK_THAT(refused(pair, config), ContainsSubstring("capture.layers: there is no layer 64"));
}

TEST_CASE("sessions on several threads share a pair and stay what they are alone", "[session]") {
    // Long enough that the table of rotations grows while others read it.
    TinyShape shape;
    shape.max_position = 4096;
    const auto pair = tiny_pair(21, 22, shape, shape);
    RunConfig config = tiny_run(30);
    config.threads = 1;
    config.policy = preset_policy("burst");
    std::string words = "once upon a time";
    while (words.size() < 6000)
        words += " a king and a duck went on";
    config.prompt = words;
    const std::vector<int32_t> expected = text_of(tiny_pair(21, 22, shape, shape), config);
    std::vector<std::vector<int32_t>> texts(4);
    std::vector<std::thread> threads;
    for (auto& text : texts)
        threads.emplace_back([&] { text = text_of(pair, config); });
    for (std::thread& thread : threads)
        thread.join();
    for (const auto& text : texts)
        CHECK(text == expected);
}

} // namespace run_rules_test
