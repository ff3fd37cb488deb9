// What the tab Scope shows of a scope map: shares against sums that are written down plainly, and scopes that a click takes.
#include "engine/results/scope_map.h"
#include "tests/engine/landscape/random_scope_map.h"
#include "tests/support/seed.h"
#include "ui/scene/landscape/scope_grid.h"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <functional>
#include <memory>
#include <random>

namespace scope_grid_test {

using namespace refreshlab;
using namespace refreshlab::ui;
using namespace refreshlab::test;
using Catch::Approx;
using Kind = ScopePart::Kind;

namespace {

constexpr int64_t layers = 3, kv_heads = 2;

/// All parts of a small model.
std::shared_ptr<ScopeMap> random_map(uint32_t number) {
    std::mt19937 random(seed(number));
    return std::make_shared<ScopeMap>(random_scope_map(random, layers, kv_heads));
}

/// sum over refreshes of (none - loss), of the whole gain.
double plain_share(const ScopeMap& map, const std::vector<double>& losses) {
    double gained = 0, all = 0;
    for (size_t i = 0; i < losses.size(); ++i) {
        gained += map.refreshes[i].none - losses[i];
        all += map.refreshes[i].none - map.refreshes[i].whole;
    }
    return gained / all;
}

} // namespace

TEST_CASE("a scope map's cells are the shares of their parts, alone or missed", "[landscape]") {
    const auto map = random_map(0x5C0E);
    for (const ScopeMeasure measure : {ScopeMeasure::alone, ScopeMeasure::missed}) {
        const ScopeGrid grid = scope_grid({map, measure});
        REQUIRE(grid.columns == std::vector<std::string>{"all", "keys", "values", "0", "1"});
        REQUIRE(grid.cells.size() == 15);
        double most = 0;
        for (int64_t l = 0; l < layers; ++l)
            for (size_t c = 0; c < grid.columns.size(); ++c) {
                const ScopeCell& cell = grid.at(l, c);
                CHECK(cell.part.layer == l);
                CHECK(cell.part.kv_head == (c < 3 ? -1 : static_cast<int32_t>(c) - 3));
                CHECK(cell.part.parts == (c == 1   ? ScopeParts::keys
                                          : c == 2 ? ScopeParts::values
                                                   : ScopeParts::both));
                const auto reading = std::ranges::find(map->readings, cell.part, &ScopeMap::Reading::part);
                REQUIRE(reading != map->readings.end());
                REQUIRE(cell.share);
                const double alone = plain_share(*map, reading->alone),
                             missed = 1 - plain_share(*map, reading->without);
                CHECK(cell.share->share == Approx(measure == ScopeMeasure::alone ? alone : missed));
                CHECK(cell.share->interval.has_value());
                CHECK(cell.bytes == map->bytes_of(cell.part));
                most = std::max(most, cell.share->share);
            }
        CHECK(grid.most == Approx(most));
    }
}

TEST_CASE("lists of a scope map are in their order, and their scopes have what they say", "[landscape]") {
    const auto map = random_map(0x5C0F);
    const ScopeGrid grid = scope_grid({map, ScopeMeasure::alone});
    CHECK(grid.left_out.size() == static_cast<size_t>(layers * (1 + kv_heads)));
    CHECK(std::ranges::is_sorted(grid.left_out, std::greater(), &ScopeChoice::share));
    REQUIRE(grid.greedy.size() == 4);
    CHECK(grid.greedy[0].share == Approx(0.3));
    CHECK(grid.greedy[3].share == Approx(1.08));
    // The first two of the order and no other.
    const auto heads = grid.greedy[1].scope.heads_of(layers, kv_heads);
    CHECK(heads == std::vector<uint8_t>{1, 0, 0, 0, 0, 1});
    CHECK(grid.greedy[1].bytes == Approx(2 * 16 * 64.0));
    REQUIRE(grid.smallest.size() == 3);
    CHECK(grid.smallest[0] == std::pair<double, size_t>{0.5, 2});
    CHECK(grid.smallest[1] == std::pair<double, size_t>{0.8, 3});
}

TEST_CASE("the scope of a part refreshes that part alone, and its words name it", "[landscape]") {
    const RefreshScope head = scope_of({.kind = Kind::head, .layer = 2, .kv_head = 1});
    CHECK(head.heads_of(layers, kv_heads) == std::vector<uint8_t>{0, 0, 0, 0, 0, 1});
    const RefreshScope keys = scope_of({.kind = Kind::layer_half, .layer = 1, .parts = ScopeParts::keys});
    CHECK(keys.heads_of(layers, kv_heads) == std::vector<uint8_t>{0, 0, 1, 1, 0, 0});
    CHECK(keys.parts == ScopeParts::keys);
    CHECK(scope_of({.kind = Kind::half, .parts = ScopeParts::values}).layers.empty());
    CHECK(words_of({.kind = Kind::head, .layer = 2, .kv_head = 1}) == "layer 2 head 1");
    CHECK(words_of({.kind = Kind::layer_half, .layer = 1, .parts = ScopeParts::keys}) == "layer 1, keys");
    CHECK(words_of({.kind = Kind::half, .parts = ScopeParts::values}) == "values");
}

TEST_CASE("blocks of positions have columns behind the KV heads, and no list offers them", "[landscape]") {
    std::mt19937 random(seed(0x5C11));
    const auto map = std::make_shared<ScopeMap>(random_scope_map(random, layers, kv_heads, 3));
    const ScopeGrid grid = scope_grid({map, ScopeMeasure::alone});
    REQUIRE(grid.columns == std::vector<std::string>{"all", "keys", "values", "0", "1", "old", "1", "new"});
    REQUIRE(grid.first_block() == 5);
    for (int64_t l = 0; l < layers; ++l)
        for (int32_t b = 0; b < 3; ++b) {
            const ScopeCell& cell = grid.at(l, grid.first_block() + static_cast<size_t>(b));
            CHECK(cell.part == ScopePart{Kind::block, static_cast<int32_t>(l), -1, b, ScopeParts::both});
            const auto reading = std::ranges::find(map->readings, cell.part, &ScopeMap::Reading::part);
            REQUIRE(cell.share);
            CHECK(cell.share->share == Approx(plain_share(*map, reading->alone)));
        }
    CHECK(grid.left_out.size() == static_cast<size_t>(layers * (1 + kv_heads)));
    CHECK(words_of({.kind = Kind::block, .layer = 1, .block = 2}) == "layer 1, block 2 of the positions");
}

TEST_CASE("refreshes that gain nothing have no shares", "[landscape]") {
    const auto map = random_map(0x5C10);
    for (ScopeMap::Refresh& refresh : map->refreshes)
        refresh.whole = refresh.none;
    const ScopeGrid grid = scope_grid({map, ScopeMeasure::alone});
    CHECK(grid.halves.empty());
    CHECK_FALSE(grid.at(0, 0).share);
    CHECK(grid.left_out.empty());
}

} // namespace scope_grid_test
