#include "engine/base/check.h"
#include "engine/record/recording/cache_state.h"
#include "tests/engine/record/random_recording.h"
#include "tests/support/made_run.h"
#include "tests/support/seed.h"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <random>

namespace cache_event_test {

using namespace refreshlab;
using namespace refreshlab::test;

namespace {

constexpr int64_t layers = 3, kv_heads = 2; // of Grower::start()

CacheEvent event_of(int64_t step, CacheChange change, std::vector<PositionRange> positions,
                    Origin origin = Origin::none) {
    CacheEvent event;
    event.step = step;
    event.change = change;
    event.positions = std::move(positions);
    event.origin = origin;
    return event;
}

CacheEvent append_of(int64_t step, int64_t position, int64_t bytes = -1) {
    CacheEvent event = event_of(step, CacheChange::appended, {{position, 1}}, Origin::student);
    if (bytes >= 0) event.bytes = {bytes};
    return event;
}

/// The events as they were given, one by one.
std::vector<CacheEvent> all_events(const Recording& recording) {
    std::vector<CacheEvent> events;
    for (size_t e = 0; e < recording.cache_entries().size(); ++e) {
        for (int64_t i = 0; i < recording.cache_entries()[e].steps(); ++i)
            events.push_back(recording.cache_entries()[e].event(i));
    }
    return events;
}

/// The cache of one model, event by event as they were given, cell by cell: the plain reference of cache_state().
struct NaiveCache {
    struct Cell {
        EntryState state = EntryState::none;
        Origin origin = Origin::none;
        int32_t refresh = -1;
        int64_t written_at = 0;
        bool encoded = false;
        int64_t since = 0;
        friend bool operator==(const Cell&, const Cell&) = default;
    };
    std::vector<std::vector<Cell>> planes = std::vector<std::vector<Cell>>(layers * kv_heads);
    std::vector<int64_t> bytes = std::vector<int64_t>(layers, -1);

    void apply(const CacheEvent& e) {
        for (int64_t layer = 0; layer < layers; ++layer) {
            if (e.layer >= 0 && layer != e.layer) continue;
            if (e.bytes.size() == 1) bytes[static_cast<size_t>(layer)] = e.bytes[0];
            for (int64_t head = 0; head < kv_heads; ++head) {
                if (e.kv_head >= 0 && head != e.kv_head) continue;
                auto& plane = planes[static_cast<size_t>(layer * kv_heads + head)];
                for (const PositionRange& range : e.positions) {
                    for (int64_t p = range.first; p < range.first + range.n; ++p) {
                        if (plane.size() <= static_cast<size_t>(p)) plane.resize(static_cast<size_t>(p) + 1);
                        change(plane[static_cast<size_t>(p)], e);
                    }
                }
            }
        }
        if (e.bytes.size() > 1) bytes = e.bytes;
    }

