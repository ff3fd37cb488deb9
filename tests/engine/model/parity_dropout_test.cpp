#include "engine/cache/kv_cache.h"
#include "engine/model/llama_model.h"
#include "engine/model/model_source.h"
#include "kernels/ops/row_statistics.h"
#include "tests/engine/model/parity_support.h"
#include "tests/engine/model/reference_forward.h"
#include "tests/support/forward.h"
#include "tests/support/seed.h"

#include <ATen/ATen.h>
#include <catch2/catch_test_macros.hpp>
#include <fmt/format.h>

#include <cmath>
#include <random>

namespace parity_dropout_test {

using refreshlab::Checkpoint;
using refreshlab::LlamaModel;
using refreshlab::McRequest;
using refreshlab::ModelConfig;
using refreshlab::Origin;
using refreshlab::Rows;
using refreshlab::kernels::DropoutSite;
using refreshlab::kernels::mc_statistics;
using refreshlab::test::extend;
using refreshlab::test::ids_of;
using refreshlab::test::parity_cases;
using refreshlab::test::parity_full;
using refreshlab::test::ParityCase;
using refreshlab::test::random_tokens;
using refreshlab::test::ReferenceForward;
using refreshlab::test::SeenAttention;
using refreshlab::test::step;

namespace {

constexpr Origin origin = Origin::student;

McRequest all_sites(int32_t passes, uint64_t seed, float p) {
    return {.passes = passes,
            .seed = seed,
            .p = p,
            .attention = true,
            .attention_output = true,
            .mlp_output = true};
}

/// A mean with its standard error.
struct Estimate {
    double mean = 0, error = 0;
};
Estimate estimate(const std::vector<double>& values) {
    const auto n = static_cast<double>(values.size());
    double sum = 0, squares = 0;
    for (const double v : values)
        sum += v;
    for (const double v : values)
        squares += (v - sum / n) * (v - sum / n);
    return {sum / n, std::sqrt(squares / (n - 1) / n)};
}

} // namespace

TEST_CASE("with p = 0 the Monte-Carlo variance of every family is exactly 0", "[model][parity]") {
    for (const ParityCase& c : parity_cases()) {
        CAPTURE(c.name);
        const Checkpoint reference = Checkpoint::open(c.reference);
        const std::vector<int32_t> tokens = ids_of(reference, "tokens", c.prompt + c.steps);
        for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
            const auto model = LlamaModel::load(c.checkpoint, at::kCPU, dtype);
            const auto cache = model->make_cache(c.prompt + 3);
            (void)extend(*model, *cache, std::span(tokens).first(static_cast<size_t>(c.prompt)), Rows::none,
                         origin);
            for (size_t i = 0; i < 3; ++i) {
                const auto rows = step(*model, *cache, tokens[static_cast<size_t>(c.prompt) + i], origin,
                                       all_sites(4, 11, 0.0F));
                const auto statistics = mc_statistics(rows.row, rows.mc);
                CHECK(statistics.variance == 0.0);
                CHECK(statistics.mutual_information_bits == 0.0);
            }
        }
    }
}

TEST_CASE("with given masks the Monte-Carlo passes of every family equal a naive implementation",
          "[model][parity]") {
    for (const ParityCase& c : parity_cases()) {
        CAPTURE(c.name);
        if (c.name == "teacher" || c.name == "student" || c.name == "llama-1689")
            continue; // naive means slow
        std::map<std::string, at::Tensor> weights;
        const ModelConfig config = ModelConfig::load(c.checkpoint);
        const auto checkpoint = refreshlab::ModelSource::open(c.checkpoint)->weights(config);
        const auto model = LlamaModel::from_weights(
            config,
            [&](const std::string& name, at::IntArrayRef shape) {
                weights[name] = checkpoint->read(name, shape, at::kFloat);
                return weights[name];
            },
            at::kCPU, at::kFloat);
        constexpr int64_t capacity = 64;
        const ReferenceForward naive(config, weights, capacity);
        // Longer than the shortest windows, so that some prefix positions are out of sight.
        const std::vector<int32_t> tokens = random_tokens(parity_full() ? 40 : 14, config.vocab_size, 4);
        const McRequest mc = all_sites(parity_full() ? 4 : 2, 77, 0.2F);
        const auto cache = model->make_cache(capacity);
        (void)extend(*model, *cache, std::span(tokens).first(tokens.size() - 1), Rows::none, origin);
        SeenAttention attention(config, {}, cache->length());
        const auto rows = step(*model, *cache, tokens.back(), origin, mc, {&attention});
        const auto off = [](const at::Tensor& a, const at::Tensor& b) {
            return (a.to(at::kDouble) - b).abs().max().item<double>();
        };
        const at::Tensor plain = naive.last_row(tokens);
        CHECK(off(rows.row, plain) < 1e-4);
        for (int32_t pass = 1; pass <= mc.passes; ++pass) {
            const at::Tensor expected = naive.last_row(tokens, mc, pass);
            CHECK(off(rows.mc[pass - 1], expected) < 1e-4);
            CHECK(off(plain, expected) > 1e-2); // the masks do something
        }
    }
}

