// Scope maps in traces: bit for bit, of every schema that has room, and what is no map is damage.
#include "engine/base/error.h"
#include "engine/record/recording/recording.h"
#include "engine/record/trace/sqlite.h"
#include "engine/record/trace/trace_store.h"
#include "engine/results/scope_map_json.h"
#include "engine/results/scope_map_store.h"
#include "tests/engine/landscape/old_trace.h"
#include "tests/engine/landscape/random_scope_map.h"
#include "tests/support/seed.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <filesystem>
#include <limits>

namespace scope_map_store_test {

using namespace refreshlab;
using namespace refreshlab::test;
using Catch::Matchers::ContainsSubstring;
namespace fs = std::filesystem;

namespace {

/// A map that fits a run of 12 steps.
ScopeMap short_map(uint32_t number) {
    std::mt19937 random(seed(number));
    ScopeMap map = random_scope_map(random);
    map.horizon = 3;
    for (size_t i = 0; i < map.refreshes.size(); ++i)
        map.refreshes[i].boundary = static_cast<int64_t>(i) + 5; // the last has tokens 11 to 13 behind it
    return map;
}

std::string fault_of(const fs::path& file) {
    try {
        static_cast<void>(load_scope_maps(file));
    } catch (const Error& e) {
        return e.what();
    }
    return {};
}

} // namespace

TEST_CASE("a scope map is read back from its JSON bit for bit", "[scope][record]") {
    std::mt19937 random(seed(0x5C01));
    ScopeMap map = random_scope_map(random, 4, 3);
    CHECK(scope_map_from_json(nlohmann::json::parse(measured_json(map).dump()), "a map") == map);
    map.taken.clear(); // no greedy order was asked for
    CHECK(scope_map_from_json(measured_json(map), "a map") == map);
    map.readings[2].alone[1] = std::numeric_limits<double>::quiet_NaN();
    const ScopeMap again = scope_map_from_json(measured_json(map), "a map");
    CHECK(std::isnan(again.readings[2].alone[1]));
    CHECK(again.readings[2].without == map.readings[2].without);
}

TEST_CASE("a scope map stands beside its run in traces of every schema that has room", "[scope][record]") {
    const ScopeMap map = short_map(0x5C02), other = short_map(0x5C03);
    REQUIRE(map != other);
    for (const int schema : {3, 4, 9, 11}) {
        INFO(schema);
        const OldTrace trace("scope-map", schema);
        CHECK(load_scope_maps(trace.file()).empty());
        CHECK(load_scope_map_of(trace.file(), trace.id()) == nullptr);
        store_scope_map(trace.file(), trace.id(), map);
        CHECK(trace.schema() == 12);
        REQUIRE(load_scope_map_of(trace.file(), trace.id()));
        CHECK(*load_scope_map_of(trace.file(), trace.id()) == map);
        CHECK(load_scope_map_of(trace.file(), "another") == nullptr);
        store_scope_map(trace.file(), trace.id(), other); // takes its place
        REQUIRE(load_scope_maps(trace.file()).size() == 1);
        CHECK(*load_scope_maps(trace.file())[0].map == other);
        CHECK(trace.run()->steps() == 12); // the run is what it was
    }
}

TEST_CASE("writing a scope map where none can stand changes nothing", "[scope][record]") {
    const ScopeMap map = short_map(0x5C04);
    const auto refused = [&](const fs::path& file, const std::string& id) -> std::string {
        try {
            store_scope_map(file, id, map);
        } catch (const Error& e) {
            return e.what();
        }
        return "accepted";
    };
    const OldTrace trace("scope-map", 11), oldest("scope-map", 2);
    CHECK_THAT(refused(trace.file(), "0123456789abcdef"),
               ContainsSubstring("it holds no run 0123456789abcdef"));
    CHECK(trace.schema() == 11);
    CHECK_THAT(refused(oldest.file(), oldest.id()),
               ContainsSubstring("schema 2, which has no place for scope maps"));
    CHECK(oldest.schema() == 2);
    CHECK_THAT(refused("no-such-file.rlt", "x"), ContainsSubstring("no such file"));
}

TEST_CASE("a scope map that does not hold together is damage", "[scope][record]") {
    const ScopeMap map = short_map(0x5C05);
    const struct {
        const char* sql;
        const char* says;
    } cases[] = {
        {"UPDATE scope_maps SET map = 'x'", "line 1"},
        {"UPDATE scope_maps SET map = NULL", "damaged"},
        {"UPDATE scope_maps SET map = '[]'", "must be an object"},
        {"UPDATE scope_maps SET run = 7", "a scope map of run 7, which it has not"},
        {"UPDATE scope_maps SET map = json_set(map, '$.more', 1)", "more: unknown key"},
        {"UPDATE scope_maps SET map = json_set(map, '$.layers', 0)", "layers: must be a whole number from 1"},
        {"UPDATE scope_maps SET map = json_remove(map, '$.horizon')", "horizon: is missing"},
        {"UPDATE scope_maps SET map = json_set(map, '$.refreshes', json('[]'))", "refreshes: there are none"},
        {"UPDATE scope_maps SET map = json_remove(map, '$.refreshes[0]')", "alone: must be 5 losses"},
        {"UPDATE scope_maps SET map = json_set(map, '$.refreshes[5].step', 11)",
         "of step 11 and 3 tokens behind it"},
        {"UPDATE scope_maps SET map = json_set(map, '$.parts[3].alone[0]', 'x')", "must be numbers"},
        {"UPDATE scope_maps SET map = json_set(map, '$.parts[3].layer', 3)",
         "layer: must be a whole number from 0 to 2"},
        {"UPDATE scope_maps SET map = json_set(map, '$.parts[0].layer', 1)", "does not name this"},
        {"UPDATE scope_maps SET map = json_set(map, '$.parts[0].kind', 'none')", "must be one of"},
        {"UPDATE scope_maps SET map = json_set(map, '$.taken[0].kv_head', null)", "takes KV heads"},
        {"UPDATE scope_maps SET map = json_set(map, '$.parts', json('[]'))", "parts: there are none"},
        {"DROP TABLE scope_maps", "table scope_maps is missing"},
    };
    for (const auto& [sql, says] : cases) {
        const OldTrace trace("scope-map", 11);
        store_scope_map(trace.file(), trace.id(), map);
        trace.exec(sql);
        INFO(sql);
        CHECK_THAT(fault_of(trace.file()), ContainsSubstring(says));
        CHECK_THAT(fault_of(trace.file()), ContainsSubstring("damaged"));
    }
}

} // namespace scope_map_store_test
