#include "engine/model/verification.h"
#include "kernels/ops/row_overlap.h"

#include <ATen/ops/tensor.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace verification_test {

using Catch::Matchers::WithinAbs;
using namespace refreshlab;

namespace {

constexpr int64_t vocab = 12;

at::Tensor random_row(uint64_t seed, double spread = 1.5) {
    std::mt19937_64 random(seed);
    std::normal_distribution<double> normal(0.0, spread);
    std::vector<float> row(vocab);
    for (float& z : row)
        z = static_cast<float>(normal(random));
    return at::tensor(row);
}

struct Place {
    at::Tensor teacher = random_row(1), student = random_row(2);
    kernels::RowStatistics statistics = kernels::row_statistics(teacher.unsqueeze(0))[0];

    [[nodiscard]] Judgement judge(int32_t token, const Verification& verify, const SamplerConfig& sampler,
                                  uint64_t seed, int64_t position = 7) const {
        return judge_token({teacher, student, statistics}, token, verify, sampler, seed, position, 0);
    }
};

const std::vector<SamplerConfig>& samplers() {
    static const std::vector<SamplerConfig> all = {
        {.temperature = 1},
        {.temperature = 0.5},
        {.temperature = 1.7, .top_k = 5},
        {.temperature = 1, .top_p = 0.7},
        {.temperature = 0.8, .top_k = 8, .top_p = 0.9, .min_p = 0.05}};
    return all;
}

/// Chi-square of counts against probabilities, divided by its degrees of freedom: 1 on average.
double chi_square(const std::vector<int>& counts, const std::vector<double>& p, int draws) {
    double sum = 0;
    int cells = 0;
    for (size_t i = 0; i < p.size(); ++i) {
        if (p[i] <= 0) {
            REQUIRE(counts[i] == 0);
            continue;
        }
        const double wanted = p[i] * draws;
        sum += (counts[i] - wanted) * (counts[i] - wanted) / wanted;
        ++cells;
    }
    return cells > 1 ? sum / (cells - 1) : 0;
}

} // namespace

TEST_CASE("the tokens that stay, and those in place of the others, have the teacher's distribution") {
    const Place place;
    constexpr int draws = 40000;
    for (const SamplerConfig& sampler : samplers()) {
        CAPTURE(sampler.temperature, sampler.top_k, sampler.top_p, sampler.min_p);
        const auto p = token_probabilities(place.teacher, sampler);
        std::vector<int> counts(vocab, 0);
        int stayed = 0;
        double expected = 0;
        for (int i = 0; i < draws; ++i) {
            const auto seed = static_cast<uint64_t>(i);
            const int32_t y = choose_token(place.student, sampler, seed, 7).token_id;
            const Judgement judgement = place.judge(y, {}, sampler, seed);
            expected = judgement.expected;
            stayed += judgement.stays ? 1 : 0;
            REQUIRE(judgement.stays != judgement.instead.has_value());
            ++counts[static_cast<size_t>(judgement.stays ? y : judgement.instead->token_id)];
        }
        // A chi-square over its 3 to 11 degrees of freedom is above 4 once in some hundred thousand.
        CHECK(chi_square(counts, p, draws) < 4);
        CHECK_THAT(static_cast<double>(stayed) / draws, WithinAbs(expected, 0.012));
    }
}

TEST_CASE("without the residual, or with the number that drew the token, the distribution is another one") {
    // What the test above would say of the two mistakes that are easiest to make.
    const Place place;
    const SamplerConfig sampler{.temperature = 1};
    const auto p = token_probabilities(place.teacher, sampler),
               q = token_probabilities(place.student, sampler);
    constexpr int draws = 40000;
    std::vector<int> no_residual(vocab, 0), one_number(vocab, 0);
    for (int i = 0; i < draws; ++i) {
        const auto seed = static_cast<uint64_t>(i);
        const int32_t y = choose_token(place.student, sampler, seed, 7).token_id;
        const Judgement judgement = place.judge(y, {}, sampler, seed);
        const int32_t again = choose_token(place.teacher, sampler, seed + 1'000'000, 7).token_id;
        ++no_residual[static_cast<size_t>(judgement.stays ? y : again)];
        const auto i_y = static_cast<size_t>(y);
        const bool stays = uniform_number(seed, 7, 0, Draw::token) * q[i_y] < p[i_y];
        ++one_number[static_cast<size_t>(stays || !judgement.instead ? y : judgement.instead->token_id)];
    }
    CHECK(chi_square(no_residual, p, draws) > 20);
    CHECK(chi_square(one_number, p, draws) > 20);
}

