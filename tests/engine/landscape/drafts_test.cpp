// Drafts of policies that verify, on a given text: where they are expected to end, against products written down plainly.
#include "engine/base/error.h"
#include "engine/landscape/expected_drafts.h"
#include "engine/landscape/landscape_export.h"
#include "engine/landscape/staircase.h"
#include "tests/engine/landscape/random_landscape.h"
#include "tests/support/seed.h"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <nlohmann/json.hpp>

#include <random>

namespace drafts_test {

using namespace refreshlab;
using namespace refreshlab::test;
using Catch::Approx;
using Catch::Matchers::ContainsSubstring;

namespace {

RefreshPolicy verified(double every) {
    RefreshPolicy policy = preset_policy("periodic");
    policy.triggers[0].threshold = every;
    policy.on_fire = OnFire::verify;
    return policy;
}

double plain_expected(const Landscape& land, int64_t first, int64_t last) {
    const size_t acceptance = land.value_index("acceptance").value();
    double sum = 0;
    for (int64_t step = first + 1; step <= last; ++step) {
        double chance = 1;
        for (int64_t before = first + 1; before < step; ++before)
            chance *= static_cast<double>(land.cell(acceptance, first, before));
        sum += chance;
    }
    return sum;
}

} // namespace

TEST_CASE("a policy that verifies walks as it would keep, and its drafts cover the text", "[landscape]") {
    std::mt19937 random(seed(0xD4AF));
    const Landscape land = random_landscape(random, 50, 1, true);
    for (const double every : {3.0, 7.0, 60.0}) {
        const RefreshPolicy policy = verified(every);
        RefreshPolicy keeps = policy;
        keeps.on_fire = OnFire::keep;
        const Staircase walk = walk_policy(land, policy, Objective::tokens_a_pass),
                        kept = walk_policy(land, keeps, Objective::tokens_a_pass);
        CHECK(walk.refreshes == kept.refreshes);
        CHECK(walk.rows == kept.rows);
        CHECK(kept.drafts.empty());
        REQUIRE(walk.drafts.size() == walk.refreshes.size() + 1);
        int64_t first = 0;
        double all = 0;
        for (const ExpectedDraft& draft : walk.drafts) {
            CHECK(draft.first == first);
            CHECK(draft.expected == Approx(plain_expected(land, draft.first, draft.last)));
            CHECK(draft.expected >= 1);
            CHECK(draft.expected <= static_cast<double>(draft.tokens()));
            first = draft.last;
            all += draft.expected;
        }
        CHECK(first == land.num_steps());
        // What tokens a pass say of the same way.
        const auto passes = static_cast<double>(walk.drafts.size());
        CHECK(all / passes == Approx(shown_value(Objective::tokens_a_pass, walk.loss, land.num_steps(),
                                                 static_cast<int64_t>(walk.refreshes.size()))));
        CHECK(means_of(walk.drafts).expected == Approx(all / passes));
        CHECK(means_of(walk.drafts).tokens == Approx(static_cast<double>(land.num_steps()) / passes));
    }
}

TEST_CASE("a draft that is never judged is judged at its longest, and no budget counts that", "[landscape]") {
    std::mt19937 random(seed(0xD4B0));
    const Landscape land = random_landscape(random, 300, 1, true);
    RefreshPolicy policy = verified(1000);
    CHECK(walk_policy(land, policy).refreshes == std::vector<int64_t>{longest_draft});
    policy.on_fire = OnFire::keep;
    CHECK(walk_policy(land, policy).refreshes.empty());
}

TEST_CASE("drafts that the cells cannot tell are refused with the reason", "[landscape][bad-input]") {
    std::mt19937 random(seed(0xD4B1));
    const Landscape land = random_landscape(random, 20, 1, true), bare = random_landscape(random, 20);
    const RefreshPolicy policy = verified(5);
    CHECK(why_no_staircase(land, policy).empty());
    CHECK_THAT(why_no_staircase(bare, policy), ContainsSubstring("no acceptance"));
    CHECK_THROWS_AS(walk_policy(bare, policy), Error);
    RefreshPolicy other = policy;
    other.verify.rule = VerifyRule::greedy;
    CHECK_THAT(why_no_staircase(land, other), ContainsSubstring("rule greedy"));
    other = policy;
    other.verify.splice = false;
    CHECK_THAT(why_no_staircase(land, other), ContainsSubstring("without a splice"));
    other = policy;
    other.verify.target = 0.9;
    CHECK_THAT(why_no_staircase(land, other), ContainsSubstring("verify.target"));
    other = policy;
    other.window = 4;
    CHECK_THAT(why_no_staircase(land, other), ContainsSubstring("windowed"));
    // What verifies nothing asks nothing of the cells.
    other = policy;
    other.on_fire = OnFire::keep;
    CHECK(why_no_staircase(bare, other).empty());
}

TEST_CASE("a summary and its table have the drafts of a policy that verifies", "[landscape]") {
    std::mt19937 random(seed(0xD4B2));
    const Landscape land = random_landscape(random, 30, 1, true);
    LandscapeQuestions questions;
    questions.policy = verified(6);
    const Staircase walk = walk_policy(land, *questions.policy);
    const nlohmann::json drafts = landscape_summary(land, questions)["policy"]["drafts"];
    REQUIRE(drafts.size() == walk.drafts.size());
    for (size_t i = 0; i < drafts.size(); ++i) {
        CHECK(drafts[i]["first"] == walk.drafts[i].first);
        CHECK(drafts[i]["last"] == walk.drafts[i].last);
        CHECK(drafts[i]["expected"] == walk.drafts[i].expected);
    }
    CHECK_THAT(landscape_table(land, questions), ContainsSubstring("its drafts: 5, of 5.80 tokens"));
    questions.policy->on_fire = OnFire::keep;
    CHECK(landscape_summary(land, questions)["policy"]["drafts"].is_null());
    CHECK_THAT(landscape_table(land, questions), !ContainsSubstring("drafts"));
}

} // namespace drafts_test
