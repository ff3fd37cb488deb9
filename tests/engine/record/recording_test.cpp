#include "engine/base/check.h"
#include "engine/record/recording/recording.h"
#include "tests/engine/record/random_recording.h"
#include "tests/support/made_run.h"
#include "tests/support/seed.h"

#include <catch2/catch_test_macros.hpp>

#include <bit>
#include <cmath>
#include <limits>

namespace recording_test {

using namespace refreshlab;
using namespace refreshlab::test;

namespace {

std::shared_ptr<const AttentionRows> rows_at(int64_t position, bool teacher, size_t bytes) {
    auto rows = std::make_shared<AttentionRows>();
    rows->position = position;
    rows->step = position;
    rows->teacher = teacher;
    rows->weights.resize(bytes / 2);
    return rows;
}

} // namespace

TEST_CASE("a signal reads as measured until it is back-filled, and absent entries leave it", "[record]") {
    Grower grower(1);
    const auto recording = grower.start();
    for (int i = 0; i < 4; ++i) {
        StepRecord record = next_record(*recording, 7);
        record.signals[3] = static_cast<float>(i);
        recording->append(record);
    }
    const float fill[] = {10, absent(), 30};
    recording->back_fill(3, 2, fill);
    CHECK(recording->signal(1, 3) == 0);
    CHECK(recording->signal(2, 3) == 10);
    CHECK(recording->signal(3, 3) == 2);
    CHECK(recording->signal(4, 3) == 30);
    CHECK(is_absent(recording->signal(4, 2)));
    CHECK(recording->measured(2)[3] == 1);
    REQUIRE(recording->back_fills().size() == 1);
    CHECK(recording->back_fills()[0].first_step == 2);
    CHECK(recording->back_fills()[0].last_step == 4);
    CHECK(recording->back_fills()[0].signal == 3);
    const float nothing[] = {absent()};
    recording->back_fill(3, 1, nothing);
    CHECK(recording->back_fills().size() == 1);
    CHECK_THROWS_AS(recording->back_fill(3, 4, fill), InvariantError);
    CHECK_THROWS_AS(recording->back_fill(3, 0, fill), InvariantError);
    CHECK_THROWS_AS(recording->back_fill(max_signals, 1, fill), InvariantError);
}

TEST_CASE("a recording follows a fork of it that went ahead, step by step", "[record]") {
    for (uint64_t round = 0; round < 8; ++round) {
        const uint64_t seed = test::seed(40 + static_cast<uint32_t>(round));
        INFO("seed " << seed);
        Grower grower(seed);
        grower.attention = false; // rows that are asked for later are the session's to add
        const auto recording = grower.start();
        grower.grow(*recording, 30);
        for (int part = 0; part < 3; ++part) {
            const auto ahead = recording->fork_ahead();
            const int64_t before = recording->steps();
            CHECK(first_difference(*recording, *ahead).value_or("") == "");
            grower.grow(*ahead, 11);
            CHECK(recording->steps() == before);
            for (int64_t step = before + 1; step <= ahead->steps(); ++step) {
                const auto& commands = ahead->commands(); // no part of what follows
                for (size_t n = recording->commands().size(); n < commands.size() && commands[n].step == step;
                     ++n)
                    recording->add_command(commands[n]);
                recording->follow(*ahead, ahead->step(step));
                CHECK(first_difference(*recording, *ahead->fork(step, "so far")).value_or("") == "");
            }
        }
    }
}

TEST_CASE("a fork knows exactly what was known at its boundary", "[record]") {
    const uint64_t seed = test::seed(1);
    INFO("seed " << seed);
    Grower grower(seed);
    const auto recording = grower.start();
    grower.grow(*recording, 60);
    for (const int64_t k : {int64_t{0}, int64_t{1}, int64_t{17}, int64_t{31}, int64_t{60}}) {
        const auto branch = recording->fork(k, "branch");
        REQUIRE(branch->steps() == k);
        CHECK(branch->info().id == "branch");
        CHECK(branch->info().parent_id == recording->info().id);
        CHECK(branch->info().fork_step == k);
        CHECK(branch->num_tokens() == k + 1);
        for (int64_t t = 1; t <= k; ++t) {
            CHECK(branch->token(t + 1) == recording->token(t + 1));
            for (size_t id = 0; id < max_signals; ++id) {
                INFO("step " << t << " signal " << id << " fork " << k);
                REQUIRE(same_bits(branch->signal(t, id), value_behind(grower.written, k, t, id)));
            }
        }
        const auto up_to = [&](const auto& log, auto step) {
            size_t n = 0;
            while (n < log.size() && step(log[n]) <= k)
                ++n;
            return n;
        };
        const auto step = [](const auto& e) { return e.step; };
        CHECK(branch->refreshes().size() == up_to(recording->refreshes(), step));
        CHECK(branch->passes().size() == up_to(recording->passes(), step));
        CHECK(branch->drafts().size() == up_to(recording->drafts(), step));
        CHECK(branch->commands().size() == up_to(recording->commands(), step));
        CHECK(branch->drifts().size() == up_to(recording->drifts(), [](const auto& d) { return d->step; }));
        for (const auto& rows : branch->attention_rows()) {
            CHECK(rows->step <= k);
            CHECK(rows == recording->attention(rows->position, rows->teacher)); // shared, not copied
        }
        CHECK_FALSE(branch->end());
    }
    CHECK_THROWS_AS(recording->fork(61, "x"), InvariantError);
    CHECK_THROWS_AS(recording->fork(-1, "x"), InvariantError);
}

TEST_CASE("a fork of a fork equals a fork of the root", "[record]") {
    const uint64_t seed = test::seed(2);
    INFO("seed " << seed);
    Grower grower(seed);
    grower.attention = false; // rows of an early position may be asked for late, and a later fork shares them
    const auto recording = grower.start();
    grower.grow(*recording, 40);
    const auto direct = recording->fork(11, "a");
    const auto twice = recording->fork(25, "b")->fork(11, "c");
    CHECK(first_difference(*direct, *twice) == std::nullopt);
    // Values filled in after the fork do not change what it was.
    grower.grow(*recording, 20);
    CHECK(first_difference(*direct, *recording->fork(11, "d")) == std::nullopt);
}

TEST_CASE("a branch that decodes the same again is equal to what it left", "[record]") {
    const uint64_t seed = test::seed(3);
    INFO("seed " << seed);
    Grower grower(seed);
    const auto recording = grower.start();
    grower.grow(*recording, 20);
    const auto branch = recording->fork(20, "branch");
    Grower again = grower;
    grower.grow(*recording, 15);
    again.grow(*branch, 15);
    CHECK(first_difference(*recording, *branch) == std::nullopt);
    Grower(seed + 1).grow(*branch, 1);
    grower.grow(*recording, 1);
    CHECK(first_difference(*recording, *branch) != std::nullopt);
}

TEST_CASE("attention over the limit drops the oldest positions of the same owner first", "[record]") {
    Grower grower(3);
    const auto recording = grower.start(1); // 1 MiB
    constexpr size_t piece = 200 * 1024;    // five fit, with their headers
    for (int64_t p = 0; p < 3; ++p)
        recording->add_attention(rows_at(p, true, piece));
    for (int64_t p = 10; p < 14; ++p)
        recording->add_attention(rows_at(p, false, piece));
    CHECK(recording->attention(0, true));
    CHECK(recording->attention(2, true));
    CHECK_FALSE(recording->attention(10, false));
    CHECK_FALSE(recording->attention(11, false));
    CHECK(recording->attention(12, false));
    CHECK(recording->attention(13, false));
    // Rows of an old position that were just asked for stay, though they are the oldest.
    recording->add_attention(rows_at(5, false, piece));
    CHECK(recording->attention(5, false));
    CHECK_FALSE(recording->attention(12, false));
    // The other owner's rows go only when none of its own are left; what is too large alone is not kept.
    recording->add_attention(rows_at(20, false, 4 * piece));
    CHECK_FALSE(recording->attention(5, false));
    CHECK_FALSE(recording->attention(13, false));
    CHECK_FALSE(recording->attention(0, true));
    CHECK(recording->attention(2, true));
    recording->add_attention(rows_at(21, false, 6 * piece));
    CHECK(recording->attention_rows().empty());
    // Replacing rows does not count them twice.
    for (int i = 0; i < 50; ++i)
        recording->add_attention(rows_at(30, false, piece));
    recording->add_attention(rows_at(31, false, piece));
    CHECK(recording->attention(30, false));
}

TEST_CASE("tokens are counted without an end token and without the last record", "[record]") {
    Grower grower(4);
    SECTION("while it runs the pending token counts") {
        const auto recording = grower.start();
        CHECK(recording->num_tokens() == 1);
        CHECK(recording->token_ids() == std::vector{recording->info().first_token});
        recording->append(next_record(*recording, 5));
        recording->append(next_record(*recording, 6));
        CHECK(recording->token_ids() == std::vector{recording->info().first_token, 5, 6});
        CHECK_THROWS_AS(recording->token(4), InvariantError);
        CHECK_THROWS_AS(recording->token(0), InvariantError);
    }
    SECTION("max_tokens: the last record adds nothing") {
        const auto recording = grower.start();
        recording->append(next_record(*recording, 5));
        recording->append(next_record(*recording, -1));
        CHECK(recording->num_tokens() == 2);
        recording->set_end({"max_tokens", 1, {}, {}});
        CHECK(recording->token_ids() == std::vector{recording->info().first_token, 5});
    }
    SECTION("stop_token at step t: t tokens") {
        const auto recording = grower.start();
        recording->append(next_record(*recording, 5));
        recording->append(next_record(*recording, 299));
        recording->set_end({"stop_token", 1, {}, {}});
        CHECK(recording->token_ids() == std::vector{recording->info().first_token, 5});
    }
    SECTION("y_1 is an end token: none") {
        const auto recording = grower.start();
        recording->set_end({"stop_token", 1, {}, {}});
        CHECK(recording->num_tokens() == 0);
        CHECK(recording->token_ids().empty());
    }
    SECTION("cancelled: the pending token stays") {
        const auto recording = grower.start();
        recording->append(next_record(*recording, 5));
        recording->set_end({"cancelled", 1, {}, {}});
        CHECK(recording->num_tokens() == 2);
    }
}

TEST_CASE("refresh_at finds the refresh of a step and no other", "[record]") {
    Grower grower(5);
    const auto recording = grower.start();
    CHECK(recording->refresh_at(1) == nullptr);
    for (int i = 0; i < 100; ++i) {
        RefreshEvent event;
        event.step = 3 * i + 2;
        event.id = i;
        recording->add_refresh(event);
    }
    for (int64_t t = 0; t < 310; ++t) {
        const RefreshEvent* found = recording->refresh_at(t);
        const bool expected = t >= 2 && t % 3 == 2 && t <= 299;
        REQUIRE((found != nullptr) == expected);
        if (found != nullptr) REQUIRE(found->step == t);
    }
    RefreshEvent early;
    CHECK_THROWS_AS(recording->add_refresh(early), InvariantError);
}

TEST_CASE("appending the wrong step is a bug that is caught", "[record]") {
    Grower grower(6);
    const auto recording = grower.start();
    StepRecord record = next_record(*recording, 1);
    record.step = 2;
    CHECK_THROWS_AS(recording->append(record), InvariantError);
    record.step = 1;
    record.top_k = max_top_k + 1;
    CHECK_THROWS_AS(recording->append(record), InvariantError);
    CHECK_THROWS_AS(Recording(RunInfo{}, nullptr), InvariantError);
}

TEST_CASE("first_difference sees every kind of difference and nothing else", "[record]") {
    const uint64_t seed = test::seed(4);
    INFO("seed " << seed);
    const auto make = [&](const auto& change) {
        Grower grower(seed);
        auto recording = grower.start();
        grower.grow(*recording, 30);
        change(*recording);
        return recording;
    };
    const auto nothing = make([](Recording&) {});
    CHECK(first_difference(*nothing, *make([](Recording&) {})) == std::nullopt);

    const auto differs = [&](const auto& change) {
        const auto difference = first_difference(*nothing, *make(change));
        if (difference) CHECK(difference->find('\n') == std::string::npos);
        return difference.has_value();
    };
    CHECK(differs([](Recording& r) { r.append(next_record(r, 1)); }));
    CHECK(differs([](Recording& r) { r.add_command({31, "{}"}); }));
    CHECK(differs([](Recording& r) { r.add_pass({}); }));
    CHECK(differs([](Recording& r) {
        RefreshEvent e;
        e.step = 31;
        r.add_refresh(e);
    }));
    CHECK(differs([](Recording& r) { r.add_drift(std::make_shared<DriftMap>()); }));
    CHECK(differs([](Recording& r) { r.add_attention(rows_at(400, true, 10)); }));
    CHECK(differs([](Recording& r) { r.set_end({"cancelled", 1, {}, {}}); }));
    CHECK(differs([](Recording& r) { // one bit of one value
        const float old = r.signal(9, 2);
        const float value = std::isnan(old) ? 1.0F : std::bit_cast<float>(std::bit_cast<uint32_t>(old) ^ 1U);
        r.back_fill(2, 9, std::span(&value, 1));
    }));

    // Times, dates and names are not compared, and of a NaN only that it is one.
    Grower a(seed), b(seed);
    const auto first = a.start();
    RunInfo info = b.start()->info();
    info.id = "other";
    info.started_at = "later";
    info.ttft_ms = 99;
    info.threads = 64;
    info.device = "cuda:0";
    const auto second = std::make_shared<Recording>(info, first->token_table());
    StepRecord record = next_record(*first, 4);
    record.signals[1] = std::bit_cast<float>(0x7FC00000U);
    first->append(record);
    record.signals[1] = std::bit_cast<float>(0xFFC00123U);
    record.part_ms[0] = 7;
    record.arrival_ms = 8;
    second->append(record);
    CHECK(first_difference(*first, *second) == std::nullopt);
    const auto third = std::make_shared<Recording>(info, first->token_table());
    record.signals[1] = absent();
    third->append(record);
    CHECK(first_difference(*first, *third) != std::nullopt);
}

TEST_CASE("a tolerance lets numbers differ by so much and nothing else", "[record]") {
    const uint64_t seed = test::seed(5);
    INFO("seed " << seed);
    const auto make = [&](const auto& change) {
        Grower grower(seed);
        auto recording = grower.start();
        grower.grow(*recording, 10);
        StepRecord record = next_record(*recording, 4);
        record.signals[1] = 8.0F;
        record.signals[2] = 0.25F;
        record.top_k = 3;
        record.top_ids = {7, 8, 9};
        record.top_probs = {0.5F, 0.3001F, 0.3F};
        change(record);
        recording->append(record);
        return recording;
    };
    const auto original = make([](StepRecord&) {});
    Deviation largest;
    const auto differs = [&](const auto& change, double tolerance) {
        largest = {};
        const auto difference = first_difference(*original, *make(change), tolerance, &largest);
        UNSCOPED_INFO(difference.value_or("no difference"));
        return difference.has_value();
    };
    const auto nudged = [](StepRecord& r) { r.signals[1] = 8.004F; }; // 0.0005 of 8
    CHECK(differs(nudged, 0));
    CHECK(differs(nudged, 4e-4));
    CHECK_FALSE(differs(nudged, 1e-3));
    CHECK(largest.size > 4.9e-4);
    CHECK(largest.size < 5.1e-4);
    CHECK(largest.where.find("step 11") != std::string::npos);
    // Below 1 the difference itself counts.
    CHECK_FALSE(differs([](StepRecord& r) { r.signals[2] = 0.2506F; }, 1e-3));
    CHECK(differs([](StepRecord& r) { r.signals[2] = 0.26F; }, 1e-3));
    // Neighbours that change places, and a last candidate that is another, are rounding; a far one is not.
    CHECK_FALSE(differs(
        [](StepRecord& r) {
            r.top_ids = {7, 9, 8};
            r.top_probs = {0.5F, 0.3002F, 0.3001F};
        },
        1e-3));
    CHECK_FALSE(differs([](StepRecord& r) { r.top_ids[2] = 30; }, 1e-3));
    CHECK(differs([](StepRecord& r) { std::swap(r.top_ids[0], r.top_ids[1]); }, 1e-3));
    // What is no number, not measured or not finite must be the same.
    CHECK(differs([](StepRecord& r) { r.next_token_id = 5; }, 1e9));
    CHECK(differs([](StepRecord& r) { r.signals[1] = absent(); }, 1e9));
    CHECK(differs([](StepRecord& r) { r.signals[1] = std::numeric_limits<float>::infinity(); }, 1e9));
    CHECK(differs([](StepRecord& r) { r.signals[1] = std::numeric_limits<float>::quiet_NaN(); }, 1e9));
    CHECK(differs([](StepRecord& r) { r.top_k = 2; }, 1e9));
}

} // namespace recording_test
