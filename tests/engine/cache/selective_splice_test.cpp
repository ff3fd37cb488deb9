// Splices of some entries, against copies made by hand: of dense, pooled and coded caches, with all that a journal has to undo.
#include "engine/base/check.h"
#include "engine/cache/kv_cache.h"
#include "engine/policies/entry_codec.h"
#include "tests/support/seed.h"

#include <ATen/ATen.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <algorithm>
#include <map>
#include <random>

namespace selective_splice_test {

using namespace refreshlab;

namespace {

constexpr int64_t layers = 3, kv_heads = 2, head_dim = 4, capacity = 60;

/// All that a cache holds, by layer, KV head and position: keys, then values.
using Contents = std::map<std::tuple<int64_t, int64_t, int64_t>, std::vector<float>>;
Contents contents(const KvCache& cache) {
    Contents all;
    for (int64_t layer = 0; layer < layers; ++layer) {
        for (int64_t head = 0; head < kv_heads; ++head) {
            for (const int64_t position : cache.held(layer, head)) {
                const at::Tensor rows =
                    cache.read(layer, head, std::span(&position, 1)).to(at::kFloat).contiguous();
                all[{layer, head, position}] = {rows.const_data_ptr<float>(),
                                                rows.const_data_ptr<float>() + rows.numel()};
            }
        }
    }
    return all;
}

std::unique_ptr<KvCache> random_cache(CacheLayout layout, int64_t length, at::Generator random,
                                      at::ScalarType dtype = at::kFloat) {
    auto cache = std::make_unique<KvCache>(layers, kv_heads, capacity, head_dim, dtype, at::kCPU, layout);
    for (int64_t layer = 0; layer < layers; ++layer)
        cache->write(layer, at::randn({length, kv_heads, head_dim}, random),
                     at::randn({length, kv_heads, head_dim}, random));
    cache->commit(length, Origin::student);
    return cache;
}

EntrySelection random_selection(int64_t first, int64_t end, std::mt19937& random) {
    EntrySelection selection;
    for (int64_t p = first; p < end; ++p)
        if (random() % 3 != 0) selection.positions.push_back(p);
    if (selection.positions.empty()) selection.positions.push_back(first);
    for (int64_t i = 0; i < layers * kv_heads; ++i)
        selection.heads.push_back(random() % 2 == 0 ? 1 : 0);
    selection.heads[random() % selection.heads.size()] = 1;
    const auto halves = random() % 3;
    selection.halves = {halves != 1, halves != 2};
    return selection;
}

/// What stands in a cache after the splice, written down plainly. \return entries of one half that were written
int64_t copy_by_hand(Contents& own, const Contents& teacher, const EntrySelection& s) {
    int64_t written = 0;
    for (auto& [place, entry] : own) {
        const auto& [layer, head, position] = place;
        const bool selected = s.heads[static_cast<size_t>(layer * kv_heads + head)] != 0 &&
                              std::ranges::find(s.positions, position) != s.positions.end();
        if (!selected) continue;
        const std::vector<float>& from = teacher.at(place);
        for (int64_t i = 0; i < head_dim; ++i) {
            if (s.halves.keys) entry[static_cast<size_t>(i)] = from[static_cast<size_t>(i)];
            if (s.halves.values)
                entry[static_cast<size_t>(head_dim + i)] = from[static_cast<size_t>(head_dim + i)];
        }
        written += s.halves.count();
    }
    return written;
}

/// Rows as they are, in another form.
class Plain final : public EntryCodec {
public:
    EncodedBlock encode(std::span<const float> rows, const BlockShape&) const override {
        EncodedBlock block;
        block.payload.resize(rows.size_bytes());
        std::memcpy(block.payload.data(), rows.data(), rows.size_bytes());
        return block;
    }
    void decode(const EncodedBlock& block, const BlockShape& shape, const BlockPart& part,
                float* to) const override {
        for (const int64_t row : part.rows) {
            const auto first = static_cast<size_t>(row * shape.head_dim + part.first_channel);
            std::memcpy(to, block.payload.data() + first * sizeof(float),
                        static_cast<size_t>(part.channels) * sizeof(float));
            to += part.channels;
        }
    }
};

} // namespace

TEST_CASE("a selective splice writes what it names, and a rewind takes it back, in every layout", "[cache]") {
    const auto layout = GENERATE(CacheLayout::dense, CacheLayout::pooled, CacheLayout::coded);
    const auto dtype = GENERATE(at::kFloat, at::kBFloat16);
    std::mt19937 random(test::seed(5301));
    auto numbers = at::make_generator<at::CPUGeneratorImpl>(test::seed(5302));
    for (int round = 0; round < 12; ++round) {
        const auto student = random_cache(layout, 30, numbers, dtype),
                   teacher = random_cache(CacheLayout::dense, 34, numbers, dtype);
        const Contents teachers = contents(*teacher);
        std::vector<Contents> at_step{contents(*student)};
        std::vector<std::vector<Origin>> origins{{student->origins().begin(), student->origins().end()}};
        for (int64_t step = 1; step <= 5; ++step) {
            if (layout == CacheLayout::coded && step == 2)
                student->encode(1, 0, KvHalf::values, std::vector<int64_t>{3, 4, 5, 9},
                                std::make_shared<Plain>(), step);
            if (layout != CacheLayout::dense && step == 3)
                student->evict(0, 1, std::vector<int64_t>{2, 7, 11}, step);
            Contents expected = contents(*student);
            const auto first = static_cast<int64_t>(random() % 20);
            const EntrySelection selection =
                random_selection(first, first + 1 + static_cast<int64_t>(random() % 10), random);
            const int64_t entries = copy_by_hand(expected, teachers, selection);
            CHECK(student->splice(*teacher, selection, static_cast<int32_t>(step), step) ==
                  entries * head_dim * static_cast<int64_t>(c10::elementSize(dtype)));
            REQUIRE((contents(*student) == expected));
            for (const int64_t p : selection.positions) {
                CHECK(student->origin(p) == selection.position_origin());
                CHECK(student->refresh_ids()[static_cast<size_t>(p)] == step);
            }
            at_step.push_back(expected);
            origins.emplace_back(student->origins().begin(), student->origins().end());
        }
        const auto copy = student->clone();
        CHECK((contents(*copy) == at_step.back()));
        for (KvCache* cache : {student.get(), copy.get()}) {
            for (int64_t step = 4; step >= 0; step -= 2) {
                const auto length =
                    static_cast<int64_t>(30 - (4 - step) * 5); // cut through some of the splices
                cache->rewind(step, length);
                Contents expected = at_step[static_cast<size_t>(step)];
                std::erase_if(expected,
                              [&](const auto& entry) { return std::get<2>(entry.first) >= length; });
                REQUIRE((contents(*cache) == expected));
                CHECK(std::ranges::equal(
                    cache->origins(),
                    std::span(origins[static_cast<size_t>(step)]).first(static_cast<size_t>(length))));
            }
        }
    }
}

TEST_CASE("all parts of a splice, one by one, are the whole splice bit for bit", "[cache]") {
    const auto layout = GENERATE(CacheLayout::dense, CacheLayout::pooled);
    auto numbers = at::make_generator<at::CPUGeneratorImpl>(test::seed(5303));
    const auto whole = random_cache(layout, 20, numbers), parts = whole->clone(),
               teacher = random_cache(CacheLayout::dense, 20, numbers);
    const int64_t bytes = whole->splice(*teacher, 6, 10, 0, 1);
    CHECK(bytes == 2 * layers * kv_heads * 10 * head_dim * 4);
    int64_t sum = 0;
    const auto splice = [&](std::vector<int64_t> positions, const std::vector<int64_t>& of_layers,
                            EntryHalves halves) {
        EntrySelection selection{std::move(positions), std::vector<uint8_t>(layers * kv_heads, 0), halves};
        for (const int64_t layer : of_layers)
            std::fill_n(selection.heads.begin() + layer * kv_heads, kv_heads, uint8_t{1});
        sum += parts->splice(*teacher, selection, 0, 1);
    };
    const std::vector<int64_t> even{6, 8, 10, 12, 14}, odd{7, 9, 11, 13, 15};
    splice(even, {0, 2}, {true, false});
    splice(odd, {0, 2}, {true, false});
    splice({6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, {1}, {true, true});
    CHECK((contents(*parts) != contents(*whole)));
    splice(even, {0, 2}, {false, true});
    splice(odd, {0, 2}, {false, true});
    CHECK((contents(*parts) == contents(*whole)));
    CHECK(sum == bytes);
    EntrySelection all{{6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, std::vector<uint8_t>(layers * kv_heads, 1), {}};
    CHECK(parts->splice(*teacher, all, 0, 2) == bytes);
    CHECK(std::ranges::equal(parts->origins(), whole->origins()));

    // Nothing is selected: nothing happens.
    const Contents before = contents(*parts);
    all.positions.clear();
    CHECK(parts->splice(*teacher, all, 3, 3) == 0);
    all = {{6}, std::vector<uint8_t>(layers * kv_heads, 0), {}};
    CHECK(parts->splice(*teacher, all, 3, 3) == 0);
    CHECK((contents(*parts) == before));
    CHECK(parts->origin(6) == Origin::teacher_refresh);
    all = {{20}, std::vector<uint8_t>(layers * kv_heads, 1), {}};
    CHECK_THROWS_AS(parts->splice(*teacher, all, 3, 3), InvariantError);
}

TEST_CASE(
    "a selective splice tells what it wrote and what it left, layer by layer where their heads are alike",
    "[cache]") {
    auto numbers = at::make_generator<at::CPUGeneratorImpl>(test::seed(5304));
    const auto student = random_cache(CacheLayout::dense, 12, numbers),
               teacher = random_cache(CacheLayout::dense, 12, numbers);
    std::vector<CacheEvent> events;
    student->set_listener([&](CacheEvent event) { events.push_back(std::move(event)); });
    student->splice(*teacher, {{4, 5, 8}, {1, 1, 0, 0, 1, 0}, {false, true}}, 7, 1);
    REQUIRE(events.size() == 4);
    const auto is = [&](size_t i, CacheChange change, int32_t layer, int32_t head, Origin origin) {
        return events[i].change == change && events[i].layer == layer && events[i].kv_head == head &&
               events[i].origin == origin && events[i].refresh_id == 7 &&
               events[i].positions == std::vector<PositionRange>{{4, 2}, {8, 1}} &&
               events[i].bytes.size() == 1;
    };
    CHECK(is(0, CacheChange::spliced, 0, -1, Origin::teacher_values));
    CHECK(is(1, CacheChange::skipped, 1, -1, Origin::skipped));
    CHECK(is(2, CacheChange::spliced, 2, 0, Origin::teacher_values));
    CHECK(is(3, CacheChange::skipped, 2, 1, Origin::skipped));
    CHECK(student->origin(4) == Origin::teacher_partly);
    CHECK(student->origin(6) == Origin::student);
    events.clear();
    student->splice(*teacher, {{4, 5}, std::vector<uint8_t>(6, 1), {true, false}}, 8, 2);
    REQUIRE(events.size() == 1);
    CHECK((events[0].layer == -1 && events[0].kv_head == -1 && events[0].origin == Origin::teacher_keys));
    CHECK(student->origin(5) == Origin::teacher_keys);
}

} // namespace selective_splice_test
