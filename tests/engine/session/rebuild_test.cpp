// A recorded run is made the engine's again: bit for bit, with its commands, on top of a branch, into a trace.
#include "engine/base/error.h"
#include "engine/record/runs/rebuild.h"
#include "engine/record/trace/trace_store.h"
#include "engine/session/driver/replay.h"
#include "engine/session/worker/session_worker.h"
#include "tests/engine/session/tiny_pair.h"
#include "tests/engine/session/watcher.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

namespace rebuild_test {

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
    config.sampler.temperature = 0.8;
    config.seed = 5;
    config.threads = 2;
    return config;
}

/// Sends, and waits for its answer.
std::shared_ptr<const EngineStatus> answered(SessionWorker& worker, Watcher& watch, Command command) {
    const uint64_t ticket = worker.send(std::move(command));
    return watch.answered(ticket);
}

void steps(SessionWorker& worker, Watcher& watch, int32_t count) {
    const int64_t before = worker.recording()->steps();
    worker.send(command::Step{count});
    watch.until([&](const EngineStatus& s) {
        return worker.recording()->steps() >= before + count &&
               (s.state == EngineState::paused || s.state == EngineState::finished);
    });
}

} // namespace

/// The state after that step of a run that the engine does not hold.
command::Branch again_at(const Recording& recording, int64_t step) {
    return {.run_id = recording.info().id, .step = step, .recorded = rebuild_of(recording, step)};
}

TEST_CASE("a steered branch is made again bit for bit and goes on like the one that stood", "[rebuild]") {
    SessionWorker worker;
    Watcher watch(worker);
    answered(worker, watch, command::StartRun{bundled(80), true});
    steps(worker, watch, 20);
    answered(worker, watch, command::RefreshNow{});
    answered(worker, watch, command::Rewind{12});
    answered(worker, watch, command::GiveTokens{{}, " slate"});
    steps(worker, watch, 9);
    const auto at_15 =
        worker.recording()->fork(15, "at 15"); // without the row of attention that is asked for later
    answered(worker, watch, command::SetParameter{"entropy.threshold", "3"});
    answered(worker, watch, command::RequestAttention{10, true});
    steps(worker, watch, 6);
    const auto branch = worker.recording();
    REQUIRE(branch->info().fork_step == 12);
    REQUIRE(branch->steps() >= 27);
    const int64_t at = branch->steps();
    const auto then = branch->fork(at, "then"); // as it stands now
    const command::Branch rebuild = again_at(*branch, at), earlier = again_at(*branch, 15);
    steps(worker, watch, 10);
    const auto further = branch->fork(at + 10, "further");

    answered(worker, watch, command::StartRun{bundled(20), true}); // something else takes its place
    REQUIRE(worker.recording() != branch);
    const auto status = answered(worker, watch, rebuild);
    CHECK(status->error == "");
    CHECK(status->state == EngineState::paused);
    const auto again = worker.recording();
    CHECK(again->info().parent_id == branch->info().id);
    CHECK(again->info().fork_step == at);
    CHECK(again->info().id != branch->info().id);
    REQUIRE(first_difference(*again, *then).value_or("") == "");
    CHECK(status->applied.policy.triggers.at(0).threshold == 3);
    steps(worker, watch, 10);
    CHECK(first_difference(*again, *further).value_or("") == "");

    // Any earlier step as well.
    answered(worker, watch, earlier);
    CHECK(first_difference(*worker.recording(), *at_15).value_or("") == "");
}

TEST_CASE("one command leaves a run at a step and goes another way", "[rebuild]") {
    SessionWorker worker;
    Watcher watch(worker);
    answered(worker, watch, command::StartRun{bundled(40), true});
    steps(worker, watch, 20);
    const auto first = worker.recording();
    const std::vector<command::Branch::Change> changes{command::SetParameter{"entropy.threshold", "3"},
                                                       command::GiveTokens{{}, " slate"},
                                                       command::RefreshNow{}};
    // The run that stands, and then the same of a run that does not stand any more.
    answered(worker, watch, command::Branch{first->info().id, 11, {}, changes, false});
    CHECK(worker.status()->state == EngineState::paused);
    CHECK(worker.status()->applied.policy.triggers.at(0).threshold == 3);
    steps(worker, watch, 9);
    const auto here = worker.recording();
    CHECK(here->info().parent_id == first->info().id);
    CHECK(here->info().fork_step == 11);
    CHECK(here->refresh_at(12) != nullptr);
    CHECK(here->token(13) != first->token(13));
    command::Branch again = again_at(*first, 11);
    again.changes = changes;
    again.goes_on = true;
    worker.send(again);
    watch.until_state(EngineState::finished);
    CHECK(worker.recording()->info().parent_id == first->info().id);
    CHECK(first_difference(*worker.recording()->fork(20, "a"), *here->fork(20, "b")).value_or("") == "");
    // A change that cannot be leaves the branch waiting, with those before it.
    const uint64_t errors = worker.status()->errors;
    answered(worker, watch,
             command::Branch{worker.recording()->info().id,
                             15,
                             {},
                             {command::SetParameter{"entropy.threshold", "4"}, command::FullStepNow{}},
                             true});
    CHECK(worker.status()->errors == errors + 1);
    CHECK(worker.status()->state == EngineState::paused);
    CHECK(worker.status()->applied.policy.triggers.at(0).threshold == 4);
    CHECK(worker.recording()->steps() == 15);
}

