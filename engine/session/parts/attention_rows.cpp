#include "engine/session/parts/attention_rows.h"

#include "engine/base/check.h"
#include "engine/session/parts/stopwatch.h"
#include "kernels/ops/probabilities.h"

#include <utility>

namespace refreshlab {

AttentionRowsCapture::AttentionRowsCapture(const ModelConfig& config, std::vector<int32_t> layers,
                                           int64_t position)
    : AttentionCapture(config, std::move(layers), position)
    , m_rows(std::make_shared<AttentionRows>()) {
    m_rows->position = position;
    m_rows->heads = heads();
    m_rows->keys = position + 1;
    m_rows->layers = this->layers();
    m_rows->weights.resize(m_rows->layers.size() * static_cast<size_t>(m_rows->heads * m_rows->keys));
}

void AttentionRowsCapture::keep(size_t index, std::span<const float> row) {
    const Stopwatch watch;
    kernels::to_half(row, std::span(m_rows->weights).subspan(index * row.size(), row.size()));
    m_ms += watch.ms();
}

std::shared_ptr<const AttentionRows> AttentionRowsCapture::take(int64_t step, bool teacher) {
    RL_ASSERT(m_rows != nullptr && is_complete());
    m_rows->step = step;
    m_rows->teacher = teacher;
    return std::move(m_rows);
}

} // namespace refreshlab
