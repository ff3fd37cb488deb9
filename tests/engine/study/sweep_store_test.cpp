// The database of a sweep: what survives, who may write, what merging does.
#include "engine/base/json_file.h"
#include "engine/record/trace/sqlite.h"
#include "engine/results/sweep_claims.h"
#include "engine/results/sweep_table.h"
#include "engine/study/sweep/sweep_cells.h"
#include "kernels/execution/isa.h"
#include "tests/engine/study/sweep_fixture.h"
#include "tests/support/seed.h"

#include <catch2/catch_get_random_seed.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <sys/wait.h>

#include <algorithm>
#include <cmath>
#include <csignal>

namespace sweep_store_test {

using namespace refreshlab;
using namespace refreshlab::test;
using Catch::Matchers::ContainsSubstring;
using nlohmann::json;

namespace {

SweepPlan grid(const json& seeds = {1, 2}, const json& more = json::object()) {
    json spec{{"name", "grid"},
              {"modes", {"teacher", "overfill"}},
              {"policies", {"none", "periodic"}},
              {"prompts", {"a", "b"}},
              {"seeds", seeds},
              {"timing", {{"pairs", 5}}}};
    spec.merge_patch(more); // null takes a key out
    return make_sweep_plan(parse(spec), some_models);
}

SweepTimingResult timing_of(const std::string& id, int32_t pair, std::mt19937_64& random) {
    SweepTimingResult t;
    t.id = id;
    t.pair = pair;
    t.tokens = 10;
    t.ttft_ms = static_cast<double>(random() % 1000) / 7;
    t.total_ms = 100 + static_cast<double>(random() % 1000) / 7;
    if (pair % 2 == 0) t.none_total_ms = 90;
    return t;
}

std::string tables_of(const std::filesystem::path& file) {
    const auto store = SweepStore::open_existing(file, true);
    const SweepTable table = make_sweep_table(store->plan(), store->results());
    return sweep_markdown(table, TableColumns::all) + sweep_csv(table, TableColumns::all) +
           sweep_pareto(table, TableColumns::all);
}

std::string error_of_merge(const std::filesystem::path& out, const std::vector<std::filesystem::path>& in) {
    try {
        static_cast<void>(merge_sweeps(out, in));
        return {};
    } catch (const Error& e) {
        return e.what();
    }
}

} // namespace

TEST_CASE("what is stored is read again bit by bit", "[study][sweep]") {
    const ScratchFile file("bits");
    const SweepPlan plan = grid();
    std::mt19937_64 random(5);
    std::vector<SweepResult> written;
    {
        const auto store = SweepStore::open(file.path(), plan);
        for (const SweepCell& cell : plan.cells) {
            written.push_back(random_result(cell.id, random));
            value_of(written.back().metrics, Metric::teacher_ppl) = 0.1 + 0.2;
            value_of(written.back().metrics, Metric::tail_logprob) = -1e-300;
            store->add(written.back());
            store->add(timing_of(cell.id, 0, random));
        }
        store->add_failure("someone", "a problem");
    }
    const auto store = SweepStore::open_existing(file.path(), true);
    CHECK(store->plan().digest() == plan.digest());
    CHECK(store->plan().spec_text == plan.spec_text);
    CHECK((store->plan().cells == plan.cells));
    const SweepResults results = store->results();
    REQUIRE(results.runs.size() == written.size());
    for (const SweepResult& result : written)
        CHECK(results.runs.at(result.id) == result.metrics);
    CHECK(results.timings.size() == plan.cells.size());
    CHECK(store->finished().size() == plan.cells.size());
    const std::vector<std::pair<std::string, std::string>> failures{{"someone", "a problem"}};
    CHECK((store->failures() == failures));
}

TEST_CASE("a changed spec keeps what it still needs", "[study][sweep]") {
    const ScratchFile file("changed");
    const SweepPlan before = grid({1, 2}), after = grid({2, 3});
    std::mt19937_64 random(6);
    {
        const auto store = SweepStore::open(file.path(), before);
        for (const SweepCell& cell : before.cells)
            store->add(random_result(cell.id, random));
    }
    const auto store = SweepStore::open(file.path(), after);
    const auto finished = store->finished();
    const auto missing = std::count_if(after.cells.begin(), after.cells.end(),
                                       [&](const SweepCell& cell) { return !finished.contains(cell.id); });
    CHECK(missing == static_cast<int64_t>(after.cells.size() / 2)); // seed 3 alone
    CHECK(SweepStore::open_existing(file.path(), true)->plan().digest() == after.digest());
    CHECK(make_sweep_table(after, store->results()).runs == static_cast<int64_t>(after.cells.size() / 2));
}

TEST_CASE("a result that is there stays, and a failure goes when its run succeeds", "[study][sweep]") {
    const ScratchFile file("stays");
    const SweepPlan plan = grid();
    std::mt19937_64 random(7);
    const auto store = SweepStore::open(file.path(), plan);
    const SweepResult first = random_result(plan.cells[0].id, random),
                      second = random_result(plan.cells[0].id, random);
    store->add_failure(first.id, "too long");
    store->add_failure(first.id, "much too long");
    CHECK(store->failures().size() == 1);
    store->add(first);
    store->add(second);
    CHECK(store->failures().empty());
    CHECK(store->results().runs.at(first.id) == first.metrics);
    CHECK(store->has_result(first.id));
    CHECK_FALSE(store->has_result(plan.cells[1].id));
    CHECK_FALSE(store->has_timing(first.id, 0));
}

TEST_CASE("files that are no sweeps are refused and left alone", "[study][sweep]") {
    const ScratchFile file("foreign");
    const SweepPlan plan = grid();
    const auto refused = [&](const char* part) {
        const std::string before = read_file(file.path());
        try {
            static_cast<void>(SweepStore::open(file.path(), plan));
            FAIL("opened");
        } catch (const Error& e) {
            CHECK_THAT(std::string(e.what()), ContainsSubstring(part));
        }
        CHECK(read_file(file.path()) == before);
    };
    write_file(file.path(), "a letter to my grandmother");
    refused("is not a sweep");
    std::filesystem::remove(file.path());
    {
        sqlite::Database other(file.path(), sqlite::Open::create);
        other.exec("CREATE TABLE t(x)");
    }
    refused("not a sweep of refreshlab");
    std::filesystem::remove(file.path());
    static_cast<void>(SweepStore::open(file.path(), plan));
    {
        sqlite::Database newer(file.path(), sqlite::Open::read_write);
        newer.exec("PRAGMA user_version = 7");
    }
    refused("newer version");
    CHECK_THROWS_AS(SweepStore::open(file.path() / "below", plan), Error);
    CHECK_THROWS_AS(SweepStore::open_existing("/nowhere/x.db", true), Error);
    CHECK_THROWS_AS(SweepStore::open(std::filesystem::temp_directory_path(), plan), Error);
}

TEST_CASE("damage anywhere in the file is an error and not a crash", "[study][sweep]") {
    const ScratchFile file("damage");
    const SweepPlan plan = grid();
    std::mt19937_64 random(8);
    {
        const auto store = SweepStore::open(file.path(), plan);
        for (const SweepCell& cell : plan.cells)
            store->add(random_result(cell.id, random));
    }
    const std::string good = read_file(file.path());
    int refused = 0;
    for (int i = 0; i < 300; ++i) {
        CAPTURE(i);
        std::string bad = good;
        for (int k = 0; k < 20; ++k)
            bad[random() % bad.size()] = static_cast<char>(random());
        if (i % 10 == 0) bad.resize(random() % bad.size());
        write_file(file.path(), bad);
        try {
            const auto store = SweepStore::open_existing(file.path(), true);
            static_cast<void>(make_sweep_table(store->plan(), store->results()));
        } catch (const Error&) {
            ++refused;
        }
    }
    CHECK(refused > 0);
}

TEST_CASE("several processes write one file, and a killed one loses only what it had not finished",
          "[study][sweep]") {
    const ScratchFile file("processes");
    json seeds = json::array();
    for (int i = 0; i < 60; ++i)
        seeds.push_back(i);
    const SweepPlan plan = grid(seeds);
    constexpr size_t writers = 4;
    std::vector<pid_t> children;
    for (size_t w = 0; w < writers; ++w) {
        const pid_t child = fork();
        REQUIRE(child >= 0);
        if (child != 0) {
            children.push_back(child);
            continue;
        }
        try {                                                       // a child: no Catch2 in here
            const auto store = SweepStore::open(file.path(), plan); // all of them set up at once
            std::mt19937_64 random(w);
            for (size_t i = 0; i < plan.cells.size(); ++i) {
                if (w == 0 && i == 100) raise(SIGKILL);
                if (w == 0 || i % writers == w) store->add(random_result(plan.cells[i].id, random));
            }
            _exit(0);
        } catch (...) {
            _exit(1);
        }
    }
    for (size_t w = 0; w < writers; ++w) {
        int state = 0;
        waitpid(children[w], &state, 0);
        if (w == 0) {
            CHECK(WIFSIGNALED(state));
        } else {
            CHECK((WIFEXITED(state) && WEXITSTATUS(state) == 0));
        }
    }
    const auto finished = SweepStore::open(file.path(), plan)->finished();
    for (size_t i = 0; i < plan.cells.size(); ++i)
        CHECK(finished.contains(plan.cells[i].id) == (i < 100 || i % writers != 0));
    sqlite::Database db(file.path(), sqlite::Open::read_only);
    CHECK(db.text("PRAGMA integrity_check") == "ok");
}

TEST_CASE("a claim excludes others until it goes or its process dies", "[study][sweep]") {
    const ScratchFile file("claims");
    const std::string lock = file.path().string() + ".lock";
    {
        const SweepClaims mine(file.path()), theirs(file.path());
        {
            const auto claim = mine.try_claim("run 1");
            REQUIRE(claim);
            CHECK_FALSE(theirs.try_claim("run 1"));
            CHECK(theirs.try_claim("run 2"));
        }
        CHECK(theirs.try_claim("run 1"));

        int ready[2];
        REQUIRE(pipe(ready) == 0);
        const pid_t child = fork();
        if (child == 0) {
            const SweepClaims claims(file.path());
            const auto claim = claims.try_claim("run 3");
            const char byte = claim ? 'y' : 'n';
            if (write(ready[1], &byte, 1) != 1) _exit(1);
            for (;;)
                pause();
        }
        char byte = 0;
        REQUIRE(read(ready[0], &byte, 1) == 1);
        CHECK(byte == 'y');
        CHECK_FALSE(mine.try_claim("run 3"));
        kill(child, SIGKILL);
        waitpid(child, nullptr, 0);
        CHECK(mine.try_claim("run 3"));
        close(ready[0]);
        close(ready[1]);
        CHECK(std::filesystem::exists(lock));
    }
    CHECK_FALSE(std::filesystem::exists(lock)); // the last one cleans up
}

TEST_CASE("merged shards give the table of the whole sweep, in any order and any number of times",
          "[study][sweep]") {
    const uint64_t seed = test::seed(GENERATE(range(0U, 4U)));
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    const SweepPlan plan = grid();
    const ScratchFile whole("whole"), a("a"), b("b"), c("c"), out("out"), again("again");
    const std::vector<std::filesystem::path> shards{a.path(), b.path(), c.path()};
    {
        const auto all = SweepStore::open(whole.path(), plan);
        std::vector<std::unique_ptr<SweepStore>> parts;
        for (const auto& shard : shards)
            parts.push_back(SweepStore::open(shard, plan));
        for (size_t i = 0; i < plan.cells.size(); ++i) {
            const SweepResult result = random_result(plan.cells[i].id, random);
            all->add(result);
            parts[i % 3]->add(result);
            if (random() % 3 == 0) parts[random() % 3]->add(result); // computed twice, equal
            for (int32_t pair = 0; pair < 5; ++pair) {
                const SweepTimingResult timing = timing_of(result.id, pair, random);
                all->add(timing);
                parts[i % 3]->add(timing);
            }
        }
    }
    CHECK(merge_sweeps(out.path(), {a.path(), b.path(), c.path()}).empty());
    CHECK(tables_of(out.path()) == tables_of(whole.path()));
    CHECK(merge_sweeps(out.path(), {b.path()}).empty());
    CHECK(merge_sweeps(out.path(), {out.path()}).empty());
    CHECK(tables_of(out.path()) == tables_of(whole.path()));
    CHECK(merge_sweeps(again.path(), {c.path(), a.path()}).empty());
    CHECK(tables_of(again.path()) != tables_of(whole.path()));
    CHECK(merge_sweeps(again.path(), {b.path()}).empty());
    CHECK(tables_of(again.path()) == tables_of(whole.path()));
    for (const auto& shard : shards)
        CHECK_FALSE(
            std::filesystem::exists(shard.string() + "-wal")); // nothing is left beside a file that was read
}

TEST_CASE("reading a sweep changes no byte, of a closed file nor of one whose writer was killed",
          "[study][sweep]") {
    const SweepPlan plan = grid({1, 2});
    const ScratchFile closed("read #1?%41"), live("read-live"), killed("read-killed");
    std::mt19937_64 random(12);
    const auto write = [&](SweepStore& store) {
        for (const SweepCell& cell : plan.cells)
            store.add(random_result(cell.id, random));
    };
    write(*SweepStore::open(closed.path(), plan));
    const auto writer = SweepStore::open(live.path(), plan);
    write(*writer);
    for (const char* suffix : {"", "-wal"}) // what a kill leaves behind
        std::filesystem::copy_file(live.path().string() + suffix, killed.path().string() + suffix);
    REQUIRE(std::filesystem::file_size(killed.path().string() + "-wal") > 0);
    const auto bytes_of = [](const std::filesystem::path& path) {
        return std::filesystem::exists(path) ? read_file(path) : std::string("missing");
    };
    for (const auto* file : {&closed, &killed, &live}) {
        INFO(file->path());
        const std::filesystem::path log = file->path().string() + "-wal";
        const std::string before = bytes_of(file->path()), log_before = bytes_of(log);
        const auto time = std::filesystem::last_write_time(file->path());
        CHECK(SweepStore::open_existing(file->path(), true)->finished().size() == plan.cells.size());
        CHECK(bytes_of(file->path()) == before);
        CHECK(bytes_of(log) == log_before);
        CHECK(std::filesystem::last_write_time(file->path()) == time);
    }
    CHECK_FALSE(std::filesystem::exists(closed.path().string() + "-shm"));

    // Somebody writes into a file that was closed when it was opened for reading.
    const auto reader = SweepStore::open_existing(closed.path(), true);
    CHECK_NOTHROW(reader->all_results());
    const auto late = SweepStore::open(closed.path(), plan);
    late->add_failure("x", "y");
    try {
        (void)reader->all_results();
        FAIL("a state in between was read");
    } catch (const Error& error) {
        CHECK(error.kind() == ErrorKind::failure);
        CHECK(std::string(error.what()).find("another program writes into it") != std::string::npos);
    }
    CHECK(SweepStore::open_existing(closed.path(), true)->failures().size() == 1);
}

TEST_CASE("of two measurements of one run the same one is kept whatever the order", "[study][sweep]") {
    const SweepPlan plan = grid({1, 2}, {{"timing", nullptr}}); // the table then shows the single runs' times
    const ScratchFile a("two-a"), b("two-b"), ab("two-ab"), ba("two-ba");
    std::mt19937_64 random(9);
    for (const auto* file : {&a, &b}) {
        const auto store = SweepStore::open(file->path(), plan);
        std::mt19937_64 same(10);
        for (const SweepCell& cell : plan.cells) {
            SweepResult result = random_result(cell.id, same);
            const double ttft = static_cast<double>(random() % 10'000);
            value_of(result.metrics, Metric::ttft_ms) = ttft;
            result.summary = json{{"ttft_ms", ttft}}.dump();
            store->add(result);
            store->add(timing_of(cell.id, 0, random));
        }
    }
    CHECK(merge_sweeps(ab.path(), {a.path(), b.path()}).empty());
    CHECK(merge_sweeps(ba.path(), {b.path(), a.path()}).empty());
    CHECK(tables_of(ab.path()) == tables_of(ba.path()));
    CHECK(tables_of(ab.path()) != tables_of(a.path()));
}

TEST_CASE("a run whose numbers were changed under its digest is named, and the first file's are kept",
          "[study][sweep]") {
    const ScratchFile a("changed-a"), b("changed-b"), ab("changed-ab"), ba("changed-ba");
    const SweepPlan plan = grid();
    for (const auto* file : {&a, &b}) {
        const auto store = SweepStore::open(file->path(), plan);
        std::mt19937_64 random(12);
        for (const SweepCell& cell : plan.cells) {
            SweepResult result = random_result(cell.id, random);
            value_of(result.metrics, Metric::teacher_ppl) = 3.0;
            if (file == &b && cell.id == plan.cells[3].id)
                value_of(result.metrics, Metric::teacher_ppl) = std::nextafter(3.0, 4.0); // the last bit
            store->add(result);
        }
    }
    const auto ppl_in = [&](const ScratchFile& file) {
        const auto results = SweepStore::open_existing(file.path(), true)->results();
        return value_of(results.runs.at(plan.cells[3].id), Metric::teacher_ppl).value();
    };
    const std::string said = merge_sweeps(ab.path(), {a.path(), b.path()});
    CHECK_THAT(said, ContainsSubstring("1 run has the same digest and other numbers") &&
                         ContainsSubstring("Teacher, prompt 1, seed 2") &&
                         ContainsSubstring(a.path().string() + " and " + b.path().string()));
    CHECK(said.find('\n') == std::string::npos);
    CHECK(ppl_in(ab) == 3.0);
    CHECK_FALSE(merge_sweeps(ba.path(), {b.path(), a.path()}).empty());
    CHECK(ppl_in(ba) == std::nextafter(3.0, 4.0));
}

TEST_CASE("what does not belong together is not merged, and nothing is lost", "[study][sweep]") {
    const ScratchFile a("not-a"), b("not-b"), out("not-out");
    std::mt19937_64 random(11);
    const SweepPlan plan = grid();
    const SweepResult result = random_result(plan.cells[3].id, random);
    SweepStore::open(a.path(), plan)->add(result);

    SweepResult different = result;
    different.digest = "other tokens";
    SweepStore::open(b.path(), plan)->add(different);
    const std::string conflict = error_of_merge(out.path(), {a.path(), b.path()});
    CHECK_THAT(conflict, ContainsSubstring("1 run has different results") &&
                             ContainsSubstring("Teacher, prompt 1, seed 2") &&
                             ContainsSubstring(b.path().filename().string()));
    CHECK_FALSE(std::filesystem::exists(out.path()));
    const std::string before = tables_of(a.path());
    CHECK_FALSE(error_of_merge(a.path(), {b.path()}).empty());
    CHECK(tables_of(a.path()) == before);

    const auto against = [&](const SweepPlan& other) {
        static_cast<void>(SweepStore::open(b.path(), other));
        return error_of_merge(out.path(), {a.path(), b.path()});
    };
    CHECK_THAT(against(grid({1, 3})), ContainsSubstring("different runs"));
    CHECK_THAT(against(grid({1, 2}, {{"prompts", {"a", "c"}}})), ContainsSubstring("different prompts"));
    CHECK_THAT(against(grid({1, 2}, {{"policies", {"none"}}})), ContainsSubstring("different rows"));
    CHECK_THAT(against(grid({1, 2}, {{"bootstrap", {{"seed", 4}}}})), ContainsSubstring("bootstrap"));
    SweepPlan cuda = plan;
    cuda.models.device = "cuda";
    CHECK_THAT(against(cuda), ContainsSubstring("made on cpu, the other on cuda"));
    CHECK_THAT(error_of_merge(out.path(), {}), ContainsSubstring("nothing to merge"));
    CHECK_THAT(error_of_merge(out.path(), {"gone.db"}), ContainsSubstring("no such file"));
}

namespace {

/// The grid as a machine computes it whose kernels are of this set; every run of it stands in the file.
SweepPlan computed_with(const std::string& kernels, const std::filesystem::path& file,
                        const std::string& shard = "1/1", uint64_t salt = 1) {
    const SweepPlan plan = grid({1, 2}, {{"base", {{"kernels", kernels}}}, {"timing", nullptr}});
    const auto store = SweepStore::open(file, plan);
    for (const size_t i : cells_of(plan, sweep_shard(shard))) {
        std::mt19937_64 random(salt + i);
        SweepResult result = random_result(plan.cells[i].id, random);
        result.summary = json{{"kernel_set", kernels}}.dump();
        store->add(result);
    }
    return plan;
}

} // namespace

TEST_CASE("shards of kernels that round differently are kept apart, and joined when asked",
          "[study][sweep]") {
    const ScratchFile a("kernels-a"), b("kernels-b"), out("kernels-out");
    const SweepPlan portable = computed_with("portable", a.path(), "1/2"),
                    reference = computed_with("reference", b.path(), "2/2");
    CHECK(portable.kernels == std::vector<std::string>{"portable"});
    CHECK(portable.runs == reference.runs);
    for (size_t i = 0; i < portable.cells.size(); ++i)
        CHECK(portable.cells[i].id != reference.cells[i].id);

    const std::string refused = error_of_merge(out.path(), {a.path(), b.path()});
    CHECK_THAT(refused, ContainsSubstring("kernel set portable") && ContainsSubstring("reference") &&
                            ContainsSubstring("round differently") && ContainsSubstring("--mixed-kernels"));
    CHECK_FALSE(std::filesystem::exists(out.path()));

    CHECK(merge_sweeps(out.path(), {a.path(), b.path()}, KernelMix::allow).empty());
    const auto store = SweepStore::open_existing(out.path(), true);
    const SweepTable table = make_sweep_table(store->plan(), store->results());
    CHECK(table.runs == table.expected);
    CHECK_THAT(sweep_markdown(table, TableColumns::deterministic),
               ContainsSubstring("kernels portable and reference (they round differently)"));
    // Each result is under the id that names its kernels: a sweep with one of the sets computes the other's share.
    const auto finished = store->finished();
    const auto missing = std::ranges::count_if(
        portable.cells, [&](const SweepCell& cell) { return !finished.contains(cell.id); });
    CHECK(missing == static_cast<int64_t>(portable.cells.size() / 2));
    // Once more changes nothing.
    const std::string before = tables_of(out.path());
    CHECK(merge_sweeps(out.path(), {b.path(), a.path()}, KernelMix::allow).empty());
    CHECK(tables_of(out.path()) == before);
}

TEST_CASE("of kernels that are mixed the first file's run counts", "[study][sweep]") {
    const ScratchFile a("first-a"), b("first-b"), out("first-out");
    computed_with("portable", a.path(), "1/1", 1);
    computed_with("reference", b.path(), "1/1", 1000);
    const auto csv = [](const std::filesystem::path& file) {
        const auto store = SweepStore::open_existing(file, true);
        return sweep_csv(make_sweep_table(store->plan(), store->results()), TableColumns::deterministic);
    };
    REQUIRE(csv(a.path()) != csv(b.path()));
    CHECK(merge_sweeps(out.path(), {b.path(), a.path()}, KernelMix::allow).empty());
    CHECK(csv(out.path()) == csv(b.path()));
}

TEST_CASE("another grid is no other kernel set, whatever is allowed", "[study][sweep]") {
    const ScratchFile a("grid-a"), b("grid-b"), out("grid-out");
    computed_with("portable", a.path());
    { (void)SweepStore::open(b.path(), grid({1, 3}, {{"timing", nullptr}})); }
    for (const KernelMix mix : {KernelMix::refuse, KernelMix::allow}) {
        std::string line;
        try {
            static_cast<void>(merge_sweeps(out.path(), {a.path(), b.path()}, mix));
        } catch (const Error& e) {
            line = e.what();
        }
        CHECK_THAT(line, ContainsSubstring("different runs") && ContainsSubstring("one spec"));
    }
}

TEST_CASE("files that do not say their kernels join each other, and others only when asked",
          "[study][sweep]") {
    if (!kernels::is_available(kernels::Isa::avx2)) SKIP("ids of such files are those of avx2");
    const ScratchFile old_a("silent-a"), old_b("silent-b"), named("named"), out("silent-out");
    // A file of a program that knew no kernel sets: no such keys, and results that do not speak of them.
    const auto make_old = [](const ScratchFile& file, const char* shard) {
        const SweepPlan plan = grid({1, 2}, {{"timing", nullptr}});
        {
            const auto store = SweepStore::open(file.path(), plan);
            for (const size_t i : cells_of(plan, sweep_shard(shard))) {
                std::mt19937_64 random(i);
                store->add(random_result(plan.cells[i].id, random));
            }
        }
        sqlite::Database(file.path(), sqlite::Open::read_write)
            .exec("DELETE FROM meta WHERE key IN ('kernels', 'runs')");
        return plan;
    };
    const SweepPlan plan = make_old(old_a, "1/2");
    make_old(old_b, "2/2");
    {
        const auto store = SweepStore::open_existing(old_a.path(), true);
        CHECK(store->plan().kernels.empty());
        CHECK(store->plan().runs == plan.runs);
        CHECK(store->kernel_sets() == std::vector<std::string>{""});
    }
    CHECK(merge_sweeps(out.path(), {old_a.path(), old_b.path()}).empty());
    CHECK(SweepStore::open_existing(out.path(), true)->finished().size() == plan.cells.size());

    computed_with("avx2", named.path());
    const std::string refused = error_of_merge(out.path(), {named.path()});
    CHECK_THAT(refused, ContainsSubstring("do not say with which kernel set") && ContainsSubstring("avx2") &&
                            ContainsSubstring("--mixed-kernels"));
    // The sweep itself goes on in such a file: what it finds counts.
    CHECK(SweepStore::open(out.path(), plan)->finished().size() == plan.cells.size());
}

} // namespace sweep_store_test
