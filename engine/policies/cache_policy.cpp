#include "engine/policies/cache_policy.h"

#include <algorithm>
#include <iterator>

namespace refreshlab {

void CacheEditor::keep(int64_t layer, int64_t kv_head, std::span<const int64_t> positions) {
    std::vector<int64_t> gone;
    std::ranges::set_difference(held(layer, kv_head), positions, std::back_inserter(gone));
    evict(layer, kv_head, gone);
}

} // namespace refreshlab
