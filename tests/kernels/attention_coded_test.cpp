#include "kernels/ops/attention.h"
#include "tests/kernels/kernel_fixture.h"

#include <algorithm>
#include <memory>
#include <numeric>

/// Entries whose rows are made where they are read give the bits of the same rows in a cache.
namespace coded_attention_test {

using namespace refreshlab;
using kernels::AttentionInputs;
using kernels::Isa;
using test::Random;
using test::same_bits;
using test::Setting;

namespace {

/// Rows of a cache, behind the interface of codes.
class Rows final : public kernels::CodedEntries {
public:
    Rows(at::Tensor k, at::Tensor v) ///< [columns, head_dim] fp32
        : m_halves{k.contiguous(), v.contiguous()} {}
    void read(bool values, const int64_t* places, int64_t n, int64_t first, int64_t channels,
              float* to) const override {
        const at::Tensor& half = m_halves[values ? 1 : 0];
        for (int64_t i = 0; i < n; ++i)
            std::copy_n(half.const_data_ptr<float>() + places[i] * half.size(1) + first, channels,
                        to + i * channels);
    }

private:
    at::Tensor m_halves[2];
};

} // namespace

TEST_CASE("coded entries give the bits of the same rows in a cache", "[kernels][attention]") {
    Random random(31);
    for (int i = 0; i < 14; ++i) {
        const int64_t kv_heads = random.between(1, 3), d = random.pick<int64_t>({8, 40, 64}),
                      heads = kv_heads * random.between(1, 4), rows = random.between(1, 10);
        // Short contexts, and those that all threads share.
        const int64_t n =
            i % 2 == 0 ? random.between(1, 200) : (1 << 18) / (kv_heads * d) + random.between(8, 99);
        const at::ScalarType dtype = random.pick<at::ScalarType>({at::kFloat, at::kBFloat16});
        const at::Tensor q = random.normal({rows, heads, d}), k = random.normal({kv_heads, n, d}, 1, dtype),
                         v = random.normal({kv_heads, n, d}, 1, dtype);
        std::vector<int64_t> positions(static_cast<size_t>(n)), columns;
        std::iota(positions.begin(), positions.end(), 3);
        columns.resize(positions.size());
        std::iota(columns.begin(), columns.end(), 0);
        if (i % 3 == 0)
            std::ranges::shuffle(columns, std::mt19937(static_cast<uint32_t>(random.between(0, 1 << 30))));
        std::vector<std::unique_ptr<Rows>> stored;
        std::vector<kernels::KeyList> plain, coded;
        for (int64_t h = 0; h < kv_heads; ++h) {
            stored.push_back(std::make_unique<Rows>(k[h].to(at::kFloat), v[h].to(at::kFloat)));
            const int64_t listed = h == 1 ? n / 2 : n;
            plain.push_back({positions.data(), columns.data(), listed});
            coded.push_back({positions.data(), columns.data(), listed, stored.back().get()});
        }
        std::vector<int64_t> visible, first;
        for (int64_t r = 0; r < rows; ++r) {
            visible.push_back(random.between(1, n + 5));
            first.push_back(random.between(0, n / 2));
        }
        AttentionInputs in;
        in.q = q;
        in.num_visible = visible;
        if (i % 4 == 0) in.first_visible = first;
        in.scale = 0.3;
        if (i % 5 == 0) {
            in.own_k = random.normal({rows, kv_heads, d});
            in.own_v = random.normal({rows, kv_heads, d});
        }
        for (const Isa isa : kernels::available_isas()) {
            for (const int threads : {1, 3}) {
                CAPTURE(i, std::string(to_string(isa)), threads, q.sizes(), k.sizes());
                const Setting setting(isa, threads);
                in.k_cache = k;
                in.v_cache = v;
                in.lists = plain;
                at::Tensor wanted, given;
                const at::Tensor expected = kernels::attention(in, &wanted);
                in.k_cache = in.v_cache = at::empty({kv_heads, 0, d}, k.options());
                in.lists = coded;
                REQUIRE(same_bits(kernels::attention(in, &given), expected));
                REQUIRE(same_bits(given, wanted));
                REQUIRE(same_bits(kernels::attention(in), expected));
            }
        }
    }
}

} // namespace coded_attention_test
