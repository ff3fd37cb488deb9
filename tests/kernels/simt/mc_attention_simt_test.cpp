#include "kernels/cuda/decode/mc_attention.h"
#include "kernels/ops/attention.h"
#include "kernels/ops/dense.h"
#include "kernels/shared/check.h"
#include "tests/kernels/simt/decode_fixture.h"

#include <algorithm>

/// The attention of a step's MC rows on the host machine, against the plain reference: the same masks, each row's own column, and the same
/// bits in a row whatever other rows are in the launch and in whatever order blocks and threads come.
namespace refreshlab::test::mc_attention_simt {
namespace {

using namespace decode_simt;

constexpr double eps = 1e-6;
constexpr int32_t layer = 3;

struct Shape : AttentionShape {
    Shape() {
        type = WeightType::bf16;
        rows = 2;
    }
};

/// One layer's numbers for one step.
struct Layer {
    Layer(Random& random, const Shape& shape)
        : s(shape)
        , capacity(shape.position + random.between(1, 300))
        , seed(static_cast<uint64_t>(random.between(0, int64_t{1} << 60)))
        , qkv(random.normal({s.rows, s.heads() + 2 * s.kv_heads, s.head_dim}))
        , keys(random.normal({s.kv_heads, capacity, s.head_dim}, 1.0, dtype_of(s.type)))
        , values(random.normal({s.kv_heads, capacity, s.head_dim}, 1.0, dtype_of(s.type)))
        , q_norm(random, {s.head_dim}, s.type, "q norm", 0.3, 1.0)
        , k_norm(random, {s.head_dim}, s.type, "k norm", 0.3, 1.0) {
        const at::Tensor angle = random.normal({capacity, s.pairs()}, 2.0);
        cosines = angle.cos();
        sines = angle.sin();
        // What no row sees must not be looked at.
        const auto poison = [&](at::Tensor& cache, int64_t begin, int64_t end) {
            if (end > begin) cache.narrow(1, begin, end - begin).fill_(std::nanf(""));
        };
        for (at::Tensor* const cache : {&keys, &values}) {
            poison(*cache, 0, std::min(s.first(), s.position));
            poison(*cache, s.position, capacity);
        }
    }
    [[nodiscard]] at::Tensor rotated(int64_t first_head, int64_t heads, const at::Tensor& norm) const {
        at::Tensor x = qkv.narrow(1, first_head, heads).contiguous();
        if (norm.defined())
            x = kernels::reference::rms_norm(x.view({-1, s.head_dim}), norm + s.norm_offset, eps)
                    .view(x.sizes());
        if (s.turned != 0)
            kernels::reference::rope_(x, cosines[s.position].unsqueeze(0).expand({s.rows, s.pairs()}),
                                      sines[s.position].unsqueeze(0).expand({s.rows, s.pairs()}));
        return x;
    }
    [[nodiscard]] at::Tensor expected() const {
        kernels::AttentionInputs in;
        in.q = rotated(0, s.heads(), s.q_norm ? q_norm.values : at::Tensor());
        in.k_cache = keys.to(at::kFloat).nan_to_num(0);
        in.v_cache = values.to(at::kFloat).nan_to_num(0);
        const std::vector<int64_t> visible(static_cast<size_t>(s.rows), s.position),
            first(static_cast<size_t>(s.rows), std::min(s.first(), s.position));
        in.num_visible = visible;
        in.first_visible = first;
        const auto stored = [&](const at::Tensor& x) { return x.to(dtype_of(s.type)).to(at::kFloat); };
        in.own_k = stored(rotated(s.heads(), s.kv_heads, s.k_norm ? k_norm.values : at::Tensor()));
        in.own_v = stored(qkv.narrow(1, s.heads() + s.kv_heads, s.kv_heads).contiguous());
        in.scale = s.query_scale / std::sqrt(static_cast<double>(s.head_dim));
        in.soft_cap = s.cap;
        std::vector<int32_t> passes;
        for (int32_t r = 0; r < s.rows; ++r)
            passes.push_back(r);
        in.passes = passes;
        in.dropout_p = s.dropout;
        in.dropout_key = {seed, s.position, layer, 0};
        return kernels::reference::attention(in);
    }

