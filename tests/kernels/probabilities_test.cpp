// What is read off rows of probabilities and by the sampler, in every kernel set, against the definitions.
#include "kernels/execution/execution_context.h"
#include "kernels/ops/probabilities.h"
#include "kernels/ops/sampling_weights.h"
#include "kernels/shared/attention_bins.h"
#include "kernels/shared/half_types.h"
#include "tests/support/seed.h"

#include <ATen/ATen.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

namespace probabilities_test {

using namespace refreshlab;
using kernels::ExecutionContext;
using kernels::ExecutionScope;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

std::vector<float> normals(size_t n, double spread, uint64_t of) {
    std::mt19937_64 random(of);
    std::normal_distribution<double> normal(0.0, spread);
    std::vector<float> values(n);
    for (float& value : values)
        value = static_cast<float>(normal(random));
    return values;
}

} // namespace

TEST_CASE("the entropy of a row of probabilities is its definition, zeros and tiny ones included",
          "[kernels]") {
    const auto isa = GENERATE(from_range(kernels::available_isas()));
    CAPTURE(kernels::to_string(isa));
    const ExecutionContext context(1, isa);
    const ExecutionScope scope(context);
    for (const size_t n : {1U, 2U, 7U, 8U, 513U, 2000U}) {
        std::vector<float> p = normals(n, 3.0, test::seed(61) + n);
        double sum = 0;
        for (float& x : p)
            sum += static_cast<double>(x = std::exp(x));
        for (float& x : p)
            x = static_cast<float>(static_cast<double>(x) / sum);
        if (n > 4) p[1] = 0.0F, p[3] = 1e-40F; // a subnormal one
        double expected = 0;
        for (const float x : p) {
            if (x > 0) expected -= static_cast<double>(x) * std::log2(static_cast<double>(x));
        }
        CHECK(std::abs(kernels::entropy_bits(p) - expected) <= 1e-12 * (1 + expected));
    }
    CHECK(kernels::entropy_bits({}) == 0);
    CHECK(kernels::entropy_bits(std::vector<float>{0, 1, 0}) == 0);
}

