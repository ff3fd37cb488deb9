// What a cache policy does to the entries of a cache.
#include "engine/base/check.h"
#include "engine/cache/kv_cache.h"
#include "engine/cache/kv_cache_impl.h"

#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <utility>

namespace refreshlab {

void KvCache::Impl::journal_entries(int64_t step, int64_t layer, int64_t kv_head,
                                    std::span<const int64_t> positions, std::vector<int64_t> blended) {
    if (step == 0) return; // no rewind goes behind the prompt
    add_to_journal(step, layer, kv_head, positions, pools[layer].save(kv_head, positions),
                   std::move(blended));
}
void KvCache::Impl::add_to_journal(int64_t step, int64_t layer, int64_t kv_head,
                                   std::span<const int64_t> positions, SavedEntries saved,
                                   std::vector<int64_t> blended) {
    ReplacedEntries old;
    old.layer = layer;
    old.kv_head = kv_head;
    old.positions.assign(positions.begin(), positions.end());
    old.saved = std::move(saved);
    old.blended = std::move(blended);
    journal.add(step, std::move(old));
}

void KvCache::evict(int64_t layer, int64_t kv_head, std::span<const int64_t> positions, int64_t step,
                    CacheChange change) {
    const c10::InferenceMode guard;
    RL_ASSERT(m_impl->pooled() && (change == CacheChange::evicted || change == CacheChange::merged));
    if (positions.empty()) return;
    const std::vector<int64_t> gone(positions.begin(), positions.end()); // `positions` may lie in the pool
    m_impl->events.note_edit(change, layer, kv_head, gone);
    if (step == 0) return m_impl->pools[layer].erase(kv_head, gone);
    m_impl->add_to_journal(step, layer, kv_head, gone, m_impl->pools[layer].take_out(kv_head, gone));
}

void KvCache::overwrite(int64_t layer, int64_t kv_head, std::span<const int64_t> positions,
                        const at::Tensor& rows, int64_t step) {
    const c10::InferenceMode guard;
    RL_ASSERT(m_impl->pooled());
    m_impl->journal_entries(step, layer, kv_head, positions);
    m_impl->pools[layer].overwrite(kv_head, positions, rows, {});
}
void KvCache::merge_into(int64_t layer, int64_t kv_head, std::span<const int64_t> positions,
                         const at::Tensor& rows, int64_t step) {
    const c10::InferenceMode guard;
    RL_ASSERT(m_impl->pooled());
    CachePools& pools = m_impl->pools;
    m_impl->journal_entries(step, layer, kv_head, positions, pools.unblended(layer, kv_head, positions));
    pools.blend(layer, kv_head, positions);
    pools[layer].overwrite(kv_head, positions, rows, {});
}

void KvCache::encode(int64_t layer, int64_t kv_head, KvHalf half, std::span<const int64_t> positions,
                     std::shared_ptr<const EntryCodec> codec, int64_t step) {
    const c10::InferenceMode guard;
    RL_ASSERT(layout() == CacheLayout::coded);
    if (positions.empty()) return;
    m_impl->journal_entries(step, layer, kv_head, positions);
    m_impl->events.note_edit(CacheChange::encoded, layer, kv_head, positions);
    m_impl->pools[layer].encode(kv_head, half, positions, std::move(codec));
}

void KvCache::borrow(int64_t layer, int64_t kv_head, std::span<const int64_t> positions,
                     const at::Tensor& rows) {
    const c10::InferenceMode guard;
    RL_ASSERT(m_impl->pooled());
    m_impl->pools.lend(layer, kv_head, positions, rows);
}
void KvCache::give_back(int64_t layer) {
    const c10::InferenceMode guard;
    if (m_impl->pools.lent_layer() == layer) m_impl->pools.return_loan();
}

void KvCache::note_read(int64_t layer, int64_t kv_head, std::span<const int64_t> positions, bool read) {
    if (positions.empty()) return;
    RL_DEBUG_ASSERT(std::ranges::includes(held(layer, kv_head), positions));
    m_impl->events.note_edit(read ? CacheChange::attended : CacheChange::kept, layer, kv_head, positions);
}

void KvCache::tell_edits() {
    m_impl->events.tell_edits();
}

} // namespace refreshlab
