// The undo journal alone: what it hands out, and what a cut leaves of it.
#include "engine/base/check.h"
#include "engine/cache/undo_journal.h"

#include <ATen/ATen.h>
#include <catch2/catch_test_macros.hpp>

namespace undo_journal_test {

using namespace refreshlab;

namespace {

constexpr int64_t layers = 2, kv_heads = 3, head_dim = 4;

/// n columns from a position on; every number of column i is `first_pos` + i.
ReplacedColumns columns(int64_t first_pos, int64_t n) {
    ReplacedColumns old;
    old.first_pos = first_pos;
    old.kept.k = at::arange(first_pos, first_pos + n, at::kFloat)
                     .reshape({1, 1, n, 1})
                     .expand({layers, kv_heads, n, head_dim})
                     .clone();
    old.kept.v = old.kept.k + 0.5;
    for (int64_t i = 0; i < n; ++i) {
        old.origins.push_back(i % 2 == 0 ? Origin::student : Origin::skipped);
        old.refresh_ids.push_back(static_cast<int32_t>(first_pos + i));
    }
    return old;
}

/// Entries of one head; every number of one is its position.
ReplacedEntries entries(std::vector<int64_t> positions) {
    ReplacedEntries old;
    old.layer = 1;
    old.kv_head = 2;
    old.saved.rows = at::tensor(positions, at::kFloat)
                         .reshape({1, std::ssize(positions), 1})
                         .expand({2, std::ssize(positions), head_dim})
                         .clone();
    old.positions = std::move(positions);
    return old;
}

/// The steps of a journal's entries, newest first, which are gone afterwards.
std::vector<int64_t> steps_of(UndoJournal journal) {
    std::vector<int64_t> steps;
    for (; const JournalEntry* entry = journal.newest_after(-1); journal.drop_newest())
        steps.push_back(entry->step);
    return steps;
}

} // namespace

TEST_CASE("the journal hands out what is newer than a step, the newest first", "[cache][journal]") {
    UndoJournal journal;
    CHECK(journal.newest_after(-1) == nullptr);
    CHECK_THROWS_AS(journal.drop_newest(), InvariantError);
    for (const int64_t step : {0, 3, 3, 7})
        journal.add(step, entries({step, step + 1}));
    CHECK(steps_of(journal) == std::vector<int64_t>{7, 3, 3, 0});
    CHECK(journal.newest_after(7) == nullptr);
    REQUIRE(journal.newest_after(6) != nullptr);
    CHECK(std::get<ReplacedEntries>(journal.newest_after(6)->replaced).positions ==
          std::vector<int64_t>{7, 8});
    CHECK_THROWS_AS(journal.add(6, columns(0, 1)), InvariantError);
    while (journal.newest_after(2) != nullptr)
        journal.drop_newest();
    CHECK(steps_of(journal) == std::vector<int64_t>{0});
    journal.add(1, columns(0, 1)); // a run that was rewound goes on with lower steps
    CHECK(steps_of(journal) == std::vector<int64_t>{1, 0});
}

TEST_CASE("a cut forgets what is behind it, in the middle of an entry too", "[cache][journal]") {
    UndoJournal journal;
    journal.add(1, columns(10, 4));
    journal.add(2, entries({3, 11, 12, 20}));
    journal.add(3, columns(12, 3)); // wholly behind
    journal.add(4, entries({12, 13}));
    journal.add(5, columns(8, 4)); // wholly before
    const UndoJournal whole = journal;
    journal.cut(12);
    CHECK(steps_of(journal) == std::vector<int64_t>{5, 2, 1});
    CHECK(journal.bytes() < whole.bytes());

    const auto& before = std::get<ReplacedColumns>(journal.newest_after(4)->replaced);
    CHECK(before.origins.size() == 4);
    CHECK(at::equal(before.kept.k, columns(8, 4).kept.k));
    journal.drop_newest();
    const auto& rows = std::get<ReplacedEntries>(journal.newest_after(1)->replaced);
    CHECK(rows.positions == std::vector<int64_t>{3, 11});
    CHECK(at::equal(rows.saved.rows, entries({3, 11}).saved.rows));
    journal.drop_newest();
    const auto& cut = std::get<ReplacedColumns>(journal.newest_after(0)->replaced);
    CHECK((cut.origins == columns(10, 2).origins && cut.refresh_ids == columns(10, 2).refresh_ids));
    CHECK((at::equal(cut.kept.k, columns(10, 2).kept.k) && at::equal(cut.kept.v, columns(10, 2).kept.v)));

    // A copy shares tensors and is cut by itself.
    CHECK(steps_of(whole) == std::vector<int64_t>{5, 4, 3, 2, 1});
    CHECK(at::equal(std::get<ReplacedColumns>(whole.newest_after(4)->replaced).kept.k, columns(8, 4).kept.k));
    journal.cut(0);
    CHECK(journal.newest_after(-1) == nullptr);
    CHECK(journal.bytes() == 0);
}

TEST_CASE("the memory of a cut entry is that of what is left", "[cache][journal]") {
    UndoJournal cut, small;
    cut.add(1, columns(0, 100));
    cut.add(2, entries({0, 1, 2, 50, 60}));
    cut.cut(3);
    small.add(1, columns(0, 3));
    small.add(2, entries({0, 1, 2}));
    CHECK(cut.bytes() == small.bytes());
    cut.drop_newest();
    const auto& left = std::get<ReplacedColumns>(cut.newest_after(0)->replaced);
    CHECK(left.kept.k.storage().nbytes() ==
          columns(0, 3).kept.k.storage().nbytes()); // no view of the old one
}

} // namespace undo_journal_test