    static void change(Cell& cell, const CacheEvent& e) {
        const Cell before = cell;
        change_state(cell, e);
        cell.since = cell.state == EntryState::none ? 0 : cell.state == before.state ? before.since : e.step;
    }
    static void change_state(Cell& cell, const CacheEvent& e) {
        switch (e.change) {
        case CacheChange::appended:
        case CacheChange::adopted:
        case CacheChange::rebuilt:
            cell = {EntryState::attended, e.origin, e.refresh_id, e.step, false};
            break;
        case CacheChange::spliced:
            if (cell.state == EntryState::evicted || cell.state == EntryState::merged) break;
            cell = {cell.state == EntryState::kept ? EntryState::kept : EntryState::attended, e.origin,
                    e.refresh_id, e.step, cell.encoded};
            break;
        case CacheChange::encoded:
            cell.encoded = true;
            break;
        case CacheChange::skipped:
            cell.origin = e.origin;
            cell.refresh = e.refresh_id;
            break;
        case CacheChange::attended:
            cell.state = EntryState::attended;
            break;
        case CacheChange::kept:
            cell.state = EntryState::kept;
            break;
        case CacheChange::evicted:
            cell.state = EntryState::evicted;
            break;
        case CacheChange::merged:
            cell.state = EntryState::merged;
            break;
        case CacheChange::dropped:
            cell = {};
            break;
        }
    }
};

/// Events of two caches as sessions and cache policies make them: a prefill, an append a step, refreshes, evictions by layer
/// and KV head, selections, truncations.
std::vector<CacheEvent> random_events(std::mt19937_64& random, int64_t prompt, int64_t steps) {
    const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n)); };
    std::vector<CacheEvent> events;
    int64_t length[2] = {prompt, prompt};
    for (const bool teacher : {true, false}) {
        CacheEvent fill = event_of(0, teacher ? CacheChange::appended : CacheChange::adopted, {{0, prompt}},
                                   Origin::teacher_prefill);
        fill.teacher = teacher;
        fill.bytes = {prompt * 64};
        events.push_back(fill);
    }
    const bool evicts_first = below(3) == 0;
    for (int64_t t = 1; t <= steps; ++t) {
        const auto some = [&](bool teacher) {
            std::vector<PositionRange> ranges;
            for (int64_t p = below(4); p < length[teacher ? 1 : 0];) {
                const int64_t n = std::min(1 + below(3), length[teacher ? 1 : 0] - p);
                ranges.push_back({p, n});
                p += n + 1 + below(12);
            }
            return ranges;
        };
        const auto append = [&](bool teacher, int64_t n) {
            int64_t& end = length[teacher ? 1 : 0];
            CacheEvent event = event_of(t, CacheChange::appended, {{end, n}},
                                        teacher ? Origin::teacher_decode : Origin::student);
            event.teacher = teacher;
            end += n;
            if (below(6) != 0) event.bytes = {end * 64};
            events.push_back(event);
        };
        const auto policy = [&] {
            if (below(3) != 0) return;
            constexpr CacheChange changes[] = {CacheChange::evicted, CacheChange::kept, CacheChange::attended,
                                               CacheChange::merged, CacheChange::encoded};
            CacheEvent event = event_of(t, changes[below(5)], some(false));
            if (event.positions.empty()) return;
            if (below(3) != 0) event.layer = static_cast<int32_t>(below(layers));
            if (below(3) != 0) event.kv_head = static_cast<int32_t>(below(kv_heads));
            if (below(2) == 0) event.bytes = {below(5000)};
            if (below(4) == 0) event.bytes = {below(5000), below(5000), below(5000)};
            events.push_back(event);
        };
        if (evicts_first) policy();
        append(false, 1);
        if (!evicts_first) policy();
        if (below(5) == 0) append(true, 1 + below(4));
        // A short prompt may have been dropped almost whole.
        if (length[0] >= 4 && below(9) == 0) {
            CacheEvent event = event_of(t, below(2) == 0 ? CacheChange::spliced : CacheChange::rebuilt,
                                        {{length[0] - 2, 2}}, Origin::teacher_refresh);
            event.refresh_id = static_cast<int32_t>(t);
            events.push_back(event);
            event = event_of(t, CacheChange::skipped, {{length[0] - 4, 2}}, Origin::skipped);
            event.refresh_id = static_cast<int32_t>(t);
            events.push_back(event);
        }
        if (length[0] >= 2 && below(15) == 0) {
            events.push_back(event_of(t, CacheChange::dropped, {{length[0] - 2, 2}}));
            length[0] -= 2;
        }
    }
    return events;
}

