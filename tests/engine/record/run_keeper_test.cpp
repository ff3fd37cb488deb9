// What a window keeps of its session while it is open, and what a kill leaves of it.
#include "engine/base/error.h"
#include "engine/base/json_file.h"
#include "engine/record/keep/run_keeper.h"
#include "engine/record/keep/session_folder.h"
#include "engine/record/notes/run_notes.h"
#include "engine/record/trace/trace_store.h"
#include "tests/engine/record/random_recording.h"
#include "tests/support/seed.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <random>
#include <vector>

namespace run_keeper_test {

using namespace refreshlab;
using namespace refreshlab::test;
using Catch::Matchers::ContainsSubstring;
namespace fs = std::filesystem;

namespace {

constexpr int64_t plenty = int64_t{1} << 40;

void check_same(const Recording& kept, const Recording& original) {
    const auto difference = first_difference(kept, original);
    INFO(difference.value_or("no difference"));
    CHECK_FALSE(difference);
}

} // namespace

TEST_CASE("a run and its branches are kept in one file, another run in the next", "[record][keep]") {
    const TemporaryFolder folder;
    Grower grower(test::seed(7101));
    const auto first = grower.start();
    RunKeeper keeper(folder.path(), plenty);
    keeper.watch(first); // nothing to keep yet
    keeper.flush();
    CHECK(folder.files().empty());
    grower.grow(*first, 20);
    keeper.watch(first);
    keeper.flush();
    CHECK(load_trace(folder / "runs-1.rlt").back()->steps() == 20);
    grower.grow(*first, 5);
    const auto branch = first->fork(12, "branch");
    Grower other(test::seed(7102));
    branch->append(first->step(13), first->layers(13));
    keeper.watch(branch);
    keeper.flush();
    const auto family = load_trace(folder / "runs-1.rlt");
    REQUIRE(family.size() == 2);
    check_same(*family[0], *first); // also its last steps, which nobody pointed at
    check_same(*family[1], *branch);
    CHECK(keeper.files() == std::map<std::string, std::string, std::less<>>{{first->info().id, "runs-1.rlt"},
                                                                            {"branch", "runs-1.rlt"}});
    const auto second = other.start();
    other.grow(*second, 3);
    keeper.watch(second);
    keeper.flush();
    CHECK(load_trace(folder / "runs-2.rlt").back()->steps() == 3);
    // A note to a run that another one has replaced.
    branch->notes()->add({.first_step = 13, .last_step = 13, .text = "looked at again", .made_at = {}});
    keeper.flush();
    CHECK(load_trace(folder / "runs-1.rlt").back()->notes()->own() == branch->notes()->own());
    CHECK(keeper.news().empty());
}

TEST_CASE("over its limit a keeper drops the oldest run, and a run that is too large alone ends early; both "
          "are said",
          "[record][keep]") {
    const TemporaryFolder folder;
    RunKeeper keeper(folder.path(), plenty);
    const auto grown = [&](uint64_t seed, int64_t steps) {
        Grower grower(test::seed(seed));
        auto run = grower.start();
        grower.grow(*run, steps);
        keeper.watch(run);
        keeper.flush();
        return run;
    };
    (void)grown(7111, 60);
    (void)grown(7112, 60);
    const int64_t two = keeper.bytes();
    REQUIRE(two > 0);
    CHECK(folder.files() ==
          std::vector<std::string>{"runs-1.rlt", "runs-2.rlt", "runs-2.rlt-shm", "runs-2.rlt-wal"});
    keeper.set_limit(two);
    keeper.flush();
    CHECK(keeper.news().empty()); // exactly at it is within
    Grower grower(test::seed(7113));
    const auto third = grower.start();
    grower.grow(*third, 60);
    keeper.watch(third);
    keeper.flush();
    CHECK_FALSE(fs::exists(folder / "runs-1.rlt"));
    CHECK(fs::exists(folder / "runs-3.rlt"));
    auto news = keeper.news();
    REQUIRE_FALSE(news.empty());
    CHECK_THAT(news[0], ContainsSubstring("dropped the oldest run"));

    keeper.set_limit(4096); // less than any trace
    keeper.flush();
    news = keeper.news();
    REQUIRE_FALSE(news.empty());
    CHECK_THAT(news.back(), ContainsSubstring("keeps the first 60 steps of this run"));
    CHECK_FALSE(fs::exists(folder / "runs-2.rlt"));
    grower.grow(*third, 10);
    keeper.watch(third);
    keeper.flush();
    const auto kept = load_trace(folder / "runs-3.rlt");
    Grower again(test::seed(7113));
    const auto first_steps = again.start();
    again.grow(*first_steps, 60);
    check_same(*kept.back(), *first_steps);
    CHECK(keeper.news().empty()); // said once
    // A branch of it does not end where the run has ended: it has a file of its own, and the oldest goes again.
    const auto branch = third->fork(65, "branch");
    keeper.watch(branch);
    keeper.flush();
    CHECK_FALSE(fs::exists(folder / "runs-3.rlt"));
    check_same(*load_trace(folder / "runs-4.rlt").back(), *branch);
    CHECK(keeper.files() == std::map<std::string, std::string, std::less<>>{{"branch", "runs-4.rlt"}});
}

TEST_CASE("a limit of nothing keeps no run", "[record][keep]") {
    const TemporaryFolder folder;
    Grower grower(test::seed(7121));
    const auto run = grower.start();
    grower.grow(*run, 10);
    RunKeeper keeper(folder.path(), 0);
    keeper.watch(run);
    keeper.write("session.rlw", "{}");
    keeper.flush();
    CHECK(folder.files() == std::vector<std::string>{"session.rlw"});
    CHECK(keeper.files().empty());
}

TEST_CASE("a folder that cannot be written is said once, and the decode goes on", "[record][keep]") {
    const TemporaryFolder folder;
    Grower grower(test::seed(7131));
    const auto run = grower.start();
    grower.grow(*run, 4);
    RunKeeper keeper(folder / "not-there", plenty);
    for (int i = 0; i < 3; ++i) {
        grower.grow(*run, 1);
        keeper.watch(run);
        keeper.flush();
    }
    const auto news = keeper.news();
    REQUIRE(news.size() == 1);
    CHECK_THAT(news[0], ContainsSubstring("Autosave keeps nothing of this run"));
}

TEST_CASE("a kill at any moment leaves whole files with every step that a round has written",
          "[record][keep]") {
    // The child tells by a pipe how many steps are flushed; the kill comes at a random one, amid further rounds.
    std::mt19937_64 random(test::seed(7141));
    for (int round = 0; round < 6; ++round) {
        const TemporaryFolder folder;
        const uint64_t seed = random();
        const int64_t at = std::uniform_int_distribution<int64_t>(1, 40)(random);
        CAPTURE(round, seed, at);
        int ends[2] = {-1, -1};
        REQUIRE(pipe(ends) == 0);
        const pid_t child = fork();
        if (child == 0) {
            close(ends[0]);
            const auto session = SessionFolder::create(folder.path());
            RunKeeper keeper(session->path(), plenty);
            Grower grower(seed);
            grower.attention = false; // rows of the step in flight may be there already
            const auto run = grower.start();
            for (int64_t step = 1; step <= 400; ++step) {
                grower.grow(*run, 1);
                keeper.watch(run);
                if (step % 3 == 0) keeper.flush();
                const auto told = static_cast<unsigned char>(step % 3 == 0 ? 1 : 0);
                if (write(ends[1], &told, 1) != 1) _exit(1);
            }
            pause(); // it never comes to its end by itself
            _exit(1);
        }
        close(ends[1]);
        int64_t made = 0, flushed = 0;
        unsigned char told = 0;
        while (made < at && read(ends[0], &told, 1) == 1) {
            ++made;
            if (told != 0) flushed = made;
        }
        CHECK(take_left_sessions(folder.path()).empty()); // it lives: nobody takes it
        kill(child, SIGKILL);
        int status = 0;
        waitpid(child, &status, 0);
        close(ends[0]);
        REQUIRE(WIFSIGNALED(status));
        REQUIRE(made == at);

        auto left = take_left_sessions(folder.path());
        if (flushed == 0 && left.empty()) continue; // not even its first round had begun
        REQUIRE(left.size() == 1);
        const auto traces = left[0]->traces();
        if (flushed == 0 && traces.empty()) continue;
        REQUIRE(traces.size() == 1);
        const auto runs = load_trace(traces[0]);
        if (flushed == 0 && runs.empty()) continue;
        REQUIRE(runs.size() == 1);
        CHECK(runs[0]->steps() >= flushed);
        // Step for step what the same run is without a kill.
        Grower again(seed);
        again.attention = false;
        const auto whole = again.start();
        again.grow(*whole, runs[0]->steps());
        check_same(*runs[0], *whole);
    }
}

TEST_CASE("a session's folder is locked while its process lives, found when it was left, and taken by one",
          "[record][keep]") {
    const TemporaryFolder folder;
    CHECK(take_left_sessions(folder / "not-there").empty());
    auto mine = SessionFolder::create(folder.path());
    auto yours = SessionFolder::create(folder.path());
    REQUIRE(mine->path() != yours->path());
    write_file(mine->workspace(), "{}");
    write_file(mine->path() / "runs-10.rlt", "ten");
    write_file(mine->path() / "runs-9.rlt", "nine");
    write_file(mine->path() / "other.rlt", "a stranger");
    CHECK(mine->traces() == std::vector<fs::path>{mine->path() / "runs-9.rlt", mine->path() / "runs-10.rlt"});
    CHECK(mine->bytes() == 2 + 3 + 4 + 10);
    CHECK(take_left_sessions(folder.path()).empty()); // both live
    const fs::path left = mine->path(), empty = yours->path();
    mine.reset(); // as by a kill: unlocked, still there
    yours.reset();
    const auto taken = take_left_sessions(folder.path());
    REQUIRE(taken.size() == 1);
    CHECK(taken[0]->path() == left);
    CHECK_FALSE(fs::exists(empty));                   // nothing was in it
    CHECK(take_left_sessions(folder.path()).empty()); // another window does not get it too
    CHECK(SessionFolder::adopt(left) == nullptr);
    taken[0]->remove();
    CHECK_FALSE(fs::exists(left));
    CHECK(SessionFolder::adopt(left) == nullptr);
}

} // namespace run_keeper_test
