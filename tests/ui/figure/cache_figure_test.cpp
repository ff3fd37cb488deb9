// The figure of a cache shows the panel's view: entries or drift, of layers or of one layer's KV heads, in the same colours.
#include "tests/support/refused.h"
#include "tests/ui/figure/drawn_figure.h"
#include "tests/ui/figure/figure_fixture.h"
#include "tests/ui/maps/evicting_run.h"
#include "ui/scene/maps/cache_model.h"
#include "ui/scene/theme/run_colours.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cmath>

namespace cache_figure_test {

using namespace refreshlab;
using namespace refreshlab::ui;
using namespace refreshlab::test;
using Catch::Matchers::ContainsSubstring;

namespace {

/// Drift of two layers over the four generated positions, K twice that of V.
std::shared_ptr<Recording> drifting_run() {
    const auto run = empty_recording(Mode::overfill, 4);
    CacheEvent filled = cache_event(0, CacheChange::appended, -1, -1, {{0, 4}});
    filled.origin = Origin::teacher_prefill;
    run->add_cache_event(filled);
    for (int64_t t = 1; t <= 4; ++t) {
        run->add_cache_event(cache_event(t, CacheChange::appended, -1, -1, {{3 + t, 1}}));
        append_step(*run);
    }
    auto drift = std::make_shared<DriftMap>();
    drift->step = 4;
    drift->first_pos = 4;
    drift->positions = 4;
    drift->layers = 2;
    for (int i = 1; i <= 8; ++i) {
        drift->k.push_back(static_cast<float>(i) / 10);
        drift->v.push_back(static_cast<float>(i) / 20);
        drift->k_max.push_back(static_cast<float>(i));
        drift->v_max.push_back(static_cast<float>(i) / 2);
    }
    run->add_drift(drift);
    return run;
}

} // namespace

TEST_CASE("entries of a figure are the panel's cells, with what each row holds", "[figure][cache]") {
    const auto run = evicting_run();
    const Theme theme = paper().theme;
    for (const int64_t step : {1, 2, 3}) {
        for (const CacheRows rows : {CacheRows{}, CacheRows{0}, CacheRows{1}}) {
            FigureRequest request = request_of(run, "cache");
            request.step = step;
            request.views.cache.rows = rows;
            CAPTURE(step, rows.layer.value_or(-1));
            const RecordedCanvas canvas = drawn(request);
            const CacheState cache = cache_state(*run, step, false);
            const auto images = canvas.images_of("entries");
            REQUIRE(images.size() == 1); // a cache policy was at work: entries are what it shows by itself
            CHECK(images[0].rgba == EntryColours().update(cache, {rows, 1, cell_palette(theme)}));
            CHECK(images[0].width == 4 + step);
            CHECK(images[0].height == 2);
            CHECK(canvas.images_of("drift").empty());
            CHECK(canvas.says("evicted"));
            CHECK(canvas.says("merged"));
            CHECK(canvas.says("held, not read") == (step == 2));
            CHECK(canvas.says(rows.layer ? "KV1" : "L1"));
            // The bars: of all positions, then held, then read, in one scale.
            const auto held = count_rows(cache, rows);
            std::vector<double> widths;
            for (const DrawnRectangle& bar : canvas.rectangles_of("held"))
                widths.push_back(bar.rect.width);
            REQUIRE(widths.size() == 3 * held.size());
            for (size_t i = 0; i < held.size(); ++i) {
                const double all = static_cast<double>(4 + step);
                CHECK(std::abs(widths[3 * i + 1] / widths[3 * i] - held[i].held / all) < 1e-9);
                CHECK(std::abs(widths[3 * i + 2] / widths[3 * i] - held[i].attended / all) < 1e-9);
            }
        }
    }
    FigureRequest request = request_of(run, "cache");
    request.step = 2;
    const DataTable layers = make_figure(request)->table();
    CHECK(layers.columns.back() == "read_layer1");
    CHECK(layers.rows[0][5] == "0.5"); // one of two KV heads has evicted position 0
    CHECK(layers.rows[2][5] == "0");
    request.views.cache.rows = {1};
    const DataTable heads = make_figure(request)->table();
    CHECK(heads.columns.back() == "kv_head1");
    CHECK(heads.rows[0][4] == "attended");
    CHECK(heads.rows[0][5] == "evicted");
    CHECK(heads.rows[2][5] == "held, not read");
    request.views.cache.rows = {2};
    CHECK_THAT(refused([&] { static_cast<void>(make_figure(request)); }),
               ContainsSubstring("layer 2 does not exist"));
}

TEST_CASE("drift of a figure has the panel's quantity and scale", "[figure][cache]") {
    const auto run = drifting_run();
    const Theme theme = paper().theme;
    for (const DriftQuantity quantity : {DriftQuantity::mean, DriftQuantity::keys, DriftQuantity::values,
                                         DriftQuantity::keys_max, DriftQuantity::values_max})
        for (const bool log : {false, true})
            for (const char* panel : {"cache", "drift"}) {
                FigureRequest request = request_of(run, panel);
                request.views.cache.quantity = quantity;
                request.views.cache.log = log;
                const RecordedCanvas canvas = drawn(request);
                const auto images = canvas.images_of("drift");
                REQUIRE(images.size() == 1);
                CacheModel model;
                model.update(*run, 4);
                model.show(quantity);
                ColourScale scale{colour_map(theme.map_amounts), 0, model.shown_top(), log};
                if (log) scale.min = scale.max * drift_log_share;
                REQUIRE(images[0].rgba.size() == 2 * 8);
                for (size_t layer = 0; layer < 2; ++layer)
                    for (size_t i = 0; i < 8; ++i) {
                        const float value = model.shown()[layer * 8 + i];
                        CHECK(is_absent(value) == (i < 4));
                        CHECK(images[0].rgba[layer * 8 + i] ==
                              (is_absent(value) ? 0U : scale(static_cast<double>(value))));
                    }
                CHECK(canvas.images_of("origin").size() == (std::string(panel) == "cache" ? 1U : 0U));
            }
}

TEST_CASE("a person's map of the cache goes before what the run would show", "[ui][cache]") {
    const auto evicting = evicting_run(), drifting = drifting_run();
    CHECK(shown_map({}, *evicting) == CacheMap::entries);
    CHECK(shown_map({}, *drifting) == CacheMap::drift);
    CHECK(shown_map({.map = CacheMap::drift}, *evicting) == CacheMap::drift);
    CHECK(shown_map({.map = CacheMap::entries}, *drifting) == CacheMap::entries);
    FigureRequest request = request_of(evicting, "cache");
    request.views.cache.map = CacheMap::drift; // which was never measured: the bands alone
    const RecordedCanvas canvas = drawn(request);
    CHECK(canvas.images_of("entries").empty());
    CHECK(canvas.images_of("origin").size() == 1);
    const CacheState cache = cache_state(*evicting, 3, false);
    CHECK(shown_rows({.rows = {1}}, cache).layer == 1);
    CHECK_FALSE(shown_rows({.rows = {2}}, cache).layer); // of a deeper model
    CHECK(entry_budget(evicting->info().config) > 0);
    CHECK(entry_budget(drifting->info().config) == 0);
}

} // namespace cache_figure_test