TEST_CASE("the mean of the variance over seeds is that of a direct Monte-Carlo run, within its error",
          "[model][parity]") {
    // The direct run draws its masks from another generator and sums over as many passes as it likes; the estimate comes
    // from the product's own passes, a few per seed. Both are unbiased, so their means differ by chance alone.
    ModelConfig config;
    config.model_type = "llama";
    config.vocab_size = 23;
    config.hidden_size = 16;
    config.intermediate_size = 24;
    config.num_layers = 2;
    config.num_heads = 2;
    config.num_kv_heads = 1;
    config.head_dim = 8;
    config.max_position = 64;
    config.layer_windows = {0, 3};
    std::map<std::string, at::Tensor> weights;
    at::Generator generator = at::detail::createCPUGenerator(5);
    const auto model = LlamaModel::from_weights(
        config,
        [&](const std::string& name, at::IntArrayRef shape) {
            const bool norm = name.find("norm.weight") != std::string::npos;
            weights[name] = at::empty(shape, at::kFloat).normal_(norm ? 1.0 : 0.0, 0.3, generator);
            return weights[name];
        },
        at::kCPU, at::kFloat);
    const std::vector<int32_t> tokens = random_tokens(5, config.vocab_size, 9);
    const float p = 0.15F;

    const ReferenceForward naive(config, weights);
    const int64_t samples = parity_full() ? 4000 : 600;
    std::mt19937_64 random(refreshlab::test::seed(20240229));
    std::bernoulli_distribution drops(static_cast<double>(p));
    std::vector<at::Tensor> drawn;
    for (int64_t i = 0; i < samples; ++i) {
        drawn.push_back(naive.masked_row(tokens, [&](DropoutSite, int64_t, uint64_t) {
            return drops(random) ? 0.0 : 1.0 / (1.0 - static_cast<double>(p));
        }));
    }
    // Blocks give the direct run's own error.
    std::vector<double> direct;
    const at::Tensor all = at::stack(drawn);
    const int64_t block = samples / 40;
    for (int64_t b = 0; b < 40; ++b)
        direct.push_back(all.narrow(0, b * block, block).var(0, /*unbiased=*/true).mean().item<double>());

    const auto cache = model->make_cache(16);
    (void)extend(*model, *cache, std::span(tokens).first(4), Rows::none, origin);
    std::vector<double> live;
    for (uint64_t seed = 0; seed < (parity_full() ? 1000U : 250U); ++seed) {
        const auto rows = step(*model, *cache, tokens.back(), origin, all_sites(8, seed, p));
        live.push_back(mc_statistics(rows.row, rows.mc).variance);
        cache->truncate(4);
    }
    const Estimate ours = estimate(live);
    const Estimate theirs = estimate(direct);
    const double error = std::hypot(ours.error, theirs.error);
    CAPTURE(ours.mean, ours.error, theirs.mean, theirs.error);
    fmt::print("Monte-Carlo variance: {:.5f} +- {:.5f} live, {:.5f} +- {:.5f} direct\n", ours.mean,
               ours.error, theirs.mean, theirs.error);
    REQUIRE(theirs.mean > 0.01);
    CHECK(error < 0.05 * theirs.mean); // sharp enough to notice a wrong scale of the masks
    CHECK(std::abs(ours.mean - theirs.mean) < 3.0 * error);
}

} // namespace parity_dropout_test
