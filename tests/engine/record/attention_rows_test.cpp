// Attention rows within a number of bytes: how they are laid out, what is kept, and what a reader is told of each key.
#include "engine/base/check.h"
#include "engine/record/recording/attention_rows.h"
#include "tests/support/seed.h"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <numeric>
#include <random>
#include <set>

namespace attention_rows_test {

using namespace refreshlab;

namespace {

std::vector<uint16_t> random_row(std::mt19937& random, int64_t keys) {
    std::exponential_distribution<float> weight(1);
    std::vector<float> weights(static_cast<size_t>(keys));
    for (float& w : weights) {
        w = weight(random);
        w = w * w * w; // few strong keys, as attention has them
    }
    const float sum = std::accumulate(weights.begin(), weights.end(), 0.0F);
    std::vector<uint16_t> row;
    for (const float w : weights)
        row.push_back(float_to_half(w / sum));
    return row;
}

AttentionRows rows_of(std::span<const std::vector<uint16_t>> whole, const AttentionLayout& layout) {
    AttentionRows rows;
    rows.keys = std::ssize(whole.front());
    rows.position = rows.keys - 1;
    rows.heads = std::ssize(whole);
    rows.layers = {0};
    rows.edges = layout.edges;
    rows.exact = layout.exact;
    rows.weights.resize(rows.rows() * static_cast<size_t>(rows.stride()));
    rows.exact_keys.resize(rows.rows() * static_cast<size_t>(rows.exact));
    for (size_t row = 0; row < whole.size(); ++row)
        compact_row(
            whole[row], layout,
            std::span(rows.weights)
                .subspan(row * static_cast<size_t>(rows.stride()), static_cast<size_t>(rows.stride())),
            std::span(rows.exact_keys)
                .subspan(row * static_cast<size_t>(rows.exact), static_cast<size_t>(rows.exact)));
    return rows;
}

} // namespace

TEST_CASE("the rows of a step take no more bytes than they may, at any length and of any model", "[record]") {
    struct Model {
        int64_t layers, heads;
    };
    for (const Model model : {Model{2, 4}, {12, 12}, {30, 9}, {32, 32}, {80, 64}})
        for (const int64_t bytes : {2'000, 50'000, 1'000'000})
            for (const int64_t keys : {2, 17, 100, 1'000, 2'200, 10'001, 131'072, 1'000'000}) {
                CAPTURE(model.layers, model.heads, bytes, keys);
                const AttentionLayout layout = attention_layout(bytes, model.layers, model.heads, keys);
                const int64_t rows = model.layers * model.heads;
                if (layout.edges.empty()) { // every key, because that fits
                    CHECK(model.layers * 4 + rows * keys * 2 <= bytes);
                    CHECK(layout.exact == 0);
                    continue;
                }
                CHECK(model.layers * 4 + rows * keys * 2 > bytes);
                const int64_t numbers = std::ssize(layout.edges) - 1,
                              takes = model.layers * 4 + std::ssize(layout.edges) * 4 +
                                      rows * (2 * numbers + 6 * layout.exact);
                CHECK((takes <= bytes || (numbers == 1 && layout.exact == 0)));
                CHECK(numbers < keys);
                CHECK(layout.edges.front() == 0);
                CHECK(layout.edges.back() == keys);
                CHECK(std::ranges::is_sorted(layout.edges, std::less_equal{}));
                if (bytes / rows < 100) continue;
                CHECK(takes > bytes * 9 / 10); // and what there is, is used
                CHECK(layout.exact >= 4);
                CHECK(layout.edges[1] == 1); // the first and the newest key have numbers of their own
                CHECK(layout.edges[static_cast<size_t>(numbers - 1)] == keys - 1);
            }
    CHECK(attention_layout(0, 30, 9, 1'000'000).edges.empty());
}

TEST_CASE("bins stay where they are while a row grows, until they become twice as wide", "[record]") {
    std::set<int32_t> before;
    int64_t width_before = 0;
    for (int64_t keys = 1'000; keys < 5'000; ++keys) {
        const AttentionLayout layout = attention_layout(50'000, 30, 9, keys);
        int64_t width = 0;
        for (size_t n = 0; n + 1 < layout.edges.size(); ++n)
            width = std::max<int64_t>(width, layout.edges[n + 1] - layout.edges[n]);
        std::set<int32_t> edges;
        for (const int32_t edge : layout.edges)
            if (edge % width == 0) edges.insert(edge);
        if (width == width_before) {
            CAPTURE(keys, width);
            REQUIRE(std::ranges::includes(edges, before));
        }
        before = std::move(edges);
        std::erase_if(before, [&](int32_t edge) { return edge > keys - 64; }); // the newest keys move on
        width_before = width;
    }
}

TEST_CASE("a compact row keeps the strongest keys, and sums of all others", "[record]") {
    const uint32_t seed = test::seed(4711);
    INFO("seed " << seed);
    std::mt19937 random(seed);
    for (const int64_t keys : {40, 333, 2'200}) {
        std::vector<std::vector<uint16_t>> whole;
        for (int head = 0; head < 5; ++head)
            whole.push_back(random_row(random, keys));
        std::ranges::fill(whole[3],
                          float_to_half(1.0F / static_cast<float>(keys))); // all alike: the first ones
        std::ranges::fill(whole[4], uint16_t{0});
        whole[4][static_cast<size_t>(keys) / 2] = float_to_half(1);
        const AttentionLayout layout = attention_layout(5 * 60, 1, 5, keys);
        REQUIRE(layout.exact > 0);
        const AttentionRows rows = rows_of(whole, layout);
        for (size_t row = 0; row < whole.size(); ++row) {
            CAPTURE(keys, row);
            // Another way to the same: all keys that share a number, sorted.
            std::vector<int32_t> wide;
            for (size_t n = 0; n + 1 < layout.edges.size(); ++n)
                for (int32_t key = layout.edges[n]; key < layout.edges[n + 1]; ++key)
                    if (layout.edges[n + 1] - layout.edges[n] > 1) wide.push_back(key);
            std::ranges::stable_sort(wide, [&](int32_t a, int32_t b) {
                return whole[row][static_cast<size_t>(a)] > whole[row][static_cast<size_t>(b)];
            });
            wide.resize(static_cast<size_t>(layout.exact));
            const std::set<int32_t> strongest(wide.begin(), wide.end());
            int64_t next = 0;
            for_each_share(rows, row, [&](const AttentionShare& share) {
                REQUIRE(share.first == next); // stretches cover all keys once
                REQUIRE(share.end > share.first);
                next = share.end;
                if (share.exact()) {
                    REQUIRE(share.end == share.first + 1);
                    REQUIRE(share.share == whole[row][static_cast<size_t>(share.first)]);
                    return;
                }
                float sum = 0;
                int64_t sharing = 0;
                for (int64_t key = share.bin_first; key < share.bin_end; ++key) {
                    if (strongest.contains(static_cast<int32_t>(key))) continue;
                    sum += half_to_float(whole[row][static_cast<size_t>(key)]);
                    ++sharing;
                }
                REQUIRE(share.sum == float_to_half(sum));
                REQUIRE(share.sharing == sharing);
                REQUIRE(share.share == float_to_half(half_to_float(share.sum) / static_cast<float>(sharing)));
                for (int64_t key = share.first; key < share.end; ++key)
                    REQUIRE_FALSE(strongest.contains(static_cast<int32_t>(key)));
                REQUIRE(share_of_key(rows, row, share.first).sum == share.sum);
            });
            REQUIRE(next == keys);
            for (const int32_t key : strongest)
                REQUIRE(share_of_key(rows, row, key).exact());
        }
        CHECK(rows.bytes() <= 5 * 60);
    }
}

TEST_CASE("a reader of attention rows is told how much of them is known", "[record]") {
    AttentionRows rows;
    rows.heads = 1;
    rows.layers = {0};
    rows.keys = 10;
    rows.weights.assign(10, float_to_half(0.125F));
    CHECK(resolution_of(rows) == AttentionResolution{0, 1, 10});
    CHECK(share_of_key(rows, 0, 7).exact());
    rows.edges = {0, 1, 4, 8, 9, 10};
    rows.exact = 1;
    rows.exact_keys = {5};
    rows.weights.resize(6);
    CHECK(resolution_of(rows) == AttentionResolution{2, 4, 4});
    CHECK(share_of_key(rows, 0, 5).exact());
    CHECK(share_of_key(rows, 0, 6).sharing == 3); // of 4 keys of its bin
    CHECK(share_of_key(rows, 0, 6).first == 6);
    CHECK(share_of_key(rows, 0, 4).end == 5);
    CHECK_THROWS_AS(share_of_key(rows, 0, 10), InvariantError);
    CHECK_THROWS_AS(share_of_key(rows, 1, 0), InvariantError);
}

} // namespace attention_rows_test
