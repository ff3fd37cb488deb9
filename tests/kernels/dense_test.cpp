#include "kernels/ops/dense.h"
#include "kernels/shared/check.h"
#include "tests/kernels/kernel_fixture.h"

namespace refreshlab {
namespace {

using kernels::Isa;
using test::Random;
using test::relative_error;
using test::same_bits;
using test::Setting;

const std::vector<at::ScalarType> weight_types{at::kFloat, at::kBFloat16, at::kHalf};

struct Shape {
    int64_t rows, in, out;
};

std::vector<Shape> shapes(Random& random) {
    std::vector<Shape> list{{1, 1, 1},   {1, 16, 8},    {1, 144, 384}, {2, 17, 3},   {3, 15, 5},
                            {5, 31, 13}, {6, 320, 192}, {7, 33, 4},    {13, 506, 9}, {257, 40, 66}};
    for (int i = 0; i < 12; ++i)
        list.push_back({random.between(1, 40), random.between(1, 300), random.between(1, 150)});
    return list;
}

TEST_CASE("linear agrees with a float64 product for every shape, weight type and instruction set",
          "[kernels][dense]") {
    Random random(1);
    for (const Shape& s : shapes(random)) {
        for (const at::ScalarType type : weight_types) {
            const at::Tensor x = random.normal({s.rows, s.in});
            const at::Tensor w = random.normal({s.out, s.in}, 0.1, type);
            const at::Tensor bias =
                random.between(0, 1) == 1 ? random.normal({s.out}, 1.0, type) : at::Tensor();
            at::Tensor expected = at::matmul(x.to(at::kDouble), w.to(at::kDouble).t());
            if (bias.defined()) expected = expected + bias.to(at::kDouble);
            const at::Tensor scale = at::matmul(x.abs(), w.to(at::kFloat).abs().t()) + 1.0;
            for (const Isa isa : test::own_isas()) {
                const Setting setting(isa);
                const at::Tensor y = kernels::linear(x, w, bias);
                CAPTURE(s.rows, s.in, s.out, std::string(to_string(isa)));
                REQUIRE(y.scalar_type() == at::kFloat);
                REQUIRE(((y.to(at::kDouble) - expected).abs() / scale).max().item<double>() < 1e-6);
            }
            REQUIRE(relative_error(kernels::reference::linear(x, w, bias), expected) < 1e-5);
        }
    }
}

TEST_CASE("a row of linear has the same bits alone and in any company", "[kernels][dense]") {
    Random random(2);
    for (const Isa isa : test::own_isas()) {
        const Setting setting(isa);
        for (const at::ScalarType type : weight_types) {
            const int64_t in = random.between(1, 700);
            const int64_t out = random.between(1, 200);
            const int64_t rows = random.between(2, 600);
            const at::Tensor x = random.normal({rows, in});
            const at::Tensor w = random.normal({out, in}, 1.0, type);
            const at::Tensor whole = kernels::linear(x, w);
            CAPTURE(in, out, rows, std::string(to_string(isa)));
            for (const int64_t count : {int64_t{1}, int64_t{2}, int64_t{3}, int64_t{5}, int64_t{8}}) {
                const int64_t n = std::min(count, rows);
                const int64_t first = random.between(0, rows - n);
                REQUIRE(same_bits(kernels::linear(x.narrow(0, first, n), w), whole.narrow(0, first, n)));
            }
            // And an output alone: neither neighbours of the row nor of the column count.
            const int64_t o = random.between(0, out - 1);
            REQUIRE(same_bits(kernels::linear(x, w.narrow(0, o, 1)), whole.narrow(1, o, 1)));
        }
    }
}

TEST_CASE("many rows have the bits of one row at a time, however they are blocked", "[kernels][dense]") {
    // Around the borders of the blocks: 6 rows, 12 and 48 of them, 4 outputs, 16 inputs, rows of 1,024 and more.
    Random random(12);
    const std::vector<Shape> list{
        {12, 64, 4},     {13, 65, 17},
        {47, 1025, 18},  {48, 1024, 5},
        {49, 1039, 66},  {60, 1536, 130},
        {131, 1100, 71}, {random.between(12, 200), random.between(900, 1300), random.between(1, 150)}};
    for (const Shape& s : list) {
        for (const at::ScalarType type : weight_types) {
            const at::Tensor x = random.normal({s.rows, s.in});
            const at::Tensor w = random.normal({s.out, s.in}, 1.0, type);
            const at::Tensor bias = random.between(0, 1) == 1 ? random.normal({s.out}) : at::Tensor();
            for (const Isa isa : test::own_isas()) {
                CAPTURE(s.rows, s.in, s.out, std::string(to_string(isa)), std::string(at::toString(type)));
                at::Tensor alone = at::empty({s.rows, s.out}, at::kFloat);
                const Setting one(isa, 1);
                for (int64_t r = 0; r < s.rows; ++r)
                    alone[r].copy_(kernels::linear(x.narrow(0, r, 1), w, bias)[0]);
                REQUIRE(same_bits(kernels::linear(x, w, bias), alone));
                for (const int threads : {2, 5}) {
                    const Setting setting(isa, threads);
                    REQUIRE(same_bits(kernels::linear(x, w, bias), alone));
                }
            }
        }
    }
}

TEST_CASE("a product reads its row and its weights alone", "[kernels][dense]") {
    Random random(13);
    for (const Isa isa : test::own_isas()) {
        const Setting setting(isa);
        for (const int64_t in : {int64_t{40}, int64_t{1100}}) {
            at::Tensor x = random.normal({61, in});
            at::Tensor w = random.normal({37, in});
            const at::Tensor before = kernels::linear(x, w);
            const int64_t row = random.between(0, 60), out = random.between(0, 36);
            x[row].fill_(test::nan);
            w[out].fill_(test::nan);
            const at::Tensor after = kernels::linear(x, w);
            at::Tensor expected = before.clone();
            expected[row].fill_(test::nan);
            expected.select(1, out).fill_(test::nan);
            CAPTURE(in, row, out, std::string(to_string(isa)));
            REQUIRE(at::allclose(after, expected, 0.0, 0.0, /*equal_nan=*/true));
        }
    }
}

TEST_CASE("dense results do not depend on the number of threads", "[kernels][dense]") {
    Random random(3);
    for (const Isa isa : test::own_isas()) {
        const at::Tensor x = random.normal({301, 320});
        const at::Tensor w = random.normal({500, 320});
        const at::Tensor norm = random.normal({320});
        const at::Tensor angles = random.normal({301, 32});
        at::Tensor product, normed, gated, turned;
        for (const int threads : {1, 2, 3, 7}) {
            const Setting setting(isa, threads);
            const at::Tensor p = kernels::linear(x, w);
            const at::Tensor n = kernels::rms_norm(x, norm, 1e-5);
            const at::Tensor g = kernels::silu_mul(x, n);
            at::Tensor t = x.clone().view({301, 5, 64});
            kernels::rope_(t, angles.cos(), angles.sin());
            if (threads == 1) {
                product = p;
                normed = n;
                gated = g;
                turned = t;
            }
            REQUIRE(same_bits(p, product));
            REQUIRE(same_bits(n, normed));
            REQUIRE(same_bits(g, gated));
            REQUIRE(same_bits(t, turned));
        }
    }
}

TEST_CASE("AVX2 and AVX-512 give the same bits", "[kernels][dense]") {
    if (!kernels::is_available(Isa::avx512)) SKIP("this processor has no AVX-512");
    Random random(4);
    for (const Shape& s : shapes(random)) {
        const at::Tensor x = random.normal({s.rows, s.in});
        const at::Tensor w = random.normal({s.out, s.in}, 1.0, random.pick(weight_types));
        at::Tensor wide, narrow;
        {
            const Setting setting(Isa::avx512);
            wide = kernels::linear(x, w);
        }
        {
            const Setting setting(Isa::avx2);
            narrow = kernels::linear(x, w);
        }
        CAPTURE(s.rows, s.in, s.out);
        REQUIRE(same_bits(wide, narrow));
    }
}

TEST_CASE("elementwise and norm kernels agree with their references", "[kernels][dense]") {
    Random random(5);
    for (const Isa isa : test::own_isas()) {
        const Setting setting(isa);
        for (int round = 0; round < 20; ++round) {
            const int64_t rows = random.between(1, 40);
            const int64_t n = random.between(1, 500);
            const at::Tensor x = random.normal({rows, n}, 5.0);
            const at::Tensor y = random.normal({rows, n});
            const at::Tensor w = random.normal({n}, 1.0, random.pick(weight_types));
            CAPTURE(rows, n, std::string(to_string(isa)));
            REQUIRE(relative_error(kernels::rms_norm(x, w, 1e-5), kernels::reference::rms_norm(x, w, 1e-5)) <
                    1e-6);
            REQUIRE(relative_error(kernels::silu_mul(x, y), kernels::reference::silu_mul(x, y)) < 1e-6);
            const auto gelu = [&](const auto& gated) { return gated(kernels::Activation::gelu_tanh, x, y); };
            REQUIRE(relative_error(gelu(kernels::gated), gelu(kernels::reference::gated)) < 1e-6);
            at::Tensor capped = x.clone();
            kernels::soft_cap_(capped, 4.0);
            REQUIRE((capped - at::tanh(x.to(at::kDouble) / 4) * 4).abs().max().item<double>() < 4e-6);
            const int64_t heads = random.between(1, 6);
            const int64_t half = random.between(1, 40);
            const at::Tensor angles = random.normal({rows, half}, 10.0);
            at::Tensor ours = random.normal({rows, heads, 2 * half});
            at::Tensor reference = ours.clone();
            kernels::rope_(ours, angles.cos(), angles.sin());
            kernels::reference::rope_(reference, angles.cos(), angles.sin());
            REQUIRE(relative_error(ours, reference) < 1e-6);
            // The first channels alone.
            at::Tensor part = random.normal({rows, heads, 2 * half + 6});
            const at::Tensor whole = part.clone();
            at::Tensor turned = part.narrow(2, 0, 2 * half).contiguous();
            kernels::rope_(part, angles.cos(), angles.sin());
            kernels::rope_(turned, angles.cos(), angles.sin());
            REQUIRE(same_bits(part.narrow(2, 0, 2 * half).contiguous(), turned));
            REQUIRE(same_bits(part.narrow(2, 2 * half, 6).contiguous(),
                              whole.narrow(2, 2 * half, 6).contiguous()));
        }
    }
}

TEST_CASE("a zero-padded row is normed by its true width", "[kernels][dense]") {
    Random random(6);
    for (const Isa isa : kernels::available_isas()) {
        const Setting setting(isa);
        const int64_t width = random.between(1, 200);
        const int64_t padded = width + random.between(1, 40);
        const at::Tensor x = random.normal({3, width});
        const at::Tensor w = random.normal({width});
        const at::Tensor wide = at::constant_pad_nd(x, {0, padded - width});
        const at::Tensor y =
            kernels::rms_norm(wide, at::constant_pad_nd(w, {0, padded - width}), 1e-5, width);
        REQUIRE(relative_error(y.narrow(1, 0, width), kernels::reference::rms_norm(x, w, 1e-5)) < 1e-6);
        REQUIRE(y.narrow(1, width, padded - width).eq(0).all().item<bool>());
    }
}

TEST_CASE("rope keeps lengths and undoes itself with the opposite angle", "[kernels][dense]") {
    Random random(7);
    at::Tensor x = random.normal({9, 4, 64});
    const at::Tensor before = x.clone();
    const at::Tensor angles = random.normal({9, 32}, 100.0);
    kernels::rope_(x, angles.cos(), angles.sin());
    REQUIRE(relative_error(x.norm(2, -1), before.norm(2, -1)) < 1e-6);
    REQUIRE(relative_error(x, before) > 0.1);
    kernels::rope_(x, angles.cos(), -angles.sin());
    REQUIRE(relative_error(x, before) < 1e-6);
}

TEST_CASE("rope turns a strided view in place and nothing beside it", "[kernels][dense]") {
    Random random(8);
    const at::Tensor fused = random.normal({5, 10, 16});
    const at::Tensor before = fused.clone();
    at::Tensor view = fused.narrow(1, 2, 4);
    const at::Tensor angles = random.normal({5, 8});
    at::Tensor expected = view.contiguous();
    kernels::rope_(expected, angles.cos(), angles.sin());
    kernels::rope_(view, angles.cos(), angles.sin());
    REQUIRE(same_bits(view, expected));
    REQUIRE(same_bits(fused.narrow(1, 0, 2), before.narrow(1, 0, 2)));
    REQUIRE(same_bits(fused.narrow(1, 6, 4), before.narrow(1, 6, 4)));
}

TEST_CASE("gelu and the soft cap are exact at their ends and pass NaN on", "[kernels][dense]") {
    const float inf = std::numeric_limits<float>::infinity();
    const at::Tensor ends = at::tensor({0.0F, 1000.0F, -1000.0F, std::nanf(""), 1e-6F, inf});
    for (const Isa isa : test::own_isas()) {
        const Setting setting(isa);
        const at::Tensor y = kernels::gated(kernels::Activation::gelu_tanh, ends, at::ones_like(ends));
        REQUIRE((y[0].item<float>() == 0.0F && y[1].item<float>() == 1000.0F && y[2].item<float>() == 0.0F));
        REQUIRE(std::isnan(y[3].item<float>()));
        at::Tensor capped = ends.clone();
        kernels::soft_cap_(capped, 5.0);
        REQUIRE((capped[0].item<float>() == 0.0F && capped[1].item<float>() == 5.0F));
        REQUIRE((capped[2].item<float>() == -5.0F && capped[5].item<float>() == 5.0F));
        REQUIRE(std::isnan(capped[3].item<float>()));
        REQUIRE(std::abs(capped[4].item<float>() - 1e-6F) < 1e-12F); // no digit is lost near 0
    }
}

TEST_CASE("silu is exact at its ends and passes NaN on", "[kernels][dense]") {
    const float inf = std::numeric_limits<float>::infinity();
    const at::Tensor gate = at::tensor({0.0F, 1000.0F, -1000.0F, -inf, inf, std::nanf(""), 87.5F, -87.5F});
    for (const Isa isa : test::own_isas()) {
        const Setting setting(isa);
        const at::Tensor y = kernels::silu_mul(gate, at::ones_like(gate));
        REQUIRE(y[0].item<float>() == 0.0F);
        REQUIRE(y[1].item<float>() == 1000.0F);
        REQUIRE(y[2].item<float>() == 0.0F);
        REQUIRE(y[4].item<float>() == inf);
        REQUIRE(std::isnan(y[5].item<float>()));
        REQUIRE(y[6].item<float>() == 87.5F);
    }
}

TEST_CASE("every half-precision weight is read exactly", "[kernels][dense]") {
    // All 65,536 patterns of both formats, NaN compared as NaN.
    const at::Tensor bits = at::arange(65536, at::kInt).to(at::kShort).view({65536, 1});
    const at::Tensor one = at::ones({1, 1});
    for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
        const at::Tensor w = bits.view(type);
        const at::Tensor expected = w.to(at::kFloat).view({1, 65536});
        for (const Isa isa : test::own_isas()) {
            const Setting setting(isa);
            CAPTURE(std::string(to_string(isa)), std::string(at::toString(type)));
            REQUIRE(at::allclose(kernels::linear(one, w), expected, 0.0, 0.0, /*equal_nan=*/true));
        }
    }
}

TEST_CASE("dense ops refuse shapes that do not fit", "[kernels][dense]") {
    REQUIRE_THROWS_AS(kernels::linear(at::ones({2, 3}), at::ones({4, 5})), InvariantError);
    REQUIRE_THROWS_AS(kernels::linear(at::ones({2, 3}), at::ones({4, 3}), at::ones({3})), InvariantError);
    REQUIRE_THROWS_AS(kernels::linear(at::ones({2, 3}), at::ones({4, 3}, at::kDouble)), InvariantError);
    REQUIRE_THROWS_AS(kernels::rms_norm(at::ones({2, 3}), at::ones({3}), 1e-5, 4), InvariantError);
    REQUIRE_THROWS_AS(kernels::silu_mul(at::ones({2, 3}), at::ones({3})), InvariantError);
    REQUIRE(kernels::linear(at::ones({0, 3}), at::ones({4, 3})).sizes() == at::IntArrayRef({0, 4}));
}

} // namespace
} // namespace refreshlab
