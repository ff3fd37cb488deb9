// A cache whose keys and values may be encoded: what it stores, counts, and takes back.
#include "engine/base/check.h"
#include "engine/cache/kv_cache.h"
#include "tests/support/seed.h"

#include <ATen/ATen.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <algorithm>
#include <cmath>
#include <random>
#include <set>

namespace coded_cache_test {

using namespace refreshlab;
using Positions = std::vector<int64_t>;

namespace {

constexpr int64_t layers = 2, heads = 2, head_dim = 4;

/// A byte a number, in steps of 1/8; one byte of metadata a block.
class Eighths final : public EntryCodec {
public:
    [[nodiscard]] EncodedBlock encode(std::span<const float> rows, const BlockShape& shape) const override {
        CHECK(std::ssize(rows) == shape.numbers());
        EncodedBlock block;
        for (const float value : rows)
            block.payload.push_back(static_cast<uint8_t>(std::nearbyint(value * 8) + 128));
        block.metadata.push_back(7);
        return block;
    }
    void decode(const EncodedBlock& block, const BlockShape& shape, const BlockPart& part,
                float* to) const override {
        CHECK(std::ssize(block.payload) == shape.numbers());
        for (const int64_t row : part.rows)
            for (int64_t c = 0; c < part.channels; ++c)
                *to++ =
                    (static_cast<float>(
                         block.payload[static_cast<size_t>(row * shape.head_dim + part.first_channel + c)]) -
                     128) /
                    8;
    }
};
const auto eighths = std::make_shared<const Eighths>();

/// The same, but a byte of metadata a row, rows that are joined, and an eighth more each time that a row is encoded.
class Joined final : public EntryCodec {
public:
    [[nodiscard]] EncodedBlock encode(std::span<const float> rows, const BlockShape& shape) const override {
        EncodedBlock block = eighths->encode(rows, shape);
        for (uint8_t& code : block.payload)
            ++code;
        block.metadata.assign(static_cast<size_t>(shape.n), 7);
        return block;
    }
    void decode(const EncodedBlock& block, const BlockShape& shape, const BlockPart& part,
                float* to) const override {
        CHECK(std::ssize(block.metadata) == shape.n);
        eighths->decode(block, shape, part, to);
    }
    [[nodiscard]] bool joins(int64_t) const override { return true; }
};
const auto joined = std::make_shared<const Joined>();

std::unique_ptr<KvCache> make_cache(CacheLayout layout, at::ScalarType dtype = at::kFloat) {
    return std::make_unique<KvCache>(layers, heads, 256, head_dim, dtype, at::kCPU, layout);
}
void append(KvCache& cache, int64_t n, Origin origin = Origin::student) {
    for (int64_t layer = 0; layer < layers; ++layer)
        cache.write(layer, at::randn({n, heads, head_dim}), at::randn({n, heads, head_dim}));
    cache.commit(n, origin);
}
at::Tensor eighths_of(const at::Tensor& rows) {
    return (rows * 8).round() / 8;
}
/// Everything that is held, bit for bit.
std::vector<at::Tensor> contents(const KvCache& cache) {
    std::vector<at::Tensor> all;
    for (int64_t layer = 0; layer < layers; ++layer) {
        for (int64_t head = 0; head < heads; ++head) {
            const auto held = cache.held(layer, head);
            all.push_back(at::tensor(at::ArrayRef<int64_t>(held.data(), held.size())));
            all.push_back(cache.read(layer, head, held));
        }
    }
    return all;
}
bool same(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
    return std::ranges::equal(a, b, [](const at::Tensor& x, const at::Tensor& y) { return at::equal(x, y); });
}

} // namespace

TEST_CASE("encoded halves are stored as their bytes, and attention reads what decoding gives", "[cache]") {
    at::manual_seed(static_cast<int64_t>(test::seed(8101)));
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
        const auto cache = make_cache(CacheLayout::coded, type);
        append(*cache, 10);
        const Positions first{0, 1, 2, 3, 4};
        const auto all = cache->held(1, 0);
        const at::Tensor before = cache->read(1, 0, all);
        cache->encode(1, 0, KvHalf::keys, first, eighths, 0);
        const at::Tensor after = cache->read(1, 0, all);
        CHECK(at::equal(after[0].narrow(0, 0, 5).to(at::kFloat),
                        eighths_of(before[0].narrow(0, 0, 5).to(at::kFloat)).to(type).to(at::kFloat)));
        CHECK(at::equal(after[0].narrow(0, 5, 5), before[0].narrow(0, 5, 5)));
        CHECK(at::equal(after[1], before[1]));
        const auto element = static_cast<int64_t>(c10::elementSize(type));
        CHECK(cache->layer_bytes(0) == 10 * heads * 2 * head_dim * element);
        CHECK(cache->layer_bytes(1) == (10 * heads * 2 - 5) * head_dim * element + 5 * head_dim + 1);
        CHECK(cache->metadata_bytes() == 1);
        for (int64_t layer = 0; layer < layers; ++layer) {
            const LayerEntries entries = cache->entries(layer);
            for (int64_t head = 0; head < heads; ++head) {
                const auto list = entries.lists[static_cast<size_t>(head)];
                const Positions columns = cache->columns(layer, head, cache->held(layer, head));
                REQUIRE(list.n == 10);
                for (int64_t i = 0; i < list.n; ++i) {
                    CHECK(list.positions[i] == i);
                    CHECK(list.columns[i] == columns[static_cast<size_t>(i)]);
                }
                const at::Tensor held = cache->read(layer, head, all).to(at::kFloat);
                REQUIRE(list.coded != nullptr);
                for (const bool values :
                     {false, true}) { // whole rows, and every second entry's middle channels
                    at::Tensor rows = at::empty({10, head_dim}), some = at::empty({5, 2});
                    const Positions places{1, 3, 5, 7, 9};
                    list.coded->read(values, columns.data(), 10, 0, head_dim, rows.mutable_data_ptr<float>());
                    list.coded->read(values, places.data(), 5, 1, 2, some.mutable_data_ptr<float>());
                    CHECK(at::equal(rows, held[values ? 1 : 0]));
                    CHECK(at::equal(some, rows.slice(0, 1, 10, 2).slice(1, 1, 3)));
                }
            }
        }
        CHECK(cache->scratch_bytes() == 0); // attention makes the rows that it reads
        // Twice is a mistake, and so is a codec in a cache of rows.
        CHECK_THROWS_AS(cache->encode(1, 0, KvHalf::keys, first, eighths, 0), InvariantError);
        const auto rows = make_cache(CacheLayout::pooled);
        append(*rows, 10);
        CHECK_THROWS_AS(rows->encode(0, 0, KvHalf::keys, first, eighths, 0), InvariantError);
    }
}

