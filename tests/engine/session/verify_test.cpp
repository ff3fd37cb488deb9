// Verification (reference/refresh.md, section 3) on tiny random pairs of few tokens, which agree and disagree often.
#include "engine/cache/kv_cache.h"
#include "engine/control/parameters.h"
#include "engine/session/decode/decode_session.h"
#include "engine/session/driver/replay.h"
#include "engine/session/pair/run_text.h"
#include "tests/engine/session/tiny_pair.h"

#include <ATen/ATen.h>
#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace verify_test {

using namespace refreshlab;
using namespace refreshlab::test;

namespace {

constexpr TinyShape shape{.attention_dropout = 0.1, .end_id = 4095, .vocab = 8};

std::shared_ptr<const ModelPair> pair_of(uint64_t teacher, uint64_t student) {
    return tiny_pair(teacher, student, shape, shape);
}

const RunText& prompt() {
    static const RunText text{{"", {3, 1, 4, 1, 5}, 0}, {}};
    return text;
}

RefreshPolicy verifying(std::vector<Trigger> triggers, std::optional<int32_t> window = {}) {
    return policy_of(std::move(triggers), window, OnFire::verify);
}

RefreshPolicy every(int32_t g) {
    return verifying({trigger("steps_since_refresh", Comparison::at_least, g)});
}

/// Every kind of draft, with entries of its own or the teacher's.
std::vector<RefreshPolicy> drafting_policies() {
    std::vector<RefreshPolicy> policies;
    for (const int32_t g : {1, 2, 3, 5, 8, 21})
        policies.push_back(every(g));
    policies.push_back(verifying({trigger("entropy_bits", Comparison::above, 2.0)}));
    policies.push_back(verifying({trigger("top1_prob", Comparison::below, 0.5)}));
    policies.push_back(verifying({trigger("entropy_bits", Comparison::above, 1.5, 2, 4),
                                  trigger("steps_since_refresh", Comparison::at_least, 6)}));
    policies.push_back(verifying({trigger("kl_nats", Comparison::above, 0.4, 3)}));
    policies.push_back(verifying({trigger("mc_variance", Comparison::above, 0.05, 2)}));
    policies.push_back(verifying({})); // only where the text ends
    for (size_t i = 0, n = policies.size(); i < n; ++i) {
        policies.push_back(policies[i]);
        policies.back().verify.splice = false;
        policies.push_back(policies[i]);
        policies.back().window = 2;
    }
    return policies;
}

RunConfig run_of(const RefreshPolicy& policy, double temperature = 0, int32_t tokens = 30) {
    RunConfig config = tiny_run(tokens);
    config.policy = policy;
    config.sampler.temperature = temperature;
    config.mc.samples = 2;
    return config;
}

std::shared_ptr<Recording> run(const std::shared_ptr<const ModelPair>& pair, const RunConfig& config) {
    DecodeSession session(pair, config, {}, &prompt());
    while (session.step()) {
    }
    session.score();
    return session.recording();
}

std::vector<int32_t> teachers_text(const std::shared_ptr<const ModelPair>& pair, RunConfig config) {
    config.mode = Mode::teacher;
    return run(pair, config)->token_ids();
}

void finish(DecodeSession& session) {
    while (session.step()) {
    }
}

std::string named(const RefreshPolicy& policy) {
    return policy_to_json(policy).dump();
}

bool same_columns(const KvCache& a, const KvCache& b) {
    const int64_t n = a.length();
    return n == b.length() && at::equal(a.keys(0, n).contiguous(), b.keys(0, n).contiguous()) &&
           at::equal(a.values(0, n).contiguous(), b.values(0, n).contiguous());
}

} // namespace

TEST_CASE("greedy and verified, the text is the teacher's for every draft and every splice", "[verify]") {
    size_t replaced = 0, stayed = 0;
    for (const auto& [teacher, student] : {std::pair{11, 12}, std::pair{3, 4}, std::pair{5, 5}}) {
        const auto pair = pair_of(static_cast<uint64_t>(teacher), static_cast<uint64_t>(student));
        const std::vector<int32_t> wanted = teachers_text(pair, run_of({}));
        for (const RefreshPolicy& policy : drafting_policies())
            for (const bool shadow : {false, true})
                for (const VerifyRule rule : {VerifyRule::exact, VerifyRule::greedy}) {
                    RunConfig config = run_of(policy);
                    config.policy.verify.rule = rule;
                    config.shadow = shadow;
                    CAPTURE(teacher, student, named(policy), shadow);
                    const auto recording = run(pair, config);
                    REQUIRE(recording->token_ids() == wanted);
                    for (size_t i = 0; i < recording->refreshes().size(); ++i) {
                        const RefreshEvent& event = recording->refreshes()[i];
                        replaced += event.token_before != event.token_after ? 1 : 0;
                        stayed += event.delta > 1 ? 1 : 0;
                    }
                    REQUIRE(recording->end()->teacher_ppl);
                }
    }
    CHECK(replaced > 1000);
    CHECK(stayed > 1000);
}

