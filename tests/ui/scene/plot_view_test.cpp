#include "engine/signals/registry.h"
#include "tests/support/seed.h"
#include "ui/base/value_format.h"
#include "ui/scene/axes/auto_range.h"
#include "ui/scene/axes/playback.h"
#include "ui/scene/axes/time_view.h"
#include "ui/scene/text/markers.h"

#include <catch2/catch_test_macros.hpp>

#include <cmath>
#include <limits>
#include <random>
#include <utility>
#include <vector>

using namespace refreshlab;
using namespace refreshlab::ui;

TEST_CASE("a view that follows keeps the newest step in sight and changes its scale seldom", "[plot][SG5]") {
    TimeView view;
    int changes = 0;
    for (int64_t steps = 0; steps <= 5000; ++steps) {
        const double before = view.x_max;
        advance_time_view(view, steps);
        REQUIRE(view.follow);
        REQUIRE(view.x_min == 0);
        REQUIRE(view.x_max >= static_cast<double>(steps));
        if (steps > 200) REQUIRE(view.x_max <= 1.15 * static_cast<double>(steps));
        changes += view.x_max != before ? 1 : 0;
    }
    REQUIRE(changes < 120);
}

TEST_CASE("playing back goes through every step at its speed and halts at the end", "[plot][TL2]") {
    std::mt19937 random(test::seed(41));
    for (int round = 0; round < 200; ++round) {
        Playback playback;
        playback.steps_per_second = 1 + random() % 300;
        const int64_t last = 2 + static_cast<int64_t>(random() % 400);
        const int64_t from = 1 + static_cast<int64_t>(random() % static_cast<unsigned>(last - 1));
        int64_t step = playback.start(from, 1, last);
        REQUIRE(step == from);
        double passed = 0;
        int frames = 0;
        while (playback.playing()) {
            const double seconds = 1e-3 * static_cast<double>(random() % 200);
            const auto next = playback.advance(step, seconds, 1, last);
            passed += seconds;
            REQUIRE(next);
            REQUIRE(*next >= step);
            // The time that has passed, to one step.
            const double due = static_cast<double>(from) + passed * playback.steps_per_second;
            if (playback.playing()) REQUIRE(std::abs(static_cast<double>(*next) - due) <= 1.0 + 1e-6);
            step = *next;
            REQUIRE(++frames < 2'000'000);
        }
        REQUIRE(step == last);
        REQUIRE_FALSE(playback.advance(step, 1.0, 1, last));
    }
}

TEST_CASE("a loop stays in its range, wherever it is moved, and its rounds are equal", "[plot][TL2]") {
    Playback playback;
    playback.loop = true;
    playback.steps_per_second = 100;
    int64_t step = playback.start(500, 10, 13); // outside: from its beginning
    REQUIRE(step == 10);
    std::vector<int64_t> seen{step};
    for (int i = 0; i < 11; ++i)
        seen.push_back(step = *playback.advance(step, 0.0100001, 10, 13));
    REQUIRE(seen == std::vector<int64_t>{10, 11, 12, 13, 10, 11, 12, 13, 10, 11, 12, 13});
    REQUIRE(*playback.advance(13, 0.01, 40, 44) == 40); // the range moved on
    REQUIRE(*playback.advance(40, 100.0, 40, 44) ==
            40 + 25 % 5); // a halt of the window counts as a quarter second
    REQUIRE(playback.playing());
    REQUIRE_FALSE(playback.advance(42, 0.01, 40, 44)); // somebody chose another step
    REQUIRE_FALSE(playback.playing());
    (void)playback.start(41, 40, 44);
    REQUIRE_FALSE(playback.advance(std::nullopt, 0.01, 40, 44)); // or went live
    REQUIRE(playback.start(44, 40, 44) == 40);                   // from the end: once more
}

