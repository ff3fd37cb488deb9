#include "engine/policies/cache_policy.h"

#include "engine/base/check.h"
#include "engine/policies/entry_codec.h"

#include <algorithm>
#include <iterator>

namespace refreshlab {

void CacheEditor::keep(int64_t layer, int64_t kv_head, std::span<const int64_t> positions) {
    std::vector<int64_t> gone;
    std::ranges::set_difference(held(layer, kv_head), positions, std::back_inserter(gone));
    evict(layer, kv_head, gone);
}

void CacheEditor::encode(int64_t layer, int64_t kv_head, KvHalf half, std::span<const int64_t> positions,
                         std::shared_ptr<const EntryCodec> codec) {
    (void)layer;
    (void)kv_head;
    (void)half;
    (void)positions;
    (void)codec;
    RL_ASSERT(false); // a cache of rows alone
}

} // namespace refreshlab
