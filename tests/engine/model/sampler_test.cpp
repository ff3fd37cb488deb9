#include "engine/base/error.h"
#include "engine/model/sampler.h"

#include <ATen/ops/full_like.h>
#include <ATen/ops/tensor.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <set>

namespace sampler_test {

using Catch::Matchers::WithinAbs;
using refreshlab::Choice;
using refreshlab::choose_token;
using refreshlab::Error;
using refreshlab::SamplerConfig;

namespace {

std::vector<float> random_row(size_t n, uint64_t seed, double spread = 2.0) {
    std::mt19937_64 random(seed);
    std::normal_distribution<double> normal(0.0, spread);
    std::vector<float> row(n);
    for (float& z : row)
        z = static_cast<float>(normal(random));
    return row;
}

/// float64, straight from the definitions: the probabilities that tokens are drawn with (0 = filtered out).
std::vector<double> reference_probabilities(const std::vector<float>& row, const SamplerConfig& s) {
    std::vector<size_t> order(row.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return row[a] > row[b]; });
    if (s.top_k > 0) order.resize(std::min(order.size(), static_cast<size_t>(s.top_k)));
    std::vector<double> p(row.size(), 0.0);
    const auto normalise = [&] {
        std::fill(p.begin(), p.end(), 0.0);
        double total = 0;
        for (const size_t i : order) {
            p[i] =
                std::exp((static_cast<double>(row[i]) - static_cast<double>(row[order[0]])) / s.temperature);
            total += p[i];
        }
        for (double& value : p)
            value /= total;
    };
    normalise();
    if (s.top_p < 1.0) {
        double mass = 0;
        size_t keep = 0;
        while (keep < order.size() && (keep == 0 || mass < s.top_p))
            mass += p[order[keep++]];
        order.resize(keep);
        normalise();
    }
    if (s.min_p > 0.0) {
        const double least = s.min_p * p[order[0]];
        std::erase_if(order, [&](size_t i) { return p[i] < least; });
        normalise();
    }
    return p;
}

std::map<int32_t, int64_t> draw(const std::vector<float>& row, const SamplerConfig& s, int64_t draws) {
    const at::Tensor tensor = at::tensor(row);
    std::map<int32_t, int64_t> counts;
    for (int64_t i = 0; i < draws; ++i)
        ++counts[choose_token(tensor, s, 77, i).token_id];
    return counts;
}

} // namespace

TEST_CASE("greedy takes the largest logit, ties to the lower id, and its raw log-probability", "[model]") {
    const std::vector<float> row = {0.5F, 2.0F, -1.0F, 2.0F};
    const Choice choice = choose_token(at::tensor(row), {}, 1, 2);
    CHECK(choice.token_id == 1);
    double total = 0;
    for (const float z : row)
        total += std::exp(static_cast<double>(z));
    CHECK_THAT(choice.logprob, WithinAbs(2.0 - std::log(total), 1e-12));
}

TEST_CASE("a draw's log-probability is that of the raw row, whatever the filters", "[model]") {
    const std::vector<float> row = random_row(50, 5);
    const std::vector<double> raw = reference_probabilities(row, {.temperature = 1.0});
    for (int64_t position = 0; position < 50; ++position) {
        const Choice c =
            choose_token(at::tensor(row), {.temperature = 3.0, .top_k = 20, .top_p = 0.9}, 4, position);
        CHECK_THAT(c.logprob, WithinAbs(std::log(raw[static_cast<size_t>(c.token_id)]), 1e-9));
    }
}

TEST_CASE("exactly the tokens that the filters keep are drawn, as often as they should be", "[model]") {
    const std::vector<SamplerConfig> samplers = {
        {.temperature = 1.0},
        {.temperature = 0.5},
        {.temperature = 2.5, .top_k = 5},
        {.temperature = 1.0, .top_p = 0.7},
        {.temperature = 1.0, .min_p = 0.2},
        {.temperature = 1.5, .top_k = 9, .top_p = 0.8, .min_p = 0.1},
        {.temperature = 1.0, .top_k = 1},
        {.temperature = 1.0, .top_p = 1e-9},
        {.temperature = 1.0, .top_k = 1000, .top_p = 1.0},
    };
    const int64_t draws = 20000;
    for (size_t i = 0; i < samplers.size(); ++i) {
        const std::vector<float> row = random_row(16, 100 + i, 1.2);
        CAPTURE(i);
        const std::vector<double> p = reference_probabilities(row, samplers[i]);
        const auto counts = draw(row, samplers[i], draws);
        double chi_square = 0;
        int kept = 0;
        for (size_t id = 0; id < row.size(); ++id) {
            const auto it = counts.find(static_cast<int32_t>(id));
            const auto seen = it == counts.end() ? 0.0 : static_cast<double>(it->second);
            CAPTURE(id, p[id], seen);
            if (p[id] == 0.0) {
                CHECK(seen == 0.0);
                continue;
            }
            ++kept;
            const double expected = p[id] * static_cast<double>(draws);
            if (expected > 15.0) CHECK(seen > 0.0);
            chi_square += (seen - expected) * (seen - expected) / expected;
        }
        // Mean kept - 1, deviation sqrt(2 (kept - 1)): five deviations, with fixed draws.
        const double degrees = std::max(1, kept - 1);
        CHECK(chi_square < degrees + 5.0 * std::sqrt(2.0 * degrees));
    }
}

