#include "engine/model/sampler.h"
#include "kernels/decode/device_decoder.h"

#include <ATen/ops/tensor.h>
#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cmath>
#include <random>

/// choose_among() against choose_token() of the whole row.
namespace choose_among_test {

using refreshlab::choose_among;
using refreshlab::choose_token;
using refreshlab::draw_needs;
using refreshlab::SamplerConfig;

namespace {

constexpr int64_t most = refreshlab::kernels::most_answer_keys;

/// \param step  0, or logits are multiples of it: ties
at::Tensor random_row(std::mt19937_64& random, int64_t n, double spread, double step) {
    std::normal_distribution<double> normal(0.0, spread);
    std::vector<float> row(static_cast<size_t>(n));
    for (float& z : row) {
        const double value = normal(random);
        z = static_cast<float>(step > 0 ? std::round(value / step) * step : value);
    }
    return at::tensor(row);
}

/// In another order than the sampler's.
double total_of(const at::Tensor& row, double temperature) {
    const auto* const z = row.const_data_ptr<float>();
    const double top = row.max().item<double>();
    double total = 0;
    for (int64_t i = row.numel() - 1; i >= 0; --i)
        total += std::exp((static_cast<double>(z[i]) - top) / temperature);
    return total;
}

struct Outcome {
    int64_t settled = 0, open = 0;
};

/// Draws of one row, each equal to the row's.
void compare(const at::Tensor& row, const SamplerConfig& sampler, int64_t draws, Outcome& outcome) {
    const auto statistics = refreshlab::kernels::row_statistics(row.unsqueeze(0))[0];
    const auto needs = draw_needs(sampler, row.numel(), most);
    REQUIRE(needs);
    REQUIRE(!needs->token);
    REQUIRE(needs->keys <= most);
    const auto largest = refreshlab::kernels::top_k(row, needs->keys);
    // Where it is not asked for, it is not looked at.
    const double total = needs->total ? total_of(row, sampler.temperature) : std::nan("");
    const std::vector<double> p = refreshlab::token_probabilities(row, sampler, &statistics);
    const auto weight = [&](float z) {
        return std::exp((static_cast<double>(z) - statistics.top1_logit) / sampler.temperature);
    };
    const int64_t kept = std::ranges::count_if(p, [](double x) { return x > 0; });
    for (uint64_t seed = 0; seed < static_cast<uint64_t>(draws); ++seed) {
        const auto want = choose_token(row, sampler, seed, 5, &statistics, 2);
        const double share = refreshlab::uniform_number(seed, 5, 2, refreshlab::Draw::token);
        const auto got = choose_among({largest, row.numel(), total, statistics}, sampler, share);
        CAPTURE(row.numel(), sampler.temperature, sampler.top_k, sampler.top_p, sampler.min_p, seed, kept);
        ++(got ? outcome.settled : outcome.open);
        if (!got) {
            // Only a row whose filters keep as many tokens as are known, or one whose weight is that of the last known.
            double least = 1;
            for (size_t id = 0; id < p.size(); ++id)
                if (p[id] > 0) least = std::min(least, weight(row[static_cast<int64_t>(id)].item<float>()));
            REQUIRE((kept >= needs->keys || least <= weight(largest.logits.back())));
            continue;
        }
        REQUIRE(got->token_id == want.token_id);
        REQUIRE(std::abs(got->logprob - want.logprob) <= 1e-12);
        REQUIRE(got->top1_id == want.top1_id);
    }
}

} // namespace

TEST_CASE("a draw among the largest logits is that of the whole row, or says that it needs it", "[model]") {
    std::mt19937_64 random(31);
    Outcome all;
    for (const int64_t vocab : {5, 63, 64, 65, 700, 20'000}) {
        for (const double spread : {0.02, 1.5, 6.0}) {
            for (const double step : {0.0, 0.25}) {
                const at::Tensor row = random_row(random, vocab, spread, step);
                for (const double temperature : {1e-6, 0.4, 1.0, 2.5, 1e30}) {
                    for (const SamplerConfig& s :
                         {SamplerConfig{.top_k = 1}, SamplerConfig{.top_k = 4}, SamplerConfig{.top_k = 64},
                          SamplerConfig{.top_p = 0.5}, SamplerConfig{.top_p = 0.95},
                          SamplerConfig{.top_p = 1e-9}, SamplerConfig{.min_p = 0.05},
                          SamplerConfig{.min_p = 1e-30}, SamplerConfig{.top_p = 0.9, .min_p = 0.2},
                          SamplerConfig{.top_k = 40, .top_p = 0.95},
                          SamplerConfig{.top_k = 20, .top_p = 0.8, .min_p = 0.1},
                          SamplerConfig{.top_k = 300, .min_p = 0.1}}) {
                        SamplerConfig sampler = s;
                        sampler.temperature = temperature;
                        if (sampler.top_k >= vocab && sampler.top_p >= 1 && sampler.min_p <= 0) continue;
                        compare(row, sampler, 6, all);
                    }
                }
            }
        }
    }
    CHECK(all.settled > 4 * all.open);
    CHECK(all.open > 100);
}

TEST_CASE("what a draw needs of a row follows from its filters", "[model]") {
    const auto plain = draw_needs({.temperature = 1.0}, 1000, 64);
    REQUIRE(plain);
    CHECK((plain->token && plain->weighs() && plain->keys == 0));
    CHECK(draw_needs({.temperature = 1.0, .top_k = 1000}, 1000, 64)->token); // keeps all
    const auto few = draw_needs({.temperature = 1.0, .top_k = 9, .top_p = 0.5}, 1000, 64);
    CHECK((few && few->keys == 9 && !few->weighs())); // shares are of those nine
    const auto nucleus = draw_needs({.temperature = 1.0, .top_p = 0.5}, 1000, 64);
    CHECK((nucleus && nucleus->keys == 64 && nucleus->total && !nucleus->token));
    const auto floor = draw_needs({.temperature = 1.0, .min_p = 0.5}, 30, 64);
    CHECK((floor && floor->keys == 30 && !floor->weighs()));
    CHECK(!draw_needs({.temperature = 1.0, .top_k = 65}, 1000, 64));
    CHECK(!draw_needs({.temperature = 1.0, .top_k = 65, .top_p = 0.9}, 1000, 64));
    CHECK(draw_needs({.temperature = 1.0, .top_k = 65, .min_p = 0.1}, 1000, 64)->keys == 64);
}

TEST_CASE("equal weights of different logits are not settled by the largest logits", "[model]") {
    // At this temperature every weight is 1: top-p keeps the lowest ids, whatever their logits.
    std::mt19937_64 random(32);
    const at::Tensor row = random_row(random, 5000, 2.0, 0);
    const SamplerConfig sampler{.temperature = 1e30, .top_p = 0.001};
    const auto statistics = refreshlab::kernels::row_statistics(row.unsqueeze(0))[0];
    CHECK(choose_token(row, sampler, 3, 3).token_id < 6);
    CHECK(!choose_among({refreshlab::kernels::top_k(row, most), 5000, 5000.0, statistics}, sampler, 0.5));
}

} // namespace choose_among_test
