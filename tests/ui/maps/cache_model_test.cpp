#include "engine/record/recording/older_cache_events.h"
#include "engine/signals/registry.h"
#include "tests/ui/maps/heatmap_recording.h"
#include "ui/scene/maps/cache_model.h"

#include <catch2/catch_test_macros.hpp>

#include <limits>

namespace cache_model_test {

using namespace refreshlab;
using namespace refreshlab::ui;
using namespace refreshlab::test;

namespace {

/// Prompt of 4, six steps, a refresh at step 4 that spliced the newest two of four columns and measured two layers.
std::shared_ptr<Recording> refreshed_run() {
    auto recording = empty_recording(Mode::overfill, 4);
    for (int step = 0; step < 6; ++step)
        append_step(*recording);
    const float nan = std::numeric_limits<float>::quiet_NaN();
    recording->add_drift(std::make_shared<const DriftMap>(
        DriftMap{4, 0, 4, 4, 2, {1, 2, 3, 4, 5, 6, 7, nan}, {3, 2, 1, 0, 1, 2, 3, 4}, {}, {}}));
    RefreshEvent event;
    event.step = event.fired_step = 4;
    event.delta = 4;
    event.first_pos = 6;
    event.spliced = 2;
    recording->add_refresh(event);
    add_older_cache_events(*recording);
    return recording;
}

} // namespace

TEST_CASE("cache state follows step and quantity, and is made anew only then", "[ui][cache]") {
    const auto recording = refreshed_run();
    CacheModel state;
    state.update(*recording, 6);
    const uint64_t revision = state.revision();
    state.update(*recording, 6);
    CHECK(state.revision() == revision);
    CHECK(state.columns().length() == 10);
    CHECK(state.ages()[6] == 2); // written again at step 4
    CHECK(state.ages()[9] == 0);

    // The mean of K and V of layer 0, position 4.
    CHECK(state.shown()[state.drift().index(0, 4)] == 2);
    CHECK(is_absent(state.shown()[state.drift().index(0, 0)]));
    CHECK(state.shown_top() == 5); // layer 1, position 6: (7 + 3) / 2
    state.show(DriftQuantity::keys);
    CHECK(state.revision() != revision);
    CHECK(state.shown()[state.drift().index(1, 6)] == 7);
    CHECK(state.shown_top() == 7); // the NaN after it is no number
    state.show(DriftQuantity::values_max);
    CHECK(is_absent(state.shown()[state.drift().index(0, 4)])); // not in this recording
    CHECK(state.shown_top() == 0);

    state.update(*recording, 3); // before the refresh
    CHECK(state.columns().length() == 7);
    CHECK(state.drift().layers == 0);
    CHECK(state.shown().empty());
}

TEST_CASE("of columns that share a pixel the rarest origin is shown", "[ui][cache]") {
    using O = Origin;
    const std::vector<Origin> origins = {O::teacher_prefill, O::teacher_prefill, O::teacher_refresh,
                                         O::student,         O::skipped,         O::student,
                                         O::teacher_prefill};
    CHECK(reduce_origins(origins, 1) == origins);
    CHECK(reduce_origins(origins, 3) ==
          std::vector<Origin>{O::teacher_refresh, O::skipped, O::teacher_prefill});
}

TEST_CASE("values of drift maps that come late stand where they would have stood", "[ui][cache]") {
    Recording whole(empty_recording(Mode::overfill, 4)->info(),
                    empty_recording(Mode::overfill, 4)->token_table()),
        late(whole.info(), whole.token_table());
    std::vector<std::shared_ptr<const DriftMap>> maps;
    for (int i = 0; i < 3; ++i) { // each lies over a part of the one before
        DriftMap map{i, i, 2 + i, 3, 2, {}, {}, {}, {}};
        late.add_drift(std::make_shared<DriftMap>(map));
        for (auto* values : {&map.k, &map.v, &map.k_max, &map.v_max})
            values->assign(6, static_cast<float>(i + 1));
        maps.push_back(std::make_shared<DriftMap>(map));
        whole.add_drift(maps.back());
    }
    const DriftColumns all = drift_columns(whole, 5, 12);
    DriftColumns here;
    CHECK(here.advance(late, 5, 12));
    CHECK(here.lacks);
    CHECK(here.layers == 2);
    CHECK(is_absent(here.k[here.index(0, 3)]));
    CHECK(drift_text(here, 0, 3).find("have not come from the server yet") != std::string::npos);
    CHECK(!here.advance(late, 5, 12));
    late.fill_drift(2, maps[2]); // the newest first
    CHECK(here.advance(late, 5, 12));
    CHECK(here.k[here.index(0, 4)] == 3);
    late.fill_drift(0, maps[0]);
    late.fill_drift(1, maps[1]);
    CHECK(here.advance(late, 5, 12));
    CHECK(!here.lacks);
    REQUIRE(here.k.size() == all.k.size());
    for (size_t i = 0; i < all.k.size(); ++i)
        CHECK((is_absent(all.k[i]) ? is_absent(here.k[i]) : here.k[i] == all.k[i]));
}

TEST_CASE("an empty drift map says why", "[ui][cache]") {
    const auto recording = empty_recording(Mode::overfill, 4);
    append_step(*recording);
    CHECK(no_drift_text(*recording, true).find("press Refresh now") != std::string::npos);
    CHECK(no_drift_text(*recording, false).find("there was none") != std::string::npos);
    recording->set_end({});
    CHECK(no_drift_text(*recording, true).find("there was none") != std::string::npos);
    CHECK(no_drift_text(*empty_recording(Mode::student, 4), true).find("one model only") !=
          std::string::npos);
}

TEST_CASE("the tooltip of a column tells token, step, origin, age and drift", "[ui][cache]") {
    const auto recording = refreshed_run();
    const CacheColumns columns = cache_columns(*recording, 6);
    const std::string prompt = column_text(*recording, columns, 0);
    CHECK(prompt.find("Position 0") != std::string::npos);
    CHECK(prompt.find("step") == prompt.find("steps ago")); // no step of its own
    const std::string passed = column_text(*recording, columns, 5);
    CHECK(passed.find("step 2") != std::string::npos);
    CHECK(passed.find("passed over by refresh 1") != std::string::npos);
    CHECK(column_text(*recording, columns, 6).find("(by refresh 1)\nWritten 2 steps ago") !=
          std::string::npos);
    const DriftColumns drift = drift_columns(*recording, 6, columns.length());
    CHECK(drift_text(drift, 0, 5) == "\nLayer 0: drift K 2, V 2");
    CHECK(drift_text(drift, 0, 9) == "\nLayer 0: drift K not measured, V not measured");
}

TEST_CASE("bytes of the caches: each model's columns, the teacher's as far as it has read", "[ui][cache]") {
    const auto recording = refreshed_run();
    EngineStatus status;
    status.student.name = "s";
    status.student.layers = 2;
    status.student.kv_heads = 3;
    status.student.head_dim = 8;
    status.teacher = status.student;
    status.teacher.name = "t";
    status.teacher.layers = 4;
    const int64_t width = recording->info().dtype == "f32" ? 4 : 2;
    const int64_t student = 2 * 2 * 3 * 8 * width, teacher = 2 * student;
    const CacheBytes bytes = cache_bytes(*recording, status, 10, teacher_length(*recording, 6));
    CHECK(bytes.student == 10 * student);
    CHECK(bytes.teacher == 8 * teacher); // prompt and what the refresh spliced
    CHECK(cache_bytes(*recording, status, 7, teacher_length(*recording, 3)).teacher == 4 * teacher);
    status.teacher.name.clear(); // a file: no models
    CHECK(cache_bytes(*recording, status, 10, teacher_length(*recording, 6)).teacher == 0);
    CHECK(cache_bytes(*empty_recording(Mode::student, 4), status, 4, 0).teacher == 0);
    CHECK(cache_bytes(*empty_recording(Mode::teacher, 4), status, 4, 0).student == 0);
}

} // namespace cache_model_test
