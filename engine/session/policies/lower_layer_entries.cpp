#include "engine/base/check.h"
#include "engine/cache/kv_cache.h"
#include "engine/policies/cache_policy.h"
#include "engine/session/policies/backing.h"

#include <utility>

namespace refreshlab {

LowerLayerEntries::LowerLayerEntries(const KvCache& cache, std::vector<int64_t> reads_layer)
    : m_cache(cache)
    , m_reads_layer(std::move(reads_layer)) {
    RL_ASSERT(std::ssize(m_reads_layer) == cache.num_layers());
}

at::Tensor LowerLayerEntries::fetch(int64_t layer, int64_t kv_head, std::span<const int64_t> positions) {
    const int64_t source = m_reads_layer[static_cast<size_t>(layer)];
    RL_ASSERT(source < layer); // its entries of this pass are written
    return m_cache.read(source, kv_head, positions);
}

std::unique_ptr<Backing> make_backing(const PolicyNeeds& needs, const LlamaModel& model, const KvCache& cache,
                                      const KvCache* teacher, std::function<int32_t(int64_t)> token_at) {
    if (needs.recomputes)
        return std::make_unique<RecomputedEntries>(model, cache, teacher, std::move(token_at));
    if (!needs.reads_layer.empty()) return std::make_unique<LowerLayerEntries>(cache, needs.reads_layer);
    return nullptr;
}

} // namespace refreshlab
