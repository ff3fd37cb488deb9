// The metamorphic list of docs/reference/refresh.md, section 10, on tiny random pairs. Numbers in the names are its own.
#include "engine/cache/kv_cache.h"
#include "engine/session/decode/decode_session.h"
#include "engine/session/driver/replay.h"
#include "tests/engine/session/tiny_pair.h"
#include "tests/support/forward.h"
#include "tests/support/seed.h"

#include <ATen/ATen.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>
#include <nlohmann/json.hpp>

#include <cmath>
#include <random>

namespace metamorphic_test {

using namespace refreshlab;
using namespace refreshlab::test;

namespace {

constexpr double never = 1e300;

std::vector<RefreshPolicy> every_kind_of_policy() {
    std::vector<RefreshPolicy> policies;
    for (const auto on_fire : {OnFire::keep, OnFire::teacher_token, OnFire::redraw}) {
        for (const std::optional<int32_t> window :
             {std::optional<int32_t>{}, std::optional<int32_t>{3}, std::optional<int32_t>{0}}) {
            policies.push_back(
                policy_of({trigger("steps_since_refresh", Comparison::at_least, 5)}, window, on_fire));
            policies.push_back(
                policy_of({trigger("entropy_bits", Comparison::above, 4.0, 2, 3)}, window, on_fire));
            policies.push_back(policy_of({trigger("kl_nats", Comparison::above, -1, 6, 0)}, window, on_fire));
            policies.push_back(
                policy_of({trigger("mc_variance", Comparison::above, 0.0, 4, 5)}, window, on_fire));
            policies.push_back(policy_of({trigger("steps_since_refresh", Comparison::at_least, 9),
                                          trigger("entropy_bits", Comparison::above, 5.0, 1, 4),
                                          trigger("kl_nats", Comparison::above, 0.2, 7, 2)},
                                         window, on_fire));
        }
    }
    for (const int32_t lag : {1, 4}) {
        for (const auto on_fire : {OnFire::keep, OnFire::teacher_token, OnFire::redraw}) {
            policies.push_back(policy_of({trigger("steps_since_refresh", Comparison::at_least, 7),
                                          trigger("kl_nats", Comparison::above, 0.2, 5, 2)},
                                         3, on_fire));
            policies.back().lag = lag;
            policies.push_back(
                policy_of({trigger("entropy_bits", Comparison::above, 4.0, 2, 3)}, {}, on_fire));
            policies.back().lag = lag;
        }
    }
    for (const char* name : {"none", "periodic", "window", "entropy", "kl", "burst", "mc"})
        policies.push_back(preset_policy(name));
    return policies;
}

bool same_columns(const at::Tensor& a, const at::Tensor& b) {
    return at::equal(a.contiguous(), b.contiguous());
}

size_t spliced_refreshes(const Recording& r) {
    size_t n = 0;
    for (size_t i = 0; i < r.refreshes().size(); ++i)
        n += r.refreshes()[i].spliced > 0 ? 1 : 0;
    return n;
}

std::vector<int64_t> refresh_steps(const Recording& r) {
    std::vector<int64_t> steps;
    for (size_t i = 0; i < r.refreshes().size(); ++i)
        steps.push_back(r.refreshes()[i].step);
    return steps;
}

std::shared_ptr<Recording> run(const std::shared_ptr<const ModelPair>& pair, const RunConfig& config) {
    DecodeSession session(pair, config);
    while (session.step()) {
    }
    session.score();
    return session.recording();
}

std::optional<float> measured(const Recording& r, int64_t step, const char* signal) {
    const float v = r.signal(step, require_signal(signal, "test"));
    return is_absent(v) ? std::nullopt : std::optional(v);
}

} // namespace

TEST_CASE("1, 2: with teacher == student every policy gives the plain text, and KL and drift are exactly 0",
          "[session]") {
    TinyShape shape;
    shape.attention_dropout = 0.1;
    const auto pair = tiny_pair(11, 11, shape, shape);
    for (const double temperature : {0.0, 0.9}) {
        RunConfig config = tiny_run(48);
        config.sampler.temperature = temperature;
        config.mc.samples = 4;
        config.mode = Mode::student;
        const std::vector<int32_t> plain = text_of(pair, config);
        config.mode = Mode::teacher;
        CHECK(text_of(pair, config) == plain);
        config.mode = Mode::overfill;
        size_t refreshes = 0, kls = 0, drifts = 0;
        for (const RefreshPolicy& policy : every_kind_of_policy()) {
            config.policy = policy;
            const auto recording = run(pair, config);
            CAPTURE(policy_to_json(policy).dump(), temperature);
            CHECK(recording->token_ids() == plain);
            for (int64_t t = 1; t <= recording->steps(); ++t) {
                const auto kl = measured(*recording, t, "kl_nats"), drift = measured(*recording, t, "drift");
                CHECK((!kl || *kl == 0));
                CHECK((!drift || *drift == 0));
                kls += kl ? 1 : 0;
                drifts += drift ? 1 : 0;
            }
            refreshes += recording->refreshes().size();
        }
        CHECK(refreshes > 100); // the policies did fire
        CHECK(kls > 300);       // and there was something to be 0
        CHECK(drifts > 300);
    }
}

TEST_CASE("4, 8: after a whole splice the student's columns are the teacher's, bit for bit", "[session]") {
    const auto pair = tiny_pair(1, 2);
    for (const int64_t every : {1, 4}) {
        RunConfig config = tiny_run(30);
        config.policy =
            policy_of({trigger("steps_since_refresh", Comparison::at_least, static_cast<double>(every))});
        DecodeSession session(pair, config);
        const int64_t prompt = session.recording()->prompt_length();
        while (!session.finished()) {
            session.step();
            const auto& events = session.recording()->refreshes();
            const int64_t step = session.recording()->steps();
            const bool refreshed = !events.empty() && events[events.size() - 1].step == step;
            CHECK(refreshed == (step % every == 0 && step <= 28)); // nothing is refreshed at the end
            if (!refreshed) continue;
            const KvCache &s = *session.student_cache(), &t = *session.teacher_cache();
            REQUIRE(s.length() == t.length());
            CHECK(same_columns(s.keys(0, s.length()), t.keys(0, s.length())));
            CHECK(same_columns(s.values(0, s.length()), t.values(0, s.length())));
            for (int64_t p = 0; p < s.length(); ++p) {
                CHECK(s.origin(p) == (p < prompt ? Origin::teacher_prefill : Origin::teacher_refresh));
            }
        }
        CHECK(session.recording()->refreshes().size() == static_cast<size_t>(28 / every));
    }
}

TEST_CASE("5: a windowed splice changes exactly the newest k columns", "[session]") {
    const auto pair = tiny_pair(3, 4);
    RunConfig config = tiny_run(40);
    config.policy = policy_of({trigger("steps_since_refresh", Comparison::at_least, 10)}, 4);
    RunConfig plain = config;
    plain.policy = RefreshPolicy{};
    DecodeSession windowed(pair, config), untouched(pair, plain);
    for (int i = 0; i < 10; ++i) {
        windowed.step();
        untouched.step();
    }
    const int64_t prompt = windowed.recording()->prompt_length(), end = prompt + 10;
    REQUIRE(windowed.recording()->refreshes().size() == 1);
    const KvCache &a = *windowed.student_cache(), &b = *untouched.student_cache(),
                  &t = *windowed.teacher_cache();
    CHECK(same_columns(a.keys(0, end - 4), b.keys(0, end - 4)));
    CHECK(same_columns(a.values(0, end - 4), b.values(0, end - 4)));
    CHECK(same_columns(a.keys(end - 4, 4), t.keys(end - 4, 4)));
    CHECK_FALSE(same_columns(a.keys(end - 4, 4), b.keys(end - 4, 4)));
    CHECK(a.origin(end - 5) == Origin::skipped);
    CHECK(windowed.splice_watermark() == end);
    CHECK(windowed.recording()->refreshes()[0].spliced == 4);
    CHECK(windowed.recording()->refreshes()[0].delta == 10);
    CHECK(windowed.recording()->refreshes()[0].pass_tokens == 10); // a window spares no teacher work
}

TEST_CASE("6: policies that cannot fire give the text of none", "[session]") {
    const auto pair = tiny_pair(5, 6);
    RunConfig config = tiny_run(50);
    const std::vector<int32_t> plain = text_of(pair, config);
    RefreshPolicy capped = policy_of({trigger("entropy_bits", Comparison::above, 0.1)});
    capped.budget.refreshes = 0;
    for (const RefreshPolicy& policy :
         {policy_of({trigger("steps_since_refresh", Comparison::at_least, 51)}),
          policy_of({trigger("entropy_bits", Comparison::above, 12.1)}),
          policy_of({trigger("kl_nats", Comparison::above, never, 5)}), capped}) {
        config.policy = policy;
        const auto recording = run(pair, config);
        CHECK(recording->token_ids() == plain);
        CHECK(recording->refreshes().empty());
    }
    config.policy = policy_of({trigger("steps_since_refresh", Comparison::at_least, 4)});
    CHECK(text_of(pair, config) != plain); // this pair does notice a refresh
}

TEST_CASE("7: speculative burst k is periodic R = W = k", "[session]") {
    const auto pair = tiny_pair(7, 8);
    RunConfig config = tiny_run(60);
    config.policy = preset_policy("burst");
    const auto burst = run(pair, config);
    config.policy = policy_of({trigger("steps_since_refresh", Comparison::at_least, 8)}, 8);
    const auto periodic = run(pair, config);
    CHECK(burst->token_ids() == periodic->token_ids());
    CHECK(refresh_steps(*burst) == refresh_steps(*periodic));
    CHECK(refresh_steps(*burst) == std::vector<int64_t>{8, 16, 24, 32, 40, 48, 56});
}

TEST_CASE("9: a probe that always fires is periodic, one that never fires is none with T.len advanced",
          "[session]") {
    const auto pair = tiny_pair(9, 10);
    RunConfig config = tiny_run(60);
    config.policy = policy_of({trigger("kl_nats", Comparison::above, -1, 6)});
    const auto always = run(pair, config);
    config.policy = policy_of({trigger("steps_since_refresh", Comparison::at_least, 6)});
    const auto periodic = run(pair, config);
    CHECK(always->token_ids() == periodic->token_ids());
    CHECK(refresh_steps(*always) == refresh_steps(*periodic));

    config.policy = RefreshPolicy{};
    const std::vector<int32_t> plain = text_of(pair, config);
    config.policy = policy_of({trigger("kl_nats", Comparison::above, never, 6)});
    DecodeSession session(pair, config);
    for (int i = 0; i < 20; ++i)
        session.step();
    CHECK(session.teacher_cache()->length() == session.recording()->prompt_length() + 18);
    CHECK(session.splice_watermark() == session.recording()->prompt_length());
    while (session.step()) {
    }
    CHECK(session.recording()->token_ids() == plain);
    CHECK(session.recording()->passes().size() == 9); // t = 6 .. 54; the one at 60 = N would change nothing
}

TEST_CASE("10: a refresh by hand after probes reads only what they have not read", "[session]") {
    const auto pair = tiny_pair(12, 13);
    RunConfig config = tiny_run(200);
    config.policy = policy_of({trigger("kl_nats", Comparison::above, never, 64, 32)});
    DecodeSession session(pair, config);
    for (int i = 0; i < 99; ++i)
        session.step();
    session.apply(command::RefreshNow{});
    while (session.step()) {
    }
    const auto& r = *session.recording();
    const int64_t prompt = r.prompt_length();
    REQUIRE(r.refreshes().size() == 1);
    const RefreshEvent& event = r.refreshes()[0];
    CHECK(event.step == 100);
    CHECK(event.first_pos == prompt);
    CHECK(event.spliced == 100);
    CHECK(event.pass_tokens == 36);
    CHECK_FALSE(event.automatic);
    CHECK(reason_text(event.hits) == "manual");
    REQUIRE(r.passes().size() == 3);
    CHECK((r.passes()[0].step == 64 && r.passes()[0].probe));
    CHECK((r.passes()[1].step == 100 && !r.passes()[1].probe && r.passes()[1].tokens == 36));
    CHECK((r.passes()[2].step == 164 && r.passes()[2].probe));
}

TEST_CASE("11: back-filled numbers are those of a separate scoring pass, whatever passes the policy made",
          "[session]") {
    const auto pair = tiny_pair(14, 15);
    RunConfig config = tiny_run(45);
    config.policy =
        policy_of({trigger("kl_nats", Comparison::above, never, 7)}); // passes, no splices: the text of none
    const auto probed = run(pair, config);
    config.policy = RefreshPolicy{};
    const auto plain = run(pair, config);
    config.shadow = true;
    const auto shadow = run(pair, config);
    REQUIRE(probed->token_ids() == plain->token_ids());
    REQUIRE(shadow->token_ids() == plain->token_ids());
    REQUIRE(plain->end()->teacher_ppl);
    CHECK_THAT(*probed->end()->teacher_ppl, Catch::Matchers::WithinRel(*plain->end()->teacher_ppl, 1e-6));
    CHECK_THAT(*shadow->end()->teacher_ppl, Catch::Matchers::WithinRel(*plain->end()->teacher_ppl, 1e-6));

    // Independent: one teacher prefill over prompt and text, log-softmax in float64.
    std::vector<int32_t> text = plain->info().prompt_ids;
    const std::vector<int32_t> generated = plain->token_ids();
    text.insert(text.end(), generated.begin(), generated.end());
    const auto cache = pair->teacher->make_cache(static_cast<int64_t>(text.size()));
    const at::Tensor rows = at::log_softmax(
        extend(*pair->teacher, *cache, text, Rows::all, Origin::teacher_decode).to(at::kDouble), -1);
    double sum = 0;
    for (size_t i = 0; i < generated.size(); ++i) {
        const int64_t row = static_cast<int64_t>(plain->info().prompt_ids.size() + i) - 1;
        const double lp = rows[row][generated[i]].item<double>();
        sum += lp;
        for (const auto& r : {probed, plain, shadow}) {
            const auto value = measured(*r, static_cast<int64_t>(i) + 1, "teacher_logprob");
            REQUIRE(value);
            CHECK(std::abs(static_cast<double>(*value) - lp) < 1e-5 * std::max(1.0, std::abs(lp)));
        }
    }
    CHECK_THAT(*plain->end()->teacher_ppl, Catch::Matchers::WithinRel(std::exp(-sum / 45), 1e-5));

    int compared = 0;
    for (int64_t t = 1; t <= 42; ++t) { // probes cover steps 1 .. 42
        const auto a = measured(*probed, t, "kl_nats"), b = measured(*shadow, t, "kl_nats");
        REQUIRE(a);
        REQUIRE(b);
        CHECK(std::abs(*a - *b) <= 1e-5F * std::max(1.0F, *b));
        compared += *b > 0.01F ? 1 : 0;
    }
    CHECK(compared > 20);
    CHECK_FALSE(measured(*plain, 5, "kl_nats")); // nobody measured it: absent, not 0
}

TEST_CASE("12: no run violates cool-down or cap", "[session]") {
    const auto pair = tiny_pair(16, 17);
    RunConfig config = tiny_run(120);
    config.policy = policy_of({trigger("entropy_bits", Comparison::above, 0.01, 3, 7)});
    config.policy.budget = {3, 60};
    const auto r = run(pair, config);
    const std::vector<int64_t> steps = refresh_steps(*r);
    REQUIRE(steps.size() >= 4);
    for (size_t i = 0; i < steps.size(); ++i) {
        CHECK(steps[i] % 3 == 0);
        if (i > 0) CHECK(steps[i] - steps[i - 1] >= 7);
        if (i >= 3) CHECK(steps[i] - steps[i - 3] >= 60);
    }
}

TEST_CASE("13: MC rows change nothing but their signals", "[session]") {
    TinyShape shape;
    shape.attention_dropout = 0.1;
    const auto pair = tiny_pair(18, 19, shape, shape);
    RunConfig config = tiny_run(40);
    const auto plain = run(pair, config);
    config.mc.measure = true;
    config.mc.every = 3;
    config.mc.samples = 5;
    const auto with = run(pair, config);
    CHECK(with->token_ids() == plain->token_ids());
    const size_t entropy = require_signal("entropy_bits", "test");
    for (int64_t t = 1; t < 40; ++t) {
        CHECK(with->signal(t, entropy) == plain->signal(t, entropy));
        const auto u = measured(*with, t, "mc_variance");
        CHECK(u.has_value() == (t % 3 == 0));
        if (u) CHECK(*u > 0);
    }
    config.mc.p = 0;
    const auto off = run(pair, config);
    CHECK(measured(*off, 3, "mc_variance") == 0.0F);
    CHECK(measured(*off, 6, "mc_mutual_information_bits") == 0.0F);
}

TEST_CASE("17: in rebuild mode a refresh reproduces the student's own columns", "[session]") {
    TinyShape wide;
    wide.kv_heads = 4;
    const auto pair = tiny_pair(20, 21, wide, {});
    REQUIRE(pair->geometry_difference);
    RunConfig config = tiny_run(40);
    const auto plain = run(pair, config);
    CHECK_FALSE(plain->info().note.empty());
    for (const auto on_fire : {OnFire::keep, OnFire::redraw}) {
        config.policy = policy_of({trigger("steps_since_refresh", Comparison::at_least, 6)}, {}, on_fire);
        const auto rebuilt = run(pair, config);
        CHECK(rebuilt->token_ids() == plain->token_ids());
        CHECK(spliced_refreshes(*rebuilt) > 3);
    }
    config.policy = policy_of({trigger("kl_nats", Comparison::above, never, 5)});
    CHECK(measured(*run(pair, config), 5, "kl_nats").value_or(0) > 0);
}

TEST_CASE("18: rewind and redo is bit-equal, also across refreshes, probes and MC rows", "[session]") {
    TinyShape shape;
    shape.attention_dropout = 0.1;
    const auto pair = tiny_pair(22, 23, shape, shape);
    std::mt19937 random(test::seed(5));
    for (const RefreshPolicy& policy : every_kind_of_policy()) {
        RunConfig config = tiny_run(36);
        config.sampler.temperature = 0.8;
        config.policy = policy;
        config.mc.samples = 3;
        DecodeSession session(pair, config);
        while (session.step()) {
        }
        session.score();
        const auto original = session.recording();
        for (int round = 0; round < 3; ++round) {
            const int64_t k = std::uniform_int_distribution<int64_t>(0, 35)(random);
            CAPTURE(policy_to_json(policy).dump(), k);
            session.rewind(k);
            CHECK(session.recording()->steps() == k);
            while (session.step()) {
            }
            session.score();
            const auto difference = first_difference(*original, *session.recording());
            CHECK(difference.value_or("") == "");
        }
    }
}

TEST_CASE(
    "18: rewind and redo is bit-equal where student rows fell out of memory on both sides of a lagged splice",
    "[session]") {
    const auto pair = tiny_pair(26, 27);
    RunConfig config = tiny_run(330);
    // One lagged refresh early; a probe that reads everything since, late: its KL needs the rows around the splice.
    config.policy = policy_of({trigger("steps_since_refresh", Comparison::at_least, 20),
                               trigger("kl_nats", Comparison::above, never, 250)});
    config.policy.budget.refreshes = 1;
    config.policy.lag = 12;
    DecodeSession session(pair, config);
    while (session.step()) {
    }
    const auto original = session.recording();
    REQUIRE(original->refreshes().size() == 1);
    REQUIRE((original->refreshes()[0].fired_step == 20 && original->refreshes()[0].step == 32));
    REQUIRE(measured(*original, 25, "kl_nats"));
    for (const int64_t k : {300, 60, 33, 32, 31, 26, 20, 19}) {
        session.rewind(k);
        while (session.step()) {
        }
        CAPTURE(k);
        CHECK(first_difference(*original, *session.recording()).value_or("") == "");
    }
}

TEST_CASE("19: a lagged refresh is the exact one with its pass spread over the tokens until it lands",
          "[session]") {
    const auto pair = tiny_pair(28, 29);
    RunConfig config = tiny_run(60);
    config.policy = policy_of({trigger("steps_since_refresh", Comparison::at_least, 20)});
    const auto exact = run(pair, config);
    RunConfig without = config;
    without.policy = RefreshPolicy{};
    const auto none = run(pair, without);
    config.policy.lag = 5;
    DecodeSession session(pair, config);
    const int64_t prompt = session.recording()->prompt_length();
    for (int64_t t = 1; t <= 25; ++t) {
        session.step();
        CHECK(session.recording()->refreshes().size() == (t < 25 ? 0 : 1));
        CHECK(session.splice_watermark() == (t < 25 ? prompt : prompt + 20));
        CHECK(session.student_cache()->length() == prompt + t);
        CHECK(session.recording()->token(t) == none->token(t)); // nothing is spliced yet that could change it
    }
    const Recording& r = *session.recording();
    const RefreshEvent &lagged = r.refreshes()[0], &whole = exact->refreshes()[0];
    CHECK((lagged.step == 25 && lagged.fired_step == 20 && whole.step == 20 && whole.fired_step == 20));
    CHECK((lagged.delta == 20 && lagged.spliced == 20 && lagged.first_pos == prompt &&
           lagged.pass_tokens == 20));
    CHECK(lagged.hits[0].value == 20);
    CHECK(lagged.kl_nats == whole.kl_nats);
    CHECK(lagged.mean_drift == whole.mean_drift); // columns never change between splices
    REQUIRE(r.passes().size() == 6);              // shares of 4, 4, 3, 3, 3, 3 tokens
    for (size_t i = 0; i < 6; ++i) {
        CHECK(r.passes()[i].step == 20 + static_cast<int64_t>(i));
        CHECK(r.passes()[i].tokens == (i < 2 ? 4 : 3));
    }
    const KvCache &s = *session.student_cache(), &t = *session.teacher_cache();
    CHECK(t.length() == prompt + 20);
    CHECK(same_columns(s.keys(0, prompt + 20), t.keys(0, prompt + 20)));
    CHECK(same_columns(s.values(0, prompt + 20), t.values(0, prompt + 20)));
    CHECK(s.origin(prompt + 19) == Origin::teacher_refresh);
    CHECK(s.origin(prompt + 20) == Origin::student); // written meanwhile: belongs to the next delta

    while (session.step()) { // the next one fires 20 tokens after position prompt + 20, and so on
    }
    REQUIRE(session.recording()->refreshes().size() == 2);
    CHECK(session.recording()->refreshes()[1].fired_step == 40);
    CHECK(session.recording()->refreshes()[1].step == 45);
}

TEST_CASE("a refresh by hand waits for the one in flight, also across a rewind", "[session]") {
    const auto pair = tiny_pair(30, 31);
    RunConfig config = tiny_run(40);
    config.policy = policy_of({trigger("steps_since_refresh", Comparison::at_least, 12)});
    config.policy.budget.refreshes = 1;
    config.policy.lag = 6;
    DecodeSession session(pair, config);
    for (int i = 0; i < 14; ++i)
        session.step();
    session.apply(command::RefreshNow{}); // felt at boundary 15, in flight until 18
    while (session.step()) {
    }
    const auto original = session.recording();
    REQUIRE(original->refreshes().size() == 2);
    const RefreshEvent& by_hand = original->refreshes()[1];
    CHECK((by_hand.fired_step == 18 && by_hand.step == 24 && by_hand.delta == 6 && !by_hand.automatic));
    session.rewind(16);
    while (session.step()) {
    }
    CHECK(first_difference(*original, *session.recording()).value_or("") == "");
    CHECK(first_difference(*original, *replay(*original, pair)).value_or("") == "");
}

TEST_CASE("20: a run steered by hand is replayed from its recording", "[session]") {
    const auto pair = tiny_pair(24, 25);
    std::mt19937 random(test::seed(9));
    for (int round = 0; round < 6; ++round) {
        RunConfig config = tiny_run(60);
        config.sampler.temperature = 0.7;
        config.policy = preset_policy("entropy");
        DecodeSession session(pair, config);
        while (!session.finished()) {
            session.step();
            switch (std::uniform_int_distribution<int>(0, 14)(random)) {
            case 0:
                session.apply(command::SetParameter{
                    "entropy.threshold", std::to_string(std::uniform_int_distribution<int>(1, 9)(random))});
                break;
            case 1:
                session.apply(command::SetParameter{"sampler.temperature", "0.4"});
                break;
            case 2:
                if (!session.finished()) session.apply(command::RefreshNow{});
                break;
            case 3:
                session.apply(command::SetPolicy{preset_policy("entropy")});
                session.apply(command::SetParameter{
                    "refresh.lag", std::to_string(std::uniform_int_distribution<int>(0, 5)(random))});
                break;
            case 4:
                session.apply(command::SetParameter{"shadow", "true"});
                break;
            case 5:
                if (session.recording()->steps() > 20 && round % 2 == 0) session.rewind(11);
                break;
            default:
                break;
            }
        }
        session.score();
        const auto again = replay(*session.recording(), pair);
        CHECK(first_difference(*session.recording(), *again).value_or("") == "");
        CHECK(session.recording()->commands().size() > 0);
    }
}

} // namespace metamorphic_test
