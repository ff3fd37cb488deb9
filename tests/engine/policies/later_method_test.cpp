// Hand-worked cases of the methods that merge, know the future, or read what is not held.
#include "engine/policies/principal_axes.h"
#include "tests/engine/policies/fake_cache.h"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>

#include <cmath>
#include <numeric>
#include <random>

namespace later_method_test {

using namespace refreshlab;
using namespace refreshlab::test;
using Catch::Approx;
using Positions = std::vector<int64_t>;

namespace {

PolicyContext one_head() {
    PolicyContext context;
    context.layers = context.heads = context.kv_heads = 1;
    context.head_dim = 2;
    context.rope_frequencies = {0.5F};
    return context;
}

void after(CachePolicy& policy, FakeCache& cache, int64_t position, int64_t number, std::vector<float> row) {
    cache.append(position);
    StepView view;
    view.position = position;
    view.step = number;
    (void)policy.before_attention(view, cache);
    const Rows rows(std::move(row), 1, 1);
    const std::span<const int64_t> read[] = {cache.held(0, 0)};
    view.read = read;
    view.row = rows.cube;
    policy.after_attention(view, cache);
}

} // namespace

TEST_CASE("CaM: what leaves is divided among those behind it, by its share of their attention",
          "[policies]") {
    FakeCache cache(1, 1, 4);
    for (int64_t p = 0; p < 6; ++p)
        cache.value(p) = {1, 1};
    cache.value(0) = {8, 0};
    cache.value(2) = {0, 16};
    const auto policy =
        make("cam", {{"budget", 4}, {"interval", 2}, {"spread", 2}, {"expected", 1}}, one_head());
    after(*policy, cache, 4, 1, {0.1F, 0.2F, 0.1F, 0.1F, 0.5F});
    CHECK(cache.of(0, 0).size() == 5);                                 // not yet
    after(*policy, cache, 5, 2, {0.1F, 0.4F, 0.0F, 0.1F, 0.1F, 0.3F}); // sums 0.2 0.6 0.1 0.2 | 0.6 0.3
    CHECK(cache.of(0, 0) == Positions{1, 3, 4, 5});
    CHECK(cache.merged == Positions{0, 2});
    CHECK(cache.spoilt == Positions{1, 3, 4});
    // Entry 0: 0.2 of a mean of 0.4, half of it, in two parts; entry 2: 0.1 of 0.4, a quarter.
    const auto is = [&](int64_t p, double x, double y) {
        CHECK(cache.value(p)[0] == Approx(x));
        CHECK(cache.value(p)[1] == Approx(y));
    };
    is(1, 3, 1);
    is(3, 3, 3);
    is(4, 1, 3);
    is(5, 1, 1);
    CHECK(cache.key(1) == std::vector<float>{0, 0});
}

TEST_CASE("CaM: with equal attention every draw merges, and the sum of values stays", "[policies]") {
    FakeCache cache(1, 1, 6);
    for (int64_t p = 0; p < 8; ++p)
        cache.value(p) = {static_cast<float>(1 << p), 1};
    const auto policy = make("cam", {{"budget", 4}, {"interval", 2}, {"spread", 32}}, one_head());
    after(*policy, cache, 6, 1, std::vector<float>(7, 0.125F));
    std::vector<float> row(8, 0.125F);
    row[7] = 0.25F; // the newest has seen one row only: now as much as the others
    after(*policy, cache, 7, 2, row);
    // Two steps, so of the four that leave two are merged; the others are dropped. Ties: the newer ones stay, and merge.
    CHECK(cache.of(0, 0) == Positions{4, 5, 6, 7});
    CHECK(cache.merged == Positions{2, 3});
    float sum = 0;
    for (const int64_t p : cache.of(0, 0))
        sum += cache.value(p)[0];
    CHECK(sum == 4 + 8 + 16 + 32 + 64 + 128);
}

TEST_CASE("Oracle: what the rest of the text attends to stays", "[policies]") {
    FakeCache cache(1, 1, 3);
    PolicyContext context = one_head();
    context.prompt_length = 3;
    const auto policy = make("oracle", {{"budget", 2}}, context);
    CHECK(policy->needs().future);
    CHECK(find_cache_method("oracle")->given_text);
    PromptView prompt;
    prompt.length = 3;
    policy->read_prompt(prompt, cache);
    const Rows first({0.1F, 0.2F, 0.3F, 0.4F, 0.0F, 0.5F, 0.1F, 0.1F, 0.1F, 0.2F}, 2, 1); // tokens 3 and 4
    const Rows last({0.1F, 0.1F, 0.5F, 0.1F, 0.1F, 0.1F}, 1, 1);                          // token 5
    FutureView future;
    future.first_pos = 3;
    future.rows = first.cube;
    policy->read_future(future);
    future.first_pos = 5;
    future.rows = last.cube;
    policy->read_future(future);
    policy->finish_prompt(cache); // 0.7, 0.4, 0.9
    CHECK(cache.of(0, 0) == Positions{0, 2});
    after(*policy, cache, 3, 1, {0, 0, 0}); // behind it 0.6, 0.6 and 0.2
    CHECK(cache.of(0, 0) == Positions{0, 2});
    after(*policy, cache, 4, 2, {0, 0, 0}); // behind it 0.1, 0.5 and 0.1
    CHECK(cache.of(0, 0) == Positions{2, 4});
    after(*policy, cache, 5, 3, {0, 0, 0}); // nothing comes: the newer ones
    CHECK(cache.of(0, 0) == Positions{4, 5});
}

TEST_CASE("KV-Direct holds the newest and reads everything", "[policies]") {
    FakeCache cache(1, 1, 6);
    const auto policy = make("kv_direct", {{"budget", 3}}, one_head());
    CHECK(policy->needs().recomputes);
    PromptView prompt;
    prompt.length = 6;
    policy->read_prompt(prompt, cache);
    CHECK(cache.of(0, 0) == Positions{3, 4, 5});
    cache.append(6);
    StepView view;
    view.position = 6;
    view.step = 1;
    const HeadPositions* read = policy->before_attention(view, cache);
    REQUIRE(read != nullptr);
    CHECK((*read)[0] == Positions{0, 1, 2, 3, 4, 5, 6});
    policy->after_attention(view, cache);
    CHECK(cache.of(0, 0) == Positions{4, 5, 6});
}

TEST_CASE("KV routing: one layer of each group holds everything, the others read it", "[policies]") {
    PolicyContext context = one_head();
    context.layers = 5;
    FakeCache cache(5, 1, 3);
    const auto policy = make("kv_routing", {{"layers_per_cache", 2}}, context);
    CHECK(policy->needs().reads_layer == Positions{0, 0, 2, 2, 4});
    for (int64_t layer = 0; layer < 5; ++layer) {
        PromptView prompt;
        prompt.layer = layer;
        prompt.length = 3;
        policy->read_prompt(prompt, cache);
        CHECK(cache.of(layer, 0) == (layer % 2 == 0 ? Positions{0, 1, 2} : Positions{}));
    }
    cache.append(3);
    for (int64_t layer = 0; layer < 5; ++layer) {
        StepView view;
        view.layer = layer;
        view.position = 3;
        view.step = 1;
        const HeadPositions* read = policy->before_attention(view, cache);
        CHECK((read == nullptr) == (layer % 2 == 0));
        if (read != nullptr) CHECK((*read)[0] == Positions{0, 1, 2, 3});
        CHECK(cache.of(layer, 0) == (layer % 2 == 0 ? Positions{0, 1, 2, 3} : Positions{}));
    }
    const auto own = make("kv_routing", {{"layers_per_cache", 1}}, context); // every layer its own: as full
    CHECK(own->needs().reads_layer.empty());
    CHECK(!own->needs().edits);
}

TEST_CASE("RefreshKV without full attention: the query chooses before anything is read", "[policies]") {
    PolicyContext context = one_head();
    context.prompt_length = 3;
    FakeCache cache(1, 1, 3);
    const auto policy = make(
        "refreshkv",
        {{"partial", 2}, {"check_every", 2}, {"similarity", 2}, {"kernel", 1}, {"attend_full", 0}}, context);
    CHECK(policy->needs().rotated_query);
    cache.key(0) = {3, 0};
    cache.key(2) = {5, 0};
    cache.key(4) = {1, 0};
    const Rows last({0.1F, 0.6F, 0.3F}, 1, 1), query({0.0F, 1.0F}, 1, 1), rotated({1.0F, 0.0F}, 1, 1);
    PromptView prompt;
    prompt.length = 3;
    prompt.rows = last.cube;
    prompt.queries = query.cube;
    policy->read_prompt(prompt, cache);
    const auto run = [&](int64_t number) {
        const int64_t position = 2 + number;
        cache.append(position);
        StepView view;
        view.position = position;
        view.step = number;
        view.query = query.cube;
        view.rotated_query = rotated.cube;
        const HeadPositions* read = policy->before_attention(view, cache);
        REQUIRE(read != nullptr);
        const Positions positions = (*read)[0];
        const std::span<const int64_t> all[] = {positions};
        view.read = all;
        policy->after_attention(view, cache);
        return positions;
    };
    CHECK(run(1) == Positions{1, 2, 3}); // a partial step: 2, the least, leaves
    CHECK(run(2) == Positions{0, 2, 4}); // chosen by the keys: 5 and 3, then 1; self is read in any case
    CHECK(policy->signals()[1].values[0] == 1.0F);
    CHECK(run(3) == Positions{0, 2, 5});
    // By hand, at a step that is no check; of one step.
    CHECK(policy->full_step_now());
    cache.key(5) = {9, 0};
    CHECK(run(3 + 2) == Positions{2, 5, 7});
    CHECK(policy->signals()[1].values[0] == 1.0F);
    CHECK(run(3 + 4) == Positions{2, 5, 9});
    CHECK(policy->signals()[1].values[0] == 0.0F);
    CHECK_FALSE(make("h2o", {}, context)->full_step_now());
}

TEST_CASE("MPCache: what no late row looks at leaves; a step reads the best clusters within the best",
          "[policies]") {
    PolicyContext context = one_head();
    context.prompt_length = 10;
    const auto policy = make(
        "mpcache", {{"theta", 0.1}, {"cluster", 1}, {"coarse_share", 0.5}, {"fine_share", 0.25}}, context);
    CHECK(policy->needs().prompt_rows == 2); // a fifth
    FakeCache cache(1, 1, 10);
    const Rows rows({0.0F, 0.5F, 0.0F, 0.1F, 0.0F, 0.2F, 0.05F, 0.0F, 0.15F, 0.0F,
                     0.0F, 0.0F, 0.3F, 0.0F, 0.0F, 0.2F, 0.05F, 0.4F, 0.0F,  0.05F},
                    2, 1);
    PromptView prompt;
    prompt.length = 10;
    prompt.rows = rows.cube;
    policy->read_prompt(prompt, cache);
    const std::vector<int64_t> kept{1, 2, 3, 5, 7, 8, 9}; // 0.1 is enough, 9 is the newest
    CHECK(cache.of(0, 0) == kept);
    // Eight entries with 10: large clusters (1 2) (3 5) (7 8) (9 10). The query is (1, 0).
    cache.append(10);
    const std::map<int64_t, float> keys{{1, 0.0F}, {2, 0.0F}, {3, 9.0F}, {5, -9.0F},
                                        {7, 3.0F}, {8, 2.0F}, {9, 1.0F}, {10, -1.0F}};
    for (const auto& [position, channel] : keys)
        cache.key(position) = {channel, 5};
    // sim: 0; 0.6 * 9 - 0.4 * 9 = 1.8; 2.6; 0.2. Best two of four: (3 5) and (7 8), with the ends all four. Small ones: best two of
    // eight are 3 (9) and 7 (3), and the ends 1 and 10.
    const Rows query({1.0F, 0.0F}, 1, 1);
    StepView step;
    step.position = 10;
    step.query = query.cube;
    const HeadPositions* read = policy->before_attention(step, cache);
    REQUIRE(read != nullptr);
    CHECK((*read)[0] == std::vector<int64_t>{1, 3, 7, 10});
    // A refresh turns 8 into the best.
    cache.key(8) = {20, 5};
    policy->refreshed({.positions = {8}, .heads = {1}, .halves = {}}, cache);
    read = policy->before_attention(step, cache);
    CHECK((*read)[0] == std::vector<int64_t>{1, 3, 8, 10});

    // As released: the last large cluster is whole and has no right of its own; the newest entry is read alone.
    const auto released = make("mpcache",
                               {{"theta", 0.1},
                                {"cluster", 1},
                                {"coarse_share", 0.5},
                                {"fine_share", 0.25},
                                {"compat_last_cluster", 1}},
                               context);
    FakeCache again(1, 1, 10);
    for (const auto& [position, channel] : keys)
        again.key(position) = {channel, 5};
    released->read_prompt(prompt, again);
    again.append(10);
    read = released->before_attention(step, again);
    CHECK((*read)[0] == std::vector<int64_t>{1, 3, 7, 10}); // 9 and 10 were no candidates
    again.append(11);                                       // the last cluster is partial
    step.position = 11;
    read = released->before_attention(step, again);
    CHECK((*read)[0] == std::vector<int64_t>{1, 3, 7, 11});
    step.position = 10;

    const auto everything = make("mpcache", {{"theta", 0}, {"coarse_share", 1}, {"fine_share", 1}}, context);
    FakeCache all(1, 1, 10);
    everything->read_prompt(prompt, all);
    all.append(10);
    read = everything->before_attention(step, all);
    CHECK((*read)[0] == all.of(0, 0));
    CHECK(all.of(0, 0).size() == 11);
}

TEST_CASE("MPCache scores a prompt as its released code does, where it is asked to", "[policies]") {
    PolicyContext context = one_head();
    context.prompt_length = 4;
    const auto policy = make("mpcache", {{"theta", 0.2}, {"compat_scores", 1}}, context);
    CHECK(policy->needs().prompt_rows == 0);
    CHECK(policy->needs().prompt_queries == 1);
    FakeCache cache(1, 1, 4);
    // Products with (1, 0): ln 1, ln 2, ln 4, ln 1; their softmax: 1/8, 1/4, 1/2, 1/8.
    for (const int64_t p : {0, 1, 2, 3})
        cache.key(p) = {std::log(p == 1 ? 2.0F : p == 2 ? 4.0F : 1.0F), 7};
    const Rows queries({1.0F, 0.0F}, 1, 1);
    PromptView prompt;
    prompt.length = 4;
    prompt.queries = queries.cube;
    policy->read_prompt(prompt, cache);
    CHECK(cache.of(0, 0) == std::vector<int64_t>{1, 2, 3});
    CHECK(std::abs(cache.scores[0][2] - 0.5F) < 1e-6F);
}

TEST_CASE("FASA reads by the pair of channels that says what the whole product says", "[policies]") {
    PolicyContext context = one_head();
    context.head_dim = 4;
    context.rope_frequencies = {1.0F, 0.1F};
    context.prompt_length = 6;
    // Channels 0 and 2 are a pair, and 1 and 3. The queries see large differences in the second pair alone.
    const std::vector<std::vector<float>> keys{{1, 0, 0, 5},     {0, 0, 0, 40},   {0.5F, 1, 0, 0},
                                               {0, 2, 0.5F, 30}, {0.9F, 0, 1, 1}, {0, 0, 0, -9},
                                               {0, 0, 0, 0}};
    const auto read = [&](std::vector<std::pair<const char*, double>> more) {
        CachePolicyConfig config = cache_policy_defaults("fasa", "a test");
        more.insert(more.begin(), {{"budget", 3.0}, {"dense_layers", 0.0}, {"profile_queries", 2.0}});
        for (const auto& [key, value] : more)
            config.values.find(key)->second = value;
        const auto policy = make_cache_policy(config, context);
        FakeCache cache(1, 1, 6, 4);
        for (int64_t p = 0; p < 7; ++p)
            cache.key(p) = keys[static_cast<size_t>(p)];
        const Rows queries({1, 0, 1, 1, 1, 0, 1, 1}, 2, 1);
        PromptView prompt;
        prompt.length = 6;
        prompt.queries = queries.cube;
        policy->read_prompt(prompt, cache);
        CHECK(cache.of(0, 0).size() == 6);
        cache.append(6);
        const Rows query({30, 0, 40, 1}, 1, 1); // by the first pair 4 and 0 would be the best
        StepView step;
        step.position = 6;
        step.query = query.cube;
        const HeadPositions* chosen = policy->before_attention(step, cache);
        return chosen == nullptr ? Positions{} : (*chosen)[0];
    };
    CHECK(read({{"pairs", 1}}) == Positions{1, 3, 6}); // by the second pair 40 and 30, and the newest
    CHECK(read({{"pairs", 2}}) == Positions{3, 4, 6}); // all pairs are the product: 50 and 68
    // As neighbours channels 2 and 3 go together: 40 for 1, 50 for 3, 41 for 4.
    CHECK(read({{"pairs", 1}, {"channel_pairs", 1}}) == Positions{3, 4, 6});
    CHECK(read({{"pairs", 1}, {"budget", 7}}).empty()); // all fit
    CHECK(read({{"pairs", 1}, {"dense_layers", 1}}).empty());
}

TEST_CASE("InfiniGen reads what a guessed query matches on the directions that its head uses", "[policies]") {
    PolicyContext context = one_head();
    context.layers = 2;
    context.prompt_length = 4;
    const auto read = [&](std::vector<std::pair<const char*, double>> more, bool guessed = true) {
        CachePolicyConfig config = cache_policy_defaults("infinigen", "a test");
        more.insert(more.begin(), {{"margin", 1.0}, {"limit", 0.5}, {"channels", 0.5}});
        for (const auto& [key, value] : more)
            config.values.find(key)->second = value;
        const auto policy = make_cache_policy(config, context);
        CHECK(policy->needs().guessed_query);
        FakeCache cache(2, 1, 4);
        const std::vector<std::vector<float>> keys{{3, 0}, {0, 4}, {-1, 1}, {1, 1}, {9, 9}};
        for (int64_t p = 0; p < 5; ++p)
            cache.key(p) = keys[static_cast<size_t>(p)];
        const Rows queries({1, 1, -2, -2, 5, 5}, 3, 1); // on the diagonal
        PromptView prompt;
        prompt.length = 4;
        prompt.queries = queries.cube;
        for (prompt.layer = 0; prompt.layer < 2; ++prompt.layer)
            policy->read_prompt(prompt, cache);
        cache.append(4);
        const Rows query({2, 0}, 1, 1);
        StepView step;
        step.layer = 1;
        step.position = 4;
        if (guessed) step.guessed_query = query.cube;
        const HeadPositions* chosen = policy->before_attention(step, cache);
        return chosen == nullptr ? Positions{} : (*chosen)[0];
    };
    // On the diagonal the query is (1, 1): 2.1, 2.8, 0 and 1.4; the newest is read in any case.
    CHECK(read({}) == Positions{0, 1, 4});
    CHECK(read({{"margin", 0.5}}) == Positions{1, 4});
    CHECK(read({{"margin", 1e6}}) == Positions{0, 1, 4}); // half of four at most
    CHECK(read({{"margin", 1e6}, {"limit", 1}}) == Positions{0, 1, 2, 3, 4});
    CHECK(read({{"limit", 0}}) == Positions{1, 4});
    // All channels are the whole product: 4.2, 0, -1.4 and 1.4.
    CHECK(read({{"channels", 1}}) == Positions{0, 4});
    CHECK(read({{"channels", 1}, {"margin", 3}}) == Positions{0, 3, 4});
    // Channels as they are: the second, of equal ones the later; the query has nothing there, and all keys are alike.
    CHECK(read({{"turned", 0}}) == Positions{2, 3, 4});
    CHECK(read({{"dense_layers", 2}}).empty());
    CHECK(read({}, false).empty()); // nothing is below this layer
}

TEST_CASE("principal axes are orthonormal, and rows are not correlated on them", "[policies]") {
    constexpr int64_t d = 7;
    std::mt19937 random(5);
    for (const int64_t n : {0, 3, 40}) {
        std::vector<float> rows;
        for (int64_t i = 0; i < n * d; ++i)
            rows.push_back(static_cast<float>(random() % 2001) / 1000 - 1);
        for (int64_t i = 0; i + 1 < n; i += 2) // a direction that hides another
            for (int64_t c = 0; c < d; ++c)
                rows[static_cast<size_t>(i * d + c)] += 20 * static_cast<float>(c % 3);
        const std::vector<float> axes = principal_axes(rows, d);
        REQUIRE(axes.size() == d * d);
        const auto product = [](const float* a, const float* b) {
            return std::inner_product(a, a + d, b, 0.0);
        };
        for (int64_t i = 0; i < d; ++i) {
            for (int64_t j = 0; j < d; ++j) {
                const float *a = axes.data() + i * d, *b = axes.data() + j * d;
                CHECK(std::abs(product(a, b) - (i == j ? 1 : 0)) < 1e-6);
                double together = 0, size = 0;
                for (int64_t r = 0; r < n; ++r) {
                    const float* row = rows.data() + r * d;
                    together += product(row, a) * product(row, b);
                    size += product(row, row);
                }
                if (i != j) CHECK(std::abs(together) <= 1e-5 * size);
            }
        }
    }
}

} // namespace later_method_test
