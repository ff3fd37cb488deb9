#include "engine/session/policies/output_norms.h"

#include "engine/base/check.h"
#include "engine/cache/kv_cache.h"
#include "kernels/blocks/blocks.h"
#include "kernels/ops/dense.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace refreshlab {

namespace {

constexpr int64_t rows_at_once = 512; // of 4096 channels: 8 MB

} // namespace

at::Tensor output_norms(const KvCache& cache, int64_t layer, int64_t length, const at::Tensor& output,
                        int64_t heads) {
    RL_ASSERT(output.defined());
    const at::Tensor dense = kernels::is_blocks(output) ? kernels::block_values(output) : output;
    const int64_t d = cache.head_dim(), group = heads / cache.num_kv_heads();
    RL_ASSERT(dense.size(1) == heads * d);
    const at::ScalarType type = dense.is_cpu() ? at::kFloat : dense.scalar_type();
    std::vector<int64_t> positions(static_cast<size_t>(length));
    std::iota(positions.begin(), positions.end(), 0);
    at::Tensor norms = at::empty({heads, length}, at::kFloat);
    for (int64_t kv_head = 0; kv_head < cache.num_kv_heads(); ++kv_head) {
        const at::Tensor values = cache.read(layer, kv_head, positions)[1].to(dense.device(), type);
        for (int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
            const at::Tensor weight = dense.narrow(1, head * d, d).contiguous();
            for (int64_t first = 0; first < length; first += rows_at_once) {
                const int64_t n = std::min(rows_at_once, length - first);
                const at::Tensor projected = kernels::linear(values.narrow(0, first, n), weight);
                norms[head].narrow(0, first, n).copy_(projected.to(at::kFloat).abs().sum(1));
            }
        }
    }
    return norms;
}

} // namespace refreshlab
