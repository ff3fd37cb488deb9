#include "engine/cache/entry_pool.h"

#include "engine/base/check.h"

namespace refreshlab {

void EntryPool::encode(int64_t kv_head, KvHalf half, std::span<const int64_t> positions,
                       std::shared_ptr<const EntryCodec> codec) {
    (void)kv_head;
    (void)half;
    (void)positions;
    (void)codec;
    RL_ASSERT(false); // a pool of rows
}

SavedEntries EntryPool::take_out(int64_t kv_head, std::span<const int64_t> positions) {
    SavedEntries saved = save(kv_head, positions);
    erase(kv_head, positions);
    return saved;
}

} // namespace refreshlab