TEST_CASE("a verified run ends where the teacher's does, and for the same reason", "[verify]") {
    TinyShape ending = shape;
    ending.end_id = 3;
    ending.max_position = 48;
    std::map<std::string, int> reasons;
    for (uint64_t round = 0; round < 12; ++round) {
        const auto pair = tiny_pair(100 + round, 200 + round, ending, ending);
        for (const int32_t limit : {9, 400}) {
            RunConfig config = run_of({}, 0, limit);
            config.ignore_stop = false;
            config.mode = Mode::teacher;
            const auto wanted = run(pair, config);
            config.mode = Mode::overfill;
            const auto policies = drafting_policies();
            for (size_t i = round % 3; i < policies.size(); i += 3) {
                config.policy = policies[i];
                CAPTURE(round, limit, named(policies[i]));
                const auto recording = run(pair, config);
                REQUIRE(recording->token_ids() == wanted->token_ids());
                REQUIRE(recording->end()->stop_reason == wanted->end()->stop_reason);
                REQUIRE(recording->steps() == wanted->steps());
                REQUIRE(first_difference(*recording, *replay(*recording, pair)).value_or("") == "");
            }
            ++reasons[wanted->end()->stop_reason];
        }
    }
    CHECK(reasons["stop_token"] > 0);
    CHECK(reasons["context_limit"] > 0);
    CHECK(reasons["max_tokens"] > 0);
}

TEST_CASE("with teacher == student no token goes, and the text is the plain one", "[verify]") {
    const auto pair = pair_of(9, 9);
    for (const double temperature : {0.0, 0.8, 1.3}) {
        RunConfig config = run_of({}, temperature);
        config.mode = Mode::student;
        const std::vector<int32_t> plain = run(pair, config)->token_ids();
        for (const RefreshPolicy& policy : drafting_policies()) {
            CAPTURE(named(policy), temperature);
            const auto recording = run(pair, run_of(policy, temperature));
            CHECK(recording->token_ids() == plain);
            for (size_t i = 0; i < recording->refreshes().size(); ++i)
                CHECK(recording->refreshes()[i].token_before == recording->refreshes()[i].token_after);
        }
    }
}

TEST_CASE("one step lets one record out, and a record is never changed", "[verify]") {
    const auto pair = pair_of(11, 12);
    for (const RefreshPolicy& policy : drafting_policies()) {
        CAPTURE(named(policy));
        DecodeSession session(pair, run_of(policy, 1.0), {}, &prompt());
        std::vector<StepRecord> out;
        while (session.step()) {
            const Recording& recording = *session.recording();
            REQUIRE(recording.steps() == static_cast<int64_t>(out.size()) + 1);
            out.push_back(recording.step(recording.steps()));
            for (int64_t t = 1; t <= recording.steps(); ++t) {
                const StepRecord &now = recording.step(t), &then = out[static_cast<size_t>(t - 1)];
                REQUIRE((now.token_id == then.token_id && now.next_token_id == then.next_token_id));
                REQUIRE((t == 1 || now.token_id == recording.step(t - 1).next_token_id));
                REQUIRE((t == 1 || now.arrival_ms >= recording.step(t - 1).arrival_ms));
            }
        }
    }
}

TEST_CASE("splice off is a window of 0", "[verify]") {
    const auto pair = pair_of(11, 12);
    for (const int32_t g : {2, 5}) {
        RefreshPolicy off = every(g), narrow = every(g);
        off.verify.splice = false;
        narrow.window = 0;
        const auto a = run(pair, run_of(off, 0.9)), b = run(pair, run_of(narrow, 0.9));
        CHECK(first_difference(*a, *b) == std::nullopt);
        DecodeSession session(pair, run_of(off, 0.9), {}, &prompt());
        finish(session);
        const KvCache& student = *session.student_cache();
        for (int64_t p = session.recording()->prompt_length(); p < student.length(); ++p)
            CHECK((student.origin(p) == Origin::student || student.origin(p) == Origin::skipped));
    }
}

