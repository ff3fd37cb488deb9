#include "kernels/cuda/rows/row_kernels.h"
#include "tests/kernels/simt/block_fixture.h"
#include "tests/kernels/simt/rows_fixture.h"

#include <deque>

/// Products of many rows with matrices in blocks: against the plain references with activations and weights that were rounded alike, and the same
/// bits in a row whatever other rows are in the pass.
namespace refreshlab::test::block_rows_simt {
namespace {

using namespace block_simt;
using rows_simt::Architecture;
using rows_simt::equal_but_rounding;
using Then = gpu::RowsProductInputs::Then;

constexpr double tolerance = 1e-5;

/// A product with everything but its rows; of matrices below each other, or gate and up.
class Product {
public:
    /// \param parts  of the inputs; more than one are merged as the kernels behind the product do
    Product(Random& random, BlockType type, Then then, int64_t most_rows, int64_t inputs,
            const std::vector<int64_t>& outputs, int64_t parts = 1)
        : m_then(then)
        , m_parts(parts)
        , m_x(random.normal({most_rows, inputs}).to(at::kBFloat16)) {
        for (const int64_t n : outputs)
            m_matrices.emplace_back(random, type, n, inputs, random.between(0, 1) == 1, "matrix");
        int64_t all = 0;
        for (const int64_t n : outputs)
            all += n;
        m_before = random.normal({most_rows, then == Then::gated ? outputs[0] : all});
    }

    [[nodiscard]] at::Tensor expected() const {
        std::vector<at::Tensor> parts;
        for (const BlockMatrix& m : m_matrices)
            parts.push_back(m.product(m_x.to(at::kFloat), m.rounded()));
        if (m_then == Then::gated) return kernels::reference::silu_mul(parts[0], parts[1]);
        const at::Tensor all = at::cat(parts, 1);
        return m_then == Then::onto ? m_before + all : all;
    }

    /// Rows [first, first + rows) alone.
    [[nodiscard]] at::Tensor run(int64_t first, int64_t rows) const {
        const auto x = bytes_on_device(m_x.narrow(0, first, rows), "in");
        const auto onto = bytes_on_device(m_before.narrow(0, first, rows), "out", Contents::written);
        const at::ScalarType of_out = m_then == Then::gated ? at::kBFloat16 : at::kFloat;
        const int64_t outputs = m_before.size(1);
        const Array<uint8_t> out(static_cast<size_t>(rows * outputs) * c10::elementSize(of_out), "out");
        const Array<uint8_t>& to = m_then == Then::onto ? onto : out;
        gpu::RowsProductInputs in;
        in.type = WeightType::bf16;
        in.form = m_matrices[0].in_use.form;
        in.then = m_then;
        in.in = x.data();
        in.matrix = m_matrices[0].in_use.data;
        in.bias = m_matrices[0].in_use.bias;
        in.outputs = m_matrices[0].in_use.outputs;
        for (size_t m = 1; m < m_matrices.size(); ++m) {
            const gpu::Matrix& other = m_matrices[m].in_use;
            if (m_then == Then::gated) {
                in.up = other.data;
                in.up_bias = other.bias;
            } else {
                in.below[m - 1] = {other.data, other.bias, other.outputs};
            }
        }
        in.rows = rows;
        in.inputs = m_x.size(1);
        in.out = to.data();
        in.out_stride = outputs;
        if (m_parts > 1) return merged(in);
        gpu::launch_rows_product(in, nullptr);
        return tensor_of(to, {rows, outputs}, of_out);
    }

private:
    [[nodiscard]] at::Tensor merged(gpu::RowsProductInputs in) const {
        const Array<float> sums(static_cast<size_t>(m_parts * in.rows * in.out_stride), "parts");
        in.parts = {m_parts, sums.data()};
        in.out = nullptr;
        gpu::launch_rows_product(in, nullptr);
        const at::Tensor parts = tensor_of(sums, {m_parts, in.rows, in.out_stride});
        at::Tensor sum = parts[0].clone();
        for (int64_t p = 1; p < m_parts; ++p)
            sum += parts[p];
        int64_t first = 0;
        for (const BlockMatrix& m : m_matrices) {
            if (m.in_use.bias != nullptr) sum.narrow(1, first, m.in_use.outputs) += m.bias.values;
            first += m.in_use.outputs;
        }
        return sum;
    }

    Then m_then;
    int64_t m_parts;
    at::Tensor m_x, m_before;
    std::deque<BlockMatrix> m_matrices;
};

void check(const Product& product, int64_t most, const std::vector<int64_t>& counts) {
    const at::Tensor all = product.run(0, most), expected = product.expected();
    for (int64_t r = 0; r < most; ++r) {
        CAPTURE(r);
        REQUIRE(equal_but_rounding(all[r], expected[r], tolerance));
    }
    for (const int64_t rows : counts) {
        CAPTURE(rows);
        REQUIRE(same_bits(product.run(most - rows, rows), all.narrow(0, most - rows, rows)));
    }
}

std::vector<int64_t> outputs_of(Then then, int64_t n) {
    return then == Then::gated ? std::vector<int64_t>{n, n} : std::vector<int64_t>{n};
}

TEST_CASE("products of many rows with matrices in blocks equal the reference, and a row keeps its bits",
          "[simt][blocks]") {
    Random random(1411);
    for (const BlockType type : block_types) {
        for (const Then then : {Then::store, Then::onto, Then::gated}) {
            const int64_t inputs = 32 * random.between(3, 6),
                          outputs = random.pick(std::vector<int64_t>{48, 80});
            CAPTURE(static_cast<int>(type), static_cast<int>(then), inputs, outputs);
            check(Product(random, type, then, 66, inputs, outputs_of(then, outputs)), 66,
                  {2, 7, 9, 16, 33, 64, 65});
        }
        for (const int64_t inputs : {32, 64, 1056}) {
            const Then then = random.pick(std::vector<Then>{Then::store, Then::onto, Then::gated});
            CAPTURE(static_cast<int>(type), static_cast<int>(then), inputs);
            check(Product(random, type, then, 9, inputs, outputs_of(then, 16)), 9, {2, 8});
        }
        check(Product(random, type, Then::store, 19, 96, {48, 16, 32}), 19, {3}); // q, k and v
        check(Product(random, type, Then::store, 70, 352, {48, 16, 32}, 3), 70,
              {3, 66}); // in parts, the last of 3 blocks
    }
}

TEST_CASE("long matrices in blocks get blocks of every shape, which the smallest device holds",
          "[simt][blocks]") {
    Random random(1412);
    const Architecture smallest(86);
    for (const BlockType type : block_types) {
        for (const int64_t outputs : {2208, 4304, 8512}) { // 2 and 4 pairs of warps; two tiles of a matrix
            const int64_t rows = random.pick(std::vector<int64_t>{2, 9, 17, 33});
            CAPTURE(static_cast<int>(type), outputs, rows);
            check(Product(random, type, Then::onto, rows, 32, {outputs}), rows, {1});
        }
        check(Product(random, type, Then::gated, 33, 32, {4304, 4304}), 33, {2});
    }
}

TEST_CASE("products of many rows with matrices in blocks have the same bits in every order",
          "[simt][blocks]") {
    Random random(1413);
    for (const BlockType type : block_types) {
        const Product product(random, type, Then::gated, 19, 160, {48, 48});
        at::Tensor first;
        simt::in_orders(3, [&](uint64_t order) {
            const at::Tensor got = product.run(0, 19);
            if (order == 0) first = got;
            REQUIRE(same_bits(got, first));
        });
    }
}

} // namespace
} // namespace refreshlab::test::block_rows_simt
