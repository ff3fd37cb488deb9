#include "ui/scene/attention/read_weights.h"

#include <algorithm>
#include <cstddef>

namespace refreshlab::ui {

bool ReadWeights::update(const Recording& recording, int64_t query,
                         std::optional<std::pair<int32_t, int32_t>> head) {
    auto rows = recording.attention(query, false);
    if (rows == m_rows && head == m_head) return !m_weights.empty();
    m_rows = std::move(rows);
    m_head = head;
    m_weights.clear();
    m_largest = 0;
    if (!m_rows || m_rows->keys < 1) return false;
    const auto keys = static_cast<size_t>(m_rows->keys), heads = static_cast<size_t>(m_rows->heads);
    const auto add = [&](size_t row, float part) {
        for_each_share(*m_rows, row, [&](const AttentionShare& share) {
            const float weight = part * half_to_float(share.share);
            for (auto k = static_cast<size_t>(share.first); k < static_cast<size_t>(share.end); ++k)
                m_weights[k] += weight;
        });
    };
    if (head) {
        const auto layer = std::ranges::find(m_rows->layers, head->first);
        if (layer == m_rows->layers.end() || head->second < 0 || head->second >= m_rows->heads) return false;
        m_weights.assign(keys, 0);
        add(static_cast<size_t>(layer - m_rows->layers.begin()) * heads + static_cast<size_t>(head->second),
            1);
    } else {
        const size_t count = m_rows->layers.size() * heads;
        if (count == 0) return false;
        m_weights.assign(keys, 0);
        for (size_t row = 0; row < count; ++row)
            add(row, 1.0F / static_cast<float>(count));
    }
    for (size_t k = 1; k < keys; ++k)
        m_largest = std::max(m_largest, m_weights[k]);
    return true;
}

} // namespace refreshlab::ui