TEST_CASE("a splice encodes again what is encoded, and leaves alone what others were merged into",
          "[cache]") {
    at::manual_seed(static_cast<int64_t>(test::seed(8101)));
    const auto teacher = make_cache(CacheLayout::dense), cache = make_cache(CacheLayout::coded);
    append(*teacher, 12, Origin::teacher_prefill);
    append(*cache, 12);
    const Positions coded{2, 3, 4, 5, 6, 7}, blended{8, 10};
    cache->encode(0, 1, KvHalf::values, coded, eighths, 1);
    cache->merge_into(0, 1, blended, at::ones({2, 2, head_dim}), 1);
    const auto before = contents(*cache);
    const int64_t bytes = cache->bytes_used();
    std::vector<CacheEvent> told;
    cache->set_listener([&](CacheEvent event) { told.push_back(std::move(event)); });
    cache->splice(*teacher, 5, 6, 3, 2);
    REQUIRE(told.size() == 2);
    CHECK(told[1].change == CacheChange::skipped);
    CHECK((told[1].layer == 0 && told[1].kv_head == 1));
    CHECK((told[1].positions == std::vector<PositionRange>{{8, 1}, {10, 1}}));
    CHECK(cache->bytes_used() == bytes);
    const at::Tensor rows = cache->read(0, 1, cache->held(0, 1));
    const at::Tensor wanted = before[3].clone(); // layer 0, head 1
    for (const int64_t p : {5, 6, 7, 9}) {
        wanted[0][p].copy_(teacher->keys(0)[1][p]);
        wanted[1][p].copy_(p < 8 ? eighths_of(teacher->values(0)[1][p]) : teacher->values(0)[1][p]);
    }
    CHECK(at::equal(rows, wanted));
    cache->rewind(1, 12);
    CHECK(same(contents(*cache), before));
    // Behind the merge, a splice writes them again.
    cache->rewind(0, 12);
    cache->splice(*teacher, 5, 6, 4, 1);
    CHECK(at::equal(cache->read(0, 1, blended)[0][0], teacher->keys(0)[1][8]));
}

