// The table of every cache method: its rows, and its frontier by hand.
#include "engine/policies/cache_method.h"
#include "engine/study/studies/cache_zoo.h"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>

#include <set>

namespace cache_zoo_test {

using namespace refreshlab;
using Catch::Approx;

namespace {

/// A reading of two tokens. \param loss  nats of each
CacheReading reading(double bytes, double kl, double loss, uint8_t right) {
    CacheReading one;
    one.logprob = {-loss, -loss};
    one.first_choice = {right, right};
    one.kl_nats = {kl};
    one.entries_read = bytes / 2;
    one.bytes_held = bytes;
    return one;
}

double number(const StudyTable& table, size_t row, const std::string& column) {
    for (size_t c = 0; c < table.columns.size(); ++c)
        if (table.columns[c].name == column) return std::get<double>(table.rows[row][c]);
    FAIL("no column " << column);
    return 0;
}

std::string text(const StudyTable& table, size_t row, const std::string& column) {
    for (size_t c = 0; c < table.columns.size(); ++c)
        if (table.columns[c].name == column) return std::get<std::string>(table.rows[row][c]);
    FAIL("no column " << column);
    return {};
}

} // namespace

TEST_CASE("every method that can be compared has its budgets, and none keeps more by a constant",
          "[study][cache_policy]") {
    for (const int64_t prompt : {40, 300, 4000}) {
        CAPTURE(prompt);
        const auto rows = zoo_rows(prompt), other = zoo_rows(100);
        REQUIRE(rows.size() == other.size());
        CHECK(rows[0].config.is_full());
        std::set<std::string, std::less<>> methods;
        for (size_t i = 0; i < rows.size(); ++i) {
            const CachePolicyConfig& policy = rows[i].config;
            CAPTURE(policy.policy, rows[i].budget);
            CHECK(policy.policy == other[i].config.policy);
            CHECK(rows[i].budget == other[i].budget);
            methods.insert(policy.policy);
            const auto value = [&](const char* key) {
                const auto found = policy.values.find(key);
                return found == policy.values.end() ? 0 : found->second;
            };
            if (rows[i].budget == "1/4") {
                const double entries = std::max<double>(8, static_cast<double>(prompt / 4));
                if (policy.values.contains("budget"))
                    CHECK(value("budget") + value("last_tokens") + value("episode_window") == entries);
                CHECK(value("window") <= entries / 4);
                CHECK(value("floor") <= entries / 4);
                if (policy.policy == "infinigen") CHECK((value("limit") == 0.25 && value("margin") == 1e6));
            }
            // Checked as the program checks what people set.
            CHECK(cache_policy_from_json(to_json(policy), "a test") == policy);
        }
        CHECK(methods.size() == cache_methods().size() - 2);
        CHECK((!methods.contains("kv_direct") && !methods.contains("kv_routing")));
    }
}

TEST_CASE("the frontier is what no other beats with as few bytes", "[study][cache_policy]") {
    auto rows = zoo_rows(100);
    rows.resize(5);
    // Bytes and KL of the five, on two texts: means are what counts.
    const std::vector<std::vector<CacheReading>> readings{
        {reading(100, 0, 1, 1), reading(50, 0.2, 1.5, 1), reading(50, 0.1, 1.2, 1), reading(20, 0.5, 2, 0),
         reading(30, 0.6, 2, 0)},
        {reading(200, 0, 1, 0), reading(100, 0.4, 1.5, 0), reading(100, 0.1, 1.4, 0), reading(40, 0.5, 2, 0),
         reading(60, 0.6, 3, 0)}};
    const std::vector<std::string> kinds{"tales", "stories"};
    const StudyTable table = zoo_table("zoo", "a test", rows, readings, kinds, 1);
    REQUIRE(table.rows.size() == 5);
    for (const auto& row : table.rows)
        CHECK(row.size() == table.columns.size());
    const std::vector<std::string> wanted{"yes", "", "yes", "yes", ""};
    for (size_t r = 0; r < 5; ++r)
        CHECK(text(table, r, "frontier") == wanted[r]);
    CHECK(number(table, 2, "bytes held") == Approx(0.5)); // shares of each text's full cache
    CHECK(number(table, 3, "bytes held") == Approx(0.2));
    CHECK(number(table, 1, "KL (nats per token)") == Approx(0.3));
    CHECK(number(table, 4, "loss above full") == Approx(1.5));
    CHECK(number(table, 2, "first choices") == Approx(0.5));
    CHECK(number(table, 2, "tales") == Approx(1));
    CHECK(number(table, 2, "stories") == Approx(0));
}

} // namespace cache_zoo_test
