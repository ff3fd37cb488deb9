#include "engine/base/check.h"
#include "engine/cache/kv_cache.h"
#include "tests/support/seed.h"

#include <ATen/ATen.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <map>
#include <random>

namespace kv_cache_test {

using refreshlab::InvariantError;
using refreshlab::KvCache;
using refreshlab::Origin;

namespace {

constexpr int64_t layers = 3, kv_heads = 2, capacity = 40, head_dim = 5;

std::unique_ptr<KvCache> make_cache(at::ScalarType dtype = at::kFloat, int64_t columns = capacity) {
    return std::make_unique<KvCache>(layers, kv_heads, columns, head_dim, dtype, at::kCPU);
}

/// Columns as they were given, kept the naive way: the test's own append layout.
struct Columns {
    at::Tensor k, v; ///< [layers, kv_heads, n, head_dim]
};

Columns random_columns(int64_t n, at::Generator& generator) {
    const auto make = [&] {
        return at::empty({layers, kv_heads, n, head_dim}, at::kFloat).normal_(0.0, 1.0, generator);
    };
    return {make(), make()};
}

void append(KvCache& cache, const Columns& columns, Origin origin) {
    const int64_t n = columns.k.size(2);
    for (int64_t layer = 0; layer < layers; ++layer) {
        cache.write(layer, columns.k[layer].transpose(0, 1), columns.v[layer].transpose(0, 1));
    }
    cache.commit(n, origin);
}

/// Everything that a reader can see.
struct Snapshot {
    at::Tensor k, v;
    std::vector<Origin> origins;
    std::vector<int32_t> refresh_ids;

    explicit Snapshot(const KvCache& cache)
        : k(cache.keys(0, cache.length()).clone())
        , v(cache.values(0, cache.length()).clone())
        , origins(cache.origins().begin(), cache.origins().end())
        , refresh_ids(cache.refresh_ids().begin(), cache.refresh_ids().end()) {}

