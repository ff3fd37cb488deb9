#include "kernels/ops/dropout.h"
#include "kernels/shared/check.h"
#include "kernels/shared/philox.h"
#include "tests/kernels/kernel_fixture.h"

#include <array>

namespace refreshlab {
namespace {

using kernels::DropoutKey;
using kernels::DropoutSite;
using kernels::Isa;
using test::Random;
using test::same_bits;
using test::Setting;

TEST_CASE("Philox4x32-10 gives the published answers", "[kernels][dropout]") {
    // kat_vectors of Random123 (Salmon et al. 2011).
    struct Vector {
        std::array<uint32_t, 4> counter;
        std::array<uint32_t, 2> key;
        std::array<uint32_t, 4> answer;
    };
    const std::vector<Vector> vectors{
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (const Vector& v : vectors) {
        const kernels::shared::Philox4 out = kernels::shared::philox4x32(
            {{v.counter[0], v.counter[1], v.counter[2], v.counter[3]}}, v.key[0], v.key[1]);
        for (size_t i = 0; i < 4; ++i)
            REQUIRE(out.word[i] == v.answer[i]);
    }
}

TEST_CASE("a mask draw is where the counter layout says", "[kernels][dropout]") {
    const DropoutKey key{0x0123456789abcdefULL, 0x12345, 0x0ab, 0x0123};
    const uint64_t element =
        (uint64_t{5} << 32) | 0x1023; // head 5, key position 4131 = 32 * 128 + 35: call 515, half 2
    const kernels::shared::Philox4 bits =
        kernels::shared::philox4x32({{0x203, 5, 0x12345, 0x00ab0123}}, 0x89abcdef, 0x01234567);
    const double draw = bits.word[1] & 0xFFFFU;
    const float below = static_cast<float>((draw - 0.25) / 65536.0); // rounds to the draw itself: kept
    const float above = static_cast<float>((draw + 0.75) / 65536.0); // rounds to the next threshold: dropped
    REQUIRE(kernels::dropout_keeps(key, DropoutSite::attention, element, below));
    REQUIRE_FALSE(kernels::dropout_keeps(key, DropoutSite::attention, element, above));
}

TEST_CASE("rows are dropped exactly where dropout_keeps says", "[kernels][dropout]") {
    Random random(21);
    for (int round = 0; round < 12; ++round) {
        const int64_t rows = random.between(1, 9);
        const int64_t channels = random.pick<int64_t>({1, 7, 8, 127, 128, 129, 144, 500});
        const at::Tensor before = random.normal({rows, channels});
        const DropoutKey key{static_cast<uint64_t>(random.between(0, int64_t{1} << 62)),
                             random.between(0, 100000), static_cast<int32_t>(random.between(0, 40)), 0};
        const DropoutSite site =
            random.pick<DropoutSite>({DropoutSite::attention_output, DropoutSite::mlp_output});
        const float p = static_cast<float>(random.uniform(0.01, 0.9));
        std::vector<int32_t> passes;
        for (int64_t r = 0; r < rows; ++r)
            passes.push_back(static_cast<int32_t>(random.between(0, 3)));
        at::Tensor expected = before.clone();
        for (int64_t r = 0; r < rows; ++r) {
            DropoutKey row_key = key;
            row_key.pass = passes[static_cast<size_t>(r)];
            for (int64_t c = 0; c < channels && row_key.pass != 0; ++c) {
                expected[r][c] *=
                    dropout_keeps(row_key, site, static_cast<uint64_t>(c), p) ? 1.0F / (1.0F - p) : 0.0F;
            }
        }
        for (const Isa isa : test::own_isas()) {
            for (const int threads : {1, 3}) {
                const Setting setting(isa, threads);
                at::Tensor x = before.clone();
                kernels::dropout_rows_(x, key, passes, site, p);
                REQUIRE(same_bits(x, expected));
            }
        }
    }
}

TEST_CASE("a draw equal to the threshold is kept, the next threshold drops it", "[kernels][dropout]") {
    const DropoutKey key{7, 8, 9, 1};
    const std::vector<int32_t> passes{1};
    for (const Isa isa : test::own_isas()) {
        const Setting setting(isa);
        for (uint32_t c = 0; c < 256; c += 5) { // every half of the result, two blocks
            const uint32_t call = c / 128 * 16 + c % 16;
            const uint32_t half = c / 16 % 8;
            const kernels::shared::Philox4 bits =
                kernels::shared::philox4x32({{call, 0, 8, 0x20090001}}, 7, 0); // site mlp_output = 2
            const uint32_t draw = (bits.word[half / 2] >> (16 * (half % 2))) & 0xFFFFU;
            at::Tensor at_threshold = at::ones({1, 256});
            kernels::dropout_rows_(at_threshold, key, passes, DropoutSite::mlp_output,
                                   static_cast<float>(draw) / 65536.0F);
            REQUIRE(at_threshold[0][c].item<float>() >= 1.0F);
            if (draw == 0xFFFFU) continue; // the next threshold would be p = 1
            at::Tensor above = at::ones({1, 256});
            kernels::dropout_rows_(above, key, passes, DropoutSite::mlp_output,
                                   static_cast<float>(draw + 1) / 65536.0F);
            REQUIRE(above[0][c].item<float>() == 0.0F);
        }
    }
}

TEST_CASE("masks have the right share and do not repeat", "[kernels][dropout]") {
    const int64_t channels = 20000;
    const auto mask = [&](const DropoutKey& key, DropoutSite site, float p) {
        at::Tensor x = at::ones({1, channels});
        const std::vector<int32_t> passes{key.pass};
        kernels::dropout_rows_(x, key, passes, site, p);
        return x.ne(0).to(at::kDouble);
    };
    const DropoutKey base{99, 17, 2, 1};
    for (const float p : {0.1F, 0.5F, 0.9F}) {
        const at::Tensor reference = mask(base, DropoutSite::mlp_output, p);
        const double keep = 1.0 - static_cast<double>(p);
        const double sd = std::sqrt(keep * (1 - keep) / static_cast<double>(channels));
        REQUIRE(std::abs(reference.mean().item<double>() - keep) < 5 * sd);
        // Neighbouring elements and every field of the key are independent: covariance of two masks near 0.
        const at::Tensor centred = reference - keep;
        const auto covariance = [&](const at::Tensor& other) {
            return (centred * (other - keep)).mean().item<double>();
        };
        const double bound = 5 * keep * (1 - keep) / std::sqrt(static_cast<double>(channels));
        DropoutKey seed = base, position = base, layer = base, pass = base;
        seed.seed += 1;
        position.position += 1;
        layer.layer += 1;
        pass.pass += 1;
        for (const DropoutKey& key : {seed, position, layer, pass}) {
            REQUIRE(std::abs(covariance(mask(key, DropoutSite::mlp_output, p))) < bound);
        }
        REQUIRE(std::abs(covariance(mask(base, DropoutSite::attention_output, p))) < bound);
        for (const int64_t shift : {1, 2, 8})
            REQUIRE(std::abs(covariance(reference.roll(shift))) < bound);
        REQUIRE(
            same_bits(mask(base, DropoutSite::mlp_output, p), reference)); // and the same key the same mask
    }
}

TEST_CASE("p = 0 and pass 0 leave every bit", "[kernels][dropout]") {
    at::Tensor x =
        at::tensor({0.0F, -0.0F, std::nanf(""), 1e-42F, std::numeric_limits<float>::infinity(), 1.0F})
            .view({2, 3});
    const at::Tensor before = x.clone();
    kernels::dropout_rows_(x, {}, std::vector<int32_t>{1, 2}, DropoutSite::mlp_output, 0.0F);
    REQUIRE(same_bits(x, before));
    kernels::dropout_rows_(x, {}, std::vector<int32_t>{0, 0}, DropoutSite::mlp_output, 0.5F);
    REQUIRE(same_bits(x, before));
}

TEST_CASE("views and half-precision rows get the same masks", "[kernels][dropout]") {
    Random random(22);
    const at::Tensor before = random.normal({3, 200});
    const std::vector<int32_t> passes{0, 1, 2};
    at::Tensor plain = before.clone();
    kernels::dropout_rows_(plain, {5, 6, 7, 0}, passes, DropoutSite::mlp_output, 0.5F);
    at::Tensor transposed = before.t().contiguous().t(); // column-major storage
    kernels::dropout_rows_(transposed, {5, 6, 7, 0}, passes, DropoutSite::mlp_output, 0.5F);
    REQUIRE(same_bits(transposed, plain));
    at::Tensor half = before.to(at::kBFloat16);
    kernels::dropout_rows_(half, {5, 6, 7, 0}, passes, DropoutSite::mlp_output, 0.5F);
    REQUIRE(at::equal(half.ne(0), plain.ne(0)));
}

TEST_CASE("keys outside the counter's fields are refused", "[kernels][dropout]") {
    REQUIRE_THROWS_AS(kernels::dropout_keeps({0, 0, 4096, 0}, DropoutSite::attention, 0, 0.1F),
                      InvariantError);
    REQUIRE_THROWS_AS(kernels::dropout_keeps({0, 0, 0, 65536}, DropoutSite::attention, 0, 0.1F),
                      InvariantError);
    REQUIRE_THROWS_AS(kernels::dropout_keeps({0, -1, 0, 0}, DropoutSite::attention, 0, 0.1F), InvariantError);
    REQUIRE_THROWS_AS(kernels::dropout_keeps({0, 0, 0, 1}, DropoutSite::attention, 0, 1.0F), InvariantError);
}

} // namespace
} // namespace refreshlab
