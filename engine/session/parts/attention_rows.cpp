#include "engine/session/parts/attention_rows.h"

#include "engine/base/check.h"
#include "engine/session/parts/stopwatch.h"
#include "kernels/execution/thread_pool.h"
#include "kernels/ops/probabilities.h"
#include "kernels/shared/attention_bins.h"

#include <algorithm>
#include <utility>

namespace refreshlab {

AttentionRowsCapture::AttentionRowsCapture(const ModelConfig& config, std::vector<int32_t> layers,
                                           int64_t position, AttentionLimits limits)
    : AttentionCapture(config, std::move(layers), position)
    , m_rows(std::make_shared<AttentionRows>())
    , m_limits(limits)
    , m_width(kernels::shared::bin_width(position + 1, limits.bins)) {
    const Stopwatch watch;
    m_rows->position = position;
    m_rows->heads = heads();
    m_rows->keys = position + 1;
    m_rows->edges = bin_edges(m_rows->keys, m_width);
    m_rows->layers = this->layers();
    m_rows->weights.resize(m_rows->rows() * static_cast<size_t>(m_rows->numbers()));
    const auto fresh =
        RowMemory::claim_fresh(m_rows->weights.data(), m_rows->weights.size() * sizeof(uint16_t));
    kernels::parallel_for(static_cast<int64_t>(fresh.size()), 64 * 1024, [&](int64_t begin, int64_t end) {
        RowMemory::fetch(fresh.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin)));
    });
    m_ms = watch.ms();
}

void AttentionRowsCapture::keep(size_t index, std::span<const float> row) {
    const Stopwatch watch;
    kernels::rows_to_half(row, m_rows->heads, m_width, row_of(index));
    m_ms += watch.ms();
}

std::span<uint16_t> AttentionRowsCapture::row_of(size_t index) const {
    const auto n = static_cast<size_t>(m_rows->heads * m_rows->numbers());
    return std::span(m_rows->weights).subspan(index * n, n);
}

std::shared_ptr<const AttentionRows> AttentionRowsCapture::take(int64_t step, bool teacher) {
    RL_ASSERT(m_rows != nullptr && is_complete());
    m_rows->step = step;
    m_rows->teacher = teacher;
    const Stopwatch watch;
    auto kept = m_rows->every_key() ? compacted() : nullptr;
    if (kept == nullptr) kept = std::move(m_rows);
    m_rows = nullptr;
    m_ms += watch.ms();
    return kept;
}

/// The rows in the layout of their limit. \return null where that is every key
std::shared_ptr<AttentionRows> AttentionRowsCapture::compacted() const {
    const auto layers = std::ssize(m_rows->layers);
    AttentionLayout layout = attention_layout(m_limits.bytes, layers, m_rows->heads, m_rows->keys);
    if (layout.edges.empty()) return nullptr;
    auto kept = std::make_shared<AttentionRows>();
    kept->position = m_rows->position;
    kept->step = m_rows->step;
    kept->teacher = m_rows->teacher;
    kept->heads = m_rows->heads;
    kept->keys = m_rows->keys;
    kept->layers = m_rows->layers;
    kept->edges = layout.edges;
    kept->exact = layout.exact;
    const auto stride = static_cast<size_t>(kept->stride()), apart = static_cast<size_t>(kept->exact),
               keys = static_cast<size_t>(kept->keys);
    kept->weights.resize(kept->rows() * stride);
    kept->exact_keys.resize(kept->rows() * apart);
    constexpr int64_t keys_of_chunk = 64 * 1024; // some 60 us
    kernels::parallel_for(static_cast<int64_t>(kept->rows()),
                          std::max<int64_t>(1, keys_of_chunk / kept->keys), [&](int64_t begin, int64_t end) {
                              for (auto row = static_cast<size_t>(begin); row < static_cast<size_t>(end);
                                   ++row)
                                  compact_row(std::span(m_rows->weights).subspan(row * keys, keys), layout,
                                              std::span(kept->weights).subspan(row * stride, stride),
                                              std::span(kept->exact_keys).subspan(row * apart, apart));
                          });
    return kept;
}

} // namespace refreshlab
