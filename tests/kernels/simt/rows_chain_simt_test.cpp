#include "kernels/cuda/rows/row_kernels.h"
#include "kernels/ops/attention.h"
#include "kernels/ops/dense.h"
#include "tests/kernels/simt/rows_fixture.h"

/// The kernels of a pass of many rows one behind the other, each a dependent launch: nothing of an earlier one is touched before it has
/// ended, the result is that of the references, and a pass in two parts has the bits of a pass in one.
namespace refreshlab::test::rows_chain_simt {
namespace {

using namespace rows_simt;
using Then = gpu::RowsProductInputs::Then;

constexpr double eps = 1e-5;
// The rows stand on both sides of the end of attention's first split.
constexpr int64_t hidden = 72, ffn = 104, heads = 4, kv_heads = 2, head_dim = 32, vocab = 9, rows = 7,
                  first = kernels::rows::attention_split - 4, capacity = first + rows;
constexpr int64_t all_heads = heads + 2 * kv_heads;
/// Of the products that are made in parts: 64 inputs, and the rest.
constexpr int64_t num_parts = 2;

struct Model {
    Model(Random& random, WeightType type_)
        : type(type_)
        , embedding(random, {vocab, hidden}, type, "embedding")
        , norm(random, {hidden}, type, "norm", 0.3, 1.0)
        , head_norm(random, {head_dim}, type, "norm of heads", 0.3, 1.0)
        , q(random, heads * head_dim, hidden, type, true, "q")
        , k(random, kv_heads * head_dim, hidden, type, true, "k")
        , v(random, kv_heads * head_dim, hidden, type, true, "v")
        , o(random, hidden, heads * head_dim, type, false, "o")
        , gate(random, ffn, hidden, type, false, "gate")
        , up(random, ffn, hidden, type, false, "up")
        , down(random, hidden, ffn, type, false, "down")
        , keys(random.normal({kv_heads, capacity, head_dim}, 1.0, dtype_of(type)))
        , values(random.normal({kv_heads, capacity, head_dim}, 1.0, dtype_of(type))) {
        const at::Tensor angle = random.normal({capacity, head_dim / 2}, 2.0);
        cosines = angle.cos();
        sines = angle.sin();
        for (int64_t r = 0; r < rows; ++r)
            tokens.push_back(static_cast<int32_t>(random.between(0, vocab - 1)));
    }
    WeightType type;
    Weights embedding, norm, head_norm;
    TestMatrix q, k, v, o, gate, up, down;
    at::Tensor keys, values, cosines, sines;
    std::vector<int32_t> tokens;
};

at::Tensor expected(const Model& m) {
    const auto rounded = [&](const at::Tensor& x) { return x.to(dtype_of(m.type)).to(at::kFloat); };
    const auto product = [&](const at::Tensor& x, const TestMatrix& matrix) {
        return kernels::reference::linear(rounded(x), matrix.weight.values, matrix.reference_bias());
    };
    const auto turned = [&](const at::Tensor& flat, int64_t n) {
        at::Tensor x = kernels::reference::rms_norm(flat.view({-1, head_dim}), m.head_norm.values, eps)
                           .view({rows, n, head_dim});
        kernels::reference::rope_(x, m.cosines.narrow(0, first, rows), m.sines.narrow(0, first, rows));
        return x;
    };
    at::Tensor x = m.embedding.values.index_select(
        0, at::tensor(std::vector<int64_t>(m.tokens.begin(), m.tokens.end()), at::kLong));
    at::Tensor h = kernels::reference::rms_norm(x, m.norm.values, eps);
    kernels::AttentionInputs in;
    in.q = turned(product(h, m.q), heads);
    in.k_cache = m.keys.to(at::kFloat);
    in.v_cache = m.values.to(at::kFloat);
    in.k_cache.narrow(1, first, rows).copy_(rounded(turned(product(h, m.k), kv_heads)).transpose(0, 1));
    in.v_cache.narrow(1, first, rows)
        .copy_(rounded(product(h, m.v)).view({rows, kv_heads, head_dim}).transpose(0, 1));
    std::vector<int64_t> visible;
    for (int64_t r = 0; r < rows; ++r)
        visible.push_back(first + r + 1);
    in.num_visible = visible;
    in.scale = 1.0 / std::sqrt(static_cast<double>(head_dim));
    x = x + product(kernels::reference::attention(in).view({rows, heads * head_dim}), m.o);
    h = kernels::reference::rms_norm(x, m.norm.values, eps);
    return x + product(kernels::reference::silu_mul(product(h, m.gate), product(h, m.up)), m.down);
}

/// What passes write, taken once for all of them: the second begins while the first runs.
struct Scratch {
    explicit Scratch(WeightType type)
        : bytes(static_cast<size_t>(kernels::bytes_of(type))) {}
    size_t bytes;
    Array<float> x{rows * hidden, "x"}, qkv{rows * all_heads * head_dim, "qkv"},
        parts{static_cast<size_t>(std::max(kernels::rows::attention_parts(rows, heads, head_dim, capacity),
                                           num_parts*rows*all_heads*head_dim)),
              "parts of attention, or of a product"};
    Array<uint8_t> h{rows * hidden * bytes, "h"}, attended{rows * heads * head_dim * bytes, "attended"},
        inner{rows * ffn * bytes, "inner"};
};

/// Device memory of a layer.
struct Layer {
    explicit Layer(const Model& m)
        : keys(bytes_on_device(m.keys, "keys", Contents::written))
        , values(bytes_on_device(m.values, "values", Contents::written))
        , cosines(floats_on_device(m.cosines, "cos"))
        , sines(floats_on_device(m.sines, "sin"))
        , tokens(m.tokens, "tokens", Contents::read_only) {}
    Array<uint8_t> keys, values;
    Array<float> cosines, sines;
    Array<int32_t> tokens;
};

/// A layer for rows [from, from + n); they come into x at their place. \param in_parts  products that may be; then the last is added at the end
void pass(const Model& m, const Layer& layer, const Scratch& s, int64_t from, int64_t n, bool in_parts) {
    float* const x = s.x.data() + from * hidden;
    const gpu::ProductParts parts =
        in_parts ? gpu::ProductParts{num_parts, s.parts.data()} : gpu::ProductParts{};
    const auto product = [&](const TestMatrix& matrix, const void* in, void* out, int64_t stride, Then then,
                             const TestMatrix* up = nullptr) {
        gpu::RowsProductInputs made{m.type,
                                    then,
                                    in,
                                    matrix.in_use.data,
                                    matrix.in_use.bias,
                                    up == nullptr ? nullptr : up->in_use.data,
                                    up == nullptr ? nullptr : up->in_use.bias,
                                    n,
                                    matrix.in_use.inputs,
                                    matrix.in_use.outputs,
                                    out,
                                    stride,
                                    true};
        if (then == Then::onto) made.parts = parts;
        gpu::launch_rows_product(made, nullptr);
    };
    const auto norm = [&](const gpu::ProductParts& onto) {
        gpu::RowsNormInputs in{m.type, x, m.norm.device.data(), eps, n, hidden, hidden, s.h.data(), true};
        in.parts = onto;
        gpu::launch_rows_norm(in, nullptr);
    };
    gpu::launch_rows_embed(
        {m.type, m.embedding.device.data(), layer.tokens.data() + from, n, hidden, x, true}, nullptr);
    norm({});
    const int64_t stride = all_heads * head_dim;
    const auto below = [](const TestMatrix& matrix) {
        return gpu::RowsProductInputs::Below{matrix.in_use.data, matrix.in_use.bias, matrix.in_use.outputs};
    };
    gpu::launch_rows_product({m.type,
                              Then::store,
                              s.h.data(),
                              m.q.in_use.data,
                              m.q.in_use.bias,
                              nullptr,
                              nullptr,
                              n,
                              hidden,
                              m.q.in_use.outputs,
                              s.qkv.data(),
                              stride,
                              true,
                              {below(m.k), below(m.v)},
                              kernels::MatrixForm::numbers,
                              parts},
                             nullptr);
    gpu::RowsAppendInputs append{{m.type, m.head_norm.device.data(), m.head_norm.device.data(), eps, 0,
                                  layer.cosines.data(), layer.sines.data(), 0, kv_heads, head_dim},
                                 s.qkv.data(),
                                 layer.keys.data(),
                                 layer.values.data(),
                                 heads,
                                 capacity,
                                 n,
                                 first + from,
                                 true};
    append.parts = parts;
    append.q_bias = m.q.in_use.bias;
    append.k_bias = m.k.in_use.bias;
    append.v_bias = m.v.in_use.bias;
    gpu::launch_rows_append(append, nullptr);
    gpu::launch_rows_attention({m.type, s.qkv.data(), layer.keys.data(), layer.values.data(), heads, kv_heads,
                                head_dim, capacity, n, first + from, 0, s.parts.data(), s.attended.data(),
                                true},
                               nullptr);
    product(m.o, s.attended.data(), x, hidden, Then::onto);
    norm(parts);
    product(m.gate, s.h.data(), s.inner.data(), ffn, Then::gated, &m.up);
    product(m.down, s.inner.data(), x, hidden, Then::onto);
    if (in_parts) norm(parts);
}

TEST_CASE("a layer of many rows is the references', and two passes have the bits of one", "[simt][rows]") {
    Random random(1331);
    for (const auto& [type, in_parts] : {std::pair(WeightType::f32, false),
                                         {WeightType::bf16, false},
                                         {WeightType::bf16, true},
                                         {WeightType::f16, true}}) {
        const Model m(random, type);
        const at::Tensor reference = expected(m);
        at::Tensor x, keys, values;
        const int64_t part = random.between(1, rows - 1);
        simt::in_orders(3, [&](uint64_t order) {
            CAPTURE(static_cast<int>(type), in_parts, order, part);
            const Layer layer(m);
            const Scratch scratch(type);
            forget_launches();
            if (order == 1) {
                pass(m, layer, scratch, 0, part, in_parts);
                pass(m, layer, scratch, part, rows - part, in_parts);
            } else {
                pass(m, layer, scratch, 0, rows, in_parts);
            }
            // Ten a pass, where two splits are merged; the first of two parts may see one. And a norm that adds what down left in parts.
            const size_t of_pass = in_parts ? 11 : 10;
            require_dependent_launches(order == 1 ? 2 * of_pass - 1 : of_pass,
                                       order == 1 ? 2 * of_pass : of_pass);
            const at::Tensor got = tensor_of(scratch.x, {rows, hidden});
            const at::Tensor k = tensor_of(layer.keys, m.keys.sizes(), dtype_of(type)),
                             v = tensor_of(layer.values, m.values.sizes(), dtype_of(type));
            if (order == 0) {
                x = got;
                keys = k;
                values = v;
                // In 16 bits a number may round to the neighbour of the reference's.
                for (int64_t r = 0; r < rows; ++r)
                    REQUIRE(relative_error(got[r], reference[r]) <= (type == WeightType::f32    ? 2e-5
                                                                     : type == WeightType::bf16 ? 5e-3
                                                                                                : 1e-3));
            }
            REQUIRE(same_bits(got, x));
            REQUIRE(same_bits(k, keys));
            REQUIRE(same_bits(v, values));
        });
    }
}

} // namespace
} // namespace refreshlab::test::rows_chain_simt
