// What the panel Landscape shows, as data: values of cells, the pyramid, staircases, frontiers, which landscape is of which run.
#include "engine/base/error.h"
#include "engine/landscape/best_schedule.h"
#include "engine/landscape/staircase.h"
#include "engine/record/recording/step_record.h"
#include "engine/signals/registry.h"
#include "tests/engine/landscape/random_landscape.h"
#include "tests/support/made_run.h"
#include "tests/support/seed.h"
#include "tests/ui/maps/heatmap_recording.h"
#include "ui/scene/landscape/cell_pyramid.h"
#include "ui/scene/landscape/cell_values.h"
#include "ui/scene/landscape/frontier_curves.h"
#include "ui/scene/landscape/landscape_of_run.h"
#include "ui/scene/landscape/map_view.h"
#include "ui/scene/landscape/staircases.h"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cmath>
#include <random>

using namespace refreshlab;
using namespace refreshlab::ui;
using namespace refreshlab::test;
using Catch::Approx;
using Catch::Matchers::ContainsSubstring;

namespace {

std::shared_ptr<const Landscape> random_shared(std::mt19937& random, int64_t tokens, int64_t every = 1) {
    return std::make_shared<Landscape>(random_landscape(random, tokens, every));
}

std::vector<float> row_of(const CellRows& rows, int64_t j) {
    std::vector<float> out;
    rows.read(j, out);
    return out;
}

/// A run of `ids` with these losses (-logprob of y_2, ...), and refreshes at steps.
std::shared_ptr<Recording> recorded(const std::vector<int32_t>& prompt, const std::vector<int32_t>& ids,
                                    const std::vector<float>& logprob, const std::vector<int64_t>& refreshes,
                                    const std::string& id = "00000000000000aa") {
    RunInfo info;
    info.id = id;
    info.prompt_ids = prompt;
    info.first_token = ids[0];
    info.config.policy.name = "a policy";
    auto recording = made_run(info);
    for (size_t t = 0; t < ids.size(); ++t) {
        StepRecord record = next_record(*recording, t + 1 < ids.size() ? ids[t + 1] : -1);
        if (t < logprob.size()) record.signals[require_signal("logprob", "a test")] = logprob[t];
        recording->append(record);
    }
    for (const int64_t step : refreshes) {
        RefreshEvent event;
        event.step = event.fired_step = step;
        event.delta = event.spliced = 3;
        recording->add_refresh(event);
    }
    return recording;
}

} // namespace

TEST_CASE("cells show the loss above the teacher, the gain of a refresh and every value", "[landscape]") {
    std::mt19937 random(seed(0x1A5C));
    const auto landscape = random_shared(random, 60);
    const auto values = cell_values(*landscape, Objective::loss);
    REQUIRE(values.size() == 5);
    CHECK(label_of(values[0]) == "Loss above the teacher");
    const CellRows above(landscape, values[0]), gain(landscape, values[1]), entropy(landscape, values[3]);
    CHECK(values[3].signal == "entropy_bits");
    for (const int64_t j : {0, 7, 40, 58}) {
        const auto a = row_of(above, j), g = row_of(gain, j), e = row_of(entropy, j);
        for (int64_t c = 0; c < landscape->num_steps(); ++c) {
            const auto i = static_cast<size_t>(c);
            if (c < j) {
                REQUIRE(is_absent(a[i]));
                REQUIRE(is_absent(g[i]));
                continue;
            }
            const int64_t step = c + 1;
            REQUIRE(a[i] == static_cast<float>(landscape->loss(j, step) - landscape->teacher_loss(step)));
            REQUIRE(e[i] == landscape->cell(1, j, step));
            if (step < landscape->num_rows())
                REQUIRE(static_cast<double>(g[i]) ==
                        Approx(refresh_gain(*landscape, j, step, gain_horizon)).margin(1e-4));
            else
                REQUIRE(is_absent(g[i])); // after the last choice
        }
    }
}

