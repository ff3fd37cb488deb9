#include "kernels/ops/attention.h"
#include "tests/kernels/kernel_fixture.h"

#include <algorithm>
#include <cstring>
#include <numeric>

/// Long contexts with few KV heads: all threads share one task, cut by keys, heads and channels.
namespace refreshlab {
namespace {

using kernels::AttentionInputs;
using kernels::Isa;
using test::Random;
using test::same_bits;
using test::Setting;

struct Case {
    at::Tensor q, k, v, own_k, own_v;
    std::vector<int64_t> visible, first, positions;
    std::vector<int32_t> passes;
    std::vector<kernels::KeyList> lists;

    [[nodiscard]] AttentionInputs inputs() const {
        AttentionInputs in;
        in.q = q;
        in.k_cache = k;
        in.v_cache = v;
        in.own_k = own_k;
        in.own_v = own_v;
        in.num_visible = visible;
        in.first_visible = first;
        in.lists = lists;
        in.scale = 0.2;
        in.passes = passes;
        in.dropout_p = passes.empty() ? 0.0F : 0.1F;
        return in;
    }
    [[nodiscard]] int64_t rows() const { return q.size(0); }
};

/// At least 2^18 numbers of keys; what a row sees, brings along and drops differs from case to case.
Case random_case(Random& random) {
    Case c;
    const int64_t kv_heads = random.between(1, 2), head_dim = random.pick<int64_t>({32, 40, 64, 128});
    const int64_t rows = random.between(1, 5), heads = kv_heads * random.between(1, 4);
    const int64_t n = (int64_t{1} << 18) / (kv_heads * head_dim) + random.between(rows, 400);
    const at::ScalarType dtype = random.pick<at::ScalarType>({at::kFloat, at::kBFloat16});
    c.q = random.normal({rows, heads, head_dim});
    c.k = random.normal({kv_heads, n, head_dim}, 1.0, dtype);
    c.v = random.normal({kv_heads, n, head_dim}, 1.0, dtype);
    const int64_t kind = random.between(0, 3);
    for (int64_t r = 0; r < rows; ++r) {
        c.visible.push_back(kind == 1 ? n - random.between(0, 20)
                                      : n - rows + r + 1);          // rows of a prefill; MC rows
        if (kind == 2) c.first.push_back(random.between(0, n / 2)); // windows
        if (kind == 1) c.passes.push_back(static_cast<int32_t>(r));
    }
    if (kind == 1) {
        c.own_k = random.normal({rows, kv_heads, head_dim});
        c.own_v = random.normal({rows, kv_heads, head_dim});
    }
    if (kind == 3) {
        c.positions.resize(static_cast<size_t>(n));
        std::iota(c.positions.begin(), c.positions.end(), int64_t{0});
        for (int64_t h = 0; h < kv_heads; ++h)
            c.lists.push_back({c.positions.data(), c.positions.data(), n});
    }
    return c;
}

TEST_CASE("attention over a long context has the same bits on any number of threads, and row by row",
          "[kernels][attention]") {
    Random random(1);
    for (int i = 0; i < 10; ++i) {
        const Case c = random_case(random);
        for (const Isa isa : test::own_isas()) {
            at::Tensor whole, rows;
            for (const int threads : {1, 2, 5}) {
                const Setting setting(isa, threads);
                at::Tensor probabilities;
                const at::Tensor out = kernels::attention(c.inputs(), &probabilities);
                CAPTURE(i, std::string(to_string(isa)), threads, c.q.sizes(), c.k.sizes());
                if (whole.defined()) {
                    REQUIRE(same_bits(out, whole));
                    REQUIRE(same_bits(probabilities, rows));
                }
                whole = out;
                rows = probabilities;
            }
            const Setting setting(isa, 3);
            const int64_t r = random.between(0, c.rows() - 1);
            const auto at = static_cast<size_t>(r);
            Case alone = c;
            alone.q = c.q.narrow(0, r, 1);
            alone.visible = {c.visible[at]};
            if (!c.first.empty()) alone.first = {c.first[at]};
            if (!c.passes.empty()) alone.passes = {c.passes[at]};
            if (c.own_k.defined())
                alone.own_k = c.own_k.narrow(0, r, 1), alone.own_v = c.own_v.narrow(0, r, 1);
            REQUIRE(same_bits(kernels::attention(alone.inputs()), whole.narrow(0, r, 1)));
        }
        const Setting setting(kernels::widest_isa(), 2);
        REQUIRE(test::relative_error(kernels::attention(c.inputs()),
                                     kernels::reference::attention(c.inputs())) < 1e-5);
    }
}

TEST_CASE("halves of row 0 are its probabilities, rounded, on short and on long contexts",
          "[kernels][attention]") {
    Random random(2);
    for (int i = 0; i < 24; ++i) {
        Case c = random_case(random);
        if (!c.lists.empty()) continue;
        if (i % 2 == 0) { // a short one: a task for each head
            const int64_t n = random.between(1, 90);
            for (int64_t& visible : c.visible)
                visible = std::max<int64_t>(visible - c.k.size(1) + n, 0);
            for (int64_t& first : c.first)
                first = random.between(0, n + 1); // also past the row's end
        }
        const int64_t keys = c.visible[0] + (c.own_k.defined() ? 1 : 0);
        std::vector<uint16_t> halves(static_cast<size_t>(c.q.size(1) * keys));
        for (const Isa isa : kernels::available_isas()) {
            CAPTURE(i, std::string(to_string(isa)), c.q.sizes(), c.k.sizes(), keys);
            const Setting setting(isa, 3);
            for (const bool both : {false, true}) {
                std::ranges::fill(halves, uint16_t{0xAAAA});
                AttentionInputs in = c.inputs();
                in.halves = halves;
                at::Tensor probabilities, beside;
                const at::Tensor expected = kernels::attention(c.inputs(), &probabilities);
                REQUIRE(same_bits(kernels::attention(in, both ? &beside : nullptr), expected));
                if (both) REQUIRE(same_bits(beside, probabilities));
                const at::Tensor row = probabilities[0].narrow(1, 0, keys).contiguous().to(at::kHalf);
                REQUIRE(std::memcmp(row.const_data_ptr(), halves.data(), 2 * halves.size()) == 0);
            }
        }
    }
}

} // namespace
} // namespace refreshlab
