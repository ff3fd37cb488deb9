// DefensiveKV, DapQ, LookaheadKV and EpiCache by hand: what stays of a prompt by the worst case, and by tokens behind it.
#include "engine/policies/cache_profile.h"
#include "engine/policies/methods/prompt/k_means.h"
#include "tests/engine/policies/fake_cache.h"

#include <catch2/catch_test_macros.hpp>

namespace defensive_test {

using namespace refreshlab;
using namespace refreshlab::test;
using Positions = std::vector<int64_t>;

namespace {

PolicyContext context_of(int64_t layers, int64_t heads, int64_t kv_heads, int64_t prompt) {
    PolicyContext context;
    context.layers = layers;
    context.heads = heads;
    context.kv_heads = kv_heads;
    context.head_dim = 2;
    context.prompt_length = prompt;
    context.rope_frequencies = {0.5F};
    return context;
}

/// \param rows   [window][heads][length]
/// \param norms  [heads][length]
void read(CachePolicy& policy, FakeCache& cache, int64_t layer, int64_t window, int64_t heads,
          std::vector<float> rows, std::vector<float> norms) {
    const Rows attention(std::move(rows), window, heads), sizes(std::move(norms), 1, heads);
    PromptView view;
    view.layer = layer;
    view.length = attention.cube.n2;
    view.rows = attention.cube;
    view.output_norms = sizes.cube;
    policy.read_prompt(view, cache);
}

} // namespace

TEST_CASE("DefensiveKV of one head and one row is the row as far as it exceeds its mean", "[policies]") {
    const std::vector<float> row{0.3F, 0.05F, 0.25F, 0.05F, 0.1F, 0.25F}; // mean of the columns 0.15
    for (const bool four : {false, true}) {
        const auto policy =
            make("defensivekv", {{"budget", four ? 4 : 3}, {"window", 1}, {"kernel", 1}, {"forced", 0}},
                 context_of(1, 1, 1, 6));
        CHECK(policy->needs().prompt_rows == 1);
        CHECK(policy->needs().output_norms);
        FakeCache cache(1, 1, 6);
        read(*policy, cache, 0, 1, 1, row, {5, 1, 3, 9, 1, 1}); // one KV head: its part of a token is all
        CHECK(cache.of(0, 0) ==
              (four ? Positions{0, 2, 4, 5} : Positions{0, 2, 5})); // of equal ones the newest
        policy->finish_prompt(cache);
        CHECK(cache.of(0, 0).size() == (four ? 4 : 3));
    }
    const auto all = make("defensivekv", {{"budget", 6}, {"window", 1}}, context_of(1, 1, 1, 6));
    FakeCache cache(1, 1, 6);
    read(*all, cache, 0, 1, 1, row, std::vector<float>(6, 1.0F));
    CHECK(cache.of(0, 0).size() == 6);
}

TEST_CASE("DefensiveKV weighs by projected values, and keeps what is attended whatever its value",
          "[policies]") {
    // Head 0: risks 0.4 and three times the mean 0.125. Head 1: three times 0.125, and 0.18. Half of all attention is the window's, so
    // what is before 0.9 - 0.5 of a head's own sum stays: nothing of head 0, whose first entry has 0.8; entry 3 of head 1 (0.36).
    const std::vector<float> rows{0.40F, 0.02F, 0.02F, 0.06F, 0.5F, 0.12F, 0.1F, 0.1F, 0.18F, 0.5F};
    const std::vector<float> norms{1, 1, 1, 1, 1, 9, 9, 9, 0.001F, 1};
    const auto kept = [&](double forced, double entries) {
        const auto policy =
            make("defensivekv",
                 {{"budget", 3}, {"window", 1}, {"kernel", 1}, {"forced", forced}, {"value_norm", entries}},
                 context_of(1, 2, 2, 5));
        FakeCache cache(1, 2, 5);
        read(*policy, cache, 0, 1, 2, rows, norms);
        return std::pair(cache.of(0, 0), cache.of(0, 1));
    };
    // Parts of a token: head 0 has 0.1, 0.1, 0.1, 0.999. Scores 0.04, 0.0125, 0.0125, 0.125; head 1: 0.1125 three times, and 0.0002.
    CHECK(kept(0, 0) == std::pair(Positions{3, 4}, Positions{0, 1, 2, 4}));
    CHECK(kept(1, 0) == std::pair(Positions{3, 4}, Positions{1, 2, 3, 4}));
    // The bias of the column in front of the window: 0.12. Before 0.78 of its own sum: nothing of head 0; of head 1 entries 3 and 0 (0.6),
    // but no more than two.
    const auto policy = make("defensivekv", {{"budget", 3}, {"window", 1}, {"kernel", 1}, {"bias", 1}},
                             context_of(1, 2, 2, 5));
    FakeCache cache(1, 2, 5);
    read(*policy, cache, 0, 1, 2, rows, norms);
    CHECK(cache.of(0, 0) == Positions{3, 4});
    CHECK(cache.of(0, 1) == Positions{0, 2, 3, 4});
    // Parts of a head: a quarter each; a third three times, and nothing.
    CHECK(kept(0, 1) == std::pair(Positions{0, 4}, Positions{0, 1, 2, 4}));
}

TEST_CASE("DefensiveKV: one row of one query head is enough, and pooling keeps a row's sum", "[policies]") {
    // Two query heads, two rows. Entry 1 is attended to once; the mean would prefer entry 4. The pooled row (0, 0.6, 0, 0, 0) is
    // 0.2, 0.2, 0.2, 0, 0: its sum stays 0.6.
    std::vector<float> rows(2 * 2 * 7, 0.0F);
    const auto at = [&](size_t row, size_t head, size_t column) -> float& {
        return rows[(row * 2 + head) * 7 + column];
    };
    at(0, 1, 1) = 0.6F;
    for (const size_t row : {0U, 1U})
        for (const size_t head : {0U, 1U})
            at(row, head, 4) += 0.19F;
    const auto policy = make("defensivekv", {{"budget", 3}, {"window", 2}, {"kernel", 1}, {"forced", 0}},
                             context_of(1, 2, 1, 7));
    FakeCache cache(1, 1, 7);
    read(*policy, cache, 0, 2, 2, rows, std::vector<float>(14, 1.0F));
    CHECK(cache.of(0, 0) == Positions{1, 5, 6});

    const auto pooled = make("defensivekv", {{"budget", 3}, {"window", 1}, {"kernel", 3}, {"forced", 0}},
                             context_of(1, 1, 1, 6));
    FakeCache wide(1, 1, 6);
    // Pooled: 0.5 / 3 and 0.5 / 3 at the border, then scaled by 0.5 / (1 / 3): 0.25, 0.25, 0, 0, 0; at least 0.1.
    read(*pooled, wide, 0, 1, 1, {0.5F, 0, 0, 0, 0, 0.5F}, std::vector<float>(6, 1.0F));
    CHECK(wide.of(0, 0) == Positions{0, 1, 5});
    CHECK(std::abs(wide.scores[0][0] - 0.25F) < 1e-6F);
    CHECK(std::abs(wide.scores[0][4] - 0.1F) < 1e-6F);
}

TEST_CASE("Layer-DefensiveKV shares one budget over the model", "[policies]") {
    const auto policy =
        make("layer_defensivekv", {{"budget", 3}, {"window", 1}, {"kernel", 1}, {"forced", 0}},
             context_of(2, 1, 1, 6));
    FakeCache cache(2, 1, 6);
    read(*policy, cache, 0, 1, 1, {0.2F, 0.18F, 0.16F, 0.14F, 0.02F, 0.3F}, std::vector<float>(6, 1.0F));
    read(*policy, cache, 1, 1, 1, {0.15F, 0.01F, 0.01F, 0.01F, 0.01F, 0.81F}, std::vector<float>(6, 1.0F));
    CHECK(cache.of(0, 0).size() == 6); // nothing leaves before all have read
    policy->finish_prompt(cache);
    CHECK(cache.of(0, 0) == Positions{0, 1, 2, 5});
    CHECK(cache.of(1, 0) == Positions{0, 5});
}

TEST_CASE("DapQ and LookaheadKV keep what rows behind the prompt attend to, and only of the prompt",
          "[policies]") {
    const PolicyContext context = context_of(2, 2, 1, 5);
    const auto dapq = make("dapq", {{"budget", 2}, {"pseudo_tokens", 2}}, context),
               lookahead = make("lookahead_kv", {{"budget", 2}}, context);
    CHECK(dapq->needs().pseudo_tokens == 2);
    CHECK(dapq->needs().prompt_rows == 0);
    CHECK(lookahead->needs().soft_tokens);
    const auto kept = [](CachePolicy& policy) {
        const auto foresee = [&](std::vector<float> row, int64_t first_pos) {
            const Rows rows(std::move(row), 1, 2);
            FutureView view;
            view.layer = 1;
            view.first_pos = first_pos;
            view.rows = rows.cube;
            policy.read_future(view);
        };
        // Sums of head 0: 0.2, 0.3, 0, 0.125, 0; of head 1: 0, 0, 0.375, 0.25, 0.1.
        foresee({0.1F, 0.3F, 0, 0.125F, 0, 0.475F, 0, 0, 0.375F, 0, 0.1F, 0.525F}, 5);
        foresee({0.1F, 0, 0, 0, 0, 0.4F, 0.5F, 0, 0, 0, 0.25F, 0, 0.25F, 0.5F}, 6);
        FakeCache cache(2, 1, 5);
        policy.finish_prompt(cache);
        CHECK(cache.of(0, 0).size() == 5); // a layer that reads nothing is not thinned
        return cache.of(1, 0);
    };
    // The maximum: 0.2, 0.3, 0.375, 0.25, 0.1. The last of the prompt has no right of its own.
    CHECK(kept(*dapq) == Positions{1, 2});
    // The mean: 0.1, 0.15, 0.1875, 0.1875, 0.05.
    CHECK(kept(*lookahead) == Positions{2, 3});
    CHECK(kept(*make("lookahead_kv", {{"budget", 1}, {"group", 0}}, context)) == Positions{2});
    CHECK(make("dapq", {{"budget", 5}}, context)->needs().pseudo_tokens == 0);
    CHECK(!make("lookahead_kv", {{"budget", 5}}, context)->needs().soft_tokens);
}

TEST_CASE("windows are grouped by their angles, from a start that the seed chooses", "[policies]") {
    const std::vector<std::vector<float>> points{{1, 0}, {0, 2}, {5, 0.5F}, {0.1F, 1}, {3, 0}};
    const std::vector<std::span<const float>> all(points.begin(), points.end());
    for (const uint64_t start : {0, 1, 7, 8}) {
        const KMeans found = k_means(all, 2, start);
        CHECK(found.cluster[0] == found.cluster[2]);
        CHECK(found.cluster[0] == found.cluster[4]);
        CHECK(found.cluster[1] == found.cluster[3]);
        CHECK(found.cluster[0] != found.cluster[1]);
        CHECK(nearest_centre(found, std::vector<float>{2, 1}) == found.cluster[0]);
        CHECK(found.distance[0] == found.distance[4]); // lengths do not count
    }
    CHECK(k_means(all, 9, 3).centres.size() == 4); // two are the same
}

TEST_CASE("EpiCache reads the question's episode again, and goes through the history block by block",
          "[policies]") {
    const PolicyContext context = context_of(2, 2, 1, 9);
    const auto with_probes = [&](double probes) {
        return make("epicache",
                    {{"budget", 2}, {"episode_window", 2}, {"episodes", 2}, {"probes", probes}, {"block", 4}},
                    context);
    };
    const auto policy = with_probes(2);
    CHECK(policy->needs().window_embeddings == 2);
    // Windows 0, 1-2, 3-4, 5-6 are the history, 7-8 the question. It is like the first and the third.
    const std::vector<float> embedded{1, 0, 0, 1, 1, 0.1F, 0, 2, 3, 0.2F};
    CHECK(policy->read_again({embedded.data(), 1, 5, 2}) == Positions{0, 3, 4});
    CHECK(with_probes(1)->read_again({embedded.data(), 1, 5, 2}).size() < 3);

    // One row, two query heads. Of positions 0 to 3 the first head gives 0.1, 0.3, 0, 0.1, the second 0, 0.1, 0.1, 0: of what is held
    // 0.2, 0.6, 0, 0.2 and 0, 0.5, 0.5, 0. 1 and 2 stay.
    // Then 4 to 6 come: 0.3 of (0.3, 0, 0.05, 0.01, 0.03) and 0.1 of (0.1, 0.1, 0.05, 0.6, 0.05). 1 stays (0.77), and 5 (0.67).
    const Rows rows({0.1F, 0.3F, 0, 0.1F, 0.05F, 0.01F, 0.03F, 0.2F, 0.21F, //
                     0, 0.1F, 0.1F, 0, 0.05F, 0.6F, 0.05F, 0.05F, 0.05F},
                    1, 2);
    FutureView view;
    view.layer = 1;
    view.first_pos = 9;
    view.rows = rows.cube;
    policy->read_future(view);
    FakeCache cache(2, 1, 9);
    policy->finish_prompt(cache);
    CHECK(cache.of(1, 0) == Positions{1, 5, 7, 8}); // and the question
    CHECK(cache.of(0, 0).size() == 9);
    CHECK(make("epicache", {{"budget", 8}, {"episode_window", 2}}, context)->needs().window_embeddings == 0);
}

TEST_CASE("EpiCache's layers share out the entries by how much their keys change without distant tokens",
          "[policies]") {
    PolicyContext context = context_of(3, 1, 1, 41); // the last token is the question
    const auto sizes = [&](std::vector<double> similarity, double budget, double by_profile) {
        auto profile = std::make_shared<CacheProfile>(even_profile("epicache", context));
        for (size_t layer = 0; layer < 3; ++layer)
            profile->layers[layer]["similarity"] = {similarity[layer]};
        context.profile = profile;
        const auto policy = make(
            "epicache",
            {{"budget", budget}, {"episode_window", 1}, {"block", 16}, {"by_profile", by_profile}}, context);
        std::vector<float> row;
        for (int64_t p = 0; p < 41; ++p)
            row.push_back(static_cast<float>(p % 7 + 1));
        const Rows rows(std::move(row), 1, 1);
        FakeCache cache(3, 1, 41);
        for (int64_t layer = 0; layer < 3; ++layer) {
            FutureView view;
            view.layer = layer;
            view.first_pos = 41;
            view.rows = rows.cube;
            policy->read_future(view);
        }
        policy->finish_prompt(cache);
        std::vector<size_t> held;
        for (int64_t layer = 0; layer < 3; ++layer)
            held.push_back(cache.of(layer, 0).size() - 1);
        return held;
    };
    using Sizes = std::vector<size_t>;
    // Scaled: 1, 1/2, 0. Weights: 0, 1/2^1.1 = 0.4665, 1. Layer 0 has a quarter of 12; 33 are left: 10.50 and 22.50 of them.
    CHECK(sizes({0.9, 0.8, 0.7}, 12, 1) == Sizes{3, 10, 23});
    CHECK(sizes({0.9, 0.8, 0.7}, 12, 0) == Sizes{12, 12, 12});
    // Scaled: 0, 1, 3/4. Weights: 1, 0, 1/4^1.1 = 0.2176. 27 are left of 30 without the floors of 2.5: 22.58 and 4.92.
    CHECK(sizes({0.5, 0.9, 0.8}, 10, 1) == Sizes{23, 2, 5});
    CHECK(sizes({0.6, 0.6, 0.6}, 10, 1) == Sizes{10, 10, 10});
    // The history has 40 entries: layer 2 takes them all, 1 as much of the rest as its weight says, or all that is left.
    CHECK(sizes({0.9, 0.8, 0.7}, 24, 1) == Sizes{6, 26, 40});
    CHECK(sizes({0.9, 0.9, 0.7}, 38, 1) == Sizes{37, 37, 40});
    CHECK(sizes({0.9, 0.8, 0.7}, 40, 1) == Sizes{40, 40, 40}); // all fit
}

TEST_CASE("EpiCache's heads may share the budget of their layer", "[policies]") {
    const PolicyContext context = context_of(1, 2, 2, 6);
    const auto policy =
        make("epicache", {{"budget", 2}, {"episode_window", 1}, {"across_heads", 1}}, context);
    const Rows rows({0.5F, 0.3F, 0.15F, 0.05F, 0, 0, // flat enough for three
                     0.96F, 0.01F, 0.01F, 0.01F, 0.01F, 0},
                    1, 2);
    FutureView view;
    view.first_pos = 6;
    view.rows = rows.cube;
    policy->read_future(view);
    FakeCache cache(1, 2, 6);
    policy->finish_prompt(cache);
    CHECK(cache.of(0, 0) == Positions{0, 1, 2, 5});
    CHECK(cache.of(0, 1) == Positions{0, 5});
}

} // namespace defensive_test
