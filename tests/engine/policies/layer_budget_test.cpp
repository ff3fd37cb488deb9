// Methods whose layers share one budget, and methods that merge: CAKE, D2O, KVMerger.
#include "engine/policies/cache_profile.h"
#include "tests/engine/policies/fake_cache.h"
#include "tests/support/refused.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <nlohmann/json.hpp>

#include <cmath>
#include <random>

namespace layer_budget_test {

using namespace refreshlab;
using namespace refreshlab::test;
using Positions = std::vector<int64_t>;

namespace {

PolicyContext context_of(int64_t layers, int64_t kv_heads, int64_t prompt) {
    PolicyContext context;
    context.layers = layers;
    context.heads = context.kv_heads = kv_heads;
    context.head_dim = 2;
    context.prompt_length = prompt;
    context.rope_frequencies = {0.5F};
    return context;
}

void read_window(CachePolicy& policy, FakeCache& cache, int64_t layer, int64_t length,
                 std::vector<float> numbers) {
    const Rows rows(std::move(numbers), 2, 1);
    PromptView view;
    view.layer = layer;
    view.length = length;
    view.rows = rows.cube;
    policy.read_prompt(view, cache);
}

void read_sums(CachePolicy& policy, FakeCache& cache, int64_t heads, std::vector<float> numbers) {
    const Rows sums(std::move(numbers), 1, heads);
    PromptView view;
    view.length = sums.cube.n2;
    view.sums = sums.cube;
    policy.read_prompt(view, cache);
    policy.finish_prompt(cache);
}

void step(CachePolicy& policy, FakeCache& cache, int64_t position, std::vector<float> row,
          int64_t heads = 1) {
    cache.append(position);
    StepView view;
    view.position = position;
    view.step = 1;
    const Rows rows(std::move(row), 1, heads);
    view.row = rows.cube;
    policy.after_attention(view, cache);
}

bool near(const std::vector<float>& a, const std::vector<double>& b) {
    if (a.size() != b.size()) return false;
    for (size_t i = 0; i < a.size(); ++i)
        if (std::abs(static_cast<double>(a[i]) - b[i]) > 1e-6) return false;
    return true;
}

} // namespace

TEST_CASE("CAKE: layers that look widely and changeably hold more, and the sum is exact", "[policies]") {
    const auto policy = make("cake", {{"budget", 4}, {"window", 2}, {"kernel", 1}, {"tau1", 1}, {"tau2", 1}},
                             context_of(2, 1, 8));
    FakeCache cache(2, 1, 8);
    // Two rows on columns 0 .. 5, then the window's own. Layer 0 moves between columns; layer 1 looks at one alone.
    read_window(
        *policy, cache, 0, 8,
        {0.4F, 0.0F, 0.3F, 0.0F, 0.1F, 0.0F, 0.2F, 0.0F, 0.0F, 0.4F, 0.0F, 0.3F, 0.1F, 0.0F, 0.1F, 0.1F});
    read_window(
        *policy, cache, 1, 8,
        {0.0F, 0.9F, 0.0F, 0.0F, 0.0F, 0.0F, 0.1F, 0.0F, 0.0F, 0.8F, 0.0F, 0.0F, 0.0F, 0.0F, 0.1F, 0.1F});
    CHECK(cache.of(0, 0).size() == 8); // the budgets need both
    policy->finish_prompt(cache);
    // disp_0 = 2 * (0.36652 + 0.36119 + 0.23026), var_0 = 2 * (0.08 + 0.045); disp_1 = 0.27334, var_1 = 0.005: nearly all is layer 0's.
    // Of its columns the variance decides: 0 and 1 (0.08), 2 and 3 (0.045) before 4, which never changes.
    CHECK(cache.of(0, 0) == Positions{0, 1, 2, 3, 6, 7});
    CHECK(cache.of(1, 0) == Positions{6, 7});
}

TEST_CASE("CAKE: what a layer has no room for goes to the others; few tokens stay", "[policies]") {
    const std::vector<float> changing{0.5F, 0.0F, 0.1F, 0.0F, 0.1F, 0.1F, 0.0F, 0.2F,
                                      0.0F, 0.5F, 0.0F, 0.1F, 0.1F, 0.1F, 0.1F, 0.1F};
    const auto policy = make("cake", {{"budget", 5}, {"window", 2}, {"kernel", 1}}, context_of(3, 1, 8));
    FakeCache cache(3, 1, 8);
    std::vector<float> still(16, 0.0F);
    still[0] = still[8] = 1;
    read_window(*policy, cache, 0, 8, still);
    read_window(*policy, cache, 1, 8, changing);
    read_window(*policy, cache, 2, 8, still);
    policy->finish_prompt(cache);
    CHECK(cache.of(1, 0).size() == 8); // (5 - 2) * 3 = 9 would be more than its six columns
    CHECK(cache.of(0, 0) == Positions{0, 5, 6, 7});
    CHECK(cache.of(2, 0).size() == 3);
    CHECK(cache.of(2, 0).back() == 7);

    FakeCache few(1, 1, 7);
    const auto none = make("cake", {{"budget", 5}, {"window", 2}}, context_of(1, 1, 7));
    read_window(*none, few, 0, 7, std::vector<float>(14, 0.1F));
    none->finish_prompt(few);
    CHECK(few.of(0, 0).size() == 7);
}

TEST_CASE("KVMerger: neighbours with like keys become one at the most attended", "[policies]") {
    const auto policy = make("kv_merger", {{"budget", 2}, {"key_similarity", 0.75}, {"dense_layers", 0}},
                             context_of(1, 1, 8));
    FakeCache cache(1, 1, 8);
    // 0, 1: equal keys. 2, 3, 4: alike, one after the other. 5: the heavy hitter. 6: as 5, but 5 is exempt. 7: the newest.
    const std::vector<std::vector<float>> keys{{1, 0}, {1, 0}, {0, 1}, {0, 2},
                                               {0, 4}, {1, 1}, {1, 1}, {1, 1}};
    for (int64_t p = 0; p < 8; ++p) {
        cache.key(p) = keys[static_cast<size_t>(p)];
        cache.value(p) = {static_cast<float>(p), 1};
    }
    read_sums(*policy, cache, 1, {0.1F, 0.3F, 0.2F, 0.6F, 0.4F, 3.0F, 0.5F, 0.1F});
    CHECK(cache.of(0, 0) == Positions{1, 3, 5, 6, 7});
    CHECK(cache.merged == Positions{0, 2, 4});
    CHECK(cache.spoilt == Positions{1, 3});
    CHECK(near(cache.key(1), {1, 0}));
    CHECK(near(cache.value(1), {0.5, 1})); // no distance: equal weights
    // Distances from the pivot at 3: 1, 0, 4; s^2 = 2.5.
    const double a = std::exp(-1 / 5.0), b = 1, c = std::exp(-4 / 5.0), sum = a + b + c;
    CHECK(near(cache.key(3), {0, (a * 1 + b * 2 + c * 4) / sum}));
    CHECK(near(cache.value(3), {(a * 2 + b * 3 + c * 4) / sum, 1}));
    CHECK(cache.key(5) == keys[5]);

    // Nothing is alike: every entry is its own set. Layers that stay whole are not looked at.
    for (const double dense : {0.0, 2.0}) {
        FakeCache other(1, 1, 8);
        for (int64_t p = 0; p < 8; ++p)
            other.key(p) = {p % 2 == 0 ? 1.0F : -1.0F, dense > 0 ? 100.0F : 0.0F};
        const auto again = make("kv_merger", {{"budget", 2}, {"dense_layers", dense}}, context_of(1, 1, 8));
        read_sums(*again, other, 1, std::vector<float>(8, 1.0F));
        CHECK(other.of(0, 0).size() == 8);
    }
}

TEST_CASE("D2O with a threshold that nothing reaches is H2O with pinned sinks", "[policies]") {
    const PolicyContext context = context_of(1, 2, 6);
    const auto d2o =
        make("d2o", {{"budget", 6}, {"sinks", 0}, {"dense_layers", 0}, {"merge_threshold", 2}}, context);
    const auto pinned =
        make("d2o", {{"budget", 6}, {"sinks", 2}, {"dense_layers", 0}, {"merge_threshold", 2}}, context);
    const auto h2o = make("h2o", {{"budget", 6}}, context);
    FakeCache of_d2o(1, 2, 6), of_pinned(1, 2, 6), of_h2o(1, 2, 6);
    std::mt19937 random(7);
    const auto draws = [&](size_t n) {
        std::vector<float> numbers;
        for (size_t i = 0; i < n; ++i)
            numbers.push_back(static_cast<float>(random() % 1000) / 1000);
        return numbers;
    };
    const std::vector<float> sums = draws(12);
    read_sums(*d2o, of_d2o, 2, sums);
    read_sums(*pinned, of_pinned, 2, sums);
    read_sums(*h2o, of_h2o, 2, sums);
    for (int64_t p = 6; p < 20; ++p) {
        const std::vector<float> row = draws(14);
        step(*d2o, of_d2o, p, row, 2);
        step(*pinned, of_pinned, p, row, 2);
        step(*h2o, of_h2o, p, row, 2);
        for (const int64_t head : {0, 1}) {
            CHECK(of_d2o.of(0, head) == of_h2o.of(0, head));
            CHECK(of_pinned.of(0, head).size() == 6);
            CHECK(of_pinned.of(0, head)[1] == 1);
        }
    }
    CHECK(of_d2o.merged.empty());
    CHECK(of_d2o.spoilt.empty());
}

TEST_CASE("D2O: what resembles enough goes into its like, by the mean of the heads", "[policies]") {
    const auto policy = make("d2o", {{"budget", 3}, {"sinks", 0}, {"recent", 0.33}, {"dense_layers", 0}},
                             context_of(1, 1, 5));
    FakeCache cache(1, 1, 5);
    // Heavy: 0 and 2; newest: 5. Leaving: 1 (as 0), 3 (between), 4 (as 2, less alike).
    const std::vector<std::vector<float>> keys{{2, 0}, {1, 0}, {0, 1}, {1, -1}, {-1, 1}, {-5, -5}};
    for (int64_t p = 0; p < 6; ++p) {
        cache.key(p) = keys[static_cast<size_t>(p)];
        cache.value(p) = {10.0F * static_cast<float>(p), 1};
    }
    read_sums(*policy, cache, 1, {5, 0.1F, 4, 0.2F, 0.3F});
    CHECK(cache.of(0, 0).size() == 5); // the first decode step reads the whole prompt
    step(*policy, cache, 5, {0.2F, 0.1F, 0.2F, 0.1F, 0.1F, 0.3F});
    CHECK(cache.of(0, 0) == Positions{0, 2, 5});
    // c = 1, sqrt(1/2), sqrt(1/2); their mean is 0.805: only 1 reaches it.
    CHECK(cache.merged == Positions{1});
    CHECK(cache.spoilt == Positions{0});
    CHECK(near(cache.key(0), {1.5, 0}));
    CHECK(near(cache.value(0), {5, 1}));
    CHECK(cache.key(2) == keys[2]);

    // The next: the threshold is half of 0.805 and half of c. 2 has the less attention now and resembles 6 by 0.96.
    cache.key(6) = {0.28F, 0.96F};
    cache.value(6) = {7, 3};
    cache.key(5) = {-1, 0};
    step(*policy, cache, 6, {0.5F, 0.0F, 5.0F, 0.1F});
    CHECK(cache.of(0, 0) == Positions{0, 5, 6});
    CHECK(cache.merged == Positions{1, 2});
    const double c = 0.96;
    CHECK(near(cache.key(6), {0.28 / 2, (0.96 + c * 1) / 2}));
    CHECK(near(cache.value(6), {(7 + c * 20) / 2, (3 + c) / 2}));
    const auto before = cache.key(0);
    // 5 leaves next, unlike everything: it is dropped.
    cache.key(7) = {1, 0};
    step(*policy, cache, 7, {0.5F, 0.0F, 9.0F, 1.0F});
    CHECK(cache.of(0, 0) == Positions{0, 6, 7});
    CHECK(cache.merged == Positions{1, 2});
    CHECK(cache.key(0) == before);
}

TEST_CASE("D2O: layers whose attention varies less hold more", "[policies]") {
    PolicyContext context = context_of(3, 2, 40);
    const auto policy = make("d2o", {{"budget", 10}, {"dense_layers", 0}, {"merge_threshold", 2}}, context);
    FakeCache cache(3, 2, 40);
    const auto read = [&](int64_t layer, float of_first, float of_second) {
        std::vector<float> numbers(80, 1.0F);
        numbers[20] += of_first;
        numbers[60] += of_second;
        const Rows sums(std::move(numbers), 1, 2);
        PromptView view;
        view.layer = layer;
        view.length = 40;
        view.sums = sums.cube;
        policy->read_prompt(view, cache);
    };
    read(0, 5, 0); // scaled over its heads: 1 and 0, v = 1/2
    read(1, 0, 0); // v = 0
    read(2, 3, 0); // v = 1/2, whatever the size
    policy->finish_prompt(cache);
    cache.append(40);
    for (int64_t layer = 0; layer < 3; ++layer) {
        StepView view;
        view.layer = layer;
        view.position = 40;
        view.step = 1;
        const Rows rows(std::vector<float>(82, 0.01F), 1, 2);
        view.row = rows.cube;
        policy->after_attention(view, cache);
    }
    // 30 * e^-0.5 / (1 + 2 e^-0.5) = 8.2 and 30 / (1 + 2 e^-0.5) = 13.6
    CHECK(cache.of(0, 0).size() == 8);
    CHECK(cache.of(1, 1).size() == 14);
    CHECK(cache.of(2, 1).size() == 8);
}

TEST_CASE("CompressKV: errors share out the entries, and other heads than the profile's change nothing",
          "[policies]") {
    PolicyContext context = context_of(3, 1, 30);
    context.heads = 5;
    const auto kept = [&](std::vector<double> errors, double budget, size_t changed_head) {
        auto profile = std::make_shared<CacheProfile>(even_profile("compress_kv", context));
        for (size_t layer = 0; layer < 3; ++layer) {
            profile->layers[layer]["heads"] = {4, 0, 2, 1};
            profile->layers[layer]["error"] = {errors[layer]};
        }
        context.profile = profile;
        const auto policy =
            make("compress_kv", {{"budget", budget}, {"window", 2}, {"kernel", 1}, {"floor", 4}}, context);
        FakeCache cache(3, 1, 30);
        for (int64_t layer = 0; layer < 3; ++layer) {
            std::vector<float> numbers; // [2][5][30]
            for (size_t i = 0; i < 300; ++i) {
                const size_t head = i / 30 % 5, weight = (1 + head) * (1 + head), column = i % 30;
                numbers.push_back(static_cast<float>((head == changed_head ? 29 - column : column) * weight));
            }
            const Rows rows(std::move(numbers), 2, 5);
            PromptView view;
            view.layer = layer;
            view.length = 30;
            view.rows = rows.cube;
            policy->read_prompt(view, cache);
        }
        return std::vector<Positions>{cache.of(0, 0), cache.of(1, 0), cache.of(2, 0)};
    };
    const auto sizes = [&](std::vector<double> errors, double budget) {
        std::vector<size_t> all;
        for (const Positions& positions : kept(std::move(errors), budget, 9))
            all.push_back(positions.size());
        return all;
    };
    using Sizes = std::vector<size_t>;
    CHECK(sizes({2, 1, 1}, 8) == Sizes{10, 7, 7});
    CHECK(sizes({8, 1, 1}, 8) == Sizes{14, 5, 5}); // 9.6 and 1.2 above the floor
    CHECK(sizes({1, 0, 0}, 8) == Sizes{16, 4, 4});
    CHECK(sizes({1, 0, 0}, 20) == Sizes{30, 15, 15}); // the prompt has no more
    CHECK(sizes({3, 3, 2}, 7) == Sizes{8, 7, 6});     // 3.4, 3.4 and 2.25 of 9: one is left
    CHECK(sizes({11, 11, 5}, 7) == Sizes{8, 8, 5});   // 3.7, 3.7 and 1.7 are 4, 4 and 2: the last gives one
    CHECK(sizes({0, 0, 0}, 8) == Sizes{8, 8, 8});
    CHECK(sizes({2, 1, 1}, 30) == Sizes{30, 30, 30}); // all fit
    const auto plain = kept({2, 1, 1}, 8, 9);
    CHECK(plain[1] == Positions{23, 24, 25, 26, 27, 28, 29});
    CHECK(kept({2, 1, 1}, 8, 3) == plain); // no head of the profile
    CHECK(kept({2, 1, 1}, 8, 4) != plain);
}

TEST_CASE("a profile is read as it was written, and what is no profile of the model is one line",
          "[policies]") {
    PolicyContext context = context_of(2, 3, 0);
    context.heads = 6;
    CacheProfile profile = even_profile("compress_kv", context);
    profile.model = "0123";
    profile.layers[1]["heads"] = {5, 0, 3, 1};
    profile.layers[1]["error"] = {0.25};
    const nlohmann::json json = to_json(profile);
    const auto read = [&](const nlohmann::json& from) {
        return cache_profile_from_json(from, "a.json", "compress_kv", context);
    };
    CHECK(to_json(read(json)) == json);
    CHECK(read(json).of(1, "heads") == std::vector<double>{5, 0, 3, 1});
    const auto refusal = [&](const char* pointer, const nlohmann::json& value) {
        nlohmann::json changed = json;
        changed[nlohmann::json::json_pointer(pointer)] = value;
        const std::string said = refused([&] { (void)read(changed); });
        CHECK(said.find('\n') == std::string::npos);
        CHECK_THAT(said, Catch::Matchers::ContainsSubstring("a.json"));
        return said;
    };
    using Catch::Matchers::ContainsSubstring;
    CHECK_THAT(refusal("/profile", "infinigen"), ContainsSubstring("is of infinigen"));
    CHECK_THAT(refusal("/version", 2), ContainsSubstring("this program reads 1"));
    CHECK_THAT(refusal("/layers", nlohmann::json::array()), ContainsSubstring("2 layers"));
    CHECK_THAT(refusal("/layers/1/heads", {1, 2, 3}), ContainsSubstring("layers[1].heads"));
    CHECK_THAT(refusal("/layers/1/heads/2", 6), ContainsSubstring("0 to 5"));
    CHECK_THAT(refusal("/layers/1/heads/2", 0.5), ContainsSubstring("0.5"));
    CHECK_THAT(refusal("/layers/1/heads/2", 5), ContainsSubstring("twice"));
    CHECK_THAT(refusal("/layers/0/error/0", -1), ContainsSubstring("-1"));
    CHECK_THAT(refusal("/layers/0/error/0", "x"), ContainsSubstring("layers[0].error"));
    CHECK_THAT(refusal("/layers/0/more", 1), ContainsSubstring("unknown key"));
    CHECK_THAT(refused([&] { (void)read(nlohmann::json::array()); }), ContainsSubstring("a.json"));
    CHECK_THAT(refused([&] { (void)read(nlohmann::json::object()); }),
               ContainsSubstring("refreshlab profile"));
}

} // namespace layer_budget_test
