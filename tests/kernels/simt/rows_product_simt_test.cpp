#include "kernels/cuda/rows/row_kernels.h"
#include "kernels/decode/scratch.h"
#include "kernels/ops/dense.h"
#include "tests/kernels/simt/rows_fixture.h"

#include <deque>

/// Products of many rows on the host machine: against the plain references with activations that were rounded alike, and the same bits in
/// a row whatever other rows are in the pass, however a launch is cut into blocks, and in whatever order they come.
namespace refreshlab::test::rows_product_simt {
namespace {

using namespace rows_simt;
using Then = gpu::RowsProductInputs::Then;

constexpr double tolerance = 1e-5;

/// A product with everything but its rows.
class Product {
public:
    Product(Random& random, WeightType type, Then then, int64_t most_rows, int64_t inputs, int64_t outputs)
        : m_type(type)
        , m_then(then)
        , m_activation(random.between(0, 1) == 1 ? kernels::Activation::gelu_tanh : kernels::Activation::silu)
        , m_cap(then == Then::store && random.between(0, 2) == 0 ? 1.5 : 0)
        , m_x(random.normal({most_rows, inputs}))
        , m_before(random.normal({most_rows, outputs}))
        , m_matrix(random, outputs, inputs, type, random.between(0, 1) == 1, "matrix")
        , m_up(random, outputs, inputs, type, random.between(0, 1) == 1, "up") {}

    [[nodiscard]] at::Tensor expected(bool whole = true) const {
        const at::Tensor x = m_x.to(dtype_of(m_type)).to(at::kFloat);
        const auto of = [&](const TestMatrix& m) {
            return kernels::reference::linear(x, m.weight.values, m.reference_bias());
        };
        if (m_then == Then::gated) return kernels::reference::gated(m_activation, of(m_matrix), of(m_up));
        at::Tensor y = of(m_matrix);
        if (m_cap > 0 && whole) kernels::reference::soft_cap_(y, m_cap);
        return m_then == Then::onto ? m_before + y : y;
    }

    /// Rows [first, first + rows) alone in so many parts, merged as the kernels behind it do. What stands in out is never looked at.
    [[nodiscard]] at::Tensor run_parts(int64_t first, int64_t rows, int64_t count) const {
        const int64_t outputs = m_before.size(1);
        const auto x = bytes_on_device(m_x.narrow(0, first, rows).to(dtype_of(m_type)), "in");
        const Array<float> parts(static_cast<size_t>(count * rows * outputs), "parts");
        gpu::RowsProductInputs in;
        in.type = m_type;
        in.then = m_then;
        in.in = x.data();
        in.matrix = m_matrix.in_use.data;
        in.bias = m_matrix.in_use.bias;
        in.rows = rows;
        in.inputs = m_x.size(1);
        in.outputs = outputs;
        in.out_stride = outputs;
        in.parts = {count, parts.data()};
        gpu::launch_rows_product(in, nullptr);
        const at::Tensor of = tensor_of(parts, {count, rows, outputs});
        at::Tensor sum = of[0].clone();
        for (int64_t p = 1; p < count; ++p)
            sum += of[p];
        if (m_matrix.in_use.bias != nullptr) sum += m_matrix.bias.values;
        return m_then == Then::onto ? m_before.narrow(0, first, rows) + sum : sum;
    }

