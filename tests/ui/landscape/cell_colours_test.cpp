// Colours of a landscape's picture: which values they tell apart by themselves, by hand, and in the settings.
#include "engine/base/error.h"
#include "tests/engine/landscape/random_landscape.h"
#include "tests/support/seed.h"
#include "ui/scene/landscape/cell_colours.h"
#include "ui/scene/landscape/cell_pyramid.h"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <vector>

namespace cell_colours_test {

using namespace refreshlab;
using namespace refreshlab::ui;
using namespace refreshlab::test;
using Catch::Approx;
using Catch::Matchers::ContainsSubstring;

namespace {

/// All values of the triangle.
std::vector<double> cells_of(const std::shared_ptr<const Landscape>& landscape, const CellValue& value) {
    const CellRows rows(landscape, value);
    std::vector<double> cells;
    std::vector<float> row;
    for (int64_t j = 0; j < rows.size(); ++j) {
        rows.read(j, row);
        for (int64_t c = j; c < rows.size(); ++c)
            if (std::isfinite(row[static_cast<size_t>(c)]))
                cells.push_back(static_cast<double>(row[static_cast<size_t>(c)]));
    }
    return cells;
}

/// The same with `more` nats of loss in every cell of the step.
std::shared_ptr<const Landscape> with_hard_step(const Landscape& landscape, int64_t step, float more) {
    Landscape harder(landscape);
    for (const int64_t j : landscape.rows()) {
        if (j >= step) continue;
        auto row = std::make_shared<LandscapeRow>(*landscape.row(j));
        row->planes[0][static_cast<size_t>(step - 1 - j)] -= more;
        harder.put_row(std::move(row));
    }
    return std::make_shared<Landscape>(std::move(harder));
}

CellColours colours_of(const std::shared_ptr<const Landscape>& landscape, const CellValue& value,
                       std::optional<ValueRange> own = {}) {
    return cell_colours(value, CellPyramid(landscape, value).spread(), own);
}

CellSpread spread_of(const std::vector<float>& values) {
    const auto [least, most] = std::ranges::minmax(values);
    return {values, {static_cast<double>(least), static_cast<double>(most)}};
}

} // namespace

TEST_CASE("the automatic colours tell nearly all cells apart, and say how many", "[landscape]") {
    std::mt19937 random(seed(0xC0101));
    for (const int64_t tokens : {12, 61, 130}) {
        const auto landscape = std::make_shared<Landscape>(random_landscape(random, tokens));
        for (const CellValue& value : cell_values(*landscape, Objective::loss)) {
            INFO(tokens << " tokens, " << label_of(value));
            const CellColours colours = colours_of(landscape, value);
            const std::vector<double> cells = cells_of(landscape, value);
            const auto in = std::ranges::count_if(
                cells, [&](double cell) { return cell >= colours.range.min && cell <= colours.range.max; });
            const double share = static_cast<double>(in) / static_cast<double>(cells.size());
            CHECK(colours.within == Approx(share));
            const double left_out = 0.05 * static_cast<double>(cells.size() - 1) + 1; // of each open end
            if (value.kind != CellValue::Kind::gain) // whose sums may lie far apart: there the mean decides
                CHECK(static_cast<double>(cells.size()) - static_cast<double>(in) <=
                      (colours.has_signs ? 1 : 2) * left_out);
            CHECK(colours.below == (std::ranges::min(cells) < colours.range.min));
            CHECK(colours.above == (std::ranges::max(cells) > colours.range.max));
            // No wider than the cells that it is for, but for the rounding to round numbers.
            std::vector<double> sizes;
            for (const double cell : cells)
                sizes.push_back(std::abs(cell));
            std::ranges::sort(sizes);
            const double most = sizes[static_cast<size_t>(0.97 * static_cast<double>(sizes.size() - 1))];
            CHECK(std::max(std::abs(colours.range.min), colours.range.max) <= 1.05 * most);
            if (colours.has_signs) CHECK(colours.range.min == -colours.range.max);
            if (value.kind == CellValue::Kind::loss) CHECK(colours.range.min == 0);
        }
    }
}

TEST_CASE("one token that is far off does not set the colours of all others", "[landscape]") {
    std::mt19937 random(seed(0xC0102));
    for (const int64_t tokens : {61, 130}) {
        const auto landscape = std::make_shared<Landscape>(random_landscape(random, tokens));
        for (const int64_t step : {tokens / 3, tokens - 1}) { // the last step has most cells
            const auto harder = with_hard_step(*landscape, step, 100);
            const CellColours before = colours_of(landscape, {}), after = colours_of(harder, {});
            INFO(tokens << " tokens, step " << step);
            CHECK(std::ranges::max(cells_of(harder, {})) > 90);
            CHECK(after.has_signs == before.has_signs);
            CHECK(after.range.max < 1.5 * before.range.max);
            CHECK(after.above);
            CHECK(after.within < 1);
            CHECK_THAT(words_of(after), ContainsSubstring(" % of cells within "));
        }
    }
}

TEST_CASE("where a tenth of the tokens is lost altogether, the others are still told apart", "[landscape]") {
    std::mt19937 random(seed(0xC0103));
    std::vector<float> cells;
    std::uniform_real_distribution<float> small(-0.3F, 0.3F), large(6, 12);
    for (int i = 0; i < 5000; ++i)
        cells.push_back(i % 10 == 0 ? large(random) : small(random));
    for (const CellValue& value :
         {CellValue{}, CellValue{CellValue::Kind::gain, {}}, CellValue{CellValue::Kind::signal, "kl_nats"}}) {
        const CellColours colours = cell_colours(value, spread_of(cells), {});
        INFO(label_of(value) << " up to " << colours.range.max);
        CHECK(colours.range.max > 0.3); // all of the small ones
        CHECK(colours.range.max < 4);   // by more than a colour or two
        CHECK(colours.within > 0.84);
        CHECK(colours.within <= 0.9);
        CHECK(colours.above);
    }
    // Rounding alone is not made visible by it.
    for (float& cell : cells)
        if (cell < 1) cell *= 1e-7F;
    CHECK(cell_colours({}, spread_of(cells), {}).range.max > 1e-3);
    for (size_t i = 0; i < cells.size(); ++i)
        if (i % 50 != 0) cells[i] = 0;
    CHECK(cell_colours({}, spread_of(cells), {}).range.max > 1e-3);
}

TEST_CASE("cells that are all alike, and no cells, have a range too", "[landscape]") {
    for (const CellSpread& spread :
         {CellSpread(), spread_of({0, 0, 0}), spread_of({2, 2, 2}), spread_of({-3})}) {
        for (const CellValue& value : {CellValue{}, CellValue{CellValue::Kind::gain, {}},
                                       CellValue{CellValue::Kind::signal, "kl_nats"}}) {
            const CellColours colours = cell_colours(value, spread, {});
            INFO(label_of(value) << " " << spread.extent().min);
            CHECK(is_usable(colours.range));
            CHECK(colours.within == 1);
            CHECK_FALSE(colours.below);
            CHECK_FALSE(colours.above);
            CHECK_THAT(words_of(colours), ContainsSubstring("all cells within "));
        }
    }
}

TEST_CASE("a range of one's own is kept by what the cells show", "[landscape]") {
    const CellSpread spread = spread_of({-4, -1, 0, 1, 2, 8});
    CellChoice choice;
    CHECK_FALSE(choice.own_range(Objective::loss));
    choice.set_own_range(Objective::loss, ValueRange{-0.5, 2});
    choice.value = {CellValue::Kind::signal, "entropy_bits"};
    CHECK_FALSE(choice.own_range(Objective::loss));
    choice.set_own_range(Objective::loss, ValueRange{1, 3});
    // The loss above the teacher has signs here: the farther end holds for both.
    CellColours colours = cell_colours({}, spread, choice.ranges.at("loss_above_teacher"));
    CHECK(colours.has_signs);
    CHECK(colours.own);
    CHECK(colours.range == ValueRange{-2, 2});
    CHECK(colours.within == Approx(4.0 / 6));
    CHECK((colours.below && colours.above));
    CHECK(words_of(colours) == "66 % of cells within ±2");
    colours = cell_colours(choice.value, spread, choice.own_range(Objective::loss));
    CHECK(colours.range == ValueRange{1, 3});
    CHECK(colours.within == Approx(2.0 / 6));
    CHECK(words_of(colours) == "33 % of cells within 1 to 3");
    // Through the settings and back; what is no range is not taken.
    StoredRanges stored = stored_ranges(choice.ranges);
    CHECK(stored == StoredRanges{{"entropy_bits", {1, 3}}, {"loss_above_teacher", {-0.5, 2}}});
    stored["gain"] = {2, 2};
    stored["loss"] = {0, std::numeric_limits<double>::infinity()};
    CellChoice back;
    back.value = choice.value;
    back.ranges = own_ranges(stored);
    CHECK(back == choice);
    choice.set_own_range(Objective::loss, ValueRange{3, 1}); // no range: nothing changes
    CHECK(back == choice);
    choice.set_own_range(Objective::loss, {});
    CHECK(stored_ranges(choice.ranges) == StoredRanges{{"loss_above_teacher", {-0.5, 2}}});
    CHECK_FALSE(cell_colours(choice.value, spread, choice.own_range(Objective::loss)).own);
}

TEST_CASE("an end is moved alone, with signs both are, and they never meet", "[landscape]") {
    CHECK(moved_end({0, 4}, RangeKind::free, RangeEnd::high, 1.5) == ValueRange{0, 1.5});
    CHECK(moved_end({0, 4}, RangeKind::free, RangeEnd::low, 1.5) == ValueRange{1.5, 4});
    CHECK(moved_end({-4, 4}, RangeKind::has_signs, RangeEnd::high, 1.5) == ValueRange{-1.5, 1.5});
    CHECK(moved_end({-4, 4}, RangeKind::has_signs, RangeEnd::low, -9) == ValueRange{-9, 9});
    CHECK(moved_end({0.01, 4}, RangeKind::from_zero, RangeEnd::high, 1.5) == ValueRange{0, 1.5});
    for (const RangeKind kind : {RangeKind::free, RangeKind::has_signs, RangeKind::from_zero})
        for (const RangeEnd end : {RangeEnd::low, RangeEnd::high})
            for (const double value : {-1e9, -4.0, 0.0, 4.0, 1e9, std::nan("")}) {
                INFO(static_cast<int>(kind) << " " << value);
                CHECK(is_usable(moved_end({-4, 4}, kind, end, value)));
            }
}

TEST_CASE("an end that is typed leaves a range or is refused", "[landscape]") {
    CHECK(typed_end({0, 4}, RangeKind::free, RangeEnd::low, -1) == ValueRange{-1, 4});
    CHECK(typed_end({-4, 4}, RangeKind::has_signs, RangeEnd::low, -1) == ValueRange{-1, 1});
    CHECK(typed_end({0.001, 1}, RangeKind::from_zero, RangeEnd::high, 0.5) == ValueRange{0, 0.5});
    CHECK_THROWS_AS(typed_end({0, 4}, RangeKind::free, RangeEnd::low, 4), Error);
    CHECK_THROWS_AS(typed_end({-4, 4}, RangeKind::has_signs, RangeEnd::high, 0), Error);
    CHECK_THROWS_AS(typed_end({0, 1}, RangeKind::from_zero, RangeEnd::high, -0.5), Error);
    CHECK_THROWS_AS(typed_end({0, 1}, RangeKind::free, RangeEnd::high, std::nan("")), Error);
}

} // namespace cell_colours_test
