// What a listener is told of a cache, without a cache.
#include "engine/cache/event_teller.h"

#include <catch2/catch_test_macros.hpp>

#include <array>

namespace event_teller_test {

using namespace refreshlab;

namespace {

constexpr int64_t layers = 3, kv_heads = 2;

/// A teller whose layers hold these bytes, and what its listener got.
struct Told {
    explicit Told(bool alike = false)
        : teller(layers, kv_heads, alike,
                 [this](int64_t layer) { return held.at(static_cast<size_t>(layer)); }) {
        teller.set_listener([this](CacheEvent event) { events.push_back(std::move(event)); });
    }
    std::array<int64_t, layers> held{10, 20, 30};
    EventTeller teller;
    std::vector<CacheEvent> events;

    void edit_layer(int64_t layer, const std::vector<int64_t>& positions) {
        for (int64_t head = 0; head < kv_heads; ++head)
            teller.note_edit(CacheChange::evicted, layer, head, positions);
    }
};

} // namespace

TEST_CASE("an event says the bytes of every layer, or one number where all hold the same",
          "[cache][events]") {
    Told told;
    told.teller.tell(CacheChange::appended, 5, 2, Origin::student);
    told.held = {40, 40, 40};
    told.teller.tell(CacheChange::spliced, 0, 7, Origin::teacher_refresh, 3);
    told.teller.tell(CacheChange::dropped, 7, 0, Origin::none); // of no position
    REQUIRE(told.events.size() == 2);
    CHECK((told.events[0].positions == std::vector<PositionRange>{{5, 2}}));
    CHECK((told.events[0].layer == -1 && told.events[0].kv_head == -1 && told.events[0].refresh_id == -1));
    CHECK(told.events[0].bytes == std::vector<int64_t>{10, 20, 30});
    CHECK((told.events[1].refresh_id == 3 && told.events[1].origin == Origin::teacher_refresh));
    CHECK(told.events[1].bytes == std::vector<int64_t>{40});

    Told alike(true);
    alike.teller.tell(CacheChange::appended, 0, 1, Origin::student);
    CHECK(alike.events.at(0).bytes == std::vector<int64_t>{10}); // the first layer alone was asked
}

TEST_CASE("edits wait, and neighbours that are alike are one event", "[cache][events]") {
    Told told;
    for (int64_t layer = 0; layer < layers; ++layer)
        told.edit_layer(layer, {1, 2, 5});
    CHECK(told.events.empty());
    told.teller.tell_edits();
    REQUIRE(told.events.size() == 1); // all heads of all layers
    CHECK((told.events[0].layer == -1 && told.events[0].kv_head == -1));
    CHECK((told.events[0].positions == std::vector<PositionRange>{{1, 2}, {5, 1}}));
    CHECK(told.events[0].bytes == std::vector<int64_t>{10, 20, 30});
    told.teller.tell_edits(); // nothing is told twice
    CHECK(told.events.size() == 1);

    told.events.clear();
    told.edit_layer(0, {1});
    told.edit_layer(1, {1});
    told.edit_layer(2, {3}); // another position: no event of the whole cache
    told.teller.note_edit(CacheChange::merged, 2, 1, std::array<int64_t, 1>{4});
    told.teller.tell_edits();
    REQUIRE(told.events.size() == 4);
    for (size_t i = 0; i < 3; ++i) {
        CHECK((told.events[i].layer == static_cast<int32_t>(i) && told.events[i].kv_head == -1));
        CHECK(told.events[i].bytes == std::vector<int64_t>{told.held.at(i)});
    }
    CHECK((told.events[3].layer == 2 && told.events[3].kv_head == 1));
    CHECK(told.events[3].change == CacheChange::merged);

    told.events.clear();
    const std::array<int64_t, 1> ninth{9};
    told.teller.note_edit(CacheChange::evicted, 0, 0, ninth); // of one layer, but not the same change
    told.teller.note_edit(CacheChange::merged, 0, 1, ninth);
    told.teller.note_edit(CacheChange::evicted, 1, 1, ninth); // not head by head
    told.teller.note_edit(CacheChange::evicted, 1, 0, ninth);
    told.edit_layer(2, {9});
    told.teller.tell_edits();
    CHECK(told.events.size() == 5);

    told.events.clear();
    told.edit_layer(1, {1});
    told.teller.forget_edits();
    told.teller.tell_edits();
    CHECK(told.events.empty());
}

TEST_CASE("what happens while nobody listens is not told later", "[cache][events]") {
    Told told;
    CHECK(told.teller.listened_to());
    told.teller.mute();
    told.teller.mute();
    told.teller.unmute();
    CHECK_FALSE(told.teller.listened_to()); // one is left
    told.teller.tell(CacheChange::appended, 0, 1, Origin::student);
    told.edit_layer(0, {1});
    told.teller.tell_edits();
    told.teller.unmute();
    told.teller.tell_edits();
    CHECK(told.events.empty());
    told.edit_layer(0, {2});
    told.teller.tell_edits();
    CHECK(told.events.size() == 1);
    told.teller.set_listener({});
    told.edit_layer(0, {3});
    told.teller.tell_edits();
    CHECK(told.events.size() == 1);
}

} // namespace event_teller_test
