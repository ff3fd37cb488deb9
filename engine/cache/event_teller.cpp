#include "engine/cache/event_teller.h"

#include <algorithm>
#include <utility>

namespace refreshlab {

namespace {

std::vector<PositionRange> ranges_of(std::span<const int64_t> positions) {
    std::vector<PositionRange> ranges;
    for (const int64_t position : positions) {
        if (!ranges.empty() && ranges.back().first + ranges.back().n == position) {
            ++ranges.back().n;
        } else {
            ranges.push_back({position, 1});
        }
    }
    return ranges;
}

} // namespace

EventTeller::EventTeller(int64_t layers, int64_t kv_heads, bool layers_alike,
                         std::function<int64_t(int64_t layer)> layer_bytes)
    : m_layers(layers)
    , m_kv_heads(static_cast<size_t>(kv_heads))
    , m_layers_alike(layers_alike)
    , m_layer_bytes(std::move(layer_bytes)) {}

void EventTeller::set_listener(std::function<void(CacheEvent)> listener) {
    m_listener = std::move(listener);
}

/// One number where all layers hold the same.
std::vector<int64_t> EventTeller::bytes_of_all() const {
    if (m_layers_alike) return {m_layer_bytes(0)};
    std::vector<int64_t> bytes;
    for (int64_t layer = 0; layer < m_layers; ++layer)
        bytes.push_back(m_layer_bytes(layer));
    if (std::ranges::all_of(bytes, [&](int64_t b) { return b == bytes[0]; })) bytes.resize(1);
    return bytes;
}

void EventTeller::tell(CacheChange change, int64_t first_pos, int64_t n, Origin origin,
                       int32_t refresh) const {
    if (!listened_to() || n == 0) return;
    CacheEvent event;
    event.change = change;
    event.positions = {{first_pos, n}};
    event.origin = origin;
    event.refresh_id = refresh;
    event.bytes = bytes_of_all();
    m_listener(std::move(event));
}

void EventTeller::tell(CacheChange change, int64_t layer, int64_t kv_head, std::span<const int64_t> positions,
                       Origin origin, int32_t refresh) const {
    if (!listened_to()) return;
    CacheEvent event;
    event.change = change;
    event.layer = static_cast<int32_t>(layer);
    event.kv_head = static_cast<int32_t>(kv_head);
    event.positions = ranges_of(positions);
    event.origin = origin;
    event.refresh_id = refresh;
    event.bytes = layer < 0 ? bytes_of_all() : std::vector{m_layer_bytes(layer)};
    m_listener(std::move(event));
}

void EventTeller::note_edit(CacheChange change, int64_t layer, int64_t kv_head,
                            std::span<const int64_t> positions) {
    m_edits.push_back({change, layer, kv_head, {positions.begin(), positions.end()}});
}

bool EventTeller::are_a_layer(const std::vector<Edit>& edits, size_t first) const {
    if (first + m_kv_heads > edits.size()) return false;
    const Edit& a = edits[first];
    for (size_t head = 0; head < m_kv_heads; ++head) {
        const Edit& b = edits[first + head];
        if (b.layer != a.layer || b.kv_head != static_cast<int64_t>(head) || b.change != a.change ||
            b.positions != a.positions)
            return false;
    }
    return true;
}

bool EventTeller::are_everything(const std::vector<Edit>& edits) const {
    if (edits.size() != m_kv_heads * static_cast<size_t>(m_layers)) return false;
    for (size_t i = 0; i < edits.size(); i += m_kv_heads) {
        const bool next_layer = edits[i].layer == static_cast<int64_t>(i / m_kv_heads);
        if (!next_layer || !are_a_layer(edits, i) || edits[i].change != edits[0].change ||
            edits[i].positions != edits[0].positions)
            return false;
    }
    return true;
}

void EventTeller::tell_edits() {
    const std::vector<Edit> made = std::exchange(m_edits, {});
    if (!listened_to() || made.empty()) return;
    const bool all = are_everything(made);
    for (size_t i = 0; i < made.size();) {
        const bool layer = !all && are_a_layer(made, i);
        CacheEvent event;
        event.change = made[i].change;
        event.layer = all ? -1 : static_cast<int32_t>(made[i].layer);
        event.kv_head = all || layer ? -1 : static_cast<int32_t>(made[i].kv_head);
        event.positions = ranges_of(made[i].positions);
        event.bytes = all ? bytes_of_all() : std::vector{m_layer_bytes(made[i].layer)};
        m_listener(std::move(event));
        i += all ? made.size() : layer ? m_kv_heads : 1;
    }
}

} // namespace refreshlab
