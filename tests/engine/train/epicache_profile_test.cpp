// EpiCache's profile against whole matrices with the masks of its definition.
#include "engine/study/measure/epicache_profile.h"
#include "engine/train/frozen_llama.h"
#include "tests/engine/session/tiny_pair.h"
#include "tests/support/refused.h"
#include "tests/support/seed.h"

#include <ATen/ATen.h>
#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>

#include <cmath>
#include <random>

using namespace refreshlab;
using namespace refreshlab::test;
using Catch::Approx;

namespace {

/// [layers] of [n, kv_heads, head_dim]: keys where a token sees its own block alone.
std::vector<at::Tensor> keys_of(const LlamaModel& model, const std::vector<int32_t>& ids, int64_t block) {
    const auto n = static_cast<int64_t>(ids.size());
    at::Tensor mask = at::full({n, n}, -INFINITY);
    for (int64_t row = 0; row < n; ++row)
        mask[row].slice(0, row / block * block, row + 1).zero_();
    std::vector<at::Tensor> keys;
    (void)FrozenLlama(model).run(ids, [&](int64_t, const GateInputs& in, const at::Tensor& logits) {
        keys.push_back(in.k);
        return logits + mask;
    });
    return keys;
}

} // namespace

TEST_CASE("EpiCache's profile is the likeness of keys of whole texts and of single blocks", "[train]") {
    const auto model = tiny_model(seed(61), {.layers = 3, .heads = 6, .kv_heads = 2, .vocab = 96});
    std::mt19937_64 random(seed(62));
    std::vector<std::vector<int32_t>> texts(3);
    for (size_t i = 0; i < texts.size(); ++i)
        for (size_t t = 0; t < 20 + 15 * i; ++t)
            texts[i].push_back(static_cast<int32_t>(random() % 96));
    constexpr int64_t block = 12;
    texts[0].resize(block); // no longer than a block
    const auto go_on = [](double) { return true; };
    const auto profile = measure_epicache(*model, texts, block, go_on);
    REQUIRE(profile);
    CHECK(profile->method == "epicache");
    REQUIRE(profile->layers.size() == 3);
    for (size_t layer = 0; layer < 3; ++layer) {
        double sum = 0, keys = 0;
        for (size_t i = 1; i < texts.size(); ++i) {
            const at::Tensor whole = keys_of(*model, texts[i], 1000)[layer].slice(0, block),
                             own = keys_of(*model, texts[i], block)[layer].slice(0, block);
            const at::Tensor like = (whole * own).sum(2) / (whole.norm(2, 2) * own.norm(2, 2));
            sum += like.sum().item<double>();
            keys += static_cast<double>(like.numel());
        }
        CHECK(profile->of(layer, "similarity").front() == Approx(std::max(sum / keys, 0.0)).epsilon(1e-4));
    }
    CHECK(profile->of(0, "similarity").front() == Approx(1)); // it sees no context
    CHECK(profile->of(2, "similarity").front() < 0.999);
    CHECK(!measure_epicache(*model, texts, block, [](double done) { return done < 0.5; }));
    CHECK(refused([&] { (void)measure_epicache(*model, texts, 200, go_on); }).find("--block") !=
          std::string::npos);
}
