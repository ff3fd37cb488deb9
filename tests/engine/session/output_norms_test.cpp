// Values behind the output projection, against the sum written out.
#include "engine/cache/kv_cache.h"
#include "engine/model/derive/weight_changes.h"
#include "engine/session/policies/output_norms.h"
#include "kernels/blocks/blocks.h"
#include "tests/support/seed.h"

#include <ATen/ATen.h>
#include <catch2/catch_test_macros.hpp>

#include <cmath>

namespace output_norms_test {

using namespace refreshlab;
using namespace refreshlab::test;

TEST_CASE("norms of values behind the output projection are those of the sum written out",
          "[session][cache_policy]") {
    constexpr int64_t length = 9, heads = 4, kv_heads = 2, d = 16, hidden = 48;
    at::manual_seed(seed(91));
    KvCache cache(1, kv_heads, length, d, at::kFloat, at::kCPU);
    const at::Tensor values = at::randn({length, kv_heads, d});
    cache.write(0, at::randn({length, kv_heads, d}), values);
    cache.commit(length, Origin::student);
    const at::Tensor weight = at::randn({hidden, heads * d});
    const at::Tensor packed = round_to_blocks(weight, 8, 32, true);
    REQUIRE(kernels::is_blocks(packed));
    for (const bool in_blocks : {false, true}) {
        const at::Tensor dense = in_blocks ? kernels::block_values(packed) : weight;
        const at::Tensor norms = output_norms(cache, 0, length, in_blocks ? packed : weight, heads);
        REQUIRE(norms.sizes() == at::IntArrayRef{heads, length});
        const auto v = values.accessor<float, 3>();
        const auto w = dense.accessor<float, 2>();
        for (int64_t head = 0; head < heads; ++head)
            for (int64_t j = 0; j < length; ++j) {
                double sum = 0;
                for (int64_t o = 0; o < hidden; ++o) {
                    double product = 0;
                    for (int64_t c = 0; c < d; ++c)
                        product +=
                            static_cast<double>(v[j][head / 2][c]) * static_cast<double>(w[o][head * d + c]);
                    sum += std::abs(product);
                }
                CHECK(std::abs(norms[head][j].item<double>() - sum) < 1e-5 * sum);
            }
    }
}

} // namespace output_norms_test
