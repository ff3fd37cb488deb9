#include "tests/support/seed.h"
#include "tests/ui/maps/heatmap_recording.h"
#include "ui/scene/attention/head_ranking.h"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>

#include <cmath>
#include <random>
#include <vector>

namespace head_ranking_test {

using namespace refreshlab;
using namespace refreshlab::ui;
using namespace refreshlab::test;
using Catch::Approx;

namespace {

/// Rows of 2 layers x 3 heads at one position: head i gives position 0 the weight sink[i] and shares the rest evenly.
void add_rows(Recording& recording, int64_t position, const std::vector<float>& sink, bool teacher = false) {
    AttentionRows rows;
    rows.position = position;
    rows.teacher = teacher;
    rows.heads = 3;
    rows.keys = position + 1;
    rows.layers = {0, 1};
    for (const float first : sink)
        for (int64_t key = 0; key <= position; ++key)
            rows.weights.push_back(
                float_to_half(key == 0 ? first : (1 - first) / static_cast<float>(position)));
    recording.add_attention(std::make_shared<const AttentionRows>(rows));
}

HeadRanking::Question question(HeadOrder order) {
    return {order, false, {0, 1}, {0, 1, 2}};
}

std::vector<size_t> heads_of(const HeadRanking& ranking) {
    std::vector<size_t> heads;
    for (const RankedHead& head : ranking.ranked())
        heads.push_back(head.layer_index * 3 + head.head_index);
    return heads;
}

} // namespace

TEST_CASE("numbers of a row: entropy in bits, weight away from the sink, distance of two rows",
          "[ui][attention]") {
    const auto halves = [](const std::vector<float>& weights) {
        std::vector<uint16_t> row;
        for (const float w : weights)
            row.push_back(float_to_half(w));
        return row;
    };
    CHECK(row_entropy(halves({1, 0, 0, 0})) == 0);
    CHECK(row_entropy(halves({0.25F, 0.25F, 0.25F, 0.25F})) == Approx(2));
    CHECK(row_off_sink(halves({0.75F, 0.25F})) == Approx(0.25));
    CHECK(row_distance(halves({1, 0}), halves({0, 1})) == Approx(1));
    CHECK(row_distance(halves({0.5F, 0.5F}), halves({0.5F, 0.5F})) == 0);
    CHECK(std::isnan(row_distance(halves({1}), halves({0.5F, 0.5F}))));
    CHECK(std::isnan(row_entropy({})));
}

TEST_CASE("heads are ranked by the means of the window's rows", "[ui][attention]") {
    const auto recording = empty_recording(Mode::overfill, 4);
    const std::vector<float> sink = {0.9F, 0.1F, 0.5F, 0.7F, 0.3F, 0.98F},
                             other = {0.9F, 0.2F, 0.1F, 0.7F, 0.3F, 0.9F};
    for (int64_t position = 4; position <= 9; ++position) {
        append_step(*recording);
        add_rows(*recording, position, sink);
        if (position < 8) add_rows(*recording, position, other, true);
    }
    HeadRanking ranking;
    const QueryWindow window{4, 9};
    CHECK_FALSE(ranking.update(*recording, question(HeadOrder::place), window, 100));
    CHECK(ranking.ranked().empty());
    CHECK_FALSE(ranking.update(*recording, question(HeadOrder::off_sink), window, 100));
    CHECK(heads_of(ranking) == std::vector<size_t>{1, 4, 2, 3, 0, 5});
    CHECK(ranking.ranked()[0].value == Approx(0.9).margin(1e-3));
    ranking.update(*recording, question(HeadOrder::focused), window, 100);
    CHECK(heads_of(ranking) == std::vector<size_t>{5, 0, 3, 2, 4, 1});
    ranking.update(*recording, question(HeadOrder::spread), window, 100);
    CHECK(heads_of(ranking) == std::vector<size_t>{1, 4, 2, 3, 0, 5});
    // Differences: only of queries that both models have.
    ranking.update(*recording, question(HeadOrder::differing), window, 100);
    CHECK(heads_of(ranking) == std::vector<size_t>{2, 1, 5, 0, 3, 4});
    CHECK(ranking.ranked()[0].value == Approx(0.4).margin(2e-3));
    CHECK(ranking.ranked()[5].value == 0);
    ranking.update(*recording, question(HeadOrder::differing), {8, 9}, 100);
    ranking.clear();
    ranking.update(*recording, question(HeadOrder::differing), {8, 9}, 100);
    CHECK(ranking.ranked().empty());
}

TEST_CASE("rows are read some at a time, and the order holds for some steps of a live run",
          "[ui][attention]") {
    const auto recording = empty_recording(Mode::overfill, 4);
    const std::vector<float> before = {0.9F, 0.1F, 0.5F, 0.7F, 0.3F, 0.98F},
                             later = {0.1F, 0.9F, 0.5F, 0.7F, 0.3F, 0.98F};
    for (int64_t position = 4; position < 60; ++position) {
        append_step(*recording);
        add_rows(*recording, position, position < 24 ? before : later);
    }
    HeadRanking ranking;
    const auto off_sink = question(HeadOrder::off_sink);
    int rounds = 0;
    while (ranking.update(*recording, off_sink, {4, 23}, 4))
        REQUIRE(++rounds < 10);
    CHECK(rounds >= 4);
    ranking.update(*recording, off_sink, {20, 23}, 100);
    const auto order = heads_of(ranking);
    CHECK(order.front() == 1);
    for (int64_t last = 24; last < 38; ++last)
        ranking.update(*recording, off_sink, {last - 3, last}, 100);
    CHECK(heads_of(ranking) == order); // the means have changed, the places not yet
    ranking.update(*recording, off_sink, {37, 40}, 100);
    CHECK(heads_of(ranking).front() == 0);
}

TEST_CASE("a window that was read in pieces has the order of all its rows", "[ui][attention]") {
    const auto recording = empty_recording(Mode::overfill, 4);
    const std::vector<float> old = {0.1F, 0.9F, 0.5F, 0.7F, 0.3F, 0.98F},
                             newest = {0.6F, 0.5F, 0.5F, 0.7F, 0.4F, 0.98F};
    for (int64_t position = 4; position < 16; ++position) {
        append_step(*recording);
        add_rows(*recording, position, position < 10 ? old : newest);
    }
    const QueryWindow window{4, 15};
    for (const HeadOrder order : {HeadOrder::off_sink, HeadOrder::focused, HeadOrder::spread})
        for (const int64_t rows : {1, 5, 6, 11}) {
            HeadRanking whole, pieces;
            whole.update(*recording, question(order), window, 100);
            pieces.update(*recording, question(order), window, rows);
            if (order == HeadOrder::off_sink && rows <= 6)
                CHECK(heads_of(pieces) != heads_of(whole)); // the newest alone
            while (pieces.update(*recording, question(order), window, rows)) {
            }
            CHECK(heads_of(pieces) == heads_of(whole));
            // Other rows of the same window are asked for, and all of them again.
            pieces.update(*recording, question(order), {12, 15}, 100);
            pieces.update(*recording, question(order), window, 100);
            CHECK(heads_of(pieces) == heads_of(whole));
        }
}

} // namespace head_ranking_test
