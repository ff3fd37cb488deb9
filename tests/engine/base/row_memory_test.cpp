#include "engine/base/row_memory.h"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <random>
#include <string>
#include <thread>
#include <vector>

using namespace refreshlab;

namespace {

using Row = RowVector<uint64_t>;

Row row_of(size_t n, uint64_t value) {
    Row row;
    row.resize(n);
    std::ranges::fill(row, value);
    return row;
}

bool holds(const Row& row, uint64_t value) {
    return std::ranges::all_of(row, [value](uint64_t x) { return x == value; });
}

/// Resident memory of this process, in MB.
double resident_mb() {
    std::ifstream in("/proc/self/statm");
    double total = 0, resident = 0;
    in >> total >> resident;
    return resident * 4096 / (1 << 20);
}

} // namespace

TEST_CASE("rows of any size keep their numbers while others come and go", "[row_memory]") {
    std::mt19937 random(20240611);
    // Bytes, kilobytes, megabytes, and more than a slab.
    constexpr size_t sizes[] = {1, 100, 2'000, 2'100, 5'000, 70'000, 140'000, 1'100'000, 2'500'000};
    std::vector<std::pair<Row, uint64_t>> rows;
    for (uint64_t i = 0; i < 600; ++i) {
        rows.emplace_back(row_of(sizes[random() % std::size(sizes)] + random() % 3, i), i);
        const auto* const data = rows.back().first.data();
        if (rows.back().first.size() > 2'048) CHECK(reinterpret_cast<uintptr_t>(data) % 64 == 0);
        while (rows.size() > 12) { // most often the oldest
            const size_t at = random() % 3 == 0 ? random() % rows.size() : 0;
            REQUIRE(holds(rows[at].first, rows[at].second));
            rows.erase(rows.begin() + static_cast<std::ptrdiff_t>(at));
        }
    }
    for (const auto& [row, value] : rows)
        REQUIRE(holds(row, value));
}

TEST_CASE("vectors of rows copy, move, grow and compare as vectors do", "[row_memory]") {
    Row row(5'000, 3);
    CHECK(holds(row, 3));
    const Row copy = row;
    CHECK(copy == row);
    row.push_back(4);
    CHECK(copy != row);
    const Row moved = std::move(row);
    CHECK(moved.size() == 5'001);
    CHECK(moved.back() == 4);
    CHECK(Row{1, 2, 3}.at(2) == 3);
}

TEST_CASE("memory of rows that are gone goes back to the system, also under rows that stay", "[row_memory]") {
#ifdef __SANITIZE_ADDRESS__
    SKIP("AddressSanitizer keeps freed memory");
#endif
    constexpr size_t n = 128 * 1024; // 1 MB
    const double before = resident_mb();
    std::vector<Row> rows, kept;
    for (uint64_t i = 0; i < 200; ++i)
        (i % 20 == 0 ? kept : rows).push_back(row_of(n, i));
    CHECK(resident_mb() - before > 190);
    rows.clear();
    CHECK(resident_mb() - before < 100); // ten stay, and 64 MB for the next
    for (size_t i = 0; i < kept.size(); ++i)
        CHECK(holds(kept[i], 20 * i));
    kept.clear();
    CHECK(resident_mb() - before < 90);
    for (uint64_t i = 0; i < 60; ++i) { // in the memory that is there
        rows.push_back(row_of(n, i));
        CHECK(holds(rows.back(), i));
    }
    CHECK(resident_mb() - before < 120);
}

TEST_CASE("pages are fetched once, ahead of rows, and without a change of what stands there",
          "[row_memory]") {
#ifdef __SANITIZE_ADDRESS__
    SKIP("AddressSanitizer has memory of its own");
#endif
    const auto bytes_of = [](const Row& row) { return row.size() * sizeof(uint64_t); };
    std::vector<Row> rows;
    int claims = 0;
    for (uint64_t i = 0; i < 800; ++i) { // 9 KB each: 7 MB
        rows.push_back(row_of(1'200, i));
        Row& row = rows.back();
        const auto fresh = RowMemory::claim_fresh(row.data(), bytes_of(row));
        CHECK(RowMemory::claim_fresh(row.data(), bytes_of(row)).empty());
        if (fresh.empty()) continue;
        ++claims;
        CHECK(fresh.data() + fresh.size() >= reinterpret_cast<std::byte*>(row.data()) + bytes_of(row));
        RowMemory::fetch(fresh.first(fresh.size() / 3));
        RowMemory::fetch(fresh.subspan(fresh.size() / 3));
    }
    CHECK(claims >= 20);
    CHECK(claims < 60);
    for (uint64_t i = 0; i < rows.size(); ++i)
        REQUIRE(holds(rows[i], i));
    Row small(3, 7);
    CHECK(RowMemory::claim_fresh(small.data(), bytes_of(small)).empty());
    Row large = row_of(2'500'000, 5); // more than a slab
    const auto fresh = RowMemory::claim_fresh(large.data(), bytes_of(large));
    CHECK(fresh.size() >= bytes_of(large));
    RowMemory::fetch(fresh);
    CHECK(holds(large, 5));
}

TEST_CASE("threads take rows and give back those of each other", "[row_memory]") {
    std::vector<Row> handed(4);
    for (int round = 0; round < 20; ++round) {
        std::vector<std::thread> threads;
        for (size_t t = 0; t < handed.size(); ++t) {
            threads.emplace_back([&, t] {
                Row mine = row_of(3'000 + 1'000 * t, t);
                Row other = row_of(40'000, t);
                handed[t] = std::move(mine);
            });
        }
        for (std::thread& thread : threads)
            thread.join();
        for (size_t t = 0; t < handed.size(); ++t)
            REQUIRE(holds(handed[t], t));
        std::ranges::rotate(handed, handed.begin() + 1);
        for (size_t t = 0; t < handed.size(); ++t)
            REQUIRE(handed[t].size() == 3'000 + 1'000 * ((t + 1) % 4));
    }
}