    [[nodiscard]] bool operator==(const Snapshot& other) const {
        return k.sizes() == other.k.sizes() && at::equal(k, other.k) && at::equal(v, other.v) &&
               origins == other.origins && refresh_ids == other.refresh_ids;
    }
};

} // namespace

TEST_CASE("written columns are found by layer, head and absolute position", "[cache]") {
    const auto dtype = GENERATE(at::kFloat, at::kBFloat16, at::kHalf);
    at::Generator generator = at::detail::createCPUGenerator(1);
    const auto cache = make_cache(dtype);
    at::Tensor k = at::empty({layers, kv_heads, 0, head_dim});
    at::Tensor v = k;
    for (const int64_t n : {3, 1, 7, 1, 1}) {
        const Columns columns = random_columns(n, generator);
        append(*cache, columns, Origin::student);
        k = at::cat({k, columns.k}, 2);
        v = at::cat({v, columns.v}, 2);
    }
    CHECK(cache->length() == 13);
    CHECK(at::equal(cache->keys(0, 13), k.to(dtype)));
    CHECK(at::equal(cache->values(0, 13), v.to(dtype)));
    CHECK(at::equal(cache->keys(4, 5), k.narrow(2, 4, 5).to(dtype)));
    for (int64_t layer = 0; layer < layers; ++layer) {
        CHECK(cache->keys(layer).sizes() == at::IntArrayRef{kv_heads, capacity, head_dim});
        CHECK(at::equal(cache->values(layer).narrow(1, 0, 13), v[layer].to(dtype)));
    }
    CHECK(cache->dtype() == dtype);
    CHECK(cache->bytes_reserved() ==
          2 * layers * kv_heads * capacity * head_dim * (dtype == at::kFloat ? 4 : 2));
    CHECK(cache->bytes_used() == cache->bytes_reserved() * 13 / capacity);
    CHECK(cache->journal_bytes() == 0);
}

TEST_CASE("the length moves once per step, and only when every layer has written", "[cache]") {
    at::Generator generator = at::detail::createCPUGenerator(2);
    const auto cache = make_cache();
    const Columns two = random_columns(2, generator);
    const auto write = [&](int64_t layer, int64_t n) {
        cache->write(layer, two.k[layer].narrow(1, 0, n).transpose(0, 1),
                     two.v[layer].narrow(1, 0, n).transpose(0, 1));
    };
    write(0, 2);
    write(1, 2);
    CHECK(cache->length() == 0);
    CHECK_THROWS_AS(cache->commit(2, Origin::student), InvariantError); // layer 2 is missing
    write(2, 1);
    CHECK_THROWS_AS(cache->commit(2, Origin::student), InvariantError); // and has one of two
    write(2, 2);
    cache->commit(2, Origin::student);
    CHECK(cache->length() == 2);
    CHECK_THROWS_AS(cache->commit(2, Origin::student), InvariantError); // nothing new written
    CHECK(cache->length() == 2);
}

TEST_CASE("a splice copies the teacher's bits at equal positions and touches no other column", "[cache]") {
    at::Generator generator = at::detail::createCPUGenerator(3);
    const auto dtype = GENERATE(at::kFloat, at::kBFloat16);
    const auto student = make_cache(dtype);
    const auto teacher = make_cache(dtype, 64); // capacities may differ
    append(*student, random_columns(20, generator), Origin::student);
    append(*teacher, random_columns(17, generator), Origin::teacher_decode);
    const Snapshot before(*student);
    const Snapshot teacher_before(*teacher);
    student->splice(*teacher, 9, 4, 5, 30);
    const Snapshot after(*student);
    CHECK(at::equal(after.k.narrow(2, 9, 4), teacher->keys(9, 4)));
    CHECK(at::equal(after.v.narrow(2, 9, 4), teacher->values(9, 4)));
    for (const auto& [first, n] : {std::pair<int64_t, int64_t>{0, 9}, {13, 7}}) {
        CHECK(at::equal(after.k.narrow(2, first, n), before.k.narrow(2, first, n)));
        CHECK(at::equal(after.v.narrow(2, first, n), before.v.narrow(2, first, n)));
    }
    for (int64_t p = 0; p < 20; ++p) {
        const bool spliced = p >= 9 && p < 13;
        CHECK(student->origin(p) == (spliced ? Origin::teacher_refresh : Origin::student));
        CHECK(student->refresh_ids()[static_cast<size_t>(p)] == (spliced ? 5 : -1));
    }
    CHECK(Snapshot(*teacher) == teacher_before);
    CHECK(student->journal_bytes() > 0);
    student->splice(*teacher, 0, 0, 6, 31); // nothing to copy, nothing to undo
    student->rewind(30, 20);
    CHECK(Snapshot(*student) == after);
    student->rewind(29, 20);
    CHECK(Snapshot(*student) == before);
    CHECK(student->journal_bytes() == 0);
}

TEST_CASE("rewinding restores the columns and origins of every earlier step, bit for bit", "[cache]") {
    const uint64_t seed = refreshlab::test::seed(20240512);
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    at::Generator generator = at::detail::createCPUGenerator(seed);
    const auto pick = [&](int64_t low, int64_t high) {
        return std::uniform_int_distribution<int64_t>(low, high)(random);
    };
    for (int round = 0; round < 60; ++round) {
        CAPTURE(round);
        auto student = make_cache();
        const auto teacher = make_cache();
        append(*teacher, random_columns(capacity, generator), Origin::teacher_decode);
        student->adopt_prefix(*teacher, 4);
        std::map<int64_t, Snapshot> after_step; // as step s left the cache
        after_step.emplace(0, Snapshot(*student));
        int64_t step = 0;
        int32_t refresh = 0;
        for (int event = 0; event < 60; ++event) {
            if (pick(0, 6) == 0 && step > 0) {
                const int64_t target = pick(0, step);
                const Snapshot& then = after_step.at(target);
                student->rewind(target, then.k.size(2));
                REQUIRE(Snapshot(*student) == then);
                step = target;
                after_step.erase(after_step.upper_bound(step), after_step.end());
            }
            if (student->length() == capacity) continue;
            ++step;
            append(*student, random_columns(1, generator), Origin::student);
            for (int64_t splices = pick(0, 2); splices > 0; --splices) {
                const int64_t first = pick(4, student->length());
                const int64_t n = pick(0, student->length() - first);
                if (pick(0, 3) == 0) {
                    student->mark_skipped(first, n, refresh++, step);
                } else {
                    student->splice(*teacher, first, n, refresh++, step);
                }
            }
            after_step.insert_or_assign(step, Snapshot(*student));
            if (pick(0, 9) == 0) student = student->clone(); // the journal travels along
        }
    }
}

TEST_CASE("truncating drops columns for good: a later rewind does not bring them back", "[cache]") {
    at::Generator generator = at::detail::createCPUGenerator(5);
    const auto student = make_cache();
    const auto teacher = make_cache();
    append(*teacher, random_columns(20, generator), Origin::teacher_decode);
    append(*student, random_columns(10, generator), Origin::student);
    const Snapshot original(*student);
    student->splice(*teacher, 4, 6, 0, 10);
    student->truncate(7);
    CHECK(student->length() == 7);
    CHECK(student->origins().size() == 7);
    append(*student, random_columns(3, generator), Origin::student);
    const Snapshot grown(*student);
    student->rewind(9, 10);
    const Snapshot rewound(*student);
    CHECK(at::equal(rewound.k.narrow(2, 0, 7), original.k.narrow(2, 0, 7)));
    CHECK(at::equal(rewound.v.narrow(2, 7, 3), grown.v.narrow(2, 7, 3)));
    CHECK(student->origin(5) == Origin::student);
}

TEST_CASE("the hand-over copies a prefix with its origins, and the copies live apart", "[cache]") {
    at::Generator generator = at::detail::createCPUGenerator(7);
    const auto teacher = make_cache();
    append(*teacher, random_columns(6, generator), Origin::teacher_prefill);
    append(*teacher, random_columns(3, generator), Origin::teacher_decode);
    const Snapshot before(*teacher);
    const auto student = make_cache(at::kFloat, 16);
    student->adopt_prefix(*teacher, 7);
    CHECK(student->length() == 7);
    CHECK(at::equal(student->keys(0, 7), teacher->keys(0, 7)));
    CHECK(at::equal(student->values(0, 7), teacher->values(0, 7)));
    CHECK(student->origin(5) == Origin::teacher_prefill);
    CHECK(student->origin(6) == Origin::teacher_decode);
    append(*student, random_columns(2, generator), Origin::student);
    student->keys(0, 3).fill_(1.0);
    CHECK(Snapshot(*teacher) == before);
    CHECK_THROWS_AS(student->adopt_prefix(*teacher, 1), InvariantError); // not empty
    CHECK_THROWS_AS(make_cache()->adopt_prefix(*teacher, 10), InvariantError);
}

TEST_CASE("a clone is a cache of its own", "[cache]") {
    at::Generator generator = at::detail::createCPUGenerator(8);
    const auto cache = make_cache();
    const auto teacher = make_cache();
    append(*teacher, random_columns(12, generator), Origin::teacher_decode);
    append(*cache, random_columns(12, generator), Origin::student);
    const Snapshot original(*cache);
    cache->splice(*teacher, 3, 5, 1, 8);
    const Snapshot spliced(*cache);
    const auto clone = cache->clone();
    CHECK(Snapshot(*clone) == spliced);
    cache->rewind(7, 12);
    CHECK(Snapshot(*cache) == original);
    CHECK(Snapshot(*clone) == spliced);
    clone->splice(*teacher, 0, 12, 2, 9);
    clone->rewind(7, 12);
    CHECK(Snapshot(*clone) == original);
}

TEST_CASE("misuse is an InvariantError", "[cache]") {
    at::Generator generator = at::detail::createCPUGenerator(9);
    const auto cache = make_cache();
    const auto teacher = make_cache();
    append(*cache, random_columns(10, generator), Origin::student);
    append(*teacher, random_columns(8, generator), Origin::teacher_decode);
    CHECK_THROWS_AS(cache->splice(*teacher, 5, 4, 0, 1), InvariantError); // past the teacher
    CHECK_THROWS_AS(teacher->splice(*cache, 7, 2, 0, 1), InvariantError); // past the student
    CHECK_THROWS_AS(cache->splice(*teacher, -1, 2, 0, 1), InvariantError);
    CHECK_THROWS_AS(cache->splice(*cache, 0, 2, 0, 1), InvariantError);
    CHECK_THROWS_AS(cache->splice(*make_cache(at::kBFloat16), 0, 0, 0, 1), InvariantError);
    CHECK_THROWS_AS(cache->mark_skipped(9, 2, 0, 1), InvariantError);
    CHECK_THROWS_AS(cache->truncate(11), InvariantError);
    CHECK_THROWS_AS(cache->truncate(-1), InvariantError);
    CHECK_THROWS_AS(cache->rewind(0, 11), InvariantError);
    CHECK_THROWS_AS(cache->keys(8, 3), InvariantError);
    CHECK_THROWS_AS(cache->origin(10), InvariantError);
    CHECK_THROWS_AS(append(*cache, random_columns(31, generator), Origin::student), InvariantError);
    cache->splice(*teacher, 1, 2, 0, 5);
    CHECK_THROWS_AS(cache->splice(*teacher, 1, 2, 1, 4),
                    InvariantError); // steps never go back without a rewind
    CHECK(cache->length() == 10);
}

#ifndef NDEBUG
TEST_CASE("columns that hold nothing read as NaN", "[cache]") {
    at::Generator generator = at::detail::createCPUGenerator(10);
    const auto cache = make_cache();
    CHECK(cache->keys(0).isnan().all().item<bool>());
    append(*cache, random_columns(10, generator), Origin::student);
    cache->truncate(6);
    for (int64_t layer = 0; layer < layers; ++layer) {
        CHECK(cache->keys(layer).narrow(1, 6, capacity - 6).isnan().all().item<bool>());
        CHECK(cache->values(layer).narrow(1, 6, capacity - 6).isnan().all().item<bool>());
        CHECK_FALSE(cache->keys(layer).narrow(1, 0, 6).isnan().any().item<bool>());
    }
}
#endif

} // namespace kv_cache_test
