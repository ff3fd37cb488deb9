#include "kernels/cuda/decode/qkv_attention.h"
#include "kernels/shared/check.h"
#include "tests/kernels/simt/decode_fixture.h"

#include <numeric>

/// q | k | v and attention in one launch of clusters, against the two launches: the same bits of all that they leave, in every order.
/// Those two are compared with the references in suites of their own.
namespace refreshlab::test::qkv_attention_simt {
namespace {

using namespace decode_simt;

struct Shape : AttentionShape {
    int64_t hidden = 72, room = 0; ///< entries of the cache behind the position
    bool normed = true, biased = false, listed = false;
};

/// A layer's numbers for one step.
class Layer {
public:
    Layer(Random& random, const Shape& shape)
        : s(shape)
        , capacity(s.position + 1 + s.room)
        , x(random.normal({1, s.hidden}, 2.0))
        , norm(random, {s.hidden}, s.type, "norm", 0.3, 1.0)
        , q_norm(random, {s.head_dim}, s.type, "q norm", 0.3, 1.0)
        , k_norm(random, {s.head_dim}, s.type, "k norm", 0.3, 1.0)
        , q(random, s.heads() * s.head_dim, s.hidden, s.type, s.biased, "q")
        , k(random, s.kv_heads * s.head_dim, s.hidden, s.type, s.biased, "k")
        , v(random, s.kv_heads * s.head_dim, s.hidden, s.type, s.biased, "v")
        , keys(random.normal({s.kv_heads, capacity, s.head_dim}, 1.0, dtype_of(s.type)))
        , values(random.normal({s.kv_heads, capacity, s.head_dim}, 1.0, dtype_of(s.type))) {
        const at::Tensor angle = random.normal({capacity, s.pairs()}, 2.0);
        cosines = angle.cos();
        sines = angle.sin();
        // Lists: some positions of each head, in rows anywhere.
        for (int64_t h = 0; h < s.kv_heads; ++h) {
            std::vector<int32_t> free(static_cast<size_t>(capacity));
            std::iota(free.begin(), free.end(), static_cast<int32_t>(h * capacity));
            for (int64_t p = 0; p <= s.position; ++p) {
                if (p < s.position && random.between(0, 4) == 0) continue;
                std::swap(free[static_cast<size_t>(random.between(0, std::ssize(free) - 1))], free.back());
                entries.push_back({static_cast<int32_t>(p), free.back()});
                free.pop_back();
            }
            counts.push_back(static_cast<int32_t>(std::ssize(entries) - h * capacity));
            entries.resize(static_cast<size_t>((h + 1) * capacity));
        }
    }

