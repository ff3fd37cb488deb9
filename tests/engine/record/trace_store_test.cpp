#include "engine/base/error.h"
#include "engine/record/trace/sqlite.h"
#include "engine/record/trace/trace_store.h"
#include "tests/engine/record/random_recording.h"
#include "tests/support/seed.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <fmt/format.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <thread>

namespace trace_store_test {

using namespace refreshlab;
using namespace refreshlab::test;
using Catch::Matchers::ContainsSubstring;

namespace {

void check_equal(const Recording& loaded, const Recording& original) {
    const auto difference = first_difference(loaded, original);
    INFO(difference.value_or("no difference"));
    REQUIRE_FALSE(difference);
    // What first_difference leaves out.
    const RunInfo& a = loaded.info();
    const RunInfo& b = original.info();
    CHECK(a.id == b.id);
    CHECK(a.parent_id == b.parent_id);
    CHECK(a.fork_step == b.fork_step);
    CHECK(a.config == b.config);
    CHECK(a.ttft_ms == b.ttft_ms);
    CHECK(a.prefill_ms == b.prefill_ms);
    CHECK(a.device == b.device);
    CHECK(a.dtype == b.dtype);
    CHECK(a.threads == b.threads);
    CHECK(a.started_at == b.started_at);
    CHECK(a.versions == b.versions);
    CHECK(a.note == b.note);
    CHECK(a.text_rule == b.text_rule);
    CHECK(a.kernel_set == b.kernel_set);
    CHECK(a.rebuild == b.rebuild);
    CHECK(a.published_signals == b.published_signals);
    CHECK(a.has_cache_events == b.has_cache_events);
    REQUIRE(loaded.signals().size() == original.signals().size());
    for (size_t id = 0; id < original.signals().size(); ++id) {
        CHECK(loaded.signals()[id].name == original.signals()[id].name);
        CHECK(loaded.knows_signal(id) == original.knows_signal(id));
    }
    REQUIRE(loaded.layer_rows().size() == original.layer_rows().size());
    REQUIRE(loaded.cache_entries().size() == original.cache_entries().size());
    CHECK(loaded.token_ids() == original.token_ids());
    for (int64_t t = 1; t <= original.steps(); ++t) {
        REQUIRE(loaded.step(t).arrival_ms == original.step(t).arrival_ms);
        REQUIRE(loaded.step(t).part_ms == original.step(t).part_ms);
    }
    for (size_t i = 0; i < original.refreshes().size(); ++i) {
        REQUIRE(loaded.refreshes()[i].teacher_ms == original.refreshes()[i].teacher_ms);
        REQUIRE(loaded.refreshes()[i].splice_ms == original.refreshes()[i].splice_ms);
    }
    if (original.end()) CHECK(loaded.end()->total_ms == original.end()->total_ms);
    for (const int32_t id : original.token_ids()) {
        REQUIRE(loaded.tokens().token_bytes(id) == original.tokens().token_bytes(id));
        REQUIRE(loaded.tokens().is_special(id) == original.tokens().is_special(id));
    }
}

/// Runs `work` in a child process. \return its wait status
template <class Work>
int in_child(Work work) {
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        work();
        _exit(3); // work ends the process itself
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    return status;
}

} // namespace

TEST_CASE("a saved recording comes back the same, bit for bit", "[record]") {
    const uint64_t seed = test::seed(1);
    INFO("seed " << seed);
    TemporaryFolder folder;
    for (uint64_t i = 0; i < 8; ++i) {
        Grower grower(seed + i);
        const auto recording = grower.start();
        grower.grow(*recording, static_cast<int64_t>(i * i));
        if (i % 3 != 0) grower.finish(*recording, i % 3 == 1);
        const auto file = folder / "run.trace";
        save_trace(file, recording);
        CHECK(folder.files() == std::vector<std::string>{"run.trace"});
        const auto loaded = load_trace(file);
        REQUIRE(loaded.size() == 1);
        check_equal(*loaded[0], *recording);
        // What was known when is kept too: forks of both agree everywhere.
        for (int64_t k = 0; k <= recording->steps(); k += 3) {
            const auto difference = first_difference(*loaded[0]->fork(k, "x"), *recording->fork(k, "x"));
            INFO("fork " << k << ": " << difference.value_or("no difference"));
            REQUIRE_FALSE(difference);
        }
    }
}

TEST_CASE("a store follows a run and its branches, and leaves one file", "[record]") {
    const uint64_t seed = test::seed(2);
    INFO("seed " << seed);
    TemporaryFolder folder;
    const auto file = folder / "live.trace";
    Grower grower(seed);
    grower.attention =
        false; // a fork shares rows that its parent gets afterwards only in memory order; see below
    const auto root = grower.start();
    std::vector<std::shared_ptr<Recording>> all{root};
    {
        const auto store = TraceStore::create(file);
        store->attach(root);
        for (int i = 0; i < 40; ++i) {
            grower.grow(*root, 1);
            store->notify();
        }
        for (const int64_t k : {int64_t{25}, int64_t{40}, int64_t{0}, int64_t{12}}) {
            const auto& parent = all[all.size() / 2]; // branches of branches as well
            const int64_t step = std::min(k, parent->steps());
            all.push_back(parent->fork(step, "branch" + std::to_string(all.size())));
            store->attach(all.back());
            for (int i = 0; i < 10; ++i) {
                grower.grow(*all.back(), 1);
                store->notify();
            }
            // A live file can be read at any time.
            store->flush();
            REQUIRE(store->error().empty());
            const auto live = load_trace(file);
            REQUIRE(live.size() == all.size());
            check_equal(*live.back(), *all.back());
        }
        grower.finish(*all.back());
    }
    CHECK(folder.files() == std::vector<std::string>{"live.trace"});
    const auto loaded = load_trace(file);
    REQUIRE(loaded.size() == all.size());
    for (size_t i = 0; i < all.size(); ++i) {
        INFO("run " << i);
        check_equal(*loaded[i], *all[i]);
    }
    // Shared steps are in the file once.
    sqlite::Database db(file, sqlite::Open::read_only);
    int64_t own = 0;
    for (const auto& run : all)
        own += run->steps() - run->info().fork_step;
    CHECK(db.integer("SELECT count(*) FROM steps") == own);
}

TEST_CASE("runs that are saved together share their steps, whichever recording a branch left", "[record]") {
    TemporaryFolder folder;
    Grower grower(test::seed(15));
    const auto root = grower.start();
    grower.grow(*root, 40);
    const auto branch = root->fork(25, "branch");
    grower.grow(*branch, 12);
    const auto twig = branch->fork(30, "twig");
    grower.grow(*twig, 5);
    const auto on = root->fork(40, "on"); // the same run, as another recording
    grower.grow(*on, 9);
    // `root` is gone from memory: its branch is one of `on`.
    const std::vector<SavedRun> runs = {
        {on, {}, 0}, {branch, "on", 25}, {twig, {}, 0}, {root->fork(8, "early"), "branch", 6}};
    const auto file = folder / "tree.rlt";
    REQUIRE(save_traces(file, runs));
    const auto loaded = load_trace(file);
    REQUIRE(loaded.size() == runs.size());
    for (size_t i = 0; i < runs.size(); ++i) {
        const Recording &have = *loaded[i], &want = *runs[i].recording;
        INFO("run " << want.info().id << ": " << first_difference(have, want).value_or("no difference"));
        CHECK_FALSE(first_difference(have, want));
        CHECK(have.info().id == want.info().id);
        CHECK(have.steps() == want.steps());
    }
    CHECK(loaded[0]->info().parent_id == root->info().id);
    CHECK(loaded[1]->info().parent_id == "on");
    CHECK(loaded[1]->info().fork_step == 25);
    CHECK(loaded[2]->info().parent_id == "branch");
    CHECK(loaded[3]->info().parent_id == "branch"); // complete by itself: its fork is not the recording's own
    CHECK(loaded[3]->info().fork_step == 6);
    sqlite::Database db(file, sqlite::Open::read_only);
    CHECK(db.integer("SELECT count(*) FROM steps") == 49 + 12 + 5 + 8);
    // What is cancelled leaves what was there.
    const std::atomic<bool> cancelled{true};
    CHECK_FALSE(save_traces(file, runs, &cancelled));
    CHECK(load_trace(file).size() == runs.size());
}

TEST_CASE("a branch of a trace that was read stores its own steps, with words that the trace lacks",
          "[record]") {
    TemporaryFolder folder;
    const uint64_t number = test::seed(151);
    Grower first(number);
    const auto root = first.start();
    first.grow(*root, 40);
    const auto file = folder / "read.rlt";
    REQUIRE(save_trace(file, root));
    const auto read = load_trace(file).at(0);
    // The same steps as other objects: the run was made again.
    Grower second(number);
    const auto again = second.start();
    second.grow(*again, 40);
    REQUIRE_FALSE(first_difference(*again, *read));
    RunInfo info = again->info();
    info.id = "branch";
    info.config.max_tokens = 999;
    info.device = "cuda:7";
    second.attention = false;
    const auto made = again->fork_as(25, info, again->token_table()),
               fork = read->fork_as(25, info, again->token_table());
    second.grow(*made, 30);
    second.grow(*fork, 8);
    CHECK(fork->info().parent_id == root->info().id);
    CHECK(made->info().fork_step == 25);
    for (const auto& branch : {made, fork}) {
        REQUIRE(save_traces(file, std::vector<SavedRun>{{read, {}, 0}, {branch, {}, 0}}));
        const auto loaded = load_trace(file);
        REQUIRE(loaded.size() == 2);
        CHECK_FALSE(first_difference(*loaded[0], *root));
        CHECK_FALSE(first_difference(*loaded[1], *branch));
        CHECK(loaded[1]->info().config.max_tokens == 999);
        CHECK(loaded[1]->info().device == "cuda:7");
        CHECK(loaded[0]->info().config.max_tokens == root->info().config.max_tokens);
        for (const int32_t id : loaded[1]->token_ids())
            CHECK(loaded[1]->tokens().token_bytes(id) == again->tokens().token_bytes(id));
        sqlite::Database db(file, sqlite::Open::read_only);
        CHECK(db.integer("SELECT count(*) FROM steps WHERE run = 2") == branch->steps() - 25);
        CHECK(db.integer("SELECT count(*) FROM attention WHERE run = 2") == 0);
        CHECK(db.integer("SELECT count(DISTINCT vocabulary) FROM tokens") == 1);
    }
    // A run of other numbers under its name is no part of it: the branch keeps its own steps.
    Grower stranger(number + 1);
    const auto other = stranger.start();
    stranger.grow(*other, 30);
    const auto odd = other->fork(25, "odd");
    REQUIRE(save_traces(file, std::vector<SavedRun>{{read, {}, 0}, {odd, read->info().id, 25}}));
    const auto loaded = load_trace(file);
    CHECK_FALSE(first_difference(*loaded.at(1), *odd));
    CHECK(loaded[1]->info().parent_id == read->info().id);
    CHECK(
        sqlite::Database(file, sqlite::Open::read_only).integer("SELECT count(*) FROM steps WHERE run = 2") ==
        25);
}

TEST_CASE("a trace takes the place of another as a whole or not at all", "[record]") {
    TemporaryFolder folder;
    Grower grower(test::seed(152));
    const auto one = grower.start(), two = grower.start();
    grower.grow(*one, 6);
    grower.grow(*two, 9);
    const auto file = folder / "run.rlt", made = folder / "made.rlt";
    const auto id_at = [](const std::filesystem::path& path) { return load_trace(path).at(0)->info().id; };
    const auto refused = [&](const char* part) {
        try {
            replace_trace(file, made);
            FAIL_CHECK("nothing was refused");
        } catch (const Error& e) {
            CHECK_THAT(e.what(), ContainsSubstring(part));
        }
    };
    REQUIRE(save_trace(file, one));
    std::filesystem::permissions(file, std::filesystem::perms{0640});
    refused("no such file");
    CHECK(id_at(file) == one->info().id);
    { std::ofstream(made) << "no trace at all, but some text"; }
    refused("not a RefreshLab trace");
    CHECK(id_at(file) == one->info().id);
    std::filesystem::remove(made);
    REQUIRE(save_trace(made, two));
    {
        const auto store = TraceStore::create(folder / "live.rlt");
        store->attach(one);
        store->flush();
        CHECK_THROWS_AS(replace_trace(folder / "live.rlt", made), Error); // somebody records into it
    }
    CHECK(id_at(made) == two->info().id);
    replace_trace(file, made);
    CHECK(id_at(file) == two->info().id);
    CHECK(std::filesystem::status(file).permissions() == std::filesystem::perms{0640});
    CHECK(folder.files() == std::vector<std::string>{"live.rlt", "run.rlt"});
}

TEST_CASE("attention in the file is what memory holds, for branches too", "[record]") {
    TemporaryFolder folder;
    const auto file = folder / "attention.trace";
    Grower grower(11);
    const auto root = grower.start(1);
    const auto add = [](Recording& r, int64_t t, bool teacher) {
        auto rows = std::make_shared<AttentionRows>();
        rows->position = r.prompt_length() + t - 1;
        rows->step = t;
        rows->teacher = teacher;
        rows->heads = 100;
        rows->keys = rows->position + 1;
        rows->layers = {0, 1, 2};
        rows->weights.assign(static_cast<size_t>(3 * 100 * rows->keys), static_cast<uint16_t>(t));
        r.add_attention(std::move(rows));
    };
    const auto decode = [&](Recording& r, TraceStore& store, int64_t steps) {
        grower.attention = false;
        for (int64_t i = 0; i < steps; ++i) {
            grower.grow(r, 1);
            add(r, r.steps(), false);
            if (r.steps() % 4 == 0) add(r, r.steps(), true);
            store.notify();
        }
    };
    std::shared_ptr<Recording> branch;
    {
        const auto store = TraceStore::create(file);
        store->attach(root);
        decode(*root, *store, 60);
        branch = root->fork(50, "branch");
        store->attach(branch);
        decode(*branch, *store, 45); // enough to drop what it shares with its parent
        store->flush();
        REQUIRE(store->error().empty());
    }
    REQUIRE_FALSE(root->attention(root->prompt_length(), false)); // the limit was felt
    REQUIRE_FALSE(branch->attention_rows().empty());
    const auto loaded = load_trace(file);
    REQUIRE(loaded.size() == 2);
    check_equal(*loaded[0], *root);
    check_equal(*loaded[1], *branch);
    const auto alone = folder / "branch.trace"; // a branch saved without its parent is complete
    save_trace(alone, branch);
    check_equal(*load_trace(alone).at(0), *branch);
}

TEST_CASE("a back-fill that comes after its step was written is in the file", "[record]") {
    TemporaryFolder folder;
    Grower grower(12);
    const auto recording = grower.start();
    grower.grow(*recording, 5);
    const auto store = TraceStore::create(folder / "fill.trace");
    store->attach(recording);
    store->flush();
    const size_t id = *signal_id("kl_nats");
    const float values[] = {0.5F, 0.25F};
    recording->back_fill(id, 2, values);
    store->flush();
    const auto loaded = load_trace(folder / "fill.trace");
    CHECK(loaded[0]->signal(2, id) == 0.5F);
    CHECK(loaded[0]->signal(3, id) == 0.25F);
}

TEST_CASE("runs with different vocabularies keep their own tokens", "[record]") {
    struct Other final : TokenTable {
        [[nodiscard]] std::string_view token_bytes(int32_t) const override { return "other"; }
        [[nodiscard]] bool is_special(int32_t) const override { return true; }
    };
    TemporaryFolder folder;
    Grower grower(13);
    const auto first = grower.start();
    RunInfo info = first->info();
    info.id = "second";
    const auto second = std::make_shared<Recording>(info, std::make_shared<Other>());
    {
        const auto store = TraceStore::create(folder / "two.trace");
        store->attach(first);
        store->attach(second);
    }
    const auto loaded = load_trace(folder / "two.trace");
    REQUIRE(loaded.size() == 2);
    check_equal(*loaded[0], *first);
    CHECK(loaded[1]->tokens().token_bytes(info.first_token) == "other");
    CHECK(loaded[1]->tokens().is_special(info.first_token));
    CHECK(loaded[0]->tokens().token_bytes(vocab + 1).empty());
}

TEST_CASE("a killed process leaves a readable trace without the step in flight at most", "[record]") {
    const uint64_t seed = test::seed(3);
    INFO("seed " << seed);
    TemporaryFolder folder;
    const auto file = folder / "killed.trace";
    constexpr int64_t flushed = 30;
    const int status = in_child([&] {
        Grower grower(seed);
        const auto recording = grower.start();
        const auto store = TraceStore::create(file);
        store->attach(recording);
        for (int64_t t = 0; t < flushed; ++t) {
            grower.grow(*recording, 1);
            store->notify();
        }
        store->flush();
        grower.grow(*recording, 1);
        store->notify();
        kill(getpid(), SIGKILL);
    });
    REQUIRE(WIFSIGNALED(status));
    REQUIRE(WTERMSIG(status) == SIGKILL);
    const auto loaded = load_trace(file);
    REQUIRE(loaded.size() == 1);
    REQUIRE(loaded[0]->steps() >= flushed);
    REQUIRE(loaded[0]->steps() <= flushed + 1);
    Grower again(seed);
    const auto expected = again.start();
    again.grow(*expected, loaded[0]->steps());
    check_equal(*loaded[0], *expected);
    // The next recording may take its place, once there is one.
    { const auto without_a_run = TraceStore::create(file); }
    CHECK(load_trace(file).at(0)->steps() == loaded[0]->steps());
    {
        const auto store = TraceStore::create(file);
        CHECK(load_trace(file).size() == 1); // a start that fails from here on has lost nothing
        store->attach(Grower(5).start());
    }
    CHECK(load_trace(file).at(0)->steps() == 0);
}

TEST_CASE("a store that got no run leaves no file", "[record]") {
    TemporaryFolder folder;
    {
        const auto store = TraceStore::create(folder / "none.trace");
        store->notify();
        store->flush();
        CHECK(store->error().empty());
    }
    CHECK(folder.files().empty());
}

TEST_CASE("a full disk stops writing with a message and not the decode", "[record]") {
    TemporaryFolder folder;
    const auto file = folder / "full.trace";
    const int status = in_child([&] { // the limit on file sizes is the process's
        signal(SIGXFSZ, SIG_IGN);
        Grower grower(14);
        const auto recording = grower.start();
        const auto store = TraceStore::create(file);
        store->attach(recording);
        grower.grow(*recording, 2);
        store->flush();
        if (!store->error().empty()) _exit(10);
        const rlimit limit{400 * 1024, RLIM_INFINITY};
        if (setrlimit(RLIMIT_FSIZE, &limit) != 0) _exit(11);
        for (int i = 0; i < 200 && store->error().empty(); ++i) {
            grower.grow(*recording, 10);
            store->flush();
        }
        if (store->error().find(file.string()) == std::string::npos) _exit(12);
        const int64_t steps = recording->steps();
        grower.grow(*recording, 10);
        store->notify();
        store->attach(grower.start());
        store->flush(); // returns although nothing is written
        _exit(recording->steps() == steps + 10 ? 0 : 13);
    });
    REQUIRE(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);
    const auto loaded = load_trace(file); // what came before is whole
    REQUIRE(loaded.size() == 1);
    CHECK(loaded[0]->steps() >= 2);
    Grower again(14);
    const auto expected = again.start();
    again.grow(*expected, 2);
    while (expected->steps() < loaded[0]->steps())
        again.grow(*expected, 10);
    CHECK(first_difference(*loaded[0], *expected) == std::nullopt);
}

TEST_CASE("a locked file stops writing with a message and not the decode", "[record]") {
    TemporaryFolder folder;
    const auto file = folder / "locked.trace";
    Grower grower(15);
    const auto recording = grower.start();
    const auto store = TraceStore::create(file);
    store->attach(recording);
    grower.grow(*recording, 3);
    store->flush();
    REQUIRE(store->error().empty());
    {
        sqlite::Database other(file, sqlite::Open::read_write);
        other.exec("BEGIN EXCLUSIVE");
        grower.grow(*recording, 3);
        store->flush();
        CHECK_THAT(store->error(), ContainsSubstring("locked") && ContainsSubstring(file.string()));
        other.exec("ROLLBACK");
    }
    CHECK(load_trace(file).at(0)->steps() == 3);
    CHECK(recording->steps() == 6);
}

TEST_CASE("what a store says is written can be read at once, also beside a locked file", "[record]") {
    using std::chrono::seconds;
    TemporaryFolder folder;
    const auto file = folder / "growing.trace";
    Grower grower(16);
    const auto recording = grower.start();
    const auto store = TraceStore::create(file);
    CHECK(store->steps_written() == -1); // nothing is attached
    store->attach(recording);
    CHECK(store->steps_written(seconds{60}) == 0);
    CHECK(load_trace(file).at(0)->info().first_token == recording->info().first_token);
    for (const int64_t more : {1, 4, 20}) {
        grower.grow(*recording, more);
        store->notify();
        CHECK(store->steps_written(seconds{60}) == recording->steps());
        CHECK(load_trace(file).at(0)->steps() == recording->steps());
    }
    const auto second = grower.start(); // a run that comes later begins anew
    {
        sqlite::Database other(file, sqlite::Open::read_write);
        other.exec("BEGIN EXCLUSIVE");
        store->attach(second);
        CHECK(store->steps_written() == -1); // and asking does not wait for the lock
        other.exec("ROLLBACK");
    }
    CHECK(store->steps_written(seconds{60}) == 0);
    CHECK(store->error().empty());
}

TEST_CASE("what is told while the writer rests is written without anybody waiting for it", "[record]") {
    TemporaryFolder folder;
    Grower grower(17);
    const auto recording = grower.start();
    const auto store = TraceStore::create(folder / "resting.trace");
    store->attach(recording);
    for (int round = 0; round < 8; ++round) {
        grower.grow(*recording, 1);
        store->notify(); // mostly in a rest: the round before has just ended
        const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds{60};
        while (store->steps_written() < recording->steps() && std::chrono::steady_clock::now() < deadline)
            std::this_thread::sleep_for(std::chrono::milliseconds{1});
        REQUIRE(store->steps_written() == recording->steps());
    }
    CHECK(store->error().empty());
}

TEST_CASE("of programs that create one trace at the same time one wins, and the others say so", "[record]") {
    TemporaryFolder folder;
    constexpr int programs = 6, rounds = 15;
    for (int round = 0; round < rounds; ++round) {
        INFO("round " << round);
        const auto file = folder / fmt::format("{}.trace", round);
        if (round % 2 == 1) save_trace(file, Grower(17).start()); // replaced
        int start[2], finished[2], leave[2];
        REQUIRE((pipe(start) == 0 && pipe(finished) == 0 && pipe(leave) == 0));
        std::vector<pid_t> children;
        for (int i = 0; i < programs; ++i) {
            const pid_t child = fork();
            if (child == 0) {
                char byte = 0;
                close(start[1]);
                close(leave[1]);
                (void)!read(start[0], &byte, 1); // until the parent closes its end
                int status = 2;
                const auto in_use = [](const std::string& said) {
                    return said.find("another program is using this trace") != std::string::npos;
                };
                std::unique_ptr<TraceStore> store;
                try {
                    store = TraceStore::create(file);
                    Grower grower(18);
                    const auto recording = grower.start();
                    grower.grow(*recording, 3);
                    store->attach(recording);
                    store->flush();
                    status = store->error().empty()   ? 0
                             : in_use(store->error()) ? 1
                                                      : 3; // an old one was there
                } catch (const Error& e) {
                    if (in_use(e.what())) status = 1;
                }
                (void)!write(finished[1], "x", 1);
                (void)!read(leave[0], &byte, 1); // whoever won keeps the file open until all have tried
                store.reset();
                _exit(status);
            }
            children.push_back(child);
        }
        close(start[0]);
        close(start[1]);
        char bytes[programs];
        for (int i = 0; i < programs; ++i)
            REQUIRE(read(finished[0], bytes + i, 1) == 1);
        for (const int end : {leave[0], leave[1], finished[0], finished[1]})
            close(end);
        int won = 0, refused = 0;
        for (const pid_t child : children) {
            int status = 0;
            waitpid(child, &status, 0);
            REQUIRE(WIFEXITED(status));
            won += WEXITSTATUS(status) == 0 ? 1 : 0;
            refused += WEXITSTATUS(status) == 1 ? 1 : 0;
        }
        CHECK(won == 1);
        CHECK(refused == programs - 1);
        const auto loaded = load_trace(file);
        REQUIRE(loaded.size() == 1);
        CHECK(loaded[0]->steps() == 3);
    }
}

TEST_CASE("a trace is created only where it harms nothing", "[record]") {
    TemporaryFolder folder;
    const auto fails = [](const std::filesystem::path& path, const char* part, bool overwrite = true) {
        try {
            (void)TraceStore::create(path, overwrite);
            FAIL("no error for " << path);
        } catch (const Error& e) {
            CHECK(e.kind() == ErrorKind::bad_input);
            CHECK_THAT(e.what(), ContainsSubstring(part) && ContainsSubstring(path.string()));
            CHECK(std::string(e.what()).find('\n') == std::string::npos);
        }
    };
    fails(folder / "no/such/folder.trace", "unable to open");
    fails(folder.path(), "folder");
    fails("/dev/full", "not a regular file");
    const auto text = folder / "notes.txt";
    std::ofstream(text) << "not a trace, and longer than the header of one: " << std::string(200, 'x');
    fails(text, "not a RefreshLab trace");
    const auto foreign = folder / "foreign.db";
    sqlite::Database(foreign, sqlite::Open::create).exec("CREATE TABLE precious (x)");
    fails(foreign, "not a RefreshLab trace");
    CHECK(sqlite::Database(foreign, sqlite::Open::read_only).integer("SELECT count(*) FROM precious") == 0);

    const auto file = folder / "ours.trace";
    std::ofstream(file).close(); // an empty file is free to take
    {
        const auto store = TraceStore::create(file);
        fails(file, "another program is using");
        fails(file, "exists already", false);
        store->attach(Grower(15).start());
    }
    fails(file, "exists already", false);
    Grower grower(16);
    const auto recording = grower.start();
    grower.grow(*recording, 3);
    save_trace(file, recording);
    CHECK(load_trace(file).size() == 1);
    CHECK_THROWS_AS(save_trace(text, recording), Error);
    CHECK_THROWS_AS(save_trace(folder / "no/such/folder.trace", recording), Error);
    CHECK_NOTHROW(TraceStore::create(file));
    CHECK(load_trace(file).size() == 1);
    CHECK(folder.files() == std::vector<std::string>{"foreign.db", "notes.txt", "ours.trace"});
}

} // namespace trace_store_test
