// Scope maps on the decode thread: the map that compute_scope_map gives, ended by Stop, refused with the reason.
#include "engine/policies/cache_policy_config.h"
#include "engine/record/recording/recording.h"
#include "engine/results/scope_map.h"
#include "engine/results/scope_map_store.h"
#include "engine/session/pair/model_pair.h"
#include "engine/session/pair/run_execution.h"
#include "engine/session/readings/scope_readings.h"
#include "engine/session/worker/session_worker.h"
#include "tests/engine/session/watcher.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <filesystem>

namespace scope_worker_test {

using namespace refreshlab;
using namespace refreshlab::test;
using Catch::Matchers::ContainsSubstring;

namespace {

RunConfig small(int32_t max_tokens) {
    RunConfig config = bundled_run("periodic", max_tokens);
    config.policy.triggers[0].threshold = 12;
    return config;
}

/// The map is whole, was ended, or was refused.
std::shared_ptr<const EngineStatus> measured(SessionWorker& worker, Watcher& watch,
                                             const command::ComputeScope& asked) {
    watch.answered(worker.send(asked));
    return watch.until([](const EngineStatus& s) { return !s.scope || !s.scope->computing; });
}

} // namespace

TEST_CASE("a scope map comes up in the status whole, and is the one that compute_scope_map gives",
          "[session][worker]") {
    SessionWorker worker;
    Watcher watch(worker);
    run_to_end(worker, watch, small(40));
    const auto status = measured(worker, watch, {.every = 0, .horizon = 6, .blocks = 2, .keep = 0.5});
    REQUIRE(status->scope);
    CHECK(status->scope->run_id == worker.recording()->info().id);
    CHECK_FALSE(status->scope->computing);
    CHECK(status->state == EngineState::finished);
    REQUIRE(status->scope->map);
    CHECK(status->scope->rows_done == status->scope->rows);
    const ScopeMap& map = *status->scope->map;
    const Recording& run = *worker.recording();
    ScopeMapRequest request;
    request.prompt_ids = run.info().prompt_ids;
    request.tokens = run.token_ids();
    request.boundaries = scope_boundaries(run, 0);
    CHECK(request.boundaries == std::vector<int64_t>{12, 24, 36}); // where it refreshed
    request.horizon = 6;
    request.blocks = 2;
    request.keep = 0.5;
    const auto pair = load_pair(run.info().config);
    const auto plain = compute_scope_map(*pair, request, make_execution(run.info().config));
    REQUIRE(plain);
    REQUIRE(map.refreshes.size() == 2); // the third has no six tokens behind it
    REQUIRE(map.readings.size() == plain->readings.size());
    for (size_t i = 0; i < map.readings.size(); ++i) {
        CHECK(map.readings[i].alone == plain->readings[i].alone);
        CHECK(map.readings[i].without == plain->readings[i].without);
    }
    CHECK(map.taken.size() == plain->taken.size());
}

TEST_CASE("the scope map of a run that is recorded stands beside it in the trace", "[session][worker]") {
    const std::filesystem::path path = std::filesystem::path(RL_BUILD_DIR) / "scope_worker.rlt";
    std::filesystem::remove(path);
    std::shared_ptr<const ScopeMap> map;
    std::string id;
    {
        SessionWorker worker(path);
        Watcher watch(worker);
        run_to_end(worker, watch, small(40));
        id = worker.recording()->info().id;
        map = measured(worker, watch, {.every = 16, .horizon = 6, .keep = 0})->scope->map;
        REQUIRE(map);
        CHECK(*load_scope_map_of(path, id) == *map); // before the worker ends
        map = measured(worker, watch, {.every = 12, .horizon = 4, .keep = 0.5})->scope->map;
        CHECK(worker.status()->errors == 0);
    }
    const auto stored = load_scope_maps(path);
    REQUIRE(stored.size() == 1); // the newest
    CHECK(stored[0].run_id == id);
    CHECK(*stored[0].map == *map);
    std::filesystem::remove(path);
}

TEST_CASE("Stop ends the measuring of scopes and no run; a map that was there stays", "[session][worker]") {
    SessionWorker worker;
    Watcher watch(worker);
    run_to_end(worker, watch, small(60));
    const auto first = measured(worker, watch, {.every = 20, .horizon = 4, .blocks = 1, .keep = 0});
    REQUIRE(first->scope->map);
    worker.send(command::ComputeScope{.every = 1, .horizon = 16, .keep = 1});
    watch.until([&](const EngineStatus& s) { return s.scope->computing && s.scope->rows_done > 0; });
    const auto ended = watch.answered(worker.send(command::Stop{}));
    CHECK_FALSE(ended->scope->computing);
    CHECK(ended->scope->map == first->scope->map);
    CHECK(ended->state == EngineState::finished);
    CHECK(ended->errors == first->errors);
}

TEST_CASE("while scopes are measured settings are taken and Play is refused; a rewind ends the map",
          "[session][worker]") {
    SessionWorker worker;
    Watcher watch(worker);
    watch.answered(worker.send(command::StartRun{small(60), true}));
    watch.answered(worker.send(command::Step{50}));
    watch.until([](const EngineStatus& s) { return s.state == EngineState::paused; });
    watch.answered(worker.send(command::ComputeScope{.every = 1, .horizon = 16, .keep = 1}));
    const auto set = watch.answered(worker.send(command::SetParameter{"periodic.every", "20"}));
    CHECK(set->scope->computing);
    CHECK(set->applied.policy.triggers[0].threshold == 20);
    const auto refused = watch.answered(worker.send(command::Resume{}));
    CHECK_THAT(refused->error, ContainsSubstring("scopes of this text are being measured"));
    CHECK(refused->scope->computing);
    CHECK(refused->state == EngineState::paused);
    const auto back = watch.answered(worker.send(command::Rewind{10}));
    CHECK_FALSE(back->scope->computing);
    CHECK(back->scope->map == nullptr);
    const auto goes = watch.answered(worker.send(command::Resume{}));
    CHECK(goes->errors == refused->errors);
}

TEST_CASE("scopes that cannot be measured are refused in one line", "[session][worker][bad-input]") {
    SessionWorker worker;
    Watcher watch(worker);
    auto status = watch.answered(worker.send(command::ComputeScope{}));
    CHECK_THAT(status->error, ContainsSubstring("no run yet"));
    run_to_end(worker, watch, small(10));
    status = watch.answered(worker.send(command::ComputeScope{.every = 4, .horizon = 100}));
    CHECK_THAT(status->error, ContainsSubstring("no refresh has 100 tokens behind it"));
    CHECK((status->scope == nullptr || !status->scope->computing));
    RunConfig evicts = small(10);
    evicts.student_cache = cache_policy_defaults("streaming_llm", "this test");
    run_to_end(worker, watch, evicts);
    status = watch.answered(worker.send(command::ComputeScope{.every = 4, .horizon = 2}));
    CHECK_THAT(status->error, ContainsSubstring("caches that keep everything"));
    status = watch.answered(worker.send(command::ComputeLandscape{})); // nor has a landscape been computed
    CHECK_THAT(status->error, ContainsSubstring("computing a landscape") &&
                                  ContainsSubstring("caches that keep everything"));
}

} // namespace scope_worker_test