TEST_CASE("a loop plays the steps in sight where there are two, everything else the whole run",
          "[plot][TL2]") {
    TimeView view;
    view.x_min = 10.2;
    view.x_max = 19.9;
    REQUIRE(played_steps(view, true, 100) == StepRange{11, 19});
    REQUIRE(played_steps(view, false, 100) == StepRange{1, 100});
    REQUIRE(played_steps(view, true, 15) == StepRange{11, 15});
    REQUIRE(played_steps(view, true, 8) == StepRange{1, 8}); // none of them is there
    view.x_min = -5;
    view.x_max = 400;
    REQUIRE(played_steps(view, true, 100) == StepRange{1, 100});
    view.x_min = 50.1;
    view.x_max = 50.9;
    REQUIRE(played_steps(view, true, 100) == StepRange{1, 100});
}

TEST_CASE("a person's pan or zoom ends following, the steps since are counted, End returns", "[plot][SG5]") {
    TimeView view;
    advance_time_view(view, 1000);
    const double set_min = view.x_min, set_max = view.x_max;
    REQUIRE_FALSE(note_user_view(view, set_min, set_max, 1000)); // untouched
    REQUIRE(view.follow);
    view.x_min = 400;
    view.x_max = 500; // what a linked axis does in EndPlot
    REQUIRE(note_user_view(view, set_min, set_max, 1000));
    REQUIRE_FALSE(view.follow);
    REQUIRE(new_steps(view, 1000) == 0);
    advance_time_view(view, 1037);
    REQUIRE(view.x_min == 400);
    REQUIRE(view.x_max == 500);
    REQUIRE(new_steps(view, 1037) == 37);
    view.x_min = 410; // a second pan does not start the count again
    view.x_max = 510;
    REQUIRE(note_user_view(view, 400, 500, 1037));
    REQUIRE(new_steps(view, 1037) == 37);
    follow_newest(view, 1037);
    REQUIRE(view.follow);
    REQUIRE(new_steps(view, 1037) == 0);
    REQUIRE(view.x_max >= 1037);
    REQUIRE(view.x_max - view.x_min == 100); // at its width
    advance_time_view(view, 1038);
    REQUIRE(view.x_max - view.x_min == 100);
    REQUIRE(view.x_max >= 1038);
}

