// Landscapes on the decode thread: beside other commands, ended and gone on with, stored with their run, run for real.
#include "engine/base/error.h"
#include "engine/landscape/best_schedule.h"
#include "engine/landscape/landscape_store.h"
#include "engine/record/recording/recording.h"
#include "engine/session/landscape/compute_landscape.h"
#include "engine/session/pair/model_pair.h"
#include "engine/session/worker/session_worker.h"
#include "engine/signals/registry.h"
#include "tests/engine/session/watcher.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <atomic>
#include <filesystem>

namespace landscape_worker_test {

using namespace refreshlab;
using namespace refreshlab::test;
using Catch::Matchers::ContainsSubstring;

namespace {

RunConfig small(int32_t max_tokens) {
    return bundled_run("entropy", max_tokens);
}

std::shared_ptr<const EngineStatus> compute(SessionWorker& worker, Watcher& watch,
                                            const command::ComputeLandscape& asked = {}) {
    const uint64_t ticket = worker.send(asked);
    return watch.until([&](const EngineStatus& s) {
        return s.answered >= ticket && (!s.landscape || !s.landscape->computing);
    });
}

bool same_rows(const Landscape& a, const Landscape& b) {
    if (a.rows() != b.rows() || a.info().values != b.info().values) return false;
    for (const int64_t j : a.rows())
        if (a.row(j)->planes != b.row(j)->planes) return false;
    return true;
}

/// Mean of the recorded losses of y_2 .. y_N, summed as a landscape sums them.
double recorded_loss(const Recording& recording) {
    const size_t logprob = require_signal("logprob", "a test");
    double sum = 0;
    for (int64_t t = 2; t <= recording.steps(); ++t)
        sum -= static_cast<double>(recording.signal(t, logprob));
    return sum / static_cast<double>(recording.steps() - 1);
}

} // namespace

TEST_CASE("a landscape is computed beside other commands, and is the one that compute_landscape gives",
          "[worker][landscape]") {
    SessionWorker worker;
    Watcher watch(worker);
    run_to_end(worker, watch, small(24));
    std::atomic<bool> sent{false}, applied{false};
    watch.each([&](const EngineStatus& s) {
        if (!s.landscape || !s.landscape->computing) return;
        if (!sent.exchange(true)) worker.send(command::SetPolicy{preset_policy("periodic")});
        if (s.applied.policy.name == "periodic") applied = true;
    });
    const auto status = compute(worker, watch);
    watch.each({});
    CHECK(applied); // while rows were still being computed
    CHECK(status->state == EngineState::finished);
    REQUIRE(status->landscape->landscape);
    const Landscape& landscape = *status->landscape->landscape;
    CHECK(landscape.complete());
    CHECK(status->landscape->run_id == worker.recording()->info().id);
    CHECK(status->landscape->cells == 23 * 24 / 2);
    CHECK(status->landscape->cells_done == status->landscape->cells);

    LandscapeRequest request;
    request.prompt_ids = worker.recording()->info().prompt_ids;
    request.tokens = worker.recording()->token_ids();
    request.values = default_landscape_values();
    const RunConfig config = small(24);
    const auto alone = compute_landscape(*load_pair(config), request, make_execution(config));
    CHECK(same_rows(landscape, *alone));
}

TEST_CASE("a Stop ends the landscape and not the run; its rows are gone on with", "[worker][landscape]") {
    SessionWorker worker;
    Watcher watch(worker);
    worker.send(command::StartRun{small(60), true});
    const uint64_t steps = worker.send(command::Step{30});
    watch.until([&](const EngineStatus& s) {
        return s.answered >= steps && s.state == EngineState::paused && worker.recording()->steps() == 30;
    });
    watch.each([&](const EngineStatus& s) {
        if (s.landscape && s.landscape->computing && s.landscape->landscape) worker.send(command::Stop{});
    });
    auto status = compute(worker, watch);
    watch.each({});
    const uint64_t barrier = worker.send(command::SetPace{0});
    watch.until([&](const EngineStatus& s) { return s.answered >= barrier; });
    CHECK(worker.status()->errors == 0);
    const auto part = status->landscape->landscape;
    REQUIRE(part);
    CHECK_FALSE(part->complete());
    CHECK(worker.status()->state != EngineState::running);

    if (worker.status()->state == EngineState::paused) { // no second Stop was on its way
        status = compute(worker, watch);
        CHECK(status->landscape->landscape->complete());
        CHECK(status->landscape->landscape->row(0) == part->row(0)); // the very row of before
        CHECK(status->landscape->cells < 30 * 31 / 2);
    }
}

TEST_CASE("a run that goes on ends its landscape, and closing the worker does", "[worker][landscape]") {
    {
        SessionWorker worker;
        Watcher watch(worker);
        worker.send(command::StartRun{small(40), true});
        const uint64_t steps = worker.send(command::Step{20});
        watch.until([&](const EngineStatus& s) {
            return s.answered >= steps && s.state == EngineState::paused && worker.recording()->steps() == 20;
        });
        worker.send(command::ComputeLandscape{});
        const uint64_t resume = worker.send(command::Resume{});
        const auto status = watch.until(
            [&](const EngineStatus& s) { return s.answered >= resume && s.state == EngineState::finished; });
        CHECK(worker.recording()->steps() == 40);
        REQUIRE(status->landscape);
        CHECK_FALSE(status->landscape->computing);
        worker.send(command::ComputeLandscape{}); // and is under way when the worker goes
        watch.until([](const EngineStatus& s) { return s.landscape->computing; });
    }
    SUCCEED("the worker has closed");
}

TEST_CASE("a landscape that cannot be made is refused in a line, and the run stands", "[worker][landscape]") {
    std::atomic<int64_t> available{int64_t{1} << 40};
    SessionWorker worker({}, [&](const std::string&) -> std::optional<int64_t> { return available.load(); });
    Watcher watch(worker);
    uint64_t ticket = worker.send(command::ComputeLandscape{});
    auto status = watch.answered(ticket);
    CHECK_THAT(status->error, ContainsSubstring("there is no run yet"));

    run_to_end(worker, watch, small(12));
    const auto recording = worker.recording();
    const auto refused = [&](const command::ComputeLandscape& asked, const char* words) {
        const uint64_t sent = worker.send(asked);
        const auto answer = watch.until([&](const EngineStatus& s) { return s.answered >= sent; });
        CHECK_THAT(answer->error, ContainsSubstring(words));
        CHECK(answer->error.find('\n') == std::string::npos);
        CHECK(answer->state == EngineState::finished);
        CHECK(worker.recording() == recording);
        CHECK_FALSE((answer->landscape && answer->landscape->computing));
    };
    refused({"entropi_bits", 1}, "entropy_bits");
    refused({"task_score", 1}, "has no cells");
    available = 1000;
    refused({}, "computing a landscape: not enough memory");
    available = int64_t{1} << 40;
    CHECK(compute(worker, watch)->landscape->landscape->complete());

    RunConfig alone = small(12);
    alone.mode = Mode::teacher;
    alone.policy = RefreshPolicy{};
    run_to_end(worker, watch, alone);
    ticket = worker.send(command::ComputeLandscape{});
    status = watch.answered(ticket);
    CHECK_THAT(status->error, ContainsSubstring("it takes a teacher and a student"));
}

TEST_CASE("the landscape of a run that is recorded stands beside it in the trace", "[worker][landscape]") {
    const std::filesystem::path path = std::filesystem::path(RL_BUILD_DIR) / "landscape_worker.rlt";
    std::filesystem::remove(path);
    std::shared_ptr<const Landscape> landscape;
    std::string id;
    {
        SessionWorker worker(path);
        Watcher watch(worker);
        run_to_end(worker, watch, small(16));
        landscape = compute(worker, watch)->landscape->landscape;
        id = worker.recording()->info().id;
        CHECK(worker.status()->errors == 0);
    }
    const auto stored = load_landscapes(path);
    REQUIRE(stored.size() == 1);
    CHECK(stored[0].run_id == id);
    CHECK(same_rows(*stored[0].landscape, *landscape));
    std::filesystem::remove(path);
}

TEST_CASE("a run that reads the text again with the best schedule loses what its landscape says",
          "[worker][landscape]") {
    SessionWorker worker;
    Watcher watch(worker);
    run_to_end(worker, watch, small(32));
    const std::vector<int32_t> text = worker.recording()->token_ids();
    const auto landscape = compute(worker, watch, {"acceptance,same_top1", 1})->landscape->landscape;
    const auto best = best_schedules(*landscape, 3);
    REQUIRE(best.size() == 4);
    for (const size_t k : {size_t{0}, size_t{3}}) {
        RunConfig config = small(1000);
        config.given_ids = text; // ids, and no text: a tokenizer need not give them again
        config.max_tokens = static_cast<int32_t>(text.size());
        config.policy = RefreshPolicy{};
        config.policy.at = best[k].steps;
        run_to_end(worker, watch, config);
        const Recording& run = *worker.recording();
        CHECK(run.token_ids() == text);
        REQUIRE(run.refreshes().size() == k);
        for (size_t i = 0; i < k; ++i)
            CHECK(run.refreshes()[i].step == best[k].steps[i]);
        CHECK(recorded_loss(run) == best[k].loss); // bit for bit
        if (k > 0) continue;
        // Without a refresh the run stands in row 0; what its closing pass measured is what the cells hold.
        for (const char* name : {"acceptance", "same_top1"}) {
            const size_t id = require_signal(name, "a test"), value = *landscape->value_index(name);
            for (int64_t t = 1; t <= landscape->num_steps(); ++t) {
                const float recorded = run.signal(t, id);
                if (!is_absent(recorded)) CHECK(recorded == landscape->cell(value, 0, t));
            }
        }
    }
    CHECK(best[3].loss != best[0].loss);

    RunConfig bad = small(10);
    bad.given_ids = {1, 1'000'000};
    const uint64_t ticket = worker.send(command::StartRun{bad});
    const auto status = watch.answered(ticket);
    CHECK_THAT(status->error, ContainsSubstring("token id 1000000 is outside the vocabulary"));
}

} // namespace landscape_worker_test
