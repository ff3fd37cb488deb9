// What fails at one end: either is killed at any moment, or the disk there is full. The other one has what it had, and the trace is whole.
#include "engine/record/trace/trace_store.h"
#include "engine/remote/remote_engine.h"
#include "tests/app/serve/processes.h"
#include "tests/engine/remote/fake_engine.h"
#include "tests/support/seed.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <random>
#include <thread>

namespace kill_test {

using namespace refreshlab;
using namespace refreshlab::test;

namespace {

remote::RemoteEngine::Options to(const std::string& address) {
    remote::RemoteEngine::Options options;
    options.server = remote::parse_endpoint(address, "--connect");
    options.name = "a test";
    return options;
}

constexpr int32_t tokens = 400;

/// A run that is far from its end when something is killed, mostly.
void start(remote::RemoteEngine& link, LinkWatcher& watch) {
    REQUIRE(watch.until([](const EngineStatus& s) { return !s.applied.teacher_dir.empty(); }));
    RunConfig config = link.status()->applied;
    config.prompt = "Write a chronicle of 3 companies.";
    config.max_tokens = tokens;
    config.ignore_stop = true;
    config.threads = 1;
    const uint64_t ticket = link.send(command::StartRun{config});
    REQUIRE(watch.until([&](const EngineStatus& s) {
        return s.answered >= ticket && link.recording() && link.recording()->steps() > 0;
    }));
}

void rest(std::mt19937& random, uint32_t most_us) {
    std::this_thread::sleep_for(std::chrono::microseconds(random() % most_us));
}

constexpr uint32_t most_us = 150'000;

/// What both have is the same.
void check_common(const Recording& a, const Recording& b) {
    const auto here = a.token_ids(), there = b.token_ids();
    const auto count = static_cast<std::ptrdiff_t>(std::min(here.size(), there.size()));
    CHECK(std::equal(here.begin(), here.begin() + count, there.begin()));
}

void kill_servers(int times, std::mt19937 random) {
    for (int i = 0; i < times; ++i) {
        CAPTURE(i);
        Folder folder;
        Server server({"--listen", "127.0.0.1:0", "--record", (folder / "traces").string()});
        remote::RemoteEngine link(to(server.address));
        LinkWatcher watch(link);
        start(link, watch);
        rest(random, most_us);
        CHECK(server.end(SIGKILL) == 128 + SIGKILL);
        REQUIRE(watch.until([](const EngineStatus& s) { return !s.link->connected; }));
        const auto there = load_trace(only_file(folder / "traces"));
        REQUIRE(there.size() <= 1); // killed before the first round of the trace's writer
        if (!there.empty()) check_common(*there[0], *link.recording());
    }
}

void kill_windows(int times, std::mt19937 random) {
    Folder folder;
    Server server({"--listen", "127.0.0.1:0", "--record", (folder / "traces").string()});
    std::vector<std::shared_ptr<const Recording>> runs;
    for (int i = 0; i < times; ++i) {
        CAPTURE(i);
        int ready[2];
        REQUIRE(pipe2(ready, O_CLOEXEC) == 0);
        const pid_t window = fork(); // this process has one thread now
        if (window == 0) {
            auto options = to(server.address);
            options.name = "window " + std::to_string(i);
            remote::RemoteEngine link(options);
            LinkWatcher watch(link);
            link.take_wheel(); // the window before it was killed with it
            static_cast<void>(watch.until(
                [&](const EngineStatus& s) { return s.link->driving && s.link->driver == options.name; }));
            start(link, watch);
            static_cast<void>(!write(ready[1], "x", 1));
            pause();
            _exit(0);
        }
        close(ready[1]);
        char byte = 0;
        REQUIRE(read(ready[0], &byte, 1) == 1);
        close(ready[0]);
        rest(random, most_us);
        kill(window, SIGKILL);
        waitpid(window, nullptr, 0);
        // The run goes on to its end, and whoever comes sees all of it.
        remote::RemoteEngine link(to(server.address));
        LinkWatcher watch(link);
        REQUIRE(watch.until([&](const EngineStatus& s) {
            return s.state == EngineState::finished && s.link->rows_to_come == 0 && link.recording() &&
                   link.recording()->end();
        }));
        runs.push_back(link.recording());
        CHECK(runs.back()->steps() == tokens);
    }
    CHECK(server.end(SIGTERM) == 128 + SIGTERM);
    const auto there = load_trace(only_file(folder / "traces"));
    REQUIRE(there.size() == runs.size());
    for (size_t i = 0; i < runs.size(); ++i)
        CHECK(!first_difference(*there[i], *runs[i]));
}

} // namespace

TEST_CASE(
    "a server that is killed at any moment leaves a trace that can be read, and the window what had come",
    "[serve]") {
    kill_servers(4, std::mt19937(seed(71)));
}

TEST_CASE("a window that is killed at any moment ends no run", "[serve]") {
    kill_windows(4, std::mt19937(seed(72)));
}

TEST_CASE("a full disk there stops the recording and not the run, and the window is told", "[serve]") {
    Folder folder;
    // POSIX counts in blocks of 512 bytes. The trace of the whole run is larger.
    Server server({"--listen", "127.0.0.1:0", "--record", (folder / "traces").string()}, "ulimit -f 1200");
    remote::RemoteEngine link(to(server.address));
    LinkWatcher watch(link);
    start(link, watch);
    REQUIRE(watch.until(
        [&](const EngineStatus& s) { return s.state == EngineState::finished && link.recording()->end(); }));
    CHECK(link.recording()->steps() == tokens);
    CHECK_THAT(link.status()->trace_error, Catch::Matchers::ContainsSubstring("File too large"));
    CHECK(server.end(SIGTERM) == 128 + SIGTERM);
    const auto there = load_trace(only_file(folder / "traces"));
    REQUIRE(there.size() == 1);
    CHECK(there[0]->steps() < tokens);
    check_common(*there[0], *link.recording());
}

TEST_CASE("a hundred servers are killed", "[.kill]") {
    kill_servers(100, std::mt19937(seed(73)));
}

TEST_CASE("a hundred windows are killed", "[.kill]") {
    kill_windows(100, std::mt19937(seed(74)));
}

} // namespace kill_test
