#include "kernels/blocks/blocks.h"
#include "kernels/ops/dense.h"
#include "tests/kernels/kernel_fixture.h"

#include <array>
#include <cstddef>
#include <map>

namespace refreshlab {
namespace {

using kernels::BlockType;
using kernels::Isa;
using test::Random;
using test::same_bits;
using test::Setting;

constexpr std::array types = {BlockType::q8_0, BlockType::q4_0, BlockType::q4_1};

/// A random matrix as a file stores it, and its numbers by the definition of its type.
struct Stored {
    int64_t out, in;
    std::vector<std::byte> bytes;
    at::Tensor values; ///< fp32
    at::Tensor packed;
};

/// 2^-15 to 2^1, either sign: every fp16 pattern of that range.
uint16_t half_bits(Random& random) {
    return static_cast<uint16_t>(random.between(0, 1) << 15 | random.between(0x0200, 0x3FFF));
}
float half_value(uint16_t bits) {
    return static_cast<float>(c10::Half(bits, c10::Half::from_bits()));
}

Stored stored_matrix(Random& random, BlockType type, int64_t out, int64_t in) {
    Stored m{out, in, {}, at::empty({out, in}, at::kFloat), {}};
    float* value = m.values.mutable_data_ptr<float>();
    const auto put_half = [&](uint16_t bits) {
        m.bytes.push_back(static_cast<std::byte>(bits & 0xFF));
        m.bytes.push_back(static_cast<std::byte>(bits >> 8));
        return half_value(bits);
    };
    for (int64_t block = 0; block < out * in / kernels::block_width; ++block) {
        const float d = put_half(half_bits(random));
        const float low = type == BlockType::q4_1 ? put_half(half_bits(random)) : 0.0F;
        if (type == BlockType::q8_0) {
            for (int64_t k = 0; k < 32; ++k) {
                const auto q = static_cast<int8_t>(random.between(-128, 127));
                m.bytes.push_back(static_cast<std::byte>(q));
                *value++ = d * static_cast<float>(q);
            }
            continue;
        }
        const float offset = type == BlockType::q4_0 ? -8.0F : 0.0F;
        for (int64_t k = 0; k < 16; ++k) { // a byte: numbers k and k + 16
            const int64_t first = random.between(0, 15), second = random.between(0, 15);
            m.bytes.push_back(static_cast<std::byte>(first | second << 4));
            value[k] = d * (static_cast<float>(first) + offset);
            value[k + 16] = d * (static_cast<float>(second) + offset);
            if (type == BlockType::q4_1) {
                value[k] = value[k] + low;
                value[k + 16] = value[k + 16] + low;
            }
        }
        value += 32;
    }
    const int64_t row_bytes = in / kernels::block_width * kernels::stored_block_bytes(type);
    m.packed =
        kernels::pack_blocks(type, out, in, [&](int64_t row) { return m.bytes.data() + row * row_bytes; });
    return m;
}

TEST_CASE("a packed matrix holds the numbers of its stored blocks, bit for bit, row by row",
          "[kernels][blocks]") {
    Random random(41);
    for (const BlockType type : types) {
        for (int i = 0; i < 4; ++i) {
            const Stored m =
                stored_matrix(random, type, 16 * random.between(1, 9), 32 * random.between(1, 11));
            const kernels::BlockShape shape = kernels::block_shape(m.packed);
            CHECK(shape.type == type);
            CHECK(shape.out == m.out);
            CHECK(shape.in == m.in);
            CHECK(static_cast<size_t>(m.packed.nbytes()) == m.bytes.size()); // not a byte more than the file
            CHECK(same_bits(kernels::block_values(m.packed), m.values));
            const std::vector<int64_t> ids{m.out - 1, random.between(0, m.out - 1), 0};
            const at::Tensor rows = kernels::block_values(m.packed, ids);
            for (size_t r = 0; r < ids.size(); ++r)
                CHECK(same_bits(rows[static_cast<int64_t>(r)], m.values[ids[r]]));
        }
    }
}

TEST_CASE("a product with blocks agrees with float64 for every shape, type and kernel set",
          "[kernels][blocks]") {
    Random random(42);
    for (const BlockType type : types) {
        for (int i = 0; i < 10; ++i) {
            const int64_t rows = i < 8 ? i + 1 : random.between(9, 40);
            const Stored m =
                stored_matrix(random, type, 16 * random.between(1, 6), 32 * random.between(1, 24));
            const at::Tensor x = random.normal({rows, m.in});
            const at::Tensor bias = random.between(0, 1) == 1 ? random.normal({m.out}) : at::Tensor();
            at::Tensor expected = at::matmul(x.to(at::kDouble), m.values.to(at::kDouble).t());
            if (bias.defined()) expected = expected + bias.to(at::kDouble);
            // A minimum and its numbers may cancel: what is summed counts, and that is at most 16 steps of |d| more.
            const at::Tensor scale = at::matmul(x.abs(), m.values.abs().t() + 32.0) + 1.0;
            for (const Isa isa : kernels::available_isas()) {
                const Setting setting(isa);
                const at::Tensor y = kernels::linear(x, m.packed, bias);
                CAPTURE(rows, m.in, m.out, static_cast<int>(type), std::string(to_string(isa)));
                REQUIRE(y.scalar_type() == at::kFloat);
                REQUIRE(((y.to(at::kDouble) - expected).abs() / scale).max().item<double>() < 1e-6);
            }
        }
    }
}

TEST_CASE(
    "a row of a product with blocks has the same bits alone, in any company, and on any number of threads",
    "[kernels][blocks]") {
    Random random(43);
    for (const BlockType type : types) {
        const Stored m = stored_matrix(random, type, 16 * random.between(2, 30), 32 * random.between(1, 30));
        const int64_t rows = random.between(14, 240); // several blocks of rows where `in` is large
        const at::Tensor x = random.normal({rows, m.in});
        std::map<std::string, at::Tensor> of_class;
        for (const Isa isa : test::own_isas()) {
            at::Tensor whole;
            for (const int threads : {1, 2, 5}) {
                const Setting setting(isa, threads);
                const at::Tensor y = kernels::linear(x, m.packed);
                if (whole.defined()) REQUIRE(same_bits(y, whole));
                whole = y;
            }
            const Setting setting(isa);
            CAPTURE(m.in, m.out, rows, std::string(to_string(isa)));
            for (const int64_t n : {1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13, 14}) {
                const int64_t first = random.between(0, rows - n);
                REQUIRE(
                    same_bits(kernels::linear(x.narrow(0, first, n), m.packed), whole.narrow(0, first, n)));
            }
            // Some tiles of it alone.
            const int64_t tile = random.between(0, m.out / 16 - 1);
            REQUIRE(same_bits(kernels::linear(x, m.packed.narrow(0, tile, 1)),
                              whole.narrow(1, 16 * tile, 16).contiguous()));
            // Sets of one class have one set of bits.
            const auto [same, is_new] = of_class.emplace(std::string(bit_class(isa)), whole);
            if (!is_new) REQUIRE(same_bits(same->second, whole));
        }
    }
}

TEST_CASE("a product with blocks reads its row alone", "[kernels][blocks]") {
    Random random(44);
    for (const BlockType type : types) {
        const Stored m = stored_matrix(random, type, 48, 96);
        for (const Isa isa : test::own_isas()) {
            const Setting setting(isa);
            const int64_t rows = random.pick<int64_t>({1, 9, 33});
            at::Tensor x = random.normal({rows, m.in});
            const at::Tensor before = kernels::linear(x, m.packed);
            const int64_t poisoned = random.between(0, rows - 1);
            x[poisoned].fill_(test::nan);
            const at::Tensor after = kernels::linear(x, m.packed);
            for (int64_t r = 0; r < rows; ++r) {
                if (r == poisoned)
                    CHECK(after[r].isnan().all().item<bool>());
                else
                    CHECK(same_bits(after[r], before[r]));
            }
        }
    }
}

} // namespace
} // namespace refreshlab
