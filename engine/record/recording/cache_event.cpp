#include "engine/record/recording/cache_event.h"

#include "engine/base/check.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <utility>

namespace refreshlab {

namespace {

constexpr std::array<std::string_view, num_cache_changes> names = {
    "appended", "adopted", "spliced", "skipped", "rebuilt", "attended",
    "kept",     "evicted", "merged",  "dropped", "encoded"};

} // namespace

std::string_view to_string(CacheChange change) {
    return names[static_cast<size_t>(change)];
}

std::optional<CacheChange> cache_change_from_string(std::string_view name) {
    const auto found = std::ranges::find(names, name);
    if (found == names.end()) return std::nullopt;
    return static_cast<CacheChange>(found - names.begin());
}

CacheEntry::CacheEntry(CacheEvent event)
    : step(event.step)
    , teacher(event.teacher)
    , change(event.change)
    , origin(event.origin)
    , layer(event.layer)
    , kv_head(event.kv_head)
    , refresh_id(event.refresh_id) {
    if (event.positions.size() == 1 && event.bytes.size() <= 1) {
        m_range = event.positions[0];
        if (!event.bytes.empty()) m_bytes = event.bytes[0];
        return;
    }
    m_many = std::make_shared<const Many>(Many{std::move(event.positions), std::move(event.bytes)});
}

int64_t CacheEntry::steps() const {
    // atomic_ref has no read-only form in C++20; the entry itself is not const.
    return std::atomic_ref<int64_t>(const_cast<int64_t&>(m_steps)).load(std::memory_order_acquire);
}

std::span<const PositionRange> CacheEntry::positions() const {
    return m_many ? std::span(m_many->positions) : std::span(&m_range, 1);
}

std::span<const int64_t> CacheEntry::bytes() const {
    if (m_many) return m_many->bytes;
    return m_bytes < 0 ? std::span<const int64_t>() : std::span(&m_bytes, 1);
}

CacheEvent CacheEntry::event(int64_t i) const {
    RL_ASSERT(i >= 0 && i < steps());
    CacheEvent event;
    event.step = step + i;
    event.teacher = teacher;
    event.change = change;
    event.layer = layer;
    event.kv_head = kv_head;
    event.positions.assign(positions().begin(), positions().end());
    event.origin = origin;
    event.refresh_id = refresh_id;
    event.bytes.assign(bytes().begin(), bytes().end());
    for (PositionRange& range : event.positions)
        range.first += i * range.n;
    if (i > 0) { // the stride of a row of one is not there yet: the writer may be setting it
        for (int64_t& held : event.bytes)
            held += i * bytes_stride;
    }
    return event;
}

bool CacheEntry::extend(const CacheEvent& event) {
    const int64_t n = m_steps; // only this thread writes it
    const bool same = change == CacheChange::appended && event.change == change && event.teacher == teacher &&
                      event.origin == origin && event.layer == layer && event.kv_head == kv_head &&
                      event.refresh_id == refresh_id && event.step == step + n;
    if (!same || m_many || event.positions.size() != 1 || event.bytes.size() != bytes().size()) return false;
    if (event.positions[0] != PositionRange{m_range.first + n * m_range.n, m_range.n}) return false;
    if (!event.bytes.empty()) {
        const int64_t stride = n == 1 ? event.bytes[0] - m_bytes : bytes_stride;
        if (event.bytes[0] != m_bytes + n * stride) return false;
        if (n == 1)
            bytes_stride = stride; // before the second event is seen; no reader of a row of one looks at it
    }
    std::atomic_ref<int64_t>(m_steps).store(n + 1, std::memory_order_release); // acquired by steps()
    return true;
}

void CacheEntry::set_steps(int64_t steps) {
    RL_ASSERT(steps >= 1);
    if (steps == 1) bytes_stride = 0; // a row of one has none
    std::atomic_ref<int64_t>(m_steps).store(steps, std::memory_order_release);
}

} // namespace refreshlab
