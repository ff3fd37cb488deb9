// What belongs to every run: commands at their steps, the closing pass, a trace that is told.
#include "engine/base/error.h"
#include "engine/record/trace/trace_store.h"
#include "engine/session/driver/run_driver.h"
#include "tests/engine/session/tiny_pair.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <filesystem>

namespace run_driver_test {

using namespace refreshlab;
using namespace refreshlab::test;
using Catch::Matchers::ContainsSubstring;
using Next = RunDriver::Next;

namespace {

RunConfig periodic_run(int32_t max_tokens = 30) {
    RunConfig config = tiny_run(max_tokens);
    config.policy = preset_policy("periodic");
    config.policy.triggers.at(0).threshold = 7;
    return config;
}

/// A run by hand, step for step.
std::shared_ptr<Recording> session_run(const std::shared_ptr<const ModelPair>& pair,
                                       const RunConfig& config) {
    DecodeSession session(pair, config);
    while (session.step()) {
    }
    session.score();
    return session.recording();
}

TimedCommand timed(int64_t step, Command command) {
    return {step, std::move(command)};
}

} // namespace

TEST_CASE("a driver's run is a session's run with its closing pass", "[session]") {
    const auto pair = tiny_pair(60, 61);
    const auto by_hand = session_run(pair, periodic_run());
    RunDriver driver({.pair = pair, .config = periodic_run()});
    CHECK_FALSE(driver.finished());
    CHECK(driver.run());
    CHECK(driver.finished());
    CHECK_FALSE(driver.step());
    CHECK(first_difference(*by_hand, *driver.recording()).value_or("") == "");
    CHECK(driver.recording()->end()->teacher_ppl.has_value());
    CHECK(driver.summary()["teacher_ppl"].is_number());

    RunDriver unscored({.pair = pair, .config = periodic_run(), .score = false});
    CHECK(unscored.run());
    REQUIRE(unscored.recording()->end());
    CHECK_FALSE(unscored.recording()->end()->teacher_ppl.has_value());
    CHECK(unscored.recording()->token_ids() == by_hand->token_ids());
}

TEST_CASE("a run that ends with its first token is closed at once", "[session]") {
    const RunConfig one = tiny_run(1);
    const int32_t first = text_of(tiny_pair(62, 63), one).at(0);
    TinyShape shape;
    shape.end_id = first;
    RunConfig config = tiny_run(20);
    config.ignore_stop = false;
    RunDriver driver({.pair = tiny_pair(62, 63, shape, shape), .config = config});
    CHECK(driver.finished());
    CHECK(driver.recording()->end()->stop_reason == "stop_token");
    CHECK(driver.run());
    CHECK(driver.recording()->steps() == 0);
}

TEST_CASE("what ends a run early is a stop with the closing pass; leaving it is not", "[session]") {
    const auto pair = tiny_pair(64, 65);
    RunDriver stopped({.pair = pair, .config = periodic_run()});
    const auto after = [](const RunDriver& driver, int64_t steps, Next then) {
        return [&driver, steps, then] { return driver.recording()->steps() < steps ? Next::step : then; };
    };
    CHECK(stopped.run(after(stopped, 9, Next::stop)));
    CHECK(stopped.recording()->steps() == 9);
    CHECK(stopped.recording()->end()->stop_reason == "cancelled");
    CHECK(stopped.recording()->end()->teacher_ppl.has_value());

    RunDriver left({.pair = pair, .config = periodic_run()});
    CHECK_FALSE(left.run(after(left, 9, Next::leave)));
    CHECK(left.recording()->steps() == 9);
    CHECK_FALSE(left.recording()->end());
    CHECK(left.run()); // and goes on
    CHECK(first_difference(*session_run(pair, periodic_run()), *left.recording()).value_or("") == "");
}

TEST_CASE("commands of a request act at their steps; a refused one is told and the run goes on",
          "[session]") {
    const auto pair = tiny_pair(66, 67);
    const std::vector<TimedCommand> commands = {
        timed(4, command::RefreshNow{}), timed(9, command::RequestAttention{400, false}),
        timed(9, command::RefreshNow{}), timed(90, command::RefreshNow{})};
    std::vector<std::string> refused;
    RunRequest request{.pair = pair, .config = tiny_run(20), .commands = commands};
    request.refused = [&](int64_t step, const Error& why) {
        refused.push_back(std::to_string(step) + " " + why.what());
    };
    RunDriver driver(std::move(request));
    CHECK(driver.run());
    REQUIRE(driver.recording()->refreshes().size() == 2);
    CHECK(driver.recording()->refreshes()[0].step == 4);
    CHECK(driver.recording()->refreshes()[1].step == 9);
    REQUIRE(refused.size() == 1);
    CHECK_THAT(refused[0], ContainsSubstring("9 ") && ContainsSubstring("400"));
    CHECK(driver.commands_left() == 1);

    RunDriver alone({.pair = pair, .config = tiny_run(20), .commands = commands});
    CHECK_THROWS_AS(alone.run(), Error);
    CHECK(alone.recording()->steps() == 8);
}

TEST_CASE("what shows the text is called before the closing pass", "[session]") {
    const auto pair = tiny_pair(68, 69);
    RunDriver* running = nullptr;
    std::vector<int64_t> steps;
    bool scored_meanwhile = false;
    RunRequest request{.pair = pair, .config = tiny_run(10)};
    request.stepped = [&] {
        steps.push_back(running->recording()->steps());
        const auto end = running->recording()->end();
        scored_meanwhile = scored_meanwhile || (end && end->teacher_ppl);
    };
    RunDriver driver(std::move(request));
    running = &driver;
    CHECK(driver.run());
    CHECK(steps == std::vector<int64_t>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10});
    CHECK_FALSE(scored_meanwhile);
    CHECK(driver.recording()->end()->teacher_ppl.has_value());
}