TEST_CASE("rows of a codec that joins them share blocks, and each stays as it was encoded", "[cache]") {
    at::manual_seed(static_cast<int64_t>(test::seed(8102)));
    const auto cache = make_cache(CacheLayout::coded), apart = make_cache(CacheLayout::coded);
    const auto teacher = make_cache(CacheLayout::dense);
    append(*teacher, 100, Origin::teacher_prefill);
    append(*cache, 100);
    append(*apart, 100);
    const auto plain = cache->read(0, 0, cache->held(0, 0));
    // One by one, the even ones behind the odd ones.
    std::vector<int64_t> index{cache->index_bytes()};
    for (int64_t step = 1; step <= 96; ++step) {
        const Positions one{step <= 48 ? 2 * step - 1 : 2 * (step - 49)};
        cache->encode(0, 0, KvHalf::keys, one, joined, step);
        apart->encode(0, 0, KvHalf::keys, one, eighths, step);
        index.push_back(cache->index_bytes());
    }
    const at::Tensor coded = eighths_of(plain[0].narrow(0, 0, 96)) + 0.125;
    const auto keys = [&] { return cache->read(0, 0, cache->held(0, 0))[0]; };
    CHECK(at::equal(keys().narrow(0, 0, 96), coded));
    CHECK(cache->layer_bytes(0) == apart->layer_bytes(0));
    CHECK(cache->metadata_bytes() == 96);
    CHECK(cache->index_bytes() < apart->index_bytes());
    // A splice encodes what it writes, and nothing else again.
    cache->splice(*teacher, 10, 3, 1, 97);
    at::Tensor wanted = coded.clone();
    for (const int64_t p : {10, 11, 12})
        wanted[p] = eighths_of(teacher->keys(0)[0][p]) + 0.125;
    CHECK(at::equal(keys().narrow(0, 0, 96), wanted));
    // Back step by step: the same blocks as on the way here.
    for (int64_t step = 96; step >= 0; --step) {
        cache->rewind(step, 100);
        CHECK(cache->index_bytes() == index[static_cast<size_t>(step)]);
        CHECK(cache->metadata_bytes() == step);
    }
    CHECK(at::equal(keys(), plain[0]));
}

