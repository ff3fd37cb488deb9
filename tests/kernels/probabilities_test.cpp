// What is read off rows of probabilities and by the sampler, in every kernel set, against the definitions.
#include "kernels/execution/execution_context.h"
#include "kernels/ops/probabilities.h"
#include "kernels/ops/sampling_weights.h"
#include "tests/support/seed.h"

#include <ATen/ATen.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>

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