TEST_CASE("filters that keep everything do not change a single draw", "[model]") {
    const at::Tensor row = at::tensor(random_row(300, 9));
    for (int64_t position = 0; position < 300; ++position) {
        const int32_t plain = choose_token(row, {.temperature = 0.9}, 5, position).token_id;
        CHECK(choose_token(row, {.temperature = 0.9, .top_k = 300}, 5, position).token_id == plain);
        CHECK(choose_token(row, {.temperature = 0.9, .min_p = 1e-30}, 5, position).token_id == plain);
    }
}

TEST_CASE("filters keep the same tokens of a row of 40,000, flat or peaked, as their definitions",
          "[model]") {
    for (const double spread : {0.01, 2.0, 8.0}) {
        std::vector<float> row = random_row(40'000, 21, spread);
        row[39'999] = row[17]; // a tie far apart
        for (const SamplerConfig& s :
             {SamplerConfig{.temperature = 1.3, .top_p = 0.6},
              SamplerConfig{.temperature = 0.5, .top_p = 0.9999},
              SamplerConfig{.temperature = 1.0, .top_p = 0.9, .min_p = 0.02},
              SamplerConfig{.temperature = 0.8, .min_p = 0.3},
              SamplerConfig{.temperature = 2.0, .top_k = 100, .top_p = 0.7},
              SamplerConfig{.temperature = 1.0, .top_k = 3}, SamplerConfig{.temperature = 1.0}}) {
            CAPTURE(spread, s.temperature, s.top_k, s.top_p, s.min_p);
            const std::vector<double> p = reference_probabilities(row, s);
            // Nothing that is filtered out, and each half of the row as often as its probability says.
            std::map<int32_t, int64_t> counts = draw(row, s, 200);
            double expected = 0, seen = 0, deviation = 0;
            for (const auto& [id, count] : counts)
                CHECK(p[static_cast<size_t>(id)] > 0.0);
            for (size_t id = 0; id < p.size() / 2; ++id) {
                expected += 200 * p[id];
                const auto it = counts.find(static_cast<int32_t>(id));
                seen += it == counts.end() ? 0.0 : static_cast<double>(it->second);
            }
            deviation = std::sqrt(std::max(expected * (1 - expected / 200), 1.0));
            CHECK(std::abs(seen - expected) <= 5 * deviation);
        }
    }
}

TEST_CASE("statistics that are there already change neither the draw nor its probability", "[model]") {
    const at::Tensor row = at::tensor(random_row(3000, 22));
    const auto statistics = refreshlab::kernels::row_statistics(row.unsqueeze(0))[0];
    const at::Tensor log_p = row.to(at::kDouble).log_softmax(0);
    for (int64_t position = 0; position < 100; ++position) {
        const SamplerConfig sampler{.temperature = 1.1, .top_p = position % 2 == 0 ? 1.0 : 0.9};
        const Choice with = choose_token(row, sampler, 3, position, &statistics);
        const Choice without = choose_token(row, sampler, 3, position);
        CHECK(with.token_id == without.token_id);
        CHECK(with.logprob == without.logprob);
        CHECK(with.top1_id == row.argmax().item<int64_t>());
        CHECK_THAT(with.logprob, WithinAbs(log_p[with.token_id].item<double>(), 1e-12));
    }
}

TEST_CASE("with statistics a greedy or a given token reads one number of the row, and has the same bits",
          "[model]") {
    const at::Tensor row = at::tensor(random_row(3000, 23));
    const auto statistics = refreshlab::kernels::row_statistics(row.unsqueeze(0))[0];
    const SamplerConfig greedy{.temperature = 0};
    const Choice drawn = choose_token(row, greedy, 3, 7), given = refreshlab::given_token(row, 1234);
    // A row of which nothing else is there.
    at::Tensor bare = at::full_like(row, std::numeric_limits<float>::quiet_NaN());
    for (const int64_t id : {int64_t{drawn.token_id}, int64_t{1234}})
        bare[id] = row[id];
    const Choice drawn_bare = choose_token(bare, greedy, 3, 7, &statistics),
                 given_bare = refreshlab::given_token(bare, 1234, &statistics);
    const Choice without_row =
        choose_token({}, greedy, 3, 7, &statistics); // its logit is one of the statistics
    for (const auto& [got, want] :
         {std::pair(drawn_bare, drawn), std::pair(given_bare, given), std::pair(without_row, drawn)}) {
        CHECK(got.token_id == want.token_id);
        CHECK(got.logprob == want.logprob);
        CHECK(got.top1_id == want.top1_id);
    }
}

TEST_CASE("ties at a filter's edge go to the lower ids", "[model]") {
    const std::vector<float> row = {1.0F, 3.0F, 1.0F, 3.0F, 1.0F, 1.0F};
    const auto ids = [&](const SamplerConfig& s) {
        std::set<int32_t> result;
        for (const auto& [id, count] : draw(row, s, 500))
            result.insert(id);
        return result;
    };
    CHECK(ids({.temperature = 1.0, .top_k = 1}) == std::set<int32_t>{1});
    CHECK(ids({.temperature = 1.0, .top_k = 3}) == std::set<int32_t>{0, 1, 3});
    // Two thirds of the mass at 3.0 needs both of them and nothing else: 2 e^3 / (2 e^3 + 4 e) = 0.78698.
    CHECK(ids({.temperature = 1.0, .top_p = 0.786}) == std::set<int32_t>{1, 3});
    CHECK(ids({.temperature = 1.0, .top_p = 0.788}) == std::set<int32_t>{0, 1, 3});
}

TEST_CASE("a draw depends on seed and position alone", "[model]") {
    const at::Tensor row = at::tensor(random_row(1000, 3, 0.5));
    const SamplerConfig sampler{.temperature = 1.0};
    int same_seed = 0;
    int same_position = 0;
    const int64_t n = 200;
    for (int64_t position = 0; position < n; ++position) {
        const int32_t first = choose_token(row, sampler, 1, position).token_id;
        (void)choose_token(row, sampler, 9, 9);
        CHECK(choose_token(row, sampler, 1, position).token_id == first);
        same_seed += choose_token(row, sampler, 2, position).token_id == first ? 1 : 0;
        same_position += choose_token(row, sampler, 1, position + n).token_id == first ? 1 : 0;
        // The upper halves of seed and position count as well.
        CHECK(choose_token(row, sampler, 1, position).token_id == first);
    }
    CHECK(same_seed < 10);
    CHECK(same_position < 10);
    int same_high = 0;
    for (int64_t position = 0; position < n; ++position) {
        const int32_t first = choose_token(row, sampler, 1, position).token_id;
        same_high += choose_token(row, sampler, 1 + (uint64_t{1} << 32), position).token_id == first ? 1 : 0;
    }
    CHECK(same_high < 10);
}

TEST_CASE("logits that are not numbers are never chosen, and a row of them is an error", "[model]") {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    const float infinity = std::numeric_limits<float>::infinity();
    const std::vector<float> some = {nan, 1.0F, -infinity, nan, 0.5F};
    CHECK(choose_token(at::tensor(some), {}, 0, 0).token_id == 1);
    for (const auto& [id, count] : draw(some, {.temperature = 2.0}, 500))
        CHECK((id == 1 || id == 4));
    for (const float bad : {nan, infinity, -infinity}) {
        const at::Tensor row = at::tensor(std::vector<float>{bad, bad});
        CHECK_THROWS_AS(choose_token(row, {}, 0, 0), Error);
        CHECK_THROWS_AS(choose_token(row, {.temperature = 1.0}, 0, 0), Error);
    }
}

TEST_CASE("extreme temperatures stay inside the row", "[model]") {
    const std::vector<float> row = {-80.0F, 80.0F, 79.0F, 1e30F};
    CHECK(choose_token(at::tensor(row), {.temperature = 1e-6}, 3, 3).token_id == 3);
    for (const auto& [id, count] : draw(row, {.temperature = 1e30}, 400)) {
        CHECK(id >= 0);
        CHECK(id < 4);
    }
}

} // namespace sampler_test
