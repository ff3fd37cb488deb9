#include "engine/cache/layer_pool.h"

#include "engine/base/check.h"
#include "engine/cache/slot_index.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>
#include <ATen/ops/stack.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <limits>

namespace refreshlab {

LayerPool::LayerPool(int64_t kv_heads, int64_t head_dim, at::ScalarType dtype, at::Device device)
    : m_k(at::empty({0, head_dim}, at::TensorOptions().dtype(dtype).device(device)))
    , m_v(at::empty_like(m_k))
    , m_heads(static_cast<size_t>(kv_heads))
    , m_changes(kv_heads) {
    refresh_lists();
}

void LayerPool::refresh_lists() {
    m_lists.clear();
    for (const Head& head : m_heads)
        m_lists.push_back({head.positions.data(), head.slots.data(), std::ssize(head.positions)});
}

void LayerPool::grow(int64_t wanted) {
    const int64_t missing = wanted - std::ssize(m_free);
    if (missing <= 0) return;
    const int64_t before = m_k.size(0), after = before + std::max(missing, before / 8 + 64);
    for (at::Tensor* pool : {&m_k, &m_v}) {
        at::Tensor larger =
            at::full({after, pool->size(1)}, std::numeric_limits<double>::quiet_NaN(), pool->options());
        larger.narrow(0, 0, before).copy_(*pool);
        *pool = std::move(larger);
    }
    std::vector<int64_t> free(static_cast<size_t>(after - before));
    for (int64_t i = 0; i < after - before; ++i) // the lowest slot last: it is the next one
        free[static_cast<size_t>(i)] = after - 1 - i;
    free.insert(free.end(), m_free.begin(), m_free.end());
    m_free = std::move(free);
}

std::vector<int64_t> LayerPool::take_slots(int64_t first_pos, int64_t n) {
    grow(n * std::ssize(m_heads));
    std::vector<int64_t> slots;
    for (int64_t head = 0; head < std::ssize(m_heads); ++head) {
        Head& of_head = m_heads[static_cast<size_t>(head)];
        RL_ASSERT(of_head.positions.empty() || of_head.positions.back() < first_pos);
        for (int64_t i = 0; i < n; ++i) {
            slots.push_back(m_free.back());
            m_free.pop_back();
            of_head.positions.push_back(first_pos + i);
            of_head.slots.push_back(slots.back());
            m_changes.note(head, first_pos + i, slots.back());
        }
    }
    refresh_lists();
    return slots;
}

void LayerPool::append(int64_t first_pos, const at::Tensor& k, const at::Tensor& v) {
    settle();
    const int64_t n = k.size(0), heads = std::ssize(m_heads), head_dim = m_k.size(1);
    const std::vector<int64_t> slots = take_slots(first_pos, n);
    for (const auto& [to, rows] : {std::pair(m_k, k), std::pair(m_v, v)}) {
        const bool plain = to.is_cpu() && rows.is_cpu() && rows.scalar_type() == to.scalar_type() &&
                           (head_dim == 1 || rows.stride(2) == 1);
        if (!plain) {
            const at::Tensor ordered = rows.transpose(0, 1).reshape({heads * n, head_dim});
            at::Tensor target = to;
            target.index_copy_(0, index_of(slots, to.device()), ordered.to(to.options()));
            continue;
        }
        const auto element = static_cast<size_t>(to.element_size());
        const size_t bytes = element * static_cast<size_t>(head_dim);
        auto* out = static_cast<std::byte*>(to.mutable_data_ptr());
        const auto* in = static_cast<const std::byte*>(rows.const_data_ptr());
        for (int64_t h = 0; h < heads; ++h) {
            for (int64_t i = 0; i < n; ++i) {
                std::memcpy(out + bytes * static_cast<size_t>(slots[static_cast<size_t>(h * n + i)]),
                            in + element * static_cast<size_t>(i * rows.stride(0) + h * rows.stride(1)),
                            bytes);
            }
        }
    }
}

std::vector<int64_t> LayerPool::columns(int64_t kv_head, std::span<const int64_t> positions) const {
    const Head& head = m_heads[static_cast<size_t>(kv_head)];
    std::vector<int64_t> found;
    found.reserve(positions.size());
    auto at = head.positions.begin();
    for (const int64_t position : positions) {
        at = std::lower_bound(at, head.positions.end(), position);
        RL_ASSERT(at != head.positions.end() && *at == position);
        found.push_back(head.slots[static_cast<size_t>(at - head.positions.begin())]);
        ++at; // ascending, none twice
    }
    return found;
}

void LayerPool::poison(std::span<const int64_t> slots) {
    for (const at::Tensor& pool : {m_k, m_v})
        poison_slots(pool, slots);
}

std::vector<int64_t> LayerPool::remove(int64_t kv_head, std::span<const int64_t> positions) {
    Head& head = m_heads[static_cast<size_t>(kv_head)];
    std::vector<int64_t> gone = columns(kv_head, positions);
    for (const int64_t position : positions)
        m_changes.note(kv_head, position, -1);
    size_t kept = 0, next = 0;
    for (size_t i = 0; i < head.positions.size(); ++i) {
        if (next < positions.size() && head.positions[i] == positions[next]) {
            ++next;
            continue;
        }
        head.positions[kept] = head.positions[i];
        head.slots[kept++] = head.slots[i];
    }
    head.positions.resize(kept);
    head.slots.resize(kept);
    m_free.insert(m_free.end(), gone.rbegin(), gone.rend());
    return gone;
}

void LayerPool::erase(int64_t kv_head, std::span<const int64_t> positions) {
    if (positions.empty()) return;
    const std::vector<int64_t> gone = remove(kv_head, positions);
    if (m_kernels_take_out) {
        for (const int64_t slot : gone)
            m_changes.leave(slot, {}, 0);
    } else {
        poison(gone);
    }
    shrink();
    refresh_lists();
}

SavedEntries LayerPool::take_out(int64_t kv_head, std::span<const int64_t> positions) {
    if (!m_kernels_take_out || positions.empty()) return EntryPool::take_out(kv_head, positions);
    SavedEntries saved;
    saved.rows = at::empty({2, std::ssize(positions), m_k.size(1)}, m_k.options().device(at::kCPU));
    const std::vector<int64_t> gone = remove(kv_head, positions);
    for (size_t i = 0; i < gone.size(); ++i)
        m_changes.leave(gone[i], saved.rows, static_cast<int64_t>(i));
    shrink();
    refresh_lists();
    return saved;
}

void LayerPool::shrink() {
    const int64_t slots = m_k.size(0);
    if (std::ssize(m_free) <= slots / 4 + spare_slots) return;
    settle();
    m_changes.forget_lists();
    std::vector<int64_t> order;
    for (Head& head : m_heads) {
        for (int64_t& slot : head.slots) {
            order.push_back(slot);
            slot = std::ssize(order) - 1;
        }
    }
    const at::Tensor index = index_of(order, m_k.device());
    m_k = m_k.index_select(0, index);
    m_v = m_v.index_select(0, index);
    m_free.clear();
}

void LayerPool::insert(int64_t kv_head, std::span<const int64_t> positions, const at::Tensor& rows) {
    if (positions.empty()) return;
    settle();
    Head& head = m_heads[static_cast<size_t>(kv_head)];
    grow(std::ssize(positions));
    Head merged;
    size_t old = 0;
    for (const int64_t position : positions) {
        for (; old < head.positions.size() && head.positions[old] < position; ++old) {
            merged.positions.push_back(head.positions[old]);
            merged.slots.push_back(head.slots[old]);
        }
        RL_ASSERT(old == head.positions.size() || head.positions[old] != position);
        merged.positions.push_back(position);
        merged.slots.push_back(m_free.back());
        m_free.pop_back();
        m_changes.note(kv_head, position, merged.slots.back());
    }
    merged.positions.insert(merged.positions.end(), head.positions.begin() + static_cast<int64_t>(old),
                            head.positions.end());
    merged.slots.insert(merged.slots.end(), head.slots.begin() + static_cast<int64_t>(old), head.slots.end());
    head = std::move(merged);
    overwrite(kv_head, positions, rows, {});
    refresh_lists();
}

at::Tensor LayerPool::read(int64_t kv_head, std::span<const int64_t> positions) const {
    const std::vector<int64_t> at = columns(kv_head, positions);
    if (!m_k.is_cpu()) {
        const at::Tensor index = index_of(at, m_k.device());
        return at::stack({m_k.index_select(0, index), m_v.index_select(0, index)}).cpu();
    }
    const auto bytes = static_cast<size_t>(m_k.element_size() * m_k.size(1));
    at::Tensor rows = at::empty({2, std::ssize(at), m_k.size(1)}, m_k.options());
    auto* out = static_cast<std::byte*>(rows.mutable_data_ptr());
    for (const at::Tensor& pool : {m_k, m_v}) {
        const auto* in = static_cast<const std::byte*>(pool.const_data_ptr());
        for (const int64_t slot : at) {
            std::memcpy(out, in + bytes * static_cast<size_t>(slot), bytes);
            out += bytes;
        }
    }
    return rows;
}

void LayerPool::overwrite(int64_t kv_head, std::span<const int64_t> positions, const at::Tensor& rows,
                          EntryHalves halves) {
    if (positions.empty()) return;
    RL_ASSERT(rows.dim() == 3 && rows.size(0) == 2 && rows.size(1) == std::ssize(positions));
    const std::vector<int64_t> at = columns(kv_head, positions);
    const at::Tensor index = index_of(at, m_k.device());
    if (halves.keys) m_k.index_copy_(0, index, rows[0].to(m_k.options()));
    if (halves.values) m_v.index_copy_(0, index, rows[1].to(m_v.options()));
}

std::span<const int64_t> LayerPool::positions(int64_t kv_head) const {
    return m_heads[static_cast<size_t>(kv_head)].positions;
}

SavedEntries LayerPool::save(int64_t kv_head, std::span<const int64_t> positions) const {
    SavedEntries saved;
    saved.rows = read(kv_head, positions);
    return saved;
}
void LayerPool::restore(int64_t kv_head, std::span<const int64_t> positions, const SavedEntries& saved) {
    if (positions.empty()) return;
    if (std::ranges::binary_search(this->positions(kv_head), positions.front())) {
        overwrite(kv_head, positions, saved.rows, {});
    } else {
        insert(kv_head, positions, saved.rows);
    }
}

LayerEntries LayerPool::attended(DecodeScratch&) const {
    const auto of_all_heads = [this](const at::Tensor& pool) {
        return pool.unsqueeze(0).expand({std::ssize(m_heads), pool.size(0), pool.size(1)});
    };
    return {of_all_heads(m_k), of_all_heads(m_v), m_lists};
}

int64_t LayerPool::bytes_used() const {
    int64_t entries = 0;
    for (const Head& head : m_heads)
        entries += std::ssize(head.positions);
    return entries * 2 * m_k.size(1) * static_cast<int64_t>(m_k.element_size());
}
int64_t LayerPool::bytes_reserved() const {
    return static_cast<int64_t>(m_k.nbytes() + m_v.nbytes());
}
int64_t LayerPool::index_bytes() const {
    int64_t bytes = 0;
    for (const Head& head : m_heads)
        bytes += 2 * std::ssize(head.positions) * static_cast<int64_t>(sizeof(int64_t));
    return bytes;
}

void LayerPool::append_unwritten(int64_t position) {
    m_kernels_take_out = true;
    static_cast<void>(take_slots(position, 1));
}

void LayerPool::tell_kernels(PoolLists& to) const {
    auto* const k = static_cast<std::byte*>(m_k.mutable_data_ptr());
    auto* const v = static_cast<std::byte*>(m_v.mutable_data_ptr());
    to.pools.push_back({k, v, m_k.size(0)});
    for (size_t head = 0; head < m_heads.size(); ++head) {
        const auto& [positions, slots] = m_heads[head];
        if (to.whole) {
            for (size_t i = 0; i < positions.size(); ++i)
                to.entries.push_back({static_cast<int32_t>(positions[i]), static_cast<int32_t>(slots[i])});
        } else {
            std::ranges::copy(m_changes.edits(static_cast<int64_t>(head)), std::back_inserter(to.entries));
        }
        to.offsets.push_back(static_cast<int32_t>(to.entries.size()));
    }
    for (const PoolChanges::Leaving& leaving : m_changes.leaving())
        to.leaving.push_back({k + leaving.slot * row_bytes(), v + leaving.slot * row_bytes()});
}

const std::byte* LayerPool::kernels_are_done(const std::byte* rows) {
    const int64_t bytes = 2 * row_bytes() * std::ssize(m_changes.leaving());
    m_changes.have_left(rows, row_bytes());
    m_changes.begin();
    return rows + bytes;
}

void LayerPool::settle() {
    if (m_changes.leaving().empty()) return;
    std::vector<int64_t> slots;
    for (const PoolChanges::Leaving& leaving : m_changes.leaving())
        slots.push_back(leaving.slot);
    const at::Tensor index = index_of(slots, m_k.device());
    const at::Tensor rows = at::stack({m_k.index_select(0, index), m_v.index_select(0, index)}, 1)
                                .cpu(); // [leaving, 2, head_dim]
    m_changes.have_left(static_cast<const std::byte*>(rows.const_data_ptr()), row_bytes());
    poison(slots);
}

std::unique_ptr<EntryPool> LayerPool::clone() const {
    RL_ASSERT(m_changes.leaving().empty());
    auto copy = std::unique_ptr<LayerPool>(new LayerPool());
    copy->m_k = m_k.clone();
    copy->m_v = m_v.clone();
    copy->m_heads = m_heads;
    copy->m_free = m_free;
    copy->m_changes = PoolChanges(std::ssize(m_heads));
    copy->refresh_lists();
    return copy;
}

} // namespace refreshlab
