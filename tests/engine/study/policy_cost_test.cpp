// What a step costs under each policy: the bytes, by hand; times are only there.
#include "engine/base/error.h"
#include "engine/policies/cache_method.h"
#include "engine/study/measure/policy_cost.h"
#include "tests/support/seed.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cmath>
#include <map>

namespace policy_cost_test {

using namespace refreshlab;
using namespace refreshlab::test;

namespace {

constexpr int64_t layers = 2, kv_heads = 2, head_dim = 16, steps = 4, fed = 8 + steps;

PolicyCostInputs tiny() {
    PolicyCostInputs inputs;
    inputs.shape = one_billion_shape(layers);
    inputs.shape.vocab_size = 50;
    inputs.shape.hidden_size = 64;
    inputs.shape.intermediate_size = 96;
    inputs.shape.num_heads = 4;
    inputs.shape.num_kv_heads = kv_heads;
    inputs.shape.head_dim = head_dim;
    inputs.shape.max_position = 400;
    inputs.entries = {160, 320};
    inputs.share = 4;
    inputs.steps = steps;
    inputs.seed = seed(0xC057);
    return inputs;
}

/// Bytes of KIVI in one KV head of n entries: 2 bits, a residual of 128, groups of 32.
struct Kivi {
    int64_t bytes = 0, metadata = 0, blocks = 0;
};
Kivi kivi(int64_t prompt, int64_t n) {
    // Keys: whole residuals; values: all but the newest 128. A scale and a minimum, 4 bytes, for each group.
    const int64_t keys = prompt / 128 * 128 + (n % 128 < prompt % 128 ? 128 : 0), values = n - 128;
    Kivi of;
    // Values that were encoded token by token are one block, or join the prompt's where both have 64 rows at most.
    of.blocks = keys / 32 + (values <= 64 ? 1 : 2);
    of.metadata = 4 * (keys / 32 * head_dim + values); // a group of 16 channels at most
    of.bytes = 4 * head_dim * (2 * n - keys - values) + (keys + values) * head_dim * 2 / 8 + of.metadata;
    return of;
}

/// Entries that a KV head holds under ARKV with a window of 32, after a prompt of more than the budget.
int64_t arkv(int64_t prompt, int64_t n, int64_t budget) {
    int64_t held = budget;
    for (int64_t position = prompt; position < n; ++position)
        if (++held > budget) held = 32 + 3 * (held - 32) / 4;
    return held;
}

} // namespace

TEST_CASE("the cost of a step has a row for every policy and length, with the bytes of what is held",
          "[study][cache_policy]") {
    const PolicyCostInputs inputs = tiny();
    const auto rows = policy_cost(inputs);
    REQUIRE(rows.size() == 2 * cache_methods().size());
    constexpr int64_t heads = layers * kv_heads, entry = 2 * head_dim * 4;
    for (size_t i = 0; i < rows.size(); ++i) {
        const PolicyCostRow& row = rows[i];
        CAPTURE(row.policy, row.entries);
        CHECK(row.policy == cache_methods()[i % cache_methods().size()].name);
        CHECK(row.entries == inputs.entries[i / cache_methods().size()]);
        CHECK(row.budget == row.entries / 4);
        CHECK(row.steps == steps);
        CHECK((row.step_low_ms > 0 && row.step_low_ms <= row.step_ms && row.step_ms <= row.step_high_ms));
        CHECK((row.attention_ms > 0 && row.attention_ms <= row.step_ms));
        CHECK((row.full_attention_ms > 0 && row.full_attention_ms <= row.full_step_ms));

        const int64_t n = row.entries + fed, budget = row.budget;
        // Entries of a KV head, on average over all.
        const std::map<std::string, int64_t> held{
            {"full", n},
            {"sliding_window", budget},
            {"streaming_llm", budget},
            {"random", budget},
            {"oracle", budget},
            {"h2o", budget},
            {"tova", budget},
            {"snapkv", budget + fed},
            {"pyramidkv", budget + fed},
            {"adakv", budget + fed},
            {"cake", budget + fed},
            {"defensivekv", budget + fed},
            {"layer_defensivekv", budget + fed},
            {"dapq", budget + fed},
            {"arkv", arkv(row.entries, n, budget)},
            {"trim_kv", budget},
            {"make_each_token_count", budget},
            {"locret", std::min(budget + 100, row.entries) + fed}, // its last 100 tokens are not pruned
            {"attention_gate", budget + fed},
            {"lookahead_kv", budget + fed},
            {"epicache", std::min(budget + 64, row.entries) + fed}, // the question
            {"compress_kv", budget + fed},
            {"quest", n},
            {"lazy_eviction", budget + steps}, // after 8 steps, and then
            {"fasa", n},
            {"infinigen", n},
            {"mpcache", n}, // rows of random weights give everybody a ten thousandth
            {"refreshkv", n},
            {"cam", budget + steps},
            {"d2o", budget},             // two heads: scaled to 0 and 1 in both layers, so these share evenly
            {"kv_merger", budget + fed}, // at the least: one more for each set of its keys
            {"think", n},
            {"kivi", n},
            {"mikv", n},
            {"turbo_quant", n},
            {"kv_direct", budget},
            {"kv_routing", n / 2}}; // one of two layers
        REQUIRE(held.contains(row.policy));
        if (row.policy == "kv_routing") CHECK(row.entries_held == static_cast<double>(n) / 2);
        if (row.policy != "kv_merger" && row.policy != "kv_routing")
            CHECK(row.entries_held == static_cast<double>(held.at(row.policy)));
        CHECK((row.entries_held >= static_cast<double>(held.at(row.policy)) &&
               row.entries_held <= static_cast<double>(n)));
        const auto all_held = std::llround(row.entries_held * static_cast<double>(heads));
        int64_t bytes = all_held * entry, metadata = 0;
        int64_t index = all_held * 16, runs = 0; // at most
        if (row.policy ==
            "think") { // 6 of 16 key channels of the prompt but the newest 32; 16 bits say which
            metadata = heads * 2;
            bytes += metadata - heads * (row.entries - 32) * 6 * 4;
            index = heads * (24 * n + 8); // 24 an entry, 8 for each run of neighbours in a block
        } else if (row.policy == "kivi") {
            const Kivi of = kivi(row.entries, n);
            metadata = heads * of.metadata;
            bytes = heads * of.bytes;
            index = heads * (24 * n + 8 * of.blocks);
        } else if (row.policy == "mikv" || row.policy == "turbo_quant") {
            // Four bits a number. MiKV: four bytes for each row; TurboQuant: two for a value, four for a key.
            const int64_t coded = row.policy == "mikv" ? n - budget : n - 1;
            metadata = heads * coded * (row.policy == "mikv" ? 8 : 6);
            bytes += metadata - heads * coded * (entry - 2 * head_dim / 2);
            // Of TurboQuant: the prompt, and what the steps have joined. Of MiKV at most.
            runs = 2 * heads * (row.policy == "mikv" ? coded : 2);
            index = heads * 24 * n;
        } else if (
            row.policy ==
            "arkv") { // 1 B a number, and 4 for each of an entry's two rows; how many depends on the layers
            metadata = row.metadata_bytes;
            const int64_t coded = metadata / 8;
            CHECK((metadata % 8 == 0 && coded <= all_held - heads * 32));
            bytes += metadata - coded * (entry - 2 * head_dim);
            runs = all_held * 2;
            index = 24 * all_held;
        }
        CHECK(row.cache_bytes == bytes);
        CHECK(row.metadata_bytes == metadata);
        const bool dense = row.policy == "full" || row.policy == "quest" || row.policy == "refreshkv" ||
                           row.policy == "fasa" || row.policy == "infinigen";
        CHECK(row.index_bytes >= (dense ? 0 : index + (row.policy == "turbo_quant" ? 8 * runs : 0)));
        CHECK(row.index_bytes <= (dense ? 0 : index + 8 * runs));
        CHECK((row.scratch_bytes > 0) == (row.policy == "kv_direct"));
        const bool reads_part = row.policy == "quest" || row.policy == "refreshkv" ||
                                row.policy == "mpcache" || row.policy == "fasa" || row.policy == "infinigen";
        CHECK((row.entries_read < static_cast<double>(n)) ==
              (reads_part || row.policy == "arkv" ||
               (bytes < heads * n * entry && metadata == 0 && row.policy != "kv_direct" &&
                row.policy != "kv_routing")));
    }
}

TEST_CASE("the cost of a step is asked of what there is", "[study][cache_policy][bad-input]") {
    using Catch::Matchers::ContainsSubstring;
    const auto problem = [](const auto& change) -> std::string {
        PolicyCostInputs inputs = tiny();
        change(inputs);
        try {
            static_cast<void>(policy_cost(inputs));
        } catch (const Error& e) {
            return e.what();
        }
        return "accepted";
    };
    CHECK_THAT(problem([](auto& in) { in.policies = {"h20"}; }), ContainsSubstring("h2o"));
    CHECK_THAT(problem([](auto& in) { in.entries = {390}; }), ContainsSubstring("from 16 to 388"));
    CHECK_THAT(problem([](auto& in) { in.entries = {8}; }), ContainsSubstring("a length of 8 entries"));
    CHECK_THAT(problem([](auto& in) { in.steps = 0; }), ContainsSubstring("at least 1"));
}

} // namespace policy_cost_test
