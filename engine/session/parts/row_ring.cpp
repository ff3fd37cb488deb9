#include "engine/session/parts/row_ring.h"

#include "engine/base/check.h"

#include <ATen/ops/empty.h>

namespace refreshlab {

RowRing::RowRing(int64_t rows, int64_t vocab, at::Device device)
    : m_rows(at::empty({rows, vocab}, at::TensorOptions().dtype(at::kFloat).device(device)))
    , m_positions(static_cast<size_t>(rows), -1) {}

void RowRing::put(int64_t position, const at::Tensor& row) {
    const int64_t slot = position % m_rows.size(0);
    m_rows[slot].copy_(row);
    m_positions[static_cast<size_t>(slot)] = position;
}

int64_t RowRing::slot(int64_t position) const {
    const int64_t slot = position % m_rows.size(0);
    return m_positions[static_cast<size_t>(slot)] == position ? slot : -1;
}

bool RowRing::holds(int64_t position) const {
    return slot(position) >= 0;
}

at::Tensor RowRing::row(int64_t position) const {
    RL_ASSERT(holds(position));
    return m_rows[slot(position)];
}

void RowRing::drop_from(int64_t position) {
    for (int64_t& held : m_positions) {
        if (held >= position) held = -1;
    }
}

} // namespace refreshlab
