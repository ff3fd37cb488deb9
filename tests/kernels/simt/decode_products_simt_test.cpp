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
                       bool biased, int64_t most_rows = usual_rows, const Kind& kind = {}) {
    const int64_t width = hidden - random.between(0, 7);
    at::Tensor x = random.normal({most_rows, hidden}, 2.0);
    x.narrow(1, width, hidden - width).zero_();
    auto norm = std::make_shared<Weights>(random, at::IntArrayRef{hidden}, type, "norm", 0.3, 1.0);
    auto matrices = std::make_shared<std::deque<TestMatrix>>();
    std::vector<at::Tensor> expected;
    const at::Tensor h = kind.norm(x, *norm, eps, width);
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
                if (kind.normed) in.norm = norm->device.data();
                in.norm_offset = kind.norm_offset;
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
                  int64_t most_rows = usual_rows, const Kind& kind = {}) {
    const at::Tensor x = random.normal({most_rows, hidden}, 2.0);
    auto norm = std::make_shared<Weights>(random, at::IntArrayRef{hidden}, type, "norm", 0.3, 1.0);
    auto gate = std::make_shared<TestMatrix>(random, outputs, hidden, type, biased, "gate");
    auto up = std::make_shared<TestMatrix>(random, outputs, hidden, type, biased, "up");
    const at::Tensor h = kind.norm(x, *norm, eps);
    const at::Tensor expected = kernels::reference::gated(
        kind.activation, kernels::reference::linear(h, gate->weight.values, gate->reference_bias()),
        kernels::reference::linear(h, up->weight.values, up->reference_bias()));
    return {expected, [=](int64_t rows, int64_t launched) {
                const auto state = state_on_device(rows - 1);
                const auto in_x = floats_on_device(x.narrow(0, 0, launched), "x");
                const Array<float> inner(static_cast<size_t>(launched * outputs), "inner");
                gpu::NormGateUpInputs in;
                in.type = type;
                in.state = state.data();
                in.x = in_x.data();
                if (kind.normed) in.norm = norm->device.data();
                in.norm_offset = kind.norm_offset;
                in.activation = kind.activation;
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
               int64_t most_rows = usual_rows, const Kind& kind = {}) {
    const at::Tensor x = random.normal({most_rows, hidden}, 2.0);
    auto norm = std::make_shared<Weights>(random, at::IntArrayRef{hidden}, type, "norm", 0.3, 1.0);
    auto head = std::make_shared<TestMatrix>(random, outputs, hidden, type, false, "head");
    at::Tensor expected = kernels::reference::linear(kind.norm(x, *norm, eps), head->weight.values);
    if (kind.cap > 0) kernels::reference::soft_cap_(expected, kind.cap);
    return {expected, [=](int64_t rows, int64_t launched) {
                const auto state = state_on_device(rows - 1);
                const auto in_x = floats_on_device(x.narrow(0, 0, launched), "x");
                const Array<float> logits(static_cast<size_t>(launched * outputs), "logits");
                gpu::HeadInputs in;
                in.type = type;
                in.state = state.data();
                in.x = in_x.data();
                if (kind.normed) in.norm = norm->device.data();
                in.norm_offset = kind.norm_offset;
                in.cap = kind.cap;
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
               int64_t most_rows = usual_rows, double scale = 1, bool adds = true) {
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
    return {adds ? x + branch : branch, [=](int64_t rows, int64_t launched) {
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
                in.adds = adds;
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
            in.scale = rows % 2 == 0 ? 1.0F : 7.7F;
            gpu::launch_embed(in, nullptr);
            const at::Tensor got = taken(x, rows, usual_rows, hidden, std::nanf(""));
            const at::Tensor scaled = embedding.values[token] * in.scale;
            REQUIRE(same_bits(got, scaled.unsqueeze(0).expand({rows, hidden})));
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

TEST_CASE("products of a decode step in the kinds that models have them in", "[simt][decode]") {
    Random random(1208);
    for (const WeightType type : weight_types) {
        for (const Kind& kind : other_kinds) {
            CAPTURE(static_cast<int>(type), kind.normed);
            check(norm_product_case(random, type, 72, {5, 3, 9}, true, 10, kind), {1, 9});
            check(gate_up_case(random, type, 72, 19, true, 10, kind), {1, 9});
            check(head_case(random, type, 72, 70, 10, kind), {1, 9});
        }
        check(onto_case(random, type, 72, 19, true, 0.0F, 10, 1, false), {1, 9});
    }
}

TEST_CASE("norms over whole rows equal the reference, in place or onto the residual under dropout",
          "[simt][decode]") {
    Random random(1209);
    for (const WeightType type : weight_types) {
        const int64_t q = 8 * random.between(1, 600), k = 24, v = 16, rows = 5, all = q + k + v;
        const double offset = random.pick(std::vector<double>{0, 1});
        CAPTURE(static_cast<int>(type), q, offset);
        const Weights q_norm(random, {q}, type, "q norm", 0.3, 1.0), k_norm(random, {k}, type, "k norm");
        const at::Tensor x = random.normal({rows, all}, 2.0), onto = random.normal({rows, q});
        const auto normed = [&](int64_t first, const Weights& norm, int64_t width) {
            return kernels::reference::rms_norm(x.narrow(1, first, norm.values.size(0)).contiguous(),
                                                norm.values + offset, eps, width);
        };
        const auto run = [&](int64_t live, bool adds, float p) {
            const auto state = state_on_device(live - 1, 77, 0, 13);
            const auto in_x = floats_on_device(x, "x", Contents::written),
                       out = floats_on_device(onto, "onto", Contents::written);
            gpu::NormRowsInputs in;
            in.type = type;
            in.state = state.data();
            in.runs[0] = {in_x.data(), adds ? out.data() : in_x.data(), q_norm.device.data(), q, q - 3};
            if (!adds) in.runs[1] = {in_x.data() + q, in_x.data() + q, k_norm.device.data(), k, k};
            in.in_stride = all;
            in.out_stride = adds ? q : all;
            in.eps = eps;
            in.norm_offset = offset;
            in.dropout = {p, 5, static_cast<uint32_t>(kernels::DropoutSite::mlp_output)};
            in.rows = rows;
            in.adds = adds;
            gpu::launch_norm_rows(in, nullptr);
            return adds ? tensor_of(out, {rows, q}) : tensor_of(in_x, {rows, all});
        };
        at::Tensor branch = normed(0, q_norm, q - 3);
        const at::Tensor in_place = at::cat({branch, normed(q, k_norm, k), x.narrow(1, q + k, v)}, 1);
        kernels::dropout_rows_(branch, {13, 77, 5, 0}, std::vector<int32_t>{0, 1, 2, 3, 4},
                               kernels::DropoutSite::mlp_output, 0.3F);
        at::Tensor first;
        simt::in_orders(2, [&](uint64_t order) {
            const at::Tensor got = run(rows, true, 0.3F);
            if (order == 0) first = got;
            REQUIRE(same_bits(got, first));
        });
        REQUIRE(relative_error(first, onto + branch) <= tolerance);
        const at::Tensor got = run(rows, false, 0);
        REQUIRE(relative_error(got, in_place) <= tolerance);
        REQUIRE(same_bits(got.narrow(1, q + k, v), x.narrow(1, q + k, v)));
        // Rows that the step has not stay as they are.
        const at::Tensor some = run(2, false, 0);
        REQUIRE(same_bits(some.narrow(0, 0, 2), got.narrow(0, 0, 2)));
        REQUIRE(same_bits(some.narrow(0, 2, rows - 2), x.narrow(0, 2, rows - 2)));
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