    Shape s;
    int64_t capacity;
    uint64_t seed;
    at::Tensor qkv, keys, values, cosines, sines;
    Weights q_norm, k_norm;
};

/// \param rows  of the step, of `launched`. The launch is made twice on the same scratch memory.
/// \return [rows - 1, heads, head_dim], of the MC rows
at::Tensor run(const Layer& l, int64_t rows, int64_t launched) {
    const Shape& s = l.s;
    const auto state = state_on_device(rows - 1, s.position, 0, l.seed);
    const auto qkv = floats_on_device(l.qkv.narrow(0, 0, launched), "qkv");
    const auto cosines = floats_on_device(l.cosines, "cos"), sines = floats_on_device(l.sines, "sin");
    const auto keys = bytes_on_device(l.keys, "keys"), values = bytes_on_device(l.values, "values");
    const auto n = static_cast<size_t>(launched * s.heads());
    const auto splits = static_cast<size_t>(kernels::decode::splits(l.capacity));
    const Array<float> parts(
        (n - static_cast<size_t>(s.heads())) * splits * static_cast<size_t>(s.head_dim + 2), "parts");
    const Array<uint32_t> arrived(std::vector<uint32_t>(static_cast<size_t>((launched - 1) * s.kv_heads)),
                                  "arrived");
    const Array<float> attended(n * static_cast<size_t>(s.head_dim), "attended");
    gpu::McAttentionInputs in;
    in.type = s.type;
    in.state = state.data();
    in.qkv = qkv.data();
    in.q_norm = s.q_norm ? l.q_norm.device.data() : nullptr;
    in.k_norm = s.k_norm ? l.k_norm.device.data() : nullptr;
    in.eps = eps;
    in.norm_offset = s.norm_offset;
    in.cos = s.turned == 0 ? nullptr : cosines.data();
    in.sin = s.turned == 0 ? nullptr : sines.data();
    in.turned = std::max<int64_t>(s.turned, 0);
    in.query_scale = s.query_scale;
    in.cap = s.cap;
    in.k_cache = keys.data();
    in.v_cache = values.data();
    in.heads = s.heads();
    in.kv_heads = s.kv_heads;
    in.head_dim = s.head_dim;
    in.capacity = l.capacity;
    in.window = s.window;
    in.dropout = {s.dropout, layer, 0};
    in.parts = parts.data();
    in.arrived = arrived.data();
    in.attended = attended.data();
    in.rows = launched;
    gpu::launch_mc_attention(in, nullptr);
    const std::vector<float> once = attended.values();
    gpu::launch_mc_attention(in, nullptr);
    REQUIRE(std::memcmp(once.data(), attended.data(), once.size() * sizeof(float)) == 0);
    REQUIRE(std::ranges::all_of(arrived.values(), [](uint32_t count) { return count == 0; }));
    const at::Tensor all = tensor_of(attended, {launched, s.heads(), s.head_dim});
    REQUIRE(all[0].isnan().all().item<bool>()); // the token's
    REQUIRE(all.narrow(0, rows, launched - rows).isnan().all().item<bool>());
    return all.narrow(0, 1, rows - 1);
}

void check(Random& random, const Shape& s) {
    CAPTURE(static_cast<int>(s.type), s.kv_heads, s.group, s.head_dim, s.position, s.window, s.rows, s.q_norm,
            s.k_norm, s.dropout, s.turned, s.norm_offset, s.query_scale, s.cap);
    const Layer l(random, s);
    const at::Tensor got = run(l, s.rows, s.rows), expected = l.expected();
    // A normed key may round to the neighbour of the reference's.
    const double tolerance = s.k_norm ? 3e-3 : 1e-5;
    for (int64_t r = 1; r < s.rows; ++r) {
        CAPTURE(r);
        REQUIRE(relative_error(got[r - 1], expected[r]) <= tolerance);
    }
}

TEST_CASE("attention of MC rows on the host machine equals the reference", "[simt][decode][mc]") {
    Random random(1231);
    const std::vector<int64_t> dims{32, 48, 64, 80, 96, 128, 256}, groups{1, 2, 3, 4, 7, 8, 16},
        positions{0, 1, 255, 256, 257, 511, 700}, rows{2, 3, 8, 9, 10, 21, 5};
    const auto groups_from = static_cast<size_t>(random.between(0, 6)),
               positions_from = static_cast<size_t>(random.between(0, 6)),
               rows_from = static_cast<size_t>(random.between(0, 6));
    for (size_t i = 0; i < 2 * dims.size(); ++i) {
        Shape s;
        s.type = i % 2 == 0 ? WeightType::bf16 : WeightType::f16;
        s.head_dim = dims[i % 7];
        s.group = groups[(i * (1 + i / 7) + groups_from) % 7];
        s.position = positions[(2 * i + i / 7 + positions_from) % 7];
        s.rows = rows[(3 * i + rows_from) % 7];
        s.kv_heads = s.head_dim * s.group > 512 ? 1 : 2;
        s.window = i % 3 != 0 ? 0 : random.pick(std::vector<int64_t>{1, 2, 100, 256, 257, 300, 5000});
        s.q_norm = random.between(0, 1) == 1;
        s.k_norm = random.between(0, 3) == 0;
        s.dropout = i % 4 == 0 ? 0.0F : 0.25F;
        s.draw_kind(random);
        check(random, s);
    }
}

TEST_CASE("attention of MC rows where splits begin and end", "[simt][decode][mc]") {
    Random random(1232);
    for (const int64_t position : {0, 1, 255, 256, 257, 511, 700}) {
        Shape s;
        s.type = random.pick(std::vector<WeightType>{WeightType::bf16, WeightType::f16});
        s.position = position;
        s.group = 2;
        s.rows = 3;
        s.dropout = 0.5F;
        for (const int64_t window :
             {int64_t{0}, int64_t{1}, position - 254, position - 255, position - 300}) {
            if (window < 0 || (window == 0 && position % 2 == 1)) continue;
            s.window = window;
            check(random, s);
        }
    }
}

TEST_CASE("the largest attention of MC rows; what it refuses", "[simt][decode][mc]") {
    Random random(1233);
    Shape s;
    s.head_dim = 256;
    s.group = 16;
    s.rows = 4;
    s.position = 300;
    s.window = 60;
    const simt::Settings before = simt::set_settings({0, 89}); // 99 KB of shared memory
    check(random, s);
    s.group = 1;
    s.rows = 40; // 32 own keys in a block
    check(random, s);
    simt::set_settings(before);
    s.type = WeightType::f32;
    const Layer l(random, s);
    REQUIRE_THROWS_AS(run(l, 2, 2), InvariantError);
}

TEST_CASE("an MC row of attention has the same bits whatever rows are beside it, in every order",
          "[simt][decode][mc]") {
    Random random(1234);
    for (const WeightType type : {WeightType::bf16, WeightType::f16}) {
        Shape s;
        s.type = type;
        s.group = random.pick(std::vector<int64_t>{1, 3, 4});
        s.head_dim = random.pick(std::vector<int64_t>{32, 80, 128});
        s.position = random.pick(std::vector<int64_t>{100, 270});
        s.rows = 101;
        s.q_norm = s.k_norm = true;
        s.dropout = 0.1F;
        const Layer l(random, s);
        const at::Tensor all = run(l, 101, 101);
        for (const int64_t rows : {2, 3, 8, 9, 10, 21, 100}) {
            CAPTURE(rows);
            REQUIRE(same_bits(run(l, rows, rows), all.narrow(0, 0, rows - 1)));
        }
        REQUIRE(same_bits(run(l, 3, 12), all.narrow(0, 0, 2)));
        simt::in_orders(3, [&](uint64_t) { REQUIRE(same_bits(run(l, 9, 9), all.narrow(0, 0, 8))); });
    }
}

} // namespace
} // namespace refreshlab::test::mc_attention_simt
