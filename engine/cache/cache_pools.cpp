#include "engine/cache/cache_pools.h"

#include "engine/base/check.h"
#include "engine/cache/coded_pool.h"
#include "engine/cache/layer_pool.h"
#include "kernels/decode/launch_shapes.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <iterator>
#include <limits>
#include <utility>

namespace refreshlab {

namespace {

uint64_t new_id() {
    static std::atomic<uint64_t> last{0}; // of the process: decoders tell caches apart by it
    return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

} // namespace

CachePools::CachePools(CacheLayout layout, int64_t layers, int64_t kv_heads, int64_t head_dim,
                       at::ScalarType dtype, at::Device device)
    : m_kv_heads(kv_heads)
    , m_blended(static_cast<size_t>(layers * kv_heads)) {
    RL_ASSERT(layout != CacheLayout::dense);
    m_id = new_id();
    for (int64_t layer = 0; layer < layers; ++layer) {
        if (layout == CacheLayout::coded) {
            m_pools.push_back(std::make_unique<CodedPool>(kv_heads, head_dim, dtype, device));
        } else {
            auto pool = std::make_unique<LayerPool>(kv_heads, head_dim, dtype, device);
            m_listed.push_back(pool.get());
            m_pools.push_back(std::move(pool));
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

std::vector<int64_t> CachePools::held_of(int64_t layer, int64_t kv_head, std::span<const int64_t> positions,
                                         bool blended) const {
    const std::vector<int64_t>& marked = marks(layer, kv_head);
    std::vector<int64_t> held;
    std::ranges::set_intersection((*this)[layer].positions(kv_head), positions, std::back_inserter(held));
    std::erase_if(held, [&](int64_t p) { return std::ranges::binary_search(marked, p) != blended; });
    return held;
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

void CachePools::append_unwritten(int64_t position) {
    RL_ASSERT(!m_listed.empty() && position < std::numeric_limits<int32_t>::max());
    for (LayerPool* pool : m_listed)
        pool->append_unwritten(position);
}

std::span<const kernels::KeyList> CachePools::lists(int64_t layer) const {
    return listed(layer).lists();
}

PoolLists CachePools::tell_kernels(const std::function<bool(uint64_t, uint64_t, int64_t)>& holds) {
    RL_ASSERT(!m_listed.empty());
    const int64_t most = kernels::decode::most_list_edits(std::ssize(m_pools) * m_kv_heads);
    int64_t longest = 0, edits = 0, leaving = 0;
    bool whole = false;
    for (const LayerPool* pool : m_listed) {
        whole |= pool->changes().whole();
        leaving += std::ssize(pool->changes().leaving());
        for (int64_t head = 0; head < m_kv_heads; ++head) {
            longest = std::max(longest, std::ssize(pool->positions(head)));
            edits += std::ssize(pool->changes().edits(head));
        }
    }
    if (leaving > most) settle();
    m_list_capacity =
        std::max(m_list_capacity, static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(longest))));
    PoolLists lists;
    lists.list_capacity = m_list_capacity;
    lists.cache = m_id;
    lists.version = m_version;
    lists.whole = whole || edits > most || !holds(m_id, m_version, m_list_capacity);
    lists.offsets.push_back(0);
    for (const LayerPool* pool : m_listed)
        pool->tell_kernels(lists);
    return lists;
}

void CachePools::kernels_are_done(const void* rows) {
    const auto* of_layer = static_cast<const std::byte*>(rows);
    for (LayerPool* pool : m_listed)
        of_layer = pool->kernels_are_done(of_layer);
    ++m_version;
}

void CachePools::settle() {
    for (LayerPool* pool : m_listed)
        pool->settle();
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
    copy.m_id = new_id();
    for (const auto& pool : m_pools) {
        copy.m_pools.push_back(pool->clone());
        if (!m_listed.empty()) copy.m_listed.push_back(static_cast<LayerPool*>(copy.m_pools.back().get()));
    }
    return copy;
}

} // namespace refreshlab
