#include "engine/session/parts/attention_rows.h"

#include "engine/base/check.h"
#include "engine/session/parts/stopwatch.h"
#include "kernels/execution/thread_pool.h"
#include "kernels/ops/probabilities.h"
#include "kernels/shared/attention_bins.h"

#include <utility>

namespace refreshlab {

AttentionRowsCapture::AttentionRowsCapture(const ModelConfig& config, std::vector<int32_t> layers,
                                           int64_t position, int64_t bins)
    : AttentionCapture(config, std::move(layers), position)
    , m_rows(std::make_shared<AttentionRows>())
    , m_bins(bins) {
    const Stopwatch watch;
    m_rows->position = position;
    m_rows->heads = heads();
    m_rows->keys = position + 1;
    m_rows->bin = kernels::shared::bin_width(m_rows->keys, bins);
    m_rows->layers = this->layers();
    m_rows->weights.resize(m_rows->layers.size() * static_cast<size_t>(m_rows->heads * m_rows->numbers()));
    const auto fresh =
        RowMemory::claim_fresh(m_rows->weights.data(), m_rows->weights.size() * sizeof(uint16_t));
    kernels::parallel_for(static_cast<int64_t>(fresh.size()), 64 * 1024, [&](int64_t begin, int64_t end) {
        RowMemory::fetch(fresh.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin)));
    });
    m_ms = watch.ms();
}

void AttentionRowsCapture::keep(size_t index, std::span<const float> row) {
    const Stopwatch watch;
    kernels::rows_to_half(row, m_rows->heads, m_rows->bin, row_of(index));
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
    return std::move(m_rows);
}

} // namespace refreshlab
