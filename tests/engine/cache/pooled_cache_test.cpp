// The pooled layout against a plain map of what every KV head must hold.
#include "engine/base/check.h"
#include "engine/cache/kv_cache.h"
#include "tests/support/seed.h"

#include <ATen/ATen.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <algorithm>
#include <map>
#include <random>

namespace pooled_cache_test {

using namespace refreshlab;

namespace {

constexpr int64_t layers = 3, kv_heads = 2, head_dim = 4, capacity = 200;

std::unique_ptr<KvCache> make_cache(CacheLayout layout, at::ScalarType dtype = at::kFloat) {
    return std::make_unique<KvCache>(layers, kv_heads, capacity, head_dim, dtype, at::kCPU, layout);
}

/// Appends n random columns to all caches.
void append(std::initializer_list<KvCache*> caches, int64_t n, at::Generator random) {
    for (int64_t layer = 0; layer < layers; ++layer) {
        const at::Tensor k = at::randn({n, kv_heads, head_dim}, random),
                         v = at::randn({n, kv_heads, head_dim}, random);
        for (KvCache* cache : caches)
            cache->write(layer, k, v);
    }
    for (KvCache* cache : caches)
        cache->commit(n, Origin::student);
}

/// All that a cache holds, by layer, KV head and position.
using Contents = std::map<std::tuple<int64_t, int64_t, int64_t>, std::vector<float>>;
Contents contents(const KvCache& cache) {
    Contents all;
    for (int64_t layer = 0; layer < layers; ++layer) {
        for (int64_t head = 0; head < kv_heads; ++head) {
            const auto held = cache.held(layer, head);
            CHECK(std::ranges::is_sorted(held));
            for (const int64_t position : held) {
                const at::Tensor rows =
                    cache.read(layer, head, std::span(&position, 1)).to(at::kFloat).contiguous();
                const float* data = rows.const_data_ptr<float>();
                all[{layer, head, position}] = {data, data + rows.numel()};
            }
        }
    }
    return all;
}

std::vector<int64_t> some_of(std::span<const int64_t> held, std::mt19937& random) {
    std::vector<int64_t> some;
    std::ranges::sample(held, std::back_inserter(some),
                        static_cast<int64_t>(random() % (held.size() / 2 + 1)), random);
    return some;
}

} // namespace

TEST_CASE("a pooled cache that keeps everything holds what a dense one holds", "[cache][pool]") {
    const auto type = GENERATE(at::kFloat, at::kBFloat16, at::kHalf);
    const auto dense = make_cache(CacheLayout::dense, type), pooled = make_cache(CacheLayout::pooled, type);
    auto random = at::make_generator<at::CPUGeneratorImpl>(test::seed(71));
    for (const int64_t n : {17, 1, 40, 1, 1})
        append({dense.get(), pooled.get()}, n, random);
    CHECK((contents(*dense) == contents(*pooled)));
    CHECK(dense->bytes_used() == pooled->bytes_used());
    for (int64_t layer = 0; layer < layers; ++layer) {
        const LayerEntries entries = pooled->entries(layer);
        for (int64_t head = 0; head < kv_heads; ++head) {
            const kernels::KeyList& list = entries.lists[static_cast<size_t>(head)];
            REQUIRE(list.n == dense->length());
            for (int64_t i = 0; i < list.n; ++i) {
                CHECK(list.positions[i] == i);
                CHECK(at::equal(entries.k[head][list.columns[i]], dense->keys(layer)[head][i]));
                CHECK(at::equal(entries.v[head][list.columns[i]], dense->values(layer)[head][i]));
            }
        }
    }
    const auto adopted = make_cache(CacheLayout::pooled, type);
    adopted->adopt_prefix(*dense, 30);
    CHECK(adopted->length() == 30);
    pooled->truncate(30);
    CHECK((contents(*adopted) == contents(*pooled)));
}

TEST_CASE("rewinding takes back appends, evictions, rewrites and splices in any mixture, bit for bit",
          "[cache][pool]") {
    const uint32_t seed = test::seed(72);
    INFO("seed " << seed);
    std::mt19937 random(seed);
    auto numbers = at::make_generator<at::CPUGeneratorImpl>(seed);
    for (int round = 0; round < 6; ++round) {
        const auto teacher = make_cache(CacheLayout::dense), cache = make_cache(CacheLayout::pooled);
        append({cache.get()}, 20, numbers);
        append({teacher.get()}, 60, numbers);
        for (int64_t layer = 0; layer < layers; ++layer) // of the prompt: before the journal begins
            cache->evict(layer, layer % kv_heads, some_of(cache->held(layer, layer % kv_heads), random), 0);
        std::vector<Contents> states{contents(*cache)};
        std::vector<std::vector<Origin>> origins{{cache->origins().begin(), cache->origins().end()}};
        const auto step = [&](int64_t number) {
            append({cache.get()}, 1, numbers);
            for (int edit = 0; edit < 4; ++edit) {
                const auto layer = static_cast<int64_t>(random() % layers);
                const auto head = static_cast<int64_t>(random() % kv_heads);
                const std::vector<int64_t> some = some_of(cache->held(layer, head), random);
                if (some.empty()) continue;
                if (edit % 2 == 0) {
                    const std::vector<int64_t> few(some.begin(), some.begin() + std::ssize(some) / 3);
                    cache->evict(layer, head, few, number);
                } else {
                    cache->overwrite(layer, head, some, at::randn({2, std::ssize(some), head_dim}, numbers),
                                     number);
                }
            }
            if (number % 5 == 0)
                cache->splice(*teacher, 18, cache->length() - 18, static_cast<int32_t>(number), number);
            states.push_back(contents(*cache));
            origins.emplace_back(cache->origins().begin(), cache->origins().end());
        };
        for (int64_t number = 1; number <= 30; ++number)
            step(number);
        const auto copy = cache->clone();
        CHECK((contents(*copy) == states.back()));
        for (int64_t to = 30; to >= 0;) {
            cache->rewind(to, 20 + to);
            CHECK(cache->length() == 20 + to);
            CHECK((contents(*cache) == states[static_cast<size_t>(to)]));
            CHECK(std::ranges::equal(cache->origins(), origins[static_cast<size_t>(to)]));
            to -= 1 + static_cast<int64_t>(random() % 9);
        }
        CHECK((contents(*copy) == states.back())); // the clone is its own
        copy->rewind(7, 27);
        CHECK((contents(*copy) == states[7]));
    }
}

TEST_CASE("memory is that of the entries, and freed slots are poisoned", "[cache][pool]") {
    auto numbers = at::make_generator<at::CPUGeneratorImpl>(test::seed(73));
    const auto cache = make_cache(CacheLayout::pooled);
    append({cache.get()}, 150, numbers);
    constexpr int64_t entry = 2 * head_dim * 4;
    CHECK(cache->bytes_used() == layers * kv_heads * 150 * entry);
    std::vector<int64_t> gone;
    for (int64_t p = 2; p < 150; ++p)
        gone.push_back(p);
    cache->evict(0, 0, gone, 1);
    cache->evict(0, 1, std::span(gone).first(100), 1);
    CHECK(cache->layer_bytes(0) == (2 + 50) * entry);
    CHECK(cache->layer_bytes(1) == 300 * entry);
    CHECK(cache->bytes_used() == (52 + 600) * entry);
    CHECK(cache->index_bytes() == (52 + 600) * 16);
    CHECK(cache->bytes_reserved() >= cache->bytes_used());
    const LayerEntries entries = cache->entries(0);
    int64_t finite = 0;
    for (int64_t slot = 0; slot < entries.k.size(1); ++slot)
        finite +=
            std::isfinite(entries.k[0][slot].sum().item<float>() + entries.v[0][slot].sum().item<float>())
                ? 1
                : 0;
    CHECK(finite == 52); // every other slot is NaN
    for (int64_t layer = 1; layer < layers; ++layer) {
        for (int64_t head = 0; head < kv_heads; ++head)
            cache->evict(layer, head, gone, 1);
    }
    cache->evict(0, 1, std::span(gone).subspan(100), 1);
    // What is reserved follows: at most a quarter and a fixed slack of free slots.
    CHECK(cache->bytes_reserved() <= layers * (2 * kv_heads + 2 + 256 + 128) * entry * 4 / 3);
    cache->rewind(0, 150);
    CHECK(cache->bytes_used() == layers * kv_heads * 150 * entry);
}

TEST_CASE("a splice rewrites what is held, and brings nothing back", "[cache][pool]") {
    auto numbers = at::make_generator<at::CPUGeneratorImpl>(test::seed(74));
    const auto teacher = make_cache(CacheLayout::dense), cache = make_cache(CacheLayout::pooled);
    append({cache.get()}, 10, numbers);
    append({teacher.get()}, 10, numbers);
    const std::vector<int64_t> gone{2, 5, 6};
    cache->evict(1, 0, gone, 1);
    const Contents before = contents(*cache);
    cache->splice(*teacher, 4, 4, 0, 2);
    const Contents after = contents(*cache), of_teacher = contents(*teacher);
    REQUIRE(after.size() == before.size());
    for (const auto& [key, row] : after) {
        const int64_t position = std::get<2>(key);
        CHECK(row == (position >= 4 && position < 8 ? of_teacher : before).at(key));
    }
    const KvCache::Columns columns = cache->held_columns(4, 4);
    CHECK(columns.held[1][0].sum().item<int64_t>() == 2);
    CHECK(columns.held[0].all().item<bool>());
    CHECK(at::equal(columns.k[0], teacher->keys(4, 4)[0]));
    CHECK(columns.v[1][0][1].eq(0).all().item<bool>()); // position 5
    cache->rewind(1, 10);
    CHECK((contents(*cache) == before));
}

TEST_CASE("edits are told once, together where they are alike, after the append of their pass",
          "[cache][pool]") {
    auto numbers = at::make_generator<at::CPUGeneratorImpl>(test::seed(75));
    const auto cache = make_cache(CacheLayout::pooled);
    append({cache.get()}, 10, numbers);
    std::vector<CacheEvent> told;
    cache->set_listener([&](CacheEvent event) { told.push_back(std::move(event)); });
    const std::vector<int64_t> first{0, 1, 4}, other{2};
    const auto everywhere = [&](const std::vector<int64_t>& positions) {
        for (int64_t layer = 0; layer < layers; ++layer) {
            for (int64_t head = 0; head < kv_heads; ++head)
                cache->evict(layer, head, positions, 1);
        }
    };
    for (int64_t layer = 0; layer < layers; ++layer) {
        const at::Tensor rows = at::randn({1, kv_heads, head_dim}, numbers);
        cache->write(layer, rows, rows);
        for (int64_t head = 0; head < kv_heads; ++head) // in the pass, as a policy does
            cache->evict(layer, head, first, 1);
    }
    CHECK(told.empty());
    cache->commit(1, Origin::student);
    REQUIRE(told.size() == 2);
    CHECK(told[0].change == CacheChange::appended);
    CHECK(told[1].change == CacheChange::evicted);
    CHECK((told[1].layer == -1 && told[1].kv_head == -1));
    CHECK((told[1].positions == std::vector<PositionRange>{{0, 2}, {4, 1}}));
    CHECK(told[1].bytes == std::vector<int64_t>{kv_heads * 8 * 2 * head_dim * 4});
    told.clear();
    cache->evict(1, 0, other, 1);
    cache->evict(1, 1, other, 1);
    cache->evict(2, 1, other, 1, CacheChange::merged);
    cache->tell_edits();
    REQUIRE(told.size() == 2);
    CHECK((told[0].layer == 1 && told[0].kv_head == -1));
    CHECK((told[1].layer == 2 && told[1].kv_head == 1 && told[1].change == CacheChange::merged));
    CHECK(told[1].bytes == std::vector<int64_t>{cache->layer_bytes(2)});
    cache->tell_edits();
    CHECK(told.size() == 2);
    CHECK_THROWS_AS(everywhere(other), InvariantError); // gone in some heads already
    CHECK_THROWS_AS(make_cache(CacheLayout::dense)->evict(0, 0, other, 1), InvariantError);
}

} // namespace pooled_cache_test
