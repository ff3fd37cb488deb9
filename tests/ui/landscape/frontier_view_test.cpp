// What of the frontier is in sight.
#include "ui/scene/landscape/frontier_view.h"

#include <catch2/catch_test_macros.hpp>

#include <optional>

namespace frontier_view_test {

using namespace refreshlab::ui;

TEST_CASE("a frontier's view fits until somebody moves it, and again after a double click", "[landscape]") {
    FrontierView view;
    const auto frame = [&](ValueRange refreshes, ValueRange loss, bool double_click = false,
                           std::optional<ValueRange> written = {}) {
        view.begin_frame(refreshes, loss);
        const ValueRange shown = view.refreshes;
        if (written) view.refreshes = *written;
        view.end_frame(double_click);
        return shown;
    };
    CHECK(frame({0, 8}, {0, 1}) == ValueRange{0, 8});
    CHECK(frame({0, 12}, {0, 1}) == ValueRange{0, 12}); // the policy has changed
    CHECK(view.fitted());
    frame({0, 12}, {0, 1}, false, ValueRange{2, 5}); // zoomed
    CHECK_FALSE(view.fitted());
    CHECK(frame({0, 20}, {0, 2}) == ValueRange{2, 5});
    CHECK(view.loss == ValueRange{0, 1}); // the other axis stays as well
    // A click: the plot moves by a pixel, which is taken back.
    view.begin_frame({0, 20}, {0, 2});
    view.press();
    view.refreshes = {2.1, 5.1};
    view.end_frame(false);
    view.take_back();
    CHECK(frame({0, 20}, {0, 2}) == ValueRange{2, 5});
    CHECK_FALSE(view.fitted());
    // A double click, which the plot answers with a fit of its own.
    frame({0, 20}, {0, 2}, true, ValueRange{0, 59});
    CHECK(view.fitted());
    CHECK(frame({0, 20}, {0, 2}) == ValueRange{0, 20});
    // A click on a fitted view leaves it fitted.
    view.begin_frame({0, 20}, {0, 2});
    view.press();
    view.refreshes = {0.1, 20.1};
    view.end_frame(false);
    view.take_back();
    CHECK(view.fitted());
}

} // namespace frontier_view_test