TEST_CASE("equal rows keep every token, at every temperature") {
    Place place;
    place.student = place.teacher;
    for (const SamplerConfig& sampler : samplers())
        for (uint64_t seed = 0; seed < 200; ++seed) {
            const int32_t y = choose_token(place.student, sampler, seed, 7).token_id;
            const Judgement judgement = place.judge(y, {}, sampler, seed);
            REQUIRE(judgement.stays);
            REQUIRE_THAT(judgement.expected, WithinAbs(1, 1e-12));
        }
}

TEST_CASE("the greedy rule keeps the teacher's first choice and nothing else") {
    const Place place;
    const int64_t best = place.statistics.top1_id;
    for (const double temperature : {0.0, 1.0})
        for (const VerifyRule rule : {VerifyRule::greedy, VerifyRule::exact}) {
            if (rule == VerifyRule::exact && temperature > 0) continue; // draws
            for (int32_t y = 0; y < vocab; ++y) {
                const Judgement judgement = place.judge(y, {.rule = rule}, {.temperature = temperature}, 3);
                CHECK(judgement.stays == (y == best));
                if (!judgement.stays) CHECK(judgement.instead->token_id == best);
            }
        }
}

TEST_CASE("lenient rules go by the teacher's raw row") {
    const Place place;
    const auto raw = token_probabilities(place.teacher, {.temperature = 1});
    const double top = *std::ranges::max_element(raw);
    for (const double temperature : {0.0, 0.6, 1.0}) {
        const SamplerConfig sampler{.temperature = temperature};
        double by_share = 0, by_rank = 0;
        const auto q = token_probabilities(place.student, sampler);
        for (int32_t y = 0; y < vocab; ++y) {
            const auto rank = kernels::token_ranks(place.teacher.unsqueeze(0), std::span(&y, 1))[0];
            const Judgement near = place.judge(y, {.rule = VerifyRule::near_best, .share = 0.4}, sampler, 5),
                            first = place.judge(y, {.rule = VerifyRule::top_k, .rank = 3}, sampler, 5);
            CHECK(near.stays == (raw[static_cast<size_t>(y)] >= 0.4 * top));
            CHECK(first.stays == (rank <= 3));
            for (const Judgement& judgement : {near, first})
                if (!judgement.stays) CHECK(judgement.instead->token_id != y);
            by_share += near.stays ? q[static_cast<size_t>(y)] : 0;
            by_rank += first.stays ? q[static_cast<size_t>(y)] : 0;
        }
        if (temperature == 0) continue; // every token was given, and the student draws one
        CHECK_THAT(place.judge(0, {.rule = VerifyRule::near_best, .share = 0.4}, sampler, 5).expected,
                   WithinAbs(by_share, 1e-9));
        CHECK_THAT(place.judge(0, {.rule = VerifyRule::top_k, .rank = 3}, sampler, 5).expected,
                   WithinAbs(by_rank, 1e-9));
    }
}

TEST_CASE("another attempt has other random numbers, and so has each purpose") {
    const double token = uniform_number(4, 9, 0, Draw::token);
    CHECK(token == uniform_number(4, 9, 0, Draw::token));
    for (const double other :
         {uniform_number(4, 9, 1, Draw::token), uniform_number(4, 10, 0, Draw::token),
          uniform_number(5, 9, 0, Draw::token), uniform_number(4, 9, 0, Draw::acceptance),
          uniform_number(4, 9, 0, Draw::residual)})
        CHECK(other != token);
}

} // namespace verification_test
