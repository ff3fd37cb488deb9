// What is left of a window that was killed.
#include "engine/base/json_file.h"
#include "engine/record/keep/session_folder.h"
#include "engine/record/recording/recording.h"
#include "engine/record/trace/trace_store.h"
#include "tests/support/seed.h"

#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <random>
#include <string>
#include <vector>

// Last: X11.
#include "tests/app/window/display.h"

namespace session_test {

using namespace refreshlab;
using namespace refreshlab::display;
namespace fs = std::filesystem;

namespace {

constexpr int num_tokens = 600;

/// A window that decodes as fast as it goes.
std::vector<std::string> window_command(const std::vector<std::string>& more) {
    std::vector<std::string> command = {std::string(RL_BUILD_DIR) + "/refreshlab",
                                        "gui",
                                        "--device",
                                        "cpu",
                                        "--prompt",
                                        "Write a chronicle of 6 companies.",
                                        "--max-tokens",
                                        std::to_string(num_tokens),
                                        "--ignore-stop",
                                        "--pace",
                                        "max"};
    command.insert(command.end(), more.begin(), more.end());
    return command;
}

void prepare(const XServer& server, const fs::path& home, const fs::path& log) {
    setenv("DISPLAY", server.display().c_str(), 1);
    setenv("XDG_CONFIG_HOME", (home / "config").c_str(), 1);
    setenv("XDG_STATE_HOME", (home / "state").c_str(), 1);
    const int out = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    dup2(out, STDOUT_FILENO);
    dup2(out, STDERR_FILENO);
}

/// Steps that the one session under this folder has in files.
int64_t kept_steps(const fs::path& state) {
    std::error_code error;
    for (const auto& folder : fs::directory_iterator(state / "sessions", error))
        return recorded_steps(folder.path() / "runs-1.rlt");
    return 0;
}

} // namespace

TEST_CASE("a window that is killed at any moment leaves its run, step for step, for the next start",
          "[display][session]") {
    const XServer server;
    if (!server.running()) SKIP("there is no Xvfb here (Debian: xvfb): the visible window is not tested");
    const fs::path folder = fs::path(RL_BUILD_DIR) / "session-test";
    fs::remove_all(folder);
    fs::create_directories(folder);
    const fs::path log = folder / "log.txt", whole_trace = folder / "whole.rlt";
    // The same run without a kill.
    {
        const fs::path home = folder / "whole";
        Child program(window_command({"--record", whole_trace.string()}),
                      [&] { prepare(server, home, log); });
        while (!program.ended() && recorded_steps(whole_trace) < num_tokens)
            poll(nullptr, 0, 50);
        INFO(read_file(log, 1 << 20));
        REQUIRE(!program.ended());
        program.kill_hard();
        program.wait();
        // It is in the person's file: no second copy was kept.
        const auto left = take_left_sessions(home / "state" / "refreshlab");
        for (const auto& session : left)
            CHECK(session->traces().empty());
    }
    const auto whole = load_trace(whole_trace);
    REQUIRE(whole.size() == 1);
    REQUIRE(whole[0]->steps() == num_tokens);

    std::mt19937_64 random(test::seed(9201));
    for (int round = 0; round < 4; ++round) {
        const fs::path home = folder / std::to_string(round), state = home / "state" / "refreshlab";
        const int64_t at = std::uniform_int_distribution<int64_t>(1, num_tokens)(random);
        const int more_ms = std::uniform_int_distribution<int>(0, 400)(random);
        CAPTURE(round, at, more_ms);
        Child program(window_command({}), [&] { prepare(server, home, log); });
        int64_t seen = 0;
        while (!program.ended() && seen < at) {
            poll(nullptr, 0, 20);
            seen = kept_steps(state);
        }
        poll(nullptr, 0, more_ms); // a moment that no round of the writer knows of
        INFO(read_file(log, 1 << 20));
        REQUIRE(!program.ended());
        CHECK(take_left_sessions(state).empty()); // it lives: nobody takes its session
        program.kill_hard();
        program.wait();

        const auto left = take_left_sessions(state);
        REQUIRE(left.size() == 1);
        const auto traces = left[0]->traces();
        REQUIRE(traces.size() == 1);
        const auto runs = load_trace(traces[0]);
        REQUIRE(runs.size() == 1);
        CHECK(runs[0]->steps() >= seen);
        // What belongs to the step in flight, and the end of a run that made it, stand outside the steps.
        const int64_t steps = runs[0]->steps();
        const auto difference =
            first_difference(*runs[0]->fork(steps, "kept"), *whole[0]->fork(steps, "again"));
        INFO(difference.value_or("no difference"));
        CHECK_FALSE(difference);
    }
    fs::remove_all(folder);
}

} // namespace session_test
