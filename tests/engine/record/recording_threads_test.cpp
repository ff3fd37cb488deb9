#include "engine/record/recording/recording.h"
#include "tests/engine/record/random_recording.h"

#include <catch2/catch_test_macros.hpp>

#include <atomic>
#include <thread>

using namespace refreshlab;
using namespace refreshlab::test;

TEST_CASE("readers see whole records and finished back-fills while a writer goes on", "[record]") {
    // Every number of step t is a function of t, so that a torn or early read shows at once.
    constexpr int64_t steps = 4000;
    constexpr size_t measured = 1, filled = 2;
    Grower grower(7);
    const auto recording = grower.start(1);
    std::atomic<bool> done{false}; // set by the writer after its last append, read by the readers' loops
    std::atomic<int64_t> wrong{0}, rounds{0};

    const auto read = [&] {
        for (bool last = false; !last;) {
            last = done.load();
            const size_t fills = recording->back_fills().size();
            const int64_t n = recording->steps();
            if (fills > 0) { // what its entry covers is there
                const auto fill = recording->back_fills()[fills - 1];
                for (int64_t t = fill.first_step; t <= fill.last_step; ++t) {
                    if (recording->signal(t, filled) != static_cast<float>(2 * t)) ++wrong;
                }
            }
            for (int64_t t = std::max<int64_t>(1, n - 50); t <= n; ++t) {
                const StepRecord& record = recording->step(t);
                if (record.step != t || record.next_token_id != static_cast<int32_t>(t % vocab)) ++wrong;
                if (recording->signal(t, measured) != static_cast<float>(t)) ++wrong;
                const float value = recording->signal(t, filled);
                if (!is_absent(value) && value != static_cast<float>(2 * t)) ++wrong;
                if (const RefreshEvent* refresh = recording->refresh_at(t);
                    refresh != nullptr && refresh->delta != t)
                    ++wrong;
                if (const auto rows = recording->attention(t, false); rows && rows->weights.at(0) != t % 1000)
                    ++wrong;
            }
            const auto ids = recording->token_ids();
            if (static_cast<int64_t>(ids.size()) < n) ++wrong;
            ++rounds;
        }
    };
    std::thread first(read), second(read);
    for (int64_t t = 1; t <= steps; ++t) {
        if (t % 8 == 0) {
            std::vector<float> values;
            for (int64_t s = t - 7; s < t; ++s)
                values.push_back(static_cast<float>(2 * s));
            recording->back_fill(filled, t - 7, values);
            RefreshEvent event;
            event.step = event.delta = t;
            recording->add_refresh(event);
        }
        auto rows = std::make_shared<AttentionRows>();
        rows->position = rows->step = t;
        rows->weights.assign(1000, static_cast<uint16_t>(t % 1000));
        recording->add_attention(std::move(rows));
        StepRecord record;
        record.step = t;
        record.token_id = recording->token(t);
        record.next_token_id = static_cast<int32_t>(t % vocab);
        record.signals.fill(absent());
        record.signals[measured] = static_cast<float>(t);
        recording->append(record);
    }
    recording->set_end({"stop_token", 1, {}, {}});
    done = true;
    first.join();
    second.join();
    CHECK(wrong == 0);
    CHECK(rounds >= 2);
    CHECK(recording->num_tokens() == steps);
}
