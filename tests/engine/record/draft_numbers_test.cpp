#include "engine/record/export/draft_numbers.h"
#include "engine/record/export/export.h"
#include "tests/engine/record/random_recording.h"
#include "tests/support/made_run.h"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <nlohmann/json.hpp>

namespace draft_numbers_test {

using namespace refreshlab;
using namespace refreshlab::test;
using Catch::Approx;
using Catch::Matchers::ContainsSubstring;

namespace {

/// A draft of `drafted` tokens of which the first `accepted` stay.
DraftEvent draft(int64_t step, int64_t drafted, int64_t accepted) {
    DraftEvent event;
    event.step = step;
    event.first_pos = 3 + step;
    for (int64_t i = 0; i < drafted; ++i)
        event.tokens.push_back({7, i != accepted, 0.5F, 0.6F, 0.75F});
    event.instead = accepted < drafted ? 8 : -1;
    event.rejected_read = drafted - accepted - (accepted < drafted ? 1 : 0);
    event.rejected_ms = 2.0 * static_cast<double>(event.rejected_read);
    event.teacher_ms = 10;
    return event;
}

} // namespace

TEST_CASE("a run without drafts has no numbers of drafts", "[record]") {
    const auto recording = std::make_shared<Recording>(RunInfo{}, std::make_shared<ByteTokens>());
    CHECK_FALSE(draft_numbers(*recording));
    CHECK(summary_json(*recording).at("drafts").is_null());
    CHECK_THAT(summary_table(*recording), !ContainsSubstring("drafts"));
}

TEST_CASE("drafts are counted by place, and their lengths and costs come out", "[record]") {
    RunInfo info = made_info(3);
    info.ttft_ms = 5;
    const auto recording = std::make_shared<Recording>(info, std::make_shared<ByteTokens>());
    // Drafts of 4: all stay, two stay, none stays; steps of 2 ms each, known every 6 ms.
    for (int64_t t = 1; t <= 8; ++t) {
        if (t == 4) recording->add_draft(draft(t, 4, 4));
        if (t == 7) recording->add_draft(draft(t, 4, 2));
        if (t == 8) recording->add_draft(draft(t, 4, 0));
        StepRecord record = next_record(*recording);
        record.part_ms[static_cast<size_t>(Part::model)] = 2;
        record.part_ms[static_cast<size_t>(Part::teacher_pass)] = 99; // no part of a student's step
        record.arrival_ms = 5 + 6.0 * static_cast<double>(t);
        recording->append(record);
    }
    const DraftNumbers n = draft_numbers(*recording).value();
    CHECK(n.drafts == 3);
    CHECK(n.drafted == 12);
    CHECK(n.judged == 8);
    CHECK(n.accepted == 6);
    CHECK(n.tokens == 8); // 4, 2 and the teacher's, the teacher's
    REQUIRE(n.places.size() == 4);
    CHECK((n.places[0].judged == 3 && n.places[0].accepted == 2));
    CHECK((n.places[1].judged == 2 && n.places[1].accepted == 2));
    CHECK((n.places[2].judged == 2 && n.places[2].accepted == 1));
    CHECK((n.places[3].judged == 1 && n.places[3].accepted == 1));
    CHECK(n.accepted_lengths == std::vector<int64_t>{1, 0, 1, 0, 1});
    CHECK(*n.acceptance == Approx(0.75));
    CHECK(*n.expected == Approx(0.75));
    CHECK(*n.tokens_per_pass == Approx(8.0 / 3));
    CHECK(*n.cost_ratio == Approx(0.2));
    CHECK(*n.speed_up == Approx(8 * 10.0 / 48));
    CHECK(*n.predicted_speed_up == Approx((1 - 0.75 * 0.75 * 0.75 * 0.75) / 0.25 / (4 * 0.2 + 1)));

    const nlohmann::json summary = summary_json(*recording).at("drafts");
    CHECK(summary.at("by_place").size() == 4);
    CHECK(summary.at("by_place")[2].at("acceptance") == 0.5);
    CHECK(summary.at("accepted_lengths") == nlohmann::json({1, 0, 1, 0, 1}));
    CHECK_THAT(summary_table(*recording), ContainsSubstring("3 of 12 tokens; 6 of 8 judged stay (0.75"));
}

TEST_CASE("a token that was given by hand is not judged", "[record]") {
    const auto recording = std::make_shared<Recording>(RunInfo{}, std::make_shared<ByteTokens>());
    DraftEvent event = draft(1, 3, 3);
    event.tokens[1].expected = absent();
    recording->add_draft(event);
    const DraftNumbers n = draft_numbers(*recording).value();
    CHECK(n.judged == 2);
    CHECK(n.places[1].judged == 0);
    CHECK(summary_json(*recording).at("drafts").at("by_place")[1].at("acceptance").is_null());
}

} // namespace draft_numbers_test
