#pragma once

#include "engine/policies/cache_method.h"
#include "engine/policies/cache_scores.h"

#include <cstdint>
#include <vector>

namespace refreshlab {

/// The choice of DapQ and LookaheadKV: of the prompt stays what rows behind it attend to the most.
///   score[h][j] = sum over these rows of the attention on prompt entry j, reduced over the group, pooled
class FutureChoice {
public:
    /// From the parameters budget, kernel, pool and group.
    FutureChoice(const CacheValues& values, const PolicyContext& context);

    [[nodiscard]] bool chooses() const; ///< not everything stays
    void add(const FutureView& view);
    /// Keeps the `budget` best entries of each KV head.
    void keep(CacheEditor& cache);

private:
    int64_t m_budget, m_kernel;
    cache_scores::Pooling m_pooling;
    cache_scores::Group m_group;
    PolicyContext m_context;
    std::vector<std::vector<std::vector<float>>>
        m_sums; ///< [layers][heads][prompt], until the prompt is read
};

} // namespace refreshlab
