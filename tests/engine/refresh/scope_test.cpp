#include "engine/base/error.h"
#include "engine/control/parameters.h"
#include "engine/control/run_config.h"
#include "engine/refresh/policy.h"
#include "engine/refresh/scope.h"
#include "engine/results/sweep_spec.h"
#include "tests/support/seed.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <nlohmann/json.hpp>

#include <random>
#include <set>

/// What a refresh writes, as text, in a policy and as a set of layers and KV heads.
namespace refreshlab::test::scope_cases {
namespace {

using Catch::Matchers::ContainsSubstring;

TEST_CASE("lists of layers and KV heads are read and written in one form", "[refresh]") {
    for (const char* text : {"all", "0", "3-3,5", "10-24", "0,3,7-9", "65535"}) {
        INFO(text);
        const auto layers = layers_from_text(text);
        REQUIRE(layers);
        if (std::string_view(text) != "3-3,5") CHECK(to_text(*layers) == text);
    }
    CHECK(to_text(*layers_from_text("3-3,5")) == "3,5");
    CHECK(*layers_from_text("0,3,7-9") == std::vector<IndexRange>{{0, 0}, {3, 3}, {7, 9}});
    for (const char* text : {"all", "0", "0-2", "1,3-4", "10-12:0", "0,10-12:1-2,20:0", "3:0,3:2,4:0"}) {
        INFO(text);
        const auto heads = heads_from_text(text);
        REQUIRE(heads);
        CHECK(to_text(*heads) == text);
    }
    for (const char* text :
         {"",    " ",   "a",     "-1",  "+1",  "1-",    "-",           "3-1",   "1,",  ",1", "1,,2",
          "2,1", "1,1", "1-3,3", "1.5", "1 2", "65536", "99999999999", "all,1", "1:2", "ALL"}) {
        INFO(text);
        CHECK_FALSE(layers_from_text(text));
    }
    for (const char* text : {"", "1:", ":1", "1:2:3", "2:0,1:0", "1:0,0", "0,0", "4-3:0", "all:0", "1:2-1"}) {
        INFO(text);
        CHECK_FALSE(heads_from_text(text));
    }
    std::string long_list = "0";
    for (int i = 1; i <= 4096; ++i)
        long_list += "," + std::to_string(2 * i);
    CHECK_FALSE(layers_from_text(long_list)); // more ranges than a list may have
}

TEST_CASE("a scope is the layers, and of these the KV heads, that it names", "[refresh]") {
    RefreshScope scope;
    CHECK(scope.whole());
    CHECK(scope_text(scope).empty());
    CHECK(scope.heads_of(2, 3) == std::vector<uint8_t>(6, 1));
    scope.layers = *layers_from_text("0,2");
    scope.kv_heads = *heads_from_text("0,2:1,3:2");
    CHECK(scope.heads_of(4, 3) == std::vector<uint8_t>{1, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0});
    CHECK_FALSE(scope.whole_entries());
    scope = {};
    scope.positions = ScopePositions::drift;
    CHECK(scope.whole_entries());
    CHECK_FALSE(scope.whole());
    CHECK(scope_text(scope) == "32 by drift");
    scope.parts = ScopeParts::values;
    scope.layers = *layers_from_text("10-24");
    CHECK(scope_text(scope) == "layers 10-24, values, 32 by drift");

    CHECK(why_not_in_model(scope, 30, 3).empty());
    CHECK(why_not_in_model(scope, 24, 3) == "layer 24: the model has layers 0 to 23");
    scope.kv_heads = *heads_from_text("0-3");
    CHECK(why_not_in_model(scope, 30, 3) == "KV head 3: the model has KV heads 0 to 2");
    scope.kv_heads = *heads_from_text("30:0");
    CHECK(why_not_in_model(scope, 30, 3) == "layer 30: the model has layers 0 to 29");
}

TEST_CASE("the scope of any set of layers and KV heads is that set", "[refresh]") {
    std::mt19937 random(seed(4711));
    for (int round = 0; round < 300; ++round) {
        const auto layers = static_cast<int64_t>(1 + random() % 6),
                   kv_heads = static_cast<int64_t>(1 + random() % 4);
        std::vector<uint8_t> heads(static_cast<size_t>(layers * kv_heads));
        const uint32_t share = 1 + random() % 4;
        for (uint8_t& one : heads)
            one = random() % 4 < share ? 1 : 0;
        heads[random() % heads.size()] = 1;
        const RefreshScope scope = scope_of_heads(heads, layers, kv_heads);
        INFO(to_text(scope.layers) << " " << to_text(scope.kv_heads));
        REQUIRE(scope.heads_of(layers, kv_heads) == heads);
        CHECK(layers_from_text(to_text(scope.layers)) == scope.layers);
        CHECK(heads_from_text(to_text(scope.kv_heads)) == scope.kv_heads);
    }
    const std::vector<uint8_t> two_layers = {0, 0, 1, 1, 1, 1, 0, 0};
    CHECK(to_text(scope_of_heads(two_layers, 4, 2).layers) == "1-2");
    CHECK(scope_of_heads(two_layers, 4, 2).kv_heads.empty());
    CHECK(scope_of_heads(std::vector<uint8_t>(8, 1), 4, 2).whole());
}

TEST_CASE("a scope stands in the policy's JSON, and only where it says something", "[refresh]") {
    const auto plain = policy_to_json(preset_policy("periodic"));
    CHECK(plain["do"]["refresh"].size() == 2); // as earlier programs wrote it
    const auto read = [](const std::string& refresh) {
        return policy_from_json(nlohmann::json::parse(R"({"do": {"refresh": )" + refresh + "}}"),
                                "gate.json");
    };
    const RefreshPolicy policy = read(
        R"({"layers": "10-24", "kv_heads": "0,12:1", "parts": "values", "positions": "drift", "count": 8})");
    CHECK(policy.scope == RefreshScope{.layers = {{10, 24}},
                                       .kv_heads = {{{}, {0, 0}}, {IndexRange{12, 12}, {1, 1}}},
                                       .parts = ScopeParts::values,
                                       .positions = ScopePositions::drift,
                                       .count = 8});
    CHECK(policy_from_json(policy_to_json(policy), "again") == policy);
    CHECK(policy_label(policy) == "custom (; layers 10-24, KV heads 0,12:1, values, 8 by drift)");

    const auto error_of = [&](const std::string& refresh) {
        try {
            static_cast<void>(read(refresh));
        } catch (const Error& e) {
            return std::string(e.what());
        }
        return std::string();
    };
    CHECK_THAT(error_of(R"({"layers": "9-3"})"),
               ContainsSubstring("do.refresh.layers: \"9-3\" is no such list") &&
                   ContainsSubstring("0,3,7-9"));
    CHECK_THAT(error_of(R"({"layers": 3})"), ContainsSubstring("do.refresh.layers"));
    CHECK_THAT(error_of(R"({"kv_heads": "x"})"), ContainsSubstring("do.refresh.kv_heads"));
    CHECK_THAT(error_of(R"({"parts": "key"})"),
               ContainsSubstring("do.refresh.parts: must be one of both, keys, values, not \"key\""));
    CHECK_THAT(error_of(R"({"positions": "oldest"})"),
               ContainsSubstring(
                   "do.refresh.positions: must be one of all, newest, drift, attention, drift_attention"));
    CHECK_THAT(error_of(R"({"count": -1})"), ContainsSubstring("do.refresh.count"));
    CHECK_THAT(error_of(R"({"layer": "3"})"),
               ContainsSubstring("do.refresh.layer: unknown key; did you mean layers?"));

    RefreshPolicy made = preset_policy("periodic"); // in code, against the order of a list
    made.scope.layers = {{4, 6}, {2, 3}};
    CHECK_THROWS_AS(check_policy(made, "test"), Error);
    made.scope = {};
    made.scope.count = -1;
    CHECK_THROWS_AS(check_policy(made, "test"), Error);
}

TEST_CASE("a scope is set by parameters, and what cannot be read changes nothing", "[refresh]") {
    RunConfig config;
    for (const char* assignment : {"refresh.layers=10-24", "refresh.kv_heads = 0,12:1", "refresh.parts=keys",
                                   "refresh.positions=attention", "refresh.count=5"})
        set_parameter(config, assignment);
    CHECK(parameter_value(config, "refresh.layers") == "10-24");
    CHECK(parameter_value(config, "refresh.kv_heads") == "0,12:1");
    CHECK(scope_text(config.policy.scope) == "layers 10-24, KV heads 0,12:1, keys, 5 by attention");
    const RunConfig before = config;
    for (const auto& [assignment, words] :
         {std::pair("refresh.layers=9-3", "\"9-3\" is no such text"),
          std::pair("refresh.layers=none", "or all"), std::pair("refresh.kv_heads=1:", "with a colon"),
          std::pair("refresh.parts=k", "both, keys, values"),
          std::pair("refresh.count=-3", "out of range")}) {
        INFO(assignment);
        try {
            set_parameter(config, assignment);
            FAIL("accepted");
        } catch (const Error& e) {
            CHECK_THAT(e.what(), ContainsSubstring(words));
        }
        CHECK(config == before);
    }
    set_parameter(config, "refresh.layers=all");
    CHECK(config.policy.scope.layers.empty());
}

TEST_CASE("a scope that a run cannot have is refused in one line", "[refresh]") {
    RunConfig config;
    const auto refused = [&](const ScopeModel& model) {
        try {
            check_scope(config, model, "the run");
        } catch (const Error& e) {
            return std::string(e.what());
        }
        return std::string();
    };
    const ScopeModel model{.layers = 4, .kv_heads = 2};
    CHECK(refused({.layers = 4, .kv_heads = 2, .rebuild = true}).empty()); // a whole refresh
    set_parameter(config, "refresh.layers=2-4");
    CHECK_THAT(refused(model), ContainsSubstring("layer 4: the model has layers 0 to 3"));
    config.mode = Mode::student; // no refresh there
    CHECK(refused(model).empty());
    config.mode = Mode::overfill;
    set_parameter(config, "refresh.layers=2-3");
    CHECK(refused(model).empty());
    CHECK_THAT(refused({.layers = 4, .kv_heads = 2, .rebuild = true}),
               ContainsSubstring("layers 2-3") && ContainsSubstring("no entries are copied"));
    config.student_cache = cache_policy_defaults("kv_direct", "this test");
    CHECK_THAT(refused(model), ContainsSubstring("kv_direct computes entries again"));
    config.policy.scope = {};
    config.policy.scope.positions = ScopePositions::drift;
    CHECK(refused(model).empty()); // whole entries of some positions
}

} // namespace
} // namespace refreshlab::test::scope_cases
