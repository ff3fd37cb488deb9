#include "engine/base/error.h"
#include "engine/control/run_config.h"
#include "engine/landscape/best_schedule.h"
#include "engine/landscape/frontier.h"
#include "engine/landscape/landscape_export.h"
#include "engine/landscape/objective.h"
#include "engine/landscape/staircase.h"
#include "engine/refresh/policy.h"
#include "tests/support/seed.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>
#include <nlohmann/json.hpp>

#include <cmath>
#include <functional>
#include <limits>
#include <random>

using namespace refreshlab;
using namespace refreshlab::test;
using Catch::Matchers::WithinAbs;

namespace {

/// A landscape with all that objectives are read from. \param acceptance  of row j at step i
Landscape landscape_with(int64_t tokens, std::mt19937& random,
                         const std::function<float(int64_t, int64_t)>& acceptance) {
    LandscapeInfo info;
    info.prompt_ids = {1};
    info.tokens.assign(static_cast<size_t>(tokens), 7);
    info.teacher_logprob.assign(static_cast<size_t>(tokens), -0.5F);
    info.values = {"logprob", "kl_nats", "acceptance"};
    Landscape landscape(std::move(info));
    std::uniform_real_distribution<float> value(0, 4);
    for (int64_t j = 0; j < landscape.num_rows(); ++j) {
        auto row = std::make_shared<LandscapeRow>();
        row->row = j;
        row->planes.resize(3);
        for (int64_t i = j + 1; i <= landscape.num_steps(); ++i) {
            row->planes[0].push_back(-value(random));
            row->planes[1].push_back(value(random));
            row->planes[2].push_back(acceptance(j, i));
        }
        landscape.put_row(std::move(row));
    }
    return landscape;
}

/// The sum of a schedule's costs written down plainly: segment by segment, products from their beginning.
double plain_total(const Landscape& landscape, std::vector<int64_t> cuts, Objective objective) {
    cuts.insert(cuts.begin(), 0);
    cuts.push_back(landscape.num_steps());
    double total = 0;
    for (size_t s = 0; s + 1 < cuts.size(); ++s) {
        for (int64_t i = cuts[s] + 1; i <= cuts[s + 1]; ++i) {
            if (objective == Objective::loss) total -= static_cast<double>(landscape.cell(0, cuts[s], i));
            if (objective == Objective::kl) total += static_cast<double>(landscape.cell(1, cuts[s], i));
            if (objective == Objective::rejection)
                total += 1 - static_cast<double>(landscape.cell(2, cuts[s], i));
            if (objective != Objective::tokens_a_pass) continue;
            double chance = 1;
            for (int64_t before = cuts[s] + 1; before < i; ++before)
                chance *= static_cast<double>(landscape.cell(2, cuts[s], before));
            total -= chance;
        }
    }
    return total;
}

} // namespace

TEST_CASE("under every objective the best schedules are those that trying all of them finds", "[landscape]") {
    std::mt19937 random(seed(0x0B1E));
    std::uniform_real_distribution<float> share(0.2F, 1);
    for (int round = 0; round < 6; ++round) {
        const Landscape landscape =
            landscape_with(9, random, [&](int64_t, int64_t) { return share(random); });
        const auto steps = static_cast<double>(landscape.num_steps());
        for (const Objective objective : objectives) {
            constexpr double unknown = std::numeric_limits<double>::infinity();
            std::vector<double> least(static_cast<size_t>(landscape.num_rows()), unknown);
            for (uint32_t bits = 0; bits < 1U << (landscape.num_rows() - 1); ++bits) {
                std::vector<int64_t> cuts;
                for (int64_t b = 1; b < landscape.num_rows(); ++b)
                    if ((bits >> (b - 1) & 1U) != 0) cuts.push_back(b);
                const double total = plain_total(landscape, cuts, objective);
                REQUIRE_THAT(walk_schedule(landscape, cuts, objective).loss * steps, WithinAbs(total, 1e-10));
                least[cuts.size()] = std::min(least[cuts.size()], total);
            }
            const auto best = best_schedules(landscape, 20, objective);
            REQUIRE(best.size() == least.size());
            for (size_t k = 0; k < best.size(); ++k)
                REQUIRE_THAT(best[k].loss * steps, WithinAbs(least[k], 1e-10));
            CHECK(value_without_refresh(landscape, objective) == best[0].loss);
            const auto blind = blind_placement(landscape, 2, objective);
            REQUIRE(blind);
            CHECK_THAT(blind->best.loss * steps,
                       WithinAbs(plain_total(landscape, blind->best.steps, objective), 1e-10));
            CHECK(blind->best.loss >= best[2].loss);
        }
    }
}

