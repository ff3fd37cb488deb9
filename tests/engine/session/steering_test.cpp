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
    refused(json::array({setting(2, "max_tokens", "9")}), "cannot change while a run goes on");
    refused(json::array({setting(2, "no.such", "9")}), "no.such");
    refused(json::array({none, setting(3, "entropy.threshold", "3")}),
            "no entropy trigger"); // taken out before
    config.mode = Mode::student;
    refused(json::array({by_hand(4)}), "overfill");
}
