// Signals of one's own that a run was recorded without, beside a run that had them while it was made.
#include "engine/base/error.h"
#include "engine/record/runs/own_values.h"
#include "engine/session/decode/decode_session.h"
#include "tests/engine/session/tiny_pair.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <bit>
#include <string>
#include <vector>

namespace own_values_test {

using namespace refreshlab;
using namespace refreshlab::test;

TEST_CASE("a signal of one's own has the same bits on a run that was recorded without it", "[session]") {
    const auto pair = tiny_pair(5, 6);
    const std::vector<OwnSignal> own = {
        own_signal_from_text("rise = entropy_bits - mean(entropy_bits, 4)", "the test"),
        own_signal_from_text("stale = or(last_kl_nats, 0.5) * sqrt(steps_since_refresh)", "the test"),
        own_signal_from_text("never = lag(entropy_bits, 500)", "the test")};
    const auto run = [&](bool with) {
        RunConfig config = tiny_run(30);
        config.policy = policy_of({trigger("steps_since_refresh", Comparison::at_least, 7)});
        if (with) config.policy.signals = own;
        DecodeSession session(pair, config);
        while (session.step()) {
        }
        return session.recording();
    };
    const auto live = run(true), plain = run(false);
    REQUIRE(live->token_ids() == plain->token_ids());
    const auto later = with_own_signals(plain, own);
    REQUIRE(later != plain);
    CHECK_FALSE(plain->signal_id("rise")); // the recording itself stays what it is
    size_t known = 0;
    for (const OwnSignal& signal : own)
        for (int64_t t = 1; t <= live->steps(); ++t) {
            CAPTURE(signal.name, t);
            const float a = live->signal(t, *live->signal_id(signal.name)),
                        b = later->signal(t, *later->signal_id(signal.name));
            REQUIRE(std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b));
            known += is_absent(a) ? 0 : 1;
        }
    CHECK(known > 50);
    // All else is the same run: compared by the signals that both have.
    CHECK(later->info().id == plain->info().id);
    CHECK(later->info().fork_step == plain->info().fork_step);
    CHECK(later->steps() == plain->steps());
    CHECK(later->refreshes().size() == plain->refreshes().size());
    CHECK(later->end()->stop_reason == plain->end()->stop_reason);
    CHECK(later->notes() == plain->notes());
    CHECK(later->inherited().refreshes == plain->inherited().refreshes);
    for (size_t id = 0; id < plain->signals().size(); ++id)
        for (int64_t t = 1; t <= plain->steps(); ++t)
            REQUIRE(std::bit_cast<uint32_t>(later->signal(t, id)) ==
                    std::bit_cast<uint32_t>(plain->signal(t, id)));
    // What is there is not worked out again.
    CHECK(with_own_signals(live, own) == live);
    CHECK(with_own_signals(later, own) == later);
    CHECK(with_own_signals(plain, {}) == plain);
}

TEST_CASE("a signal of one's own that cannot be worked out is refused in one line", "[session]") {
    using Catch::Matchers::ContainsSubstring;
    const auto pair = tiny_pair(5, 6);
    RunConfig config = tiny_run(10);
    config.policy.signals = {own_signal_from_text("twice = 2 * entropy_bits", "the test")};
    DecodeSession session(pair, config);
    while (session.step()) {
    }
    const auto run = session.recording();
    const auto problem = [&](const char* text) -> std::string {
        const OwnSignal signal = own_signal_from_text(text, "the test");
        try {
            (void)with_own_signals(run, std::span(&signal, 1));
        } catch (const Error& e) {
            CHECK(std::string(e.what()).find('\n') == std::string::npos);
            return e.what();
        }
        return {};
    };
    CHECK_THAT(problem("spread = mc_variance + entropy_bits"),
               ContainsSubstring("did not measure mc_variance"));
    CHECK_THAT(problem("twice = 3 * entropy_bits"), ContainsSubstring("choose another name"));
    CHECK(problem("spread = or(mc_variance, 0) + entropy_bits").empty()); // says itself what stands in
    CHECK(problem("twice = 2 * entropy_bits").empty());
}

} // namespace own_values_test