TEST_CASE("tokens a pass: a schedule that is worked out by hand", "[landscape]") {
    // Five steps. Row 0 accepts 1/2 everywhere but 1 at step 1; a draft from boundary j > 0 accepts with 1/2, from boundary 2 always.
    std::mt19937 random(3);
    const Landscape landscape = landscape_with(
        6, random, [](int64_t j, int64_t i) { return j == 2 || (j == 0 && i == 1) ? 1.0F : 0.5F; });
    const auto best = best_schedules(landscape, 2, Objective::tokens_a_pass);
    const auto tokens = [&](size_t k) {
        return shown_value(Objective::tokens_a_pass, best[k].loss, landscape.num_steps(),
                           static_cast<int64_t>(k));
    };
    // None: 1 + 1 + 1/2 + 1/4 + 1/8 of one pass.
    CHECK_THAT(tokens(0), WithinAbs(2.875, 1e-12));
    // One, at 2: 1 + 1 of the first draft, 1 + 1 + 1 of the second, two passes.
    CHECK(best[1].steps == std::vector<int64_t>{2});
    CHECK_THAT(tokens(1), WithinAbs(2.5, 1e-12));
    // Two refreshes let out the same five tokens with one pass more.
    CHECK_THAT(tokens(2), WithinAbs(5.0 / 3, 1e-12));
    // A chance that is no number rejects.
    DraftRun draft;
    CHECK(draft.next(std::nan("")) == 1);
    CHECK(draft.next(1) == 0);
}

TEST_CASE("one acceptance for all tokens gives the closed form of Leviathan et al.", "[landscape]") {
    for (const double a : {0.0, 0.3, 0.9}) {
        DraftRun draft;
        double sum = 0;
        for (int n = 1; n <= 12; ++n) {
            sum += draft.next(a);
            CHECK_THAT(sum, WithinAbs((1 - std::pow(a, n)) / (1 - a), 1e-12));
        }
    }
}

TEST_CASE("a text that the student wrote is judged by KL, other texts by the loss", "[landscape]") {
    const std::vector<std::string> values{"logprob", "kl_nats"};
    RunConfig config;
    config.mode = Mode::overfill;
    CHECK(default_objective(config, values).objective == Objective::kl);
    CHECK(default_objective(config, values).why.find("student wrote") != std::string::npos);
    CHECK(default_objective(config, std::vector<std::string>{"logprob"}).objective == Objective::loss);
    config.given_ids = {1, 2};
    CHECK(default_objective(config, values).objective == Objective::loss);
    config.given_ids.clear();
    config.mode = Mode::teacher;
    CHECK(default_objective(config, values).objective == Objective::loss);
}

TEST_CASE("names of objectives are read and a wrong one is refused with all of them", "[landscape]") {
    for (const Objective objective : objectives)
        CHECK(objective_of(to_string(objective)) == objective);
    try {
        static_cast<void>(objective_of("speed"));
        FAIL("speed is no objective");
    } catch (const Error& e) {
        const std::string what = e.what();
        CHECK(what.find("speed") != std::string::npos);
        CHECK(what.find("tokens_a_pass") != std::string::npos);
    }
}

TEST_CASE("a summary says its objective, and tokens a pass beside the loss", "[landscape]") {
    std::mt19937 random(seed(0x0B1F));
    std::uniform_real_distribution<float> share(0.2F, 1);
    const Landscape landscape = landscape_with(12, random, [&](int64_t, int64_t) { return share(random); });
    LandscapeQuestions questions;
    questions.best = 3;
    questions.objective = Objective::tokens_a_pass;
    questions.policy = preset_policy("periodic");
    questions.policy->triggers[0].threshold = 4;
    questions.policy->triggers[0].cooldown = 0;
    const auto summary = landscape_summary(landscape, questions);
    CHECK(summary["objective"] == "tokens_a_pass");
    CHECK(summary["best"].size() >= 4);
    for (const auto& entry : summary["best"]) {
        const double passes = entry["refreshes"].get<double>() + 1;
        const auto steps = entry["steps"].get<std::vector<int64_t>>();
        CHECK_THAT(entry["tokens_a_pass"].get<double>() * passes,
                   WithinAbs(-plain_total(landscape, steps, Objective::tokens_a_pass), 1e-9));
    }
    CHECK(summary["policy"]["steps"].get<std::vector<int64_t>>() ==
          walk_policy(landscape, *questions.policy).refreshes);
    questions.objective = Objective::kl;
    const auto kl = landscape_summary(landscape, questions);
    CHECK_FALSE(kl["best"][0].contains("tokens_a_pass"));
    CHECK_THAT(kl["none"].get<double>() * 11, WithinAbs(plain_total(landscape, {}, Objective::kl), 1e-9));
    CHECK(landscape_table(landscape, questions).find("KL(teacher || student)") != std::string::npos);
}
