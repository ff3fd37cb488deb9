#include "engine/cache/dense_columns.h"
#include "engine/cache/kv_cache.h"
#include "kernels/execution/execution_context.h"
#include "kernels/ops/weight_type.h"
#include "kernels/simt/harness.h"
#include "tests/engine/gpu/simt_decoder.h"
#include "tests/kernels/kernel_fixture.h"

/// Caches that a device's kernels splice, put back and measure (on the host machine), against caches without them.
namespace refreshlab::test::cache_work_cases {
namespace {

struct Geometry {
    int64_t layers, kv_heads, head_dim, capacity;
    at::ScalarType dtype;
};

/// Two caches of the same columns, the first with kernels; and a teacher's, longer or shorter in what it can hold.
struct Caches {
    std::unique_ptr<KvCache> device, plain, teacher;

    Caches(Random& random, const Geometry& g, int64_t length)
        : device(make(g, g.capacity, true))
        , plain(make(g, g.capacity, false))
        , teacher(make(g, g.capacity + 3, false)) {
        for (int64_t layer = 0; layer < g.layers; ++layer) {
            const auto rows = [&] { return random.normal({length, g.kv_heads, g.head_dim}); };
            const at::Tensor k = rows(), v = rows();
            device->write(layer, k, v);
            plain->write(layer, k, v);
            teacher->write(layer, rows(), rows());
        }
        for (KvCache* cache : {device.get(), plain.get(), teacher.get()})
            cache->commit(length, Origin::student);
    }
    static std::unique_ptr<KvCache> make(const Geometry& g, int64_t capacity, bool kernels) {
        std::shared_ptr<kernels::DeviceCacheWork> work;
        if (kernels)
            work = make_simt_cache_work(
                {kernels::weight_type(g.dtype).value(), g.layers, g.kv_heads, g.head_dim});
        return std::make_unique<KvCache>(g.layers, g.kv_heads, capacity, g.head_dim, g.dtype, at::kCPU,
                                         CacheLayout::dense, std::move(work));
    }
    void splice(int64_t first, int64_t n, int32_t refresh, int64_t step) {
        device->splice(*teacher, first, n, refresh, step);
        plain->splice(*teacher, first, n, refresh, step);
    }
    [[nodiscard]] bool equal() const {
        const int64_t n = plain->length();
        return device->length() == n && same_bits(device->keys(0, n), plain->keys(0, n)) &&
               same_bits(device->values(0, n), plain->values(0, n)) &&
               std::ranges::equal(device->origins(), plain->origins()) &&
               std::ranges::equal(device->refresh_ids(), plain->refresh_ids());
    }
};

std::vector<Geometry> geometries() {
    return {{2, 3, 16, 40, at::kFloat}, {1, 5, 80, 40, at::kBFloat16}, {3, 2, 128, 40, at::kHalf}};
}

TEST_CASE("splices, rewinds and truncations by a device's kernels leave the bits of those without",
          "[gpu][cache]") {
    Random random(1401);
    for (const Geometry& g : geometries()) {
        Caches caches(random, g, 31);
        const auto before = caches.plain->clone();
        caches.splice(7, 9, 0, 2);
        REQUIRE(caches.equal());
        caches.splice(12, 19, 1, 5); // over part of the first, to the end
        REQUIRE(caches.equal());
        const auto kernels_copy = caches.device->clone();
        const auto plain_copy = caches.plain->clone();
        for (KvCache* cache : {caches.device.get(), caches.plain.get()})
            cache->truncate(20); // through the second splice
        REQUIRE(caches.equal());
        for (KvCache* cache : {caches.device.get(), caches.plain.get()})
            cache->rewind(3, 20);
        REQUIRE(caches.equal());
        for (KvCache* cache : {caches.device.get(), caches.plain.get()})
            cache->rewind(1, 20);
        REQUIRE(caches.equal());
        REQUIRE(same_bits(caches.device->keys(0, 20), before->keys(0, 20)));
        REQUIRE(same_bits(caches.device->values(0, 20), before->values(0, 20)));
        // The copy shares what was saved, and is put back by itself.
        kernels_copy->rewind(1, 31);
        plain_copy->rewind(1, 31);
        REQUIRE(same_bits(kernels_copy->keys(0, 31), before->keys(0, 31)));
        REQUIRE(same_bits(kernels_copy->values(0, 31), before->values(0, 31)));
    }
}

EntrySelection random_selection(Random& random, const Geometry& g, int64_t first, int64_t end) {
    EntrySelection selection;
    for (int64_t p = first; p < end; ++p)
        if (random.between(0, 2) != 0) selection.positions.push_back(p);
    if (selection.positions.empty()) selection.positions.push_back(first);
    for (int64_t i = 0; i < g.layers * g.kv_heads; ++i)
        selection.heads.push_back(static_cast<uint8_t>(random.between(0, 1)));
    selection.heads[static_cast<size_t>(random.between(0, g.layers * g.kv_heads - 1))] = 1;
    const int64_t halves = random.between(0, 2);
    selection.halves = {halves != 1, halves != 2};
    return selection;
}

TEST_CASE("selective splices, rewinds and truncations by a device's kernels leave the bits of those without",
          "[gpu][cache]") {
    Random random(1406);
    for (const Geometry& g : geometries()) {
        for (int round = 0; round < 6; ++round) {
            Caches caches(random, g, 31);
            const auto before = caches.plain->clone();
            for (int64_t step = 1; step <= 4; ++step) {
                const int64_t first = random.between(0, 20);
                const EntrySelection selection =
                    random_selection(random, g, first, random.between(first + 1, 31));
                (void)simt::take_activity();
                const int64_t bytes =
                    caches.device->splice(*caches.teacher, selection, static_cast<int32_t>(step), step);
                const simt::Activity activity = simt::take_activity();
                REQUIRE(activity.launches.size() == 1);
                REQUIRE(activity.device_waits + activity.stream_waits + activity.event_waits == 0);
                REQUIRE(bytes ==
                        caches.plain->splice(*caches.teacher, selection, static_cast<int32_t>(step), step));
                REQUIRE(caches.equal());
                if (step == 2) caches.splice(9, 8, 7, step); // a whole one between
            }
            const auto kernels_copy = caches.device->clone();
            for (KvCache* cache : {caches.device.get(), caches.plain.get()})
                cache->truncate(18); // through some of them
            REQUIRE(caches.equal());
            for (const int64_t step : {2, 0}) {
                for (KvCache* cache : {caches.device.get(), caches.plain.get()})
                    cache->rewind(step, 18);
                REQUIRE(caches.equal());
            }
            REQUIRE(same_bits(caches.device->keys(0, 18), before->keys(0, 18)));
            REQUIRE(same_bits(caches.device->values(0, 18), before->values(0, 18)));
            kernels_copy->rewind(0, 31); // the copy shares what was saved
            REQUIRE(same_bits(kernels_copy->keys(0, 31), before->keys(0, 31)));
            REQUIRE(same_bits(kernels_copy->values(0, 31), before->values(0, 31)));
        }
    }
}

TEST_CASE("more entries than a launch takes are spliced in several", "[gpu][cache]") {
    Random random(1407);
    const Geometry g{300, 2, 16, 300, at::kBFloat16}; // 600 KV heads, 290 columns
    Caches caches(random, g, 290);
    const auto before = caches.plain->clone();
    EntrySelection all;
    for (int64_t p = 0; p < 290; ++p)
        all.positions.push_back(p);
    all.heads.assign(600, 1);
    all.heads[17] = 0;
    (void)simt::take_activity();
    caches.device->splice(*caches.teacher, all, 0, 1);
    REQUIRE(simt::take_activity().launches.size() == 4);
    caches.plain->splice(*caches.teacher, all, 0, 1);
    REQUIRE(caches.equal());
    caches.device->rewind(0, 290);
    REQUIRE(same_bits(caches.device->keys(0, 290), before->keys(0, 290)));
}

TEST_CASE("a splice is one launch, and the host waits for nothing", "[gpu][cache]") {
    Random random(1402);
    Caches caches(random, {3, 2, 16, 700, at::kBFloat16}, 690);
    caches.device->splice(*caches.teacher, 0, 4, 0, 1); // takes its memory
    caches.device->rewind(0, 690);
    (void)simt::take_activity();
    caches.device->splice(*caches.teacher, 3, 4, 0, 2);
    simt::Activity activity = simt::take_activity();
    REQUIRE(activity.launches.size() == 1);
    REQUIRE(activity.other_copies == 1);                 // to the host, on its own stream
    REQUIRE(activity.allocations + activity.frees == 0); // the block of the splice that was taken back
    REQUIRE(activity.pageable_copies == 0);
    REQUIRE(activity.device_waits + activity.stream_waits + activity.event_waits == 0);
    caches.device->truncate(5);
    caches.device->rewind(0, 5);
    activity = simt::take_activity();
    REQUIRE(activity.launches.size() == 1);
    REQUIRE(activity.device_waits + activity.stream_waits + activity.event_waits == 0);
    REQUIRE(activity.allocations + activity.frees == 0);
}

TEST_CASE("more columns than stand on their way at a time are spliced in pieces", "[gpu][cache]") {
    Random random(1403);
    Caches caches(random, {2, 1, 16, 700, at::kFloat}, 690);
    const auto before = caches.plain->clone();
    (void)simt::take_activity();
    caches.device->splice(*caches.teacher, 40, 600, 0, 1);
    REQUIRE(simt::take_activity().launches.size() == 3);
    caches.plain->splice(*caches.teacher, 40, 600, 0, 1);
    REQUIRE(caches.equal());
    REQUIRE(caches.device->journal_bytes() >= caches.plain->journal_bytes());
    caches.device->rewind(0, 690);
    REQUIRE(same_bits(caches.device->keys(0, 690), before->keys(0, 690)));
    REQUIRE(same_bits(caches.device->values(0, 690), before->values(0, 690)));
}

TEST_CASE("distances of columns come from the device in one copy, and are the CPU's to rounding",
          "[gpu][cache]") {
    Random random(1404);
    for (const Geometry& g : geometries()) {
        Caches caches(random, g, 37);
        (void)caches.device->distances(*caches.teacher, 0, 37); // takes its memory
        (void)simt::take_activity();
        const ColumnDistances got = caches.device->distances(*caches.teacher, 5, 30);
        const simt::Activity activity = simt::take_activity();
        REQUIRE(activity.launches.size() == 1);
        REQUIRE(activity.other_copies == 1);
        REQUIRE(activity.event_waits == 1);
        REQUIRE(activity.device_waits + activity.stream_waits + activity.allocations == 0);
        const ColumnDistances expected = caches.plain->distances(*caches.teacher, 5, 30);
        REQUIRE(relative_error(got.k.relative, expected.k.relative) <= 1e-6);
        REQUIRE(relative_error(got.v.relative, expected.v.relative) <= 1e-6);
        REQUIRE(same_bits(got.k.max_abs, expected.k.max_abs));
        REQUIRE(same_bits(got.v.max_abs, expected.v.max_abs));
        REQUIRE(caches.equal()); // nothing was written
    }
}

TEST_CASE("the kernel set reference goes round the device's kernels, and a rewind knows who saved",
          "[gpu][cache]") {
    Random random(1405);
    Caches caches(random, geometries()[0], 31);
    const auto before = caches.plain->clone();
    caches.splice(3, 9, 0, 1);
    {
        const kernels::ExecutionContext reference(1, kernels::Isa::reference);
        const kernels::ExecutionScope scope(reference);
        (void)simt::take_activity();
        caches.splice(5, 20, 1, 2);
        REQUIRE(simt::take_activity().launches.empty());
        REQUIRE(caches.equal());
        caches.device->rewind(0, 31);
    }
    REQUIRE(same_bits(caches.device->keys(0, 31), before->keys(0, 31)));
}

} // namespace
} // namespace refreshlab::test::cache_work_cases
