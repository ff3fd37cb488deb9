#include "engine/cache/cache_pools.h"

#include "engine/base/check.h"
#include "engine/cache/coded_pool.h"
#include "engine/cache/layer_pool.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace refreshlab {

CachePools::CachePools(CacheLayout layout, int64_t layers, int64_t kv_heads, int64_t head_dim,
                       at::ScalarType dtype, at::Device device)
    : m_kv_heads(kv_heads)
    , m_blended(static_cast<size_t>(layers * kv_heads)) {
    RL_ASSERT(layout != CacheLayout::dense);
    for (int64_t layer = 0; layer < layers; ++layer) {
        if (layout == CacheLayout::coded) {
            m_pools.push_back(std::make_unique<CodedPool>(kv_heads, head_dim, dtype, device));
        } else {
            m_pools.push_back(std::make_unique<LayerPool>(kv_heads, head_dim, dtype, device));
        }
    }
}

void CachePools::erase_from(int64_t layer, int64_t first_pos) {
    EntryPool& pool = (*this)[layer];
    for (int64_t head = 0; head < m_kv_heads; ++head) {
        const auto all = pool.positions(head);
        const std::vector<int64_t> gone(std::ranges::lower_bound(all, first_pos), all.end());
        pool.erase(head, gone);
    }
}

void CachePools::truncate(int64_t new_length) {
    for (int64_t layer = 0; layer < std::ssize(m_pools); ++layer)
        erase_from(layer, new_length);
    for (std::vector<int64_t>& marks : m_blended)
        marks.erase(std::ranges::lower_bound(marks, new_length), marks.end());
}

std::vector<int64_t> CachePools::held_in(int64_t layer, int64_t kv_head, int64_t first_pos, int64_t n,
                                         bool blended) const {
    const auto all = (*this)[layer].positions(kv_head);
    const std::vector<int64_t>& marked = marks(layer, kv_head);
    std::vector<int64_t> positions;
    std::copy_if(std::ranges::lower_bound(all, first_pos), std::ranges::lower_bound(all, first_pos + n),
                 std::back_inserter(positions),
                 [&](int64_t p) { return std::ranges::binary_search(marked, p) == blended; });
    return positions;
}

std::vector<int64_t> CachePools::unblended(int64_t layer, int64_t kv_head,
                                           std::span<const int64_t> positions) const {
    std::vector<int64_t> fresh;
    std::ranges::set_difference(positions, marks(layer, kv_head), std::back_inserter(fresh));
    return fresh;
}

void CachePools::blend(int64_t layer, int64_t kv_head, std::span<const int64_t> positions) {
    std::vector<int64_t>& marked = marks(layer, kv_head);
    std::vector<int64_t> all;
    std::ranges::set_union(marked, positions, std::back_inserter(all));
    marked = std::move(all);
}

void CachePools::unblend(int64_t layer, int64_t kv_head, std::span<const int64_t> positions) {
    if (positions.empty()) return;
    std::vector<int64_t>& marked = marks(layer, kv_head);
    std::vector<int64_t> left;
    std::ranges::set_difference(marked, positions, std::back_inserter(left));
    marked = std::move(left);
}

void CachePools::lend(int64_t layer, int64_t kv_head, std::span<const int64_t> positions,
                      const at::Tensor& rows) {
    RL_ASSERT(m_lent_layer < 0 || m_lent_layer == layer);
    m_lent_layer = layer;
    m_lent.resize(static_cast<size_t>(m_kv_heads));
    std::vector<int64_t>& of_head = m_lent[static_cast<size_t>(kv_head)];
    RL_ASSERT(of_head.empty());
    of_head.assign(positions.begin(), positions.end());
    (*this)[layer].insert(kv_head, positions, rows);
}

void CachePools::return_loan() {
    for (size_t head = 0; head < m_lent.size(); ++head)
        (*this)[m_lent_layer].erase(static_cast<int64_t>(head), m_lent[head]);
    m_lent.clear();
    m_lent_layer = -1;
}

int64_t CachePools::bytes_reserved() const {
    int64_t bytes = 0;
    for (const auto& pool : m_pools)
        bytes += pool->bytes_reserved();
    return bytes;
}
int64_t CachePools::index_bytes() const {
    int64_t bytes = 0;
    for (const auto& pool : m_pools)
        bytes += pool->index_bytes();
    return bytes;
}
int64_t CachePools::metadata_bytes() const {
    int64_t bytes = 0;
    for (const auto& pool : m_pools)
        bytes += pool->metadata_bytes();
    return bytes;
}

CachePools CachePools::clone() const {
    CachePools copy;
    copy.m_kv_heads = m_kv_heads;
    copy.m_blended = m_blended;
    for (const auto& pool : m_pools)
        copy.m_pools.push_back(pool->clone());
    return copy;
}

} // namespace refreshlab
