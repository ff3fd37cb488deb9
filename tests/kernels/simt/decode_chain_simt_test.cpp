#include "kernels/cuda/decode/mc_attention.h"
#include "kernels/ops/attention.h"
#include "kernels/ops/dense.h"
#include "tests/kernels/simt/decode_fixture.h"

/// The kernels of a step one behind the other, each a dependent launch: nothing of an earlier one is touched before it has ended, and
/// the logits are those of the references.
namespace refreshlab::test::decode_chain_simt {
namespace {

using namespace decode_simt;

constexpr double eps = 1e-5;
constexpr int64_t hidden = 64, ffn = 104, heads = 4, kv_heads = 2, head_dim = 32, vocab = 70, position = 20,
                  capacity = 40, rows = 3;

struct Model {
    Model(Random& random, WeightType type)
        : embedding(random, {vocab, hidden}, type, "embedding")
        , norm(random, {hidden}, type, "norm", 0.3, 1.0)
        , q(random, heads * head_dim, hidden, type, true, "q")
        , k(random, kv_heads * head_dim, hidden, type, true, "k")
        , v(random, kv_heads * head_dim, hidden, type, true, "v")
        , o(random, hidden, heads * head_dim, type, false, "o")
        , gate(random, ffn, hidden, type, false, "gate")
        , up(random, ffn, hidden, type, false, "up")
        , down(random, hidden, ffn, type, false, "down")
        , head(random, vocab, hidden, type, false, "head")
        , keys(random.normal({kv_heads, capacity, head_dim}, 1.0, dtype_of(type)))
        , values(random.normal({kv_heads, capacity, head_dim}, 1.0, dtype_of(type))) {
        const at::Tensor angle = random.normal({capacity, head_dim / 2}, 2.0);
        cosines = angle.cos();
        sines = angle.sin();
    }
    Weights embedding, norm;
    TestMatrix q, k, v, o, gate, up, down, head;
    at::Tensor keys, values, cosines, sines;
};

at::Tensor product(const at::Tensor& x, const TestMatrix& m) {
    return kernels::reference::linear(x, m.weight.values, m.reference_bias());
}

at::Tensor expected(const Model& m, WeightType type, int32_t token) {
    at::Tensor x = m.embedding.values[token].unsqueeze(0).clone();
    at::Tensor h = kernels::reference::rms_norm(x, m.norm.values, eps);
    at::Tensor q = product(h, m.q).view({1, heads, head_dim}),
               k = product(h, m.k).view({1, kv_heads, head_dim});
    const at::Tensor c = m.cosines[position].unsqueeze(0), s = m.sines[position].unsqueeze(0);
    kernels::reference::rope_(q, c, s);
    kernels::reference::rope_(k, c, s);
    kernels::AttentionInputs in;
    in.q = q;
    in.k_cache = m.keys.to(at::kFloat);
    in.v_cache = m.values.to(at::kFloat);
    const std::vector<int64_t> visible{position};
    in.num_visible = visible;
    in.own_k = k.to(dtype_of(type)).to(at::kFloat);
    in.own_v = product(h, m.v).view({1, kv_heads, head_dim}).to(dtype_of(type)).to(at::kFloat);
    in.scale = 1.0 / std::sqrt(static_cast<double>(head_dim));
    x = x + product(kernels::reference::attention(in).view({1, heads * head_dim}), m.o);
    h = kernels::reference::rms_norm(x, m.norm.values, eps);
    x = x + product(kernels::reference::silu_mul(product(h, m.gate), product(h, m.up)), m.down);
    return product(kernels::reference::rms_norm(x, m.norm.values, eps), m.head);
}

/// Everything that a step writes, taken once for two steps: the second begins while the first runs.
struct Scratch {
    Array<float> x{rows * hidden, "x"}, qkv{rows * (heads + 2 * kv_heads) * head_dim, "qkv"},
        attended{rows * heads * head_dim, "attended"}, inner{rows * ffn, "inner"},
        logits{rows * vocab, "logits"}, parts{rows * heads * (head_dim + 2), "parts"};
    Array<float> mc_parts{rows * heads * (head_dim + 2), "mc parts"};
    Array<uint32_t> arrived{std::vector<uint32_t>(rows * kv_heads), "arrived"},
        mc_arrived{std::vector<uint32_t>(rows * kv_heads), "mc arrived"};
};

void step(const Model& m, WeightType type, const gpu::StepState* state, const Scratch& s, uint8_t* keys,
          uint8_t* values, const float* cosines, const float* sines) {
    gpu::launch_embed({type, m.embedding.device.data(), state, s.x.data(), rows, hidden, true}, nullptr);
    const auto normed = [&](auto in) {
        in.type = type;
        in.state = state;
        in.x = s.x.data();
        in.norm = m.norm.device.data();
        in.hidden = in.width = hidden;
        in.eps = eps;
        in.rows = rows;
        in.dependent = true;
        return in;
    };
    const auto onto = [&](const TestMatrix& matrix, const float* from) {
        gpu::ProductOntoInputs in;
        in.type = type;
        in.state = state;
        in.in = from;
        in.matrix = matrix.in_use;
        in.x = s.x.data();
        in.rows = rows;
        in.dependent = true;
        gpu::launch_product_onto(in, nullptr);
    };
    gpu::NormProductInputs qkv = normed(gpu::NormProductInputs());
    qkv.matrices[0] = m.q.in_use;
    qkv.matrices[1] = m.k.in_use;
    qkv.matrices[2] = m.v.in_use;
    qkv.out = s.qkv.data();
    gpu::launch_norm_product(qkv, nullptr);
    gpu::DecodeAttentionInputs attention;
    attention.type = type;
    attention.state = state;
    attention.qkv = s.qkv.data();
    attention.cos = cosines;
    attention.sin = sines;
    attention.k_cache = keys;
    attention.v_cache = values;
    attention.heads = heads;
    attention.kv_heads = kv_heads;
    attention.head_dim = head_dim;
    attention.capacity = capacity;
    attention.parts = s.parts.data();
    attention.arrived = s.arrived.data();
    attention.attended = s.attended.data();
    const bool apart = kernels::decode::mc_rows_apart(type);
    attention.rows = apart ? 1 : rows;
    attention.dependent = true;
    gpu::launch_decode_attention(attention, nullptr);
    if (apart) {
        gpu::McAttentionInputs mc;
        mc.type = type;
        mc.state = state;
        mc.qkv = s.qkv.data();
        mc.cos = cosines;
        mc.sin = sines;
        mc.k_cache = keys;
        mc.v_cache = values;
        mc.heads = heads;
        mc.kv_heads = kv_heads;
        mc.head_dim = head_dim;
        mc.capacity = capacity;
        mc.parts = s.mc_parts.data();
        mc.arrived = s.mc_arrived.data();
        mc.attended = s.attended.data();
        mc.rows = rows;
        mc.dependent = true;
        gpu::launch_mc_attention(mc, nullptr);
    }
    onto(m.o, s.attended.data());
    gpu::NormGateUpInputs gated = normed(gpu::NormGateUpInputs());
    gated.gate = m.gate.in_use;
    gated.up = m.up.in_use;
    gated.inner = s.inner.data();
    gpu::launch_norm_gate_up(gated, nullptr);
    onto(m.down, s.inner.data());
    gpu::HeadInputs head = normed(gpu::HeadInputs());
    head.head = m.head.in_use;
    head.logits = s.logits.data();
    gpu::launch_head(head, nullptr);
}

TEST_CASE("a layer's kernels behind each other wait for each other and make the references' logits",
          "[simt][decode]") {
    Random random(1221);
    for (const WeightType type : weight_types) {
        const Model m(random, type);
        const auto token = static_cast<int32_t>(random.between(0, vocab - 1));
        const auto state = state_on_device(rows - 1, position, token);
        const auto cosines = floats_on_device(m.cosines, "cos"), sines = floats_on_device(m.sines, "sin");
        simt::in_orders(2, [&](uint64_t order) {
            CAPTURE(static_cast<int>(type), order);
            const auto keys = bytes_on_device(m.keys, "keys", Contents::written),
                       values = bytes_on_device(m.values, "values", Contents::written);
            const Scratch scratch;
            forget_launches();
            for (int turn = 0; turn < 2; ++turn)
                step(m, type, state.data(), scratch, keys.data(), values.data(), cosines.data(),
                     sines.data());
            const size_t launches = kernels::decode::mc_rows_apart(type) ? 16 : 14;
            require_dependent_launches(launches, launches);
            const at::Tensor logits = tensor_of(scratch.logits, {rows, vocab});
            // In 16 bits an own key may round to the neighbour of the reference's.
            REQUIRE(relative_error(logits[0], expected(m, type, token)[0]) <=
                    (type == WeightType::f32 ? 2e-5 : 1e-3));
            // No dropout: rows of the same token. Tensor cores sum in another order, and an own key may round to its neighbour.
            for (int64_t r = 1; r < rows; ++r) {
                REQUIRE(same_bits(logits[r], logits[1]));
                if (type == WeightType::f32) {
                    REQUIRE(same_bits(logits[r], logits[0]));
                } else {
                    REQUIRE(relative_error(logits[r], logits[0]) <= 1e-3);
                }
            }
        });
    }
}

} // namespace
} // namespace refreshlab::test::decode_chain_simt
