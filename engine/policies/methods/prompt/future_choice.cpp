#include "engine/policies/methods/prompt/future_choice.h"

namespace refreshlab {

FutureChoice::FutureChoice(const CacheValues& values, const PolicyContext& context)
    : m_budget(values.whole("budget"))
    , m_kernel(values.whole("kernel"))
    , m_pooling(static_cast<cache_scores::Pooling>(values.whole("pool")))
    , m_group(static_cast<cache_scores::Group>(values.whole("group")))
    , m_context(context)
    , m_sums(static_cast<size_t>(context.layers)) {}

bool FutureChoice::chooses() const {
    return m_context.prompt_length > m_budget;
}

void FutureChoice::add(const FutureView& view) {
    const auto length = static_cast<size_t>(m_context.prompt_length);
    auto& sums = m_sums[static_cast<size_t>(view.layer)];
    sums.resize(static_cast<size_t>(m_context.heads), std::vector<float>(length, 0));
    for (int64_t row = 0; row < view.rows.n0; ++row)
        for (int64_t head = 0; head < m_context.heads; ++head) {
            const auto attention = view.rows.row(row, head);
            for (size_t j = 0; j < length; ++j)
                sums[static_cast<size_t>(head)][j] += attention[j];
        }
}

void FutureChoice::keep(CacheEditor& cache) {
    for (size_t layer = 0; layer < m_sums.size(); ++layer) {
        if (m_sums[layer].empty()) continue; // everything fits, or nothing is read here
        const std::vector<std::span<const float>> all(m_sums[layer].begin(), m_sums[layer].end());
        const auto group = static_cast<size_t>(m_context.group());
        for (int64_t head = 0; head < m_context.kv_heads; ++head) {
            const auto heads = std::span(all).subspan(static_cast<size_t>(head) * group, group);
            const std::vector<float> scores =
                cache_scores::pooled(cache_scores::reduce_group(heads, m_group), m_kernel, m_pooling);
            const auto index = static_cast<int64_t>(layer);
            // Column = position: nothing is gone yet.
            cache.score(index, head, cache.held(index, head), scores);
            cache.keep(index, head, cache_scores::top(scores, m_budget));
        }
    }
    m_sums.clear();
}

} // namespace refreshlab
