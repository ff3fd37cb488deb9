#include "kernels/cuda/rows/row_kernels.h"
#include "kernels/ops/dropout.h"
#include "tests/kernels/simt/block_fixture.h"

#include <deque>
#include <functional>
#include <numeric>

/// Matrices in blocks on the host machine: their layout, a step's products against the plain references of their numbers, and the same bits in a
/// row whatever other rows are in the launch and in whatever order blocks and threads come.
namespace refreshlab::test::block_products_simt {
namespace {

using namespace block_simt;

constexpr double tolerance = 1e-5, eps = 1e-5;
constexpr int64_t most_rows = 12; // two groups of rows

/// One product with everything but its rows: run(rows, launched) gives [rows, outputs] of `launched` rows.
struct Case {
    at::Tensor expected; ///< [most_rows, outputs]
    std::function<at::Tensor(int64_t rows, int64_t launched)> run;
};

void check(const Case& c, const std::vector<int64_t>& counts) {
    const at::Tensor all = c.run(most_rows, most_rows);
    for (int64_t r = 0; r < most_rows; ++r) {
        CAPTURE(r);
        REQUIRE(relative_error(all[r], c.expected[r]) <= tolerance);
    }
    for (const int64_t rows : counts) {
        CAPTURE(rows);
        REQUIRE(same_bits(c.run(rows, rows), all.narrow(0, 0, rows)));
    }
    REQUIRE(same_bits(c.run(3, most_rows), all.narrow(0, 0, 3))); // rows of the launch that the step has not
}

/// What a launch of `launched` rows made of `rows`; rows behind them must be as they were.
at::Tensor taken(const Array<float>& out, int64_t rows, int64_t launched, int64_t outputs, float before) {
    const at::Tensor all = tensor_of(out, {launched, outputs});
    const at::Tensor rest = all.narrow(0, rows, launched - rows);
    REQUIRE((std::isnan(before) ? rest.isnan().all() : (rest == before).all()).item<bool>());
    return all.narrow(0, 0, rows);
}

/// The rows, norm and matrices of a product after a norm.
struct Normed {
    Normed(Random& random, BlockType type, int64_t hidden, const std::vector<int64_t>& outputs, bool biased,
           const Kind& of_model)
        : kind(of_model)
        , x(random.normal({most_rows, hidden}, 2.0))
        , norm(random, {hidden}, WeightType::bf16, "norm", 0.3, 1.0)
        , width(hidden - random.between(0, 7)) {
        x.narrow(1, width, hidden - width).zero_();
        for (const int64_t n : outputs)
            matrices.emplace_back(random, type, n, hidden, biased, "matrix");
    }
    [[nodiscard]] at::Tensor product(size_t m) const {
        return matrices[m].product(kind.norm(x, norm, eps, width));
    }
    template <typename Inputs, typename Launch>
    [[nodiscard]] at::Tensor run(Inputs in, float* Inputs::*to, int64_t outputs, int64_t rows,
                                 int64_t launched, const Launch& launch) const {
        const auto state = state_on_device(rows - 1);
        const auto in_x = floats_on_device(x.narrow(0, 0, launched), "x");
        const Array<float> out(static_cast<size_t>(launched * outputs), "out");
        in.type = WeightType::bf16;
        in.state = state.data();
        in.x = in_x.data();
        if (kind.normed) in.norm = norm.device.data();
        in.norm_offset = kind.norm_offset;
        in.hidden = x.size(1);
        in.width = width;
        in.eps = eps;
        in.*to = out.data();
        in.rows = launched;
        launch(in, nullptr);
        return taken(out, rows, launched, outputs, std::nanf(""));
    }
    Kind kind;
    at::Tensor x;
    Weights norm;
    int64_t width;
    std::deque<BlockMatrix> matrices;
};

Case norm_product_case(Random& random, BlockType type, int64_t hidden, const std::vector<int64_t>& outputs,
                       bool biased, const Kind& kind = {}) {
    auto of = std::make_shared<Normed>(random, type, hidden, outputs, biased, kind);
    std::vector<at::Tensor> expected;
    for (size_t m = 0; m < outputs.size(); ++m)
        expected.push_back(of->product(m));
    const at::Tensor all = at::cat(expected, 1);
    return {all, [=](int64_t rows, int64_t launched) {
                gpu::NormProductInputs in;
                for (size_t m = 0; m < of->matrices.size(); ++m)
                    in.matrices[3 - of->matrices.size() + m] =
                        of->matrices[m].in_use; // k and v alone stand last
                return of->run(in, &gpu::NormProductInputs::out, all.size(1), rows, launched,
                               gpu::launch_norm_product);
            }};
}

Case gate_up_case(Random& random, BlockType type, int64_t hidden, int64_t outputs, bool biased,
                  const Kind& kind = {}) {
    auto of =
        std::make_shared<Normed>(random, type, hidden, std::vector<int64_t>{outputs, outputs}, biased, kind);
    return {kernels::reference::gated(kind.activation, of->product(0), of->product(1)),
            [=](int64_t rows, int64_t launched) {
                gpu::NormGateUpInputs in;
                in.gate = of->matrices[0].in_use;
                in.up = of->matrices[1].in_use;
                in.activation = of->kind.activation;
                return of->run(in, &gpu::NormGateUpInputs::inner, outputs, rows, launched,
                               gpu::launch_norm_gate_up);
            }};
}

Case head_case(Random& random, BlockType type, int64_t hidden, int64_t outputs, const Kind& kind = {}) {
    auto of = std::make_shared<Normed>(random, type, hidden, std::vector<int64_t>{outputs}, false, kind);
    at::Tensor logits = of->product(0);
    if (kind.cap > 0) kernels::reference::soft_cap_(logits, kind.cap);
    return {logits, [=](int64_t rows, int64_t launched) {
                gpu::HeadInputs in;
                in.head = of->matrices[0].in_use;
                in.cap = of->kind.cap;
                return of->run(in, &gpu::HeadInputs::logits, outputs, rows, launched, gpu::launch_head);
            }};
}

Case onto_case(Random& random, BlockType type, int64_t inputs, int64_t outputs, bool biased, float p,
               bool adds = true) {
    const at::Tensor y = random.normal({most_rows, inputs}), x = random.normal({most_rows, outputs});
    auto matrix = std::make_shared<BlockMatrix>(random, type, outputs, inputs, biased, "matrix");
    const auto seed = static_cast<uint64_t>(random.between(0, int64_t{1} << 60));
    const int64_t position = random.between(0, 4000);
    const auto site = kernels::DropoutSite::mlp_output;
    at::Tensor branch = matrix->product(y);
    std::vector<int32_t> passes(most_rows);
    std::iota(passes.begin(), passes.end(), 0);
    kernels::dropout_rows_(branch, {seed, position, 5, 0}, passes, site, p);
    return {adds ? x + branch : branch, [=](int64_t rows, int64_t launched) {
                const auto state = state_on_device(rows - 1, position, 0, seed);
                const auto in_y = floats_on_device(y.narrow(0, 0, launched), "in");
                at::Tensor before = at::full({launched, outputs}, 7.0F);
                before.narrow(0, 0, rows).copy_(x.narrow(0, 0, rows));
                const auto onto = floats_on_device(before, "x", Contents::written);
                gpu::ProductOntoInputs in;
                in.type = WeightType::bf16;
                in.state = state.data();
                in.in = in_y.data();
                in.matrix = matrix->in_use;
                in.x = onto.data();
                in.dropout = {p, 5, static_cast<uint32_t>(site)};
                in.rows = launched;
                in.adds = adds;
                gpu::launch_product_onto(in, nullptr);
                return taken(onto, rows, launched, outputs, 7.0F);
            }};
}

TEST_CASE("a device's tiles are the CPU's in another order", "[simt][blocks]") {
    Random random(1401);
    for (const BlockType type : block_types) {
        const at::Tensor packed = random_blocks(random, type, 48, 96);
        const auto tiles = tiles_on_device(type, packed, "tiles");
        REQUIRE(tiles.size() == packed.nbytes());
        REQUIRE(static_cast<int64_t>(packed.nbytes()) ==
                kernels::matrix_bytes(WeightType::bf16, kernels::form_of(type), 48, 96));
        REQUIRE(std::memcmp(tiles.data(), packed.const_data_ptr(), packed.nbytes()) != 0);
        const at::Tensor back = at::empty_like(packed);
        kernels::to_host_tiles(type, packed.size(0) * packed.size(1),
                               reinterpret_cast<const std::byte*>(tiles.data()),
                               static_cast<std::byte*>(back.mutable_data_ptr()));
        REQUIRE(at::equal(back, packed));
    }
}

TEST_CASE("kernels make the numbers of a file of an embedding in blocks", "[simt][blocks]") {
    Random random(1402);
    for (const BlockType type : block_types) {
        for (const int64_t hidden : {32, 96, 1088}) {
            const BlockMatrix embedding(random, type, 48, hidden, false, "embedding");
            const auto token = static_cast<int32_t>(random.between(0, 47));
            const auto state = state_on_device(1, 0, token);
            const Array<float> x(static_cast<size_t>(2 * hidden), "x");
            gpu::EmbedInputs in{
                WeightType::bf16,     embedding.in_use.data, state.data(), x.data(), 2, hidden, false,
                embedding.in_use.form};
            gpu::launch_embed(in, nullptr);
            for (int64_t r = 0; r < 2; ++r)
                REQUIRE(at::equal(tensor_of(x, {2, hidden})[r], embedding.values[token]));
            const Array<int32_t> tokens({47, 0, token}, "tokens", Contents::read_only);
            const Array<float> rows(static_cast<size_t>(3 * hidden), "rows");
            gpu::RowsEmbedInputs many{
                WeightType::bf16, embedding.in_use.data, tokens.data(), 3,
                hidden,           rows.data(),           false,         embedding.in_use.form};
            gpu::launch_rows_embed(many, nullptr);
            const at::Tensor expected =
                embedding.values.index_select(0, at::tensor({47, 0, token}, at::kLong));
            REQUIRE(at::equal(tensor_of(rows, {3, hidden}), expected));
        }
    }
}

TEST_CASE("a step's products with matrices in blocks equal the references of their numbers",
          "[simt][blocks]") {
    Random random(1403);
    for (const BlockType type : block_types) {
        const bool biased = random.between(0, 1) == 1;
        CAPTURE(static_cast<int>(type), biased);
        check(norm_product_case(random, type, 544, {32, 16, 16}, biased), {1, 2, 3, 5, 8, 9, 12});
        check(norm_product_case(random, type, 32, {16, 48}, !biased), {1, 9}); // k and v
        check(gate_up_case(random, type, 96, 48, biased), {1, 2, 4, 8, 9});
        check(gate_up_case(random, type, 32 * random.between(1, 34), 16, !biased), {1, 9});
        check(onto_case(random, type, 544, 32, biased, 0.3F), {1, 2, 4, 8, 9});
        check(onto_case(random, type, 32 * random.between(1, 34), 16, !biased, 0.0F), {1, 9});
        check(head_case(random, type, 288, 144), {1, 2, 9});
        for (const Kind& kind : other_kinds) {
            check(norm_product_case(random, type, 64, {16, 16, 16}, biased, kind), {1, 9});
            check(gate_up_case(random, type, 64, 32, biased, kind), {1, 9});
            check(head_case(random, type, 64, 80, kind), {1, 9});
        }
        check(onto_case(random, type, 64, 32, biased, 0.0F, false), {1, 9});
    }
}

TEST_CASE("rows that are longer than a block holds come in turns, in blocks too", "[simt][blocks]") {
    Random random(1404);
    const BlockType type = random.pick(block_types);
    CAPTURE(static_cast<int>(type));
    check(onto_case(random, type, 4512, 16, true, 0.0F), {1, 3, 9});
    check(head_case(random, random.pick(block_types), 2336, 32), {1, 9});
    const Case longest = onto_case(random, BlockType::q4_0, 17024, 16, false, 0.0F);
    const at::Tensor got = longest.run(1, 1);
    REQUIRE(relative_error(got[0], longest.expected[0]) <= tolerance);
    REQUIRE(same_bits(longest.run(2, 2)[0], got[0]));
}

TEST_CASE("a step's products with matrices in blocks have the same bits in every order", "[simt][blocks]") {
    Random random(1405);
    for (const BlockType type : block_types) {
        const std::vector<Case> cases{norm_product_case(random, type, 288, {32, 16, 16}, true),
                                      gate_up_case(random, type, 288, 32, true),
                                      onto_case(random, type, 288, 32, true, 0.5F),
                                      head_case(random, type, 288, 80)};
        for (const Case& c : cases) {
            at::Tensor first;
            simt::in_orders(4, [&](uint64_t order) {
                const at::Tensor got = c.run(9, 9);
                if (order == 0) first = got;
                REQUIRE(same_bits(got, first));
            });
        }
    }
}

} // namespace
} // namespace refreshlab::test::block_products_simt
