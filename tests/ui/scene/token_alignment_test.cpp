// Two texts beside each other: what is said to differ, against plain references and under changes whose outcome is known.
#include "tests/support/seed.h"
#include "ui/scene/runs/token_alignment.h"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <array>
#include <random>
#include <span>
#include <vector>

namespace token_alignment_test {

using namespace refreshlab::ui;
using refreshlab::test::seed;
using Side = TokenAlignment::Side;

namespace {

using Tokens = std::vector<int32_t>;

TokenAlignment aligned(const Tokens& first, const Tokens& second) {
    TokenAlignment alignment;
    for (const int32_t token : first)
        alignment.append_first(token);
    for (const int32_t token : second)
        alignment.append_second(token);
    alignment.align();
    return alignment;
}

/// Fewest edits until one of the two ends, by the plain recurrence.
int64_t fewest_edits(const Tokens& a, const Tokens& b) {
    std::vector<int64_t> row(b.size() + 1);
    int64_t fewest = static_cast<int64_t>(std::max(a.size(), b.size()));
    for (size_t i = 0; i <= a.size(); ++i) {
        int64_t diagonal = 0;
        for (size_t j = 0; j <= b.size(); ++j) {
            const int64_t above = row[j];
            if (i == 0)
                row[j] = static_cast<int64_t>(j);
            else if (j == 0)
                row[j] = static_cast<int64_t>(i);
            else
                row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)});
            diagonal = above;
            if (i == a.size() || j == b.size()) fewest = std::min(fewest, row[j]);
        }
    }
    return fewest;
}

Tokens random_tokens(std::mt19937& random, size_t count, int32_t kinds) {
    Tokens tokens(count);
    for (int32_t& token : tokens)
        token = static_cast<int32_t>(random() % static_cast<uint32_t>(kinds));
    return tokens;
}

std::vector<size_t> differing(const TokenAlignment& alignment, Side side) {
    std::vector<size_t> places;
    for (size_t i = 0; i < alignment.size(side); ++i)
        if (alignment.differs(side, i)) places.push_back(i);
    return places;
}

/// Partners belong to each other, in the order of both texts; edits are those that the marks say.
void check_sound(const TokenAlignment& alignment, const Tokens& a, const Tokens& b) {
    size_t next = 0;
    int64_t edits = 0;
    for (size_t i = 0; i < alignment.compared(Side::first); ++i) {
        const auto partner = alignment.partner(Side::first, i);
        if (!partner) {
            REQUIRE(alignment.differs(Side::first, i));
            ++edits;
            continue;
        }
        REQUIRE(*partner >= next);
        REQUIRE(*partner < b.size());
        REQUIRE(alignment.partner(Side::second, *partner) == i);
        REQUIRE(alignment.differs(Side::first, i) == (a[i] != b[*partner]));
        edits += a[i] == b[*partner] ? 0 : 1;
        next = *partner + 1;
    }
    for (size_t j = 0; j < alignment.compared(Side::second); ++j)
        edits += alignment.partner(Side::second, j) ? 0 : 1;
    REQUIRE(alignment.edits() == edits);
    // One of the two is compared to its end.
    REQUIRE((alignment.compared(Side::first) == a.size() || alignment.compared(Side::second) == b.size()));
}

} // namespace

TEST_CASE("short texts are aligned with the fewest edits", "[runs]") {
    std::mt19937 random(seed(1501));
    for (int round = 0; round < 200; ++round) {
        const int32_t kinds = round % 2 == 0 ? 3 : 40;
        const Tokens a = random_tokens(random, random() % 60, kinds),
                     b = random_tokens(random, random() % 60, kinds);
        const TokenAlignment alignment = aligned(a, b);
        check_sound(alignment, a, b);
        REQUIRE(alignment.edits() == fewest_edits(a, b));
    }
}

