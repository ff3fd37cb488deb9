// The decode thread: commands from another thread at any time, failures, pause and step.
#include "engine/base/error.h"
#include "engine/record/trace/trace_store.h"
#include "engine/session/decode/decode_session.h"
#include "engine/session/driver/replay.h"
#include "engine/session/pair/run_text.h"
#include "engine/session/worker/session_worker.h"
#include "tests/engine/session/tiny_pair.h"
#include "tests/engine/session/watcher.h"
#include "tests/support/seed.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <functional>
#include <mutex>
#include <random>
#include <thread>

namespace worker_test {

using namespace refreshlab;
using namespace refreshlab::test;
using Catch::Matchers::ContainsSubstring;

namespace {

RunConfig bundled(int32_t max_tokens) {
    RunConfig config;
    config.teacher_dir = RL_SOURCE_DIR "/assets/models/llama-tales-teacher";
    config.student_dir = RL_SOURCE_DIR "/assets/models/llama-tales-student";
    config.prompt = "Write a chronicle of 6 companies.";
    config.max_tokens = max_tokens;
    config.policy = preset_policy("entropy");
    config.policy.triggers[0].every = 1;
    config.policy.triggers[0].cooldown = 4;
    config.threads = 2;
    return config;
}

/// Starts a run that stands paused after exactly `steps` records.
void start_paused(SessionWorker& worker, Watcher& watch, int32_t max_tokens, int32_t steps) {
    worker.send(command::StartRun{bundled(max_tokens), true});
    watch.until_state(EngineState::paused);
    CHECK(worker.recording()->steps() == 0);
    worker.send(command::Step{steps});
    watch.until([&](const EngineStatus& s) {
        return s.state == EngineState::paused && worker.recording()->steps() >= steps;
    });
    CHECK(worker.recording()->steps() == steps);
}

} // namespace

TEST_CASE("play, pause, step and stop", "[worker]") {
    SessionWorker worker;
    Watcher watch(worker);
    worker.send(command::StartRun{bundled(60)});
    worker.send(command::Pause{});
    watch.until_state(EngineState::paused);
    const auto recording = worker.recording();
    REQUIRE(recording);
    const int64_t before = recording->steps();
    for (const int32_t n : {1, 5}) {
        const int64_t from = recording->steps();
        const uint64_t ticket = worker.send(command::Step{n});
        watch.until(
            [&](const EngineStatus& s) { return s.answered >= ticket && s.state == EngineState::paused; });
        CHECK(recording->steps() == from + n);
    }
    CHECK(recording->steps() == before + 6);
    worker.send(command::Resume{});
    watch.until_state(EngineState::finished);
    CHECK(recording->steps() == 60);
    CHECK(worker.status()->stop_reason == "max_tokens");
    CHECK(recording->end()->teacher_ppl);
}

TEST_CASE("commands at any time give a recording that replays bit for bit", "[worker]") {
    std::mt19937 random(test::seed(3));
    const auto pair = load_pair(bundled(1));
    for (int round = 0; round < 3; ++round) {
        SessionWorker worker;
        Watcher watch(worker);
        worker.send(command::StartRun{bundled(150)});
        watch.until([](const EngineStatus& s) {
            return s.state == EngineState::running || s.state == EngineState::finished;
        });
        const auto recording = worker.recording();
        for (int64_t at = 10; at < 140; at += std::uniform_int_distribution<int64_t>(3, 25)(random)) {
            watch.until([&](const EngineStatus& s) {
                return recording->steps() >= at || s.state == EngineState::finished;
            });
            switch (std::uniform_int_distribution<int>(0, 3)(random)) {
            case 0:
                worker.send(command::SetParameter{
                    "entropy.threshold", std::to_string(std::uniform_int_distribution<int>(2, 8)(random))});
                break;
            case 1:
                worker.send(command::RefreshNow{});
                break;
            case 2:
                worker.send(command::SetParameter{"on_fire", "redraw"});
                break;
            default:
                worker.send(command::SetParameter{"sampler.temperature", "0.5"});
                break;
            }
        }
        watch.until_state(EngineState::finished);
        CHECK(recording->commands().size() > 2);
        CHECK(first_difference(*recording, *replay(*recording, pair)).value_or("") == "");
    }
}

TEST_CASE("a pace holds a run back, commands do not wait for it, and the recording is the same", "[worker]") {
    SessionWorker worker;
    Watcher watch(worker);
    // One token in ten seconds: whatever of this test needs a second token in time fails by never ending.
    worker.send(command::SetPace{0.1});
    worker.send(command::StartRun{bundled(60)});
    watch.until([](const EngineStatus& s) { return s.state == EngineState::running && s.pace == 0.1; });
    const auto recording = worker.recording();
    watch.until([&](const EngineStatus&) { return recording->steps() >= 1; });
    worker.send(command::SetParameter{"entropy.threshold", "5"});
    watch.until([](const EngineStatus& s) { return s.applied.policy.triggers[0].threshold == 5; });
    CHECK(recording->steps() < 10);
    // A refresh by hand is felt at once: its step does not wait.
    const int64_t before = recording->steps();
    worker.send(command::RefreshNow{});
    watch.until([&](const EngineStatus&) { return recording->steps() > before; });
    CHECK(recording->refreshes().size() == 1);
    worker.send(command::Pause{});
    watch.until_state(EngineState::paused);
    CHECK(recording->steps() < 10);
    worker.send(command::Step{20}); // is not held back
    watch.until([&](const EngineStatus& s) {
        return s.state == EngineState::paused && recording->steps() >= before + 20;
    });
    worker.send(command::Resume{});
    worker.send(command::SetPace{0});
    watch.until_state(EngineState::finished);
    CHECK(worker.status()->pace == 0);
    CHECK(recording->steps() == 60);
    CHECK(recording->commands().size() == 2); // the pace is none of the recording's
    CHECK(first_difference(*recording, *replay(*recording, load_pair(bundled(1)))).value_or("") == "");
    worker.send(command::SetPace{1e-9});
    watch.until([](const EngineStatus& s) { return s.pace > 0; });
    CHECK(worker.status()->pace == command::slowest_pace);
}

TEST_CASE("a refresh by hand in mid-generation fires once, at the next boundary", "[worker]") {
    SessionWorker worker;
    Watcher watch(worker);
    RunConfig config = bundled(80);
    config.policy = RefreshPolicy{};
    worker.send(command::StartRun{config});
    worker.send(command::Pause{});
    watch.until_state(EngineState::paused);
    const auto recording = worker.recording();
    worker.send(command::Step{20});
    watch.until(
        [&](const EngineStatus& s) { return s.state == EngineState::paused && recording->steps() >= 20; });
    const int64_t at = recording->steps();
    worker.send(command::RefreshNow{});
    worker.send(command::Resume{});
    watch.until_state(EngineState::finished);
    REQUIRE(recording->refreshes().size() == 1);
    CHECK(recording->refreshes()[0].step == at + 1);
    CHECK(reason_text(recording->refreshes()[0].hits) == "manual");
}

TEST_CASE("rewind makes a branch that repeats the run", "[worker]") {
    SessionWorker worker;
    Watcher watch(worker);
    worker.send(command::StartRun{bundled(70)});
    watch.until_state(EngineState::finished);
    const auto first = worker.recording();
    worker.send(command::Rewind{33});
    watch.until([](const EngineStatus& s) { return s.state == EngineState::paused; });
    const auto branch = worker.recording();
    CHECK(branch != first);
    CHECK(branch->info().parent_id == first->info().id);
    CHECK(branch->info().fork_step == 33);
    worker.send(command::Resume{});
    watch.until_state(EngineState::finished);
    CHECK(first_difference(*first, *branch).value_or("") == "");
}

TEST_CASE("a bad command is reported once and the run goes on", "[worker]") {
    SessionWorker worker;
    Watcher watch(worker);
    worker.send(command::Resume{}); // nothing to resume yet
    auto status = watch.until([](const EngineStatus& s) { return s.errors == 1; });
    CHECK_THAT(status->error, ContainsSubstring("no run"));
    worker.send(command::StartRun{bundled(40)});
    worker.send(command::SetParameter{"entropy.threshold", "-3"});
    watch.until_state(EngineState::finished);
    CHECK(worker.status()->errors == 2);
    CHECK(worker.recording()->steps() == 40);

    // A start that fails leaves what was there.
    RunConfig missing = bundled(40);
    missing.student_dir = "no/such/folder";
    worker.send(command::StartRun{missing});
    status = watch.until([](const EngineStatus& s) { return s.errors == 3; });
    CHECK_THAT(status->error, ContainsSubstring("no/such/folder"));
    CHECK(status->state == EngineState::finished);
    CHECK(status->applied.student_dir == bundled(1).student_dir);
    CHECK(worker.recording()->steps() == 40);
    worker.send(command::StartRun{bundled(5)});
    watch.until([&](const EngineStatus& s) {
        return s.state == EngineState::finished && worker.recording()->steps() == 5;
    });
}

TEST_CASE("refusals are kept in order, so that the cause stands before what follows from it", "[worker]") {
    SessionWorker worker;
    Watcher watch(worker);
    RunConfig missing = bundled(40);
    missing.student_dir = "no/such/folder";
    worker.send(command::StartRun{missing});
    worker.send(command::Resume{}); // of a run that is not there
    auto status = watch.until([](const EngineStatus& s) { return s.errors == 2; });
    REQUIRE(status->refusals.size() == 2);
    CHECK_THAT(status->refusals[0], ContainsSubstring("no/such/folder"));
    CHECK_THAT(status->refusals[1], ContainsSubstring("no run"));
    CHECK(status->error == status->refusals[1]);
    // The oldest ones go.
    for (size_t i = 0; i < EngineStatus::kept_refusals; ++i)
        worker.send(command::Resume{});
    status = watch.until([](const EngineStatus& s) { return s.errors == 2 + EngineStatus::kept_refusals; });
    REQUIRE(status->refusals.size() == EngineStatus::kept_refusals);
    CHECK_THAT(status->refusals.front(), ContainsSubstring("no run"));
}

TEST_CASE("a live trace holds the run and its rewound branch", "[worker]") {
    const std::filesystem::path file = std::filesystem::path(RL_BUILD_DIR) / "worker_test.rlt";
    std::shared_ptr<const Recording> first, branch;
    {
        SessionWorker worker(file);
        Watcher watch(worker);
        worker.send(command::StartRun{bundled(50)});
        watch.until_state(EngineState::finished);
        first = worker.recording();
        worker.send(command::Rewind{20});
        worker.send(command::SetParameter{"entropy.threshold", "3"});
        worker.send(command::Resume{});
        watch.until([&](const EngineStatus& s) {
            return s.state == EngineState::finished && worker.recording() != first;
        });
        branch = worker.recording();
        CHECK(worker.status()->trace_error.empty());
    }
    const auto loaded = load_trace(file);
    REQUIRE(loaded.size() == 2);
    CHECK(first_difference(*first, *loaded[0]).value_or("") == "");
    CHECK(first_difference(*branch, *loaded[1]).value_or("") == "");
    const auto pair = load_pair(bundled(1));
    CHECK(first_difference(*loaded[1], *replay(*loaded[1], pair)).value_or("") == "");
    std::filesystem::remove(file);
}

TEST_CASE("an unwritable trace is refused before the thread starts", "[worker]") {
    CHECK_THROWS_AS(SessionWorker(std::filesystem::path("/no/such/folder/run.rlt")), Error);
}

TEST_CASE("every run is held against the memory that is left, with the models that are there already",
          "[worker]") {
    std::atomic<int64_t> left{INT64_MAX / 2};
    SessionWorker worker({}, [&](const std::string&) { return std::optional<int64_t>(left.load()); });
    Watcher watch(worker);
    start_paused(worker, watch, 200, 50);
    const auto first = worker.recording();
    const auto pair = load_pair(bundled(1));
    const auto errors = [&] { return worker.status()->errors; };
    const auto need = [&](const RunConfig& config, const ModelPair& models) {
        const RunText text = run_text(*pair, config);
        return memory_of_run(config, models, &text).at(0).needed();
    };
    const auto refused = [&](const RunConfig& config) {
        const uint64_t before = errors();
        worker.send(command::StartRun{config, true});
        const auto status = watch.until([&](const EngineStatus& s) { return s.errors > before; });
        CHECK_THAT(status->error, ContainsSubstring("not enough memory"));
        CHECK(status->state == EngineState::paused);
        CHECK(worker.recording() == first);
        const int64_t steps = first->steps();
        worker.send(command::Step{1}); // the run that stands goes on
        watch.until([&](const EngineStatus& s) {
            return first->steps() == steps + 1 && s.state == EngineState::paused;
        });
    };
    RunConfig longer = bundled(2000);
    const int64_t held = worker.status()->cache_bytes_used;
    REQUIRE(held > 0);
    CHECK(need(longer, *pair) < need(longer, ModelPair{}));
    left = need(longer, *pair) - held - 1;
    refused(longer); // not even when the first run's caches are given up

    // Other models: weights and caches of the run that stands would be free.
    RunConfig half = bundled(2000);
    half.dtype = Dtype::bf16;
    const int64_t weights = worker.status()->teacher.weight_bytes + worker.status()->student.weight_bytes;
    left = need(half, ModelPair{}) - weights - worker.status()->cache_bytes_used - 1;
    refused(half);

    // It fits once the first run's caches are given up; a start that is then cancelled leaves no run, but its recording.
    left = need(longer, *pair) - 1;
    watch.each([&](const EngineStatus& s) {
        if (s.state == EngineState::prefilling) worker.send(command::Stop{});
    });
    const uint64_t before = errors();
    worker.send(command::StartRun{longer, true});
    const auto status = watch.until([&](const EngineStatus& s) { return s.errors > before; });
    watch.each({});
    CHECK_THAT(status->error, ContainsSubstring("cancelled"));
    CHECK(status->state == EngineState::failed);
    CHECK_THAT(status->message, ContainsSubstring("make room"));
    CHECK(status->cache_bytes_reserved == 0);
    CHECK(worker.recording() == first);

    left = need(longer, *pair);
    worker.send(command::StartRun{longer, true});
    watch.until_state(EngineState::paused);
    CHECK(worker.recording() != first);
    CHECK(worker.recording()->steps() == 0);
    const auto longer_run = worker.recording();

    left = need(half, ModelPair{}) - worker.status()->cache_bytes_used - weights;
    worker.send(command::StartRun{half, true});
    watch.until([&](const EngineStatus& s) {
        return s.state == EngineState::paused && worker.recording() != longer_run;
    });
    CHECK(worker.status()->student.dtype == "bf16");
}

TEST_CASE("closing while a run is loading or decoding ends at once", "[worker]") {
    std::atomic<bool> gone{false}; // set by this thread, read on the decode thread
    std::atomic<int> late{0};
    for (int i = 0; i < 4; ++i) {
        std::shared_ptr<const Recording> recording;
        gone = false;
        {
            SessionWorker worker;
            worker.on_news([&] { late += gone ? 1 : 0; });
            worker.send(command::StartRun{bundled(2000)});
            if (i % 2 == 0) {
                Watcher watch(worker);
                watch.until_state(EngineState::running);
                recording = worker.recording();
            }
        }
        gone = true;
        if (i % 2 == 1) continue;
        REQUIRE(recording);
        CHECK(recording->steps() < 1900); // it did not decode to the end first
    }
    CHECK(late == 0); // no thread is left that could tell news
}

TEST_CASE("a run that starts paused makes no step until it is told to", "[worker]") {
    SessionWorker worker;
    Watcher watch(worker);
    start_paused(worker, watch, 40, 3);
}

TEST_CASE("a check pauses the run, reports, and leaves it as it was", "[worker]") {
    SessionWorker worker;
    Watcher watch(worker);
    start_paused(worker, watch, 40, 10);
    command::CheckExactness check;
    check.options.steps = 4;
    check.options.latency = false;
    worker.send(check);
    const auto status = watch.until(
        [](const EngineStatus& s) { return s.exactness && s.exactness->progress >= 1 && !s.checking; });
    CHECK(status->exactness->passed());
    CHECK(status->state == EngineState::paused);
    CHECK(worker.recording()->steps() == 10);
    worker.send(command::Resume{});
    watch.until_state(EngineState::finished);
    const auto recording = worker.recording();
    RunConfig config = recording->info().config;
    CHECK_FALSE(first_difference(*recording, *replay(*recording, load_pair(config))));
}

TEST_CASE("a Stop in the last moment of a prefill ends the run", "[worker]") {
    SessionWorker* engine = nullptr; // written before the first command is sent
    uint64_t ticket = 0;             // written before the run is published
    EngineState seen = EngineState::idle;
    SessionWorker worker({}, device_memory_available, [&] {
        seen = engine->status()->state;
        ticket = engine->send(command::Stop{});
    });
    engine = &worker;
    Watcher watch(worker);
    worker.send(command::StartRun{bundled(2000)});
    const auto status = watch.until([&](const EngineStatus& s) { return s.state == EngineState::finished; });
    CHECK(seen == EngineState::prefilling);
    CHECK(ticket == 2);
    CHECK(status->stop_reason == "cancelled");
    CHECK(status->errors == 0);
    CHECK(worker.recording()->steps() == 0);
    watch.until([&](const EngineStatus& s) { return s.answered == ticket; });
}

TEST_CASE("a Stop that waits after a start gives the start up, and not the run before it", "[worker]") {
    SessionWorker worker;
    Watcher watch(worker);
    start_paused(worker, watch, 40, 5);
    const auto first = worker.recording();
    // Both are sent on the decode thread, between two steps: the start has not begun when the Stop comes.
    std::atomic<uint64_t> stop{0};
    watch.each([&](const EngineStatus& s) {
        if (s.state != EngineState::running || stop != 0) return;
        worker.send(command::StartRun{bundled(2000)});
        stop = worker.send(command::Stop{});
    });
    worker.send(command::Resume{});
    const auto status = watch.until([&](const EngineStatus& s) { return stop != 0 && s.answered >= stop; });
    watch.each({});
    CHECK_THAT(status->error, ContainsSubstring("cancelled"));
    CHECK(status->state == EngineState::paused);
    CHECK(worker.recording() == first);
    worker.send(command::Stop{}); // this one is meant for the run
    CHECK(watch.until_state(EngineState::finished)->stop_reason == "cancelled");
}

TEST_CASE("a Stop while caches are checked gives up the check alone", "[worker]") {
    SessionWorker worker;
    Watcher watch(worker);
    start_paused(worker, watch, 40, 10);
    watch.each([&](const EngineStatus& s) {
        if (s.checking) worker.send(command::Stop{});
    });
    const uint64_t ticket = worker.send(command::CheckExactness{});
    auto status = watch.until([&](const EngineStatus& s) { return s.answered >= ticket; });
    watch.each({});
    CHECK_THAT(status->error, ContainsSubstring("cancelled"));
    const uint64_t resume = worker.send(command::Resume{});
    watch.until([&](const EngineStatus& s) { return s.answered >= resume; });
    status = watch.until_state(EngineState::finished);
    CHECK(status->stop_reason == "max_tokens");
    CHECK(worker.recording()->steps() == 40);
}

TEST_CASE("a start that is cancelled while it loads leaves the former run as it was", "[worker]") {
    SessionWorker worker;
    {
        Watcher watch(worker);
        start_paused(worker, watch, 40, 5);
    }
    const auto recording = worker.recording();
    // News comes on the decode thread, between two tensors of the other dtype's weights.
    worker.on_news([&] {
        if (worker.status()->state == EngineState::loading) worker.send(command::Stop{});
    });
    RunConfig other = bundled(40);
    other.dtype = Dtype::bf16;
    const uint64_t errors = worker.status()->errors;
    worker.send(command::StartRun{other});
    while (worker.status()->errors == errors)
        std::this_thread::yield();
    Watcher watch(worker);
    const auto status = watch.until_state(EngineState::paused);
    CHECK(status->error.find("cancelled") != std::string::npos);
    CHECK(worker.recording() == recording);
    worker.send(command::Resume{});
    watch.until_state(EngineState::finished);
    CHECK(worker.recording()->steps() == 40);
}

} // namespace worker_test