TEST_CASE("halves are rounded as IEEE 754 says, by every kernel set", "[kernels]") {
    const auto isa = GENERATE(from_range(kernels::available_isas()));
    CAPTURE(kernels::to_string(isa));
    const ExecutionContext context(2, isa);
    const ExecutionScope scope(context);
    std::vector<float> values = normals(70'001, 1.0, test::seed(62));
    for (size_t i = 0; i < values.size(); i += 3)
        values[i] *= std::exp2(static_cast<float>(static_cast<int>(i % 60) - 40));
    const std::vector<float> special = {0.0F,       -0.0F,      1.0F,      0x1p-24F, 0x1p-25F,
                                        0x1.8p-25F, 65504.0F,   65519.9F,  65520.0F, infinity,
                                        -infinity,  0x1.002p0F, 0x1.006p0F};
    values.insert(values.end(), special.begin(), special.end());
    std::vector<uint16_t> halves(values.size());
    kernels::to_half(values, halves);
    const at::Tensor expected = at::tensor(values).to(at::kHalf);
    CHECK(std::memcmp(expected.const_data_ptr(), halves.data(), 2 * halves.size()) == 0);
}

TEST_CASE("bins of an attention row are as few keys each as their number allows, and stay where they are",
          "[kernels]") {
    using kernels::shared::bin_width, kernels::shared::num_bins, kernels::shared::width_of_bins;
    CHECK(bin_width(2049, 0) == 1); // every key
    CHECK(bin_width(2048, 256) == 8);
    CHECK(bin_width(2049, 256) == 16);
    CHECK(bin_width(1, 1) == 1);
    CHECK(width_of_bins(2049, 257) == 8);  // 256 whole ones and one of a key
    CHECK(width_of_bins(2049, 1000) == 0); // no power of two makes so many
    for (const int64_t bins : {1, 2, 3, 7, 64, 256}) {
        int64_t before = 1;
        for (int64_t keys = 1; keys < 1100; ++keys) {
            CAPTURE(bins, keys);
            const int64_t width = bin_width(keys, bins), n = num_bins(keys, width);
            REQUIRE(n <= bins);
            REQUIRE((width == 1 || num_bins(keys, width / 2) > bins));
            REQUIRE((width == before || width == 2 * before));    // two become one
            REQUIRE((n == 1 || width_of_bins(keys, n) == width)); // a recording's size says it
            before = width;
        }
    }
}

TEST_CASE("a row in bins is the sums of their keys, rounded", "[kernels]") {
    const auto isa = GENERATE(from_range(kernels::available_isas()));
    CAPTURE(kernels::to_string(isa));
    const ExecutionContext context(2, isa);
    const ExecutionScope scope(context);
    constexpr size_t keys = 37, rows = 3;
    std::vector<float> weights = normals(rows * keys, 1.0, test::seed(66));
    for (float& weight : weights)
        weight = std::exp(weight) / 100;
    for (const size_t width : {1U, 2U, 8U, 64U}) {
        const size_t bins = (keys + width - 1) / width;
        std::vector<uint16_t> got(rows * bins), part(bins);
        kernels::rows_to_half(weights, rows, static_cast<int64_t>(width), got);
        for (size_t row = 0; row < rows; ++row) {
            for (size_t bin = 0; bin < bins; ++bin) {
                double sum = 0;
                for (size_t key = bin * width; key < std::min(keys, (bin + 1) * width); ++key)
                    sum += static_cast<double>(weights[row * keys + key]);
                CAPTURE(width, row, bin);
                const auto half = static_cast<double>(kernels::shared::half_to_float(got[row * bins + bin]));
                REQUIRE(std::abs(half - sum) <= sum * 0x1p-11 * 1.001);
            }
        }
        // Keys before a window, and behind the last one that is read, are nothing.
        const std::vector<float> all(weights.begin(), weights.begin() + keys);
        std::vector<float> seen(keys);
        std::copy(all.begin() + 11, all.begin() + 30, seen.begin() + 11);
        std::vector<uint16_t> expected(bins);
        kernels::rows_to_half(seen, 1, static_cast<int64_t>(width), expected);
        kernels::to_half_bins(std::span(all).subspan(11, 19), 11, static_cast<int64_t>(width), part);
        REQUIRE(part == expected);
    }
}

TEST_CASE("sampling weights are exponentials, and their sum theirs", "[kernels]") {
    const auto isa = GENERATE(from_range(kernels::available_isas()));
    CAPTURE(kernels::to_string(isa));
    const ExecutionContext context(1, isa);
    const ExecutionScope scope(context);
    for (const double temperature : {1e-3, 0.7, 1.0, 50.0}) {
        std::vector<float> z = normals(517, 4.0, test::seed(63));
        z[5] = -infinity;
        const auto top = static_cast<double>(*std::max_element(z.begin(), z.end()));
        std::vector<double> weights(z.size());
        const double sum = kernels::sampling_weights(z, top, temperature, weights);
        double expected_sum = 0;
        for (size_t i = 0; i < z.size(); ++i) {
            const double d = (static_cast<double>(z[i]) - top) / temperature;
            const double expected = d < -708 ? 0.0 : std::exp(d);
            CAPTURE(i, d);
            if (d < -708 && isa == kernels::Isa::reference) {
                CHECK(weights[i] <= 1e-300);
            } else {
                CHECK(std::abs(weights[i] - expected) <= 8e-16 * expected);
            }
            expected_sum += weights[i];
        }
        CHECK(std::abs(sum - expected_sum) <= 1e-13 * expected_sum);
    }
}

TEST_CASE("ids from a floor on are found, ascending, and added to what is there", "[kernels]") {
    const auto isa = GENERATE(from_range(kernels::available_isas()));
    CAPTURE(kernels::to_string(isa));
    const ExecutionContext context(1, isa);
    const ExecutionScope scope(context);
    const std::vector<float> z = normals(1003, 1.0, test::seed(64));
    for (const float floor : {-infinity, -10.0F, 0.0F, 2.5F, z[700], infinity}) {
        std::vector<int32_t> expected{-7}, ids{-7};
        for (size_t i = 0; i < z.size(); ++i) {
            if (z[i] >= floor) expected.push_back(static_cast<int32_t>(i));
        }
        kernels::ids_from(z, floor, ids);
        CHECK(ids == expected);
    }
}

} // namespace probabilities_test
