// Given texts that are read in a few forwards, against sessions that read the same text token by token.
#include "engine/base/error.h"
#include "engine/landscape/frontier.h"
#include "engine/session/driver/run_driver.h"
#include "engine/session/landscape/compute_landscape.h"
#include "engine/session/pair/run_text.h"
#include "engine/session/readings/text_readings.h"
#include "engine/study/measure/derived_reading.h"
#include "tests/engine/session/tiny_pair.h"
#include "tests/support/seed.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <random>

namespace text_readings_test {

using namespace refreshlab;
using namespace refreshlab::test;
using Catch::Matchers::ContainsSubstring;

namespace {

std::vector<int32_t> random_ids(std::mt19937& random, int64_t n, int64_t vocab) {
    std::vector<int32_t> ids;
    for (int64_t i = 0; i < n; ++i)
        ids.push_back(static_cast<int32_t>(random() % static_cast<uint32_t>(vocab)));
    return ids;
}

/// The session that reads the text with this policy, a shadow teacher beside it.
std::shared_ptr<const Recording> session(const std::shared_ptr<const ModelPair>& pair,
                                         const TeacherText& text, Mode mode, const RefreshPolicy& policy) {
    RunConfig config = tiny_run(static_cast<int32_t>(text.text().size()));
    config.mode = mode;
    config.policy = policy;
    config.shadow = mode == Mode::overfill;
    auto run = std::make_shared<RunText>();
    run->prompt.ids = text.prompt();
    run->given = text.text();
    RunDriver driver({.pair = pair, .config = std::move(config), .text = std::move(run)});
    driver.run();
    return driver.recording();
}

std::vector<int64_t> boundaries_of(const Recording& recording) {
    std::vector<int64_t> boundaries;
    const int64_t last = recording.num_tokens() - 1; // behind the last choice a refresh changes nothing
    for (size_t i = 0; i < recording.refreshes().size(); ++i) {
        if (recording.refreshes()[i].step < last) boundaries.push_back(recording.refreshes()[i].step);
    }
    return boundaries;
}

uint32_t bits(float value) {
    return std::bit_cast<uint32_t>(value);
}

/// Every number of every place has the bits of the session's records.
void require_same(const TextNumbers& numbers, const Recording& recording, bool with_teacher) {
    const auto steps = static_cast<size_t>(recording.num_tokens() - 1);
    REQUIRE(numbers.logprob.size() == steps);
    for (size_t i = 0; i < steps; ++i) {
        const auto t = static_cast<int64_t>(i) + 1;
        CAPTURE(t);
        const auto recorded = [&](int64_t step, const char* name) {
            return bits(recording.signal(step, *signal_id(name)));
        };
        REQUIRE(bits(numbers.logprob[i]) == recorded(t + 1, "logprob"));
        REQUIRE(bits(numbers.entropy_bits[i]) == recorded(t, "entropy_bits"));
        if (!with_teacher) continue;
        REQUIRE(bits(numbers.kl_nats[i]) == recorded(t, "kl_nats"));
        REQUIRE(bits(numbers.acceptance[i]) == recorded(t, "acceptance"));
        REQUIRE(bits(numbers.same_top1[i]) == recorded(t, "same_top1"));
    }
}

struct Texts {
    std::shared_ptr<const ModelPair> pair;
    std::unique_ptr<TeacherText> text;
};

Texts some_text(std::mt19937& random, int64_t tokens) {
    Texts texts;
    texts.pair = tiny_pair(random(), random());
    const int64_t vocab = texts.pair->teacher->config().vocab_size;
    const auto prompt = 3 + static_cast<int64_t>(random() % 20);
    texts.text = std::make_unique<TeacherText>(*texts.pair->teacher, random_ids(random, prompt, vocab),
                                               random_ids(random, tokens, vocab));
    return texts;
}

RefreshPolicy periodic(int64_t every) {
    RefreshPolicy policy = preset_policy("periodic");
    policy.triggers.front().threshold = static_cast<double>(every);
    return policy;
}

} // namespace

TEST_CASE("a text read with refreshes, in a few forwards, has the bits of the session",
          "[study][landscape]") {
    std::mt19937 random(seed(31));
    const auto [pair, text] = some_text(random, GENERATE(3, 40, 150));
    StudentReadings readings(*pair->student, *text);
    for (const int64_t every : {1, 2, 7, 64}) {
        CAPTURE(every);
        const auto recording = session(pair, *text, Mode::overfill, periodic(every));
        const auto boundaries = readings.every(every);
        CHECK(boundaries == boundaries_of(*recording));
        require_same(readings.refreshed(boundaries), *recording, true);
    }
    require_same(readings.refreshed({}), *session(pair, *text, Mode::overfill, {}), true);
    require_same(readings.alone(), *session(pair, *text, Mode::student, {}), false);
    // The teacher's own numbers, and the student against them.
    require_same(text->numbers(), *session(pair, *text, Mode::teacher, {}), false);
    CHECK(readings.alone().kl_nats.size() == readings.alone().logprob.size());
}

TEST_CASE("a student that is the teacher loses nothing in any way of reading", "[study]") {
    std::mt19937 random(seed(32));
    const auto [pair, text] = some_text(random, 30);
    const DerivedReading reading = read_all_ways(*pair->teacher, *text);
    for (const ReadingMeans& way : reading.ways) {
        CHECK(way.nll == reading.teacher_nll);
        CHECK(way.kl_nats == 0);
        CHECK(way.same_top1 == 1);
        CHECK(std::abs(way.acceptance - 1) < 1e-5);
    }
    CHECK(reading.own_weights() == 0);
    CHECK(reading.cache() == 0);
}

TEST_CASE("an entropy gate at a number of refreshes is a session's gate with that threshold",
          "[study][landscape]") {
    std::mt19937 random(seed(33));
    const auto [pair, text] = some_text(random, 120);
    StudentReadings readings(*pair->student, *text);
    const auto guess = readings.refreshed(readings.every(16)).entropy_bits;
    // Every threshold that the whole landscape knows, and the count that each gives.
    LandscapeRequest request;
    request.prompt_ids = text->prompt();
    request.tokens = text->text();
    request.values = landscape_values("entropy_bits");
    const auto landscape = compute_landscape(*pair, request, make_execution(tiny_run()));
    for (const int64_t wanted : {0, 1, 7, 30, 100}) {
        CAPTURE(wanted);
        const StudentReadings::Gate gate = readings.entropy_gate(wanted, guess);
        const RefreshPolicy policy = policy_of({trigger("entropy_bits", Comparison::above, gate.threshold)});
        CHECK(walk_policy(*landscape, policy).refreshes == gate.boundaries);
        const auto recording = session(pair, *text, Mode::overfill, policy);
        CHECK(boundaries_of(*recording) == gate.boundaries);
        require_same(gate.numbers, *recording, true);
        // No threshold of the guess comes nearer by much: counts fall in steps, and not strictly.
        int64_t nearest = INT64_MAX;
        for (const float level : guess) {
            const auto other =
                policy_of({trigger("entropy_bits", Comparison::above, static_cast<double>(level))});
            nearest =
                std::min(nearest, std::abs(std::ssize(walk_policy(*landscape, other).refreshes) - wanted));
        }
        CHECK(std::abs(std::ssize(gate.boundaries) - wanted) <= nearest + 2);
    }
}

TEST_CASE("a student's readings are those of the ways they are named after, and survive a file", "[study]") {
    std::mt19937 random(seed(34));
    const auto [pair, text] = some_text(random, 100);
    const DerivedReading reading = read_all_ways(*pair->student, *text);
    CHECK(reading.tokens == 99);
    const auto nll_of = [&](Mode mode, const RefreshPolicy& policy) {
        const auto recording = session(pair, *text, mode, policy);
        double sum = 0;
        for (int64_t t = 2; t <= recording->num_tokens(); ++t)
            sum -= static_cast<double>(recording->signal(t, *signal_id("logprob")));
        return sum / 99.0;
    };
    CHECK(reading.teacher_nll == nll_of(Mode::teacher, {}));
    CHECK(reading.of(ReadingWay::alone).nll == nll_of(Mode::student, {}));
    CHECK(reading.of(ReadingWay::none).nll == nll_of(Mode::overfill, {}));
    for (const auto& [way, every, refreshes] :
         {std::tuple(ReadingWay::every_64, 64, 1), std::tuple(ReadingWay::every_16, 16, 6),
          std::tuple(ReadingWay::every_4, 4, 24), std::tuple(ReadingWay::every_1, 1, 98)}) {
        CAPTURE(every);
        CHECK(reading.of(way).nll == nll_of(Mode::overfill, periodic(every)));
        CHECK(reading.of(way).refreshes == refreshes);
    }
    CHECK(reading.own_weights() == reading.of(ReadingWay::every_1).nll - reading.teacher_nll);
    CHECK(reading.cache() == reading.of(ReadingWay::none).nll - reading.of(ReadingWay::every_1).nll);

    const nlohmann::json stored = nlohmann::json::parse(to_json(reading).dump());
    CHECK(derived_reading_from_json(stored, "here") == reading);
    nlohmann::json cut = stored;
    cut["ways"].erase("every 4");
    CHECK_THROWS_WITH(derived_reading_from_json(cut, "here"), ContainsSubstring("every 4"));
}

TEST_CASE("a text that cannot be read is refused in one line", "[study]") {
    const auto pair = tiny_pair(1, 2);
    const auto& teacher = *pair->teacher;
    CHECK_THROWS_WITH(TeacherText(teacher, {}, {1, 2, 3}), ContainsSubstring("prompt"));
    CHECK_THROWS_WITH(TeacherText(teacher, {1}, {1, 2}), ContainsSubstring("fewer than three"));
    CHECK_THROWS_WITH(TeacherText(teacher, {1}, {1, -1, 2}), ContainsSubstring("-1"));
    CHECK_THROWS_WITH(TeacherText(teacher, {1}, std::vector<int32_t>(600, 1)), ContainsSubstring("512"));
}

} // namespace text_readings_test