TEST_CASE("fit shows everything, also at 100,000 steps, and follows again", "[plot][SG10]") {
    for (const int64_t steps : {0L, 1L, 39L, 256L, 100'000L}) {
        TimeView view{30, 38, false, 10, true};
        advance_time_view(view, steps);
        CAPTURE(steps);
        REQUIRE(view.x_min == 0);
        REQUIRE(view.x_max >= static_cast<double>(steps));
        REQUIRE(view.follow);
        REQUIRE_FALSE(view.fit_request);
    }
}

TEST_CASE("views stay finite, ordered and near the run whatever is asked of them", "[plot]") {
    std::mt19937 random(test::seed(21));
    std::uniform_real_distribution<double> big(-1e7, 1e7), factor(0.001, 50);
    TimeView view;
    for (int i = 0; i < 5000; ++i) {
        const auto steps = static_cast<int64_t>(random() % 3000);
        switch (random() % 5) {
        case 0:
            pan_time_view(view, big(random), steps);
            break;
        case 1:
            zoom_time_view(view, factor(random), big(random), steps);
            break;
        case 2:
            set_time_range(view, big(random), big(random), steps);
            break;
        case 3:
            reveal_step(view, static_cast<int64_t>(random() % 3000), steps);
            break;
        default:
            set_time_range(view, std::numeric_limits<double>::infinity(), 3, steps);
            break;
        }
        REQUIRE(view.x_max - view.x_min >= min_time_width - 1e-6);
        REQUIRE(view.x_min >= -1e3);
        REQUIRE(view.x_max <= 1e4);
    }
}

TEST_CASE("zooming keeps the step under the mouse where it is", "[plot]") {
    TimeView view{100, 300, false, 0, false};
    zoom_time_view(view, 0.5, 150, 1000);
    REQUIRE(std::abs((150 - view.x_min) / (view.x_max - view.x_min) - 0.25) < 1e-9);
    REQUIRE(view.x_max - view.x_min == 100);
}

TEST_CASE("a selected step outside the view is brought into sight, one inside moves nothing", "[plot]") {
    TimeView view{100, 200, false, 500, false};
    REQUIRE_FALSE(reveal_step(view, 150, 500));
    REQUIRE(view.x_min == 100);
    REQUIRE(reveal_step(view, 20, 500));
    REQUIRE((view.x_min <= 20 && view.x_max >= 20));
    REQUIRE(view.x_max - view.x_min == 100);
}

TEST_CASE("markers closer than three pixels merge, and nothing is lost or out of order", "[plot][SG4]") {
    const std::vector<double> x = {10, 12, 14.5, 30, 33, 36, 100};
    const auto groups = merge_markers(x, 3);
    REQUIRE(groups.size() == 5);
    REQUIRE(groups[0] == MarkerGroup{0, 2, 10, 14.5});
    REQUIRE(groups[0].count() == 3);
    REQUIRE(groups[1].count() == 1); // 33 - 30 is not closer than 3
    REQUIRE(groups[4].x() == 100);
    REQUIRE(merge_markers({}, 3).empty());

    std::mt19937 random(test::seed(4));
    std::vector<double> many;
    double at = 0;
    for (int i = 0; i < 2000; ++i)
        many.push_back(at += static_cast<double>(random() % 60) / 10);
    size_t next = 0;
    double end = -1e9;
    for (const MarkerGroup& g : merge_markers(many, 3)) {
        REQUIRE(g.first == next);
        REQUIRE(g.x_min - end >= 3);
        for (size_t i = g.first + 1; i <= g.last; ++i)
            REQUIRE(many[i] - many[i - 1] < 3);
        next = g.last + 1;
        end = g.x_max;
    }
    REQUIRE(next == many.size());
}

TEST_CASE("a crowd of markers becomes groups of bounded width, not one", "[plot][SG4]") {
    std::mt19937 random(test::seed(8));
    for (const double widest : {0.0, 17.0, 90.0}) {
        CAPTURE(widest);
        std::vector<double> crowd;
        double at = 0;
        for (int i = 0; i < 400; ++i)
            crowd.push_back(at += 0.5 + static_cast<double>(random() % 75) / 10); // never 10 apart
        REQUIRE(merge_markers(crowd, 10).size() == 1);
        size_t next = 0;
        const auto groups = merge_markers(crowd, 10, widest);
        for (const MarkerGroup& g : groups) {
            REQUIRE(g.first == next);
            REQUIRE(g.x_max - g.x_min <= widest);
            REQUIRE(g.x_min == crowd[g.first]);
            REQUIRE(g.x_max == crowd[g.last]);
            next = g.last + 1;
            // Closed only because the next marker would have made it too wide.
            if (next < crowd.size()) REQUIRE(crowd[next] - g.x_min > widest);
        }
        REQUIRE(next == crowd.size());
    }
}

TEST_CASE("a group carries the common letter, or + where reasons differ", "[plot][SG4]") {
    const std::vector<char> letters = {'E', 'E', 'P', 'H'};
    const auto letter = [&](size_t i) { return letters[i]; };
    REQUIRE(group_letter({0, 1, 0, 0}, letter) == 'E');
    REQUIRE(group_letter({1, 2, 0, 0}, letter) == '+');
    REQUIRE(group_letter({3, 3, 0, 0}, letter) == 'H');
}

TEST_CASE("the y range holds data and thresholds, except thresholds more than three ranges away",
          "[plot][SG10]") {
    std::mt19937 random(test::seed(8));
    std::uniform_real_distribution<double> any(-20, 20), width(0.01, 5);
    for (int i = 0; i < 3000; ++i) {
        const double low = any(random), high = low + width(random), y = any(random);
        const double usual_min = random() % 2 ? 0 : -30;
        const ValueRange r = auto_range(ValueRange{low, high}, std::vector{y}, {usual_min, usual_min + 8});
        CAPTURE(low, high, y, usual_min, r.min, r.max);
        REQUIRE(r.min <= low);
        REQUIRE(r.max >= high);
        REQUIRE(r.max > r.min);
        const double away = std::max({low - y, y - high, 0.0});
        if (away <= 3 * (high - low)) REQUIRE((r.min <= y && r.max >= y));
        // Not more than a few times what is needed, unless the natural zero is part of it.
        if (r.min != usual_min) REQUIRE(r.span() < 8 * (high - low) + 1e-9);
    }
}

TEST_CASE("a far threshold stays outside, a near one is inside, none changes nothing", "[plot][SG10]") {
    const ValueRange data{0.2, 1.0}, usual{0, 8};
    REQUIRE(auto_range(data, std::vector{100.0}, usual).max < 2);
    REQUIRE(auto_range(data, std::vector{2.0}, usual).max >= 2);
    REQUIRE(auto_range(data, {}, usual).min == 0);
    REQUIRE(auto_range(std::nullopt, std::vector{6.0}, usual).max >= 8);
    REQUIRE(auto_range(ValueRange{3, 3}, {}, usual).span() > 0);
    const double nan = std::numeric_limits<double>::quiet_NaN();
    REQUIRE(auto_range(data, std::vector{nan}, usual) == auto_range(data, {}, usual));
}

TEST_CASE("a colour range widens at once and narrows only when asked", "[plot]") {
    ColourRange r;
    REQUIRE(r.range() == ValueRange{0, 1});
    r.include(3.3);
    r.include(std::numeric_limits<double>::quiet_NaN());
    r.include(std::numeric_limits<double>::infinity());
    REQUIRE(r.range() == ValueRange{0, 4});
    r.include(0.1);
    REQUIRE(r.range() == ValueRange{0, 4});
    r.include(-2);
    REQUIRE(r.range() == ValueRange{-2, 4});
    r.reset();
    r.include(0.1);
    REQUIRE(r.range() == ValueRange{0, 0.1});
}

TEST_CASE("values have three significant digits and their unit; what is no number has none", "[plot]") {
    REQUIRE(format_signal(3.4159F, "bits") == "3.42 bits");
    REQUIRE(format_signal(absent(), "bits") == "-");
    REQUIRE(format_signal(std::numeric_limits<float>::quiet_NaN(), "bits") == "nan");
    REQUIRE(format_signal(-std::numeric_limits<float>::infinity(), "bits") == "-inf");
    REQUIRE(format_signal(0.5F, "") == "0.5");
    REQUIRE(format_thousands(0) == "0");
    REQUIRE(format_thousands(999) == "999");
    REQUIRE(format_thousands(1000) == "1,000");
    REQUIRE(format_thousands(-1234567) == "-1,234,567");
    REQUIRE(format_count(1, "step") == "1 step");
    REQUIRE(format_count(0, "KV head") == "0 KV heads");
    REQUIRE(format_count(12300, "refresh") == "12,300 refreshes");
    REQUIRE(with_unit("Entropy", "bits") == "Entropy (bits)");
    REQUIRE(with_unit("Top-1 probability", "") == "Top-1 probability");
}

TEST_CASE("a dragged value steps by a power of ten within two pixels and hits round numbers exactly",
          "[plot][SG1]") {
    for (const double range : {0.01, 0.8, 8.0, 120.0})
        for (const double pixels : {60.0, 120.0, 500.0}) {
            const double q = drag_quantum(range, pixels);
            CAPTURE(range, pixels, q);
            REQUIRE(q <= 2 * range / pixels * (1 + 1e-12));
            REQUIRE(q > 0.19 * range / pixels);
        }
    REQUIRE(drag_quantum(8, 120) == 0.1);
    REQUIRE(round_to(5.1987, 0.1) == 5.2);
    REQUIRE(round_to(5.23, 0.01) == 5.23);
    REQUIRE(round_to(57.3, 10) == 60);
    REQUIRE(drag_quantum(0, 100) > 0);
}

TEST_CASE("labels of neighbouring ticks differ, however far from zero the axis is", "[plot]") {
    for (const double low : {0.0, 5.0, 11.2, -11.2, 999.0, 123456.0, 0.25}) {
        for (const double range : {1e-3, 0.02, 0.3, 4.0, 50.0}) {
            const std::vector<double> ticks = value_ticks(low, low + range, 5);
            CAPTURE(low, range);
            for (size_t i = 1; i < ticks.size(); ++i)
                CHECK(format_tick(ticks[i], ticks[1] - ticks[0]) !=
                      format_tick(ticks[i - 1], ticks[1] - ticks[0]));
        }
    }
    CHECK(format_tick(11.205, 0.005) == "11.205");
    CHECK(format_tick(4, 2) == "4");
    CHECK(format_tick(0.5, 0.5) == "0.5");
}
