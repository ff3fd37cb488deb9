#include "kernels/cpu/convert.h"
#include "kernels/shared/half_types.h"
#include "tests/kernels/kernel_fixture.h"

#include <bit>

namespace refreshlab {
namespace {

using test::Random;
using test::same_bits;
using test::Setting;

const std::vector<at::ScalarType> own_types{at::kFloat, at::kBFloat16, at::kHalf};

/// Every pattern of 16 bits as a number.
at::Tensor all_patterns(at::ScalarType type) {
    at::Tensor bits = at::empty({1 << 16}, at::kShort);
    for (int32_t i = 0; i < 1 << 16; ++i)
        bits.mutable_data_ptr<int16_t>()[i] = static_cast<int16_t>(static_cast<uint16_t>(i));
    return bits.view(type);
}

/// Floats of every magnitude, and those half way between two numbers of 16 bits, with their neighbours.
at::Tensor hard_floats(Random& random) {
    std::vector<float> values{0.0F,
                              -0.0F,
                              65504.0F,
                              65519.996F,
                              65520.0F,
                              0x1p-14F,
                              0x1p-25F,
                              0x1.8p-25F,
                              3.4e38F,
                              std::numeric_limits<float>::infinity(),
                              -std::numeric_limits<float>::infinity()};
    for (const int shift : {13, 16}) { // what f16 and bf16 drop of an fp32 mantissa
        for (int i = 0; i < 20000; ++i) {
            const auto high = static_cast<uint32_t>(random.between(0, (int64_t{1} << (32 - shift)) - 1))
                              << shift;
            for (const uint32_t low :
                 {0U, 1U, (1U << (shift - 1)) - 1U, 1U << (shift - 1), (1U << (shift - 1)) + 1U}) {
                const float value = std::bit_cast<float>(high + low);
                if (!std::isnan(value)) values.push_back(value);
            }
        }
    }
    for (int i = 0; i < 20000; ++i) // where f16 is subnormal, half way between two of its steps as well
        values.push_back(std::ldexp(static_cast<float>(random.between(-4096, 4096)), -26));
    at::Tensor t = at::empty({static_cast<int64_t>(values.size())}, at::kFloat);
    std::copy(values.begin(), values.end(), t.mutable_data_ptr<float>());
    return t;
}

void require_like_libtorch(const at::Tensor& from) {
    for (const at::ScalarType type : own_types) {
        for (const int threads : {1, 3}) {
            const Setting setting(kernels::widest_isa(), threads);
            const at::Tensor to = at::full(from.sizes(), 7.0, type);
            kernels::convert_into(to, from);
            CAPTURE(from.scalar_type(), type, threads);
            REQUIRE(same_bits(to, from.to(type)));
        }
    }
}

TEST_CASE("numbers are converted as libtorch converts them, bit for bit", "[kernels][convert]") {
    Random random(1);
    require_like_libtorch(hard_floats(random));
    for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
        const at::Tensor all = all_patterns(type);
        require_like_libtorch(all.masked_select(all.isnan().logical_not()));
    }
    require_like_libtorch(
        random.normal({random.between(200, 400), random.between(400, 900)})); // for all threads
    require_like_libtorch(at::empty({0, 5}));
    require_like_libtorch(random.normal({3, 2, 4}).to(at::kDouble)); // libtorch's own
}

TEST_CASE("what the CPU and a GPU share converts numbers of 16 bits as libtorch does", "[kernels][convert]") {
    namespace shared = kernels::shared;
    for (uint32_t bits = 0; bits < 1U << 16; ++bits) {
        const auto half = static_cast<uint16_t>(bits);
        const float from_bf16 = shared::bf16_to_float(half), from_half = shared::half_to_float(half);
        REQUIRE(std::bit_cast<uint32_t>(from_bf16) == bits << 16);
        const auto expected = static_cast<float>(c10::Half(half, c10::Half::from_bits()));
        REQUIRE((std::bit_cast<uint32_t>(from_half) == std::bit_cast<uint32_t>(expected) ||
                 (std::isnan(from_half) && std::isnan(expected))));
    }
    Random random(2);
    const at::Tensor from = hard_floats(random);
    const at::Tensor bf16 = from.to(at::kBFloat16), half = from.to(at::kHalf);
    for (int64_t i = 0; i < from.numel(); ++i) {
        const float x = from.const_data_ptr<float>()[i];
        const bool same = shared::float_to_bf16(x) == bf16.const_data_ptr<c10::BFloat16>()[i].x &&
                          shared::float_to_half(x) == half.const_data_ptr<c10::Half>()[i].x;
        CAPTURE(x);
        REQUIRE(same);
    }
    REQUIRE(std::isnan(shared::bf16_to_float(shared::float_to_bf16(std::nanf("")))));
    REQUIRE(std::isnan(shared::half_to_float(shared::float_to_half(std::nanf("")))));
}

TEST_CASE("a NaN stays a NaN in every dtype", "[kernels][convert]") {
    for (const at::ScalarType from_type : own_types) {
        const at::Tensor from = at::full({5}, test::nan, from_type);
        for (const at::ScalarType type : own_types) {
            const at::Tensor to = at::zeros({5}, type);
            kernels::convert_into(to, from);
            REQUIRE(to.isnan().all().item<bool>());
        }
    }
}

TEST_CASE("rows are converted into wider rows, and what lies between is left alone", "[kernels][convert]") {
    Random random(2);
    for (int i = 0; i < 40; ++i) {
        const int64_t rows = random.between(1, 300), width = random.between(1, 700),
                      gap = random.between(1, 40);
        const at::Tensor from = random.normal({rows, width}, 1.0, random.pick(own_types));
        const at::Tensor held = at::full({rows + 1, width + gap}, 7.0, random.pick(own_types));
        const at::Tensor expected = held.clone();
        expected.narrow(0, 0, rows).narrow(1, 0, width).copy_(from);
        const Setting setting(kernels::widest_isa(), static_cast<int>(random.between(1, 3)));
        kernels::convert_into(held.narrow(0, 0, rows).narrow(1, 0, width), from);
        REQUIRE(same_bits(held, expected));
    }
}

} // namespace
} // namespace refreshlab
