#include "engine/policies/cache_scores.h"
#include "tests/engine/policies/fake_cache.h"

#include <catch2/catch_test_macros.hpp>

#include <cmath>
#include <limits>

namespace method_test {

using namespace refreshlab;
using namespace refreshlab::test;
using Positions = std::vector<int64_t>;

namespace {

PolicyContext one_head() {
    PolicyContext context;
    context.layers = context.heads = context.kv_heads = 1;
    context.head_dim = 2;
    context.rope_frequencies = {0.5F};
    return context;
}

/// One step of a policy that reads what the cache holds; `row` of one query head.
void step(CachePolicy& policy, FakeCache& cache, int64_t position, int64_t number, std::vector<float> row) {
    cache.append(position);
    StepView view;
    view.position = position;
    view.step = number;
    REQUIRE(policy.before_attention(view, cache) == nullptr);
    const Rows rows(std::move(row), 1, 1);
    const std::span<const int64_t> read[] = {cache.held(0, 0)};
    view.read = read;
    view.row = rows.cube;
    policy.after_attention(view, cache);
}

} // namespace

TEST_CASE("scores: pooling at the borders, ties, whole shares", "[policies]") {
    using namespace cache_scores;
    const std::vector<float> s{3, 0, 6, 0, 0};
    CHECK(pooled(s, 3, Pooling::max) == std::vector<float>{3, 6, 6, 6, 0});
    CHECK(pooled(s, 3, Pooling::mean) == std::vector<float>{1, 3, 2, 2, 0}); // zeros beyond the border count
    CHECK(pooled(s, 1, Pooling::max) == s);
    CHECK(top(s, 2) == Positions{0, 2});
    CHECK(top(s, 3) == Positions{0, 2, 4}); // a tie goes to the higher position
    CHECK(top(s, 9) == Positions{0, 1, 2, 3, 4});
    CHECK(top(s, -1).empty());
    CHECK(shares(std::vector<double>{1, 1, 1}, 10) == Positions{4, 3, 3});
    CHECK(shares(std::vector<double>{234, 189.6, 145.2, 100.8, 50.4, 0}, 720) ==
          Positions{234, 190, 145, 101, 50, 0});
    const std::vector<float> other{1, 2, 3, 4, 5};
    const std::span<const float> heads[] = {s, other};
    CHECK(reduce_group(heads, Group::max) == std::vector<float>{3, 2, 6, 4, 5});
    CHECK(reduce_group(heads, Group::mean) == std::vector<float>{2, 1, 4.5, 2, 2.5});
    CHECK(reduce_group(heads, Group::first) == s);
}

TEST_CASE("methods of a family follow each other", "[policies]") {
    std::vector<std::string_view> families;
    for (const CacheMethod& method : cache_methods()) {
        CHECK(!method.family.empty());
        if (families.empty() || families.back() != method.family) families.push_back(method.family);
    }
    CHECK(families.front() == "All entries");
    std::ranges::sort(families);
    CHECK(std::ranges::adjacent_find(families) == families.end());
}

TEST_CASE("sliding window: position p reads (p - w, p]", "[policies]") {
    FakeCache cache(1, 1, 6);
    const auto policy = make("sliding_window", {{"budget", 3}}, one_head());
    PromptView prompt;
    prompt.length = 6;
    policy->read_prompt(prompt, cache);
    CHECK(cache.of(0, 0) == Positions{3, 4, 5});
    cache.append(6);
    StepView view;
    view.position = 6;
    (void)policy->before_attention(view, cache);
    CHECK(cache.of(0, 0) == Positions{4, 5, 6});
}

TEST_CASE("StreamingLLM: sinks and the newest; the new token counts; sinks turn with the gap", "[policies]") {
    for (const double keep : {0.0, 1.0}) {
        FakeCache cache(1, 1, 8);
        cache.key(0) = {1, 0};
        cache.key(1) = {0, 2};
        const auto policy =
            make("streaming_llm", {{"budget", 5}, {"sinks", 2}, {"keep_positions", keep}}, one_head());
        PromptView prompt;
        prompt.length = 8;
        policy->read_prompt(prompt, cache);
        CHECK(cache.of(0, 0) == Positions{0, 1, 5, 6, 7});
        for (const int64_t position : {8, 9}) {
            cache.append(position);
            StepView view;
            view.position = position;
            (void)policy->before_attention(view, cache);
        }
        CHECK(cache.of(0, 0) == Positions{0, 1, 7, 8, 9});
        // The query stands at slot 4 and at position 9: sinks turn by 5 positions, from what they were.
        const double angle = keep == 0 ? 5 * 0.5 : 0;
        CHECK(std::abs(static_cast<double>(cache.key(0)[0]) - std::cos(angle)) < 1e-6);
        CHECK(std::abs(static_cast<double>(cache.key(0)[1]) - std::sin(angle)) < 1e-6);
        CHECK(std::abs(static_cast<double>(cache.key(1)[0]) + 2 * std::sin(angle)) < 1e-6);
        CHECK(cache.key(7) == std::vector<float>{0, 0});
    }
}

TEST_CASE("H2O: the sum of attention decides beside the newest half", "[policies]") {
    FakeCache cache(1, 1, 5);
    const auto policy = make("h2o", {{"budget", 4}}, one_head());
    const Rows sums({1.0F, 3.0F, 0.4F, 0.5F, 0.1F}, 1, 1);
    PromptView prompt;
    prompt.length = 5;
    prompt.sums = sums.cube;
    policy->read_prompt(prompt, cache); // newest half: 3, 4; of 0, 1, 2 the two largest
    CHECK(cache.of(0, 0) == Positions{0, 1, 3, 4});
    step(*policy, cache, 5, 1, {0.0F, 0.0F, 0.6F, 0.2F, 0.2F}); // sums 1, 3, 1.1, 0.3, 0.2
    CHECK(cache.of(0, 0) == Positions{1, 3, 4, 5});
    const auto mark = policy->clone();
    step(*policy, cache, 6, 2, {0.0F, 0.0F, 0.9F, 0.0F, 0.1F}); // 3, 1.1, 1.2 | 0.2, 0.1
    CHECK(cache.of(0, 0) == Positions{1, 4, 5, 6});
    // The state of the mark is that of step 1: the same step gives the same set.
    FakeCache again(1, 1, 0);
    for (const int64_t p : {1, 3, 4, 5})
        again.append(p);
    step(*mark, again, 6, 2, {0.0F, 0.0F, 0.9F, 0.0F, 0.1F});
    CHECK(again.of(0, 0) == cache.of(0, 0));
}

TEST_CASE("TOVA: the least attended of all heads' mean leaves, never the newest", "[policies]") {
    PolicyContext context = one_head();
    context.heads = context.kv_heads = 2;
    FakeCache cache(1, 2, 4);
    const auto policy = make("tova", {{"budget", 3}}, context);
    const Rows last({0.7F, 0.1F, 0.2F, 0.0F, 0.1F, 0.4F, 0.2F, 0.3F}, 1, 2); // means 0.4, 0.25, 0.2, 0.15
    PromptView prompt;
    prompt.length = 4;
    prompt.rows = last.cube;
    policy->read_prompt(prompt, cache);
    CHECK(cache.of(0, 0) == Positions{0, 1, 3});
    CHECK(cache.of(0, 1) == Positions{0, 1, 3});
}

TEST_CASE("SnapKV: pooling takes the neighbours along, and the window stays", "[policies]") {
    FakeCache cache(1, 1, 12);
    const auto policy = make("snapkv", {{"budget", 9}, {"window", 2}, {"kernel", 7}}, one_head());
    CHECK(policy->needs().prompt_rows == 2);
    std::vector<float> rows(24, 0.01F);
    rows[4] = rows[12 + 4] = 0.9F; // nearly all on position 4
    const Rows window(rows, 2, 1);
    PromptView prompt;
    prompt.length = 12;
    prompt.rows = window.cube;
    policy->read_prompt(prompt, cache);
    CHECK(cache.of(0, 0) == Positions{1, 2, 3, 4, 5, 6, 7, 10, 11});
    CHECK(make("snapkv", {{"budget", 6}}, one_head())->needs().prompt_rows == 3); // rule 6: half the budget
}

TEST_CASE("PyramidKV: budgets fall, and sum to the total", "[policies]") {
    PolicyContext context = one_head();
    context.layers = 6;
    for (const bool stepped : {false, true}) {
        FakeCache cache(6, 1, 400);
        const auto policy = make(
            "pyramidkv", {{"budget", 128}, {"window", 8}, {"layer_budgets", stepped ? 1.0 : 0.0}}, context);
        const Rows window(std::vector<float>(8 * 400, 0.1F), 8, 1);
        PromptView prompt;
        prompt.length = 400;
        prompt.rows = window.cube;
        Positions kept;
        for (prompt.layer = 0; prompt.layer < 6; ++prompt.layer) {
            policy->read_prompt(prompt, cache);
            kept.push_back(std::ssize(cache.of(prompt.layer, 0)) - 8);
        }
        CHECK(std::ranges::is_sorted(kept, std::greater<>()));
        if (stepped) CHECK(kept == Positions{234, 189, 144, 99, 54, 9}); // the released code's, 729 in all
        CHECK(std::accumulate(kept.begin(), kept.end(), int64_t{0}) == (stepped ? 729 : 720));
    }
}

TEST_CASE("Ada-KV: equal heads have equal budgets; sums are exact, with a floor for each head",
          "[policies]") {
    PolicyContext context = one_head();
    context.heads = context.kv_heads = 2;
    const auto counts = [&](const std::vector<float>& a, const std::vector<float>& b) {
        FakeCache cache(1, 2, 12);
        const auto policy = make("adakv", {{"budget", 5}, {"window", 1}, {"kernel", 1}}, context);
        std::vector<float> rows(a);
        rows.insert(rows.end(), b.begin(), b.end());
        const Rows window(rows, 1, 2);
        PromptView prompt;
        prompt.length = 12;
        prompt.rows = window.cube;
        policy->read_prompt(prompt, cache);
        return std::pair(std::ssize(cache.of(0, 0)) - 1, std::ssize(cache.of(0, 1)) - 1);
    };
    std::vector<float> high, low;
    for (int i = 0; i < 12; ++i) {
        high.push_back(1.0F + 0.01F * static_cast<float>(i));
        low.push_back(0.01F * static_cast<float>(i));
    }
    CHECK(counts(high, low) == std::pair<int64_t, int64_t>(6, 2)); // won 8 and 0: half of that and half of 4
    std::vector<float> even(high), odd(high);
    for (size_t i = 0; i < 12; ++i)
        odd[i] += 0.005F;
    CHECK(counts(even, odd) == std::pair<int64_t, int64_t>(4, 4));
}

TEST_CASE("Quest: a page's score bounds every product in it; the newest page is read", "[policies]") {
    PolicyContext context = one_head();
    FakeCache cache(1, 1, 20);
    for (int64_t p = 0; p < 20; ++p)
        cache.key(p) = {p == 9 ? 5.0F : -1.0F, 0.5F};
    const auto policy = make("quest", {{"budget", 6}, {"page", 2}, {"dense_layers", 0}}, context);
    cache.append(20);
    const Rows query({1.0F, 0.0F}, 1, 1);
    StepView view;
    view.position = 20;
    view.query = query.cube;
    const HeadPositions* read = policy->before_attention(view, cache);
    REQUIRE(read != nullptr);
    // Three pages: that of position 9, the newest (20 alone), and of the others, all alike, the last.
    CHECK((*read)[0] == Positions{8, 9, 18, 19, 20});
    cache.key(9) = {-1.0F, 0.5F};
    cache.key(3) = {4.0F, 0.5F};
    policy->refreshed({.positions = {3, 9}, .heads = {1}, .halves = {}},
                      cache); // pages 1 to 4 are measured again
    CHECK((*policy->before_attention(view, cache))[0] == Positions{2, 3, 18, 19, 20});
}

TEST_CASE("LazyEviction fires every interval, and leaves the budget", "[policies]") {
    FakeCache cache(1, 1, 4);
    const auto policy =
        make("lazy_eviction", {{"budget", 6}, {"interval", 14}, {"attended_from", 0.5}}, one_head());
    // The interval is cut to the budget: it fires at steps 6 and 12.
    for (int64_t number = 1; number <= 12; ++number) {
        const int64_t position = 3 + number;
        std::vector<float> row(cache.of(0, 0).size() + 1, 0.0F);
        const auto at = std::ranges::find(cache.of(0, 0), 1);
        if (at != cache.of(0, 0).end() && (position == 4 || position == 11 || position == 13))
            row[static_cast<size_t>(at - cache.of(0, 0).begin())] = 0.9F;
        step(*policy, cache, position, number, row);
        CHECK(std::ssize(cache.of(0, 0)) <= 12);
        if (number % 6 == 0) CHECK(cache.of(0, 0).size() == 6);
    }
    CHECK(cache.of(0, 0) == Positions{10, 11, 12, 13, 14, 15}); // interval = budget: the newest alone
}

TEST_CASE("LazyEviction keeps what comes back", "[policies]") {
    FakeCache cache(1, 1, 4);
    const auto policy =
        make("lazy_eviction", {{"budget", 3}, {"interval", 2}, {"attended_from", 0.5}}, one_head());
    step(*policy, cache, 4, 1, {0.0F, 0.9F, 0.0F, 0.0F, 0.0F}); // position 1: gap 3
    step(*policy, cache, 5, 2, {0.0F, 0.0F, 0.0F, 0.0F, 0.0F, 0.0F});
    CHECK(cache.of(0, 0) == Positions{1, 4, 5});
}

TEST_CASE("RefreshKV: parts, ordered eviction, full steps by similarity", "[policies]") {
    PolicyContext context = one_head();
    context.prompt_length = 6;
    FakeCache cache(1, 1, 6);
    const auto policy =
        make("refreshkv", {{"partial", 3}, {"check_every", 2}, {"similarity", 0.5}, {"kernel", 1}}, context);
    const Rows last({0.3F, 0.05F, 0.2F, 0.1F, 0.05F, 0.3F}, 1, 1);
    const Rows first_query({1.0F, 0.0F}, 1, 1);
    PromptView prompt;
    prompt.length = 6;
    prompt.rows = last.cube;
    prompt.queries = first_query.cube;
    policy->read_prompt(prompt, cache); // ascending by score: 2, then 0 and 5 by position
    const auto run = [&](int64_t number, const Rows& query, std::vector<float> row, bool full) {
        const int64_t position = 5 + number;
        cache.append(position);
        StepView view;
        view.position = position;
        view.step = number;
        view.query = query.cube;
        const HeadPositions* read = policy->before_attention(view, cache);
        CHECK((read == nullptr) == full);
        const Positions positions = read != nullptr ? (*read)[0] : cache.of(0, 0);
        row.resize(positions.size());
        const Rows attention(std::move(row), 1, 1);
        const std::span<const int64_t> all[] = {positions};
        view.read = all;
        view.row = attention.cube;
        policy->after_attention(view, cache);
        return positions;
    };
    CHECK(run(1, first_query, {}, false) == Positions{0, 2, 5, 6});
    CHECK(run(2, first_query, {}, false) == Positions{0, 5, 6, 7}); // 2, the least, has left; checked: cos 1
    const Rows turned({0.0F, 1.0F}, 1, 1);
    CHECK(run(3, turned, {}, false) == Positions{5, 6, 7, 8}); // then 0; no check at an odd step
    CHECK(run(4, turned, {0.0F, 0.3F, 0.0F, 0.0F, 0.2F, 0.0F, 0.0F, 0.4F, 0.0F, 0.1F}, true).size() == 10);
    CHECK(policy->signals()[0].values[0] == 0.0F);
    CHECK(policy->signals()[1].values[0] == 1.0F);
    CHECK(run(5, turned, {}, false) == Positions{1, 4, 7, 10});
    CHECK(run(6, turned, {}, false) == Positions{1, 7, 10, 11}); // the reference is that of the full step
}

} // namespace method_test
