// Attention over a pool of codes: where the processor has AVX-512 codes are multiplied in registers, with AVX2 rows are made first.
#include "engine/cache/kv_cache.h"
#include "engine/policies/code_products.h"
#include "engine/policies/methods/storage/few_bits.h"
#include "kernels/ops/attention.h"
#include "tests/kernels/kernel_fixture.h"

#include <algorithm>
#include <memory>
#include <set>

namespace attention_from_codes_test {

using namespace refreshlab;
using kernels::Isa;
using test::Random;

namespace {

/// Few bits that can be read turned as well: a query stays as it is, and so does a sum.
class Turning final : public EntryCodec {
public:
    explicit Turning(int64_t bits)
        : m_codes(bits, FewBits::Groups::rows, 32) {}
    [[nodiscard]] EncodedBlock encode(std::span<const float> rows, const BlockShape& shape) const override {
        return m_codes.encode(rows, shape);
    }
    void decode(const EncodedBlock& block, const BlockShape& shape, const BlockPart& part,
                float* to) const override {
        m_codes.decode(block, shape, part, to);
    }
    [[nodiscard]] int64_t turned_width(int64_t head_dim) const override { return head_dim; }
    void turn(std::span<const float> query, float* to) const override { std::ranges::copy(query, to); }
    void read_turned(const EncodedBlock& block, const BlockShape& shape, std::span<const int64_t> rows,
                     float* to) const override {
        m_codes.decode(block, shape, {rows, 0, shape.head_dim}, to);
    }
    [[nodiscard]] bool dots(const EncodedBlock& block, const BlockShape& shape, const BlockPart& part,
                            bool turned, const CodeDots& d) const override {
        return turned && m_codes.dots(block, shape, part, turned, d);
    }
    void turn_back(const float* sum, std::span<float> to) const override {
        for (size_t c = 0; c < to.size(); ++c)
            to[c] += sum[c];
    }
    [[nodiscard]] bool sums(const EncodedBlock& block, const BlockShape& shape, const BlockPart& part,
                            bool turned, const CodeSums& s) const override {
        return turned && m_codes.sums(block, shape, part, turned, s);
    }

private:
    FewBits m_codes;
};

} // namespace

TEST_CASE("attention straight from codes has the bits of attention over made rows", "[cache]") {
    if (!kernels::is_available(Isa::avx512)) SKIP("this processor has no AVX-512");
    Random random(8120);
    for (int round = 0; round < 24; ++round) {
        const int64_t kv_heads = random.between(1, 2), group = random.between(1, 6),
                      d = random.pick<int64_t>({32, 48, 64, 128}), n = random.between(1, 300),
                      bits = random.between(2, 5);
        const at::ScalarType dtype = round % 4 == 0 ? at::kBFloat16 : at::kFloat;
        KvCache cache(1, kv_heads, 512, d, dtype, at::kCPU, CacheLayout::coded);
        cache.write(0, random.normal({n, kv_heads, d}, 1, dtype), random.normal({n, kv_heads, d}, 1, dtype));
        cache.commit(n, Origin::student);
        std::shared_ptr<const EntryCodec> keys;
        if (round % 3 == 0)
            keys = std::make_shared<Turning>(bits);
        else
            keys = std::make_shared<FewBits>(
                bits, round % 3 == 1 ? FewBits::Groups::channels : FewBits::Groups::rows, 16);
        std::shared_ptr<const EntryCodec> values =
            std::make_shared<FewBits>(bits, FewBits::Groups::rows, round % 2 == 0 ? 32 : 16);
        if (round % 5 < 2) values = std::make_shared<Turning>(bits);
        for (int64_t head = 0; head < kv_heads; ++head) {
            const bool gaps =
                random.between(0, 2) == 0;        // what is mixed with whole rows is made, unless turned
            for (int64_t first = 0; first < n;) { // blocks of any size
                std::set<int64_t> own;
                const int64_t most = random.between(1, 120);
                for (int64_t i = 0; i < most && first < n; ++i, ++first)
                    if (!gaps || random.between(0, 19) > 0) own.insert(first);
                const std::vector<int64_t> positions(own.begin(), own.end());
                if (!gaps || random.between(0, 5) > 0)
                    cache.encode(0, head, KvHalf::keys, positions, keys, 0);
                if (!gaps || random.between(0, 5) > 0)
                    cache.encode(0, head, KvHalf::values, positions, values, 0);
            }
            std::vector<int64_t> gone;
            for (int64_t p = 1; p < n; ++p)
                if (random.between(0, 29) == 0) gone.push_back(p);
            if (!gone.empty()) cache.evict(0, head, gone, 1);
        }
        const int64_t rows = random.between(1, 3);
        const std::vector<int64_t> visible(static_cast<size_t>(rows), n);
        const LayerEntries entries = cache.entries(0);
        kernels::AttentionInputs in;
        in.q = random.normal({rows, kv_heads * group, d});
        in.k_cache = entries.k;
        in.v_cache = entries.v;
        in.lists = entries.lists;
        in.num_visible = visible;
        in.scale = 0.2;
        at::Tensor wanted, given;
        for (const int threads : {1, 3}) {
            CAPTURE(round, kv_heads, group, d, n, bits, dtype, threads);
            {
                const test::Setting made(Isa::avx2, threads);
                wanted = kernels::attention(in);
            }
            const test::Setting straight(Isa::avx512, threads);
            given = kernels::attention(in);
            REQUIRE(test::same_bits(given, wanted));
        }
    }
}

} // namespace attention_from_codes_test
