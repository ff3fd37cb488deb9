// The numbers of a table of KL divergence, against loops over the recording.
#include "engine/record/export/divergence.h"
#include "engine/record/export/export.h"
#include "tests/engine/record/random_recording.h"
#include "tests/support/made_run.h"
#include "tests/support/seed.h"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

namespace divergence_test {

using namespace refreshlab;
using Catch::Approx;

namespace {

/// A run of these KLs and acceptances; absent() stands where nothing was measured.
std::shared_ptr<Recording> recording_of(const std::vector<float>& kl, const std::vector<float>& acceptance) {
    test::Grower grower(test::seed(5));
    auto recording = grower.start();
    for (size_t i = 0; i < kl.size(); ++i) {
        StepRecord record = test::next_record(*recording, i + 1 < kl.size() ? 7 : -1);
        record.signals[*signal_id("kl_nats")] = kl[i];
        record.signals[*signal_id("acceptance")] = acceptance[i];
        record.signals[*signal_id("same_top1")] = is_absent(kl[i])       ? absent()
                                                  : acceptance[i] > 0.5F ? 1.0F
                                                                         : 0.0F;
        record.signals[*signal_id("logprob")] = -0.5F;
        recording->append(record);
    }
    return recording;
}

} // namespace

TEST_CASE("divergence is over the places where both rows are known", "[record]") {
    const float none = absent();
    const auto recording =
        recording_of({0.5F, none, 0.1F, 2.0F, 0.0F, none}, {0.6F, none, 0.9F, 0.2F, 1.0F, none});
    const Divergence d = divergence_of(*recording);
    CHECK(d.kl_rows == 4);
    CHECK(*d.kl_mean == Approx((0.5 + 0.1 + 2.0) / 4));
    CHECK(*d.kl_median == Approx(0.3));
    CHECK(*d.kl_p90 == Approx(0.5 + 0.7 * 1.5));
    CHECK(*d.kl_p99 == Approx(0.5 + 0.97 * 1.5));
    CHECK(*d.kl_max == Approx(2.0));
    CHECK(*d.same_top1 == Approx(0.75));
    const double a = (0.6 + 0.9 + 0.2 + 1.0) / 4;
    CHECK(*d.acceptance == Approx(a));
    double squares = 0;
    for (const double value : {0.6, 0.9, 0.2, 1.0})
        squares += (value - a) * (value - a);
    const double half = 1.96 * std::sqrt(squares / 3 / 4);
    CHECK(*d.acceptance_low == Approx(a - half).epsilon(1e-4));
    CHECK(*d.acceptance_high == Approx(std::min(a + half, 1.0)).epsilon(1e-4));
    REQUIRE(d.tokens_per_verify);
    for (int g = 1; g <= 8; ++g)
        CHECK((*d.tokens_per_verify)[static_cast<size_t>(g - 1)] ==
              Approx((1 - std::pow(a, g + 1)) / (1 - a)));
    CHECK(*d.student_ppl == Approx(std::exp(0.5)));
    CHECK_FALSE(d.ppl_ratio); // no teacher has scored it
    RunEnd end;
    end.stop_reason = "max_tokens";
    end.teacher_ppl = 2.0;
    recording->set_end(end);
    CHECK(*divergence_of(*recording).ppl_ratio == Approx(std::exp(0.5) / 2));
    const nlohmann::json summary = summary_json(*recording);
    CHECK(summary["kl_rows"] == 4);
    CHECK(summary["kl_p90"].get<double>() == Approx(*d.kl_p90));
    CHECK(summary["tokens_per_verify"].size() == 8);
}

TEST_CASE("what was not measured is no number", "[record]") {
    const auto recording = recording_of({absent(), absent()}, {absent(), absent()});
    const Divergence d = divergence_of(*recording);
    CHECK(d.kl_rows == 0);
    CHECK_FALSE(d.kl_mean);
    CHECK_FALSE(d.kl_max);
    CHECK_FALSE(d.acceptance);
    CHECK_FALSE(d.tokens_per_verify);
    const nlohmann::json summary = summary_json(*recording);
    CHECK(summary["kl_mean"].is_null());
    CHECK(summary["tokens_per_verify"].is_null());
    const Divergence one = divergence_of(*recording_of({0.5F, absent()}, {0.25F, absent()}));
    CHECK(one.acceptance == 0.25);
    CHECK_FALSE(one.acceptance_low); // of one place there is no interval
    CHECK(expected_tokens(1, 8) == 9);
    CHECK(expected_tokens(0, 5) == 1);
}

} // namespace divergence_test