TEST_CASE("a piece that one text has alone marks nothing of what follows", "[runs]") {
    std::mt19937 random(seed(1502));
    for (int round = 0; round < 30; ++round) {
        // Tokens of a kind each: the piece cannot be taken for another place.
        Tokens whole(300 + random() % 1500);
        for (size_t i = 0; i < whole.size(); ++i)
            whole[i] = static_cast<int32_t>(i);
        const size_t piece = 1 + random() % 100, at = random() % (whole.size() - piece);
        Tokens less = whole;
        less.erase(less.begin() + static_cast<ptrdiff_t>(at),
                   less.begin() + static_cast<ptrdiff_t>(at + piece));
        for (const bool swapped : {false, true}) {
            const TokenAlignment alignment = swapped ? aligned(less, whole) : aligned(whole, less);
            const Side longer = swapped ? Side::second : Side::first,
                       shorter = swapped ? Side::first : Side::second;
            INFO("piece of " << piece << " at " << at << " of " << whole.size());
            check_sound(alignment, swapped ? less : whole, swapped ? whole : less);
            const size_t behind = whole.size() - at - piece;
            if (behind <= piece) continue; // so near the end other tokens are fewer edits than a piece more
            REQUIRE(differing(alignment, shorter).empty());
            const auto marked = differing(alignment, longer);
            REQUIRE(marked.size() == piece);
            REQUIRE(marked.front() == at);
            REQUIRE(marked.back() == at + piece - 1);
        }
    }
}

TEST_CASE("scattered edits of a long text are found, each alone", "[runs]") {
    std::mt19937 random(seed(1503));
    for (int round = 0; round < 20; ++round) {
        Tokens a(3000), b;
        for (size_t i = 0; i < a.size(); ++i)
            a[i] = static_cast<int32_t>(i);
        int64_t made = 0;
        for (size_t i = 0; i < a.size(); ++i) {
            const uint32_t dice = i % 20 == 10 && i < 2900 ? random() % 6 : 6;
            if (dice == 0) { // one less
            } else if (dice == 1) {
                b.push_back(90000 + static_cast<int32_t>(i)); // another
            } else if (dice == 2) {
                b.push_back(90000 + static_cast<int32_t>(i)); // one more
                b.push_back(a[i]);
            } else {
                b.push_back(a[i]);
            }
            made += dice <= 2 ? 1 : 0;
        }
        const TokenAlignment alignment = aligned(a, b);
        check_sound(alignment, a, b);
        REQUIRE(alignment.edits() == made);
        for (const size_t place : differing(alignment, Side::first))
            REQUIRE(place % 20 == 10);
    }
}

TEST_CASE("an alignment does not depend on how the texts came", "[runs]") {
    std::mt19937 random(seed(1504));
    for (int round = 0; round < 6; ++round) {
        const Tokens a = random_tokens(random, 100 + random() % 800, 6),
                     b = random_tokens(random, 100 + random() % 800, 6);
        const TokenAlignment whole = aligned(a, b);
        check_sound(whole, a, b);
        TokenAlignment grown;
        for (size_t i = 0, j = 0; i < a.size() || j < b.size(); grown.align()) {
            for (size_t n = random() % 60; n > 0 && i < a.size(); --n)
                grown.append_first(a[i++]);
            for (size_t n = random() % 60; n > 0 && j < b.size(); --n)
                grown.append_second(b[j++]);
        }
        REQUIRE(grown.edits() == whole.edits());
        for (const Side side : {Side::first, Side::second}) {
            REQUIRE(grown.compared(side) == whole.compared(side));
            for (size_t i = 0; i < whole.size(side); ++i) {
                REQUIRE(grown.partner(side, i) == whole.partner(side, i));
                REQUIRE(grown.differs(side, i) == whole.differs(side, i));
            }
        }
    }
}

TEST_CASE("what one text has after the other's end is not compared", "[runs]") {
    const TokenAlignment alignment = aligned({1, 2, 9, 4, 5, 6, 7}, {1, 2, 3, 4});
    CHECK(differing(alignment, Side::first) == std::vector<size_t>{2});
    CHECK(differing(alignment, Side::second) == std::vector<size_t>{2});
    CHECK(alignment.partner(Side::first, 2) == 2);
    CHECK_FALSE(alignment.partner(Side::first, 5));
    CHECK(alignment.compared(Side::first) == 4);
    const TokenAlignment nothing = aligned({}, {1, 2});
    CHECK(nothing.edits() == 0);
    CHECK(differing(nothing, Side::second).empty());
}

} // namespace token_alignment_test
