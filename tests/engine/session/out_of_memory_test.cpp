// Memory that runs out at one allocation of a rewind or of a start.
#include "engine/base/error.h"
#include "engine/record/recording/recording.h"
#include "engine/session/decode/decode_session.h"
#include "engine/session/worker/session_worker.h"
#include "tests/engine/session/tiny_pair.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <cstdlib>
#include <new>
#include <optional>
#include <string>
#include <thread>

using namespace refreshlab;
using namespace refreshlab::test;
using Catch::Matchers::ContainsSubstring;

namespace {

/// Allocations of this thread until one fails, once; negative: none does.
thread_local int64_t allocations_left = -1;

} // namespace

// For the whole suite; they do what the standard library's do. All of them, so that AddressSanitizer, which has its own, never
// sees memory of one kind released as the other.
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
    if (allocations_left >= 0 && allocations_left-- == 0) return nullptr;
    return std::malloc(bytes > 0 ? bytes : 1);
}
void* operator new(std::size_t bytes) {
    if (void* memory = operator new(bytes, std::nothrow)) return memory;
    throw std::bad_alloc();
}
void* operator new[](std::size_t bytes) {
    return operator new(bytes);
}
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept {
    return operator new(bytes, std::nothrow);
}
void operator delete(void* memory) noexcept {
    std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
    std::free(memory);
}
void operator delete(void* memory, const std::nothrow_t&) noexcept {
    std::free(memory);
}
void operator delete[](void* memory) noexcept {
    std::free(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
    std::free(memory);
}
void operator delete[](void* memory, const std::nothrow_t&) noexcept {
    std::free(memory);
}

namespace {

enum class Result : uint8_t { rewound, refused, ended };

struct Attempt {
    Result result = Result::rewound;
    std::string said;
};

/// A rewind in which the allocation number `n`, from 0, fails.
Attempt rewind_without_memory(DecodeSession& session, int64_t step, int64_t n) {
    Attempt attempt;
    allocations_left = n;
    try {
        session.rewind(step);
        allocations_left = -1;
    } catch (const Error& e) {
        allocations_left = -1;
        attempt = {Result::refused, e.what()};
        CHECK(e.kind() == ErrorKind::failure);
    } catch (const std::bad_alloc&) {
        allocations_left = -1;
        attempt.result = Result::ended;
    }
    return attempt;
}

/// Lagged refreshes, so that a rewind copies the student's cache; a task, so that it makes a scorer.
RunConfig branching_run() {
    RunConfig config = tiny_run(60);
    config.policy = policy_of({trigger("steps_since_refresh", Comparison::at_least, 9)});
    config.policy.lag = 3;
    return config;
}

constexpr int64_t made = 40, back_to = 25;

void go(DecodeSession& session, int64_t steps) {
    for (int64_t i = 0; i < steps && session.step(); ++i) {
    }
}

} // namespace

TEST_CASE("memory that runs out in a rewind's copies leaves the run as it was", "[session]") {
    const auto pair = tiny_pair(70, 71);
    DecodeSession straight(pair, branching_run());
    go(straight, 100);
    DecodeSession session(pair, branching_run());
    go(session, made);
    const auto before = session.recording();
    // Every allocation of the copies in turn, until the rewind has begun to change the caches.
    int64_t refusals = 0;
    Attempt attempt = rewind_without_memory(session, back_to, refusals);
    for (; attempt.result == Result::refused; attempt = rewind_without_memory(session, back_to, ++refusals)) {
        REQUIRE_THAT(attempt.said, ContainsSubstring("rewinding to step 25") &&
                                       ContainsSubstring("not enough memory") &&
                                       ContainsSubstring("stands as it was"));
        REQUIRE(session.recording() == before);
        REQUIRE(before->steps() == made);
    }
    CHECK(refusals > 20);
    // What ends a rewind later on ends the run; its recording stays.
    REQUIRE(attempt.result == Result::ended);
    CHECK(before->steps() == made);

    // A run in which every copy has failed once goes on as if nothing had been, and rewinds when there is memory.
    DecodeSession again(pair, branching_run());
    go(again, made);
    for (int64_t n = 0; n < refusals; ++n)
        REQUIRE(rewind_without_memory(again, back_to, n).result == Result::refused);
    go(again, 5);
    again.rewind(back_to);
    CHECK(again.recording()->info().fork_step == back_to);
    go(again, 100);
    CHECK(first_difference(*straight.recording(), *again.recording()).value_or("") == "");
}

TEST_CASE("memory that runs out anywhere in a rewind leaves the recording whole", "[session]") {
    const auto pair = tiny_pair(70, 71);
    DecodeSession whole(pair, branching_run());
    go(whole, made);
    const auto without = [&](int64_t n) {
        DecodeSession session(pair, branching_run());
        go(session, made);
        const auto before = session.recording();
        const Result result = rewind_without_memory(session, back_to, n).result;
        REQUIRE(first_difference(*whole.recording(), *before).value_or("") == "");
        return result;
    };
    // Some of the copies; then, where they end, one after the other: few allocations follow, and their number differs from
    // build to build.
    int64_t n = 0;
    while (without(n) == Result::refused)
        n += 23;
    int64_t ended = 0;
    for (n = std::max<int64_t>(0, n - 22);; ++n) {
        const Result result = without(n);
        if (result == Result::rewound) break;
        ended += result == Result::ended ? 1 : 0;
    }
    CHECK(ended > 0);
}

TEST_CASE("memory that runs out in a start leaves the run that stands", "[worker]") {
    RunConfig config;
    config.teacher_dir = RL_SOURCE_DIR "/assets/models/llama-tales-teacher";
    config.student_dir = RL_SOURCE_DIR "/assets/models/llama-tales-student";
    config.prompt = "Write a chronicle of 6 companies.";
    config.max_tokens = 40;
    SessionWorker worker;
    const auto answered = [&](uint64_t ticket) {
        while (worker.status()->answered < ticket)
            std::this_thread::yield();
        return worker.status();
    };
    answered(worker.send(command::StartRun{config, true}));
    const auto first = worker.recording();
    REQUIRE(first);
    for (const int64_t n : {0, 5, 40, 200}) {
        CAPTURE(n);
        bool armed = false; // read and written on the decode thread
        worker.on_news([&] {
            if (armed || worker.status()->state != EngineState::prefilling) return;
            armed = true;
            allocations_left = n; // of this thread, the one that starts the run
        });
        const uint64_t errors = worker.status()->errors;
        const auto status = answered(worker.send(command::StartRun{config, true}));
        worker.on_news({});
        REQUIRE(status->errors == errors + 1);
        CHECK_THAT(status->error, ContainsSubstring("out of memory"));
        CHECK(status->state == EngineState::paused);
        CHECK(worker.recording() == first);
        const int64_t steps = first->steps();
        answered(worker.send(command::Step{1}));
        while (first->steps() == steps)
            std::this_thread::yield();
        CHECK(first->steps() == steps + 1);
    }
}