TEST_CASE("rows that are not there are drawn as the one above, as far as rows usually are apart",
          "[landscape]") {
    std::mt19937 random(seed(0x1A5D));
    const auto coarse = random_shared(random, 200, 40);
    const CellRows rows(coarse, {});
    CHECK(row_of(rows, 45)[100] == row_of(rows, 40)[100]);
    CHECK(is_absent(row_of(rows, 45)[44]));
    // The first rows of a computation: what lies far below them is not drawn as them.
    LandscapeInfo info = coarse->info();
    Landscape begun(info);
    begun.put_row(coarse->row(0));
    const CellRows first(std::make_shared<Landscape>(begun), {});
    CHECK_FALSE(is_absent(row_of(first, 31)[100]));
    CHECK(is_absent(row_of(first, 32)[100]));
    // A gain is known where the row that the refresh leads to is.
    const CellRows gains(coarse, {CellValue::Kind::gain, {}});
    CHECK_FALSE(is_absent(row_of(gains, 0)[79]));
    CHECK(is_absent(row_of(gains, 0)[80]));
}

TEST_CASE("the pyramid holds the mean of the cells of every block", "[landscape]") {
    std::mt19937 random(seed(0x1A5E));
    for (const int64_t tokens : {2, 3, 9, 61, 130}) {
        const auto landscape = random_shared(random, tokens);
        const CellRows rows(landscape, {});
        const CellPyramid pyramid(landscape, {});
        const int64_t n = pyramid.size();
        CHECK(n == tokens - 1);
        for (const int64_t texels : {n, n / 2 + 1, n / 5 + 1, int64_t{1}}) {
            const CellImage image = pyramid.image({0, n, 0, n}, texels);
            REQUIRE(image.rows <= std::max<int64_t>(texels, 1));
            for (int64_t r = 0; r < image.rows; ++r) {
                for (int64_t c = 0; c < image.columns; ++c) {
                    double sum = 0;
                    int count = 0;
                    for (int64_t j = r * image.block; j < std::min((r + 1) * image.block, n); ++j) {
                        const auto row = row_of(rows, j);
                        for (int64_t k = std::max(j, c * image.block); k < std::min((c + 1) * image.block, n);
                             ++k) {
                            sum += static_cast<double>(row[static_cast<size_t>(k)]);
                            ++count;
                        }
                    }
                    const float value = image.values[static_cast<size_t>(r * image.columns + c)];
                    INFO(tokens << " tokens, " << texels << " texels, block " << r << ", " << c);
                    if (count == 0)
                        REQUIRE(is_absent(value));
                    else
                        REQUIRE(static_cast<double>(value) == Approx(sum / count).margin(1e-4));
                }
            }
        }
    }
    const auto landscape = random_shared(random, 100);
    const CellPyramid pyramid(landscape, {});
    const CellImage part = pyramid.image({10, 20, 30, 47}, 20);
    CHECK(part.block == 1);
    CHECK(part.rows == 10);
    CHECK(part.columns == 17);
    CHECK(static_cast<double>(part.values[0]) ==
          Approx(landscape->loss(10, 31) - landscape->teacher_loss(31)));
    CHECK(pyramid.spread().any());
}

TEST_CASE("a value that is no number wins its block, and infinity has a place", "[landscape]") {
    std::mt19937 random(seed(0x1A5F));
    Landscape landscape = random_landscape(random, 17);
    auto row = std::make_shared<LandscapeRow>(*landscape.row(2));
    row->planes[1][5] = std::numeric_limits<float>::quiet_NaN();
    landscape.put_row(row);
    const CellPyramid pyramid(std::make_shared<Landscape>(landscape),
                              {CellValue::Kind::signal, "entropy_bits"});
    const CellImage image = pyramid.image({0, 16, 0, 16}, 8);
    REQUIRE(image.block == 2);
    const float value = image.values[1 * 8 + 3]; // rows 2, 3; columns 6, 7: cell (2, 7) is plane index 5
    CHECK(std::isnan(value));
    CHECK_FALSE(is_absent(value));
}