void check_state(const Recording& recording, const std::vector<CacheEvent>& events, int64_t step,
                 bool teacher) {
    NaiveCache naive;
    for (const CacheEvent& event : events) {
        if (event.step <= step && event.teacher == teacher) naive.apply(event);
    }
    const CacheState state = cache_state(recording, step, teacher);
    INFO("step " << step << " teacher " << teacher);
    int64_t length = 0;
    for (const auto& plane : naive.planes) {
        for (size_t p = 0; p < plane.size(); ++p) {
            if (plane[p].state != EntryState::none) length = std::max(length, static_cast<int64_t>(p) + 1);
        }
    }
    REQUIRE(state.length() == length);
    REQUIRE(state.layers() == layers);
    REQUIRE(state.kv_heads() == kv_heads);
    for (int64_t layer = 0; layer < layers; ++layer) {
        for (int64_t head = 0; head < kv_heads; ++head) {
            const CacheState::Plane& plane = state.plane(layer, head);
            auto expected = naive.planes[static_cast<size_t>(layer * kv_heads + head)];
            expected.resize(static_cast<size_t>(length));
            for (size_t p = 0; p < expected.size(); ++p) {
                INFO("layer " << layer << " head " << head << " position " << p);
                const NaiveCache::Cell cell = {plane.state[p],      plane.origin[p],       plane.refresh[p],
                                               plane.written_at[p], plane.encoded[p] == 1, plane.since[p]};
                REQUIRE(cell == expected[p]);
            }
            for (const EntryState s :
                 {EntryState::attended, EntryState::kept, EntryState::evicted, EntryState::merged})
                REQUIRE(plane.count(s) == std::ranges::count(expected, s, &NaiveCache::Cell::state));
            REQUIRE(plane.attended_encoded ==
                    std::ranges::count_if(expected, [](const NaiveCache::Cell& cell) {
                        return cell.state == EntryState::attended && cell.encoded;
                    }));
        }
    }
    for (size_t p = 0; p < static_cast<size_t>(length); ++p) {
        std::optional<int32_t> gone = 0; // step at which the last one gave it up
        for (auto plane : naive.planes) {
            plane.resize(static_cast<size_t>(length));
            const bool here = plane[p].state == EntryState::evicted || plane[p].state == EntryState::merged;
            if (!here) gone.reset();
            if (gone) gone = std::max(*gone, static_cast<int32_t>(plane[p].since));
        }
        REQUIRE(state.gone_since(static_cast<int64_t>(p)) == gone);
    }
    CHECK(state.bytes() == naive.bytes);
}

} // namespace

TEST_CASE("appends of single steps become one entry, and read as they were given", "[record]") {
    Grower grower(1);
    const auto recording = grower.start();
    std::vector<CacheEvent> given;
    const auto add = [&](const CacheEvent& event) {
        given.push_back(event);
        recording->add_cache_event(event);
    };
    add(event_of(0, CacheChange::appended, {{0, 20}}, Origin::teacher_prefill));
    for (int64_t t = 1; t <= 1000; ++t)
        add(append_of(t, 19 + t, 640 + 32 * t));
    REQUIRE(recording->cache_entries().size() == 2);
    CHECK(recording->cache_entries()[1].steps() == 1000);
    CHECK(recording->cache_entries()[1].last_step() == 1000);
    CHECK(all_events(*recording) == given);
    // Another origin, a gap, a step without one, other bytes, two at once: each begins a new entry.
    CacheEvent other = append_of(1001, 1020, 32672);
    other.origin = Origin::teacher_decode;
    add(other);
    add(append_of(1002, 1022));
    add(append_of(1003, 1025));
    add(append_of(1005, 1026));
    add(append_of(1006, 1027, 5));
    CacheEvent two = append_of(1007, 1028, 10);
    two.positions[0].n = 2;
    add(two);
    CHECK(recording->cache_entries().size() == 8);
    CHECK(all_events(*recording) == given);
}

TEST_CASE("a row of appends goes on beside the events of others, but never across one of its own step",
          "[record]") {
    Grower grower(2);
    const auto recording = grower.start();
    for (int64_t t = 1; t <= 50; ++t) {
        recording->add_cache_event(append_of(t, t));
        CacheEvent teacher = append_of(t, t);
        teacher.teacher = true;
        recording->add_cache_event(teacher);
        if (t % 10 == 0) recording->add_cache_event(event_of(t, CacheChange::evicted, {{t - 5, 1}}));
    }
    CHECK(recording->cache_entries().size() == 2 + 5);
    // Room is made first here: the append must not be told before the eviction.
    const auto sliding = grower.start();
    for (int64_t t = 1; t <= 5; ++t) {
        sliding->add_cache_event(event_of(t, CacheChange::evicted, {{t, 1}}));
        sliding->add_cache_event(append_of(t, t + 10));
    }
    CHECK(sliding->cache_entries().size() == 10);
    // After a truncation positions come again.
    const auto truncated = grower.start();
    truncated->add_cache_event(append_of(1, 1));
    truncated->add_cache_event(event_of(1, CacheChange::dropped, {{1, 1}}));
    truncated->add_cache_event(append_of(2, 1));
    truncated->add_cache_event(append_of(3, 2));
    CHECK(truncated->cache_entries().size() == 3);
}

