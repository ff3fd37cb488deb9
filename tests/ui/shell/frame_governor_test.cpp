#include "ui/shell/frame_governor.h"

#include <catch2/catch_test_macros.hpp>

#include <cmath>

namespace frame_governor_test {

using namespace refreshlab::ui;

namespace {

FrameGovernor governor_with_cost(double cost_s, int cores, double last_frame = 100) {
    FrameGovernor governor(cores);
    for (int i = 20; i >= 0; --i)
        governor.frame_drawn(last_frame - 0.1 * i, cost_s);
    return governor;
}

FrameGovernor::Situation quiet(double now) {
    FrameGovernor::Situation s;
    s.now = now;
    s.last_input = s.last_news = -1000;
    return s;
}

} // namespace

TEST_CASE("while decoding, drawing takes at most a tenth of all cores, between 5 and 60 frames a second",
          "[ui]") {
    for (const int cores : {1, 2, 8, 64}) {
        for (const double cost : {0.0005, 0.002, 0.01, 0.05, 0.3}) {
            FrameGovernor governor = governor_with_cost(cost, cores);
            auto s = quiet(100.01);
            s.decoding = true;
            s.last_news = 100.01;
            const double period = governor.period(s);
            CAPTURE(cores, cost, period);
            CHECK(period >= FrameGovernor::fastest);
            CHECK(period <= FrameGovernor::slowest_while_decoding);
            const bool at_a_limit =
                period == FrameGovernor::fastest || period == FrameGovernor::slowest_while_decoding;
            if (!at_a_limit) CHECK(std::abs(cost / period - FrameGovernor::share_of_cores * cores) < 1e-9);
            if (period == FrameGovernor::fastest)
                CHECK(cost / period <= FrameGovernor::share_of_cores * cores + 1e-9);
            CHECK(governor.due(s) == 100 + period);
        }
    }
}

TEST_CASE("a held mouse button gets every frame that there is", "[ui]") {
    FrameGovernor governor = governor_with_cost(0.05, 2);
    auto s = quiet(100.001);
    s.decoding = true;
    s.mouse_held = true;
    CHECK(governor.due(s) == 100 + FrameGovernor::fastest);
}

TEST_CASE("input that a frame left is taken by the next ones, as fast as they come", "[ui]") {
    for (const bool decoding : {false, true}) {
        FrameGovernor governor = governor_with_cost(0.05, 2);
        auto s = quiet(107); // long after the last key came
        s.decoding = decoding;
        s.input_left = true;
        CHECK(governor.due(s) == 100 + FrameGovernor::fastest);
        governor.frame_drawn(107, 0.05);
        CHECK(governor.due(s) == 107 + FrameGovernor::fastest);
        s.input_left = false;
        CHECK(std::isinf(governor.due(s)));
    }
}

TEST_CASE("nothing is drawn when nothing happens, and waits are at most a second", "[ui]") {
    FrameGovernor governor = governor_with_cost(0.002, 2);
    const auto s = quiet(100.5);
    CHECK(std::isinf(governor.due(s)));
    CHECK(governor.wait_s(s) == FrameGovernor::longest_wait_s);
}

TEST_CASE("news after an idle time is drawn at once", "[ui]") {
    FrameGovernor governor = governor_with_cost(0.002, 2);
    auto s = quiet(160);
    s.last_news = 160;
    CHECK(governor.due(s) <= s.now);
    CHECK(governor.wait_s(s) == 0.0);
}

TEST_CASE("after the last input frames go on for two seconds, slower and slower, then end", "[ui]") {
    FrameGovernor governor(2);
    auto s = quiet(0);
    s.last_input = 50;
    double now = 50;
    int frames = 0;
    double longest = 0;
    for (; frames < 1000; ++frames) {
        governor.frame_drawn(now + 1e-6, 0.002);
        s.now = now + 2e-6;
        const double due = governor.due(s);
        if (std::isinf(due)) break;
        longest = std::max(longest, due - now);
        now = due;
    }
    CAPTURE(frames, now);
    CHECK(frames >= 10);
    CHECK(frames <= 40);
    CHECK(now >= 51.5);
    CHECK(now <= 50 + FrameGovernor::settle_s + 0.5);
    CHECK(longest <= 0.3);
}

TEST_CASE("a text cursor blinks and a minimised window draws nothing", "[ui]") {
    FrameGovernor governor = governor_with_cost(0.002, 2);
    auto s = quiet(100.1);
    s.text_cursor = true;
    CHECK(governor.due(s) > 100.2);
    CHECK(governor.due(s) < 101);
    s.mouse_held = s.decoding = true;
    s.last_news = s.now;
    s.minimised = true;
    CHECK(std::isinf(governor.due(s)));
}

TEST_CASE("one slow frame does not slow the next ones", "[ui]") {
    FrameGovernor governor = governor_with_cost(0.002, 2);
    governor.frame_drawn(101, 0.9);
    CHECK(governor.cost_s() == 0.002);
    for (int i = 0; i < 20; ++i)
        governor.frame_drawn(101 + i, 0.04);
    CHECK(governor.cost_s() == 0.04);
}

} // namespace frame_governor_test