TEST_CASE("zooming keeps the cell under the mouse, and the view stays inside", "[landscape]") {
    MapView view;
    view.show(1000);
    CHECK(view.whole());
    const double row = view.row_at(0.3), column = view.column_at(0.7);
    view.zoom(0.7, 0.3, 8);
    CHECK(view.row_at(0.3) == Approx(row));
    CHECK(view.column_at(0.7) == Approx(column));
    CHECK(view.extent() == Approx(125));
    const CellRegion region = view.region();
    CHECK(region.first_row >= 0);
    CHECK(region.last_row - region.first_row <= 127);
    view.pan(100, 100); // far to the upper left
    CHECK(view.left() == 0);
    CHECK(view.top() == 0);
    view.zoom(0.5, 0.5, 1e9);
    CHECK(view.extent() == Approx(8));
    view.reveal(900, 950);
    CHECK(view.region().contains({900, 901, 950, 951}));
    view.zoom(0.5, 0.5, 1e-9);
    CHECK(view.whole());
    view.show(1000); // the same size: nothing happens
    view.show(20);
    CHECK(view.extent() == Approx(20));
}

TEST_CASE("staircases say what the policy, the run, blind placement and the best do", "[landscape]") {
    std::mt19937 random(seed(0x1A60));
    const auto landscape = random_shared(random, 80);
    const auto best = std::make_shared<const std::vector<Schedule>>(best_schedules(*landscape, 20));
    RefreshPolicy policy = preset_policy("entropy");
    policy.triggers[0] = Trigger{.signal = "entropy_bits", .threshold = 5.6};
    const ShownStairs shown = stairs_of_policy(*landscape, policy, *best, Objective::loss);
    REQUIRE(shown.there());
    REQUIRE(shown.exact());
    const Staircase walk = walk_policy(*landscape, policy);
    CHECK(shown.stairs.refreshes == walk.refreshes);
    CHECK(shown.above_teacher == walk.loss - landscape->mean_teacher_loss());
    REQUIRE(shown.refreshes() > 0);
    REQUIRE(shown.refreshes() < 20);
    REQUIRE(shown.efficiency);
    CHECK(*shown.efficiency <= 1);

    const CountAnswer answer = answer_count({landscape, best, shown.refreshes()});
    REQUIRE(answer.best.there());
    REQUIRE(answer.blind.there());
    CHECK(answer.best.refreshes() == shown.refreshes());
    CHECK(answer.blind.refreshes() == shown.refreshes());
    CHECK(answer.best.above_teacher <= answer.blind.above_teacher);
    CHECK(answer.best.above_teacher <= shown.above_teacher);
    CHECK(*answer.best.efficiency == Approx(1));
    CHECK_FALSE(answer_count({landscape, best, 0}).best.there());
    CHECK_THAT(answer_count({landscape, best, 40}).best.why_not, ContainsSubstring("more refreshes"));
    CHECK_THAT(answer_count({landscape, nullptr, 4}).best.why_not, ContainsSubstring("being computed"));

    RefreshPolicy windowed = policy;
    windowed.window = 8;
    CHECK_THAT(stairs_of_policy(*landscape, windowed, *best, Objective::loss).why_not,
               ContainsSubstring("windowed"));
    windowed = policy;
    windowed.lag = 2;
    CHECK_THAT(stairs_of_policy(*landscape, windowed, *best, Objective::loss).why_not,
               ContainsSubstring("lag"));

    // A run with these refreshes has the policy's staircase.
    const auto run = recorded({1, 2, 3}, landscape->info().tokens, {}, walk.refreshes);
    const RunRefreshes refreshes = refreshes_of(*run, run->steps());
    CHECK(refreshes.steps == walk.refreshes);
    CHECK(stairs_of_run(*landscape, refreshes, *best, Objective::loss).stairs.rows == walk.rows);
    RefreshEvent event;
    event.step = event.fired_step = walk.refreshes.back() + 1;
    event.delta = 9;
    event.spliced = 4;
    run->add_refresh(event);
    CHECK_THAT(stairs_of_run(*landscape, refreshes_of(*run, run->steps()), *best, Objective::loss).why_not,
               ContainsSubstring("windowed"));
}

TEST_CASE("corners go along the rows and down at refreshes", "[landscape]") {
    std::mt19937 random(seed(0x1A61));
    const auto landscape = random_shared(random, 12);
    const int64_t steps[] = {3, 7};
    const auto corners = corners_of(walk_schedule(*landscape, steps));
    REQUIRE(corners.size() == 6);
    const double expected[][2] = {{0, 0.5}, {3, 0.5}, {3, 3.5}, {7, 3.5}, {7, 7.5}, {11, 7.5}};
    for (size_t i = 0; i < 6; ++i) {
        CHECK(corners[i].column == expected[i][0]);
        CHECK(corners[i].row == expected[i][1]);
    }
}

