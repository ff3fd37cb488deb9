// What drafted tokens that were rejected had, as a curve.
#include "engine/record/recording/step_record.h"
#include "tests/ui/maps/heatmap_recording.h"
#include "ui/scene/series/rejected_series.h"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>

#include <cmath>

namespace rejected_series_test {

using namespace refreshlab;
using namespace refreshlab::ui;
using namespace refreshlab::test;
using Catch::Approx;

TEST_CASE("rejected tokens have their values at the steps that they would have been", "[series]") {
    constexpr int64_t prompt = 3;
    const auto recording = empty_recording(Mode::overfill, prompt);
    for (int i = 0; i < 8; ++i)
        append_step(*recording);
    const int64_t length = recording->prompt_length();
    // A draft of y_4 .. y_6, the first of which stays; one of y_5 .. y_7 that goes as a whole; one that stays.
    DraftEvent cut;
    cut.step = 4;
    cut.first_pos = length + 3;
    cut.tokens = {{.token_id = 1, .stays = true, .p_teacher = 0.9F, .p_student = 0.8F, .expected = 0.7F},
                  {.token_id = 2, .stays = false, .p_teacher = 0.1F, .p_student = 0.6F, .expected = 0.4F},
                  {.token_id = 3, .stays = false, .p_teacher = 0.2F, .p_student = 0.5F, .expected = 0.3F}};
    cut.instead = 7;
    recording->add_draft(cut);
    RejectedSeries student, teacher, acceptance, other;
    student.update(*recording, "logprob");
    REQUIRE(student.series().size() == 6);
    CHECK(is_absent(student.series().at(4))); // it stays: the run's own
    CHECK(student.series().at(5) == std::log(0.6F));
    CHECK(student.series().at(6) == std::log(0.5F));
    teacher.update(*recording, "teacher_logprob");
    CHECK(teacher.series().at(5) == std::log(0.1F));
    acceptance.update(*recording, "acceptance"); // of the row that the token was drawn from
    CHECK(acceptance.series().at(4) == 0.4F);
    CHECK(acceptance.series().at(5) == 0.3F);
    other.update(*recording, "entropy_bits");
    CHECK_FALSE(other.any());
    CHECK_FALSE(RejectedSeries::is_kept("entropy_bits"));

    DraftEvent again;
    again.step = 4;
    again.first_pos = length + 4;
    again.tokens = {{.token_id = 4, .stays = false, .p_teacher = 0, .p_student = 1, .expected = 0},
                    {.token_id = 5, .stays = false, .p_teacher = 0.5F, .p_student = 0.25F, .expected = 0.5F},
                    {.token_id = 6, .stays = true, .p_teacher = 0.5F, .p_student = 0.125F, .expected = 0.5F}};
    again.instead = 8;
    recording->add_draft(again);
    student.update(*recording, "logprob");
    teacher.update(*recording, "teacher_logprob");
    CHECK(student.series().at(5) == 0); // the later draft's
    CHECK(student.series().at(6) == std::log(0.25F));
    CHECK(student.series().at(7) == std::log(0.125F)); // behind the first that went
    CHECK(is_absent(teacher.series().at(5)));          // a probability of 0 has no logarithm

    DraftEvent whole;
    whole.step = 8;
    whole.first_pos = length + 7;
    whole.tokens = {{.token_id = 1, .stays = true, .p_teacher = 0.9F, .p_student = 0.8F, .expected = 0.7F}};
    recording->add_draft(whole);
    student.update(*recording, "logprob");
    CHECK(student.series().size() == 7);
    // Another run begins anew.
    const auto fresh = empty_recording(Mode::overfill, prompt);
    student.update(*fresh, "logprob");
    CHECK_FALSE(student.any());
}

TEST_CASE("a summary is widened by what lies on the same axis", "[series]") {
    SeriesSummary a, b;
    a.add(1, 2.0F);
    a.add(2, 3.0F);
    b.add(1, -4.0F);
    b.add(2, 0.5F);
    SeriesSummary both = a;
    both.widen(b);
    CHECK(both.min == -4);
    CHECK(both.max == 3);
    CHECK(both.min_positive == 0.5F);
    CHECK(both.finite == 4);
    SeriesSummary none;
    none.widen(b);
    CHECK(none == b);
    both = a;
    both.widen(SeriesSummary{});
    CHECK(both == a);
}

} // namespace rejected_series_test
