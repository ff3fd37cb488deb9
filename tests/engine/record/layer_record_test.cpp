#include "engine/base/check.h"
#include "engine/base/error.h"
#include "engine/record/recording/recording.h"
#include "tests/engine/record/random_recording.h"
#include "tests/support/made_run.h"
#include "tests/support/seed.h"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <atomic>
#include <bit>
#include <thread>

namespace layer_record_test {

using namespace refreshlab;
using namespace refreshlab::test;

namespace {

size_t layered_id() {
    return *signal_id("attention_entropy_bits");
}

PublishedSignal kept_positions() {
    PublishedSignal signal;
    signal.name = "kept_positions";
    signal.label = "Kept positions";
    signal.description = "Positions that the cache policy keeps.";
    signal.layered = true;
    return signal;
}

bool equal(std::span<const float> a, std::span<const float> b) {
    return std::ranges::equal(a, b, [](float x, float y) { return same_bits(x, y); });
}

} // namespace

TEST_CASE("layer values are kept by step and signal, and nothing where none was measured", "[record]") {
    Grower grower(1);
    RunInfo info = grower.start()->info();
    info.published_signals = {kept_positions()};
    Recording recording(info, std::make_shared<ByteTokens>());
    const size_t entropy = layered_id(), kept = published_id(0);
    CHECK(recording.signal_id("kept_positions") == kept);
    CHECK(recording.signals().size() == signals().size() + 1);
    CHECK(recording.signals()[kept].label == "Kept positions");
    for (int64_t t = 1; t <= 600; ++t) { // over several chunks
        LayerValues layers;
        const auto x = static_cast<float>(t);
        if (t % 2 == 0) layers.set(entropy, std::vector<float>{x, absent(), -x});
        if (t % 3 == 0) layers.set(kept, std::vector<float>{1, x, 3});
        recording.append(next_record(recording, 7), layers);
    }
    for (int64_t t = 1; t <= 600; ++t) {
        const auto x = static_cast<float>(t);
        REQUIRE(recording.layer_values(t, entropy).empty() == (t % 2 != 0));
        REQUIRE(recording.layer_values(t, kept).empty() == (t % 3 != 0));
        if (t % 2 == 0)
            REQUIRE(equal(recording.layer_values(t, entropy), std::vector<float>{x, absent(), -x}));
        if (t % 3 == 0) REQUIRE(equal(recording.layer_values(t, kept), std::vector<float>{1, x, 3}));
    }
    CHECK(recording.layer_values(0, entropy).empty());
    CHECK(recording.layer_values(601, entropy).empty());
    CHECK(recording.layer_values(2, *signal_id("entropy_bits")).empty());
    CHECK(recording.layer_rows().size() == 300 + 200);

    LayerValues wrong;
    wrong.set(entropy, std::vector<float>{1, 2}); // the model has three layers
    CHECK_THROWS_AS(recording.append(next_record(recording, 7), wrong), InvariantError);
    wrong.clear();
    wrong.set(*signal_id("entropy_bits"), std::vector<float>{1, 2, 3}); // has no layers
    CHECK_THROWS_AS(recording.append(next_record(recording, 7), wrong), InvariantError);
}

TEST_CASE("a recording refuses signals that cannot be published", "[record]") {
    Grower grower(2);
    RunInfo info = grower.start()->info();
    info.published_signals = {kept_positions(), kept_positions()};
    CHECK_THROWS_AS(Recording(info, std::make_shared<ByteTokens>()), Error);
}

TEST_CASE("a fork has the layer values of its steps, and shares them", "[record]") {
    Grower grower(3);
    const auto recording = grower.start();
    grower.grow(*recording, 60);
    REQUIRE_FALSE(recording->layer_rows().empty());
    for (const int64_t k : {int64_t{0}, int64_t{1}, int64_t{30}, int64_t{60}}) {
        const auto branch = recording->fork(k, "branch");
        size_t rows = 0;
        for (size_t i = 0; i < recording->layer_rows().size(); ++i)
            rows += recording->layer_rows()[i].step <= k ? 1 : 0;
        REQUIRE(branch->layer_rows().size() == rows);
        for (size_t i = 0; i < rows; ++i)
            CHECK(branch->layer_rows()[i].values == recording->layer_rows()[i].values); // the same ones
    }
}

TEST_CASE("first_difference sees one bit of one layer", "[record]") {
    const uint64_t seed = test::seed(4);
    INFO("seed " << seed);
    const auto make = [&](uint32_t flip) {
        Grower grower(seed);
        auto recording = grower.start();
        grower.grow(*recording, 10);
        LayerValues layers;
        layers.set(
            layered_id(),
            std::vector<float>{1, std::bit_cast<float>(std::bit_cast<uint32_t>(2.0F) ^ flip), absent()});
        recording->append(next_record(*recording, 7), layers);
        return recording;
    };
    CHECK(first_difference(*make(0), *make(0)) == std::nullopt);
    const auto difference = first_difference(*make(0), *make(1));
    REQUIRE(difference);
    CHECK(difference->find("attention_entropy_bits") != std::string::npos);
    CHECK(difference->find("layer 1") != std::string::npos);
    // Measured against not measured is a difference too.
    Grower grower(seed);
    const auto without = grower.start();
    grower.grow(*without, 10);
    without->append(next_record(*without, 7));
    CHECK(first_difference(*make(0), *without) != std::nullopt);
}

TEST_CASE("what the writer of a recording did not know is no difference", "[record]") {
    Grower grower(5);
    const auto now = grower.start();
    RunInfo info = now->info();
    std::vector<std::string> old;
    for (const Signal& signal : signals()) {
        if (!signal.layered && signal.name != "top2_margin") old.emplace_back(signal.name);
    }
    info.written_signals = old;
    info.has_cache_events = false;
    const auto before = std::make_shared<Recording>(info, now->token_table());
    const size_t margin = *signal_id("top2_margin"), entropy = *signal_id("entropy_bits");
    CHECK_FALSE(before->knows_signal(margin));
    CHECK(before->knows_signal(entropy));
    StepRecord record = next_record(*now, 7);
    record.signals[entropy] = 3;
    before->append(record);
    record.signals[margin] = 0.5F;
    LayerValues layers;
    layers.set(layered_id(), std::vector<float>{1, 2, 3});
    record.signals[layered_id()] = 2;
    CacheEvent event;
    event.positions = {{0, 4}};
    now->add_cache_event(event);
    now->append(record, layers);
    CHECK(first_difference(*before, *now) == std::nullopt);
    CHECK(first_difference(*now, *before) == std::nullopt);
    CHECK(first_difference(*now, *before->fork(1, "branch")) == std::nullopt);
    // What both know is compared as ever.
    const float other = 4;
    now->back_fill(entropy, 1, std::span(&other, 1));
    CHECK(first_difference(*before, *now) != std::nullopt);
}

TEST_CASE("published signals are compared by name", "[record]") {
    Grower grower(6);
    const RunInfo plain = grower.start()->info();
    const auto run = [&](std::vector<PublishedSignal> published, const std::string& measured, float value) {
        RunInfo info = plain;
        info.published_signals = std::move(published);
        auto recording = std::make_shared<Recording>(info, std::make_shared<ByteTokens>());
        StepRecord record = next_record(*recording, 7);
        if (const auto id = recording->signal_id(measured)) record.signals[*id] = value;
        recording->append(record);
        return recording;
    };
    PublishedSignal other = kept_positions();
    other.name = "merged_positions";
    const auto a = run({kept_positions(), other}, "kept_positions", 5);
    CHECK(first_difference(*a, *run({other, kept_positions()}, "kept_positions", 5)) == std::nullopt);
    CHECK(first_difference(*a, *run({other, kept_positions()}, "kept_positions", 6)) != std::nullopt);
    CHECK(first_difference(*a, *run({other}, "none", 0)) == std::nullopt); // only one of them can know it
}

TEST_CASE("readers find whole layer values while a writer goes on", "[record]") {
    constexpr int64_t steps = 3000;
    Grower grower(7);
    const auto recording = grower.start();
    std::atomic<bool> done{false}; // set by the writer after its last append, read by the readers' loops
    std::atomic<int64_t> wrong{0};
    const auto read = [&] {
        for (bool last = false; !last;) {
            last = done.load();
            const int64_t n = recording->steps();
            for (int64_t t = std::max<int64_t>(1, n - 40); t <= n; ++t) {
                const auto values = recording->layer_values(t, layered_id());
                const auto x = static_cast<float>(t);
                if (values.size() != 3 || values[0] != x || values[1] != 2 * x || values[2] != 3 * x) ++wrong;
            }
            for (size_t i = 0, entries = recording->cache_entries().size(); i < entries; ++i) {
                const CacheEntry& entry = recording->cache_entries()[i];
                const CacheEvent event = entry.event(entry.steps() - 1);
                if (event.positions[0].first != event.step - 1 || event.bytes[0] != 10 * event.step) ++wrong;
            }
        }
    };
    std::thread first(read), second(read);
    for (int64_t t = 1; t <= steps; ++t) {
        CacheEvent event;
        event.step = t;
        event.positions = {{t - 1, 1}};
        event.bytes = {10 * t};
        recording->add_cache_event(event);
        LayerValues layers;
        const auto x = static_cast<float>(t);
        layers.set(layered_id(), std::vector<float>{x, 2 * x, 3 * x});
        recording->append(next_record(*recording, 7), layers);
    }
    done = true;
    first.join();
    second.join();
    CHECK(wrong == 0);
    CHECK(recording->cache_entries().size() == 1);
}

} // namespace layer_record_test
