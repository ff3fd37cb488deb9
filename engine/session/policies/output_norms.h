#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace refreshlab {

class KvCache;

/// How large the values of positions [0, length) are behind the output projection, the sum of absolute channels:
/// norms[q][j] = ||V_j Wo_q||_1, V_j the value of the KV head of query head q, Wo_q the part of the projection that q's output meets.
/// Source: Feng et al. 2025 (CriticalKV), equation of the projected value's norm.
/// \param cache   holds these positions in every KV head                                     (asserted)
/// \param output  the layer's output projection, [hidden, heads * head_dim], on its device, maybe in blocks
/// \return [heads, length] fp32 on the host
/// Cost: heads * length * head_dim * hidden multiplications, in blocks of rows; on the CPU the same bits for any number of threads.
[[nodiscard]] at::Tensor output_norms(const KvCache& cache, int64_t layer, int64_t length,
                                      const at::Tensor& output, int64_t heads);

} // namespace refreshlab
