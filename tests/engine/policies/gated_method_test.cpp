// Hand-worked cases of the methods with a trained gate.
#include "tests/engine/policies/fake_cache.h"

#include <catch2/catch_test_macros.hpp>

#include <cmath>

namespace gated_method_test {

using namespace refreshlab;
using namespace refreshlab::test;
using Positions = std::vector<int64_t>;

namespace {

PolicyContext two_heads() {
    PolicyContext context;
    context.layers = 1;
    context.heads = context.kv_heads = 2;
    context.head_dim = 2;
    context.rope_frequencies = {0.5F};
    return context;
}

/// \param gate  [2][length]
void read_prompt(CachePolicy& policy, FakeCache& cache, std::vector<float> gate) {
    const Rows rows(std::move(gate), 1, 2);
    PromptView view;
    view.length = rows.cube.n2;
    view.gate = rows.cube;
    policy.read_prompt(view, cache);
}

void step(CachePolicy& policy, FakeCache& cache, int64_t position, std::vector<float> gate) {
    cache.append(position);
    const Rows rows(std::move(gate), 1, 2);
    StepView view;
    view.position = position;
    view.gate = rows.cube;
    policy.after_attention(view, cache);
}

float ln(double beta) {
    return static_cast<float>(std::log(beta));
}

} // namespace

TEST_CASE("TRIM-KV: a token that fades fast outlives an old one that fades slowly", "[policies]") {
    // The tokens seen are 30. That of position 1 has factor 30, and 30 ln 0.99 = -0.3015; the newest has factor 2: 2 ln 0.9 = -0.2107.
    std::vector<float> gate(60, ln(0.5)); // factor 3 and more: below -2
    gate[1] = ln(0.99);
    gate[29] = ln(0.9);
    gate[30 + 1] = ln(0.99);
    gate[30 + 29] = ln(0.8); // -0.4463
    FakeCache cache(1, 2, 30);
    const auto policy = make("trim_kv", {{"budget", 1}}, two_heads());
    CHECK(policy->needs().prompt_gate);
    read_prompt(*policy, cache, gate);
    CHECK(cache.of(0, 0) == Positions{29});
    CHECK(cache.of(0, 1) == Positions{1});
}

TEST_CASE("TRIM-KV: a score moves with its entry, and entries leave when the buffer is full", "[policies]") {
    FakeCache cache(1, 2, 4);
    const auto policy = make("trim_kv", {{"budget", 3}, {"buffer", 2}}, two_heads());
    // Position 0 hardly fades in head 0, position 2 in head 1.
    read_prompt(*policy, cache, {ln(0.999), ln(0.5), ln(0.5), ln(0.5), ln(0.5), ln(0.5), ln(0.999), ln(0.5)});
    CHECK(cache.of(0, 0).size() == 4); // one above the budget: not yet
    step(*policy, cache, 4, {ln(0.5), ln(0.5)});
    CHECK(cache.of(0, 0) == Positions{0, 3, 4});
    CHECK(cache.of(0, 1) == Positions{2, 3, 4});
    for (int64_t p = 5; p < 15; ++p) // what lasts is kept while what does not passes through
        step(*policy, cache, p, {ln(0.5), ln(0.5)});
    CHECK(cache.of(0, 0) == Positions{0, 13, 14});
    CHECK(cache.of(0, 1) == Positions{2, 13, 14});
    const auto earlier = policy->clone();
    step(*policy, cache, 15, {ln(0.999), ln(0.5)});
    step(*policy, cache, 16, {ln(0.5), ln(0.5)});
    CHECK(cache.of(0, 0) == Positions{0, 15, 16});
    CHECK(cache.of(0, 1) == Positions{2, 15, 16});

    FakeCache again(1, 2, 0); // the copy knows the betas of its own entries
    for (const int64_t p : Positions{0, 13, 14})
        again.append(p);
    step(*earlier, again, 15, {ln(0.5), ln(0.5)});
    step(*earlier, again, 16, {ln(0.5), ln(0.5)});
    CHECK(again.of(0, 0) == Positions{0, 15, 16});
}

TEST_CASE("TRIM-KV: a gate that says the same of all is a sliding window", "[policies]") {
    FakeCache cache(1, 2, 10);
    const auto policy = make("trim_kv", {{"budget", 4}}, two_heads());
    read_prompt(*policy, cache, std::vector<float>(20, ln(0.9)));
    CHECK(cache.of(0, 1) == Positions{6, 7, 8, 9});
    for (int64_t p = 10; p < 16; ++p)
        step(*policy, cache, p, {ln(0.9), ln(0.9)});
    CHECK(cache.of(0, 0) == Positions{12, 13, 14, 15});
    // Nothing fades: scores are 0, and ties go to the newer.
    FakeCache lasting(1, 2, 10);
    const auto constant = make("trim_kv", {{"budget", 4}}, two_heads());
    read_prompt(*constant, lasting, std::vector<float>(20, 0.0F));
    CHECK(lasting.of(0, 0) == Positions{6, 7, 8, 9});
}

TEST_CASE("Make Each Token Count: layers and heads have one budget", "[policies]") {
    PolicyContext context = two_heads();
    context.layers = 2;
    FakeCache cache(2, 2, 4);
    const auto policy = make("make_each_token_count", {{"budget", 2}}, context);
    const auto prompt = [&](int64_t layer, std::vector<float> gate) {
        const Rows rows(std::move(gate), 1, 2);
        PromptView view;
        view.layer = layer;
        view.length = 4;
        view.gate = rows.cube;
        policy->read_prompt(view, cache);
    };
    // Layer 0, head 0 lasts; the others fade, but for position 1 of layer 1, head 1. Eight of sixteen stay: four of the first, the
    // newest of each, and one more.
    prompt(0, {ln(0.99), ln(0.99), ln(0.99), ln(0.99), ln(0.5), ln(0.5), ln(0.5), ln(0.5)});
    prompt(1, {ln(0.5), ln(0.5), ln(0.5), ln(0.5), ln(0.5), ln(0.97), ln(0.5), ln(0.5)});
    CHECK(cache.of(0, 0).size() == 4); // not before all layers are read
    policy->finish_prompt(cache);
    CHECK(cache.of(0, 0) == Positions{0, 1, 2, 3});
    CHECK(cache.of(0, 1) == Positions{3});
    CHECK(cache.of(1, 0) == Positions{3});
    CHECK(cache.of(1, 1) == Positions{1, 3});
    const auto step = [&](int64_t position, float beta) {
        cache.append(position);
        for (int64_t layer = 0; layer < 2; ++layer) {
            const Rows rows({beta, beta}, 1, 2);
            StepView view;
            view.layer = layer;
            view.position = position;
            view.gate = rows.cube;
            policy->after_attention(view, cache);
            if (layer == 0) CHECK(cache.of(0, 0).size() == 5); // not yet
        }
    };
    // Each head has one more, so four leave: all but the first head's, of which the oldest has 6 ln 0.99 = -0.06; 5 ln 0.97 = -0.15.
    step(4, ln(0.5));
    CHECK(cache.of(0, 0) == Positions{0, 1, 2, 3, 4});
    CHECK(cache.of(0, 1) == Positions{4});
    CHECK(cache.of(1, 0) == Positions{4});
    CHECK(cache.of(1, 1) == Positions{4});
}

TEST_CASE("Locret: the newest are safe after every chunk but the last, and the last tokens always",
          "[policies]") {
    FakeCache cache(1, 2, 12);
    const auto policy =
        make("locret", {{"budget", 3}, {"chunk", 5}, {"stabilizers", 2}, {"last_tokens", 2}}, two_heads());
    // Chunks 0-4 and 5-9; 10 and 11 come after them.
    read_prompt(*policy, cache, {9, 1, 8, 0, 0, 7, 0, 0, 0, 6, 0, 0,   // 0, 3, 4; then 0, 5, 9
                                 1, 2, 3, 4, 5, 0, 9, 0, 8, 0, 0, 0}); // 2, 3, 4; then 4, 6, 8
    CHECK(cache.of(0, 0) == Positions{0, 5, 9, 10, 11});
    CHECK(cache.of(0, 1) == Positions{4, 6, 8, 10, 11});

    // What a chunk has dropped is gone, though it beats what the next one brings: 2 has 8, more than 5 has.
    FakeCache one(1, 2, 12);
    const auto at_once =
        make("locret", {{"budget", 3}, {"chunk", 100}, {"stabilizers", 2}, {"last_tokens", 2}}, two_heads());
    read_prompt(*at_once, one, {9, 1, 8, 0, 0, 7, 0, 0, 0, 6, 0, 0, 1, 2, 3, 4, 5, 0, 9, 0, 8, 0, 0, 0});
    CHECK(one.of(0, 0) == Positions{0, 2, 5, 10, 11});
}

TEST_CASE("Locret: a gate that says the same of all keeps the newest of the budget, and the last tokens",
          "[policies]") {
    FakeCache cache(1, 2, 20);
    const auto policy =
        make("locret", {{"budget", 6}, {"chunk", 7}, {"stabilizers", 3}, {"last_tokens", 4}}, two_heads());
    read_prompt(*policy, cache, std::vector<float>(40, 0.25F));
    CHECK(cache.of(0, 0) == Positions{10, 11, 12, 13, 14, 15, 16, 17, 18, 19});
    // Shorter than what is never pruned.
    FakeCache few(1, 2, 3);
    const auto whole = make("locret", {{"budget", 1}, {"last_tokens", 4}}, two_heads());
    read_prompt(*whole, few, std::vector<float>(6, 0.25F));
    CHECK(few.of(0, 0).size() == 3);
}

TEST_CASE("Attention-Gate: what is above the threshold stays, or the best of a budget, and the last token",
          "[policies]") {
    const std::vector<float> gate{0.9F, 0.5F, 0.51F, 0.1F, 0.2F, 0.1F, 0.2F, 0.3F, 0.4F, 0.45F};
    FakeCache cache(1, 2, 5), best(1, 2, 5), all(1, 2, 5);
    read_prompt(*make("attention_gate", {}, two_heads()), cache, gate);
    CHECK(cache.of(0, 0) == Positions{0, 2, 4});
    CHECK(cache.of(0, 1) == Positions{4});
    read_prompt(*make("attention_gate", {{"choose", 1}, {"budget", 3}}, two_heads()), best, gate);
    CHECK(best.of(0, 0) == Positions{0, 2, 4});
    CHECK(best.of(0, 1) == Positions{2, 3, 4});
    read_prompt(*make("attention_gate", {{"keep_above", 0}}, two_heads()), all, gate);
    CHECK(all.of(0, 0).size() == 5);
}

} // namespace gated_method_test
