// A draft while it goes on: what is told of it, that telling changes nothing, and what becomes of it when something happens in its middle.
#include "engine/cache/kv_cache.h"
#include "engine/session/decode/decode_session.h"
#include "engine/session/driver/replay.h"
#include "engine/session/pair/run_text.h"
#include "engine/session/worker/session_worker.h"
#include "tests/engine/session/tiny_pair.h"
#include "tests/engine/session/watcher.h"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>

#include <cmath>
#include <vector>

namespace open_draft_test {

using namespace refreshlab;
using namespace refreshlab::test;
using Catch::Approx;

namespace {

const RunText& prompt() {
    static const RunText text{{"", {3, 1, 4, 1, 5}, 0}, {}};
    return text;
}

std::shared_ptr<const ModelPair> some_pair() {
    constexpr TinyShape shape{.attention_dropout = 0.1, .end_id = 4095, .vocab = 8};
    return tiny_pair(11, 12, shape, shape);
}

RunConfig drafting(std::vector<Trigger> triggers, int32_t tokens = 30) {
    RunConfig config = tiny_run(tokens);
    config.policy = policy_of(std::move(triggers), {}, OnFire::verify);
    config.sampler.temperature = 1;
    return config;
}

RunConfig drafts_of(int32_t g, int32_t tokens = 30) {
    return drafting({trigger("steps_since_refresh", Comparison::at_least, g)}, tokens);
}

/// Until a draft of some run has so many tokens that nobody has judged. \return whether one got there
bool draft_to(DecodeSession& session, size_t tokens) {
    while (!session.finished() || session.settled()) {
        session.advance();
        if (session.draft().size() == tokens) return true;
    }
    return false;
}

} // namespace

TEST_CASE("a run that is watched is the run that is not, and what was told of a draft is what was judged",
          "[verify]") {
    const auto pair = some_pair();
    for (const RunConfig& config :
         {drafts_of(1), drafts_of(2), drafts_of(5), drafts_of(21),
          drafting({trigger("entropy_bits", Comparison::above, 1.5, 2, 4),
                    trigger("steps_since_refresh", Comparison::at_least, 6)}),
          drafting({trigger("kl_nats", Comparison::above, 0.4, 3)}), drafting({})}) {
        CAPTURE(policy_to_json(config.policy).dump());
        DecodeSession plain(pair, config, {}, &prompt()), watched(pair, config, {}, &prompt());
        while (plain.step()) {
        }
        std::vector<OpenDraft::Token> told;
        size_t judged = 0, longest = 0;
        while (!watched.finished() || watched.settled()) {
            const int64_t steps = watched.recording()->steps();
            const bool record = watched.advance();
            const Recording& run = *watched.recording();
            REQUIRE(run.steps() == steps + (record ? 1 : 0));
            REQUIRE(record == !watched.drafting());
            for (; judged < run.drafts().size(); ++judged) {
                const DraftEvent& draft = run.drafts()[judged];
                // The last token is drawn and judged within one call.
                const auto offset = static_cast<int64_t>(draft.first_pos - run.prompt_length() - steps - 1);
                for (size_t i = 0; i < told.size(); ++i) {
                    const DraftToken& token =
                        draft.tokens.at(static_cast<size_t>(static_cast<int64_t>(i) - offset));
                    CHECK(token.token_id == told[i].id);
                    CHECK(token.p_student ==
                          Approx(std::exp(told[i].logprob)).epsilon(1e-4)); // temperature 1
                }
            }
            told = watched.draft();
            longest = std::max(longest, told.size());
            CHECK(told.empty() == !watched.drafting());
        }
        CHECK(judged > 0);
        if (config.policy.triggers.empty()) CHECK(longest > 20);
        CHECK(first_difference(*plain.recording(), *watched.recording()).value_or("") == "");
    }
}

TEST_CASE("what comes in the middle of a draft gives it up, and the run replays", "[verify]") {
    const auto pair = some_pair();
    DecodeSession session(pair, drafts_of(9, 60), {}, &prompt());
    REQUIRE(draft_to(session, 5));
    int64_t steps = session.recording()->steps();
    session.apply(command::RefreshNow{});
    CHECK_FALSE(session.drafting());
    CHECK(session.recording()->steps() == steps);
    CHECK(session.student_cache()->length() == session.recording()->prompt_length() + steps);
    CHECK(session.advance()); // judged at once: it had one token
    CHECK(session.recording()->refresh_at(steps + 1) != nullptr);

    REQUIRE(draft_to(session, 4));
    session.apply(command::SetParameter{"sampler.temperature", "0.5"});
    CHECK(session.draft().empty());
    REQUIRE(draft_to(session, 3));
    session.apply(command::GiveTokens{{5, 2}, ""});
    REQUIRE(draft_to(session, 3));
    while (session.step()) {
    }
    session.score();
    const auto whole = session.recording();
    CHECK(whole->steps() == 60);
    CHECK(first_difference(*whole, *replay(*whole, pair)).value_or("") == "");

    session.rewind(20);
    REQUIRE(draft_to(session, 6));
    steps = session.recording()->steps();
    session.rewind(steps); // the newest step: nothing but the draft goes
    CHECK_FALSE(session.drafting());
    REQUIRE(draft_to(session, 2));
    session.stop();
    CHECK(session.finished());
    CHECK(session.recording()->steps() == steps);
    CHECK(session.recording()->end()->stop_reason == "cancelled");
    CHECK(session.draft().empty());
    session.score();
    CHECK(first_difference(*session.recording(), *replay(*session.recording(), pair)).value_or("") == "");
}

TEST_CASE("the last token of a budget ends a draft in its middle", "[verify]") {
    const auto pair = some_pair();
    DecodeSession session(pair, drafts_of(200, 12), {}, &prompt());
    REQUIRE(draft_to(session, 7));
    while (session.step()) {
    }
    CHECK(session.recording()->steps() == 12);
    CHECK(session.recording()->end()->stop_reason == "max_tokens");
    CHECK_FALSE(session.drafting());
}

TEST_CASE("the status has the draft that goes on, and none once it is judged", "[session][worker][verify]") {
    SessionWorker worker;
    Watcher watch(worker);
    RunConfig config = bundled_run("speculative", 60);
    config.policy.triggers[0].threshold = 16;
    size_t longest = 0;
    bool consistent = true;
    watch.each([&](const EngineStatus& s) {
        if (!s.draft) return;
        longest = std::max(longest, s.draft->tokens.size());
        const auto run = worker.recording();
        consistent = consistent && run && s.draft->run_id == run->info().id &&
                     s.draft->first_token == run->steps() + 2;
    });
    run_to_end(worker, watch, config);
    watch.each({});
    CHECK(longest == 15); // the sixteenth is judged with the others as soon as it is drawn
    CHECK(consistent);
    CHECK(worker.status()->draft == nullptr);

    // A pace holds for what is drafted; a pause keeps the draft, and it goes on.
    watch.answered(worker.send(command::SetPace{200}));
    watch.answered(worker.send(command::StartRun{config}));
    watch.until([](const EngineStatus& s) { return s.draft && s.draft->tokens.size() >= 4; });
    const auto held = watch.answered(worker.send(command::Pause{}));
    CHECK(held->state == EngineState::paused);
    const auto stepped = watch.answered(worker.send(command::Step{1}));
    const int64_t before = worker.recording()->steps();
    static_cast<void>(stepped);
    watch.until([](const EngineStatus& s) { return s.state == EngineState::paused && !s.draft; });
    CHECK(worker.recording()->steps() >= before);
    watch.answered(worker.send(command::SetPace{0}));
    watch.answered(worker.send(command::Resume{}));
    watch.until_state(EngineState::finished);
    CHECK(worker.recording()->steps() == 60);
}

} // namespace open_draft_test
