#include "kernels/ops/dense.h"
#include "kernels/ops/dropout.h"
#include "tests/kernels/simt/decode_fixture.h"

#include <deque>
#include <functional>

/// A decode step's products on the host machine: against the plain references, and the same bits in a row whatever other rows are in
/// the launch and in whatever order blocks and threads come.
namespace refreshlab::test::decode_products_simt {
namespace {

using namespace decode_simt;

constexpr double tolerance = 1e-5;
constexpr double eps = 1e-5;
constexpr int64_t usual_rows = 12; // two groups of MC rows
const std::vector<int64_t> row_counts{1, 2, 3, 5, 8, 9, 10, 12};

/// One kernel with everything but its rows: run(rows, launched) gives [rows, outputs] of `launched` rows.
struct Case {
    at::Tensor expected; ///< [most rows, outputs]
    std::function<at::Tensor(int64_t rows, int64_t launched)> run;
};

void check(const Case& c, const std::vector<int64_t>& counts) {
    const int64_t most_rows = c.expected.size(0);
    const at::Tensor all = c.run(most_rows, most_rows);
    REQUIRE(relative_error(all, c.expected) <= tolerance);
    for (int64_t r = 0; r < most_rows; ++r) {
        CAPTURE(r);
        REQUIRE(relative_error(all[r], c.expected[r]) <= 1e-3); // of a single output most may cancel
    }
    for (const int64_t rows : counts) {
        CAPTURE(rows);
        REQUIRE(same_bits(c.run(rows, rows), all.narrow(0, 0, rows)));
    }
    // Rows of the launch that the step has not.
    for (const int64_t rows : {int64_t{1}, int64_t{6}}) {
        CAPTURE(rows);
        REQUIRE(same_bits(c.run(rows, most_rows), all.narrow(0, 0, rows)));
    }
}

/// What a launch of `launched` rows made of `rows`; rows behind them must be as they were.
at::Tensor taken(const Array<float>& out, int64_t rows, int64_t launched, int64_t outputs, float before) {
    const at::Tensor all = tensor_of(out, {launched, outputs});
    const at::Tensor rest = all.narrow(0, rows, launched - rows);
    REQUIRE((std::isnan(before) ? rest.isnan().all() : (rest == before).all()).item<bool>());
    return all.narrow(0, 0, rows);
}

Case norm_product_case(Random& random, WeightType type, int64_t hidden, const std::array<int64_t, 3>& outputs,
                       bool biased, int64_t most_rows = usual_rows) {
    const int64_t width = hidden - random.between(0, 7);
    at::Tensor x = random.normal({most_rows, hidden}, 2.0);
    x.narrow(1, width, hidden - width).zero_();
    auto norm = std::make_shared<Weights>(random, at::IntArrayRef{hidden}, type, "norm", 0.3, 1.0);
    auto matrices = std::make_shared<std::deque<TestMatrix>>();
    std::vector<at::Tensor> expected;
    const at::Tensor h = kernels::reference::rms_norm(x, norm->values, eps, width);
    int64_t total = 0;
    for (const int64_t n : outputs) {
        total += n;
        matrices->emplace_back(random, n, hidden, type, biased, "matrix");
        if (n > 0)
            expected.push_back(kernels::reference::linear(h, matrices->back().weight.values,
                                                          matrices->back().reference_bias()));
    }
    return {at::cat(expected, 1), [=](int64_t rows, int64_t launched) {
                const auto state = state_on_device(rows - 1);
                const auto in_x = floats_on_device(x.narrow(0, 0, launched), "x");
                const Array<float> out(static_cast<size_t>(launched * total), "out");
                gpu::NormProductInputs in;
                in.type = type;
                in.state = state.data();
                in.x = in_x.data();
                in.norm = norm->device.data();
                in.hidden = hidden;
                in.width = width;
                in.eps = eps;
                for (size_t m = 0; m < 3; ++m)
                    in.matrices[m] = (*matrices)[m].in_use;
                in.out = out.data();
                in.rows = launched;
                gpu::launch_norm_product(in, nullptr);
                return taken(out, rows, launched, total, std::nanf(""));
            }};
}

Case gate_up_case(Random& random, WeightType type, int64_t hidden, int64_t outputs, bool biased,
                  int64_t most_rows = usual_rows) {
    const at::Tensor x = random.normal({most_rows, hidden}, 2.0);
    auto norm = std::make_shared<Weights>(random, at::IntArrayRef{hidden}, type, "norm", 0.3, 1.0);
    auto gate = std::make_shared<TestMatrix>(random, outputs, hidden, type, biased, "gate");
    auto up = std::make_shared<TestMatrix>(random, outputs, hidden, type, biased, "up");
    const at::Tensor h = kernels::reference::rms_norm(x, norm->values, eps);
    const at::Tensor expected = kernels::reference::silu_mul(
        kernels::reference::linear(h, gate->weight.values, gate->reference_bias()),
        kernels::reference::linear(h, up->weight.values, up->reference_bias()));
    return {expected, [=](int64_t rows, int64_t launched) {
                const auto state = state_on_device(rows - 1);
                const auto in_x = floats_on_device(x.narrow(0, 0, launched), "x");
                const Array<float> inner(static_cast<size_t>(launched * outputs), "inner");
                gpu::NormGateUpInputs in;
                in.type = type;
                in.state = state.data();
                in.x = in_x.data();
                in.norm = norm->device.data();
                in.hidden = in.width = hidden;
                in.eps = eps;
                in.gate = gate->in_use;
                in.up = up->in_use;
                in.inner = inner.data();
                in.rows = launched;
                gpu::launch_norm_gate_up(in, nullptr);
                return taken(inner, rows, launched, outputs, std::nanf(""));
            }};
}

Case head_case(Random& random, WeightType type, int64_t hidden, int64_t outputs,
               int64_t most_rows = usual_rows) {
    const at::Tensor x = random.normal({most_rows, hidden}, 2.0);
    auto norm = std::make_shared<Weights>(random, at::IntArrayRef{hidden}, type, "norm", 0.3, 1.0);
    auto head = std::make_shared<TestMatrix>(random, outputs, hidden, type, false, "head");
    const at::Tensor h = kernels::reference::rms_norm(x, norm->values, eps);
    return {kernels::reference::linear(h, head->weight.values), [=](int64_t rows, int64_t launched) {
                const auto state = state_on_device(rows - 1);
                const auto in_x = floats_on_device(x.narrow(0, 0, launched), "x");
                const Array<float> logits(static_cast<size_t>(launched * outputs), "logits");
                gpu::HeadInputs in;
                in.type = type;
                in.state = state.data();
                in.x = in_x.data();
                in.norm = norm->device.data();
                in.hidden = in.width = hidden;
                in.eps = eps;
                in.head = head->in_use;
                in.logits = logits.data();
                in.rows = launched;
                gpu::launch_head(in, nullptr);
                return taken(logits, rows, launched, outputs, std::nanf(""));
            }};
}

Case onto_case(Random& random, WeightType type, int64_t inputs, int64_t outputs, bool biased, float p,
               int64_t most_rows = usual_rows, double scale = 1) {
    const at::Tensor y = random.normal({most_rows, inputs}, scale),
                     x = random.normal({most_rows, outputs}, scale);
    auto matrix = std::make_shared<TestMatrix>(random, outputs, inputs, type, biased, "matrix");
    const auto seed = static_cast<uint64_t>(random.between(0, int64_t{1} << 60));
    const int64_t position = random.between(0, 4000);
    const auto site = random.pick(std::vector<kernels::DropoutSite>{kernels::DropoutSite::attention_output,
                                                                    kernels::DropoutSite::mlp_output});
    at::Tensor branch = kernels::reference::linear(y, matrix->weight.values, matrix->reference_bias());
    std::vector<int32_t> passes;
    for (int32_t r = 0; r < most_rows; ++r)
        passes.push_back(r);
    kernels::dropout_rows_(branch, {seed, position, 5, 0}, passes, site, p);
    return {x + branch, [=](int64_t rows, int64_t launched) {
                const auto state = state_on_device(rows - 1, position, 0, seed);
                const auto in_y = floats_on_device(y.narrow(0, 0, launched), "in");
                at::Tensor before = at::full({launched, outputs}, 7.0F);
                before.narrow(0, 0, rows).copy_(x.narrow(0, 0, rows));
                const auto onto = floats_on_device(before, "x", Contents::written);
                gpu::ProductOntoInputs in;
                in.type = type;
                in.state = state.data();
                in.in = in_y.data();
                in.matrix = matrix->in_use;
                in.x = onto.data();
                in.dropout = {p, 5, static_cast<uint32_t>(site)};
                in.rows = launched;
                gpu::launch_product_onto(in, nullptr);
                return taken(onto, rows, launched, outputs, 7.0F);
            }};
}

TEST_CASE("a token's embedding becomes every row", "[simt][decode]") {
    Random random(1201);
    for (const WeightType type : weight_types) {
        const int64_t hidden = random.pick(std::vector<int64_t>{8, 264, 1696, 2056}), vocab = 5;
        const Weights embedding(random, {vocab, hidden}, type, "embedding");
        for (const int64_t rows : row_counts) {
            const auto token = static_cast<int32_t>(random.between(0, vocab - 1));
            const auto state = state_on_device(rows - 1, 0, token);
            const Array<float> x(static_cast<size_t>(usual_rows * hidden), "x");
            gpu::EmbedInputs in{type, embedding.device.data(), state.data(), x.data(), usual_rows, hidden,
                                false};
            gpu::launch_embed(in, nullptr);
            const at::Tensor got = taken(x, rows, usual_rows, hidden, std::nanf(""));
            REQUIRE(same_bits(got, embedding.values[token].unsqueeze(0).expand({rows, hidden})));
        }
    }
}

TEST_CASE("products of a decode step on the host machine equal the references", "[simt][decode]") {
    Random random(1202);
    for (const WeightType type : weight_types) {
        const bool biased = random.between(0, 1) == 1;
        const int64_t odd = random.between(1, 20);
        CAPTURE(static_cast<int>(type), biased, odd);
        check(norm_product_case(random, type, 264, {odd, 16, 0}, biased), row_counts);
        check(
            norm_product_case(random, type, random.pick(std::vector<int64_t>{8, 576}), {5, 3, odd}, !biased),
            {1, 9});
        check(gate_up_case(random, type, 264, 16 + odd, biased), row_counts);
        check(gate_up_case(random, type, 8 * random.between(1, 40), odd, !biased), {1, 9});
        check(onto_case(random, type, 264, 16 + odd, biased, 0.0F), row_counts);
        check(onto_case(random, type, 8 * random.between(1, 40), odd, !biased, 0.3F), row_counts);
        check(head_case(random, type, 264, 64 + odd), {1, 2, 9});
    }
}

TEST_CASE("up to a hundred MC rows go through a product, each with the bits that it has beside fewer",
          "[simt][decode]") {
    Random random(1206);
    const std::vector<int64_t> counts{1, 2, 8, 9, 10, 17, 18, 21, 25, 26};
    for (const WeightType type : weight_types) {
        const int64_t odd = random.between(1, 20);
        CAPTURE(static_cast<int>(type), odd);
        check(norm_product_case(random, type, 264, {odd, 16, 3}, true, 101), counts);
        check(onto_case(random, type, 8 * random.between(1, 40), 16 + odd, true, 0.3F, 101), counts);
        check(gate_up_case(random, type, 72, 16 + odd, true, 101), {1, 9, 21});
        check(head_case(random, type, 72, 64 + odd, 101), {1, 9, 21});
    }
}

TEST_CASE("rows that are longer than a block holds come in turns", "[simt][decode]") {
    Random random(1203);
    for (const WeightType type : weight_types) {
        CAPTURE(static_cast<int>(type));
        check(onto_case(random, type, 4512, 3, true, 0.0F), {1, 3, 9});
        check(norm_product_case(random, type, 2824, {3, 0, 0}, false), {1, 2});
    }
    check(norm_product_case(random, WeightType::bf16, 4512, {3, 0, 0}, false, 26), {1, 2, 12});
    check(head_case(random, WeightType::f16, 2312, 11, 18), {1, 9});
}

TEST_CASE("MC rows of half-precision weights take large activations and small ones", "[simt][decode]") {
    // Residuals of some models have single channels of thousands, and their first layers numbers of hundredths.
    Random random(1207);
    for (const WeightType type : {WeightType::bf16, WeightType::f16}) {
        for (const double scale : {1e-4, 1.0, 3e4}) {
            CAPTURE(static_cast<int>(type), scale);
            check(onto_case(random, type, 264, 35, false, 0.0F, usual_rows, scale), {1, 9});
        }
    }
}

TEST_CASE("products of a decode step have the same bits in every order", "[simt][decode]") {
    Random random(1204);
    for (const WeightType type : weight_types) {
        const std::vector<Case> cases{norm_product_case(random, type, 264, {17, 16, 16}, true),
                                      gate_up_case(random, type, 264, 33, true),
                                      onto_case(random, type, 264, 33, true, 0.5F),
                                      head_case(random, type, 264, 65)};
        for (const Case& c : cases) {
            at::Tensor first;
            simt::in_orders(4, [&](uint64_t order) {
                const at::Tensor got = c.run(11, 11);
                if (order == 0) first = got;
                REQUIRE(same_bits(got, first));
            });
        }
    }
}

TEST_CASE("longest rows: one row of 17,000 inputs", "[simt][decode]") {
    Random random(1205);
    const Case c = onto_case(random, WeightType::bf16, 17000, 15, false, 0.0F);
    const at::Tensor got = c.run(1, 1);
    REQUIRE(relative_error(got[0], c.expected[0]) <= tolerance);
    REQUIRE(same_bits(c.run(2, 2)[0], got[0]));
}

} // namespace
} // namespace refreshlab::test::decode_products_simt
