// Commands with their steps: what a person did, or a file says, reaches a session at the same boundaries.
#include "engine/base/error.h"
#include "engine/record/export/export.h"
#include "engine/session/decode/decode_session.h"
#include "engine/session/decode/steering.h"
#include "engine/session/driver/replay.h"
#include "tests/engine/session/tiny_pair.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <nlohmann/json.hpp>

#include <random>

namespace steering_test {

using namespace refreshlab;
using namespace refreshlab::test;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;
using nlohmann::json;

namespace {

json entry(int64_t step, json command) {
    return {{"step", step}, {"command", std::move(command)}};
}
json by_hand(int64_t step) {
    return entry(step, {{"command", "refresh_now"}});
}
json setting(int64_t step, const std::string& key, const std::string& value) {
    return entry(step, {{"command", "set_parameter"}, {"key", key}, {"value", value}});
}

std::shared_ptr<Recording> steered(const std::shared_ptr<const ModelPair>& pair, const RunConfig& config,
                                   const json& commands) {
    DecodeSession session(pair, config);
    Steering steering(commands_from_json(commands, "test"));
    do
        steering.apply_due(session);
    while (session.step());
    return session.recording();
}

} // namespace

TEST_CASE("a command at step t acts at boundary t, and the log of the run says so", "[session]") {
    const auto pair = tiny_pair(40, 41);
    const RunConfig config = tiny_run(30);
    const json commands = {
        by_hand(20), by_hand(7), setting(12, "sampler.temperature", "0.8"),
        entry(15, {{"command", "set_policy"}, {"policy", policy_to_json(preset_policy("burst"))}})};
    const auto recording = steered(pair, config, commands);
    std::vector<int64_t> steps;
    for (size_t i = 0; i < recording->refreshes().size(); ++i)
        steps.push_back(recording->refreshes()[i].step);
    CHECK(steps == std::vector<int64_t>{7, 15, 20, 28}); // by hand; bursts of 8 from 15 on, restarted at 20
    REQUIRE(recording->commands().size() == 4);
    json log = json::array();
    for (size_t i = 0; i < 4; ++i)
        log.push_back(entry(recording->commands()[i].step, json::parse(recording->commands()[i].json)));
    CHECK(log[0] == by_hand(7)); // sorted
    CHECK(log[1] == commands[2]);
    CHECK(log[3] == by_hand(20));
    // The log of a run steers another one to the same bits.
    CHECK(first_difference(*recording, *steered(pair, config, log)).value_or("") == "");
    CHECK(first_difference(*recording, *replay(*recording, pair)).value_or("") == "");
}

TEST_CASE("a log with the earlier name of a parameter steers and replays as it is", "[session]") {
    const auto pair = tiny_pair(50, 51);
    RunConfig config = tiny_run(24);
    config.policy = preset_policy("entropy");
    config.policy.triggers.at(0).threshold = 0;
    config.policy.triggers.at(0).cooldown = 0;
    config.mc = {.measure = true, .samples = 2, .p = 0.2, .every = 6};
    const auto log = [](const char* field) {
        return json{setting(5, std::string("mc.") + field, "2"),
                    setting(9, std::string("entropy.") + field, "3")};
    };
    const auto earlier = steered(pair, config, log("stride"));
    const auto now = steered(pair, config, log("every"));
    CHECK(generated_text(*earlier) == generated_text(*now));
    REQUIRE(earlier->refreshes().size() == now->refreshes().size());
    REQUIRE(earlier->refreshes().size() > 1);
    for (size_t i = 0; i < now->refreshes().size(); ++i)
        CHECK(earlier->refreshes()[i].step == now->refreshes()[i].step);
    CHECK(json::parse(earlier->commands()[0].json)["key"] == "mc.stride"); // a log is kept as it was given
    CHECK(first_difference(*earlier, *replay(*earlier, pair)).value_or("") == "");
}

TEST_CASE("a refused command is passed over, the others of its step are not", "[session]") {
    const auto pair = tiny_pair(42, 43);
    DecodeSession session(pair, tiny_run(12));
    Steering steering(
        commands_from_json(json::array({entry(3, {{"command", "request_attention"}, {"position", 400}}),
                                        by_hand(3), by_hand(90)}),
                           "test"));
    session.step();
    session.step();
    CHECK_THROWS_MATCHES(steering.apply_due(session), Error, MessageMatches(ContainsSubstring("400")));
    CHECK_NOTHROW(steering.apply_due(session));
    while (session.step())
        steering.apply_due(session);
    REQUIRE(session.recording()->refreshes().size() == 1);
    CHECK(session.recording()->refreshes()[0].step == 3);
    CHECK(steering.left() == 1);
}

TEST_CASE("lists of commands are read strictly", "[session]") {
    const auto refused = [](const json& list, const std::string& part) {
        CAPTURE(list.dump());
        CHECK_THROWS_MATCHES(commands_from_json(list, "f.json"), Error,
                             MessageMatches(ContainsSubstring("f.json") && ContainsSubstring(part)));
    };
    refused({{"step", 1}}, "list");
    refused(json::array({by_hand(3), {{"step", 4}}}), "entry 2");
    refused(json::array({{{"command", {{"command", "refresh_now"}}}}}), "step: missing");
    refused(json::array({by_hand(0)}), "step");
    refused(json::array({entry(1, "refresh_now")}), "object");
    refused(json::array({entry(1, {{"command", "refresh"}})}), "refresh");
    for (const char* other : {"pause", "resume", "stop", "step"})
        refused(json::array({entry(1, {{"command", other}})}), "set_policy");
    json more = by_hand(1);
    more["when"] = 2;
    refused(json::array({more}), "when");
}

TEST_CASE("what a run would refuse is refused before it starts", "[session]") {
    RunConfig config = tiny_run(12);
    config.policy = preset_policy("entropy");
    const auto refused = [&](const json& list, const std::string& part) {
        CAPTURE(list.dump());
        CHECK_THROWS_MATCHES(check_commands(commands_from_json(list, "f.json"), config, "f.json"), Error,
                             MessageMatches(ContainsSubstring("f.json") && ContainsSubstring(part)));
    };
    const json none = entry(2, {{"command", "set_policy"}, {"policy", {{"name", "none"}}}});
    CHECK_NOTHROW(check_commands(
        commands_from_json(json::array({by_hand(1), setting(5, "entropy.threshold", "3")}), "f.json"), config,
        "f.json"));
    refused(json::array({setting(2, "entropy.threshold", "nan")}), "step 2");
    refused(json::array({setting(2, "max_tokens", "9")}), "cannot change during a run");
    refused(json::array({setting(2, "no.such", "9")}), "no.such");
    refused(json::array({none, setting(3, "entropy.threshold", "3")}),
            "no entropy trigger"); // taken out before
    config.mode = Mode::student;
    refused(json::array({by_hand(4)}), "overfill");
}

TEST_CASE("given tokens are chosen from the next choice on, and a branch by hand replays", "[session]") {
    const auto pair = tiny_pair(60, 61);
    RunConfig config = tiny_run(40);
    config.policy = policy_of({trigger("steps_since_refresh", Comparison::at_least, 6)}, {}, OnFire::redraw);
    config.sampler.temperature = 1;
    DecodeSession session(pair, config);
    for (int i = 0; i < 30; ++i)
        session.step();
    const auto whole = session.recording();
    const int32_t other = whole->token(13) == 300 ? 301 : 300, more = 302;
    // Step 12 chooses token 13: back to the state before that step. Steps 12 and 13 refresh or not; the tokens stay.
    session.rewind(11);
    session.apply(command::GiveTokens{{other, more}, {}});
    for (int i = 0; i < 15; ++i)
        session.step();
    const auto branch = session.recording();
    for (int64_t t = 1; t <= 12; ++t)
        CHECK(branch->token(t) == whole->token(t));
    CHECK(branch->token(13) == other);
    CHECK(branch->token(14) == more);
    REQUIRE(branch->commands().size() == 1);
    CHECK(branch->commands()[0].step == 12);
    const json logged = json::parse(branch->commands()[0].json);
    CHECK(logged["ids"] == json{other, more});
    CHECK(logged["text"] == pair->tokenizer->decode(std::vector<int32_t>{other, more}, false));
    // A run that is told the same at the same step is the same, bit for bit.
    DecodeSession again(pair, config);
    Steering steering(commands_of(*branch));
    do
        steering.apply_due(again);
    while (again.recording()->steps() < 26 && again.step());
    CHECK(first_difference(*branch, *again.recording()).value_or("") == "");
    CHECK(first_difference(*branch, *replay(*branch, pair)).value_or("") == "");
    // Its row is that of the step, and the log-probability that of the token under it.
    CHECK(branch->signal(13, signal_id("logprob").value()) < 0);
    // A rewind into the given tokens keeps them; one to before them takes them back.
    session.rewind(12);
    session.step();
    CHECK(session.recording()->token(14) == more);
    session.rewind(11);
    for (int i = 0; i < 19; ++i)
        session.step();
    CHECK(first_difference(*whole, *session.recording()).value_or("") == "");
}

TEST_CASE("given tokens as text, and what cannot be given", "[session]") {
    const auto pair = tiny_pair(62, 63);
    DecodeSession session(pair, tiny_run(12));
    const std::string text = " the king";
    const auto ids = pair->tokenizer->encode(text);
    REQUIRE(ids.size() > 1);
    session.apply(command::GiveTokens{{}, text});
    for (size_t i = 0; i < ids.size(); ++i)
        session.step();
    for (size_t i = 0; i < ids.size(); ++i)
        CHECK(session.recording()->token(static_cast<int64_t>(i) + 2) == ids[i]);
    const size_t logged = session.recording()->commands().size();
    const auto refused = [&](const command::GiveTokens& give, const std::string& words) {
        CHECK_THROWS_MATCHES(session.apply(give), Error, MessageMatches(ContainsSubstring(words)));
    };
    refused({{1 << 30}, {}}, "is no token");
    refused({{-1}, {}}, "is no token");
    refused({{}, "\xFF"}, "not UTF-8");
    refused({std::vector<int32_t>(5000, 3), {}}, "4096");
    while (session.step()) {
    }
    refused({{3}, {}}, "has ended");
    CHECK(session.recording()->commands().size() == logged);
    for (const json& wrong :
         {json{{"command", "give_tokens"}}, json{{"command", "give_tokens"}, {"ids", {-1}}},
          json{{"command", "give_tokens"}, {"ids", "x"}}, json{{"command", "give_tokens"}, {"ids", {1.5}}}})
        CHECK_THROWS_AS(command_from_json(wrong, "test"), Error);
    const Command give = command::GiveTokens{{1, 2}, "ab"};
    CHECK(to_json(command_from_json(to_json(give), "test")) == to_json(give));
}

TEST_CASE("another seed draws otherwise from its step on", "[session]") {
    const auto pair = tiny_pair(64, 65);
    RunConfig config = tiny_run(40);
    config.sampler.temperature = 1;
    config.seed = 5;
    const auto plain = steered(pair, config, json::array());
    const auto changed = steered(pair, config, json::array({setting(20, "seed", "6")}));
    for (int64_t t = 1; t <= 20; ++t)
        CHECK(changed->token(t) == plain->token(t));
    CHECK(changed->token_ids() != plain->token_ids());
    CHECK(first_difference(*changed, *replay(*changed, pair)).value_or("") == "");
    // The same number as the run's own changes nothing.
    CHECK(steered(pair, config, json::array({setting(20, "seed", "5")}))->token_ids() == plain->token_ids());
}

} // namespace steering_test
