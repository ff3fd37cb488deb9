#include "kernels/cuda/decode/experts.h"
#include "kernels/ops/dense.h"
#include "kernels/ops/dropout.h"
#include "tests/kernels/simt/block_fixture.h"

#include <ATen/ops/softmax.h>
#include <ATen/ops/stack.h>

#include <cmath>
#include <deque>
#include <numeric>
#include <optional>

/// Routed experts on the host machine: the router's choice, and the experts' products of a step and of a pass, against the plain references.
namespace refreshlab::test::experts_simt {
namespace {

using namespace block_simt;
using gpu::RoutedExpert;

constexpr double eps = 1e-5;

/// Of one row, by the definition. \param logits  [experts]
std::vector<RoutedExpert> chosen_of(const at::Tensor& logits, int64_t used, bool normalised) {
    std::vector<float> keys(logits.const_data_ptr<float>(), logits.const_data_ptr<float>() + logits.numel());
    std::vector<int32_t> order(keys.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, [&](int32_t a, int32_t b) {
        const auto key = [&](int32_t e) {
            return std::isnan(keys[static_cast<size_t>(e)]) ? -INFINITY : keys[static_cast<size_t>(e)];
        };
        return key(a) > key(b);
    });
    order.resize(static_cast<size_t>(used));
    std::ranges::sort(order);
    const at::Tensor shares = at::softmax(logits.to(at::kDouble), 0);
    double sum = 0;
    for (const int32_t e : order)
        sum += shares[e].item<double>();
    std::vector<RoutedExpert> chosen;
    for (const int32_t e : order)
        chosen.push_back({e, static_cast<float>(shares[e].item<double>() / (normalised ? sum : 1))});
    return chosen;
}

struct RouterCase {
    WeightType type{};
    int64_t hidden = 64, count = 8, used = 2, rows = 3;
    bool normalised = true, normed = true;
};

/// \param live  rows that the step has
std::vector<RoutedExpert> route(const RouterCase& c, const at::Tensor& x, const Weights& norm,
                                const gpu::Matrix& router, int64_t live) {
    const auto state = state_on_device(live - 1);
    const auto in_x = floats_on_device(x, "x");
    const Array<float> logits(static_cast<size_t>(c.rows * c.count), "logits");
    const Array<uint32_t> arrived(std::vector<uint32_t>(static_cast<size_t>(c.rows), 0), "arrived");
    const Array<RoutedExpert> to(static_cast<size_t>(c.rows * c.used), "routed");
    gpu::RouterInputs in;
    in.type = c.type;
    in.state = state.data();
    in.x = in_x.data();
    if (c.normed) in.norm = norm.device.data();
    in.hidden = in.width = c.hidden;
    in.eps = eps;
    in.router = router;
    in.used = c.used;
    in.normalised = c.normalised;
    in.logits = logits.data();
    in.arrived = arrived.data();
    in.to = to.data();
    in.rows = c.rows;
    gpu::launch_router(in, nullptr);
    for (const uint32_t left : arrived.values())
        REQUIRE(left == 0);
    std::vector<RoutedExpert> all = to.values();
    all.resize(static_cast<size_t>(live * c.used));
    return all;
}

TEST_CASE("a router chooses the largest logits and their shares, whatever rows are beside it",
          "[simt][experts]") {
    Random random(1601);
    for (const WeightType type : weight_types) {
        for (const RouterCase& shape :
             {RouterCase{type, 64, 8, 2, 3}, RouterCase{type, 24, 5, 5, 2, false},
              RouterCase{type, 136, 37, 3, 2, true, false}, RouterCase{type, 40, 300, 9, 1, false}}) {
            const at::Tensor x = random.normal({shape.rows, shape.hidden}, 2.0);
            const Weights norm(random, {shape.hidden}, type, "norm", 0.3, 1.0);
            const TestMatrix router(random, shape.count, shape.hidden, type, false, "router");
            const at::Tensor h =
                shape.normed ? kernels::reference::rms_norm(x, norm.values, eps, shape.hidden) : x;
            const at::Tensor logits = kernels::reference::linear(h, router.weight.values, {});
            std::vector<RoutedExpert> first;
            simt::in_orders(3, [&](uint64_t order) {
                const std::vector<RoutedExpert> got = route(shape, x, norm, router.in_use, shape.rows);
                if (order == 0) first = got;
                for (int64_t r = 0; r < shape.rows; ++r) {
                    const auto expected = chosen_of(logits[r].contiguous(), shape.used, shape.normalised);
                    for (int64_t k = 0; k < shape.used; ++k) {
                        const RoutedExpert& one = got[static_cast<size_t>(r * shape.used + k)];
                        CAPTURE(static_cast<int>(type), shape.count, r, k);
                        REQUIRE(one.expert == expected[static_cast<size_t>(k)].expert);
                        REQUIRE(std::abs(one.share - expected[static_cast<size_t>(k)].share) <= 1e-5F);
                        REQUIRE(one.share == first[static_cast<size_t>(r * shape.used + k)].share);
                    }
                }
            });
            const auto alone =
                route(shape, x, norm, router.in_use, 1); // rows of the launch that the step has not
            for (size_t k = 0; k < alone.size(); ++k)
                REQUIRE((alone[k].expert == first[k].expert && alone[k].share == first[k].share));
        }
    }
}

TEST_CASE("of equal logits a router takes the lower number, and one that is no number is below all",
          "[simt][experts]") {
    RouterCase shape{WeightType::f32, 16, 20, 4, 1, true, false};
    at::Tensor weights = at::zeros({shape.count, shape.hidden});
    weights.select(1, 0).copy_(at::tensor({1, 5, 5, 2, 5, 0, 3, 3, 3, 3, 0, 0, 0, 0, 0, 0, 5, 0, 0, 3}));
    weights[16][0] = std::nanf("");
    const Weights router(weights, "router");
    at::Tensor x = at::zeros({1, shape.hidden});
    x[0][0] = 1;
    const auto got = route(shape, x, router, {router.device.data(), nullptr, shape.count, shape.hidden}, 1);
    const std::vector<int32_t> expected{1, 2, 4, 6}; // three fives, the first three, and no number 16
    for (size_t k = 0; k < 4; ++k)
        REQUIRE(got[k].expert == expected[k]);
    REQUIRE(got[0].share == got[2].share);
}

/// How weights of experts stand in memory.
struct Stored {
    WeightType type = WeightType::bf16;
    std::optional<BlockType> blocks{};
    [[nodiscard]] MatrixForm form() const { return blocks ? kernels::form_of(*blocks) : MatrixForm::numbers; }
};
const std::vector<Stored> all_stored{{WeightType::f32},
                                     {WeightType::bf16},
                                     {WeightType::f16},
                                     {WeightType::bf16, BlockType::q8_0},
                                     {WeightType::bf16, BlockType::q4_0},
                                     {WeightType::bf16, BlockType::q4_1}};

/// Experts of a layer, and where rows are sent.
struct ExpertCase {
    ExpertCase(Random& random, const Stored& stored, int64_t hidden_, int64_t width_, int64_t count_,
               int64_t used_, int64_t rows_)
        : type(stored.type)
        , form(stored.form())
        , hidden(hidden_)
        , width(width_)
        , count(count_)
        , used(used_)
        , rows(rows_) {
        const auto matrix = [&](int64_t outputs, int64_t inputs, const std::string& name) -> const void* {
            if (stored.blocks) {
                const BlockMatrix& made =
                    blocks.emplace_back(random, *stored.blocks, outputs, inputs, false, name);
                values.push_back(made.values);
                return made.in_use.data;
            }
            const TestMatrix& made = numbers.emplace_back(random, outputs, inputs, type, false, name);
            values.push_back(made.weight.values);
            return made.in_use.data;
        };
        std::vector<gpu::ExpertMatrices> table;
        for (int64_t e = 0; e < count; ++e) {
            gpu::ExpertMatrices& of = table.emplace_back();
            of.gate = matrix(width, hidden, "gate");
            of.up = matrix(width, hidden, "up");
            of.down = matrix(hidden, width, "down");
        }
        for (int64_t r = 0; r < rows; ++r) {
            std::vector<int32_t> order(static_cast<size_t>(count));
            std::iota(order.begin(), order.end(), 0);
            for (size_t i = 0; i < static_cast<size_t>(used); ++i)
                std::swap(order[i],
                          order[static_cast<size_t>(random.between(static_cast<int64_t>(i), count - 1))]);
            order.resize(static_cast<size_t>(used));
            std::ranges::sort(order);
            for (const int32_t e : order)
                routed.push_back({e, static_cast<float>(random.between(1, 100)) / 100});
        }
        experts.emplace(table, "table", Contents::read_only);
        choices.emplace(routed, "routed", Contents::read_only);
    }
    /// x times gate, up or down (0 to 2). \param rounded  what tensor cores multiply
    [[nodiscard]] at::Tensor product(const at::Tensor& x, int64_t expert, int64_t which, bool rounded) const {
        const at::Tensor& weights = values[static_cast<size_t>(3 * expert + which)];
        return kernels::reference::linear(x, rounded ? weights.to(dtype_of(type)).to(at::kFloat) : weights,
                                          {});
    }
    /// Of a row's expert. \param h  [1, hidden]
    [[nodiscard]] at::Tensor inner(const at::Tensor& h, const RoutedExpert& to, bool rounded = false) const {
        return kernels::reference::gated(kernels::Activation::silu, product(h, to.expert, 0, rounded),
                                         product(h, to.expert, 1, rounded));
    }
    [[nodiscard]] at::Tensor down(const at::Tensor& x, const RoutedExpert& to, bool rounded = false) const {
        return product(x, to.expert, 2, rounded) * to.share;
    }
    WeightType type;
    MatrixForm form;
    int64_t hidden, width, count, used, rows;
    std::deque<TestMatrix> numbers;
    std::deque<BlockMatrix> blocks;
    std::vector<at::Tensor> values;
    std::vector<RoutedExpert> routed;
    std::optional<Array<gpu::ExpertMatrices>> experts;
    std::optional<Array<RoutedExpert>> choices;
};

/// The residual behind gate|up and down. \param dropout  of rows from 1 on
at::Tensor run_step(const ExpertCase& c, const at::Tensor& x, const Weights& norm, int64_t live,
                    float dropout) {
    const auto state = state_on_device(live - 1, 11, 0, 77);
    const Array<float> in_x = floats_on_device(x, "x", Contents::written);
    const Array<float> inner(static_cast<size_t>(c.rows * c.used * c.width), "inner");
    gpu::ExpertGateUpInputs up;
    up.type = c.type;
    up.state = state.data();
    up.x = in_x.data();
    up.norm = norm.device.data();
    up.hidden = up.width = c.hidden;
    up.eps = eps;
    up.experts = c.experts->data();
    up.routed = c.choices->data();
    up.used = c.used;
    up.expert_width = c.width;
    up.inner = inner.data();
    up.rows = c.rows;
    up.form = c.form;
    gpu::launch_expert_gate_up(up, nullptr);
    gpu::ExpertDownInputs down;
    down.type = c.type;
    down.state = state.data();
    down.experts = up.experts;
    down.routed = up.routed;
    down.used = c.used;
    down.expert_width = c.width;
    down.hidden = c.hidden;
    down.inner = inner.data();
    down.x = in_x.data();
    down.dropout = {dropout, 3, static_cast<uint32_t>(kernels::DropoutSite::mlp_output)};
    down.rows = c.rows;
    down.form = c.form;
    down.dependent = true;
    gpu::launch_expert_down(down, nullptr);
    return tensor_of(in_x, {c.rows, c.hidden});
}

TEST_CASE("a row's experts add up to the reference, with the bits that it has alone, in every order",
          "[simt][experts]") {
    Random random(1603);
    for (const Stored& stored : all_stored) {
        const std::vector<std::array<int64_t, 5>> shapes =
            stored.blocks ? std::vector<std::array<int64_t, 5>>{{32, 64, 4, 2, 3}, {1056, 160, 2, 2, 2}}
                          : std::vector<std::array<int64_t, 5>>{
                                {48, 80, 5, 2, 3}, {64, 272, 3, 3, 2}, {16, 16, 2, 1, 4}};
        for (const auto& [hidden, width, count, used, rows] : shapes) {
            const ExpertCase c(random, stored, hidden, width, count, used, rows);
            const at::Tensor x = random.normal({rows, hidden}, 2.0);
            const Weights norm(random, {hidden}, stored.type, "norm", 0.3, 1.0);
            const at::Tensor h = kernels::reference::rms_norm(x, norm.values, eps, hidden);
            at::Tensor expected = x.clone();
            for (int64_t r = 0; r < rows; ++r)
                for (int64_t k = 0; k < used; ++k) {
                    const RoutedExpert& to = c.routed[static_cast<size_t>(r * used + k)];
                    expected[r] += c.down(c.inner(h.narrow(0, r, 1), to), to)[0];
                }
            CAPTURE(static_cast<int>(stored.type), static_cast<int>(c.form), width);
            at::Tensor first;
            simt::in_orders(2, [&](uint64_t order) {
                const at::Tensor got = run_step(c, x, norm, rows, 0);
                if (order == 0) first = got;
                REQUIRE(relative_error(got, expected) <= 1e-5);
                REQUIRE(same_bits(got, first));
            });
            const at::Tensor dropped = run_step(c, x, norm, rows, 0.25F);
            REQUIRE(same_bits(dropped[0], first[0]));
            REQUIRE(!same_bits(dropped[rows - 1], first[rows - 1]));
            const at::Tensor alone = run_step(c, x, norm, 1, 0);
            REQUIRE(same_bits(alone[0], first[0]));
            REQUIRE(same_bits(alone.narrow(0, 1, rows - 1), x.narrow(0, 1, rows - 1)));
        }
    }
}

TEST_CASE("experts wider than a block holds come in turns", "[simt][experts]") {
    Random random(1604);
    for (const auto& [stored, hidden, width, used] :
         {std::tuple<Stored, int64_t, int64_t, int64_t>{{WeightType::bf16}, 16, 6016, 3},
          {{WeightType::bf16}, 16, 16656, 2},
          {{WeightType::bf16, BlockType::q4_0}, 32, 16448, 2}}) {
        const ExpertCase c(random, stored, hidden, width, 3, used, 1);
        const at::Tensor x = random.normal({1, hidden}, 2.0);
        const Weights norm(random, {hidden}, WeightType::bf16, "norm", 0.3, 1.0);
        const at::Tensor h = kernels::reference::rms_norm(x, norm.values, eps, hidden);
        at::Tensor expected = x.clone();
        for (const RoutedExpert& to : c.routed)
            expected += c.down(c.inner(h, to), to);
        REQUIRE(relative_error(run_step(c, x, norm, 1, 0), expected) <= 1e-5);
    }
}

/// inner and sums of a pass.
std::pair<at::Tensor, at::Tensor> run_pass(const ExpertCase& c, const at::Tensor& h, int64_t rows) {
    const at::ScalarType dtype = dtype_of(c.type);
    const auto in_h = bytes_on_device(h.narrow(0, 0, rows), "h");
    const Array<uint8_t> inner(static_cast<size_t>(rows * c.used * c.width * 2), "inner");
    const Array<float> sums(static_cast<size_t>(rows * c.used * c.hidden), "sums");
    gpu::ExpertRowsInputs in;
    in.type = c.type;
    in.experts = c.experts->data();
    in.routed = c.choices->data();
    in.count = c.count;
    in.used = c.used;
    in.expert_width = c.width;
    in.hidden = c.hidden;
    in.h = in_h.data();
    in.inner = inner.data();
    in.sums = sums.data();
    in.rows = rows;
    in.gate_up_form = in.down_form = c.form;
    gpu::launch_expert_rows_gate_up(in, nullptr);
    in.dependent = true;
    gpu::launch_expert_rows_down(in, nullptr);
    return {tensor_of(inner, {rows, c.used, c.width}, dtype), tensor_of(sums, {c.used, rows, c.hidden})};
}

TEST_CASE("rows of a pass are multiplied by the experts that they are sent to, and keep their bits",
          "[simt][experts]") {
    Random random(1605);
    for (const Stored& stored : all_stored) {
        if (stored.type == WeightType::f32) continue;
        const std::vector<std::array<int64_t, 5>> shapes =
            stored.blocks ? std::vector<std::array<int64_t, 5>>{{32, 64, 3, 2, 19}, {160, 32, 4, 1, 3}}
                          : std::vector<std::array<int64_t, 5>>{
                                {48, 80, 5, 2, 7}, {64, 144, 2, 1, 81}, {176, 16, 9, 3, 3}};
        for (const auto& [hidden, width, count, used, rows] : shapes) {
            const ExpertCase c(random, stored, hidden, width, count, used, rows);
            const at::Tensor h = random.normal({rows, hidden}, 1.0).to(dtype_of(stored.type));
            CAPTURE(static_cast<int>(stored.type), static_cast<int>(c.form), hidden, width, rows);
            at::Tensor first_inner, first_sums;
            simt::in_orders(2, [&](uint64_t order) {
                const auto [inner, sums] = run_pass(c, h, rows);
                if (order == 0) std::tie(first_inner, first_sums) = std::pair(inner, sums);
                REQUIRE(same_bits(inner, first_inner));
                REQUIRE(same_bits(sums, first_sums));
            });
            for (int64_t r = 0; r < rows; ++r) {
                for (int64_t k = 0; k < used; ++k) {
                    const RoutedExpert& to = c.routed[static_cast<size_t>(r * used + k)];
                    const at::Tensor inner = c.inner(h.narrow(0, r, 1).to(at::kFloat), to, true);
                    REQUIRE(relative_error(first_inner[r][k].to(at::kFloat), inner[0]) <= 4e-3);
                    const at::Tensor rounded = first_inner[r][k].to(at::kFloat).unsqueeze(0);
                    REQUIRE(relative_error(first_sums[k][r], c.down(rounded, to, true)[0]) <= 1e-5);
                }
            }
            const int64_t fewer = rows / 2 + 1;
            const auto [inner, sums] = run_pass(c, h, fewer);
            REQUIRE(same_bits(inner, first_inner.narrow(0, 0, fewer).contiguous()));
            REQUIRE(same_bits(sums, first_sums.narrow(1, 0, fewer).contiguous()));
        }
    }
}

} // namespace
} // namespace refreshlab::test::experts_simt
