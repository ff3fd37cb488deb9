#include "engine/record/recording/older_cache_events.h"
#include "tests/ui/maps/heatmap_recording.h"
#include "ui/scene/attention/attention_colours.h"
#include "ui/scene/attention/attention_geometry.h"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

namespace attention_colours_test {

using namespace refreshlab;
using namespace refreshlab::ui;
using namespace refreshlab::test;
using Catch::Approx;

namespace {

/// Two layers of three heads; head h of layer l gives key 1 the weight 0.1 * (1 + 3 l + h) and key 0 all the rest.
void add_rows(Recording& recording, int64_t position, bool teacher = false, float more = 0) {
    AttentionRows rows;
    rows.position = position;
    rows.teacher = teacher;
    rows.heads = 3;
    rows.keys = position + 1;
    rows.layers = {0, 1};
    for (int head = 0; head < 6; ++head)
        for (int64_t key = 0; key <= position; ++key) {
            const float second = 0.1F * static_cast<float>(1 + head) + more;
            rows.weights.push_back(float_to_half(key == 0 ? 1 - second : key == 1 ? second : 0.0F));
        }
    recording.add_attention(std::make_shared<const AttentionRows>(rows));
}

AttentionMap map_of(const Recording& recording, AttentionOf of) {
    AttentionMap map;
    map.update(recording, {of, {4, 6}, {0, 1}, {0, 1, 2}, 64, 64});
    return map;
}

} // namespace

TEST_CASE("attention colours take the range that is asked for, and a range only widens", "[ui][attention]") {
    const auto recording = empty_recording(Mode::overfill, 4);
    for (int64_t position = 4; position <= 6; ++position) {
        append_step(*recording);
        add_rows(*recording, position);
    }
    const AttentionMap map = map_of(*recording, AttentionOf::student);
    AttentionView view;
    AttentionColours colours;
    const auto shown = [&] {
        colours.show(view, AttentionOf::student);
        colours.follow(map);
        return colours.scale(0, 0);
    };
    CHECK(colours.scale(0, 0).max == 1); // nothing known yet

    // Without position 0 the largest weight is 0.6, in the last head.
    CHECK(shown().max == Approx(0.6).margin(1e-3));
    CHECK(shown().log);
    CHECK(shown().min == Approx(0.6e-3).margin(1e-6)); // three decades below
    view.range = AttentionRange::per_head;
    static_cast<void>(shown());
    CHECK(colours.scale(0, 1).max == Approx(0.2).margin(1e-3));
    CHECK(colours.scale(1, 0).max == Approx(0.4).margin(1e-3));
    view.range = AttentionRange::unit;
    static_cast<void>(shown());
    CHECK(colours.scale(1, 2).max == 1);

    view.range = AttentionRange::shared;
    view.without_first = false;
    CHECK(shown().max == Approx(0.9).margin(1e-3)); // position 0 of the first head
    AttentionMap smaller;
    smaller.update(*recording, {AttentionOf::student, {4, 6}, {1}, {2}, 64, 64});
    colours.follow(smaller);
    CHECK(colours.scale(0, 0).max == Approx(0.9).margin(1e-3)); // narrows only on request
    view.without_first = true;                                  // another question: its range is its own
    CHECK(shown().max == Approx(0.6).margin(1e-3));
    colours.reset_range();
    CHECK(colours.scale(0, 0).max == 1);
}

TEST_CASE(
    "attention colours of differences are symlog or linear, signed, and know nothing of the weights' range",
    "[ui][attention]") {
    const auto recording = empty_recording(Mode::overfill, 4);
    for (int64_t position = 4; position <= 6; ++position) {
        append_step(*recording);
        add_rows(*recording, position);
        add_rows(*recording, position, true, 0.05F);
    }
    AttentionColours colours;
    colours.follow(map_of(*recording, AttentionOf::student));
    const std::string weights = colours.key();
    AttentionView view;
    colours.show(view, AttentionOf::teacher);
    CHECK(colours.scale(0, 0).max == Approx(0.6).margin(1e-3)); // the range of weights stays
    colours.show(view, AttentionOf::difference);
    colours.follow(map_of(*recording, AttentionOf::difference));
    const ColourScale scale = colours.scale(0, 0);
    CHECK(scale.max == Approx(0.05).margin(2e-3));
    CHECK(scale.min == -scale.max);
    CHECK(scale.log); // symlog: about 0 in the middle
    CHECK(scale.fraction(0) == 0.5);
    CHECK(scale.fraction(0.1 * scale.max) > 0.65);
    view.log = false;
    colours.show(view, AttentionOf::difference);
    CHECK(colours.scale(0, 0).fraction(0.1 * scale.max) == Approx(0.55));
    CHECK(scale.map.data() == colour_map("rdbu").data());
    CHECK(colours.key() != weights);
}

TEST_CASE("the image of all heads holds each head's cells at its place", "[ui][attention]") {
    const auto recording = empty_recording(Mode::overfill, 4);
    for (int64_t position = 4; position <= 6; ++position) {
        append_step(*recording);
        if (position != 5) add_rows(*recording, position);
    }
    const AttentionMap map = map_of(*recording, AttentionOf::student);
    AttentionColours colours;
    colours.follow(map);
    const auto image = heads_image(map, colours);
    const int64_t rows = map.rows(), columns = map.columns();
    REQUIRE(static_cast<int64_t>(image.size()) == 2 * rows * 3 * columns);
    std::vector<uint32_t> cell(static_cast<size_t>(rows * columns));
    for (size_t layer = 0; layer < 2; ++layer)
        for (size_t head = 0; head < 3; ++head) {
            colours.colour(map.cells(layer, head), colours.scale(layer, head), cell);
            for (int64_t row = 0; row < rows; ++row)
                for (int64_t column = 0; column < columns; ++column) {
                    const int64_t y = static_cast<int64_t>(layer) * rows + row,
                                  x = static_cast<int64_t>(head) * columns + column;
                    CHECK(image[static_cast<size_t>(y * 3 * columns + x)] ==
                          cell[static_cast<size_t>(row * columns + column)]);
                }
        }
}

TEST_CASE("of the last block of cells only what the window holds is drawn", "[ui][attention]") {
    const auto recording = empty_recording(Mode::overfill, 4);
    for (int64_t position = 4; position <= 20; ++position) {
        append_step(*recording);
        add_rows(*recording, position);
    }
    AttentionMap map;
    map.update(*recording, {AttentionOf::student, {5, 20}, {0}, {0}, 5, 4});
    REQUIRE(map.key_factor() == 8);   // 21 keys on 5 texels, by powers of two
    REQUIRE(map.query_factor() == 4); // 16 queries on 4 texels
    REQUIRE(map.first_aligned() == 4);
    const CellWindow window = cell_window(map);
    CHECK(window.u_end == Approx(21.0 / 24));
    CHECK(window.v_begin == Approx(1.0 / static_cast<double>(map.rows() * 4)));
    CHECK(window.v_end == Approx(17.0 / static_cast<double>(map.rows() * 4)));
}

TEST_CASE("a row that is not there says why, and what would bring it", "[ui][attention]") {
    const auto recording = empty_recording(Mode::overfill, 4);
    for (int64_t step = 0; step < 8; ++step)
        append_step(*recording);
    SECTION("the student's, not kept") {
        const MissingRow missing = missing_row(*recording, 8, 6, AttentionOf::student);
        CHECK(missing.why == "Not kept at this step");
        CHECK_FALSE(missing.teacher);
        CHECK(missing.can_read);
    }
    SECTION("the teacher has read the prompt only") {
        const MissingRow missing = missing_row(*recording, 8, 6, AttentionOf::teacher);
        CHECK(missing.why == "The teacher has read the prompt only");
        CHECK(missing.teacher);
        CHECK_FALSE(missing.can_read);
        CHECK_FALSE(missing.go_step);
    }
    SECTION("the teacher has read some steps: up to there") {
        PassEvent pass;
        pass.step = 3;
        pass.first_pos = 4;
        pass.tokens = 3;
        recording->add_pass(pass);
        add_older_cache_events(*recording);
        const MissingRow missing = missing_row(*recording, 8, 9, AttentionOf::teacher);
        CHECK(missing.why == "The teacher has read up to step 3");
        CHECK(missing.go_step == 3);
        CHECK(missing.held == 7);
        CHECK_FALSE(missing.can_read);
        CHECK(missing_row(*recording, 8, 6, AttentionOf::teacher).can_read);
    }
    SECTION("of a difference the student's is asked for first, then the teacher's") {
        CHECK_FALSE(missing_row(*recording, 8, 6, AttentionOf::difference).teacher);
        add_rows(*recording, 6);
        CHECK(missing_row(*recording, 8, 6, AttentionOf::difference).teacher);
        add_rows(*recording, 6, true);
        const MissingRow both = missing_row(*recording, 8, 6, AttentionOf::difference);
        CHECK(both.why == "Only one of the two models has this head");
        CHECK_FALSE(both.can_read);
    }
}

TEST_CASE("the shown row is read again where query, head or model change", "[ui][attention]") {
    const auto recording = empty_recording(Mode::overfill, 4);
    for (int64_t position = 4; position <= 6; ++position)
        append_step(*recording);
    add_rows(*recording, 5);
    add_rows(*recording, 5, true, 0.05F);
    ShownRow row;
    row.read(*recording, 5, AttentionOf::student, 0, 1);
    REQUIRE(row.weights.size() == 6);
    CHECK(row.weights[1] == Approx(0.2).margin(1e-3));
    REQUIRE_FALSE(row.top.empty());
    CHECK(row.top.front().position == 0);
    CHECK(row.teacher.empty());
    row.read(*recording, 5, AttentionOf::student, 1, 1);
    CHECK(row.weights[1] == Approx(0.5).margin(1e-3));
    row.read(*recording, 5, AttentionOf::difference, 1, 1);
    CHECK(row.weights[1] == Approx(0.05).margin(2e-3));
    CHECK(row.teacher[1] == Approx(0.55).margin(1e-3));
    CHECK(row.student[1] == Approx(0.5).margin(1e-3));
    row.read(*recording, 6, AttentionOf::student, 1, 1);
    CHECK(row.weights.empty());
    add_rows(*recording, 6);
    row.read(*recording, 6, AttentionOf::student, 1, 1); // it came meanwhile
    CHECK(row.weights.size() == 7);
}

TEST_CASE("grid and head share the panel: beside each other, or one above the other", "[ui][attention]") {
    const float em = 10;
    const AttentionPlaces wide = attention_places({5, 7, 600, 200}, 5, 6, em);
    CHECK(wide.grid.height == 200);
    CHECK(wide.head.x == wide.grid.x + wide.grid.width + 10);
    CHECK(wide.head.x + wide.head.width == 605);
    CHECK(wide.grid.width <= 0.46F * 600 + 1);
    const AttentionPlaces narrow = attention_places({5, 7, 200, 600}, 5, 6, em);
    CHECK(narrow.grid.width == 200);
    CHECK(narrow.head.y == narrow.grid.y + narrow.grid.height + 10);
    CHECK(narrow.head.y + narrow.head.height == 607);

    const HeadGrid grid = head_grid(wide.grid, 5, 6, em);
    CHECK(grid.column(0) == grid.x);
    CHECK(grid.column(5) + grid.cell_x <= wide.grid.x + wide.grid.width);
    CHECK(grid.row(4) + grid.cell_y <= grid.under);
    CHECK(grid.column(1) - grid.column(0) == grid.cell_x + grid.gap);
}

TEST_CASE(
    "strip: a bar a key where keys are wide, a bar a pixel with the largest weight where they are narrow",
    "[ui][attention]") {
    const KeyAxis wide{100, 150, 10};
    const std::vector<float> row = {0.5F, 0.1F, std::numeric_limits<float>::quiet_NaN(), 0.2F};
    const auto bars = strip_bars(row, wide);
    REQUIRE(bars.size() == 4);
    CHECK(bars[1].x0 == 105);
    CHECK(bars[1].x1 == 109); // a gap to the next
    CHECK(bars[3].value == 0.2F);
    CHECK(strip_top(row, {}, 0) == 0.5F);
    CHECK(strip_top(row, {}, 1) == 0.2F); // without position 0
    CHECK(strip_top(row, std::vector<float>{0, 0.9F}, 1) == 0.9F);

    const KeyAxis narrow{0, 4, 16};
    std::vector<float> many(12, 0.01F);
    many[6] = 0.7F;
    const auto reduced = strip_bars(many, narrow);
    REQUIRE(reduced.size() == 4);
    CHECK(reduced[0].value == 0.01F);
    CHECK(reduced[1].value == 0.7F);           // keys 4 .. 7
    CHECK(reduced[3].value < 0);               // no key there
    CHECK(strip_key(many, narrow, 1.0F) == 6); // the one that made the bar
    CHECK(strip_key(many, narrow, 0.0F) == 0);
    CHECK(strip_key(row, wide, 116.0F) == 3);
}

TEST_CASE("cells of ranked heads are as large as the room allows, apart, and inside it", "[ui][attention]") {
    for (const PixelBox room : {PixelBox{5, 7, 300, 200}, PixelBox{0, 0, 120, 600}, PixelBox{0, 0, 900, 120}})
        for (const int64_t count : {1, 2, 5, 12, 16, 48}) {
            CAPTURE(room.width, room.height, count);
            const RankedGrid grid = ranked_grid(room, count, 14);
            for (int64_t rank = 0; rank < count; ++rank) {
                const PixelBox cell = grid.cell(rank);
                CHECK(cell.width >= 4);
                CHECK(cell.x >= room.x);
                CHECK(cell.x + cell.width <= room.x + room.width + 0.5F);
                if (cell.height > 4)
                    CHECK(cell.y + cell.height + grid.name_height <= room.y + room.height + 0.5F);
                if (rank % grid.columns > 0)
                    CHECK(cell.x >= grid.cell(rank - 1).x + grid.cell(rank - 1).width);
            }
        }
    // A larger panel has larger cells, and fewer heads have larger ones.
    const auto area = [](const RankedGrid& grid) { return grid.cell_x * grid.cell_y; };
    CHECK(area(ranked_grid({0, 0, 600, 400}, 12, 14)) > area(ranked_grid({0, 0, 300, 200}, 12, 14)));
    CHECK(area(ranked_grid({0, 0, 300, 200}, 6, 14)) > area(ranked_grid({0, 0, 300, 200}, 24, 14)));
}

TEST_CASE("cells of many layers use the panel's width", "[ui][attention]") {
    const AttentionPlaces places = attention_places({0, 0, 560, 260}, 30, 9, 14);
    const HeadGrid grid = head_grid(places.grid, 30, 9, 14);
    CHECK(grid.cell_x > 1.4F * grid.cell_y);
    const AttentionPlaces large = attention_places({0, 0, 1500, 800}, 30, 9, 14);
    const HeadGrid larger = head_grid(large.grid, 30, 9, 14);
    CHECK(larger.cell_x > 2 * grid.cell_x);
    CHECK(larger.cell_y > 2 * grid.cell_y);
}

TEST_CASE("labels of an axis keep apart, and the wanted ones come first", "[ui][attention]") {
    const std::vector<int64_t> wanted = {17, 18, 40, 99};
    const auto places = spaced_labels(wanted, 0, 60, 3, 14);
    CHECK(std::ranges::count(places, 17) == 1);
    CHECK(std::ranges::count(places, 18) == 0); // too near to one that is wanted more
    CHECK(std::ranges::count(places, 40) == 1);
    CHECK(std::ranges::count(places, 99) == 0); // not on this axis
    CHECK(std::ranges::is_sorted(places));
    for (size_t i = 1; i < places.size(); ++i)
        CHECK(static_cast<float>(places[i] - places[i - 1]) * 3 >= 14);
    CHECK(places.size() > 8);
    CHECK(spaced_labels({}, 0, 5, 20, 14) == std::vector<int64_t>{0, 1, 2, 3, 4}); // room for all
    CHECK(spaced_labels(wanted, 0, 0, 3, 14).empty());
}

} // namespace attention_colours_test
