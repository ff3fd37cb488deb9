#pragma once

#include "engine/cache/kv_cache.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <utility>

namespace refreshlab::python {

/// Throws Error where the cache has no such layer, or no such KV head.
void require_layer(const KvCache& cache, int64_t layer, int64_t kv_head = 0);
/// Keys and values of a layer where the cache has them, without a copy: [kv_heads, length, head_dim] each. Throws Error where each KV head holds
/// positions of its own.
[[nodiscard]] std::pair<at::Tensor, at::Tensor> dense_layer(const KvCache& cache, int64_t layer);

} // namespace refreshlab::python