TEST_CASE("whatever is encoded, evicted, merged, spliced: a rewind goes back bit for bit", "[cache]") {
    const std::shared_ptr<const EntryCodec> codec =
        GENERATE(0, 1) == 0 ? std::shared_ptr<const EntryCodec>(eighths) : joined;
    at::manual_seed(static_cast<int64_t>(test::seed(8101)));
    std::mt19937_64 random(test::seed(8101));
    const auto below = [&random](int64_t n) {
        return static_cast<int64_t>(random() % static_cast<uint64_t>(n));
    };
    const auto teacher = make_cache(CacheLayout::dense);
    append(*teacher, 200, Origin::teacher_prefill);
    auto cache = make_cache(CacheLayout::coded);
    append(*cache, 6);
    struct Then {
        std::vector<at::Tensor> contents;
        int64_t bytes, metadata, index, length;
        std::vector<std::set<int64_t>> coded; ///< [layers * heads * 2]
    };
    std::vector<Then> history;
    std::vector<std::set<int64_t>> coded(static_cast<size_t>(layers * heads * 2));
    const auto remember = [&] {
        history.push_back({contents(*cache), cache->bytes_used(), cache->metadata_bytes(),
                           cache->index_bytes(), cache->length(), coded});
    };
    const auto some_of = [&](std::span<const int64_t> from) {
        Positions some;
        for (const int64_t p : from)
            if (below(3) == 0) some.push_back(p);
        return some;
    };
    int64_t most_metadata = 0, most_journal = 0;
    remember();
    for (int round = 0; round < 150; ++round) {
        const int64_t step = std::ssize(history);
        if (round % 25 == 24) {
            const int64_t back = below(step);
            const Then& then = history[static_cast<size_t>(back)];
            cache->rewind(back, then.length);
            CHECK(same(contents(*cache), then.contents));
            CHECK(cache->bytes_used() == then.bytes);
            CHECK(cache->metadata_bytes() == then.metadata);
            CHECK(cache->index_bytes() == then.index);
            coded = then.coded;
            history.resize(static_cast<size_t>(back + 1));
            if (below(2) == 0) cache = cache->clone();
            continue;
        }
        append(*cache, 1);
        for (int edit = 0; edit < 3; ++edit) {
            const int64_t layer = below(layers), head = below(heads);
            const auto held = cache->held(layer, head);
            const Positions some = some_of(held);
            switch (below(4)) {
            case 0: {
                const int64_t half = below(2);
                std::set<int64_t>& done = coded[static_cast<size_t>((layer * heads + head) * 2 + half)];
                Positions rows;
                std::ranges::copy_if(some, std::back_inserter(rows),
                                     [&](int64_t p) { return !done.contains(p); });
                cache->encode(layer, head, static_cast<KvHalf>(half), rows, codec, step);
                done.insert(rows.begin(), rows.end());
                break;
            }
            case 1:
                if (held.size() > 4) cache->evict(layer, head, std::span(some).first(some.size() / 4), step);
                break;
            case 2:
                if (below(4) == 0) {
                    const auto n = static_cast<int64_t>(some.size());
                    cache->merge_into(layer, head, some, at::randn({2, n, head_dim}), step);
                }
                break;
            default:
                cache->splice(*teacher, cache->length() / 2, below(cache->length() / 2), 1, step);
            }
        }
        for (const at::Tensor& rows : contents(*cache))
            CHECK(at::isfinite(rows).all().item<bool>());
        most_metadata = std::max(most_metadata, cache->metadata_bytes());
        most_journal = std::max(most_journal, cache->journal_bytes());
        remember();
    }
    CHECK(most_metadata > 0); // something was encoded, and changed under a step
    CHECK(most_journal > 0);
}

TEST_CASE("what is borrowed stands there until it is given back, and leaves no trace", "[cache]") {
    for (const CacheLayout layout : {CacheLayout::pooled, CacheLayout::coded}) {
        const auto cache = make_cache(layout);
        append(*cache, 8);
        const Positions gone{0, 1, 2};
        const at::Tensor rows = cache->read(1, 0, gone);
        cache->evict(1, 0, gone, 1);
        const auto before = contents(*cache);
        const int64_t bytes = cache->bytes_used(), journal = cache->journal_bytes();
        cache->borrow(1, 0, gone, rows);
        CHECK(cache->held(1, 0).size() == 8);
        CHECK(at::equal(cache->read(1, 0, gone), rows));
        cache->give_back(0); // another layer's: nothing
        CHECK(cache->held(1, 0).size() == 8);
        cache->give_back(1);
        CHECK(same(contents(*cache), before));
        CHECK(cache->bytes_used() == bytes);
        CHECK(cache->journal_bytes() == journal);
        cache->borrow(1, 0, gone, rows);
        cache->rewind(0, 8); // of a pass that was given up
        CHECK(cache->held(1, 0).size() == 8);
        CHECK(at::equal(cache->read(1, 0, gone), rows));
    }
}

} // namespace coded_cache_test