TEST_CASE("an event that cannot be is a bug that is caught", "[record]") {
    Grower grower(3);
    const auto recording = grower.start();
    recording->add_cache_event(append_of(5, 5));
    recording->add_cache_event(append_of(6, 6)); // the same entry
    const auto refused = [&](CacheEvent event) {
        CHECK_THROWS_AS(recording->add_cache_event(std::move(event)), InvariantError);
    };
    refused(append_of(5, 7));
    CacheEvent teacher = append_of(4, 7);
    teacher.teacher = true;
    refused(teacher);
    refused(event_of(7, CacheChange::evicted, {}));
    refused(event_of(7, CacheChange::evicted, {{3, 0}}));
    refused(event_of(7, CacheChange::evicted, {{-1, 2}}));
    refused(event_of(7, CacheChange::evicted, {{4, 2}, {5, 1}}));
    refused(event_of(7, CacheChange::evicted, {{4, 1}, {2, 1}}));
    CacheEvent bytes = append_of(7, 7);
    bytes.bytes = {1, 2};
    refused(bytes);
    CacheEvent layer = append_of(7, 7);
    layer.layer = 3;
    refused(layer);
    layer.layer = 0;
    layer.kv_head = 2;
    refused(layer);
}

TEST_CASE("the state of a cache after any step equals the events replayed cell by cell", "[record]") {
    const uint64_t seed = test::seed(1);
    INFO("seed " << seed);
    std::mt19937_64 random(seed);
    for (int i = 0; i < 12; ++i) {
        Grower grower(seed + static_cast<uint64_t>(i));
        const auto recording = grower.start();
        const std::vector<CacheEvent> events = random_events(random, recording->prompt_length(), 60);
        size_t next = 0;
        for (int64_t t = 0; t <= 60; ++t) {
            while (next < events.size() && events[next].step <= t)
                recording->add_cache_event(events[next++]);
            if (t > 0) recording->append(next_record(*recording, 7));
        }
        CHECK(recording->cache_entries().size() < events.size());
        for (const int64_t step :
             {int64_t{0}, int64_t{1}, int64_t{7}, int64_t{31}, int64_t{59}, int64_t{60}}) {
            check_state(*recording, events, step, false);
            check_state(*recording, events, step, true);
        }
        // A fork tells the same up to its step, and goes on as its parent did.
        for (const int64_t k : {int64_t{0}, int64_t{13}, int64_t{40}}) {
            const auto branch = recording->fork(k, "branch");
            check_state(*branch, events, k, false);
            check_state(*branch, events, k, true);
            for (const CacheEvent& event : events) {
                if (event.step > branch->steps() + 1) {
                    while (branch->steps() + 1 < event.step)
                        branch->append(next_record(*branch, 7));
                }
                if (event.step > k) branch->add_cache_event(event);
            }
            while (branch->steps() < 60)
                branch->append(next_record(*branch, 7));
            const auto difference = first_difference(*branch, *recording);
            INFO("fork " << k << ": " << difference.value_or("no difference"));
            CHECK_FALSE(difference);
            check_state(*branch, events, 60, false);
        }
    }
}

