// Steps whose kernels write a pooled cache themselves, against the same steps written through the host: the kernels are a few lines here.
#include "engine/cache/kv_cache.h"
#include "kernels/decode/launch_shapes.h"
#include "tests/support/seed.h"

#include <ATen/ATen.h>
#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cstring>
#include <map>
#include <random>

namespace listed_steps_test {

using namespace refreshlab;

namespace {

constexpr int64_t layers = 2, kv_heads = 3, head_dim = 4, capacity = 400;
constexpr size_t row_bytes = head_dim * sizeof(float);

/// What the device keeps, and what its kernels do with a step.
class Kernels {
public:
    /// \param k, v  [layers][1, kv_heads, head_dim] of the new position
    void step(KvCache& cache, const std::vector<at::Tensor>& k, const std::vector<at::Tensor>& v) {
        const PoolLists told =
            cache.tell_kernels([this](uint64_t id, uint64_t version, int64_t list_capacity) {
                return id == m_cache && version == m_version && list_capacity == m_capacity;
            });
        wholes += told.whole ? 1 : 0;
        REQUIRE(std::ssize(told.offsets) == layers * kv_heads + 1);
        REQUIRE(std::ssize(told.leaving) <= kernels::decode::most_list_edits(layers * kv_heads));
        std::vector<std::byte> rows(told.leaving.size() * 2 * row_bytes);
        for (size_t i = 0; i < told.leaving.size(); ++i) {
            for (size_t half = 0; half < 2; ++half) {
                void* const row = half == 0 ? told.leaving[i].key : told.leaving[i].value;
                std::memcpy(rows.data() + (2 * i + half) * row_bytes, row, row_bytes);
                std::memset(row, 0xFF, row_bytes);
            }
        }
        for (int64_t plane = 0; plane < layers * kv_heads; ++plane) {
            const auto at = static_cast<size_t>(plane);
            const auto first = told.entries.begin() + told.offsets[at],
                       last = told.entries.begin() + told.offsets[at + 1];
            std::map<int32_t, int32_t>& list = m_lists[at];
            if (told.whole) list.clear();
            REQUIRE((told.whole || last - first <= kernels::decode::most_plane_edits));
            for (auto edit = first; edit != last; ++edit) {
                list.erase(edit->position);
                if (edit->column >= 0) list[edit->position] = edit->column;
            }
            // The host's list is the truth.
            const int64_t layer = plane / kv_heads, head = plane % kv_heads;
            const kernels::KeyList& held = cache.lists(layer)[static_cast<size_t>(head)];
            REQUIRE(std::ssize(list) == held.n);
            REQUIRE(held.n <= told.list_capacity);
            int64_t i = 0;
            for (const auto& [position, column] : list) {
                REQUIRE(held.positions[i] == position);
                REQUIRE(held.columns[i++] == column);
            }
            REQUIRE(list.rbegin()->first == cache.length());
            const auto write = [&](void* pool, const at::Tensor& row) {
                std::memcpy(static_cast<std::byte*>(pool) +
                                static_cast<size_t>(list.rbegin()->second) * row_bytes,
                            row[0][head].contiguous().const_data_ptr(), row_bytes);
            };
            write(told.pools[static_cast<size_t>(layer)].k, k[static_cast<size_t>(layer)]);
            write(told.pools[static_cast<size_t>(layer)].v, v[static_cast<size_t>(layer)]);
        }
        m_cache = told.cache;
        m_version = told.version + 1;
        m_capacity = told.list_capacity;
        cache.kernels_are_done(rows.data());
    }
    int wholes = 0; ///< steps that brought whole lists

private:
    std::map<int32_t, int32_t> m_lists[layers * kv_heads]; ///< position -> column
    uint64_t m_cache = 0, m_version = 0;
    int64_t m_capacity = 0;
};

bool same(const KvCache& a, const KvCache& b) {
    for (int64_t layer = 0; layer < layers; ++layer) {
        for (int64_t head = 0; head < kv_heads; ++head) {
            const auto held = a.held(layer, head);
            if (!std::ranges::equal(held, b.held(layer, head))) return false;
            if (!at::equal(a.read(layer, head, held), b.read(layer, head, held))) return false;
        }
    }
    return a.length() == b.length() && a.bytes_used() == b.bytes_used();
}

/// Rows of a layer's pool that are no NaN.
int64_t numbers(const KvCache& cache, int64_t layer) {
    return cache.entries(layer).k[0].isnan().all(1).logical_not().sum().item<int64_t>();
}
int64_t held(const KvCache& cache, int64_t layer) {
    int64_t n = 0;
    for (int64_t head = 0; head < kv_heads; ++head)
        n += std::ssize(cache.held(layer, head));
    return n;
}

} // namespace

TEST_CASE("steps written by kernels leave what steps through the host leave, whatever comes between",
          "[cache][pool]") {
    const uint32_t seed = test::seed(81);
    INFO("seed " << seed);
    std::mt19937 random(seed);
    auto draws = at::make_generator<at::CPUGeneratorImpl>(seed);
    for (int round = 0; round < 8; ++round) {
        const bool steady = round < 2; // one entry goes for each that comes
        KvCache plain(layers, kv_heads, capacity, head_dim, at::kFloat, at::kCPU, CacheLayout::pooled),
            listed(layers, kv_heads, capacity, head_dim, at::kFloat, at::kCPU, CacheLayout::pooled);
        const auto both = [&](const auto& edit) {
            edit(plain);
            edit(listed);
        };
        const auto rows = [&](int64_t n) { return at::randn({n, kv_heads, head_dim}, draws); };
        for (int64_t layer = 0; layer < layers; ++layer) {
            const at::Tensor k = rows(60), v = rows(60);
            both([&](KvCache& cache) { cache.write(layer, k, v); });
        }
        both([](KvCache& cache) { cache.commit(60, Origin::teacher_prefill); });
        Kernels kernels;
        const auto evict = [&](int64_t most, int64_t step) {
            for (int64_t layer = 0; layer < layers; ++layer) {
                for (int64_t head = 0; head < kv_heads; ++head) {
                    const auto all = plain.held(layer, head);
                    std::vector<int64_t> some;
                    std::ranges::sample(all.first(all.size() - 1), std::back_inserter(some), most, random);
                    both([&](KvCache& cache) { cache.evict(layer, head, some, step); });
                }
            }
        };
        int64_t steps = 0;
        for (int64_t step = 1; step <= 60; ++step) {
            std::vector<at::Tensor> k, v;
            for (int64_t layer = 0; layer < layers; ++layer) {
                k.push_back(rows(1));
                v.push_back(rows(1));
                plain.write(layer, k.back(), v.back());
            }
            listed.begin_listed_step();
            if (!steady && random() % 8 == 0) { // given up, and begun again
                for (int64_t layer = 0; layer < layers; ++layer)
                    plain.write(layer, k[static_cast<size_t>(layer)], v[static_cast<size_t>(layer)]);
                listed.begin_listed_step();
            }
            if (!steady && random() % 3 == 0)
                evict(static_cast<int64_t>(random() % 3), step); // before attention
            kernels.step(listed, k, v);
            for (int64_t layer = 0; layer < layers; ++layer) // all that left has left
                CHECK(numbers(listed, layer) == held(listed, layer));
            evict(steady ? 1 : static_cast<int64_t>(random() % (step % 20 == 0 ? 40 : 3)), step);
            both([](KvCache& cache) { cache.commit(1, Origin::student); });
            ++steps;
            REQUIRE(same(plain, listed));
            if (steady) continue;
            const auto positions = plain.held(0, 1);
            if (random() % 5 == 0 && positions.size() >= 2) {
                const std::vector<int64_t> some(positions.begin(), positions.begin() + 2);
                const at::Tensor other = at::randn({2, 2, head_dim}, draws);
                both([&](KvCache& cache) { cache.overwrite(0, 1, some, other, step); });
            }
            if (random() % 9 == 0) { // the clone has the journal's bits too
                const auto copy = listed.clone();
                copy->rewind(step / 2, 60 + step / 2);
                const auto expected = plain.clone();
                expected->rewind(step / 2, 60 + step / 2);
                CHECK(same(*expected, *copy));
            }
            if (step > 10 && random() % 9 == 0) {
                const int64_t to = step - static_cast<int64_t>(random() % 8);
                both([&](KvCache& cache) { cache.rewind(to, 60 + to); });
                REQUIRE(same(plain, listed));
                for (int64_t layer = 0; layer < layers; ++layer)
                    CHECK(numbers(listed, layer) == held(listed, layer));
                step = to;
            }
            if (steps > 200) break;
        }
        if (steady) CHECK(kernels.wholes == 1); // the first step alone
        both([](KvCache& cache) { cache.rewind(0, 60); });
        CHECK(same(plain, listed));
    }
}

} // namespace listed_steps_test