TEST_CASE("after a rewind to any step of a verified run the same steps come again, bit for bit", "[verify]") {
    const auto pair = pair_of(11, 12);
    const auto policies = drafting_policies();
    for (size_t i = 0; i < policies.size(); i += 3) {
        const RunConfig config = run_of(policies[i], 1.0, 24);
        DecodeSession session(pair, config, {}, &prompt()), whole(pair, config, {}, &prompt());
        finish(session);
        finish(whole);
        const auto wanted = whole.recording();
        for (int64_t k = wanted->steps() - 1; k >= 0; --k) {
            CAPTURE(named(policies[i]), k);
            session.rewind(k);
            REQUIRE(session.recording()->steps() == k);
            finish(session);
            CHECK(session.recording()->token_ids() == wanted->token_ids());
            const auto entropy = require_signal("entropy_bits", "a test");
            for (int64_t t = 1; t < wanted->steps(); ++t)
                CHECK(session.recording()->signal(t, entropy) == wanted->signal(t, entropy));
            CHECK(same_columns(*session.student_cache(), *whole.student_cache()));
        }
    }
}

TEST_CASE("a command in the middle of a draft acts from the next step on, and the run replays", "[verify]") {
    const auto pair = pair_of(11, 12);
    const auto policies = drafting_policies();
    for (size_t i = 0; i < policies.size(); ++i) {
        CAPTURE(named(policies[i]));
        DecodeSession session(pair, run_of(policies[i], 1.0, 40), {}, &prompt());
        const auto steps = [&](int n) {
            while (n-- > 0 && session.step()) {
            }
        };
        steps(4);
        session.apply(command::SetParameter{"sampler.temperature", "0"});
        steps(3);
        session.apply(command::RefreshNow{});
        steps(5);
        session.apply(command::GiveTokens{{5, 5, 2}, ""});
        steps(1);
        CHECK(session.recording()->token(14) == 5);
        steps(4);
        session.apply(command::SetParameter{"on_fire", "keep"});
        steps(5);
        session.apply(command::SetParameter{"on_fire", "verify"});
        session.apply(command::SetParameter{"seed", "99"});
        steps(2);
        session.capture_attention(7, false); // kept already: nothing happens
        steps(4);
        session.rewind(session.recording()->steps() - 3);
        session.apply(command::SetParameter{"sampler.temperature", "1.5"});
        finish(session);
        session.score();
        const auto recorded = session.recording();
        CHECK(recorded->token(14) == 5);
        CHECK(recorded->token(15) == 5);
        CHECK(first_difference(*recorded, *replay(*recorded, pair)).value_or("") == "");
        session.rewind(session.recording()->steps() / 2 +
                       static_cast<int64_t>(i % 5)); // often within a draft
        finish(session);
        session.score();
        CHECK(first_difference(*session.recording(), *replay(*session.recording(), pair)).value_or("") == "");
        CHECK(recorded->token(16) == 2);
        const auto again = replay(*recorded, pair);
        CHECK(first_difference(*recorded, *again).value_or("") == "");
    }
}

TEST_CASE("a verified recording is not much larger than another", "[verify]") {
    // Steps of drafts are made on forks, which share what is common; nothing of them stays behind.
    const auto pair = pair_of(11, 12);
    RunConfig keeps = run_of(every(4), 1.0, 480), verified = keeps;
    keeps.policy.on_fire = OnFire::keep;
    for (RunConfig* config : {&keeps, &verified})
        config->capture.attention = false;
    const size_t plain = run(pair, keeps)->own_bytes(), drafts = run(pair, verified)->own_bytes();
    CAPTURE(plain, drafts);
    CHECK(drafts < 2 * plain);
}

TEST_CASE("caches of a verified run are those of its text", "[verify]") {
    const auto pair = pair_of(11, 12);
    for (const double temperature : {0.0, 1.0}) {
        DecodeSession session(pair, run_of(every(4), temperature, 60), {}, &prompt());
        int64_t whole = 0;
        while (session.step()) {
            const Recording& recording = *session.recording();
            if (recording.refresh_at(recording.steps()) == nullptr) continue;
            // Everything was spliced: the student has the teacher's entries of all that was fed.
            const KvCache &student = *session.student_cache(), &teacher = *session.teacher_cache();
            REQUIRE(student.length() == recording.prompt_length() + recording.steps());
            REQUIRE(same_columns(student, teacher));
            ++whole;
        }
        CHECK(whole >= 14);
    }
}

} // namespace verify_test