    /// Rows [first, first + rows) alone, in a row of `apart` more numbers than there are outputs.
    [[nodiscard]] at::Tensor run(int64_t first, int64_t rows, int64_t apart = 0) const {
        const int64_t outputs = m_before.size(1), stride = outputs + apart;
        const auto x = bytes_on_device(m_x.narrow(0, first, rows).to(dtype_of(m_type)), "in");
        const at::ScalarType of_out = m_then == Then::gated ? dtype_of(m_type) : at::kFloat;
        at::Tensor before = at::full({rows, stride}, nan);
        before.narrow(1, 0, outputs).copy_(m_before.narrow(0, first, rows));
        const auto onto = bytes_on_device(before, "out", Contents::written);
        const Array<uint8_t> out(static_cast<size_t>(rows * stride) * c10::elementSize(of_out), "out");
        const Array<uint8_t>& to = m_then == Then::onto ? onto : out;
        gpu::RowsProductInputs in;
        in.type = m_type;
        in.then = m_then;
        in.in = x.data();
        in.matrix = m_matrix.in_use.data;
        in.bias = m_matrix.in_use.bias;
        if (m_then == Then::gated) {
            in.up = m_up.in_use.data;
            in.up_bias = m_up.in_use.bias;
        }
        in.rows = rows;
        in.inputs = m_x.size(1);
        in.outputs = outputs;
        in.out = to.data();
        in.out_stride = stride;
        in.activation = m_activation;
        in.cap = m_cap;
        gpu::launch_rows_product(in, nullptr);
        const at::Tensor all = tensor_of(to, {rows, stride}, of_out);
        REQUIRE(all.narrow(1, outputs, apart).isnan().all().item<bool>());
        return all.narrow(1, 0, outputs).contiguous();
    }

private:
    WeightType m_type;
    Then m_then;
    kernels::Activation m_activation;
    double m_cap; ///< of whole sums
    at::Tensor m_x, m_before;
    TestMatrix m_matrix, m_up;
};

const std::vector<Then> all_ends{Then::store, Then::onto, Then::gated};

/// \return what all rows came to
at::Tensor check(const Product& product, int64_t most, const std::vector<int64_t>& counts) {
    const at::Tensor all = product.run(0, most), expected = product.expected();
    for (int64_t r = 0; r < most; ++r) {
        CAPTURE(r);
        REQUIRE(equal_but_rounding(all[r], expected[r], tolerance));
    }
    for (const int64_t rows : counts) {
        CAPTURE(rows);
        REQUIRE(same_bits(product.run(most - rows, rows, rows % 3), all.narrow(0, most - rows, rows)));
    }
    return all;
}

TEST_CASE("products of many rows equal the reference, and a row keeps its bits", "[simt][rows]") {
    Random random(1311);
    for (const WeightType type : weight_types) {
        for (const Then then : all_ends) {
            const int64_t inputs = 8 * random.between(9, 20),
                          outputs = random.pick(std::vector<int64_t>{41, 83});
            CAPTURE(static_cast<int>(type), static_cast<int>(then), inputs, outputs);
            (void)check(Product(random, type, then, 66, inputs, outputs), 66,
                        {2, 3, 7, 8, 9, 16, 33, 64, 65});
        }
    }
}

TEST_CASE("products of rows of odd lengths", "[simt][rows]") {
    Random random(1312);
    for (const WeightType type : weight_types) {
        for (const int64_t inputs : {int64_t{8}, int64_t{64}, int64_t{72}, int64_t{1032}}) {
            const Then then = random.pick(all_ends);
            const int64_t outputs = random.between(1, 20);
            CAPTURE(static_cast<int>(type), static_cast<int>(then), inputs, outputs);
            (void)check(Product(random, type, then, 9, inputs, outputs), 9, {2, 8});
        }
    }
    (void)check(Product(random, WeightType::f32, Then::store, 3, 4, 3), 3, {2});
    (void)check(Product(random, WeightType::f32, Then::store, 17, 36, 70), 17, {2});
}

TEST_CASE("groups of 128 rows, and the blocks that long matrices get", "[simt][rows]") {
    Random random(1313);
    (void)check(Product(random, WeightType::bf16, Then::store, 130, 72, 83), 130, {66, 128});
    // Two tiles of a matrix, and gate and up: then the sums of 128 rows take all registers.
    REQUIRE(kernels::rows::product_form(kernels::MatrixForm::numbers, 70, 2200, false, 1).tiles == 2);
    (void)check(Product(random, WeightType::f16, Then::onto, 70, 8, 2200), 70, {9});
    (void)check(Product(random, WeightType::bf16, Then::gated, 70, 72, 83), 70, {65});
    for (const int64_t outputs : {2200, 4300, 8500}) { // 2 and 4 pairs of warps; two tiles of a matrix
        const WeightType type = random.pick(weight_types);
        CAPTURE(outputs, static_cast<int>(type));
        (void)check(Product(random, type, Then::onto, 9, 8, outputs), 9, {2});
        if (outputs < 8500) (void)check(Product(random, type, Then::gated, 2, 8, outputs), 2, {1});
    }
}

TEST_CASE("products in parts of their inputs equal the reference, and a row keeps its bits", "[simt][rows]") {
    Random random(1317);
    for (const WeightType type : {WeightType::bf16, WeightType::f16}) {
        for (const Then then : {Then::store, Then::onto}) {
            // Stages of 64 inputs: the last part has fewer of them, and the last stage fewer inputs; or a part has one stage.
            for (const auto& [inputs, count] :
                 {std::pair<int64_t, int64_t>{72, 2}, {136, 3}, {8 * random.between(41, 56), 3}, {1032, 8}}) {
                const int64_t outputs = random.between(1, 90), most = inputs > 1000 ? 9 : 66;
                CAPTURE(static_cast<int>(type), static_cast<int>(then), inputs, count, outputs);
                const Product product(random, type, then, most, inputs, outputs);
                const at::Tensor all = product.run_parts(0, most, count), expected = product.expected(false);
                REQUIRE(relative_error(all, expected) <= tolerance);
                for (const int64_t rows : {1, 7, 9, 33, 65}) {
                    if (rows > most) continue;
                    CAPTURE(rows);
                    REQUIRE(same_bits(product.run_parts(most - rows, rows, count),
                                      all.narrow(0, most - rows, rows)));
                }
            }
        }
    }
}

TEST_CASE("parts of a product are long, and give the multiprocessors blocks", "[rows]") {
    using kernels::rows::product_parts;
    // Llama-3.2-3B: q | k | v, o, down; gate is made whole by its launcher.
    CHECK(product_parts(WeightType::bf16, 3072, 5120) == 2);
    CHECK(product_parts(WeightType::bf16, 3072, 3072) == 3);
    CHECK(product_parts(WeightType::bf16, 8192, 3072) == 3);
    CHECK(product_parts(WeightType::f32, 8192, 3072) == 1);
    CHECK(product_parts(WeightType::bf16, 2040, 64) == 1);
    CHECK(product_parts(WeightType::bf16, 2048, 64) == 2);
    CHECK(product_parts(WeightType::bf16, 65536, 64) == 8);
    CHECK(product_parts(WeightType::bf16, 8192, 28672) == 1); // blocks enough
    for (int64_t inputs = 8; inputs < 70000; inputs += 8) {
        const int64_t parts = product_parts(WeightType::bf16, inputs, 64);
        const int64_t stages = kernels::rows::blocks_for(inputs, kernels::rows::stage_inputs);
        REQUIRE((parts - 1) * kernels::rows::part_stages(inputs, parts) < stages); // none is empty
    }
}

TEST_CASE("the scratch of a pass has room for the parts of any of its products", "[rows]") {
    kernels::decode::DecodeShape shape; // Llama-3.2-3B's
    shape.hidden = 3072;
    shape.ffn = 8192;
    shape.layers = 28;
    shape.heads = 24;
    shape.kv_heads = 8;
    shape.head_dim = 128;
    shape.capacity = 2049;
    shape.rows = 512;
    CHECK(kernels::decode::pass_scratch(shape).parts == int64_t{2} * 512 * 5120 * 4); // of q | k | v
    shape.ffn = 16384;
    shape.hidden = 4096;
    CHECK(kernels::decode::pass_scratch(shape).parts == int64_t{3} * 512 * 4096 * 4); // of o and down
    shape.rows = 2; // then attention takes more: 9 splits of 2 rows and 24 heads
    CHECK(kernels::decode::pass_scratch(shape).parts == int64_t{2} * 24 * 9 * 132 * 4);
    shape.type = WeightType::f32;
    shape.rows = 512;
    CHECK(kernels::decode::pass_scratch(shape).parts == int64_t{64} * 24 * 9 * 132 * 4);
}

TEST_CASE("blocks of six pairs of warps make the bits of smaller ones", "[simt][rows]") {
    Random random(1318);
    // Sixty blocks of 96 gates and as many ups, where blocks of 64 would bring the activations 89 times.
    const int64_t outputs = 5700;
    for (const bool gated : {true, false}) {
        const int64_t of = gated ? outputs : 2 * outputs;
        CAPTURE(gated);
        REQUIRE(kernels::rows::product_form(kernels::MatrixForm::numbers, 34, of, gated, 1).wide());
        REQUIRE(!kernels::rows::product_form(kernels::MatrixForm::numbers, 9, of, gated, 1).wide());
        const WeightType type = gated ? WeightType::bf16 : WeightType::f16;
        (void)check(Product(random, type, gated ? Then::gated : Then::store, 34, 72, of), 34, {9});
    }
}

TEST_CASE("matrices below each other are multiplied as one", "[simt][rows]") {
    Random random(1315);
    for (const WeightType type : weight_types) {
        const int64_t inputs = 8 * random.between(1, 20), rows = random.pick(std::vector<int64_t>{2, 19});
        const int64_t count = random.between(2, 3);
        CAPTURE(static_cast<int>(type), inputs, rows, count);
        const auto x = bytes_on_device(random.normal({rows, inputs}).to(dtype_of(type)), "in");
        std::deque<TestMatrix> matrices; // they stay where they are
        int64_t total = 0;
        for (int64_t m = 0; m < count; ++m) {
            matrices.emplace_back(random, random.between(1, 90), inputs, type, m != 1, "matrix");
            total += matrices.back().in_use.outputs;
        }
        gpu::RowsProductInputs in;
        in.type = type;
        in.in = x.data();
        in.rows = rows;
        in.inputs = inputs;
        in.out_stride = total;
        const auto set = [&](const TestMatrix& m) {
            in.matrix = m.in_use.data;
            in.bias = m.in_use.bias;
            in.outputs = m.in_use.outputs;
        };
        const Array<float> apart(static_cast<size_t>(rows * total), "out of one by one");
        float* to = apart.data();
        for (const TestMatrix& m : matrices) {
            set(m);
            in.out = to;
            gpu::launch_rows_product(in, nullptr);
            to += m.in_use.outputs;
        }
        const Array<float> together(static_cast<size_t>(rows * total), "out of all");
        set(matrices[0]);
        for (int64_t m = 1; m < count; ++m) {
            const auto& below = matrices[static_cast<size_t>(m)].in_use;
            in.below[m - 1] = {below.data, below.bias, below.outputs};
        }
        in.out = together.data();
        gpu::launch_rows_product(in, nullptr);
        REQUIRE(same_bits(tensor_of(together, {rows, total}), tensor_of(apart, {rows, total})));
    }
}

TEST_CASE("products of many rows need no more shared memory than the smallest device has", "[simt][rows]") {
    Random random(1316);
    const Architecture smallest(86);
    for (const int64_t rows : {2, 9, 17, 33, 65}) // the largest blocks of each
        (void)Product(random, WeightType::bf16, Then::gated, rows, 8, rows == 33 ? 5700 : 4300).run(0, rows);
    (void)Product(random, WeightType::f32, Then::gated, 17, 8, 3).run(0, 17);
}

TEST_CASE("products of many rows have the same bits in every order", "[simt][rows]") {
    Random random(1314);
    for (const WeightType type : weight_types) {
        for (const int64_t rows : {int64_t{3}, int64_t{19}, int64_t{65}}) {
            const Then then = random.pick(all_ends);
            CAPTURE(static_cast<int>(type), static_cast<int>(then), rows);
            const Product product(random, type, then, rows, 136, 41);
            at::Tensor first;
            simt::in_orders(3, [&](uint64_t order) {
                const at::Tensor got = product.run(0, rows);
                if (order == 0) first = got;
                REQUIRE(same_bits(got, first));
            });
        }
    }
}

} // namespace
} // namespace refreshlab::test::rows_product_simt
