#include "kernels/cuda/rows/row_kernels.h"
#include "kernels/ops/attention.h"
#include "tests/kernels/simt/rows_fixture.h"

/// Attention of many rows on the host machine: against the plain reference, and the same bits in a row whatever other rows are in the pass,
/// however many splits there are, and in whatever order blocks and threads come.
namespace refreshlab::test::rows_attention_simt {
namespace {

using namespace rows_simt;

/// Of bf16 queries and weights have 16 bits, of f16 22 (rows_attention.cu).
double tolerance(WeightType type) {
    return type == WeightType::bf16 ? 2e-5 : 1e-5;
}

struct Shape {
    int64_t group, kv_heads, head_dim, rows, first, window;
    double query_scale = 1, cap = 0;
    [[nodiscard]] int64_t heads() const { return group * kv_heads; }
    [[nodiscard]] int64_t least_seen(int64_t row) const {
        return window > 0 ? std::max<int64_t>(first + row + 1 - window, 0) : 0;
    }
};

/// A cache whose columns outside of what the rows see hold NaN, and queries.
class Case {
public:
    Case(Random& random, WeightType type, const Shape& shape)
        : m_type(type)
        , m_shape(shape)
        , m_capacity(shape.first + shape.rows + random.between(0, 40))
        , m_qkv(random.normal({shape.rows, shape.heads() + 2 * shape.kv_heads, shape.head_dim}, 1.5))
        , m_k(cache(random))
        , m_v(cache(random)) {
        m_qkv.narrow(1, shape.heads(), 2 * shape.kv_heads).fill_(nan);
    }

    [[nodiscard]] at::Tensor expected() const {
        kernels::AttentionInputs in;
        in.q = m_qkv.narrow(1, 0, m_shape.heads()).contiguous();
        in.k_cache = m_k.to(at::kFloat);
        in.v_cache = m_v.to(at::kFloat);
        std::vector<int64_t> ends, begins;
        for (int64_t r = 0; r < m_shape.rows; ++r) {
            ends.push_back(m_shape.first + r + 1);
            begins.push_back(m_shape.least_seen(r));
        }
        in.num_visible = ends;
        in.first_visible = begins;
        in.scale = m_shape.query_scale / std::sqrt(static_cast<double>(m_shape.head_dim));
        in.soft_cap = m_shape.cap;
        return kernels::reference::attention(in);
    }

    /// Rows [from, from + rows) alone, before a cache that holds their columns and no more.
    [[nodiscard]] at::Tensor run(int64_t from, int64_t rows) const {
        const int64_t heads = m_shape.heads(), head_dim = m_shape.head_dim, first = m_shape.first + from;
        const auto seen = [&](const at::Tensor& whole) {
            at::Tensor part = at::full_like(whole, nan);
            const int64_t begin = m_shape.least_seen(from), n = first + rows - begin;
            part.narrow(1, begin, n).copy_(whole.narrow(1, begin, n));
            return part;
        };
        const auto qkv = floats_on_device(m_qkv.narrow(0, from, rows), "qkv");
        const auto k = bytes_on_device(seen(m_k), "k"), v = bytes_on_device(seen(m_v), "v");
        const bool split = first + rows > kernels::rows::attention_split;
        const Array<float> parts(
            split ? static_cast<size_t>(kernels::rows::attention_parts(rows, heads, head_dim, m_capacity))
                  : 1,
            "parts");
        const Array<uint8_t> out(static_cast<size_t>(rows * heads * head_dim * kernels::bytes_of(m_type)),
                                 "attended");
        gpu::RowsAttentionInputs in;
        in.type = m_type;
        in.qkv = qkv.data();
        in.k_cache = k.data();
        in.v_cache = v.data();
        in.heads = heads;
        in.kv_heads = m_shape.kv_heads;
        in.head_dim = head_dim;
        in.capacity = m_capacity;
        in.rows = rows;
        in.first = first;
        in.window = m_shape.window;
        in.parts = split ? parts.data() : nullptr;
        in.attended = out.data();
        in.query_scale = m_shape.query_scale;
        in.cap = m_shape.cap;
        gpu::launch_rows_attention(in, nullptr);
        return tensor_of(out, {rows, heads, head_dim}, dtype_of(m_type));
    }