TEST_CASE("gains along a run are those of the rows in which it stands", "[landscape]") {
    std::mt19937 random(seed(0x1A62));
    const auto landscape = random_shared(random, 50);
    const int64_t steps[] = {20};
    const auto gains = gains_along(*landscape, walk_schedule(*landscape, steps), Objective::loss);
    REQUIRE(gains.size() == 49);
    CHECK(gains[9] == static_cast<float>(refresh_gain(*landscape, 0, 10, gain_horizon)));
    CHECK(gains[19] == static_cast<float>(refresh_gain(*landscape, 0, 20, gain_horizon)));
    CHECK(gains[20] == static_cast<float>(refresh_gain(*landscape, 20, 21, gain_horizon)));
    CHECK(is_absent(gains[48]));
}

TEST_CASE("a click on a frontier point makes that policy, and its staircase has the point's numbers",
          "[landscape]") {
    std::mt19937 random(seed(0x1A63));
    const auto landscape = random_shared(random, 60);
    RefreshPolicy draft = preset_policy("entropy");
    draft.triggers[0] = Trigger{.signal = "entropy_bits", .threshold = 5.5, .cooldown = 4};
    const auto curves = frontier_curves(frontier_question(landscape, draft, Objective::loss));
    REQUIRE(curves.size() >= 3);
    CHECK(curves[0].of_draft);
    size_t own = 0, others = 0;
    for (const FrontierCurve& curve : curves) {
        int64_t before = -1;
        for (const FrontierPoint& point : curve.points) {
            CHECK(point.refreshes > before); // one a count
            before = point.refreshes;
            const FrontierClick click = frontier_click(draft, curve, point);
            CHECK(click.trigger.has_value() == curve.of_draft);
            RefreshPolicy clicked = click.policy;
            if (click.trigger) {
                clicked = draft;
                clicked.triggers[*click.trigger].threshold = click.threshold;
                ++own;
            } else {
                ++others;
            }
            const Staircase walk = walk_policy(*landscape, clicked);
            REQUIRE(walk.loss == point.loss);
            REQUIRE(static_cast<int64_t>(walk.refreshes.size()) == point.refreshes);
        }
    }
    CHECK(own > 2);
    CHECK(others > 4);
    // The same question while the threshold is dragged; another one for another cool-down.
    RefreshPolicy dragged = draft;
    dragged.triggers[0].threshold = 4;
    CHECK(frontier_question(landscape, dragged, Objective::loss) ==
          frontier_question(landscape, draft, Objective::loss));
    dragged.triggers[0].cooldown = 9;
    CHECK_FALSE(frontier_question(landscape, dragged, Objective::loss) ==
                frontier_question(landscape, draft, Objective::loss));
    // A draft without cool-down is one of the usual curves: it is not drawn twice.
    draft.triggers[0].cooldown = 0;
    size_t entropy = 0;
    for (const FrontierCurve& curve : frontier_curves(frontier_question(landscape, draft, Objective::loss)))
        entropy += curve.policy.triggers[curve.trigger].signal == "entropy_bits" ? 1 : 0;
    CHECK(entropy == 1);
    const auto none = nearest_point(
        curves, 1e6, 1e6, 10, [](double x) { return x; }, [](double y) { return y; });
    CHECK_FALSE(none);
}

