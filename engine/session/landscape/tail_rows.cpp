#include "engine/session/landscape/tail_rows.h"

#include "engine/base/check.h"

#include <ATen/ops/full.h>

#include <algorithm>
#include <utility>

namespace refreshlab {

TailRows::TailRows(const ModelConfig& config, std::vector<RowPlace> places,
                   std::span<const std::vector<int64_t>> tails)
    : m_config(config)
    , m_places(std::move(places)) {
    RL_ASSERT(tails.size() >= m_places.size());
    tails = tails.first(m_places.size());
    size_t longest = 0;
    for (const auto& tail : tails)
        longest = std::max(longest, tail.size());
    m_tails = at::full({std::ssize(tails), static_cast<int64_t>(longest)}, -1, at::kLong);
    auto* row = m_tails.mutable_data_ptr<int64_t>();
    for (const auto& tail : tails) {
        std::ranges::copy(tail, row);
        row += longest;
    }
}

void TailRows::place(std::span<RowPlace> rows) {
    RL_ASSERT(rows.size() == m_places.size());
    std::ranges::copy(m_places, rows.begin());
}

void TailRows::attend(int64_t layer, kernels::AttentionInputs& inputs) {
    inputs.tails = m_tails;
    const int64_t window = m_config.window(layer);
    if (window <= 0) return;
    m_first.clear();
    for (const RowPlace& place : m_places)
        m_first.push_back(std::max<int64_t>(place.position - window + 1, 0));
    inputs.first_visible = m_first;
}

} // namespace refreshlab