    /// Each row against the reference, and some of them, and runs of them, against themselves alone.
    void check(Random& random) const {
        const at::Tensor all = run(0, m_shape.rows), reference = expected();
        for (int64_t r = 0; r < m_shape.rows; ++r) {
            CAPTURE(r);
            REQUIRE(equal_but_rounding(all[r], reference[r], tolerance(m_type)));
        }
        for (int i = 0; i < 3; ++i) {
            const int64_t from = random.between(0, m_shape.rows - 1);
            const int64_t rows = i == 0 ? 1 : random.between(1, m_shape.rows - from);
            CAPTURE(from, rows);
            REQUIRE(same_bits(run(from, rows), all.narrow(0, from, rows)));
        }
    }

private:
    [[nodiscard]] at::Tensor cache(Random& random) const {
        at::Tensor t = random.normal({m_shape.kv_heads, m_capacity, m_shape.head_dim});
        const int64_t end = m_shape.first + m_shape.rows, begin = m_shape.least_seen(0);
        t.narrow(1, end, m_capacity - end).fill_(nan);
        t.narrow(1, 0, begin).fill_(nan);
        return t.to(dtype_of(m_type));
    }

    WeightType m_type;
    Shape m_shape;
    int64_t m_capacity;
    at::Tensor m_qkv, m_k, m_v;
};

void check(Random& random, WeightType type, const Shape& shape) {
    CAPTURE(static_cast<int>(type), shape.group, shape.kv_heads, shape.head_dim, shape.rows, shape.first,
            shape.window, shape.cap);
    Case(random, type, shape).check(random);
}

TEST_CASE("attention of many rows equals the reference, and a row keeps its bits", "[simt][rows]") {
    Random random(1321);
    for (const WeightType type : weight_types) {
        check(random, type, {1, 2, 16, 3, 0, 0});
        check(random, type, {3, 2, 64, 13, 21, 0});
        check(random, type, {4, 1, 128, 17, random.between(0, 70), random.between(1, 40)});
        check(random, type, {2, 1, 80, 40, 5, 7, 1.3, 1.5});
        check(random, type, {16, 1, 256, 3, 61, 0, 0.7, 2});
        check(random, type, {3, 1, 80, 35, 11, 0}); // a tile of 32 rows, and another
        check(random, type, {5, 1, 16 * random.between(1, 16), 9, random.between(0, 40), 0});
    }
}

TEST_CASE("splits of the columns do not show in a row's bits", "[simt][rows]") {
    Random random(1322);
    const WeightType type = random.pick(weight_types);
    check(random, type, {1, 1, 16, 66, 230, 0}); // rows of one split and of two, more than the scratch holds
    check(random, type, {1, 1, 144, 3, 510, 0});
    check(random, type, {3, 1, 16, 4, 766, 257}); // the window begins in the second split
}

TEST_CASE("attention of many rows needs no more shared memory than the smallest device has", "[simt][rows]") {
    Random random(1324);
    const Architecture smallest(86);
    for (const WeightType type : weight_types) {
        for (const int64_t head_dim : {64, 128, 256})
            (void)Case(random, type, {1, 1, head_dim, 2, 0, 0}).run(0, 2);
    }
}

TEST_CASE("attention of many rows has the same bits in every order", "[simt][rows]") {
    Random random(1323);
    for (const WeightType type : weight_types) {
        const Shape shape{3, 1, 32, 13, type == WeightType::bf16 ? 250 : 9, 0};
        const Case c(random, type, shape);
        at::Tensor first;
        simt::in_orders(3, [&](uint64_t order) {
            const at::Tensor got = c.run(0, shape.rows);
            if (order == 0) first = got;
            REQUIRE(same_bits(got, first));
        });
    }
}

} // namespace
} // namespace refreshlab::test::rows_attention_simt