TEST_CASE("a landscape is shown with the runs of its text and pair, and with no other", "[landscape]") {
    std::mt19937 random(seed(0x1A64));
    const auto landscape = random_shared(random, 20);
    const LandscapeInfo& info = landscape->info();
    const auto run = recorded(info.prompt_ids, info.tokens, {}, {});
    KnownLandscapes known;
    CHECK(known.of(run, run->steps()) == nullptr);
    CHECK(known.why_none().empty());
    known.keep(run->info().id, landscape, run);
    CHECK(known.of(run, run->steps()) == landscape);
    CHECK(known.to_save(*run) == landscape);

    const auto again = recorded(info.prompt_ids, info.tokens, {}, {}, "00000000000000bb");
    CHECK(known.of(again, 5) == landscape); // while it reads
    CHECK(known.of(again, again->steps()) == landscape);
    CHECK(known.to_save(*again) == landscape);

    std::vector<int32_t> other = info.tokens;
    other[7] += 1;
    const auto parted = recorded(info.prompt_ids, other, {}, {}, "00000000000000cc");
    CHECK(known.of(parted, 6) == landscape); // y_1 .. y_7 are the same
    CHECK(known.of(parted, 7) == nullptr);
    CHECK_THAT(known.why_none(), ContainsSubstring("at token 8"));
    CHECK(known.to_save(*parted) == nullptr);
    const auto prompted = recorded({9}, info.tokens, {}, {}, "00000000000000dd");
    CHECK(known.of(prompted, 4) == nullptr);
    CHECK_THAT(known.why_none(), ContainsSubstring("another prompt"));

    RunInfo pair = again->info();
    pair.id = "00000000000000ee";
    pair.config.student_dir = "another student";
    const auto paired = made_run(pair);
    CHECK(known.of(paired, 0) == nullptr);
    CHECK_THAT(known.why_none(), ContainsSubstring("another pair"));
}

TEST_CASE("a finished run of the text is measured from its records", "[landscape]") {
    std::mt19937 random(seed(0x1A65));
    const auto landscape = random_shared(random, 5);
    const LandscapeInfo& info = landscape->info();
    const std::vector<float> logprob{-9, -1, -2, -3, -4.5F};
    const auto run = recorded(info.prompt_ids, info.tokens, logprob, {2});
    CHECK_FALSE(measure_run(*landscape, *run, 4));
    const auto measured = measure_run(*landscape, *run, 5);
    REQUIRE(measured);
    CHECK(measured->loss(Objective::loss) == Approx((1 + 2 + 3 + 4.5) / 4));
    CHECK(measured->refreshes == 1);
    CHECK(measured->policy == "a policy");
    CHECK_FALSE(measure_run(*landscape, *recorded(info.prompt_ids, info.tokens, {-1, -1, -1}, {}), 5));
}

TEST_CASE("what cannot be computed says why in one line", "[landscape]") {
    EngineStatus status;
    status.state = EngineState::finished;
    CHECK_THAT(why_not_computed(nullptr, 0, status, true), ContainsSubstring("start a run"));
    const auto run = recorded({1}, {1, 2, 3}, {}, {});
    CHECK(why_not_computed(run.get(), 3, status, true).empty());
    CHECK_THAT(why_not_computed(run.get(), 3, status, false), ContainsSubstring("refreshlab landscape FILE"));
    CHECK_THAT(why_not_computed(recorded({1}, {1}, {}, {}).get(), 1, status, true),
               ContainsSubstring("two at least"));
    status.rebuild_mode = true;
    CHECK_THAT(why_not_computed(run.get(), 3, status, true), ContainsSubstring("rebuild mode"));
    status.rebuild_mode = false;
    status.state = EngineState::running;
    CHECK_THAT(why_not_computed(run.get(), 3, status, true), ContainsSubstring("pause the run"));
    RunInfo evicting = run->info();
    evicting.config.student_cache.policy = "h2o";
    const auto evicts = made_run(evicting);
    append_step(*evicts);
    append_step(*evicts);
    CHECK_THAT(why_not_computed(evicts.get(), 2, status, true), ContainsSubstring("has a cache policy"));
    const auto alone = empty_recording(Mode::student, 2);
    append_step(*alone);
    append_step(*alone);
    status.state = EngineState::paused;
    CHECK_THAT(why_not_computed(alone.get(), 2, status, true), ContainsSubstring("a teacher and a student"));

    status.student.layers = 2;
    status.student.kv_heads = 1;
    status.student.head_dim = 4;
    status.student.vocab_size = 10;
    status.student.dtype = "f32";
    const LandscapeCost cost = landscape_cost(*run, 3, status);
    CHECK(cost.tokens == 3);
    CHECK(cost.cells == 3);
    CHECK(cost.bytes > 0);
    const RunConfig reading = reading_run(run->info().config, {4, 5}, RefreshPolicy{});
    CHECK(reading.given_ids == std::vector<int32_t>{4, 5});
    CHECK(reading.max_tokens == 2);
    CHECK(reading.reads_given());
}
