// When the rows of a parent may stand for a branch's.
#include "engine/record/trace/write/shared_steps.h"
#include "tests/engine/record/random_recording.h"
#include "tests/support/made_run.h"

#include <catch2/catch_test_macros.hpp>

#include <bit>
#include <cmath>
#include <functional>
#include <limits>

namespace shared_steps_test {

using namespace refreshlab;
using namespace refreshlab::test;

namespace {

constexpr size_t signal = 2;

/// Six steps with a command at the boundary of the second, each record as `change` leaves it. The same at every call but for that.
std::shared_ptr<Recording> six_steps(const std::function<void(StepRecord&)>& change = {}, int64_t steps = 6) {
    const auto recording = Grower(1).start();
    for (int64_t t = 1; t <= steps; ++t) {
        StepRecord record = next_record(*recording, static_cast<int32_t>(t));
        record.signals[signal] = static_cast<float>(t) / 3;
        record.arrival_ms = 10.0 * static_cast<double>(t);
        if (change) change(record);
        if (t == 2) recording->add_command({.step = 2, .json = "{}"});
        recording->append(record);
    }
    return recording;
}

/// A change of the record of one step.
std::function<void(StepRecord&)> at_step(int64_t t, const std::function<void(StepRecord&)>& change) {
    return [=](StepRecord& record) {
        if (record.step == t) change(record);
    };
}

constexpr int64_t fork_step = 4;

/// Whether a parent's rows may stand for the branch at fork_step of a run whose records are these.
bool shares(const Recording& parent, const std::function<void(StepRecord&)>& change = {}) {
    return trace::has_steps_of(parent, *six_steps(change)->fork(fork_step, "branch"));
}

} // namespace

TEST_CASE("a branch shares the rows of a run that was made again with the same bits", "[record]") {
    const auto parent = six_steps();
    CHECK(trace::has_steps_of(*parent, *parent->fork(fork_step, "own branch")));
    CHECK(shares(*parent));
    CHECK(shares(*parent, at_step(4, [](StepRecord& r) { r.arrival_ms += 7; }))); // times are no part of it
    CHECK(shares(*parent, at_step(5, [](StepRecord& r) { r.signals[signal] = -1; }))); // after the fork
    CHECK_FALSE(shares(*parent, at_step(4, [](StepRecord& r) { r.next_token_id = 9; })));
    CHECK_FALSE(shares(*parent, at_step(3, [](StepRecord& r) {
        r.signals[signal] = std::nextafter(r.signals[signal], 2.0F);
    })));
    CHECK_FALSE(shares(*parent, at_step(3, [](StepRecord& r) { r.signals[signal] = absent(); })));
    CHECK_FALSE(shares(*six_steps({}, fork_step - 1))); // it has not come so far
}

TEST_CASE("one NaN is as good as another, but none is no value that was not measured", "[record]") {
    const auto with = [](float value) {
        return at_step(2, [value](StepRecord& r) { r.signals[signal] = value; });
    };
    const float nan = std::numeric_limits<float>::quiet_NaN(), other = std::bit_cast<float>(0x7FC00123U);
    const auto parent = six_steps(with(nan));
    CHECK(shares(*parent, with(other)));
    CHECK_FALSE(shares(*parent, with(absent())));
    CHECK_FALSE(shares(*six_steps(with(0.0F)), with(-0.0F)));
}

TEST_CASE("a branch that was given a command before its fork stores its own steps", "[record]") {
    const auto parent = Grower(1).start(), other = six_steps();
    for (int64_t t = 1; t <= 6; ++t) // the same steps without the command
        parent->append(other->step(t));
    CHECK_FALSE(shares(*parent));
    CHECK(trace::has_steps_of(*other, *parent->fork(fork_step, "branch"))); // the parent may have more
}

TEST_CASE("a branch's times go on from its parent's clock", "[record]") {
    const auto parent = six_steps();
    const auto offset = [&](double ms) {
        const auto change = at_step(fork_step, [ms](StepRecord& r) { r.arrival_ms = ms; });
        return trace::clock_offset(*parent, *six_steps(change)->fork(fork_step, "branch"));
    };
    CHECK(offset(40) == 0);
    CHECK(offset(25) == 15);
    CHECK(offset(std::numeric_limits<double>::quiet_NaN()) == 0); // not known
}

} // namespace shared_steps_test
