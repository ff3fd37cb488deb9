// What the panel Landscape shows under each objective, against costs that are written down plainly.
#include "engine/landscape/best_schedule.h"
#include "engine/landscape/staircase.h"
#include "engine/record/recording/step_record.h"
#include "engine/signals/registry.h"
#include "tests/engine/landscape/random_landscape.h"
#include "tests/support/made_run.h"
#include "tests/support/seed.h"
#include "tests/ui/maps/heatmap_recording.h"
#include "ui/scene/landscape/cell_values.h"
#include "ui/scene/landscape/frontier_curves.h"
#include "ui/scene/landscape/landscape_model.h"
#include "ui/scene/landscape/landscape_of_run.h"
#include "ui/scene/landscape/objective_words.h"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <set>
#include <vector>

namespace objective_scene_test {

using namespace refreshlab;
using namespace refreshlab::ui;
using namespace refreshlab::test;
using Catch::Approx;
using Catch::Matchers::ContainsSubstring;

namespace {

constexpr int64_t tokens = 40;

std::shared_ptr<const Landscape> landscape_of(uint32_t number) {
    std::mt19937 random(seed(number));
    return std::make_shared<Landscape>(random_landscape(random, tokens, 1, true));
}

double value(const Landscape& land, const char* name, int64_t j, int64_t step) {
    return static_cast<double>(land.cell(land.value_index(name).value(), j, step));
}

/// Of the cell, above the teacher's: the definitions of docs/howto/landscape.md.
double above_teacher(const Landscape& land, Objective objective, int64_t j, int64_t step) {
    if (objective == Objective::loss)
        return -value(land, "logprob", j, step) +
               static_cast<double>(land.info().teacher_logprob[static_cast<size_t>(step)]);
    if (objective == Objective::kl) return value(land, "kl_nats", j, step);
    if (objective == Objective::rejection) return 1 - value(land, "acceptance", j, step);
    double chance = 1;
    for (int64_t before = j + 1; before < step; ++before)
        chance *= value(land, "acceptance", j, before);
    return 1 - chance;
}

std::vector<float> row_of(const CellRows& rows, int64_t j) {
    std::vector<float> out;
    rows.read(j, out);
    return out;
}

} // namespace

TEST_CASE("under every objective cells show its cost above the teacher's, and what a refresh saves of it",
          "[landscape]") {
    const auto land = landscape_of(0x0B50);
    for (const Objective objective : objectives) {
        const auto values = cell_values(*land, objective);
        const CellRows cost(land, values[0]), gain(land, values[1]);
        for (const int64_t j : {0, 5, 31}) {
            const auto costs = row_of(cost, j), gains = row_of(gain, j);
            for (int64_t step = j + 1; step <= land->num_steps(); ++step) {
                INFO(to_string(objective) << ", row " << j << ", step " << step);
                REQUIRE(static_cast<double>(costs[static_cast<size_t>(step - 1)]) ==
                        Approx(above_teacher(*land, objective, j, step)).margin(1e-5));
                if (step >= land->num_rows()) continue;
                double saved = 0;
                for (int64_t i = step + 1; i <= std::min(land->num_steps(), step + gain_horizon); ++i)
                    saved += above_teacher(*land, objective, j, i) - above_teacher(*land, objective, step, i);
                REQUIRE(static_cast<double>(gains[static_cast<size_t>(step - 1)]) ==
                        Approx(saved).margin(1e-4));
                REQUIRE(refresh_gain(*land, j, step, gain_horizon, objective) == Approx(saved).margin(1e-4));
            }
        }
    }
}

TEST_CASE("what is listed under an objective says it in words and units, and has a range of its own",
          "[landscape]") {
    const auto land = landscape_of(0x0B51);
    std::set<std::string> keys, labels;
    for (const Objective objective : objectives)
        for (const CellValue& value : cell_values(*land, objective)) {
            if (value.kind == CellValue::Kind::signal || value.kind == CellValue::Kind::loss) {
                CHECK(value.objective == Objective::loss); // it is the same under all
                continue;
            }
            CHECK(keys.insert(key_of(value)).second);
            if (value.kind == CellValue::Kind::above_teacher) CHECK(labels.insert(label_of(value)).second);
            CHECK_FALSE(unit_of(value).empty());
            CHECK(is_signed(value) == (value.kind == CellValue::Kind::gain || objective == Objective::loss));
        }
    CHECK(keys.size() == 8);
    CHECK(unit_of(CellValue{CellValue::Kind::gain, {}, Objective::tokens_a_pass}) == "tokens");
    // KL as a value of the cells would be the cost once more.
    const auto kl = cell_values(*land, Objective::kl);
    CHECK(std::ranges::find(kl, std::string("kl_nats"), &CellValue::signal) == kl.end());
    CellChoice choice;
    choice.set_own_range(Objective::kl, ValueRange{0, 2});
    CHECK(choice.own_range(Objective::kl) == ValueRange{0, 2});
    CHECK_FALSE(choice.own_range(Objective::loss));
    choice.value = {CellValue::Kind::signal, "entropy_bits"};
    choice.set_own_range(Objective::kl, ValueRange{1, 3});
    CHECK(choice.own_range(Objective::rejection) == ValueRange{1, 3}); // a signal's
}

TEST_CASE("schedules, frontiers and what is in sight follow the objective", "[landscape]") {
    const auto land = landscape_of(0x0B52);
    RefreshPolicy policy = preset_policy("periodic");
    policy.triggers[0].threshold = 9;
    RunRefreshes run;
    run.steps = {4, 20};
    for (const Objective objective : objectives) {
        INFO(to_string(objective));
        const LandscapeModel model = make_landscape_model(land, run, policy, objective);
        const auto best = best_schedules(*land, best_counts(*land), objective);
        const auto k = static_cast<size_t>(model.of(StairsOf::policy).refreshes());
        REQUIRE(k == 4);
        CHECK(model.of(StairsOf::best).stairs.refreshes == best[k].steps);
        for (const StairsOf of : {StairsOf::run, StairsOf::policy, StairsOf::best}) {
            const ShownStairs& shown = model.of(of);
            double sum = 0;
            for (int64_t step = 1; step <= land->num_steps(); ++step)
                sum +=
                    above_teacher(*land, objective, shown.stairs.rows[static_cast<size_t>(step - 1)], step);
            const auto steps = static_cast<double>(land->num_steps());
            CHECK(shown.above_teacher == Approx(sum / steps).margin(1e-5));
            CHECK(shown.told == Approx(objective == Objective::tokens_a_pass
                                           ? (steps - sum) / static_cast<double>(shown.refreshes() + 1)
                                           : sum / steps)
                                    .margin(1e-4));
        }
        for (const FrontierCurve& curve : frontier_curves(frontier_question(land, policy, objective)))
            for (const FrontierPoint& point : curve.points)
                CHECK(point.loss >= best[static_cast<size_t>(point.refreshes)].loss - 1e-9);
        const FrontierRange fit = fitted_frontier(*land, &model.best, model.stairs, objective);
        CHECK(fit.loss.max > value_without_refresh(*land, objective) - model.teacher_loss);
        CHECK(fit.loss.min < model.of(StairsOf::best).above_teacher);
    }
}

TEST_CASE("what judges is a person's choice, else the text's, and it says why", "[landscape]") {
    const std::vector<std::string> all = default_landscape_values(), bare{"logprob", "kl_nats"};
    const ChosenObjective usual{Objective::kl, "the student wrote the text"};
    LandscapeView view;
    CHECK(shown_objective(view, usual, all).objective == Objective::kl);
    CHECK(shown_objective(view, usual, all).why == usual.why);
    view.objective = Objective::rejection;
    CHECK(shown_objective(view, usual, all).objective == Objective::rejection);
    // Cells without what it is read from: the usual one stands in, and the reason is there.
    const ChosenObjective other = shown_objective(view, usual, bare);
    CHECK(other.objective == Objective::kl);
    CHECK_THAT(other.why, ContainsSubstring("not by rejection") && ContainsSubstring("acceptance"));
    CHECK(landscape_view(stored(view)).objective == Objective::rejection);
    CHECK_FALSE(
        landscape_view({.value = {}, .ranges = {}, .hidden = {}, .objective = "of tomorrow"}).objective);
}

TEST_CASE("a run that reads a student's text again is judged as the run that wrote it", "[landscape]") {
    const auto land = landscape_of(0x0B53);
    const auto run = [&](const std::string& id, bool given) {
        RunInfo info;
        info.id = id;
        info.prompt_ids = land->info().prompt_ids;
        info.first_token = land->info().tokens[0];
        if (given) info.config.given_ids = land->info().tokens;
        auto recording = made_run(info);
        for (size_t t = 1; t <= 4; ++t)
            recording->append(next_record(*recording, land->info().tokens[t]));
        return recording;
    };
    KnownLandscapes known;
    const auto wrote = run("00000000000000aa", false), reads = run("00000000000000bb", true);
    known.keep(wrote->info().id, land, wrote);
    REQUIRE(known.of(reads, 4) == land);
    CHECK(known.usual().objective == Objective::kl);
    KnownLandscapes own;
    own.keep(reads->info().id, land, reads);
    REQUIRE(own.of(reads, 4) == land);
    CHECK(own.usual().objective == Objective::loss);
    CHECK_THAT(own.usual().why, ContainsSubstring("given"));
}

TEST_CASE("a finished run is measured under every objective that its records tell", "[landscape]") {
    std::mt19937 random(seed(0x0B54));
    const auto land = std::make_shared<Landscape>(random_landscape(random, 6, 1, true));
    const std::vector<float> logprob{-9, -1, -2, -3, -4.5F, -0.5F}, kl{0.1F, 0.2F, 0.4F, 0.8F, 0.5F},
        acceptance{0.9F, 0.8F, 0.5F, 0.6F, 0.7F};
    const auto record = [&](bool with_kl) {
        RunInfo info;
        info.id = "00000000000000aa";
        info.prompt_ids = land->info().prompt_ids;
        info.first_token = land->info().tokens[0];
        auto recording = made_run(info);
        for (size_t t = 0; t < 6; ++t) {
            StepRecord step = next_record(*recording, t < 5 ? land->info().tokens[t + 1] : -1);
            step.signals[require_signal("logprob", "a test")] = logprob[t];
            if (t < 5 && with_kl) step.signals[require_signal("kl_nats", "a test")] = kl[t];
            if (t < 5) step.signals[require_signal("acceptance", "a test")] = acceptance[t];
            recording->append(step);
        }
        RefreshEvent event;
        event.step = event.fired_step = 2;
        event.delta = event.spliced = 2;
        recording->add_refresh(event);
        return recording;
    };
    const auto measured = measure_run(*land, *record(true), 6);
    REQUIRE(measured);
    CHECK(measured->loss(Objective::loss) == Approx((1 + 2 + 3 + 4.5 + 0.5) / 5));
    CHECK(measured->loss(Objective::kl) == Approx((0.1 + 0.2 + 0.4 + 0.8 + 0.5) / 5));
    CHECK(measured->loss(Objective::rejection) == Approx((0.1 + 0.2 + 0.5 + 0.4 + 0.3) / 5));
    // Steps 1 and 2 are the first draft, 3 to 5 the second.
    CHECK(measured->loss(Objective::tokens_a_pass) == Approx(-(1 + 0.9 + 1 + 0.5 + 0.5 * 0.6) / 5));
    const auto without = measure_run(*land, *record(false), 6);
    REQUIRE(without);
    CHECK(std::isnan(without->loss(Objective::kl)));
    CHECK(without->loss(Objective::rejection) == measured->loss(Objective::rejection));
}

} // namespace objective_scene_test
