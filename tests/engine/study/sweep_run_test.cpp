// Runs of a sweep on the bundled pair: the same numbers as a session, whatever works beside it.
#include "engine/record/export/export.h"
#include "engine/results/sweep_claims.h"
#include "engine/results/sweep_table.h"
#include "engine/session/decode/decode_session.h"
#include "engine/study/measure/sweep_score.h"
#include "engine/study/sweep/sweep_cells.h"
#include "engine/study/sweep/sweep_run.h"
#include "tests/engine/study/sweep_fixture.h"

#include <catch2/catch_approx.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <cmath>
#include <memory>
#include <set>

namespace sweep_run_test {

using namespace refreshlab;
using namespace refreshlab::test;
using Catch::Approx;
using Catch::Matchers::ContainsSubstring;
using nlohmann::json;

namespace {

const json short_grid{{"name", "short"},
                      {"base", {{"device", "cpu"}}},
                      {"modes", {"teacher", "student", "overfill"}},
                      {"policies", {"none", {{"preset", "periodic"}, {"set", {{"periodic.every", {8}}}}}}},
                      {"max_tokens", 24},
                      {"samplers", {{{"temperature", 0.8}}}},
                      {"prompts", {"Write a chronicle of 2 companies.", "Tell a story about a fox."}},
                      {"seeds", {1, 2}}};

const std::atomic<bool> never{false};
const std::string bundled_teacher = RL_SOURCE_DIR "/assets/models/llama-tales-teacher";

struct Ran {
    SweepOutcome outcome;
    std::vector<SweepResult> results;
    std::vector<SweepTimingResult> timings;
    std::string table;
};

Ran run(const json& grid, const std::filesystem::path& file, const SweepOptions& options,
        const std::atomic<bool>& stop = never,
        const std::function<void(const SweepProgress&)>& progress = {}) {
    const SweepSpec spec = parse(grid, {{bundled_teacher, ""}});
    const SweepPlan plan = make_sweep_plan(spec, sweep_models(spec, options));
    const auto store = SweepStore::open(file, plan);
    Ran ran;
    ran.outcome = run_sweep(spec, plan, *store, options, stop, progress);
    ran.results = store->all_results();
    ran.timings = store->all_timings();
    ran.table = sweep_csv(make_sweep_table(plan, store->results()), TableColumns::deterministic);
    return ran;
}

} // namespace

TEST_CASE("jobs and shards change nothing in the results", "[study][sweep]") {
    const ScratchFile one("one"), four("four"), half("half"), other("other");
    SweepOptions options;
    options.jobs = 1;
    const Ran alone = run(short_grid, one.path(), options);
    CHECK(alone.outcome.complete());
    CHECK(alone.outcome.computed == 16);
    CHECK(alone.results.size() == 16);
    std::set<std::string> digests;
    for (const SweepResult& result : alone.results) {
        digests.insert(result.digest);
        CHECK(value_of(result.metrics, Metric::tokens).value_or(0) > 0);
        CHECK(value_of(result.metrics, Metric::teacher_ppl).value_or(0) > 1);
        CHECK(value_of(result.metrics, Metric::agreement).has_value());
    }
    CHECK(digests.size() == 16); // all of them different texts or work

    options.jobs = 4;
    const Ran together = run(short_grid, four.path(), options);
    CHECK(together.table == alone.table);
    for (size_t i = 0; i < 16; ++i)
        CHECK(together.results[i].digest == alone.results[i].digest);

    options.jobs = 2;
    options.shard = {1, 2};
    CHECK(run(short_grid, half.path(), options).outcome.computed == 8);
    options.shard = {2, 2};
    CHECK(run(short_grid, half.path(), options).table == alone.table); // two shards may share a file
    const Ran nothing = run(short_grid, half.path(), options);
    CHECK(nothing.outcome.computed == 0);
    CHECK(nothing.outcome.found == 8);
    CHECK(nothing.table == alone.table);
}

TEST_CASE("a cell's numbers are those of the session's own summary", "[study][sweep]") {
    const ScratchFile file("session");
    const Ran ran = run(short_grid, file.path(), {});
    const SweepSpec spec = parse(short_grid);
    const SweepPlan plan = make_sweep_plan(spec, sweep_models(spec, {}));
    const auto pair = load_pair(spec.rows.back().config);
    const kernels::ExecutionContext execution;
    for (const size_t i : {size_t{0}, size_t{5}, size_t{10}, plan.cells.size() - 1}) {
        const SweepCell& cell = plan.cells[i];
        DecodeSession session(pair, spec.config(cell.row, cell.prompt, cell.seed));
        while (session.step()) {
        }
        session.score();
        const MetricValues wanted = metrics_of(summary_json(*session.recording()));
        const auto found = std::find_if(ran.results.begin(), ran.results.end(),
                                        [&](const SweepResult& r) { return r.id == cell.id; });
        REQUIRE(found != ran.results.end());
        for (size_t m = 0; m < num_metrics; ++m) {
            CAPTURE(metric_infos[m].name);
            if (!metric_infos[m].measured) CHECK(found->metrics[m] == wanted[m]);
        }
        CHECK(json::parse(found->summary)["text"] == generated_text(*session.recording()));

        // The teacher's pass over the finished text gives the closing pass's numbers, bit for bit.
        const auto score = score_text(*pair->teacher, session.recording()->info().prompt_ids,
                                      session.recording()->token_ids(), execution);
        REQUIRE(score);
        CHECK(score->teacher_ppl == value_of(wanted, Metric::teacher_ppl));
        CHECK(score->tail_logprob == value_of(wanted, Metric::tail_logprob));
        CHECK(score->agreement == Approx(*value_of(wanted, Metric::agreement)));
    }
}

TEST_CASE("the score of a text is the mean of the teacher's log-probabilities", "[study][sweep]") {
    const auto pair = load_pair(bundled_pair());
    const kernels::ExecutionContext execution;
    const std::vector<int32_t> prompt{1, 5, 9, 300, 17}, text{40, 41, 42, 43, 44, 45, 46};
    // Another way: teacher decoding on the text given token by token.
    CHECK_FALSE(score_text(*pair->teacher, prompt, {}, execution));
    CHECK_FALSE(score_text(*pair->teacher, {}, text, execution));
    const auto whole = score_text(*pair->teacher, prompt, text, execution);
    REQUIRE(whole);
    double sum = 0;
    std::vector<int32_t> before = prompt;
    for (const int32_t token : text) {
        const auto one = score_text(*pair->teacher, before, std::vector<int32_t>{token}, execution);
        sum += one->tail_logprob;
        before.push_back(token);
    }
    CHECK(whole->teacher_ppl == Approx(std::exp(-sum / 7)).epsilon(1e-6));
    CHECK(whole->tail_logprob == Approx(sum / 7).epsilon(1e-6));
    CHECK_THROWS_AS(score_text(*pair->teacher, prompt, std::vector<int32_t>{-1}, execution), Error);
    CHECK_THROWS_AS(score_text(*pair->teacher, prompt, std::vector<int32_t>{4096}, execution), Error);
    CHECK_THROWS_AS(score_text(*pair->teacher, std::vector<int32_t>(2048, 5), text, execution), Error);
}

TEST_CASE("timed pairs force N and stand beside the run without policy", "[study][sweep]") {
    const ScratchFile file("timed");
    json grid = short_grid;
    grid["modes"] = {"teacher", "overfill"};
    grid["seeds"] = {1};
    grid["timing"] = {{"pairs", 5}, {"prompts", 1}};
    const Ran ran = run(grid, file.path(), {});
    CHECK(ran.outcome.complete());
    CHECK(ran.outcome.total == 6 + 3 * 5);
    REQUIRE(ran.timings.size() == 15);
    int with_none = 0;
    for (const SweepTimingResult& timing : ran.timings) {
        CHECK(timing.tokens == 24);
        CHECK(timing.total_ms > timing.ttft_ms);
        with_none += timing.none_total_ms ? 1 : 0;
    }
    CHECK(with_none == 5);
    CHECK(run(grid, file.path(), {}).outcome.computed == 0);
    const auto store = SweepStore::open_existing(file.path(), true);
    const SweepTable table = make_sweep_table(store->plan(), store->results());
    CHECK(table.rows[2].value(Metric::overhead_percent).n == 1);
    CHECK_FALSE(table.rows[1].value(Metric::overhead_percent).mean);
}

TEST_CASE("a stopped sweep keeps what is finished, and goes on", "[study][sweep]") {
    const ScratchFile file("stopped"), whole("stopped-whole");
    std::atomic<bool> stop{false};
    SweepOptions options;
    options.jobs = 2;
    const Ran first = run(short_grid, file.path(), options, stop, [&](const SweepProgress& p) {
        if (p.computed >= 5) stop = true;
    });
    CHECK(first.outcome.stopped);
    CHECK_FALSE(first.outcome.complete());
    CHECK(first.results.size() >= 5);
    CHECK(first.results.size() < 16);
    const Ran at_once = run(short_grid, file.path(), options, stop); // while the models load
    CHECK(at_once.outcome.stopped);
    CHECK(at_once.outcome.total == 16);
    CHECK(at_once.outcome.found == static_cast<int64_t>(first.results.size()));
    CHECK(at_once.outcome.computed == 0);
    double last = 0;
    const Ran second = run(short_grid, file.path(), options, never, [&](const SweepProgress& p) {
        CHECK(p.fraction >= last);
        CHECK(p.done <= p.total);
        last = p.fraction;
    });
    CHECK(last == Approx(1));
    CHECK(second.outcome.found == static_cast<int64_t>(first.results.size()));
    CHECK(second.outcome.computed == 16 - static_cast<int64_t>(first.results.size()));
    stop = false;
    const Ran to_the_end = run(short_grid, whole.path(), options, stop,
                               [&](const SweepProgress& p) { stop = p.done == p.total; });
    CHECK(stop); // it came when nothing was left to stop
    CHECK_FALSE(to_the_end.outcome.stopped);
    CHECK(second.table == to_the_end.table);
}

TEST_CASE("runs of another process are waited for, and taken over when it gives them up", "[study][sweep]") {
    const ScratchFile whole("claims-whole"), file("claims"), stopped("claims-stopped");
    SweepOptions options;
    options.jobs = 2;
    const Ran expected = run(short_grid, whole.path(), options);
    const SweepPlan plan = make_sweep_plan(parse(short_grid), sweep_models(parse(short_grid), options));
    const std::string finished = plan.cells[2].id, given_up = plan.cells[5].id;
    const auto claim = [](const SweepClaims& claims, const std::string& id) {
        auto claimed = claims.try_claim(id + " -1");
        REQUIRE(claimed);
        return std::make_unique<SweepClaims::Claim>(std::move(*claimed));
    };
    {
        const SweepClaims other(file.path()); // as another process that computes two runs
        auto first = claim(other, finished), second = claim(other, given_up);
        int64_t most = 0;
        const Ran ran = run(short_grid, file.path(), options, never, [&](const SweepProgress& p) {
            most = std::max(most, p.elsewhere);
            if (p.elsewhere == 0 || !first) return;
            CHECK(p.done == p.total - 2); // all else is done before anybody waits
            const auto result = std::find_if(expected.results.begin(), expected.results.end(),
                                             [&](const SweepResult& r) { return r.id == finished; });
            SweepStore::open_existing(file.path(), false)->add(*result);
            first.reset();
            second.reset();
        });
        CHECK(most == 2);
        CHECK(ran.outcome.complete());
        CHECK(ran.outcome.elsewhere == 0);
        CHECK(ran.outcome.found == 1);
        CHECK(ran.outcome.computed == 15);
        CHECK(ran.table == expected.table);
    }
    const SweepClaims other(stopped.path());
    const auto first = claim(other, finished), second = claim(other, given_up);
    std::atomic<bool> stop{false};
    const Ran ran = run(short_grid, stopped.path(), options, stop,
                        [&](const SweepProgress& p) { stop = p.elsewhere > 0; });
    CHECK(ran.outcome.stopped);
    CHECK_FALSE(ran.outcome.complete());
    CHECK(ran.outcome.elsewhere == 2);
    CHECK(ran.results.size() == 14);
}

TEST_CASE("a run that fails is named, tried again, and holds nobody up", "[study][sweep]") {
    const ScratchFile file("failing");
    json grid = short_grid;
    grid["modes"] = "student";
    grid.erase("policies");
    grid["seeds"] = {1};
    std::string longest;
    for (int i = 0; i < 3000; ++i)
        longest += "word ";
    grid["prompts"] = {longest, "Tell a story about a fox."};
    for (int again = 0; again < 2; ++again) {
        const Ran ran = run(grid, file.path(), {});
        CHECK(ran.outcome.failed == 1);
        CHECK(ran.outcome.computed == (again == 0 ? 1 : 0));
        CHECK_FALSE(ran.outcome.complete());
        CHECK(ran.results.size() == 1);
        const auto failures = SweepStore::open_existing(file.path(), true)->failures();
        REQUIRE(failures.size() == 1);
        CHECK_THAT(failures[0].second, ContainsSubstring("context"));
    }
}

TEST_CASE("devices of two kinds, and devices against the spec's own, are refused", "[study][sweep]") {
    SweepOptions options;
    options.devices = {"cpu", "cpu"};
    CHECK(sweep_models(parse(short_grid), options).device == "cpu");
    options.devices = {"gpu"};
    CHECK_THROWS_AS(sweep_models(parse(short_grid), options), Error);
    json placed = short_grid;
    placed["base"]["teacher_device"] = "cpu";
    options.devices = {"cpu"};
    CHECK_THROWS_AS(sweep_models(parse(placed), options), Error);
    CHECK(sweep_models(parse(placed), {}).device == "cpu");

    const ScratchFile alone("alone"), shared("shared");
    options.jobs = 3;
    options.devices = {"cpu", "cpu"}; // two pairs in memory, three workers
    CHECK(run(short_grid, shared.path(), options).table == run(short_grid, alone.path(), {}).table);
}

TEST_CASE("a sweep makes a derived student for every prompt that it measures on", "[study][sweep][derive]") {
    const ScratchFile together("derived"), halves("derived-halves");
    json grid{
        {"name", "derived"},
        {"base", {{"device", "cpu"}, {"teacher_dir", bundled_teacher}, {"student_dir", "derive:ffn=0.5"}}},
        {"modes", {"student", "overfill"}},
        {"policies", {"none", {{"preset", "periodic"}, {"set", {{"periodic.every", {4}}}}}}},
        {"max_tokens", 12},
        {"prompts", {"Write a chronicle of 2 companies.", "Tell a story about a fox."}}};
    SweepOptions options;
    options.jobs = 2;
    const Ran ran = run(grid, together.path(), options);
    CHECK(ran.outcome.complete());
    REQUIRE(ran.results.size() == 6); // 3 rows, 2 prompts
    const SweepSpec spec = parse(grid, {{bundled_teacher, ""}});
    const SweepPlan plan = make_sweep_plan(spec, sweep_models(spec, {}));
    for (const SweepCell& cell : plan.cells) {
        // The run as anybody would make it: a pair that is loaded for this configuration.
        const RunConfig config = spec.config(cell.row, cell.prompt, cell.seed);
        RunConfig both = config;
        both.mode = Mode::overfill; // of the teacher's weights, whatever decodes
        const auto pair = load_pair(both);
        DecodeSession session(pair, config);
        while (session.step()) {
        }
        session.score();
        const MetricValues wanted = metrics_of(summary_json(*session.recording()));
        const auto found = std::ranges::find(ran.results, cell.id, &SweepResult::id);
        REQUIRE(found != ran.results.end());
        for (size_t i = 0; i < num_metrics; ++i) {
            CAPTURE(cell.row, cell.prompt, metric_infos[i].name);
            if (!metric_infos[i].measured) CHECK(found->metrics[i] == wanted[i]);
        }
        const json summary = json::parse(found->summary);
        CHECK(summary["derived"]["spec"] == "ffn=0.5");
        CHECK(summary["student"] == "derive:ffn=0.5");
        if (cell.prompt == 0) continue;
        // The student of the other prompt would have written something else.
        RunConfig other = both;
        other.prompt = spec.prompts[0].text;
        DecodeSession wrong(load_pair(other), config);
        while (wrong.step()) {
        }
        wrong.score();
        const MetricValues differs = metrics_of(summary_json(*wrong.recording()));
        CHECK(value_of(differs, Metric::mean_entropy_bits) !=
              value_of(found->metrics, Metric::mean_entropy_bits));
    }
    // In two calls, with one worker: the same table. Another derivation is another run.
    options.jobs = 1;
    options.shard = {1, 2};
    CHECK(run(grid, halves.path(), options).outcome.computed == 3);
    options.shard = {2, 2};
    CHECK(run(grid, halves.path(), options).table == ran.table);
    grid["base"]["student_dir"] = "derive:bits=3,group=32";
    options.shard = {1, 1};
    const Ran rounded = run(grid, halves.path(), options);
    CHECK(rounded.outcome.computed == 6);
    CHECK(rounded.outcome.found == 0);
    CHECK(rounded.table != ran.table);
}

} // namespace sweep_run_test