    Shape s;
    int64_t capacity;
    at::Tensor x;
    Weights norm, q_norm, k_norm;
    TestMatrix q, k, v;
    at::Tensor keys, values, cosines, sines;
    std::vector<kernels::ListEntry> entries; ///< [kv_heads, capacity]
    std::vector<int32_t> counts;
};

/// All that the launches leave.
struct Left {
    std::vector<float> attended, scores, sums, entropies;
    std::vector<uint8_t> keys, values;
    friend bool operator==(const Left& a, const Left& b) {
        const auto same = [](const auto& one, const auto& other) {
            return one.size() == other.size() &&
                   std::memcmp(one.data(), other.data(), one.size() * sizeof(one[0])) == 0;
        };
        return same(a.attended, b.attended) && same(a.scores, b.scores) && same(a.sums, b.sums) &&
               same(a.entropies, b.entropies) && same(a.keys, b.keys) && same(a.values, b.values);
    }
};

Left run(const Layer& l, bool joined, bool looks_at_rows) {
    const Shape& s = l.s;
    const auto state = state_on_device(0, s.position);
    const auto x = floats_on_device(l.x, "x"), cosines = floats_on_device(l.cosines, "cos"),
               sines = floats_on_device(l.sines, "sin");
    const auto keys = bytes_on_device(l.keys, "keys", Contents::written),
               values = bytes_on_device(l.values, "values", Contents::written);
    const Array<kernels::ListEntry> entries(l.entries, "entries", Contents::read_only);
    const Array<int32_t> counts(l.counts, "counts", Contents::read_only);
    const auto heads = static_cast<size_t>(s.heads()), dim = static_cast<size_t>(s.head_dim),
               splits = static_cast<size_t>(kernels::decode::splits(l.capacity));
    const Array<float> qkv((heads + 2 * static_cast<size_t>(s.kv_heads)) * dim, "qkv"),
        attended(heads * dim, "attended"), parts(heads * splits * (dim + 2), "parts"),
        scores(heads * static_cast<size_t>(l.capacity), "scores"), sums(heads * 2, "sums"),
        entropies(heads, "entropies"), entropy_parts(heads * splits, "entropy parts");
    const Array<uint32_t> arrived(std::vector<uint32_t>(static_cast<size_t>(s.kv_heads)), "arrived");
    gpu::QkvAttentionInputs in;
    in.qkv.type = in.attention.type = s.type;
    in.qkv.state = in.attention.state = state.data();
    in.qkv.x = x.data();
    in.qkv.norm = s.normed ? l.norm.device.data() : nullptr;
    in.qkv.hidden = in.qkv.width = s.hidden;
    in.qkv.eps = in.attention.eps = 1e-6;
    in.qkv.norm_offset = in.attention.norm_offset = s.norm_offset;
    in.qkv.matrices[0] = l.q.in_use;
    in.qkv.matrices[1] = l.k.in_use;
    in.qkv.matrices[2] = l.v.in_use;
    gpu::DecodeAttentionInputs& a = in.attention;
    a.q_norm = s.q_norm ? l.q_norm.device.data() : nullptr;
    a.k_norm = s.k_norm ? l.k_norm.device.data() : nullptr;
    a.cos = s.turned == 0 ? nullptr : cosines.data();
    a.sin = s.turned == 0 ? nullptr : sines.data();
    a.turned = std::max<int64_t>(s.turned, 0);
    a.query_scale = s.query_scale;
    a.cap = s.cap;
    a.k_cache = keys.data();
    a.v_cache = values.data();
    a.heads = s.heads();
    a.kv_heads = s.kv_heads;
    a.head_dim = s.head_dim;
    a.capacity = l.capacity;
    a.window = s.window;
    a.attended = attended.data();
    if (s.listed) {
        a.entries = entries.data();
        a.counts = counts.data();
    }
    if (looks_at_rows) {
        a.scores = scores.data();
        a.score_sums = sums.data();
        a.entropies = entropies.data();
    }
    if (joined) {
        gpu::launch_qkv_attention(in, nullptr);
    } else {
        in.qkv.out = qkv.data();
        a.qkv = qkv.data();
        a.parts = parts.data();
        a.arrived = arrived.data();
        a.entropy_parts = entropy_parts.data();
        gpu::launch_norm_product(in.qkv, nullptr);
        gpu::launch_decode_attention(a, nullptr);
    }
    return {attended.values(),  scores.values(), sums.values(),
            entropies.values(), keys.values(),   values.values()};
}

void check(Random& random, const Shape& s, int orders = 1) {
    CAPTURE(static_cast<int>(s.type), s.kv_heads, s.group, s.head_dim, s.hidden, s.position, s.room, s.window,
            s.normed, s.biased, s.listed, s.q_norm, s.k_norm, s.turned, s.norm_offset, s.query_scale, s.cap);
    const Layer l(random, s);
    for (const bool looks : {true, false}) {
        const Left apart = run(l, false, looks);
        simt::in_orders(looks ? orders : 1, [&](uint64_t) { REQUIRE(run(l, true, looks) == apart); });
    }
}

/// Of a shape that is joined where there are clusters.
gpu::QkvAttentionInputs plain_inputs() {
    gpu::QkvAttentionInputs in;
    in.attention.kv_heads = in.attention.heads = 1;
    in.attention.head_dim = 256;
    in.attention.capacity = 256;
    in.qkv.hidden = 64;
    in.qkv.type = in.attention.type = WeightType::bf16;
    return in;
}
/// A GPU of the device suite may have no clusters.
void need_clusters() {
    if (!gpu::runs_qkv_attention(plain_inputs())) SKIP("this device has no clusters of blocks");
}

TEST_CASE("q|k|v and attention in one launch leave what two launches leave, to the bit", "[simt][decode]") {
    need_clusters();
    Random random(1241);
    const std::vector<int64_t> dims{32, 48, 64, 80, 96, 128, 256}, groups{1, 2, 3, 4, 7, 8, 16},
        positions{0, 1, 255, 256, 257, 511, 700};
    const auto from = static_cast<size_t>(random.between(0, 6));
    for (size_t i = 0; i < 2 * dims.size(); ++i) {
        Shape s;
        s.type = weight_types[i % 3];
        s.head_dim = dims[i % 7];
        s.group = groups[(i * (1 + i / 7) + from) % 7];
        s.position = positions[(2 * i + i / 7 + from) % 7];
        s.kv_heads = s.head_dim * s.group > 512 ? 1 : 2;
        s.hidden = s.head_dim * s.group > 512 ? 40 : random.pick(std::vector<int64_t>{8, 72, 264});
        s.room = random.between(0, 300);
        s.window = i % 2 == 0 ? 0 : random.pick(std::vector<int64_t>{1, 2, 100, 256, 257, 300, 5000});
        s.q_norm = random.between(0, 1) == 1;
        s.k_norm = random.between(0, 1) == 1;
        s.normed = random.between(0, 3) > 0;
        s.biased = random.between(0, 1) == 1;
        s.listed = random.between(0, 1) == 1;
        s.draw_kind(random);
        check(random, s);
    }
}

TEST_CASE("the same in every order of blocks and threads", "[simt][decode]") {
    need_clusters();
    Random random(1242);
    for (const bool listed : {false, true}) {
        Shape s;
        s.type = random.pick(weight_types);
        s.group = 3;
        s.kv_heads = 2;
        s.position = 300;
        s.listed = listed;
        s.q_norm = s.k_norm = true;
        check(random, s, 4);
    }
}

TEST_CASE("a cluster goes over more splits than it has blocks", "[simt][decode]") {
    need_clusters();
    Random random(1243);
    struct Many {
        int64_t kv_heads, group, head_dim, splits, window;
    };
    // Clusters of 3 x 16 / 16 = 2 blocks, of one, of 8; windows that begin at a later split; one team of the merge, two, three.
    const std::vector<Many> cases{
        {1, 1, 16, 9, 0}, {2, 1, 8, 3, 0}, {1, 2, 64, 19, 0}, {1, 2, 64, 26, 4000}, {1, 1, 16, 27, 0}};
    for (const Many& c : cases) {
        for (const bool listed : {false, true}) {
            Shape s;
            s.type = random.pick(weight_types);
            s.kv_heads = c.kv_heads;
            s.group = c.group;
            s.head_dim = c.head_dim;
            s.position = c.splits * 256 - random.between(1, 200);
            s.window = c.window;
            s.listed = listed;
            s.hidden = 16;
            check(random, s);
        }
    }
}

TEST_CASE("rows that are longer than a block of a cluster holds come in turns", "[simt][decode]") {
    need_clusters();
    Random random(1244);
    Shape s;
    s.type = random.pick(weight_types);
    s.group = 1;
    s.head_dim = 16;
    s.hidden = 16384 + 264;
    s.position = 20;
    check(random, s);
}

TEST_CASE("a cluster has blocks for its outputs, and a cache that it has no room for has launches of its own",
          "[simt][decode]") {
    namespace decode = kernels::decode;
    // Llama-3.2-3B and its students: 640 outputs of a KV head, 16 blocks.
    STATIC_REQUIRE(decode::joined_cluster(8, 3, 128) == 16);
    STATIC_REQUIRE(decode::joined_cluster(32, 1, 128) == 4);
    STATIC_REQUIRE(decode::joined_cluster(2, 2, 16) == 4);
    STATIC_REQUIRE(decode::joined_cluster(200, 1, 128) == 1);
    STATIC_REQUIRE(decode::joins_attention(WeightType::bf16, 8, 3, 128, 1696, 131072));
    STATIC_REQUIRE(!decode::joins_attention(WeightType::bf16, 8, 8, 128, 1696, 131072 * 8));
    // A few blocks would have to read much: of the matrices, of the cache.
    STATIC_REQUIRE(decode::joins_attention(WeightType::bf16, 2, 7, 64, 896, 4096));
    STATIC_REQUIRE(!decode::joins_attention(WeightType::bf16, 2, 7, 64, 896, 4097));
    STATIC_REQUIRE(!decode::joins_attention(WeightType::bf16, 1, 4, 256, 1152, 2048));
    STATIC_REQUIRE(!decode::can_join_attention(1, 16, 256, 64, 300000));
    gpu::QkvAttentionInputs in = plain_inputs();
    in.attention.heads = 16;
    in.attention.capacity = 300000;
    REQUIRE_FALSE(gpu::runs_qkv_attention(in));
    REQUIRE_THROWS_AS(gpu::launch_qkv_attention(in, nullptr), InvariantError);
}

} // namespace
} // namespace refreshlab::test::qkv_attention_simt
