#include "ui/scene/attention/read_history.h"

#include <fmt/format.h>

#include <algorithm>

namespace refreshlab::ui {

void ReadHistory::reset() {
    m_recording = nullptr;
    m_next = 0;
    m_any = false;
    m_changes.clear();
}

void ReadHistory::update(const Recording& recording) {
    const RunInfo& info = recording.info();
    if (m_recording != &recording) {
        reset();
        m_recording = &recording;
        m_layers = std::max<int64_t>(1, info.layers);
        m_kv_heads = std::max<int64_t>(1, info.kv_heads);
        m_group = std::max<int64_t>(1, info.heads / m_kv_heads);
        m_changes.resize(static_cast<size_t>(m_layers * m_kv_heads));
    }
    const bool teacher = info.config.mode == Mode::teacher;
    const auto& log = recording.cache_entries();
    for (const size_t n = log.size(); m_next < n; ++m_next) {
        const CacheEntry& entry = log[m_next];
        const bool read = entry.change == CacheChange::attended;
        const bool unread = entry.change == CacheChange::kept || entry.change == CacheChange::evicted ||
                            entry.change == CacheChange::merged;
        if (entry.teacher != teacher || !(read || unread)) continue;
        if (entry.layer >= m_layers || entry.kv_head >= m_kv_heads) continue;
        m_any = true;
        const auto step = static_cast<int32_t>(entry.step);
        for (int64_t layer = std::max(entry.layer, 0); layer < (entry.layer < 0 ? m_layers : entry.layer + 1);
             ++layer) {
            for (int64_t head = std::max(entry.kv_head, 0);
                 head < (entry.kv_head < 0 ? m_kv_heads : entry.kv_head + 1); ++head) {
                auto& plane = m_changes[static_cast<size_t>(layer * m_kv_heads + head)];
                for (const PositionRange& range : entry.positions()) {
                    const auto end = static_cast<size_t>(range.first + range.n);
                    if (plane.size() < end) plane.resize(end);
                    for (auto p = static_cast<size_t>(range.first); p < end; ++p)
                        plane[p].push_back({step, entry.change});
                }
            }
        }
    }
}

std::span<const ReadHistory::Change> ReadHistory::changes(int64_t layer, int64_t kv_head,
                                                          int64_t position) const {
    if (!m_any || layer >= m_layers || kv_head >= m_kv_heads) return {};
    const auto& plane = m_changes[static_cast<size_t>(layer * m_kv_heads + kv_head)];
    if (position < 0 || position >= static_cast<int64_t>(plane.size())) return {};
    return plane[static_cast<size_t>(position)];
}

std::string ReadHistory::why_unread(int64_t layer, int64_t kv_head, int64_t position, int64_t step) const {
    const auto all = changes(layer, kv_head, position);
    const auto after = std::ranges::upper_bound(all, static_cast<int32_t>(step), {}, &Change::step);
    if (after == all.begin()) return {};
    const Change& last = *std::prev(after);
    const std::string when =
        last.step == 0 ? std::string("after the prompt") : fmt::format("at step {}", last.step);
    switch (last.change) {
    case CacheChange::kept:
        return "held, but not read";
    case CacheChange::evicted:
        return "evicted " + when;
    case CacheChange::merged:
        return fmt::format("merged into others {}", when);
    default:
        return {};
    }
}

void ReadHistory::read_steps(int64_t layer, int64_t kv_head, int64_t position, int64_t first_step,
                             int64_t last_step, std::vector<StepSpan>& ranges) const {
    ranges.clear();
    const auto all = changes(layer, kv_head, position);
    auto next = std::ranges::upper_bound(all, static_cast<int32_t>(first_step), {}, &Change::step);
    bool read = next == all.begin() || std::prev(next)->change == CacheChange::attended;
    int64_t since = first_step;
    for (; next != all.end() && next->step <= last_step; ++next) {
        const bool now = next->change == CacheChange::attended;
        if (read && !now && next->step > since) ranges.push_back({since, next->step - 1});
        if (!read && now) since = next->step;
        read = now;
    }
    if (read && since <= last_step) ranges.push_back({since, last_step});
}

bool ReadHistory::is_unread(int64_t layer, int64_t kv_head, int64_t position, int64_t step) const {
    const auto all = changes(layer, kv_head, position);
    const auto next = std::ranges::upper_bound(all, static_cast<int32_t>(step), {}, &Change::step);
    return next != all.begin() && std::prev(next)->change != CacheChange::attended;
}

void mark_unread(const ReadHistory& history, const AttentionMap& map, size_t layer_index, size_t head_index,
                 int64_t prompt_length, uint32_t colour, std::span<uint32_t> colours) {
    if (history.all_read()) return;
    const AttentionMap::Shape& shape = map.shape();
    const QueryWindow window = shape.window;
    if (window.rows() < 1) return;
    const int64_t layer = shape.layers[layer_index], kv_head = history.kv_head_of(shape.heads[head_index]);
    const auto cells = map.cells(layer_index, head_index);
    std::vector<uint8_t> some(cells.size(), 0);
    std::vector<ReadHistory::StepSpan> read;
    const int64_t before_first = prompt_length - 1; // query q is that of step q - before_first
    for (int64_t key = 0; key < window.keys(); ++key) {
        history.read_steps(layer, kv_head, key, std::max(window.first_query, key) - before_first,
                           window.last_query - before_first, read);
        const int64_t column = key / map.key_factor();
        for (const auto& [first, last] : read) {
            const auto row_of = [&](int64_t step) {
                return (step + before_first - map.first_aligned()) / map.query_factor();
            };
            for (int64_t row = row_of(first); row <= row_of(last); ++row)
                some[static_cast<size_t>(row * map.columns() + column)] = 1;
        }
    }
    for (size_t i = 0; i < cells.size(); ++i)
        if (cells[i] == 0 && some[i] == 0) colours[i] = colour;
}

} // namespace refreshlab::ui
