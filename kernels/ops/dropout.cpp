#include "kernels/ops/dropout.h"

#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/mask_stream.h"
#include "kernels/execution/thread_pool.h"
#include "kernels/shared/check.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace refreshlab::kernels {

shared::MaskStream mask_stream(const DropoutKey& key, DropoutSite site, uint32_t high, float p) {
    RL_ASSERT(p >= 0.0F && p < 1.0F);
    // The ranges that the counter layout has room for.
    RL_ASSERT(key.layer >= 0 && key.layer < (1 << 12) && key.pass >= 0 && key.pass < (1 << 16));
    RL_ASSERT(key.position >= 0 && key.position <= int64_t{0xFFFFFFFF});
    shared::MaskStream stream;
    stream.key_0 = static_cast<uint32_t>(key.seed);
    stream.key_1 = static_cast<uint32_t>(key.seed >> 32);
    stream.high = high;
    stream.position = static_cast<uint32_t>(key.position);
    stream.tag = shared::mask_tag(static_cast<uint32_t>(site), static_cast<uint32_t>(key.layer),
                                  static_cast<uint32_t>(key.pass));
    stream.threshold = shared::mask_threshold(p);
    return stream;
}

bool dropout_keeps(const DropoutKey& key, DropoutSite site, uint64_t element, float p) {
    return shared::mask_keeps(mask_stream(key, site, static_cast<uint32_t>(element >> 32), p),
                              static_cast<uint32_t>(element));
}

void dropout_rows_(at::Tensor& x, const DropoutKey& key, std::span<const int32_t> passes, DropoutSite site,
                   float p) {
    RL_ASSERT(x.dim() == 2 && static_cast<int64_t>(passes.size()) == x.size(0));
    RL_ASSERT(p >= 0.0F && p < 1.0F);
    if (p == 0.0F || std::ranges::all_of(passes, [](int32_t pass) { return pass == 0; })) return;
    const int64_t rows = x.size(0);
    const int64_t channels = x.size(1);
    const float scale = 1.0F / (1.0F - p);
    const auto draw = [&](float* data, int64_t row_stride) {
        const cpu::CpuKernels& table = cpu::kernels();
        parallel_for(rows, std::max<int64_t>(8192 / std::max<int64_t>(channels, 1), 1),
                     [&](int64_t begin, int64_t end) {
                         for (int64_t r = begin; r < end; ++r) {
                             DropoutKey row_key = key;
                             row_key.pass = passes[static_cast<size_t>(r)];
                             if (row_key.pass == 0) continue;
                             table.dropout(data + r * row_stride, channels, mask_stream(row_key, site, 0, p),
                                           0, scale);
                         }
                     });
    };
    if (x.is_cpu() && x.scalar_type() == at::kFloat && x.stride(1) == 1) {
        draw(x.mutable_data_ptr<float>(), x.stride(0));
        return;
    }
    // Elsewhere the factors are drawn here and carried over: the same masks on every device.
    at::Tensor factors = at::ones({rows, channels}, at::kFloat);
    draw(factors.mutable_data_ptr<float>(), channels);
    x.copy_(x.to(at::kFloat) * factors.to(x.device()));
}

} // namespace refreshlab::kernels