TEST_CASE("a run that is made again stands in the trace as a branch", "[rebuild]") {
    const auto path = std::filesystem::temp_directory_path() / "refreshlab_rebuild_test.rlt";
    std::filesystem::remove(path);
    std::shared_ptr<const Recording> first, again;
    {
        SessionWorker worker(path);
        Watcher watch(worker);
        answered(worker, watch, command::StartRun{bundled(60), true});
        steps(worker, watch, 18);
        first = worker.recording();
        answered(worker, watch, command::StartRun{bundled(10), true});
        answered(worker, watch, again_at(*first, 11));
        steps(worker, watch, 5);
        again = worker.recording();
    }
    const auto runs = load_trace(path);
    REQUIRE(runs.size() == 3); // and not the run that led to the branch
    CHECK(first_difference(*runs[0], *first) == std::nullopt);
    CHECK(first_difference(*runs[2], *again) == std::nullopt);
    CHECK(runs[2]->info().parent_id == first->info().id);
    CHECK(runs[2]->inherited().commands == 0);
    // The shared steps have the times of the run that was left, and the branch's go on from there as they went.
    CHECK(runs[2]->step(11).arrival_ms == first->step(11).arrival_ms);
    for (int64_t t = 12; t <= 16; ++t) {
        const double took = again->step(t).arrival_ms - again->step(t - 1).arrival_ms;
        CHECK(std::abs(runs[2]->step(t).arrival_ms - runs[2]->step(t - 1).arrival_ms - took) < 1e-6);
    }
    std::filesystem::remove(path);
}

TEST_CASE("a run that cannot be made again leaves the one that stands", "[rebuild]") {
    SessionWorker worker;
    Watcher watch(worker);
    answered(worker, watch, command::StartRun{bundled(40), true});
    steps(worker, watch, 10);
    const auto stands = worker.recording();
    const auto refused = [&](const command::Branch& rebuild, const char* words) {
        const uint64_t before = worker.status()->errors;
        const auto status = answered(worker, watch, rebuild);
        INFO(status->error);
        CHECK(status->errors == before + 1);
        CHECK_THAT(status->error, ContainsSubstring(words));
        CHECK(worker.recording() == stands);
        CHECK(status->state == EngineState::paused);
    };
    command::Branch other = again_at(*stands, 8);
    other.recorded->tokens[6] += 1;
    refused(other, "token 7");
    other = again_at(*stands, 8);
    other.recorded->tokens.pop_back();
    refused(other, "does not say its prompt and tokens");
    other = again_at(*stands, 8);
    other.recorded->config.student_dir = "/nowhere/student";
    refused(other, "/nowhere/student");
    other = again_at(*stands, 8);
    other.step = 7;
    refused(other, "does not say its prompt and tokens");
    refused({.run_id = "somebody", .step = 3}, "is not the run that stands");
    refused({.run_id = stands->info().id, .step = 11}, "11");
    steps(worker, watch, 2);
    CHECK(stands->steps() == 12);
}

TEST_CASE("the last record of a whole run has no state to go back to", "[rebuild]") {
    SessionWorker worker;
    Watcher watch(worker);
    worker.send(command::StartRun{bundled(14)});
    watch.until_state(EngineState::finished);
    const auto whole = worker.recording();
    REQUIRE(whole->steps() == 14);
    CHECK(newest_reached(*whole) == 13);
    CHECK_FALSE(why_at_its_end(*whole).empty());
    answered(worker, watch, command::StartRun{bundled(5), true});
    answered(worker, watch, again_at(*whole, 13));
    CHECK(worker.status()->state == EngineState::paused);
    steps(worker, watch, 1);
    CHECK(worker.status()->state == EngineState::finished);
    CHECK(first_difference(*worker.recording(), *whole) == std::nullopt);
    answered(worker, watch, again_at(*whole, 0));
    CHECK(worker.recording()->steps() == 0);
}