TEST_CASE("a trace holds all that its driver did", "[session]") {
    const std::filesystem::path file =
        std::filesystem::path(RL_BUILD_DIR) / ("driver-" + std::to_string(getpid()) + ".rlt");
    const auto pair = tiny_pair(70, 71);
    std::vector<std::shared_ptr<Recording>> made;
    {
        const auto trace = TraceStore::create(file);
        RunDriver driver({.pair = pair, .config = periodic_run(), .trace = trace.get()});
        for (int i = 0; i < 5; ++i)
            driver.step();
        driver.apply(command::SetParameter{"sampler.temperature", "0.9"});
        CHECK(driver.run());
        made.push_back(driver.recording());
        driver.rewind(12);
        CHECK_FALSE(driver.finished());
        driver.apply(command::RefreshNow{});
        driver.step();
        driver.stop();
        made.push_back(driver.recording());
    } // nobody flushed it
    const auto loaded = load_trace(file);
    REQUIRE(loaded.size() == 2);
    for (size_t i = 0; i < 2; ++i)
        CHECK(first_difference(*made[i], *loaded[i]).value_or("") == "");
    CHECK(loaded[1]->end()->stop_reason == "cancelled");
    CHECK(loaded[1]->end()->teacher_ppl.has_value());
    std::filesystem::remove(file);
}

TEST_CASE("a run computes with the execution of its request", "[session]") {
    const auto pair = tiny_pair(72, 73);
    const auto execution = std::make_shared<const kernels::ExecutionContext>(3, kernels::Isa::portable);
    RunDriver driver({.pair = pair, .config = tiny_run(5), .execution = execution});
    CHECK(driver.execution() == execution);
    CHECK(driver.recording()->info().threads == 3);
    CHECK(driver.recording()->info().kernel_set == "portable");
    CHECK(kernels::isa() == kernels::widest_isa()); // nobody else's changed
    RunConfig config = tiny_run(5);
    config.threads = 1;
    config.kernels = KernelSet::reference;
    RunDriver own({.pair = pair, .config = config});
    CHECK(own.recording()->info().threads == 1);
    CHECK(own.recording()->info().kernel_set == "reference");
}

} // namespace run_driver_test