TEST_CASE("a state that goes on with its recording is the one made at once", "[record]") {
    for (const uint64_t seed : {21, 22, 23}) {
        Grower grower(seed);
        const auto recording = grower.start();
        CacheState states[] = {CacheState(*recording, false), CacheState(*recording, true)};
        for (int64_t t = 1; t <= 300; ++t) {
            grower.grow(*recording, 1);
            // Now and then several steps at once, also to a step before the newest.
            if (grower.random() % 3 == 0) continue;
            const int64_t step = std::max(states[0].step(), t - static_cast<int64_t>(grower.random() % 4));
            for (CacheState& state : states) {
                state.advance(*recording, step);
                const bool teacher = &state == &states[1];
                const CacheState whole = cache_state(*recording, step, teacher);
                INFO("step " << step << " teacher " << teacher);
                REQUIRE(state.step() == whole.step());
                REQUIRE(state.length() == whole.length());
                REQUIRE(state.bytes() == whole.bytes());
                for (int64_t layer = 0; layer < state.layers(); ++layer)
                    for (int64_t head = 0; head < state.kv_heads(); ++head) {
                        const CacheState::Plane &a = state.plane(layer, head), &b = whole.plane(layer, head);
                        REQUIRE(a.state == b.state);
                        REQUIRE(a.origin == b.origin);
                        REQUIRE(a.refresh == b.refresh);
                        REQUIRE(a.written_at == b.written_at);
                    }
            }
        }
    }
}

TEST_CASE("a cache whose layers were never told apart has one plane", "[record]") {
    Grower grower(4);
    const auto recording = grower.start();
    recording->add_cache_event(event_of(0, CacheChange::appended, {{0, 10}}, Origin::teacher_prefill));
    recording->append(next_record(*recording, 7));
    CHECK(cache_state(*recording, 1, false).uniform());
    CHECK(cache_state(*recording, 1, true).length() == 0);
    CacheEvent event = event_of(2, CacheChange::evicted, {{3, 1}});
    event.layer = 1;
    recording->add_cache_event(event);
    recording->append(next_record(*recording, 7));
    CHECK(cache_state(*recording, 1, false).uniform());
    const CacheState state = cache_state(*recording, 99, false); // clamped to the recording
    CHECK(state.step() == 2);
    CHECK_FALSE(state.uniform());
    CHECK(state.plane(1, 0).state[3] == EntryState::evicted);
    CHECK(&state.plane(1, 0) == &state.plane(1, 1));
    CHECK(state.plane(0, 1).state[3] == EntryState::attended);
    CHECK(&state.plane(0, 0) == &state.plane(2, 1));
    CHECK_THROWS_AS(state.plane(3, 0), InvariantError);
}

TEST_CASE("first_difference sees a cache event", "[record]") {
    Grower grower(5);
    const RunInfo info = grower.start()->info();
    const auto make = [&](const std::vector<CacheEvent>& events) {
        const auto recording = std::make_shared<Recording>(info, std::make_shared<ByteTokens>());
        for (const CacheEvent& event : events)
            recording->add_cache_event(event);
        return recording;
    };
    const std::vector<CacheEvent> events = {append_of(1, 4, 10), append_of(2, 5, 20), append_of(3, 6, 30),
                                            event_of(3, CacheChange::evicted, {{1, 2}, {4, 1}})};
    CHECK(first_difference(*make(events), *make(events)) == std::nullopt);
    const auto differs = [&](const auto& change) {
        auto changed = events;
        change(changed);
        return first_difference(*make(events), *make(changed)).has_value();
    };
    CHECK(differs([](auto& e) { e.pop_back(); }));
    CHECK(differs([](auto& e) { e[2].bytes[0] = 31; }));
    CHECK(differs([](auto& e) { e[2].origin = Origin::student_prefill; }));
    CHECK(differs([](auto& e) { e[3].positions[1].first = 5; }));
    CHECK(differs([](auto& e) { e[3].change = CacheChange::kept; }));
    CHECK(differs([](auto& e) { e[3].layer = 1; }));
    CHECK(differs([](auto& e) { e[3].teacher = true; }));
    CHECK(differs([](auto& e) { e[3].refresh_id = 0; }));
    CHECK(differs([](auto& e) { e[3].bytes = {1, 2, 3}; }));
}

} // namespace cache_event_test
