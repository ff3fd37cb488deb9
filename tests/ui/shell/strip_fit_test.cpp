#include "tests/support/seed.h"
#include "ui/shell/run_bar/strip_fit.h"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <random>

using namespace refreshlab::ui;

TEST_CASE("a strip shows everything where there is room, and never more than there is", "[ui][RB1]") {
    std::mt19937 random(refreshlab::test::seed(50));
    for (int round = 0; round < 500; ++round) {
        std::vector<StripPart> parts(1 + random() % 12);
        float all = 0, widest = 0;
        for (StripPart& part : parts) {
            part = {10 + static_cast<float>(random() % 90), static_cast<int>(random() % 6)};
            all += part.width;
            widest = std::max(widest, part.width);
        }
        const float room = static_cast<float>(random() % 600), more = 20;
        const auto shown = fit_strip(parts, room, more);
        REQUIRE(shown.size() == parts.size());
        float used = 0;
        for (size_t i = 0; i < parts.size(); ++i)
            used += shown[i] ? parts[i].width : 0;
        const bool whole = std::ranges::find(shown, false) == shown.end();
        REQUIRE(whole == (all <= room));
        if (!whole && used > 0) REQUIRE(used + more <= room);
        // Nothing that is left out would still fit beside the more important ones.
        for (size_t i = 0; i < parts.size(); ++i) {
            if (shown[i] || whole) continue;
            float before = more + parts[i].width;
            for (size_t j = 0; j < parts.size(); ++j)
                if (shown[j] && (parts[j].rank < parts[i].rank || (parts[j].rank == parts[i].rank && j < i)))
                    before += parts[j].width;
            REQUIRE(before > room);
        }
    }
}
