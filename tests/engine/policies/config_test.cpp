#include "engine/base/error.h"
#include "engine/control/parameters.h"
#include "engine/policies/outside_policy.h"
#include "tests/engine/policies/fake_cache.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <nlohmann/json.hpp>

#include <map>
#include <set>

namespace config_test {

using namespace refreshlab;
using Catch::Matchers::ContainsSubstring;
using nlohmann::json;

namespace {

std::string refusal(const json& value) {
    try {
        (void)cache_policy_from_json(value, "cache.json");
    } catch (const Error& e) {
        return e.what();
    }
    return {};
}

std::string check(CachePolicyConfig config, int64_t context) {
    try {
        check_cache_policy(config, context, "a run");
    } catch (const Error& e) {
        return e.what();
    }
    return {};
}

} // namespace

TEST_CASE("every method says what it is, and a key means the same in all of them", "[policies]") {
    REQUIRE(cache_methods().front().name == "full");
    std::set<std::string_view> names;
    std::map<std::string_view, CacheParameter> keys;
    std::map<std::string_view, std::string_view> files;
    for (const CacheMethod& method : cache_methods()) {
        INFO(method.name);
        CHECK(names.insert(method.name).second);
        CHECK_FALSE(method.label.empty());
        CHECK_FALSE(method.summary.empty());
        CHECK_FALSE(method.cost.empty());
        CHECK_FALSE(method.source.empty());
        REQUIRE(method.make != nullptr);
        std::set<std::string_view> own;
        for (const CacheParameter& parameter : method.parameters) {
            INFO(parameter.key);
            CHECK(own.insert(parameter.key).second);
            CHECK_FALSE(parameter.help.empty());
            CHECK((parameter.fallback >= parameter.min && parameter.fallback <= parameter.max));
            CHECK((parameter.slider_min >= parameter.min && parameter.slider_max <= parameter.max));
            const CacheParameter& first = keys.emplace(parameter.key, parameter).first->second;
            CHECK(first.kind == parameter.kind);
            CHECK(first.min == parameter.min);
            CHECK(first.max == parameter.max);
            CHECK(first.unit == parameter.unit);
            CHECK(first.help == parameter.help);
            CHECK(first.choices == parameter.choices);
        }
        for (const CacheFile& file : method.files) {
            CHECK(own.insert(file.key).second);
            CHECK_FALSE(file.help.empty());
            CHECK(files.emplace(file.key, file.help).first->second == file.help);
        }
        const CachePolicyConfig config = cache_policy_defaults(method.name, "a test");
        CHECK(check(config, 1 << 20).empty());
        CHECK(cache_policy_from_json(to_json(config), "a test") == config);
    }
}

TEST_CASE("cache policies are read strictly, in one line", "[policies]") {
    const CachePolicyConfig config =
        cache_policy_from_json({{"policy", "snapkv"}, {"budget", 64}, {"pool", "mean"}}, "cache.json");
    CHECK(config.values.at("budget") == 64);
    CHECK(config.values.at("pool") == 1);
    CHECK(config.values.at("window") == 32);
    CHECK_THAT(refusal({{"policy", "snapk"}}), ContainsSubstring("did you mean snapkv"));
    CHECK_THAT(refusal({{"budget", 3}}), ContainsSubstring("must name a cache policy"));
    CHECK_THAT(refusal({{"policy", "h2o"}, {"budgets", 3}}), ContainsSubstring("budget"));
    for (const json& value : {json(0), json(2.5), json(-1), json("64"), json(nullptr)})
        CHECK_THAT(refusal({{"policy", "h2o"}, {"budget", value}}), ContainsSubstring("budget"));
    CHECK_THAT(refusal({{"policy", "h2o"}, {"group", "middle"}}), ContainsSubstring("max, mean"));
    CHECK_THAT(refusal({{"policy", "kivi"}, {"residul", 32}}), ContainsSubstring("did you mean residual"));
    // Of every method: nothing, less than one, half of one, and more than any context.
    for (const CacheMethod& method : cache_methods()) {
        for (const CacheParameter& parameter : method.parameters) {
            if (parameter.kind != CacheParameter::Kind::integer) continue;
            INFO(method.name << " " << parameter.key);
            const std::string key(parameter.key);
            for (const double wrong : {parameter.min - 1, parameter.min + 0.5, parameter.max + 1})
                CHECK_THAT(refusal({{"policy", method.name}, {key, wrong}}), ContainsSubstring(key));
        }
    }
}

TEST_CASE("a policy from outside is known by the form of its name, and only by that", "[policies]") {
    const std::string name = "python:HeavyHitters(budget=64)";
    const CachePolicyConfig config = cache_policy_from_json(json{{"policy", name}}, "x");
    CHECK(config.policy == name);
    CHECK(config == cache_policy_from_json(to_json(config), "x"));
    check_cache_policy(config, 100, "x");
    CHECK_FALSE(has_full_steps(config));
    CHECK(outside_policy_name(name) == "HeavyHitters(budget=64)");
    CHECK(outside_policy_name("h2o") == "h2o");
    CHECK(find_cache_method(name) == &outside_method());
    for (const CacheMethod& method : cache_methods())
        CHECK_FALSE(is_outside_policy(method.name));
    for (const char* wrong : {"python:", "python", "Python:x"})
        CHECK(find_cache_method(wrong) == nullptr);
    // A run's configuration may name it. What it may be set to is the list's.
    RunConfig run;
    run.prompt = "x";
    run.student_cache = config;
    check_run_config(run, "x");
    CHECK(parameter_value(run, "student_cache.policy") == name);
    CHECK_THROWS_AS(set_parameter(run, "student_cache.policy", name), Error);
    set_parameter(run, "student_cache.policy", "h2o");
    CHECK(run.student_cache.policy == "h2o");
}

TEST_CASE("a file of a policy is a path, and what was read there is its digest", "[policies]") {
    CachePolicyConfig config = cache_policy_defaults("trim_kv", "a test");
    CHECK(config.files.size() == 2);
    CHECK(!to_json(config).contains("gate")); // none is named
    config.files.at("gate") = {"some/gate.safetensors", "0123"};
    const CachePolicyConfig read = cache_policy_from_json(to_json(config), "a test");
    CHECK(read == config);
    CHECK(read.files.at("gate").digest == "0123");
    config.files.at("gate").digest.clear();
    CHECK(read == config); // it is what is asked for that counts
    config.files.at("gate").path = "another";
    CHECK(!(read == config));
    CHECK_THAT(refusal({{"policy", "trim_kv"}, {"gate", 3}}), ContainsSubstring("gate"));
    CHECK_THAT(refusal({{"policy", "h2o"}, {"gate", "x"}}), ContainsSubstring("unknown key"));
    CHECK_THAT(refusal({{"policy", "locret"}, {"step_gate", "x"}}), ContainsSubstring("unknown key"));
    config.files.erase("gate");
    CHECK_THAT(check(config, 4096), ContainsSubstring("files"));
    config.files["gates"] = {};
    CHECK_THAT(check(config, 4096), ContainsSubstring("there is no such file"));
}

TEST_CASE("what a run cannot hold is refused", "[policies]") {
    CachePolicyConfig config = cache_policy_defaults("h2o", "a test");
    CHECK(check(config, 512).empty()); // nobody has chosen the default: the run keeps everything
    config.values["budget"] = 2047;
    CHECK_THAT(check(config, 512), ContainsSubstring("2047 entries are more than the 512"));
    config.values["budget"] = 512;
    CHECK(check(config, 512).empty());
    config.values["budget"] = 0.5;
    CHECK_THAT(check(config, 512), ContainsSubstring("out of range"));
    config.values["budget"] = 8.5;
    CHECK_THAT(check(config, 512), ContainsSubstring("not a whole number"));
    config = cache_policy_defaults("snapkv", "a test");
    config.values["kernel"] = 4;
    CHECK_THAT(check(config, 4096), ContainsSubstring("is even"));
    config.values.erase("kernel");
    CHECK_THAT(check(config, 4096), ContainsSubstring("is missing"));
    config.policy = "h20";
    CHECK_THAT(check(config, 4096), ContainsSubstring("h2o"));
}

} // namespace config_test