TEST_CASE("a run of a trace is made again on its own recording, under every policy", "[rebuild]") {
    const auto path = std::filesystem::temp_directory_path() / "refreshlab_make_again_test.rlt";
    const auto pair = tiny_pair(21, 22, {.layers = 3}, {.layers = 3});
    constexpr int64_t at = 300, last = 330; // more steps than a chunk of a recording has
    RunConfig plain = tiny_run(last);
    plain.sampler.temperature = 0.9;
    plain.capture.attention_megabytes =
        1; // rows of the first steps are dropped at its end, and not at the branch
    plain.policy = policy_of({trigger("steps_since_refresh", Comparison::at_least, 7)});
    std::vector<RunConfig> runs(6, plain);
    runs[1].policy = policy_of({trigger("kl_nats", Comparison::above, 0.01, 5)}, 4, OnFire::redraw);
    runs[2].policy.lag = 3;
    runs[2].shadow = true;
    runs[3].policy.triggers.clear();
    runs[3].student_cache = cache_policy_defaults("h2o", "a test");
    runs[3].student_cache.values["budget"] = 24;
    runs[4].mode = Mode::teacher;
    runs[4].policy.triggers.clear();
    runs[4].mc.measure = true;
    runs[5].mode = Mode::student;
    runs[5].policy.triggers.clear();
    for (size_t i = 0; i < runs.size(); ++i) {
        INFO("run " << i);
        RunDriver whole(
            {.pair = pair, .config = runs[i], .commands = {{9, command::SetParameter{"seed", "4"}}}});
        whole.run();
        REQUIRE(whole.recording()->steps() == last);
        save_trace(path, whole.recording());
        const std::shared_ptr<const Recording> read = load_trace(path).at(0);
        int64_t asked_at = -1;
        MadeAgain made = make_again(
            rebuild_of(*read, at), pair,
            [&](int64_t step) {
                CHECK(step >= asked_at);
                asked_at = step;
                return true;
            },
            read.get());
        CHECK(asked_at == at);
        CHECK(made.difference.value_or("") == "");
        const auto branch = made.driver->recording();
        CHECK(branch->info().parent_id == read->info().id);
        CHECK(branch->steps() == at);
        CHECK(&branch->step(1) == &read->step(1)); // one object, not two that are equal
        CHECK(branch->step(at).arrival_ms == read->step(at).arrival_ms);
        made.driver->run();
        CHECK(branch->step(at + 1).arrival_ms > branch->step(at).arrival_ms);
        CHECK(first_difference(*branch, *read).value_or("") == "");
        REQUIRE(save_traces(path, std::vector<SavedRun>{{read, {}, 0}, {branch, {}, 0}}));
        const auto both = load_trace(path);
        CHECK(first_difference(*both.at(0), *read).value_or("") == "");
        CHECK(first_difference(*both.at(1), *branch).value_or("") == "");
        CHECK(both[1]->info().fork_step == at);

        // Without the recording: the same run with steps of its own. It stands in the file once all the same.
        MadeAgain blind = make_again(rebuild_of(*read, at), pair, [](int64_t) { return true; });
        blind.driver->run();
        CHECK(first_difference(*blind.driver->recording(), *read).value_or("") == "");
        const auto one = std::filesystem::file_size(path);
        REQUIRE(save_traces(path, std::vector<SavedRun>{{read, {}, 0}, {blind.driver->recording(), {}, 0}}));
        CHECK(first_difference(*load_trace(path).at(1), *read).value_or("") == "");
        CHECK(std::filesystem::file_size(path) < one * 11 / 10);
    }
    // Another run's numbers under the same tokens: the branch has the steps that were made now.
    RunConfig config = runs[5];
    RunDriver first({.pair = pair, .config = config});
    first.run();
    RunInfo info = first.recording()->info();
    Recording odd(info, first.recording()->token_table());
    for (int64_t t = 1; t <= 20; ++t) {
        StepRecord record = first.recording()->step(t);
        record.signals[0] += t == 11 ? 0.5F : 0.0F;
        odd.append(record);
    }
    const MadeAgain again = make_again(
        rebuild_of(odd, 15), pair, [](int64_t) { return true; }, &odd);
    CHECK_FALSE(again.difference.value_or("").empty());
    CHECK(again.driver->recording()->measured(11)[0] == first.recording()->measured(11)[0]);
    CHECK(again.driver->recording()->info().parent_id == info.id);
    CHECK_THROWS_AS(make_again(rebuild_of(odd, 15), pair, [](int64_t step) { return step < 5; }), Error);
    std::filesystem::remove(path);
}

} // namespace rebuild_test
