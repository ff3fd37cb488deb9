#include "python/bindings/cache_views.h"

#include "engine/base/error.h"

#include <fmt/format.h>

namespace refreshlab::python {

void require_layer(const KvCache& cache, int64_t layer, int64_t kv_head) {
    if (layer < 0 || layer >= cache.num_layers() || kv_head < 0 || kv_head >= cache.num_kv_heads())
        throw Error("reading a cache", fmt::format("layer {}, KV head {}", layer, kv_head),
                    fmt::format("the cache has layers 0 to {} and KV heads 0 to {}", cache.num_layers() - 1,
                                cache.num_kv_heads() - 1));
}

std::pair<at::Tensor, at::Tensor> dense_layer(const KvCache& cache, int64_t layer) {
    require_layer(cache, layer);
    if (cache.layout() != CacheLayout::dense)
        throw Error("reading a cache", "as one block", "its policy holds other positions in each KV head",
                    "entries(layer, kv_head) reads those that are held");
    return {cache.keys(layer).narrow(1, 0, cache.length()), cache.values(layer).narrow(1, 0, cache.length())};
}

} // namespace refreshlab::python
