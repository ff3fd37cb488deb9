// Where a student's loss comes from, on a derived student of the bundled teacher.
#include "engine/base/error.h"
#include "engine/session/driver/run_driver.h"
#include "engine/study/measure/loss_split.h"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

namespace loss_split_test {

using namespace refreshlab;
using Catch::Approx;
using Catch::Matchers::ContainsSubstring;

namespace {

RunConfig config_of(const std::string& derivation) {
    RunConfig config;
    config.teacher_dir = RL_SOURCE_DIR "/assets/models/llama-tales-teacher";
    config.student_dir = "derive:" + derivation;
    config.prompt = "Write a chronicle of 6 companies.";
    config.threads = 1;
    config.device = "cpu";
    return config;
}

RunText text_of(const ModelPair& pair, const RunConfig& config) {
    RunText text = run_text(pair, config);
    text.given = pair.tokenizer->encode(
        "In the first year the old tower stood by the river, and nobody knew who had built it.", false);
    return text;
}

double nll_of(const std::shared_ptr<const ModelPair>& pair, RunConfig config, const RunText& text) {
    config.max_tokens = 1000;
    RunDriver driver({.pair = pair, .config = config, .text = std::make_shared<const RunText>(text)});
    driver.run();
    const auto recording = driver.recording();
    double sum = 0;
    for (int64_t t = 2; t <= recording->num_tokens(); ++t)
        sum -= static_cast<double>(recording->signal(t, *signal_id("logprob")));
    return sum / static_cast<double>(recording->num_tokens() - 1);
}

} // namespace

TEST_CASE("a loss is split into that of the weights and that of the cache", "[study]") {
    RunConfig config = config_of("bits=2,group=32");
    const auto pair = load_pair(config);
    const RunText text = text_of(*pair, config);
    std::vector<std::string> told;
    const LossSplit split = split_loss(pair, config, text, 5, {}, [&](double, const std::string& what) {
        if (told.empty() || told.back() != what) told.push_back(what);
        return true;
    });
    REQUIRE(split.readings.size() == 5);
    CHECK(told == std::vector<std::string>{"R = 1", "R = 5", "none", "alone"});
    CHECK(split.tokens == static_cast<int64_t>(text.given.size()) - 1);
    // Each reading is an ordinary run over the given text.
    config.mode = Mode::overfill;
    CHECK(split.readings[3].nll == nll_of(pair, config, text));
    config.policy = preset_policy("periodic");
    config.policy.triggers.front().threshold = 5;
    CHECK(split.readings[2].nll == nll_of(pair, config, text));
    config.policy.triggers.front().threshold = 1;
    CHECK(split.readings[1].nll == nll_of(pair, config, text));
    config.mode = Mode::student;
    CHECK(split.readings[4].nll == nll_of(pair, config, text));
    config.mode = Mode::teacher;
    CHECK(split.readings[0].nll == Approx(nll_of(pair, config, text)).epsilon(1e-5));
    CHECK(split.own_weights == split.readings[1].nll - split.readings[0].nll);
    CHECK(split.cache == split.readings[3].nll - split.readings[1].nll);
    CHECK(split.own_weights > 0);
    if (split.cache > 0) {
        CHECK(*split.recovered == Approx((split.readings[3].nll - split.readings[2].nll) / split.cache));
    } else {
        CHECK_FALSE(split.recovered);
    }
    for (const size_t i : {size_t{1}, size_t{2}, size_t{3}}) {
        // y_N is never fed and has no row.
        CHECK(split.readings[i].divergence.kl_rows == split.tokens);
        CHECK(split.readings[i].divergence.acceptance);
    }
    CHECK_THROWS_AS(split_loss(pair, config, text, 5, {}, [](double, const std::string&) { return false; }),
                    Error);
}

TEST_CASE("a student that is the teacher loses nothing", "[study]") {
    const RunConfig config = config_of("");
    const auto pair = load_pair(config);
    const LossSplit split = split_loss(pair, config, text_of(*pair, config), 4);
    CHECK(split.own_weights == Approx(0).margin(1e-6));
    CHECK(split.cache == 0);
    CHECK_FALSE(split.recovered);
    CHECK(*split.readings[1].divergence.kl_max < 1e-6);
    CHECK(*split.readings[1].divergence.acceptance == Approx(1).margin(1e-6));
    CHECK(*split.readings[1].divergence.same_top1 == 1);
    RunText one = text_of(*pair, config);
    one.given.resize(1);
    CHECK_THROWS_AS(split_loss(pair, config, one, 4), Error);
}

} // namespace loss_split_test
